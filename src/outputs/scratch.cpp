#include "outputs/scratch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "outputs/removal.hpp"

namespace combu::outputs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_name = "combu-";
// A folder with this file belongs to combu. The file is locked as long as the process that made the folder
// lives.
constexpr std::string_view k_lock_name = ".combu-lock";

// Locks the file. Returns true if the lock succeeded and the file still exists. Between creation and locking,
// another process may mistake a new folder for a leftover and remove the folder.
bool lock(const Descriptor& file) {
  struct stat seen {};
  return file.is_open() && flock(file.number(), LOCK_EX | LOCK_NB) == 0 && fstat(file.number(), &seen) == 0 &&
         seen.st_nlink > 0 && seen.st_uid == geteuid();
}

// True if the file system does not support locks. On such a file system, no process takes the folder for a
// leftover, because no process removes a folder without its lock.
bool cannot_be_locked(const Descriptor& file) {
  return file.is_open() && flock(file.number(), LOCK_EX | LOCK_NB) != 0 && errno != EWOULDBLOCK;
}

Descriptor open_lock(const fs::path& folder, int how) {
  constexpr mode_t k_mode = 0600;
  return Descriptor(open((folder / k_lock_name).c_str(), how | O_RDWR | O_NOFOLLOW | O_CLOEXEC, k_mode));
}

// Returns the paths of the entries in `folder`, as far as the folder can be read.
std::vector<fs::path> paths_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code fault;
  for (fs::directory_iterator it(folder, fault); !fault && it != fs::directory_iterator();
       it.increment(fault))
    paths.push_back(it->path());
  return paths;
}

// Removes the lock file last, because only the lock file identifies the folder as combu's. If anything else
// cannot be removed, the folder and its lock file stay for the next cleanup.
void remove_folder(const fs::path& folder) {
  bool is_empty = true;
  for (const fs::path& path : paths_in(folder))
    if (path.filename() != k_lock_name && !remove_tree(AT_FDCWD, path, "").empty()) is_empty = false;
  if (is_empty) (void)remove_tree(AT_FDCWD, folder, "");
}

bool is_own_folder(const fs::path& path) {
  struct stat seen {};
  return lstat(path.c_str(), &seen) == 0 && S_ISDIR(seen.st_mode) && seen.st_uid == geteuid();
}

// Removes the temporary folders of combu processes that have died.
void clean(const std::string& above) {
  for (const fs::path& path : paths_in(above)) {
    if (!path.filename().string().starts_with(k_name) || !is_own_folder(path)) continue;
    const Descriptor file = open_lock(path, 0);
    if (lock(file)) remove_folder(path);
  }
}

}  // namespace

Scratch::Scratch(const std::string& folder) {
  // Resolve `folder` first, because later steps follow no links.
  std::error_code missing;
  const fs::path real = fs::canonical(folder, missing);
  const std::string above = missing ? folder : real.string();
  clean(above);
  constexpr int k_tries = 10;
  int fault = EBUSY;
  for (int i = 0; i < k_tries && !lock_.is_open(); ++i) {
    path_ = fmt::format("{}/{}XXXXXX", above, k_name);
    if (mkdtemp(path_.data()) == nullptr) {
      fault = errno;
      break;
    }
    Descriptor file = open_lock(path_, O_CREAT | O_EXCL);
    if (!file.is_open()) fault = errno;
    if (lock(file) || cannot_be_locked(file)) {
      lock_ = std::move(file);
    } else {
      remove_folder(path_);
    }
  }
  if (!lock_.is_open())
    throw Error(ErrorKind::refused, above,
                fmt::format("making a folder for downloads from the bucket failed: {}; set TMPDIR",
                            std::generic_category().message(fault)));
}

Scratch::~Scratch() {
  remove_folder(path_);
}

}  // namespace combu::outputs
