#include <memory>
#include <string>

#include "app/load.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/session.hpp"

namespace combu {

void add_validate(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("validate", "Check the file and print all its errors or warnings; start nothing");
  const auto file = std::make_shared<std::string>();
  add_file_argument(command, *file);
  command.footer("Example:\n  combu validate experiment.jsonnet");
  command.callback([&invocation, &action, file] {
    action = [&invocation, file] {
      const auto progress = open_progress(invocation);
      return load(with_file(invocation, *file), RunId::random(), *progress) ? 0 : 2;
    };
  });
}

}  // namespace combu
