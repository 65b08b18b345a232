#pragma once
// The state from which a process resumes a recorded run.

#include <vector>

#include "app/load.hpp"
#include "app/run_options.hpp"
#include "combu/record.hpp"

namespace combu {

// Loads the run with its newest text, and overrides fields of the experiment with the run's options. Throws
// Error.
[[nodiscard]] Loaded load_newest(Record& record, const RunEntry& entry, const RunOptions& options);

// The state from which a run continues.
struct ResumePoint {
  std::vector<RestoredTrial> trials;
  Instant working_since{};
};
// Returns the resume point of a run. Removes from `loaded` the inputs of trials that will not start, since
// their files may be missing. Throws Error(invalid) if a trial that may start lacks an `env_file`.
[[nodiscard]] ResumePoint resume_point_of(Record& record, const RunEntry& entry, Loaded& loaded);

}  // namespace combu
