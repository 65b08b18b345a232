#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

#include "combu/base.hpp"

namespace combu {
namespace {

constexpr int k_open_folder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

}  // namespace

OpenedFolder open_without_links(const std::string& path,
                                const std::function<int(int above, const std::string& name)>& make) {
  constexpr int k_how = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  OpenedFolder opened{.folder = Descriptor(open("/", k_how))};
  for (std::size_t from = 0; from < path.size();) {
    const std::size_t end = std::min(path.find('/', from), path.size());
    const std::string name = path.substr(from, end - from);
    from = end + 1;
    if (name.empty()) continue;
    Descriptor next(openat(opened.folder.number(), name.c_str(), k_how));
    opened.code = next.is_open() ? 0 : errno;
    if (opened.code == ENOENT && make) {
      opened.code = make(opened.folder.number(), name);
      if (opened.code == 0) next = Descriptor(openat(opened.folder.number(), name.c_str(), k_how));
      if (opened.code == 0 && !next.is_open()) opened.code = errno;
    }
    opened.folder = std::move(next);
    if (opened.folder.is_open()) continue;
    opened.failed = path.substr(0, end);
    break;
  }
  return opened;
}

std::optional<std::vector<FolderEntry>> list_folder(int folder) {
  const int list = openat(folder, ".", k_open_folder);  // closedir() closes it
  if (list < 0) return std::nullopt;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(list), &closedir);
  if (!stream) {
    const int why = errno;
    ::close(list);
    errno = why;
    return std::nullopt;
  }
  std::vector<FolderEntry> entries;
  errno = 0;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread uses this stream
  while (const dirent* entry = readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..")
      entries.push_back({.name = std::string(name), .kind = static_cast<mode_t>(DTTOIF(entry->d_type))});
    errno = 0;
  }
  if (errno != 0) return std::nullopt;
  return entries;
}

FolderPath::FolderPath(Descriptor root) {
  if (!push(std::move(root))) throw std::system_error(errno, std::generic_category());
}

bool FolderPath::push(Descriptor folder) {
  struct stat seen {};
  if (fstat(folder.number(), &seen) != 0) return false;
  levels_.push_back({.folder = std::move(folder), .device = seen.st_dev, .inode = seen.st_ino});
  if (levels_.size() > k_open_max) levels_[levels_.size() - 1 - k_open_max].folder.close();
  return true;
}

bool FolderPath::enter(const std::string& name) {
  Descriptor folder(openat(number(), name.c_str(), k_open_folder));
  return folder.is_open() && push(std::move(folder));
}

bool FolderPath::leave() {
  Level& above = levels_[levels_.size() - 2];
  if (!above.folder.is_open()) {
    Descriptor folder(openat(number(), "..", k_open_folder));
    struct stat seen {};
    if (!folder.is_open() || fstat(folder.number(), &seen) != 0) return false;
    if (seen.st_dev != above.device || seen.st_ino != above.inode) {
      errno = ESTALE;
      return false;
    }
    above.folder = std::move(folder);
  }
  levels_.pop_back();
  return true;
}

}  // namespace combu
