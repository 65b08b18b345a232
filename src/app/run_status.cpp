#include "app/run_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "app/load.hpp"
#include "app/reconcile.hpp"
#include "app/run_options.hpp"
#include "app/trial_row.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr Seconds k_list_patience{10};

std::vector<TrialRow> rows_of(Record& record, const RunId& run, const std::string& single, Detail detail) {
  std::vector<TrialRow> rows;
  rows.reserve(single.empty() ? record.trial_count(run) : 1);
  record.trials(run, single, detail, [&]() -> TrialEntry& { return rows.emplace_back().entry; });
  for (TrialRow& row : rows)
    if (row.entry.healthy && row.entry.state == TrialState::running) row.health = Health::healthy;
  return rows;
}

TrialCounts counts_of(const std::vector<TrialRow>& rows) {
  TrialCounts counts{};
  for (const TrialRow& row : rows) ++counts.at(static_cast<std::size_t>(row.entry.state));
  return counts;
}

using ByName = std::map<std::string_view, const Observation*>;

ByName by_name_in(const std::vector<Observation>& containers) {
  ByName by_name;
  for (const Observation& seen : containers) by_name.emplace(seen.key.trial, &seen);
  return by_name;
}

const Observation* find_in(const ByName& by_name, const std::string& trial) {
  const auto found = by_name.find(trial);
  return found == by_name.end() ? nullptr : found->second;
}

// Returns the number of starting trials whose attempts the engine has accepted, and that need no process of
// combu.
std::size_t count_accepted(const std::vector<TrialRow>& rows, const ByName& by_name) {
  return static_cast<std::size_t>(std::ranges::count_if(rows, [&](const TrialRow& row) {
    if (row.entry.state != TrialState::starting) return false;
    const Observation* const seen = find_in(by_name, row.entry.name);
    return seen != nullptr && is_alive(*seen) && !seen->placement.awaits_delivery;
  }));
}

std::string_view state_of(const RunEntry& entry, const TrialCounts& counts, bool attended) {
  if (attended) return "running";
  if (entry.ended_at) return "ended";
  if (any_left(counts)) return "interrupted";
  if (counts.at(static_cast<std::size_t>(TrialState::running)) == 0) return "ended";
  return run_options_of(entry.options).monitored ? "interrupted" : "left running";
}

bool is_on_record(Record& record, const RunId& run) {
  return !record.runs({.id = run}, 1).empty();
}

// Returns the run's containers. If the run has no owner and a trial has not ended, lists the containers
// again, since the first listing may be slightly out of date.
std::vector<Observation> own_of(Session& session, const RunEntry& run, const std::vector<TrialRow>& rows,
                                const RunStatusQuery& query, bool attended) {
  std::vector<Observation> own;
  std::ranges::copy_if(*query.listed, std::back_inserter(own),
                       [&](const Observation& seen) { return seen.key.run == run.id; });
  const bool lives = std::ranges::any_of(rows, [](const TrialRow& row) { return !is_over(row.entry.state); });
  if (attended || !lives || own.empty()) return own;
  Selector selector{.experiment = run.experiment, .run = run.id};
  if (!query.trial.empty()) selector.trials = {query.trial};
  return session.engine().list(selector, ListDetail::consistent, session.stop());
}

}  // namespace

RunStatus run_status(Session& session, Record& record, RunEntry run, const RunStatusQuery& query) {
  const RunId id = run.id;
  const bool attended = owner_pid(id, caller_for({})).has_value();
  std::vector<TrialRow> rows = rows_of(record, id, query.trial, query.detail);
  std::size_t accepted = 0;
  if (query.listed) {
    const std::vector<Observation> own = own_of(session, run, rows, query, attended);
    const ByName by_name = by_name_in(own);
    const auto lacks = [&](const TrialRow& row) {
      return !is_over(row.entry.state) && is_behind(row.entry, find_in(by_name, row.entry.name));
    };
    if (!attended && std::ranges::any_of(rows, lacks)) {
      const UnrecordedFacts unrecorded = reconcile_or_note(session, record, id);
      run = record.runs({.id = id}, 1).at(0);
      rows = rows_of(record, id, query.trial, query.detail);
      for (TrialRow& row : rows)
        if (const auto facts = unrecorded.find(row.entry.name); facts != unrecorded.end())
          for (const Fact& fact : facts->second) show_fact(row.entry, fact);
    }
    if (!by_name.empty())
      for (TrialRow& row : rows)
        if (const Observation* seen = find_in(by_name, row.entry.name)) add_observation(row, *seen);
    accepted = count_accepted(rows, by_name);
  }
  RunStatus status{.run = {.entry = std::move(run), .state = {}, .counts = {}}, .trials = std::move(rows)};
  if (!query.trial.empty()) return status;
  status.run.counts = counts_of(status.trials);
  // Accepted attempts need no process of combu.
  TrialCounts counts = status.run.counts;
  counts.at(static_cast<std::size_t>(TrialState::starting)) -= accepted;
  counts.at(static_cast<std::size_t>(TrialState::running)) += accepted;
  status.run.state = state_of(status.run.entry, counts, attended);
  return status;
}

RunRow run_row(Session& session, Record& record, const RunEntry& run,
               const std::optional<std::vector<Observation>>& listed) {
  const bool attended = owner_pid(run.id, caller_for({})).has_value();
  if (!attended && !run.ended_at && listed && run.engine.address == session.engine_address())
    return run_status(session, record, run, {.listed = listed}).run;
  RunRow row{.entry = run, .state = {}, .counts = record.counts(run.id)};
  row.state = state_of(run, row.counts, attended);
  return row;
}

std::optional<std::vector<Observation>> try_to_list(Session& session, const Selector& selector,
                                                    std::string& why) {
  try {
    const Patience patience(session.stop(), k_list_patience);
    return session.engine().list(selector, ListDetail::basic, patience.token());
  } catch (const Error& error) {
    if (session.stop().stop_requested()) throw;
    why = error.kind() == ErrorKind::cancelled
              ? fmt::format("no answer within {}", to_string(k_list_patience))
              : error.what();
  }
  return std::nullopt;
}

std::optional<std::vector<Observation>> list_or_note(Session& session, const Selector& selector) {
  std::string why;
  std::optional<std::vector<Observation>> listed = try_to_list(session, selector, why);
  if (listed) return listed;
  session.progress().note(
      fmt::format("only the record is shown, because the engine could not be asked: {}", why));
  return std::nullopt;
}

void leave_unrecorded(Record& record, std::vector<Observation>& containers) {
  std::map<RunId, bool> known;
  std::erase_if(containers, [&](const Observation& seen) {
    const auto [at, is_new] = known.try_emplace(seen.key.run);
    if (is_new) at->second = is_on_record(record, seen.key.run);
    return at->second;
  });
}

}  // namespace combu
