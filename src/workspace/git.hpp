#pragma once
// Runs the program `git` on a repository with untrusted settings. The settings are untrusted because a trial
// may have written them, or because they came in an archive.

#include <chrono>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/system.hpp"

namespace combu {

// Splits git's output into the pieces that end with `separator`: '\n', or '\0' if git was called with the
// option -z.
[[nodiscard]] std::vector<std::string> split_at(char separator, const std::string& text);

// A Git object keeps git from running programs that the repository's settings name: hooks, filters, monitors,
// text conversions, external diffs, and transports.
//
// Only the constructor lets git read the settings, by `git rev-parse` and `git config --list`, which start no
// program. For ask(), a temporary git folder (GIT_DIR) without settings replaces the repository's git folder.
// The temporary git folder has a copy of the index, and links to files that contain only data. Hence settings
// that change after the constructor, or settings of another repository, do not affect ask().
//
// Under sudo, git runs as the calling user, never as root. All calls of one Git object share one time limit.
// No call changes the repository.
class Git {
 public:
  // When `stop` requests a stop, the running git is killed, and later calls fail.
  Git(const std::string& folder, std::stop_token stop);
  ~Git();
  Git(const Git&) = delete;
  Git& operator=(const Git&) = delete;

  // Return the commit of HEAD, and the top folder of the work tree. The results are empty if `folder` is in
  // no work tree, or if the constructor failed, as problem() explains. If commit() is empty, ask() must not
  // be called.
  [[nodiscard]] const std::string& commit() const { return commit_; }
  [[nodiscard]] const std::string& top() const { return top_; }

  // Runs git in the top folder and returns its output; nullopt if git fails or writes more than 64 MiB.
  // `input` becomes the standard input of git.
  [[nodiscard]] std::optional<std::string> ask(const std::vector<std::string>& arguments,
                                               const std::string& input = "");
  // Like ask(), but returns at most `size_max` bytes of the output; nullopt if git fails.
  struct Cut {
    std::string text;
    bool is_cut = false;
  };
  [[nodiscard]] std::optional<Cut> ask_up_to(std::size_t size_max, const std::vector<std::string>& arguments,
                                             const std::string& input = "");

  // Returns the names of the filters in all settings of git. None of these filters is applied.
  [[nodiscard]] const std::set<std::string>& filters() const { return filters_; }

  // Returns the reason of the first failure of git; empty if git has not failed.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void find(const std::string& folder);
  void read_settings();
  void make_folder();
  void copy_index();
  void write(const std::filesystem::path& name, const std::string& text,
             const timespec* modified_at = nullptr);
  [[nodiscard]] ProgramEnd run(std::vector<std::string> arguments, std::size_t size_max,
                               const std::string& input = "") const;
  [[nodiscard]] ProgramEnd git(const std::string& folder, const std::vector<std::string>& arguments,
                               std::size_t size_max, const std::string& input = "") const;

  std::chrono::steady_clock::time_point limit_;
  std::stop_token stop_;
  std::optional<User> user_;
  std::vector<std::string> environment_;
  std::string commit_;
  std::string top_;
  std::filesystem::path repository_;             // the git folder of this work tree
  std::filesystem::path common_;                 // the git folder that all work trees share
  std::map<std::string, std::string> settings_;  // the settings that ask() passes on to git
  std::set<std::string> filters_;
  std::filesystem::path folder_;  // the temporary git folder
  std::string problem_;
};

}  // namespace combu
