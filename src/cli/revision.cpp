#include "cli/revision.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>

#include "combu/view.hpp"

namespace combu {
namespace {

// What a command writes; empty when it fails.
std::string answer(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> piece{};
  while (const std::size_t size = std::fread(piece.data(), 1, piece.size(), pipe))
    text.append(piece.data(), size);
  return pclose(pipe) == 0 ? text : "";
}

}  // namespace

Revision revision_of(const std::string& folder) {
  const std::string git = fmt::format("git --no-optional-locks -C {} ", shell_word(folder));
  std::string commit = answer(git + "rev-parse HEAD 2>/dev/null </dev/null");
  commit.erase(commit.find_last_not_of('\n') + 1);
  if (commit.empty()) return {};
  return {.commit = commit,
          .dirty = !answer(git + "status --porcelain --untracked-files=no 2>/dev/null </dev/null").empty()};
}

}  // namespace combu
