#pragma once
// Reuse of results. For a trial with `cache`, combu looks for an equal trial that has succeeded before. combu
// searches the record and, if outputs go to a bucket, the entries that other users published there.

#include <memory>
#include <stop_token>
#include <string>

#include "combu/outputs.hpp"
#include "combu/record.hpp"
#include "combu/run.hpp"
#include "combu/spec.hpp"
#include "combu/telemetry.hpp"

namespace combu {

enum class CacheUse {
  done,  // skips a trial if an equal trial has succeeded before
  none,  // runs every trial, and stores it for later lookups
};

// True if any of its trials has `cache`.
[[nodiscard]] bool any_cached(const Experiment& experiment);

// The objects that a cache lookup uses. All references must outlive it.
struct ReuseContext {
  const Run& run;
  const Caller& caller;
  std::string state_folder;        // contains the record and the telemetry of other runs
  OutputStore& output_store;       // where the run's outputs are collected
  Telemetry* telemetry = nullptr;  // of this run; nullptr: none
  ProgressListener& progress;      // shows notes
  std::stop_token stop = {};
};

// Returns a lookup as CacheLookup in run.hpp describes. `digests`: digests of the trials' images that the
// record does not contain. The lookup opens the record itself.
[[nodiscard]] std::unique_ptr<CacheLookup> open_cache_lookup(ReuseContext context, Digests digests,
                                                             CacheUse look_up);

}  // namespace combu
