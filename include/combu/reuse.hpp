#pragma once
// Reuse of results. For a trial with `cache`, combu looks for an equal trial that has succeeded before. The
// lookup searches the record. If outputs are collected into a bucket, the lookup also searches the entries
// that other users published in the bucket.

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
  none,  // runs every trial; stores the trial's results for later lookups
};

// True if any trial of the experiment has `cache`.
[[nodiscard]] bool any_cached(const Experiment& experiment);

// The objects that a cache lookup uses. All references must outlive the lookup.
struct ReuseContext {
  const Run& run;
  const Caller& caller;
  std::string state_folder;        // contains the record and the telemetry of other runs
  OutputStore& output_store;       // where the run's outputs are collected
  Telemetry* telemetry = nullptr;  // telemetry of this run; nullptr if the run stores none
  ProgressListener& progress;      // shows notes
  std::stop_token stop = {};
};

// Returns an object that does the cache lookups of a run (see CacheLookup in run.hpp). `digests`: digests of
// images; for an image without an entry in `digests`, the object uses the digest in the record. The object
// opens the record itself.
[[nodiscard]] std::unique_ptr<CacheLookup> open_cache_lookup(ReuseContext context, Digests digests,
                                                             CacheUse look_up);

}  // namespace combu
