#pragma once
// A run's file as it is now, beside the text on record.

#include <string>
#include <string_view>

#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"

namespace combu {

// Prints one line on `progress` if the file or one of its imports has other bytes than the run's newest text
// had: how many trials differ, and the option --edited of `command`. A file that is missing or wrong costs a
// line, too. Standard input cannot be read again: it costs none.
void note_edits(Progress& progress, Record& record, const RunEntry& entry, const Invocation& invocation,
                std::string_view command);

}  // namespace combu
