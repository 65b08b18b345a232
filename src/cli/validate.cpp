#include "cli/commands.hpp"
#include "cli/load.hpp"

namespace combu {

void add_validate(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("validate", "Tell every error of the file; print nothing when there is none");
  command.footer("Example:\n  combu -f experiment.jsonnet validate");
  command.callback([&invocation, &action] {
    action = [&invocation] {
      const auto progress = open_progress(invocation);
      return load(invocation, RunId::random(), *progress) ? 0 : 2;
    };
  });
}

}  // namespace combu
