#include <memory>

#include "app/history.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "combu/view.hpp"

namespace combu {
namespace {

struct EventsOptions {
  HistoryOptions history;
  std::int64_t limit = -1;
  bool json = false;
};

int events(const Invocation& invocation, const EventsOptions& options) {
  const TableForm form = options.json ? json_form(options.limit) : table_form(options.limit);
  std::size_t count = 0;
  read_events(invocation, options.history, [&](const EventEntry& event) {
    ++count;
    // events beyond the row limit are counted, but not printed
    if (form.shown(count) < count) return !options.json;
    return put_out((options.json ? event_json(event) : event_line(event, form.columns)) + "\n");
  });
  const std::size_t left_out = count - form.shown(count);
  if (!options.json && left_out > 0) (void)put_out(more_text(left_out) + "\n");
  return 0;
}

}  // namespace

void add_events(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("events", "Show the events of a run");
  const auto options = std::make_shared<EventsOptions>();
  add_run_option(command, options->history.run);
  add_limit(command, options->limit);
  command.add_flag("--json", options->json, "Print one JSON object per line");
  command.add_option("TRIAL", options->history.trial, "Only events of this trial").type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet events solver-a-1");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return events(invocation, *options); };
  });
}

}  // namespace combu
