#include "app/kill.hpp"

#include <memory>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/session.hpp"

namespace combu {

void add_kill(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("kill", "Remove an experiment's containers, running or not, and its networks");
  const auto options = std::make_shared<KillOptions>();
  add_selection(command, *options);
  command.add_flag("--discard", options->discard,
                   "Also remove containers whose outputs or logs have not been collected");
  command.footer("Example:\n  combu -f experiment.jsonnet kill");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const Invocation meant = options->experiment.empty() ? with_default_file(invocation) : invocation;
      if (meant.file.empty() && options->experiment.empty())
        throw Error(ErrorKind::invalid, "kill",
                    "an experiment must be given; use -f FILE or --experiment NAME");
      return in_session(meant, [&](Session& session) { return kill(session, meant, *options); });
    };
  });
}

}  // namespace combu
