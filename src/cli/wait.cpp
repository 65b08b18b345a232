#include "app/wait.hpp"

#include <fmt/format.h>

#include <memory>
#include <sstream>
#include <string_view>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/progress.hpp"
#include "combu/view.hpp"

namespace combu {
namespace {

struct WaitOptions {
  SelectionOptions selection;
  bool json = false;
};

void print_end(const Observation& seen, const TrialRow& row, bool json) {
  const TrialEntry& entry = row.entry;
  if (json) {
    RunRow run;
    run.entry.id = seen.key.run;
    run.entry.experiment = seen.experiment;
    std::ostringstream text;
    print_trials_json(text, run, {&row, 1}, real_clock().now());
    (void)put_out(text.str());
  } else {
    const std::string reason = reason_text_beside_state(entry);
    (void)put_out(
        fmt::format("{}: {}{}{}\n", entry.name, to_string(entry.state), reason.empty() ? "" : ": ", reason));
  }
}

}  // namespace

void add_wait(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("wait", "Wait until trials end; the exit code is 1 if a trial failed or was stopped");
  const auto options = std::make_shared<WaitOptions>();
  command
      .add_option("TRIAL", options->selection.trials,
                  "Only trials with these names, such as solver-a-*; default: all except services")
      .type_name("");
  add_selection(command, options->selection);
  command.add_flag("--json", options->json, "Print one JSON object per line");
  command.footer("Example:\n  combu -f experiment.jsonnet wait solver-a-1 'solver-b-*'");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const Invocation meant = for_selection(invocation, options->selection);
      return in_session(meant, [&](Session& session) {
        return wait(session, meant, options->selection, [&](const Observation& seen, const TrialRow& row) {
          print_end(seen, row, options->json);
        });
      });
    };
  });
}

}  // namespace combu
