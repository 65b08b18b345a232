#include "app/recorded_logs.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "app/load.hpp"
#include "app/log_reading.hpp"
#include "app/run_telemetry.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {

RecordedLogs::RecordedLogs(const Invocation& invocation, const SelectionOptions& selection,
                           const std::string& trial)
    : folder_(state_folder(caller_for(invocation))) {
  if (!Record::exists(folder_)) return;
  const RunFilter filter = filter_of(invocation, selection);
  if (filter.experiment.empty() && filter.file.empty() && !filter.id) return;
  try {
    Record record(folder_, Record::Use::reading);
    for (const RunEntry& entry : record.runs(filter, 1)) {
      run_ = entry.id;
      trials_ = record.trials(entry.id, trial);
      unmatched_ = selection.trials;
      std::erase_if(trials_, [&](const TrialEntry& one) {
        drop_matching(unmatched_, one.name);
        return !is_chosen(selection.trials, one.name);
      });
    }
    open_telemetry();
  } catch (const Error& error) {
    fault_ = error;
  }
}

void RecordedLogs::look_everywhere(const std::string& trial) {
  if (!Record::exists(folder_)) return;
  Record record(folder_, Record::Use::reading);
  std::set<std::string> experiments;
  for (const RunEntry& entry : record.runs({}, SIZE_MAX)) {
    if (experiments.contains(entry.experiment)) continue;
    std::vector<TrialEntry> found = record.trials(entry.id, trial);
    if (found.empty() || (!found.front().ran_at && found.front().state != TrialState::skipped)) continue;
    experiments.insert(entry.experiment);
    if (run_) continue;
    run_ = entry.id;
    trials_ = std::move(found);
  }
  if (experiments.size() > 1) throw of_several_experiments(trial, experiments);
  open_telemetry();
}

void RecordedLogs::expect_stored(const std::string& trial) const {
  if (!run_) return;
  Record record(folder_, Record::Use::reading);
  const Loaded loaded = load(record, *run_);
  const auto found = std::ranges::find(loaded.run.experiment.trials, trial, &Trial::name);
  if (found != loaded.run.experiment.trials.end() && !found->has_telemetry())
    throw Error(
        ErrorKind::not_found, trial,
        "combu has stored no log, because `logs.max_size` is 0; only the trial's container had the log");
}

Key RecordedLogs::key_of(const TrialEntry& entry) const {
  return {.run = *run_, .trial = entry.name, .attempt = telemetry_attempt(entry)};
}

bool RecordedLogs::is_whole(const TrialEntry& entry) {
  if (is_over(entry.state) && !entry.ran_at) return true;
  const auto kept = log(entry.name, telemetry_attempt(entry));
  return kept && kept->complete;
}

bool RecordedLogs::are_whole() {
  return !trials_.empty() &&
         std::ranges::all_of(trials_, [&](const TrialEntry& entry) { return is_whole(entry); });
}

bool RecordedLogs::read(const Key& key, const StoredLog& log, const LogOptions& wanted, LogSink& sink) {
  LogPlace place;
  note_gaps(log, wanted, sink);
  return read_stored(*telemetry_, key, log, wanted, place, sink);
}

void RecordedLogs::open_telemetry() {
  if (run_ && Telemetry::exists(folder_, *run_))
    telemetry_ = std::make_unique<Telemetry>(folder_, *run_, Telemetry::Use::reading);
}

}  // namespace combu
