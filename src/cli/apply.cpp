#include "app/apply.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/run_owner.hpp"
#include "cli/background.hpp"
#include "cli/commands.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

struct ApplyOptions {
  std::string run;
  bool failed = false;
  std::vector<std::string> replace;
  bool detach = false;
};

int apply(const Invocation& invocation, const ApplyOptions& options, const Background* background) {
  RunOwner owner(background);
  CommandSessions sessions(owner.share(open_progress(invocation)));
  RestartRequest restart{.again = {}, .failed = options.failed, .replace = options.replace};
  // The parser stores "true" for an option without a value.
  std::ranges::replace(restart.replace, "true", "*");
  try {
    return owner.done(sessions.exit_code(
        apply(invocation, options.run, restart, sessions.progress(), sessions.opener(), owner)));
  } catch (const Error& error) {
    return owner.done(sessions.exit_code(error));
  }
}

}  // namespace

void add_apply(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command(
      "apply", "Apply the edited file to a run: add new trials, stop removed ones, continue the others");
  const auto options = std::make_shared<ApplyOptions>();
  command.add_flag("--failed", options->failed,
                   "Also start unchanged trials again if they failed, were stopped or were blocked");
  command.add_flag("--replace", options->replace,
                   "Also start changed trials again if they run or have ended; "
                   "=TRIALS selects some by name or condition, such as solver-a-* or lr<0.01");
  add_detach_option(command, options->detach);
  command.add_option("RUN", options->run, "The run's id; default: the file's newest run that a process owns")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet apply");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const auto body = [&](const Background* background) { return apply(invocation, *options, background); };
      return options->detach ? in_background(body) : body(nullptr);
    };
  });
}

}  // namespace combu
