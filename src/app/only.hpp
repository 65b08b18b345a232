#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/plan.hpp"

namespace combu {

// Of a JSON object's text or an empty one: what conditions compare. `name` may be `params.NAME`, for one that
// is called like something else that there are conditions on.
[[nodiscard]] std::optional<std::string> param_of(const std::string& params, std::string_view name);

// In a pattern of names the run's id, as in a file.
inline constexpr std::string_view k_run_id_word = "UUID";

// The trials of a run that one argument means: a pattern of names (`solver-a-*`, `solver-UUID`) or a
// condition on params (`lr<0.01 && mode=fast`). Throws Error(invalid) when there is none; `subject` is the
// option or command.
[[nodiscard]] std::vector<TrialIndex> trials_meant(const Experiment& experiment, const RunId& run,
                                                   const std::string& wanted, std::string_view subject);

// The part of an experiment that `run --only` means, with all that it depends on, in the file's order. Throws
// as trials_meant().
[[nodiscard]] Experiment only(Experiment experiment, const RunId& run, const Plan& plan,
                              const std::vector<std::string>& wanted);

}  // namespace combu
