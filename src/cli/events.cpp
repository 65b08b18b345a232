#include <memory>
#include <sstream>

#include "app/runs.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "combu/view.hpp"

namespace combu {
namespace {

struct EventsOptions {
  std::string run;
  std::string trial;
  std::int64_t limit = -1;
  bool json = false;
};

int events(const Invocation& invocation, const EventsOptions& options) {
  Record record = open_record(invocation, Record::Use::reading);
  const RunEntry entry = find_run(record, invocation, options.run);
  const TableForm form = options.json ? json_form(options.limit) : table_form(options.limit);
  std::size_t count = 0;
  record.events(entry.id, options.trial, [&](const EventEntry& event) {
    ++count;
    if (form.shown(count) < count) return !options.json;  // the others are only counted
    return put_out((options.json ? event_json(event) : event_line(event, form.columns)) + "\n");
  });
  const std::size_t left_out = count - form.shown(count);
  if (!options.json && left_out > 0) (void)put_out(more_text(left_out) + "\n");
  if (count == 0 && !options.trial.empty() && record.trials(entry.id, options.trial).empty())
    throw Error(ErrorKind::not_found, options.trial, "is no trial of run " + entry.id.text());
  return 0;
}

}  // namespace

void add_events(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("events", "Show what happened in the last run, from the record");
  const auto options = std::make_shared<EventsOptions>();
  add_run_option(command, options->run);
  add_limit(command, options->limit);
  command.add_flag("--json", options->json, "One JSON object a line");
  command.add_option("TRIAL", options->trial, "Of this trial only").type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet events solver-a-1");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return events(invocation, *options); };
  });
}

}  // namespace combu
