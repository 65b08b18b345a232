#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <filesystem>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/json.hpp"
#include "combu/workspace.hpp"
#include "workspace/git.hpp"

namespace combu {
namespace {

constexpr std::size_t k_diff_max = std::size_t{1} << 20U;
constexpr std::size_t k_names_max = 1000;
constexpr std::array<std::string_view, 8> k_secret_names{"**/.env",  "**/.env.*", "**/*.env",  "**/*.pem",
                                                         "**/*.key", "**/id_*",   "**/.netrc", "**/*.p12"};

using Names = std::set<std::string>;

std::vector<std::string> lines_in(const std::optional<std::string>& answer) {
  std::vector<std::string> lines;
  std::istringstream text(answer.value_or(""));
  for (std::string line; lines.size() < k_names_max && std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Formats a path as git does: in quotes if the path has bytes other than printable ASCII.
std::string quoted(const std::string& path) {
  std::string text;
  for (const char letter : path) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      text += fmt::format("\\{}", letter);
    } else if (byte < 0x20 || byte >= 0x7f) {
      text += fmt::format("\\{:03o}", byte);
    } else {
      text += letter;
    }
  }
  return text == path ? path : fmt::format("\"{}\"", text);
}

std::vector<std::string> first_quoted(const Names& names) {
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (paths.size() == k_names_max) break;
    paths.push_back(quoted(name));
  }
  return paths;
}

Names without(const Names& names, const Names& others) {
  Names rest;
  std::ranges::set_difference(names, others, std::inserter(rest, rest.end()));
  return rest;
}

Names both(const Names& names, const Names& others) {
  Names common;
  std::ranges::set_intersection(names, others, std::inserter(common, common.end()));
  return common;
}

void add_texts(const nlohmann::json& of, std::vector<std::string>& texts) {
  if (of.is_string()) texts.push_back(of);
  if (!of.is_array()) return;
  for (const auto& one : of)
    if (one.is_string()) texts.push_back(one);
}

// Adds the paths in all fields `env_file`, and those of secrets: `secrets: {NAME: {file: PATH}}`.
void add_secret_files(const nlohmann::json& of, std::vector<std::string>& paths) {
  if (of.is_object()) {
    for (const auto& [name, value] : of.items()) {
      if (name == "env_file") {
        add_texts(value, paths);
      } else if (name == "secrets" && value.is_object()) {
        for (const auto& source : value)
          if (const auto file = source.find("file"); file != source.end()) add_texts(*file, paths);
      } else {
        add_secret_files(value, paths);
      }
    }
  } else if (of.is_array()) {
    for (const auto& one : of) add_secret_files(one, paths);
  }
}

// Returns git path patterns for files that may hold secrets, relative to the top of the work tree.
std::vector<std::string> secret_paths(const std::string& folder, const std::string& top,
                                      const std::string& evaluated) {
  std::vector<std::string> paths;
  paths.reserve(k_secret_names.size());
  for (const std::string_view name : k_secret_names) paths.push_back(fmt::format(":(top,glob){}", name));
  if (evaluated.find("\"env_file\"") == std::string::npos &&
      evaluated.find("\"secrets\"") == std::string::npos)
    return paths;
  std::vector<std::string> files;
  add_secret_files(parse_json_or_discard(evaluated), files);
  for (const std::string& file : files) {
    const std::filesystem::path path =
        (file.starts_with("~/") ? std::filesystem::path(environment("HOME").value_or("/")) / file.substr(2)
                                : std::filesystem::path(folder) / file)
            .lexically_normal();
    std::error_code ignored;
    for (const auto& known : {path, std::filesystem::weakly_canonical(path, ignored)}) {
      const std::filesystem::path inside = known.lexically_relative(top);
      if (!inside.empty() && *inside.begin() != "..")
        paths.push_back(fmt::format(":(top,literal){}", inside.string()));
    }
  }
  return paths;
}

// Returns arguments for `git diff` that ignore submodules and keep git from running programs that its
// settings name.
std::vector<std::string> diff_with(std::initializer_list<std::string> options) {
  std::vector<std::string> arguments{"diff", "--no-ext-diff", "--no-textconv", "--no-color",
                                     "--ignore-submodules=all"};
  arguments.insert(arguments.end(), options);
  return arguments;
}

// Exception: a call of git has failed.
struct Unknown : std::exception {};

// Returns the names of changed files. Throws Unknown if git fails.
Names changed(Git& git, std::initializer_list<std::string> options,
              const std::vector<std::string>& patterns = {}) {
  std::vector<std::string> arguments = diff_with({"--name-only", "--no-renames", "-z"});
  arguments.insert(arguments.end(), options);
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), patterns.begin(), patterns.end());
  const auto answer = git.ask(arguments);
  if (!answer) throw Unknown();
  const std::vector<std::string> names = split_at('\0', *answer);
  return {names.begin(), names.end()};
}

// Returns those of the files `names` to which the git attributes assign a filter. Throws Unknown if git
// fails.
Names filtered(Git& git, const Names& names) {
  if (git.filters().empty() || names.empty()) return {};
  const auto answer = git.ask({"check-attr", "-z", "--stdin", "filter"},
                              fmt::format("{}", fmt::join(names, std::string_view("\0", 1))));
  if (!answer) throw Unknown();
  const std::vector<std::string> pieces = split_at('\0', *answer);
  Names found;
  // The output of `git check-attr` consists of groups of three pieces: name, attribute, value.
  for (std::size_t i = 0; i + 2 < pieces.size(); i += 3)
    if (git.filters().contains(pieces[i + 2])) found.insert(pieces[i]);
  return found;
}

// Appends the diff of the files `names` to `tree`. Each call of git gets as many names as fit into a command
// line.
void add_diff(Git& git, std::initializer_list<std::string> options, const Names& names, WorkingTree& tree) {
  constexpr std::size_t k_arguments_max = 100'000;
  for (auto name = names.begin(); name != names.end() && !tree.is_cut;) {
    std::vector<std::string> arguments{"--literal-pathspecs"};
    const auto diff = diff_with({"--binary", "--src-prefix=a/", "--dst-prefix=b/"});
    arguments.insert(arguments.end(), diff.begin(), diff.end());
    arguments.insert(arguments.end(), options);
    arguments.emplace_back("--");
    for (std::size_t size = 0; name != names.end() && size < k_arguments_max; ++name) {
      arguments.push_back(*name);
      size += name->size() + 1;
    }
    const auto answer = git.ask_up_to(k_diff_max - tree.diff.size(), arguments);
    if (!answer) throw Unknown();
    tree.diff += answer->text;
    tree.is_cut = answer->is_cut;
  }
}

// Compares the work tree with HEAD and returns true if tracked files differ. Throws Unknown if git fails.
bool compare(Git& git, const std::vector<std::string>& secret_patterns, WorkingTree& tree) {
  const Names names = changed(git, {"HEAD"});
  Names by_index = filtered(git, names);
  // A file with a git filter counts as unchanged if its size and modification time match the index.
  if (!by_index.empty()) by_index = both(by_index, changed(git, {}));
  tree.by_index = first_quoted(by_index);
  const Names in_tree = without(names, by_index);
  const Names in_index = by_index.empty() ? Names() : both(by_index, changed(git, {"--cached", "HEAD"}));
  if (in_tree.empty() && in_index.empty()) return false;
  const Names secret = changed(git, {"HEAD"}, secret_patterns);
  Names left_out = both(in_tree, secret);
  left_out.merge(both(in_index, secret));
  tree.left_out = first_quoted(left_out);
  add_diff(git, {"HEAD"}, without(in_tree, secret), tree);
  add_diff(git, {"--cached", "HEAD"}, without(in_index, secret), tree);
  return true;
}

}  // namespace

GitRevision revision_of(const std::string& folder, const std::string& evaluated) {
  GitRevision revision;
  int signal = 0;
  {
    // With Interrupts, a signal cannot end the process before `Git` has removed its temporary folder.
    const Interrupts interrupts;
    Git git(folder, interrupts.token());
    revision.commit = git.commit();
    if (!revision.commit.empty()) {
      try {
        revision.dirty = compare(git, secret_paths(folder, git.top(), evaluated), revision.working_tree);
      } catch (const Unknown&) {
        revision.dirty = true;
      }
      revision.working_tree.untracked = lines_in(git.ask({"ls-files", "--others", "--exclude-standard"}));
    }
    revision.working_tree.problem = git.problem();
    signal = interrupts.signal();
  }
  if (signal != 0) (void)::raise(signal);
  return revision;
}

}  // namespace combu
