#pragma once
// Where outputs come home to.

#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "app/load.hpp"
#include "app/uncollected.hpp"
#include "combu/engine.hpp"
#include "combu/outputs.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// results_folder() of the run as a depot, whose files are the caller's.
[[nodiscard]] std::unique_ptr<OutputStore> open_results(const Loaded& loaded);

// Where what a trial has left is. Empty: nothing of it is there.
struct OutputsAt {
  std::string place;   // of what it had left at its end
  std::string so_far;  // of what an attempt had left when it still ran (partial_place)
};
// Of a trial that has outputs, in results_folder(): of a folder what is there, of a bucket, which is not
// asked, what is on record.
[[nodiscard]] OutputsAt outputs_at(const std::string& results, const TrialEntry& trial);

// Returns for a trial of this run where what it has left is; empty: it has no outputs, or nothing of them is
// there. What is on record of the run may be of a file that this combu does not read any more: then it is
// empty for all, which is noted on `progress`. May be called from several threads.
[[nodiscard]] std::function<std::string(const TrialEntry&)> output_places(Record& record, const RunId& run,
                                                                          Progress& progress);

// Why outputs could not be brought to a place that is no folder (check_host_paths looks at those).
[[nodiscard]] std::vector<Error> check_results(const Loaded& loaded, const std::stop_token& stop);

// Collects the outputs of the attempts that are `collecting` on record, of a run that no process is at work
// on and whose containers are about to be removed, and records that. `collected` (may be empty) is called
// after each attempt that did not fail. Returns the attempts that failed. Throws Error: cancelled; the record
// cannot be read.
[[nodiscard]] Uncollected collect_remaining(Session& session, Record& record, const RunId& run,
                                            const std::function<void(const Key&)>& collected = {});
// The attempts that collect_remaining() is to collect.
[[nodiscard]] std::set<Key> collecting_attempts(Record& record, const RunId& run);

}  // namespace combu
