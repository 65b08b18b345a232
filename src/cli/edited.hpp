#pragma once
// A run's file as it is now, beside the text on record.

#include <string>
#include <string_view>

#include "cli/invocation.hpp"
#include "combu/record.hpp"

namespace combu {

// What an invocation evaluates its file with: values (-V, -A, …), and import folders as absolute paths. As a
// JSON object's text, for the record.
[[nodiscard]] std::string values_text(const Invocation& invocation);

// `invocation` with the run's file, and with the values and import folders of the run's newest text, where it
// gives none. Throws Error(invalid) if these are needed and not on record.
[[nodiscard]] Invocation invocation_for(const RunEntry& entry, Invocation invocation);

// As `-A n=5`: the values in the command line that the run began with; empty: none.
[[nodiscard]] std::string values_begun_with(const RunEntry& entry);

// Prints one line on `progress` if the file or one of its imports has other bytes than the run's newest text
// had: how many trials differ, and the option --edited of `command`. A file that is missing or wrong costs a
// line, too. Standard input cannot be read again: it costs none.
void note_edits(Progress& progress, Record& record, const RunEntry& entry, const Invocation& invocation,
                std::string_view command);

}  // namespace combu
