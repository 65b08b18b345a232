#include "app/why.hpp"

#include <memory>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

int why(const Invocation& invocation, const WhyOptions& options) {
  CommandSessions sessions(open_progress(invocation));
  const auto text_of = options.trial.empty() ? why_run : why_trial;
  (void)put_out(text_of(invocation, options, sessions.opener()));
  return 0;
}

}  // namespace

void add_why(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command(
      "why", "Explain the state of a trial in one line; without a trial, explain all failures of the run");
  const auto options = std::make_shared<WhyOptions>();
  add_run_option(command, options->run);
  command
      .add_option("TRIAL", options->trial,
                  "The trial's name; default: all trials that failed, were stopped or were blocked")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet why solver-a-1");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return why(invocation, *options); };
  });
}

}  // namespace combu
