#pragma once
// A run on record, as a process resumes it.

#include <vector>

#include "app/load.hpp"
#include "app/run_options.hpp"
#include "combu/record.hpp"

namespace combu {

// The run with its newest text, and with the fields that its options replace. Throws Error.
[[nodiscard]] Loaded load_newest(Record& record, const RunEntry& entry, const RunOptions& options);

// The state from which the run goes on.
struct ResumePoint {
  std::vector<RestoredTrial> trials;
  Instant working_since{};
};
// Removes from `loaded` the inputs of trials that will not start: their files may be gone. Throws
// Error(invalid) if a trial that may start lacks an `env_file`.
[[nodiscard]] ResumePoint resume_point_of(Record& record, const RunEntry& entry, Loaded& loaded);

}  // namespace combu
