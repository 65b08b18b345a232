#include "app/history.hpp"

#include <utility>

#include "combu/session.hpp"

namespace combu {

void read_events(const Invocation& invocation, const HistoryOptions& options,
                 const std::function<bool(const EventEntry&)>& sink) {
  Record record = open_record(invocation, Record::Use::reading);
  const RunEntry run = find_run(record, invocation, options.run);
  bool any = false;
  record.events(run.id, options.trial, [&](const EventEntry& event) {
    any = true;
    return sink(event);
  });
  if (!any && !options.trial.empty() && record.trials(run.id, options.trial).empty())
    throw Error(ErrorKind::not_found, options.trial, "is not a trial of run " + run.id.text());
}

std::vector<RunId> recent_runs(const Invocation& invocation, std::size_t count_max) {
  Record record = open_record(invocation, Record::Use::reading);
  const RunEntry newest = find_run(record, invocation, "");
  std::vector<RunId> runs;
  for (const RunEntry& run :
       record.runs({.file = newest.file, .simulated = newest.engine.is_simulated}, count_max))
    runs.push_back(run.id);
  return runs;
}

RunTimes read_times(const Invocation& invocation, const HistoryOptions& options) {
  Record record = open_record(invocation, Record::Use::reading);
  RunEntry run = find_run(record, invocation, options.run);
  std::vector<TimedAttempt> attempts = times_of(record.attempts(run.id, options.trial), run);
  if (attempts.empty() && !options.trial.empty())
    throw Error(ErrorKind::not_found, options.trial, "has no attempt in run " + run.id.text());
  return {.run = std::move(run), .attempts = std::move(attempts)};
}

}  // namespace combu
