#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "combu/base.hpp"
#include "combu/session.hpp"

namespace combu {

bool is_pattern(std::string_view name) {
  return name.find_first_of("*?[\\") != std::string_view::npos;
}

bool names_trial(const std::string& name, const std::string& trial) {
  return fnmatch(name.c_str(), trial.c_str(), 0) == 0;
}

bool is_chosen(const std::vector<std::string>& names, const std::string& trial) {
  return names.empty() ||
         std::ranges::any_of(names, [&](const std::string& name) { return names_trial(name, trial); });
}

void drop_matching(std::vector<std::string>& names, const std::string& trial) {
  std::erase_if(names, [&](const std::string& name) { return names_trial(name, trial); });
}

void expect_all_matched(const std::vector<std::string>& unmatched, const std::string& whose) {
  if (unmatched.empty()) return;
  throw Error(ErrorKind::not_found, fmt::format("{}", fmt::join(unmatched, ", ")),
              fmt::format("{} of {}", unmatched.size() == 1 ? "is not a trial" : "are not trials", whose));
}

}  // namespace combu
