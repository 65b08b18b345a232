#pragma once
// Trials as arguments name them: by a name, or by a pattern of names as in fnmatch(3) (`solver-a-*`).

#include <string>
#include <string_view>
#include <vector>

namespace combu {

// True if `name` is a pattern: a trial's name holds none of a pattern's characters.
[[nodiscard]] bool is_pattern(std::string_view name);

// True if `name` is the trial's name, or a pattern that matches it.
[[nodiscard]] bool names_trial(const std::string& name, const std::string& trial);

// True if one of `names` names the trial, or if there are no names.
[[nodiscard]] bool is_chosen(const std::vector<std::string>& names, const std::string& trial);

// Removes the names that name the trial. After a call for each trial the names are left that match none.
void drop_matching(std::vector<std::string>& names, const std::string& trial);

// Throws Error(not_found) that names all of `unmatched`, unless there are none. `whose`: "run r1".
void expect_all_matched(const std::vector<std::string>& unmatched, const std::string& whose);

}  // namespace combu
