#pragma once
// The values (-V, -A, …) and import folders with which a run's file is evaluated.

#include <string>

#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// Returns the values (-V, -A, …) and the import folders of an invocation, for the record. The text is a JSON
// object with absolute paths.
[[nodiscard]] std::string values_text(const Invocation& invocation);

// If `invocation` lacks a file, values or import folders, adds the ones with which the run's newest text was
// evaluated. Returns the invocation. Throws Error(invalid) if the run needs values that are neither given nor
// on record.
[[nodiscard]] Invocation invocation_for(const RunEntry& entry, Invocation invocation);

// Throws Error(invalid) if the run began with values and the invocation gives none. Without the values, the
// file would often describe fewer trials, and combu would remove the missing trials from the run.
void expect_values(const RunEntry& entry, const Invocation& invocation);

}  // namespace combu
