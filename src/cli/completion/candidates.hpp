#pragma once
// Completion candidates that come from the record or from the experiment file.

#include <string>
#include <vector>

#include "combu/session.hpp"

namespace combu {

// Returns the candidates of `kind` that begin with `word`. Kinds are "trials", "runs", "experiments",
// "columns", "conditions", "ps_conditions", "only", "settings" and "engines". The candidates of the kind
// "only" are trials, and conditions on properties that are known before a run. Candidates come from the
// record. If the record has no run of the experiment file, trials and params come from the file, provided
// that its evaluation takes at most a second. If `word` is a list or a condition, only its last part is
// completed. `run` is the value of the option --run. Throws Error.
[[nodiscard]] std::vector<std::string> candidates_of(const std::string& kind, const std::string& word,
                                                     const Invocation& invocation, const std::string& run);

}  // namespace combu
