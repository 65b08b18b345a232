#pragma once
// Finds the locations of stored outputs, and collects the outputs of runs without an owner.

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

// Opens results_folder() of the run as an output store. If combu runs as root for another user
// (sudo), the files in the store belong to that user.
[[nodiscard]] std::unique_ptr<OutputStore> open_results(const Loaded& loaded);

// The locations of a trial's outputs, in a folder or a bucket. A member is an empty string if there are no
// such outputs.
struct OutputsAt {
  std::string place;   // location of the outputs that were collected at the trial's end
  std::string so_far;  // location of the outputs that were collected while an attempt ran
};
// Returns the locations of a trial's outputs. `results`: the run's results_folder(). If `results` is a
// folder, checks which files exist. If `results` is a bucket, sends no request and uses only the record.
[[nodiscard]] OutputsAt outputs_at(const std::string& results, const TrialEntry& trial);

// Returns a function that returns the location of a trial's outputs. The location is an empty string if the
// trial has no outputs, or if its outputs are not available. If this version of combu cannot read the
// recorded experiment, prints a note on `progress`, and every location is an empty string. Several threads
// may call the returned function.
[[nodiscard]] std::function<std::string(const TrialEntry&)> output_places(Record& record, const RunId& run,
                                                                          Progress& progress);

// Returns the errors that prevent the collection of outputs to a bucket. check_host_paths() checks folders.
[[nodiscard]] std::vector<Error> check_results(const Loaded& loaded, const std::stop_token& stop);

// Collects the outputs of the attempts whose recorded state is `collecting`, and records the results. The run
// must have no owner, and its containers are about to be removed. If `collected` is not empty, calls it after
// each attempt whose outputs were collected. Returns the attempts whose outputs could not be collected.
// Throws Error(cancelled) if the session's stop token requests a stop. Also throws Error if the record cannot
// be read.
[[nodiscard]] Uncollected collect_remaining(Session& session, Record& record, const RunId& run,
                                            const std::function<void(const Key&)>& collected = {});
// Returns the attempts that collect_remaining() would collect.
[[nodiscard]] std::set<Key> collecting_attempts(Record& record, const RunId& run);

}  // namespace combu
