#pragma once
// Compares a run's file on disk with the text on record.

#include <string>
#include <string_view>

#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// Prints one line on `progress` if the file or one of its imports differs from the run's newest text. The
// line says how many trials differ from their recorded text, and names the option --edited of `command`. Also
// prints a line if the file is missing or invalid. Prints nothing if the run was read from standard input,
// which cannot be read again.
void note_edits(Progress& progress, Record& record, const RunEntry& entry, const Invocation& invocation,
                std::string_view command);

}  // namespace combu
