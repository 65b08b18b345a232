#include <memory>

#include "app/resume.hpp"
#include "cli/background.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

struct RetryCommand : RetryOptions {
  bool detach = false;
};

int retry(const Invocation& invocation, const RetryOptions& options, const Background* background) {
  RunOwner owner(background);
  CommandSessions sessions(owner.share(open_progress(invocation)));
  const OpenSession open_session = sessions.opener();
  try {
    return owner.done(
        sessions.exit_code(retry_trials({invocation, sessions.progress(), open_session, owner}, options)));
  } catch (const Error& error) {
    return owner.done(sessions.exit_code(error));
  }
}

}  // namespace

void add_retry(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("retry", "Start trials of a run again, with the dependencies that they need");
  const auto options = std::make_shared<RetryCommand>();
  add_run_option(command, options->run);
  command.add_flag("--failed", options->failed,
                   "Also retry all trials that failed or were stopped (the default without TRIAL)");
  command.add_flag("--edited", options->edited, "Use the edited file, as `apply` does");
  command.add_flag("--wait", options->wait, "Wait until all trials have ended");
  add_detach_option(command, options->detach);
  command
      .add_option(
          "TRIAL", options->trials,
          "Names or conditions on params, such as solver-a-* or lr<0.01; default: all trials that failed or "
          "were stopped")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet retry --failed");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const auto body = [&](const Background* background) { return retry(invocation, *options, background); };
      return options->detach ? in_background(body) : body(nullptr);
    };
  });
}

}  // namespace combu
