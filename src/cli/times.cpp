#include <memory>
#include <span>

#include "app/history.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "combu/analysis.hpp"
#include "combu/view.hpp"

namespace combu {
namespace {

struct TimesOptions {
  HistoryOptions history;
  std::int64_t limit = -1;
  bool json = false;
};

int times(const Invocation& invocation, const TimesOptions& options) {
  const auto [run, attempts] = read_times(invocation, options.history);
  OutStream out;
  if (options.json) {
    print_attempt_times_json(out, attempts, json_form(options.limit));
  } else if (!options.history.trial.empty()) {
    print_attempt_times(out, attempts, table_form(options.limit));
  } else {
    print_times(out, run, attempts, real_clock().now());
  }
  out.flush();
  return 0;
}

}  // namespace

void add_times(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("times", "Show how a run spent its time");
  const auto options = std::make_shared<TimesOptions>();
  add_run_option(command, options->history.run);
  add_limit(command, options->limit);
  command.add_flag("--json", options->json,
                   "Print the durations of each attempt's phases in seconds, one JSON object per line");
  command.add_option("TRIAL", options->history.trial, "Show how this trial's attempts spent their time")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet times");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return times(invocation, *options); };
  });
}

}  // namespace combu
