#pragma once
// The program `git`, asked about a repository whose settings may be another's work: a trial can have written
// them, or the archive that the folder came in.

#include <chrono>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "combu/system.hpp"

namespace combu {

// Runs no program that the repository's settings name: no hook, filter, monitor, text conversion, external
// diff, or transport. Under sudo git runs as the calling user, never as root. All calls together are bounded
// in time. They change nothing.
class Git {
 public:
  // `folder` is in the repository.
  explicit Git(std::string folder);

  // The output; nullopt if git fails, is missing, or wrote more than 64 MiB. `input`: its standard input.
  [[nodiscard]] std::optional<std::string> ask(const std::vector<std::string>& arguments,
                                               const std::string& input = "");
  // At most `size_max` bytes of the output; nullopt if git fails.
  struct Cut {
    std::string text;
    bool is_cut = false;
  };
  [[nodiscard]] std::optional<Cut> ask_up_to(std::size_t size_max, const std::vector<std::string>& arguments,
                                             const std::string& input = "");

  // Later calls run in this folder.
  void enter(std::string folder) { folder_ = std::move(folder); }

  // The names of the filters in all settings. None of them is applied.
  [[nodiscard]] const std::set<std::string>& filters() const { return filters_; }

  // Says that the time is over, and that calls failed because of this; else empty.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  std::string folder_;
  std::chrono::steady_clock::time_point limit_;
  std::optional<User> user_;
  std::vector<std::string> environment_;
  bool knows_settings_ = true;  // else their filters would be applied
  std::set<std::string> filters_;
  std::vector<std::string> without_filters_;  // arguments
  std::string problem_;
};

}  // namespace combu
