#pragma once
// Reuse of results: trials with `cache` are looked up among those that have succeeded before, by the record
// and, of outputs in a bucket, by what other people have published there.

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
  done,  // a trial that has been done is not done again
  none,  // all are done again, and can be found from here on
};

// True if any of its trials has `cache`.
[[nodiscard]] bool any_cached(const Experiment& experiment);

// What a run's reuse works with. All references outlive it.
struct ReuseContext {
  const Run& run;
  const Caller& caller;
  std::string state_folder;        // of the record and of other runs' telemetry
  OutputStore& output_store;       // where the run's outputs are collected
  Telemetry* telemetry = nullptr;  // the run's; nullptr: it has none
  ProgressListener& progress;      // shows notes
  std::stop_token stop = {};
};

// See CacheLookup in run.hpp. `digests`: those of the images that the trials are started from that are not on
// record. Opens the record for itself.
[[nodiscard]] std::unique_ptr<CacheLookup> open_cache_lookup(ReuseContext context, Digests digests,
                                                             CacheUse look_up);

}  // namespace combu
