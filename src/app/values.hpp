#pragma once
// The values (-V, -A, …) and import folders that a run's file is evaluated with.

#include <string>

#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// The values (-V, -A, …) and the import folders, as absolute paths, of an invocation: a JSON object's text,
// for the record.
[[nodiscard]] std::string values_text(const Invocation& invocation);

// `invocation` with the run's file, and with the values and import folders of the run's newest text, where it
// gives none. Throws Error(invalid) if these are needed and not on record.
[[nodiscard]] Invocation invocation_for(const RunEntry& entry, Invocation invocation);

// Throws Error(invalid) if the run began with values and the invocation gives none: without them the file
// would often have fewer trials, and the others would be removed.
void expect_values(const RunEntry& entry, const Invocation& invocation);

}  // namespace combu
