#pragma once
// Where outputs are stored, and the collection of outputs from runs without an owner.

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

// Opens results_folder() of the run as an output store. The files belong to the caller's user.
[[nodiscard]] std::unique_ptr<OutputStore> open_results(const Loaded& loaded);

// The places of a trial's outputs. Empty: nothing is there.
struct OutputsAt {
  std::string place;   // outputs that were collected at the trial's end
  std::string so_far;  // outputs that were collected while an attempt ran (partial_place)
};
// Returns the places of a trial's outputs. `results`: the run's results_folder(). In a folder, checks which
// files exist. A bucket is not asked; the record decides.
[[nodiscard]] OutputsAt outputs_at(const std::string& results, const TrialEntry& trial);

// Returns a function that returns the place of a trial's outputs. The place is empty if the trial of this run
// has no outputs, or if none are there. If this combu cannot read the recorded file, prints a note on
// `progress`; then every place is empty. The function may be called from several threads.
[[nodiscard]] std::function<std::string(const TrialEntry&)> output_places(Record& record, const RunId& run,
                                                                          Progress& progress);

// Returns the errors that prevent the collection of outputs to a bucket. check_host_paths() checks folders.
[[nodiscard]] std::vector<Error> check_results(const Loaded& loaded, const std::stop_token& stop);

// Collects the outputs of the attempts that are `collecting` on record, and records the results. The run must
// have no owner, and its containers are about to be removed. Calls `collected`, unless it is empty, after
// each attempt that did not fail. Returns the attempts that failed. Throws Error: cancelled; also if the
// record cannot be read.
[[nodiscard]] Uncollected collect_remaining(Session& session, Record& record, const RunId& run,
                                            const std::function<void(const Key&)>& collected = {});
// Returns the attempts that collect_remaining() would collect.
[[nodiscard]] std::set<Key> collecting_attempts(Record& record, const RunId& run);

}  // namespace combu
