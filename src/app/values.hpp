#pragma once
// The values (-V, -A, …) and import folders with which a run's file is evaluated.

#include <string>

#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// Returns the values (-V, -A, …) and the import folders of an invocation, for the record. The text is a JSON
// object with absolute paths.
[[nodiscard]] std::string values_text(const Invocation& invocation);

// Returns `invocation`, completed with the run's file and with the values and import folders of the run's
// newest text. Data that `invocation` already has stay unchanged. Throws Error(invalid) if values are needed
// and not on record.
[[nodiscard]] Invocation invocation_for(const RunEntry& entry, Invocation invocation);

// Throws Error(invalid) if the run began with values and the invocation gives none. Without values the file
// would often have fewer trials, and the other trials would be removed.
void expect_values(const RunEntry& entry, const Invocation& invocation);

}  // namespace combu
