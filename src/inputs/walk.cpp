#include "inputs/walk.hpp"

#include <fcntl.h>
#include <fts.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <system_error>
#include <vector>

#include "combu/base.hpp"

namespace combu::inputs {
namespace {

constexpr std::size_t k_piece = std::size_t{256} << 10U;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::refused, "inputs", path + ' ' + why);
}

[[noreturn]] void refuse(const std::string& path, int error) {
  refuse(path,
         error == ENOENT ? "is not there" : "cannot be read: " + std::generic_category().message(error));
}

int by_name(const FTSENT** one, const FTSENT** other) {
  return std::strcmp((*one)->fts_name, (*other)->fts_name);
}

using Tree = std::unique_ptr<FTS, decltype(&fts_close)>;

Descriptor open_file(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) refuse(path, errno);
  return file;
}

}  // namespace

bool walk(const std::string& path, const std::function<bool(const Found&)>& visit) {
  std::string root = path;
  const std::array<char*, 2> roots{root.data(), nullptr};
  const Tree tree(fts_open(roots.data(), FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, &by_name), &fts_close);
  if (!tree) refuse(path, errno);
  while (true) {
    errno = 0;
    const FTSENT* entry = fts_read(tree.get());
    if (entry == nullptr) break;
    if (entry->fts_info == FTS_DP) continue;
    const std::string here(entry->fts_path, entry->fts_pathlen);
    switch (entry->fts_info) {
      case FTS_D:
      case FTS_F:
      case FTS_SL:
        break;
      case FTS_DEFAULT:
        refuse(here, "is neither a file nor a folder nor a link, and cannot be sent");
      case FTS_SLNONE:  // of the input itself only: others are not followed
        refuse(here, ENOENT);
      default:
        refuse(here, entry->fts_errno);
    }
    const std::string_view name =
        entry->fts_level == FTS_ROOTLEVEL ? std::string_view() : std::string_view(here).substr(root.size());
    if (!visit({.path = here, .name = name, .status = *entry->fts_statp})) return false;
  }
  if (errno != 0) refuse(path, errno);
  return true;
}

bool read_file(const Found& found, const std::function<bool(std::string_view)>& tell) {
  const Descriptor file = open_file(found.path);
  std::int64_t left = found.status.st_size;
  std::vector<char> piece(static_cast<std::size_t>(std::min<std::int64_t>(left, k_piece)));
  while (left > 0) {
    const ssize_t count =
        read(file.number(), piece.data(), static_cast<std::size_t>(std::min<std::int64_t>(left, k_piece)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(found.path, errno);
    if (count == 0) refuse(found.path, "became shorter while it was read");
    if (!tell({piece.data(), static_cast<std::size_t>(count)})) return false;
    left -= count;
  }
  return true;
}

std::string read_link(const Found& found) {
  std::string target(static_cast<std::size_t>(std::max<std::int64_t>(found.status.st_size, 255)) + 1, '\0');
  while (true) {
    const ssize_t count = readlink(found.path.c_str(), target.data(), target.size());
    if (count < 0) refuse(found.path, errno);
    if (static_cast<std::size_t>(count) < target.size()) {
      target.resize(static_cast<std::size_t>(count));
      return target;
    }
    target.resize(target.size() * 2);
  }
}

}  // namespace combu::inputs
