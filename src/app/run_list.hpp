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
  std::string where;                    // a condition on runs; empty: none
  std::string address;                  // only runs on this engine; empty: on any
  std::optional<std::size_t> rows_max;  // 0: all; nullopt: k_runs_shown, or all if `all` or `where` is set
  bool all = false;
};

// Shows the recorded runs, the newest first, then the runs of which the engine has only containers. `record`:
// nullptr if there is none. Prints a note with the number of runs that the limit leaves out. Throws Error.
void list_runs(Session& session, Record* record, const Invocation& invocation, const RunListQuery& query,
               const std::function<void(std::span<const RunRow>)>& show);

}  // namespace combu
