#include "cli/revision.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

#include "combu/json.hpp"
#include "combu/view.hpp"

namespace combu {
namespace {

constexpr std::size_t k_diff_max = std::size_t{1} << 20U;
constexpr std::size_t k_names_max = 1000;
constexpr std::array<std::string_view, 8> k_secret_names{"**/.env",  "**/.env.*", "**/*.env",  "**/*.pem",
                                                         "**/*.key", "**/id_*",   "**/.netrc", "**/*.p12"};

struct Answer {
  std::string text;
  bool is_cut = false;
};

// What a command writes, up to a bound; empty when it fails.
Answer answer(const std::string& command, std::size_t size_max = SIZE_MAX) {
  // NOLINTNEXTLINE(bugprone-command-processor): the command is git with quoted arguments
  std::FILE* pipe = popen((command + " 2>/dev/null </dev/null").c_str(), "re");
  if (pipe == nullptr) return {};
  Answer got;
  std::array<char, 4096> piece{};
  while (!got.is_cut) {
    const std::size_t size = std::fread(piece.data(), 1, piece.size(), pipe);
    if (size == 0) break;
    got.text.append(piece.data(), size);
    got.is_cut = got.text.size() > size_max;
  }
  // One whose answer is not read to its end is ended by that.
  const bool failed = pclose(pipe) != 0 && !got.is_cut;
  if (failed) return {};
  if (got.is_cut) got.text.resize(size_max);
  return got;
}

std::string line_in(Answer answer) {
  answer.text.erase(answer.text.find_last_not_of('\n') + 1);
  return std::move(answer.text);
}

std::vector<std::string> lines_in(const Answer& answer) {
  std::vector<std::string> lines;
  std::istringstream text(answer.text);
  for (std::string line; lines.size() < k_names_max && std::getline(text, line);) lines.push_back(line);
  return lines;
}

void add_env_files(const nlohmann::json& of, std::vector<std::string>& paths) {
  if (of.is_object()) {
    for (const auto& [name, value] : of.items()) {
      if (name != "env_file") {
        add_env_files(value, paths);
      } else if (value.is_string()) {
        paths.push_back(value);
      } else if (value.is_array()) {
        for (const auto& one : value)
          if (one.is_string()) paths.push_back(one);
      }
    }
  } else if (of.is_array()) {
    for (const auto& one : of) add_env_files(one, paths);
  }
}

// As git takes them, from the top of the working tree.
std::vector<std::string> secret_paths(const std::string& folder, const std::string& top,
                                      const std::string& evaluated) {
  std::vector<std::string> paths;
  paths.reserve(k_secret_names.size());
  for (const std::string_view name : k_secret_names) paths.push_back(fmt::format("glob){}", name));
  if (evaluated.find("\"env_file\"") == std::string::npos) return paths;
  std::vector<std::string> env_files;
  add_env_files(parse_json_or_discard(evaluated), env_files);
  for (const std::string& file : env_files) {
    const std::filesystem::path path =
        (std::filesystem::path(folder) / file).lexically_normal().lexically_relative(top);
    if (!path.empty() && *path.begin() != "..") paths.push_back(fmt::format("literal){}", path.string()));
  }
  return paths;
}

WorkingTree working_tree(const std::string& git, const std::vector<std::string>& secrets) {
  std::string without;
  std::string only;
  for (const std::string& path : secrets) {
    without += " " + shell_word(":(exclude,top," + path);
    only += " " + shell_word(":(top," + path);
  }
  const Answer diff = answer(git +
                                 "diff --no-ext-diff --no-color --no-textconv --binary --src-prefix=a/ "
                                 "--dst-prefix=b/ HEAD -- :/" +
                                 without,
                             k_diff_max);
  return {.diff = diff.text,
          .is_cut = diff.is_cut,
          .untracked = lines_in(answer(git + "ls-files --others --exclude-standard")),
          .left_out = lines_in(answer(git + "diff --name-only HEAD --" + only))};
}

}  // namespace

Revision revision_of(const std::string& folder, const std::string& evaluated) {
  const auto git_in = [](const std::string& place) {
    return fmt::format("git --no-optional-locks -C {} ", shell_word(place));
  };
  Revision revision{.commit = line_in(answer(git_in(folder) + "rev-parse HEAD"))};
  if (revision.commit.empty()) return {};
  const std::string top = line_in(answer(git_in(folder) + "rev-parse --show-toplevel"));
  if (top.empty()) return revision;
  const std::string git = git_in(top);
  revision.dirty = !answer(git + "status --porcelain --untracked-files=no").text.empty();
  revision.working_tree = working_tree(git, secret_paths(folder, top, evaluated));
  return revision;
}

}  // namespace combu
