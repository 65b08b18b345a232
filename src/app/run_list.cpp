#include "app/run_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/run_status.hpp"
#include "combu/session.hpp"
#include "combu/text.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

// Returns the rows of runs that are not on record, made from the containers of these runs.
std::vector<RunRow> rows_of(const std::vector<Observation>& others, const std::string& address) {
  std::map<RunId, RunRow> rows;
  for (const Observation& seen : others) {
    RunRow& row = rows[seen.key.run];
    const bool is_first = row.state.empty();
    row.state = "not on record";
    row.entry.id = seen.key.run;
    row.entry.experiment = seen.experiment;
    row.entry.file = seen.file;
    row.entry.engine.address = address;
    row.entry.began_at = is_first ? seen.created_at : std::min(row.entry.began_at, seen.created_at);
    ++row.counts.at(static_cast<std::size_t>(state_of(seen)));
  }
  std::vector<RunRow> newest_first;
  newest_first.reserve(rows.size());
  for (auto& [run, row] : rows) newest_first.push_back(std::move(row));
  std::ranges::stable_sort(newest_first, std::greater(),
                           [](const RunRow& row) { return row.entry.began_at; });
  return newest_first;
}

std::optional<std::string> value_of(const RunRow& row, std::string_view name) {
  if (name == "run") return row.entry.id.text();
  if (name == "experiment") return row.entry.experiment;
  if (name == "file") return row.entry.file;
  if (name == "state") return row.state;
  if (name == "engine") return row.entry.engine.address;
  if (name == "trials") return std::to_string(std::accumulate(row.counts.begin(), row.counts.end(), 0UL));
  for (std::size_t i = 0; i < row.counts.size(); ++i)
    if (name == to_string(static_cast<TrialState>(i))) return std::to_string(row.counts.at(i));
  throw Error(
      ErrorKind::invalid, "--where",
      fmt::format("`{}` is not a field of runs; for a condition on trials, choose one run with -f FILE or "
                  "--run ID",
                  name));
}

// Returns the maximum number of rows; 0: all.
std::size_t runs_max_of(const RunListQuery& query) {
  if (query.rows_max) return *query.rows_max;
  return query.all || !query.where.empty() ? 0 : k_runs_shown;
}

// Lists the attempts on the session's engine. If there are no recorded runs, throws the engine's error, since
// nothing else can be shown. If no recorded run is on the default engine, a user may have only another
// engine, such as a cluster: then the default engine need not answer.
std::optional<std::vector<Observation>> list_attempts(Session& session, const Invocation& invocation,
                                                      const std::vector<RunEntry>& entries) {
  if (entries.empty()) return session.engine().list({}, ListDetail::consistent, session.stop());
  const bool is_used = std::ranges::any_of(
      entries, [&](const RunEntry& entry) { return entry.engine.address == session.engine_address(); });
  if (is_used || invocation.named_engine != NamedEngine::none) return list_or_note(session, {});
  std::string why;
  return try_to_list(session, {}, why);
}

}  // namespace

void list_runs(Session& session, Record* record, const Invocation& invocation, const RunListQuery& query,
               const std::function<void(std::span<const RunRow>)>& show) {
  const std::optional<Filter> where = query.where.empty() ? std::nullopt : std::optional(Filter(query.where));
  std::vector<RunEntry> entries;
  RunFilter filter{.address = query.address};
  if (means_simulated(invocation)) filter.simulated = true;
  if (record != nullptr) entries = record->runs(filter, SIZE_MAX);
  const std::optional<std::vector<Observation>> listed = list_attempts(session, invocation, entries);
  // The limit applies to runs that match the condition, so with a condition all runs are read.
  const std::size_t most = runs_max_of(query);
  const std::size_t shown = where || most == 0 ? entries.size() : std::min(most, entries.size());
  std::vector<RunRow> rows;
  rows.reserve(shown);
  for (std::size_t i = 0; i < shown; ++i) rows.push_back(run_row(session, *record, entries[i], listed));
  if (listed) {
    std::vector<Observation> others = *listed;
    if (record != nullptr) leave_unrecorded(*record, others);
    std::ranges::move(rows_of(others, session.engine_address()), std::back_inserter(rows));
  }
  if (where)
    std::erase_if(rows, [&](const RunRow& row) {
      return !where->matches(
          [&](std::string_view name, std::string_view /*wanted*/) { return value_of(row, name); });
    });
  std::size_t left_out = entries.size() - shown;
  const bool is_limited = query.rows_max.value_or(0) > 0;
  if (is_limited && rows.size() > most) {
    left_out += rows.size() - most;
    rows.resize(most);
  }
  show(rows);
  if (left_out > 0)
    session.progress().note(fmt::format("{}: {} shows all", number_of(left_out, "older run"),
                                        is_limited ? "--limit 0" : "--all"));
}

}  // namespace combu
