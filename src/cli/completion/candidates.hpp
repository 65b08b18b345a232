#pragma once
// What a shell's completion offers beyond the parser's own words.

#include <string>
#include <vector>

#include "combu/session.hpp"

namespace combu {

// Of `kind`: "trials", "runs", "experiments", "columns", "conditions", "ps_conditions", "only" or "settings",
// those that begin with `word`, from the record; trials and params of a file that has never been run, from
// the file, if that is evaluated in a second. "only": trials, and what is known of them before a run. In a
// list or a condition it is the last part that is completed. `run`: as --run. Throws Error.
[[nodiscard]] std::vector<std::string> candidates_of(const std::string& kind, const std::string& word,
                                                     const Invocation& invocation, const std::string& run);

}  // namespace combu
