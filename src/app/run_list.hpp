#pragma once
// Lists the runs on record and on an engine. Reconciles runs, as status() does.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "combu/analysis.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

inline constexpr std::size_t k_runs_shown = 20;

struct RunListQuery {
  std::string where;    // a condition on runs; empty: none
  std::string address;  // list only runs on this engine; empty: runs on all engines
  // Maximum number of rows; 0: all rows. If nullopt, the maximum is k_runs_shown; with `all` or `where`,
  // there is no maximum.
  std::optional<std::size_t> rows_max;
  bool all = false;
};

// Shows the recorded runs, the newest first, then the runs that are not on record but have containers on the
// engine. `record`: nullptr if no record exists. Prints a note with the number of runs that the limit leaves
// out. Throws Error.
void list_runs(Session& session, Record* record, const Invocation& invocation, const RunListQuery& query,
               const std::function<void(std::span<const RunRow>)>& show);

}  // namespace combu
