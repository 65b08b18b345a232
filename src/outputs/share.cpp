#include "outputs/share.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "outputs/manifest.hpp"

namespace combu::outputs {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_at_once = 4;

[[noreturn]] void refuse(const fs::path& path, const char* what, int code) {
  throw Error(ErrorKind::refused, path.string(),
              fmt::format("{}: {}", what, std::generic_category().message(code)));
}

Descriptor open_file(const fs::path& path, int how, mode_t mode = 0) {
  Descriptor file(::open(path.c_str(), how | O_CLOEXEC, mode));
  if (!file.is_open()) refuse(path, "cannot be opened", errno);
  return file;
}

// What one trial has left becomes what another one leaves, without a byte's being read where that can be.
class Sharer {
 public:
  // `clones`: whether the file system may have clones; it is told where it shows that it has none.
  Sharer(fs::path from, fs::path to, std::optional<Owner> owner, std::atomic<bool>& clones)
      : from_(std::move(from)), to_(std::move(to)), owner_(owner), clones_(clones) {}

  void share() {
    if (!fs::exists(from_ / k_manifest_name))
      throw Error(ErrorKind::not_found, from_.string(), "its outputs are not there any more");
    make_folder(to_);
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from_)) take(entry);
    // What is made in a folder changes its time.
    std::for_each(folders_.rbegin(), folders_.rend(), [this](const fs::path& folder) { settle(folder); });
    settle("");
    expect_manifest();
  }

 private:
  void take(const fs::directory_entry& entry) {
    const fs::path path = entry.path().lexically_relative(from_);
    const fs::path to = to_ / path;
    if (entry.is_symlink()) {
      fs::copy_symlink(entry.path(), to);
      own(to);
      struct stat seen {};
      if (lstat(entry.path().c_str(), &seen) == 0) set_times(to, seen);
    } else if (entry.is_directory()) {
      make_folder(to);
      folders_.push_back(path);
    } else if (entry.is_regular_file()) {
      share_file(entry.path(), to);
      files_.insert(path.string());
    }
  }

  void share_file(const fs::path& from, const fs::path& to) const {
    if (clones_ && clone(from, to)) return;
    struct stat seen {};
    const bool is_ours = lstat(from.c_str(), &seen) == 0 && seen.st_uid == (owner_ ? owner_->uid : geteuid());
    if (is_ours && ::link(from.c_str(), to.c_str()) == 0) return;
    fs::copy_file(from, to);
    own(to);
    set_times(to, seen);
  }

  // False where the file system cannot do that.
  [[nodiscard]] bool clone(const fs::path& from, const fs::path& to) const {
    const Descriptor source = open_file(from, O_RDONLY | O_NOFOLLOW);
    struct stat seen {};
    if (fstat(source.number(), &seen) != 0) refuse(from, "cannot be read", errno);
    {
      const Descriptor target = open_file(to, O_WRONLY | O_CREAT | O_EXCL, S_IRUSR | S_IWUSR);
      if (ioctl(target.number(), FICLONE, source.number()) == 0) {
        (void)fchmod(target.number(), seen.st_mode & k_permissions);
        own(to);
        set_times(to, seen);
        return true;
      }
    }
    clones_ = false;
    if (::unlink(to.c_str()) != 0) refuse(to, "cannot be removed", errno);
    return false;
  }

  void make_folder(const fs::path& path) const {
    if (mkdir(path.c_str(), S_IRWXU) != 0) refuse(path, "cannot be made", errno);
    own(path);
  }

  void settle(const fs::path& path) const {
    struct stat seen {};
    if (lstat((from_ / path).c_str(), &seen) != 0) refuse(from_ / path, "cannot be read", errno);
    if (chmod((to_ / path).c_str(), (seen.st_mode & k_permissions) | S_IRWXU) != 0)
      refuse(to_ / path, "cannot be written", errno);
    set_times(to_ / path, seen);
  }

  static void set_times(const fs::path& path, const struct stat& as) {
    const std::array<timespec, 2> times{as.st_mtim, as.st_mtim};
    (void)utimensat(AT_FDCWD, path.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
  }

  void own(const fs::path& path) const {
    if (owner_ && lchown(path.c_str(), owner_->uid, owner_->gid) != 0)
      refuse(path, "cannot be given to its owner", errno);
  }

  void expect_manifest() const {
    std::ifstream manifest(to_ / k_manifest_name);
    const std::string text(std::istreambuf_iterator<char>(manifest), {});
    if (manifest.bad()) refuse(to_ / k_manifest_name, "cannot be read", errno);
    for (const auto& [name, sum] : sums_in_manifest(text))
      if (!files_.contains(name))
        throw Error(ErrorKind::not_found, (from_ / name).string(), "is not there any more");
  }

  static constexpr mode_t k_permissions = 0777;

  fs::path from_;
  fs::path to_;
  std::optional<Owner> owner_;
  std::atomic<bool>& clones_;
  std::set<std::string> files_;
  std::vector<fs::path> folders_;
};

void make_folders(const fs::path& folder, std::optional<Owner> owner) {
  if (folder.has_relative_path() && !fs::exists(folder)) {
    make_folders(folder.parent_path(), owner);
    if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) refuse(folder, "cannot be made", errno);
    if (owner && lchown(folder.c_str(), owner->uid, owner->gid) != 0)
      refuse(folder, "cannot be given to its owner", errno);
  }
}

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
  const auto unfinished = [&](std::size_t i) { return home / ("." + wanted[i].trial + ".unfinished"); };
  const std::string no_home = fault_of([&] { make_folders(home, owner); });
  if (!no_home.empty()) {
    std::ranges::fill(faults, no_home);
    return faults;
  }
  in_parallel(wanted.size(), k_at_once, [&](std::size_t i) {
    faults[i] = fault_of([&] {
      fs::remove_all(unfinished(i));
      Sharer(wanted[i].from, unfinished(i), owner, clones).share();
    });
  });
  // One for all: each would write all that there is.
  const std::string unsafe = fault_of([&] {
    const Descriptor above = open_file(home, O_RDONLY | O_DIRECTORY);
    if (syncfs(above.number()) != 0) refuse(home, "cannot be written", errno);
  });
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (faults[i].empty()) faults[i] = unsafe;
    if (faults[i].empty()) faults[i] = fault_of([&] { put_in_place(unfinished(i), home / wanted[i].trial); });
    std::error_code ignored;
    if (!faults[i].empty()) fs::remove_all(unfinished(i), ignored);
  }
  const std::string unkept = fault_of([&] {
    const Descriptor above = open_file(home, O_RDONLY | O_DIRECTORY);
    if (fsync(above.number()) != 0) refuse(home, "cannot be written", errno);
  });
  if (!unkept.empty())
    for (std::string& fault : faults)
      if (fault.empty()) fault = unkept;
  return faults;
}

}  // namespace combu::outputs
