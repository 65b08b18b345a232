#include "outputs/share.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "outputs/folder.hpp"
#include "outputs/manifest.hpp"

namespace combu::outputs {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_at_once = 4;

constexpr int k_folder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// `path`: of `name`, for a person.
Descriptor open_folder_in(const Descriptor& above, const std::string& name, const fs::path& path) {
  Descriptor folder(openat(above.number(), name.c_str(), k_folder | O_NOFOLLOW));
  if (!folder.is_open()) refuse(path, "cannot be opened", errno);
  return folder;
}

// What one trial has left becomes what another one leaves, without a byte's being read where that can be.
class Sharer {
 public:
  // `clones`: whether the file system may have clones; it is told where it shows that it has none.
  Sharer(fs::path from, std::optional<Owner> owner, std::atomic<bool>& clones)
      : from_(std::move(from)), owner_(owner), clones_(clones) {}

  // Into `name`, a folder in `home`.
  void share(const Descriptor& home, const std::string& name) {
    const Descriptor source(open(from_.c_str(), k_folder));
    if (!source.is_open() && errno != ENOENT) refuse(from_, "cannot be opened", errno);
    read_manifest(source);
    take_folder(source, home, name, "");
    if (!missing_.empty())
      throw Error(ErrorKind::not_found, (from_ / missing_.begin()->first).string(), "is not there any more");
  }

 private:
  // `path`: of what is taken, below from_.
  void take_folder(const Descriptor& source, const Descriptor& above, const std::string& name,
                   const fs::path& path) {
    struct stat seen {};
    if (fstat(source.number(), &seen) != 0) refuse(from_ / path, "cannot be read", errno);
    if (mkdirat(above.number(), name.c_str(), S_IRWXU) != 0) refuse(name, "cannot be made", errno);
    const Descriptor target = open_folder_in(above, name, path.empty() ? fs::path(name) : path);
    if (path.empty()) root_ = target.number();
    own(target.number(), "", path, AT_EMPTY_PATH);
    for (const std::string& one : names_in(source, path)) take(source, target, one, path / one);
    // What is made in a folder changes its time.
    if (fchmod(target.number(), (seen.st_mode & k_permissions) | S_IRWXU) != 0)
      refuse(name, "cannot be written", errno);
    set_times(target.number(), nullptr, seen);
  }

  // Read to the end first: one descriptor less for each folder that is gone down into.
  [[nodiscard]] std::vector<std::string> names_in(const Descriptor& source, const fs::path& path) const {
    const int list = openat(source.number(), ".", k_folder);  // closed with the entries
    if (list < 0) refuse(from_ / path, "cannot be read", errno);
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(list), &closedir);
    if (!entries) {
      const int why = errno;
      ::close(list);
      refuse(from_ / path, "cannot be read", why);
    }
    std::vector<std::string> names;
    errno = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of its own
    while (const dirent* entry = readdir(entries.get())) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
      errno = 0;
    }
    if (errno != 0) refuse(from_ / path, "cannot be read", errno);
    return names;
  }

  void take(const Descriptor& source, const Descriptor& target, const std::string& name,
            const fs::path& path) {
    struct stat seen {};
    if (fstatat(source.number(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0)
      refuse(from_ / path, "cannot be read", errno);
    if (S_ISDIR(seen.st_mode)) {
      take_folder(open_folder_in(source, name, from_ / path), target, name, path);
    } else if (S_ISLNK(seen.st_mode)) {
      take_link(source, target, name, path, seen);
    } else if (S_ISREG(seen.st_mode) && was_left(source, name, path, seen)) {
      share_file(source, target, name, path, seen);
    }
  }

  // By the trial, and is as it was then: the manifest was written last, so what is older has not been written
  // to since. Another name of a file is not in the manifest.
  [[nodiscard]] bool was_left(const Descriptor& source, const std::string& name, const fs::path& path,
                              const struct stat& seen) {
    const bool is_newer =
        std::tie(seen.st_mtim.tv_sec, seen.st_mtim.tv_nsec) > std::tie(written_.tv_sec, written_.tv_nsec);
    const auto named = missing_.find(path.string());
    if (named == missing_.end()) return !is_newer || seen.st_nlink > 1;
    if (is_newer && sum_of(source, name, path) != named->second)
      throw Error(ErrorKind::corrupt, (from_ / path).string(),
                  "is not what its manifest says: somebody has changed it");
    missing_.erase(named);
    return true;
  }

  void take_link(const Descriptor& source, const Descriptor& target, const std::string& name,
                 const fs::path& path, const struct stat& seen) const {
    std::string where(static_cast<std::size_t>(seen.st_size) + 1, '\0');
    const ssize_t size = readlinkat(source.number(), name.c_str(), where.data(), where.size());
    if (size < 0) refuse(from_ / path, "cannot be read", errno);
    where.resize(static_cast<std::size_t>(size));
    if (symlinkat(where.c_str(), target.number(), name.c_str()) != 0)
      refuse(from_ / path, "cannot be linked alike", errno);
    own(target.number(), name.c_str(), path);
    set_times(target.number(), name.c_str(), seen);
  }

  void share_file(const Descriptor& source, const Descriptor& target, const std::string& name,
                  const fs::path& path, const struct stat& seen) {
    const std::pair file(seen.st_dev, seen.st_ino);
    if (const auto known = made_.find(file);
        known != made_.end() && linkat(root_, known->second.c_str(), target.number(), name.c_str(), 0) == 0)
      return;
    if (!clones_ || !make_file(source, target, name, path, seen, true)) {
      const bool is_ours = seen.st_uid == (owner_ ? owner_->uid : geteuid());
      if (is_ours && linkat(source.number(), name.c_str(), target.number(), name.c_str(), 0) == 0) return;
      (void)make_file(source, target, name, path, seen, false);
    }
    if (seen.st_nlink > 1) made_.emplace(file, path.string());
  }

  // False, and there is none: the file system has no clones.
  [[nodiscard]] bool make_file(const Descriptor& source, const Descriptor& target, const std::string& name,
                               const fs::path& path, const struct stat& seen, bool as_clone) const {
    const Descriptor from = open_file(source, name, path);
    const Descriptor to(
        openat(target.number(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!to.is_open()) refuse(path, "cannot be made", errno);
    if (!as_clone) {
      copy(from, to, path);
    } else if (ioctl(to.number(), FICLONE, from.number()) != 0) {
      clones_ = false;
      if (unlinkat(target.number(), name.c_str(), 0) != 0) refuse(path, "cannot be removed", errno);
      return false;
    }
    if (fchmod(to.number(), seen.st_mode & k_permissions) != 0) refuse(path, "cannot be written", errno);
    own(to.number(), "", path, AT_EMPTY_PATH);
    set_times(to.number(), nullptr, seen);
    return true;
  }

  [[nodiscard]] Descriptor open_file(const Descriptor& folder, const std::string& name,
                                     const fs::path& path) const {
    Descriptor file(openat(folder.number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file.is_open()) refuse(from_ / path, "cannot be opened", errno);
    return file;
  }

  // To its end.
  template <class Sink>
  void read_file(const Descriptor& file, const fs::path& path, const Sink& sink) const {
    std::vector<char> piece(std::size_t{64} << 10U);
    while (true) {
      const ssize_t count = read(file.number(), piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse(from_ / path, "cannot be read", errno);
      if (count == 0) return;
      sink(std::string_view(piece.data(), static_cast<std::size_t>(count)));
    }
  }

  [[nodiscard]] std::string sum_of(const Descriptor& folder, const std::string& name,
                                   const fs::path& path) const {
    Sha256 sum;
    read_file(open_file(folder, name, path), path, [&](std::string_view bytes) { sum.add(bytes); });
    return sum.text();
  }

  void copy(const Descriptor& from, const Descriptor& to, const fs::path& path) const {
    read_file(from, path, [&](std::string_view bytes) {
      while (!bytes.empty()) {
        const ssize_t written = ::write(to.number(), bytes.data(), bytes.size());
        if (written < 0 && errno != EINTR) refuse(path, "cannot be written", errno);
        bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
      }
    });
  }

  static void set_times(int folder, const char* name, const struct stat& as) {
    const std::array<timespec, 2> times{as.st_mtim, as.st_mtim};
    (void)(name == nullptr ? futimens(folder, times.data())
                           : utimensat(folder, name, times.data(), AT_SYMLINK_NOFOLLOW));
  }

  void own(int folder, const char* name, const fs::path& path, int how = AT_SYMLINK_NOFOLLOW) const {
    if (owner_ && fchownat(folder, name, owner_->uid, owner_->gid, how) != 0)
      refuse(path, "cannot be given to its owner", errno);
  }

  void read_manifest(const Descriptor& source) {
    const std::string name(k_manifest_name);
    if (!source.is_open() || faccessat(source.number(), name.c_str(), F_OK, 0) != 0)
      throw Error(ErrorKind::not_found, from_.string(), "its outputs are not there any more");
    const Descriptor file = open_file(source, name, name);
    struct stat seen {};
    if (fstat(file.number(), &seen) != 0) refuse(from_ / name, "cannot be read", errno);
    written_ = seen.st_mtim;
    std::string text;
    read_file(file, name, [&](std::string_view bytes) { text += bytes; });
    missing_ = sums_in_manifest(text);
  }

  fs::path from_;
  std::optional<Owner> owner_;
  std::atomic<bool>& clones_;
  timespec written_{};                          // the manifest
  std::map<std::string, std::string> missing_;  // sums of what it names, until that has been seen
  int root_ = -1;                               // of what is made
  // Of files with several names the first that has been made, below root_.
  std::map<std::pair<dev_t, ino_t>, std::string> made_;
};

// What stands there is of an earlier attempt, or of a process that died before it could tell.
void put_in_place(const fs::path& unfinished, const fs::path& place) {
  if (::rename(unfinished.c_str(), place.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) refuse(place, "cannot be put in place", errno);
  fs::remove_all(place);
  if (::rename(unfinished.c_str(), place.c_str()) != 0) refuse(place, "cannot be put in place", errno);
}

template <class Body>
std::string fault_of(const Body& body) {
  try {
    body();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

std::vector<std::string> share_in_folder(const std::string& folder, std::optional<Owner> owner,
                                         std::span<const Sharing> wanted) {
  const fs::path home = folder;
  std::vector<std::string> faults(wanted.size());
  std::atomic<bool> clones = true;
  const auto unfinished = [&](std::size_t i) { return "." + wanted[i].trial + ".unfinished"; };
  Descriptor above;
  const std::string no_home = fault_of([&] {
    make_folders(home, owner);
    above = Descriptor(open(home.c_str(), k_folder));
    if (!above.is_open()) refuse(home, "cannot be opened", errno);
  });
  if (!no_home.empty()) {
    std::ranges::fill(faults, no_home);
    return faults;
  }
  in_parallel(wanted.size(), k_at_once, [&](std::size_t i) {
    faults[i] = fault_of([&] {
      fs::remove_all(home / unfinished(i));
      Sharer(wanted[i].from, owner, clones).share(above, unfinished(i));
    });
  });
  // One for all: each would write all that there is.
  const std::string unsafe = fault_of([&] {
    if (syncfs(above.number()) != 0) refuse(home, "cannot be written", errno);
  });
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (faults[i].empty()) faults[i] = unsafe;
    if (faults[i].empty())
      faults[i] = fault_of([&] { put_in_place(home / unfinished(i), home / wanted[i].trial); });
    std::error_code ignored;
    if (!faults[i].empty()) fs::remove_all(home / unfinished(i), ignored);
  }
  const std::string unkept = fault_of([&] {
    if (fsync(above.number()) != 0) refuse(home, "cannot be written", errno);
  });
  if (!unkept.empty())
    for (std::string& fault : faults)
      if (fault.empty()) fault = unkept;
  return faults;
}

}  // namespace combu::outputs
