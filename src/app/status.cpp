#include "app/status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "app/run_list.hpp"
#include "app/run_results.hpp"
#include "app/run_status.hpp"
#include "app/run_telemetry.hpp"
#include "app/trial_choice.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr Seconds k_usage_patience{0.5};
constexpr std::size_t k_usages_max = 200;
constexpr std::size_t k_usages_in_flight = 16;

// Asks the engine how much memory and CPU the running trials use, but only for the first k_usages_max trials.
// If the engine does not answer in time, the values stay unknown.
void ask_usage(Session& session, std::span<TrialRow> rows) {
  std::vector<TrialRow*> running;
  for (TrialRow& row : rows)
    if (row.entry.state == TrialState::running && !row.entry.container.empty()) running.push_back(&row);
  const std::size_t count = running.size();
  running.resize(std::min(count, k_usages_max));
  if (running.empty()) return;
  // The duration is limited, because an engine does not report the usage of a container while files are
  // copied out of the container.
  const Patience patience(session.stop(), k_usage_patience);
  try {
    in_parallel(running.size(), k_usages_in_flight, [&](std::size_t i) {
      try {
        running[i]->usage = session.engine().usage(running[i]->entry.container, patience.token());
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::cancelled) throw;
      }
    });
  } catch (const Error&) {
    if (session.stop().stop_requested()) throw;
  }
  if (count > k_usages_max)
    session.progress().note(
        fmt::format("memory and CPU use are shown for {} of {} running trials; choose others with "
                    "names, --where or --limit",
                    k_usages_max, count));
}

// `names`: names that a condition uses, but for which no trial has a value.
void note_names_without_values(Progress& progress, Record& record, const RunEntry& run,
                               const std::set<std::string>& names) {
  if (names.empty()) return;
  const Results results = read_results(record, nullptr, run);
  for (const std::string& name : names) progress.note(valueless_text(results, name));
}

// Adds to each failure the last line of the failed trial's log. Joins equal failures in one row, at the
// position of the first failure.
void join_failures(std::vector<TrialRow>& rows, const LastLine& last_line) {
  std::vector<Failure> failures;
  for (TrialRow& row : rows) {
    TrialEntry& entry = row.entry;
    if (!is_unsuccessful(entry.state, entry.cause)) continue;
    const bool has_log = entry.state != TrialState::blocked && entry.ran_at && last_line;
    failures.push_back(failure_of(entry.name, entry, has_log ? last_line(entry.name, entry.attempt) : ""));
    entry.reason = failures.back().reason;
    entry.details = EndDetails{.stopper = failures.back().stopper};
  }
  // The key is the name of a failed trial. nullopt: the row of another trial also shows this trial's failure.
  std::unordered_map<std::string, std::optional<FailureGroup>> joined;
  for (FailureGroup& group : group_failures(failures)) {
    if (group.trials.size() == 1) continue;
    for (const std::string_view trial : group.trials) joined.emplace(trial, std::nullopt);
    joined.insert_or_assign(std::string(group.trials.front()), std::move(group));
  }
  std::vector<TrialRow> kept;
  for (const TrialRow& row : rows) {
    const auto found = joined.find(row.entry.name);
    if (found == joined.end()) {
      kept.push_back(row);
    } else if (found->second) {
      TrialEntry entry;
      entry.name = trials_text(found->second->trials);
      entry.state = found->second->state;
      entry.attempt = 0;
      entry.reason = found->second->reason;
      entry.details = EndDetails{.stopper = found->second->stopper};
      kept.push_back({.entry = std::move(entry)});
    }
  }
  rows = std::move(kept);
}

Selector selector_of(const RunEntry& run, const SelectionOptions& selection) {
  if (!selection.run.empty()) return {.experiment = run.experiment, .run = run.id};
  if (!selection.experiment.empty()) return {.experiment = run.experiment};
  return {.file = run.file};
}

Result show_trials(Session& session, Record& record, const RunEntry& entry, const StatusQuery& query,
                   const StatusListener& listener) {
  const SelectionOptions& selection = query.selection;
  const TrialChoice choice(selection.trials, query.where);
  const std::string single = choice.single();
  const auto listed = list_or_note(session, selector_of(entry, selection));
  const bool all_details = query.all_details || choice.has_condition() || !single.empty();
  RunStatus status =
      run_status(session, record, entry,
                 {.listed = listed, .trial = single, .detail = all_details ? Detail::all : Detail::state});
  std::vector<TrialRow>& rows = status.trials;
  std::vector<Observation> unrecorded = listed.value_or(std::vector<Observation>());
  leave_unrecorded(record, unrecorded);
  const std::vector<std::string> unmatched = choice.unmatched(rows, unrecorded);
  const RunEntry& run = status.run.entry;
  note_names_without_values(session.progress(), record, run, choice.apply(run, rows));
  choice.apply(unrecorded);
  const std::string whose = "run " + run.id.text();
  if (rows.empty() && unrecorded.empty()) expect_all_matched(unmatched, whose);
  // If a user names trials, each trial gets its own row.
  if (query.join_failures && selection.trials.empty()) {
    const std::unique_ptr<Telemetry> logs = open_telemetry_to_read(run.id, state_folder(caller_for({})));
    join_failures(rows, last_lines_in(logs.get()));
  }
  const std::size_t shown = query.trials_max == 0 ? rows.size() : std::min(query.trials_max, rows.size());
  if (listed) ask_usage(session, std::span(rows).first(shown));
  listener.trials(status.run, rows, unrecorded);
  expect_all_matched(unmatched, whose);
  return Result::succeeded;
}

// Shows the containers of a run that is not on record, or of any run if the record cannot be read.
void show_containers(Session& session, const Invocation& invocation, const StatusQuery& query,
                     const StatusListener& listener, bool is_record_read) {
  const SelectionOptions& selection = query.selection;
  const TrialChoice choice(selection.trials, query.where);
  std::vector<Observation> containers =
      list_all(session, selectors_of(session, invocation, selection), ListDetail::consistent);
  if (containers.empty()) {
    const std::string why = with_others(
        is_record_read ? "no matching run is on record, and no matching container is on this engine"
                       : "no matching container is on this engine",
        session, invocation, selection);
    if (!selection.run.empty()) throw Error(ErrorKind::not_found, "run " + selection.run, why);
    if (!selection.experiment.empty()) throw Error(ErrorKind::not_found, selection.experiment, why);
    session.progress().note(why);
  }
  const std::vector<std::string> unmatched = choice.unmatched({}, containers);
  choice.apply(containers);
  listener.containers(containers);
  expect_all_matched(unmatched, "the containers on this engine");
}

// Returns the newest recorded run that the query matches.
std::optional<RunEntry> find_on_record(Record& record, const Invocation& invocation, const StatusQuery& query,
                                       Progress& progress) {
  RunFilter filter = filter_of(invocation, query.selection);
  filter.address = query.address;
  std::vector<RunEntry> entries = record.runs(filter, 1);
  if (!entries.empty()) return std::move(entries.front());
  if (filter.simulated == false) {
    filter.simulated = true;
    if (!record.runs(filter, 1).empty()) progress.note(k_only_simulated);
  }
  return std::nullopt;
}

}  // namespace

Result status(const Invocation& invocation, Progress& progress, const OpenSession& open_session,
              const StatusQuery& query, const StatusListener& listener) {
  const SelectionOptions& selection = query.selection;
  const bool is_of_runs = invocation.file.empty() && selection.experiment.empty() && selection.run.empty();
  if (is_of_runs && !selection.trials.empty())
    throw Error(ErrorKind::invalid, "",
                "a run must be given with the names of trials; use -f FILE, --experiment NAME or --run ID");
  const std::string folder = state_folder(caller_for(invocation));
  std::optional<Record> record;
  Result record_result = Result::succeeded;
  try {
    if (Record::exists(folder)) record.emplace(folder, Record::Use::reading);
  } catch (const Error& error) {
    progress.error(error.what());
    record_result = result_of(error.kind());
  }
  if (is_of_runs) {
    const std::shared_ptr<Session> session = open_session(invocation);
    list_runs(
        *session, record ? &*record : nullptr, invocation,
        {.where = query.where, .address = query.address, .rows_max = query.runs_max, .all = query.all_runs},
        listener.runs);
    return record_result;
  }
  const auto entry = record ? find_on_record(*record, invocation, query, progress) : std::nullopt;
  if (entry) {
    const std::shared_ptr<Session> session = open_session(on_its_engine(invocation, *entry));
    return show_trials(*session, *record, *entry, query, listener);
  }
  const std::shared_ptr<Session> session = open_session(invocation);
  show_containers(*session, invocation, query, listener, record_result == Result::succeeded);
  return record_result;
}

}  // namespace combu
