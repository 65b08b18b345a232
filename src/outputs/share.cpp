#include "outputs/share.hpp"

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
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "outputs/manifest.hpp"
#include "outputs/place_folders.hpp"
#include "outputs/removal.hpp"

namespace combu::outputs {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_at_once = 4;

constexpr int k_folder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// Copies the outputs of one trial to another trial, without reading file content if the file system allows
// that.
class Sharer {
 public:
  // `clones`: true if the file system may support clones. The Sharer sets `clones` to false as soon as a
  // clone fails.
  Sharer(fs::path from, std::optional<Owner> owner, std::atomic<bool>& clones)
      : from_(std::move(from)), owner_(owner), clones_(clones) {}

  // Copies the outputs to the new folder `name` in `parent`.
  void share(const Descriptor& parent, const std::string& name) {
    Descriptor source = open_source();
    read_manifest(source);
    root_ = make_folder(parent.number(), name, name);
    share_all(FolderPath(std::move(source)), FolderPath(open_again(root_, name)));
    if (!missing_.empty())
      throw Error(ErrorKind::not_found, (from_ / missing_.begin()->first).string(),
                  "does not exist any more");
  }

 private:
  // Opens the folder from_. If the folder does not exist, the returned descriptor is not open. In the path
  // COLLECT/EXPERIMENT/RUN/TRIAL, only COLLECT may contain symbolic links.
  [[nodiscard]] Descriptor open_source() const {
    const fs::path collect = from_.parent_path().parent_path().parent_path();
    std::error_code missing;
    const fs::path real = fs::canonical(collect, missing);
    if (missing) return Descriptor();
    const OpenedFolder opened = open_without_links(real / from_.lexically_relative(collect));
    if (opened.code == ENOENT) return Descriptor();
    if (!opened.folder.is_open()) refuse(opened.failed, "cannot be opened", opened.code);
    Descriptor source(openat(opened.folder.number(), ".", k_folder));
    if (!source.is_open()) refuse(from_, "cannot be opened", errno);
    return source;
  }

  // A source folder on the path to the current entry.
  struct Level {
    std::vector<FolderEntry> entries;
    std::size_t next = 0;
    struct stat seen {};
    std::size_t path_size = 0;
  };

  // Copies all entries without recursion, because a trial may nest folders to any depth.
  void share_all(FolderPath source, FolderPath target) {
    std::string path;  // path of the current entry, relative to from_
    std::vector<Level> levels;
    levels.push_back(begin_folder(source, target, path));
    while (true) {
      Level& level = levels.back();
      path.resize(level.path_size);
      if (level.next == level.entries.size()) {
        end_folder(target, level, path);
        levels.pop_back();
        if (levels.empty()) return;
        if (!source.leave() || !target.leave()) refuse(from_ / path, "cannot be read", errno);
        continue;
      }
      const std::string name = std::move(level.entries[level.next++].name);
      path += (path.empty() ? "" : "/") + name;
      if (share_entry(source, target, name, path)) levels.push_back(begin_folder(source, target, path));
    }
  }

  [[nodiscard]] Level begin_folder(const FolderPath& source, const FolderPath& target,
                                   const std::string& path) const {
    Level level;
    level.path_size = path.size();
    auto entries = list_folder(source.number());
    if (!entries || fstat(source.number(), &level.seen) != 0) refuse(from_ / path, "cannot be read", errno);
    level.entries = std::move(*entries);
    own(target.number(), "", path, AT_EMPTY_PATH);
    return level;
  }

  // Sets a folder's permissions and modification time after its entries are made, because making entries
  // changes the modification time.
  static void end_folder(const FolderPath& target, const Level& level, const std::string& path) {
    if (fchmod(target.number(), (level.seen.st_mode & k_permissions) | S_IRWXU) != 0)
      refuse(path, "cannot be written", errno);
    set_times(target.number(), nullptr, level.seen);
  }

  [[nodiscard]] static Descriptor make_folder(int above, const std::string& name, const std::string& path) {
    if (mkdirat(above, name.c_str(), S_IRWXU) != 0) refuse(path, "cannot be made", errno);
    Descriptor folder(openat(above, name.c_str(), k_folder | O_NOFOLLOW));
    if (!folder.is_open()) refuse(path, "cannot be opened", errno);
    return folder;
  }

  [[nodiscard]] static Descriptor open_again(const Descriptor& folder, const std::string& path) {
    Descriptor again(openat(folder.number(), ".", k_folder));
    if (!again.is_open()) refuse(path, "cannot be opened", errno);
    return again;
  }

  // Copies one entry. If the entry is a folder, enters it in `source` and `target` and returns true.
  [[nodiscard]] bool share_entry(FolderPath& source, FolderPath& target, const std::string& name,
                                 const std::string& path) {
    struct stat seen {};
    if (fstatat(source.number(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0)
      refuse(from_ / path, "cannot be read", errno);
    if (S_ISDIR(seen.st_mode)) {
      if (!source.enter(name)) refuse(from_ / path, "cannot be opened", errno);
      if (mkdirat(target.number(), name.c_str(), S_IRWXU) != 0 || !target.enter(name))
        refuse(path, "cannot be made", errno);
      return true;
    }
    if (S_ISLNK(seen.st_mode)) {
      share_link(source.number(), target.number(), name, path, seen);
    } else if (S_ISREG(seen.st_mode) && is_an_output(source.number(), name, path, seen)) {
      share_file(source.number(), target.number(), name, path, seen);
    }
    return false;
  }

  // True if the trial wrote the file and the file is unchanged since. The manifest was written last, so a
  // file older than the manifest is unchanged. A newer file is compared with its digest in the manifest. The
  // manifest contains only one of several hard links of a file, so the other links are accepted without a
  // comparison.
  [[nodiscard]] bool is_an_output(int source, const std::string& name, const std::string& path,
                                  const struct stat& seen) {
    const bool is_newer =
        std::tie(seen.st_mtim.tv_sec, seen.st_mtim.tv_nsec) > std::tie(written_.tv_sec, written_.tv_nsec);
    const auto named = missing_.find(path);
    if (named == missing_.end()) return !is_newer || seen.st_nlink > 1;
    if (is_newer && sum_of(source, name, path) != named->second)
      throw Error(ErrorKind::corrupt, (from_ / path).string(),
                  "does not match its manifest: the file was changed after it was collected");
    missing_.erase(named);
    return true;
  }

  void share_link(int source, int target, const std::string& name, const std::string& path,
                  const struct stat& seen) const {
    std::string where(static_cast<std::size_t>(seen.st_size) + 1, '\0');
    const ssize_t size = readlinkat(source, name.c_str(), where.data(), where.size());
    if (size == -1) refuse(from_ / path, "cannot be read", errno);
    where.resize(static_cast<std::size_t>(size));
    if (symlinkat(where.c_str(), target, name.c_str()) != 0)
      refuse(from_ / path, "the link cannot be copied", errno);
    own(target, name.c_str(), path);
    set_times(target, name.c_str(), seen);
  }

  void share_file(int source, int target, const std::string& name, const std::string& path,
                  const struct stat& seen) {
    const std::pair file(seen.st_dev, seen.st_ino);
    if (const auto known = made_.find(file);
        known != made_.end() && linkat(root_.number(), known->second.c_str(), target, name.c_str(), 0) == 0)
      return;
    if (!clones_ || !make_file(source, target, name, path, seen, true)) {
      const bool is_ours = seen.st_uid == (owner_ ? owner_->uid : geteuid());
      if (is_ours && linkat(source, name.c_str(), target, name.c_str(), 0) == 0) return;
      (void)make_file(source, target, name, path, seen, false);
    }
    if (seen.st_nlink > 1) made_.emplace(file, path);
  }

  // Copies a file, as a clone if `as_clone` is set. If the clone fails, returns false and leaves no new file.
  [[nodiscard]] bool make_file(int source, int target, const std::string& name, const std::string& path,
                               const struct stat& seen, bool as_clone) const {
    const Descriptor from = open_file(source, name, path);
    const Descriptor to(
        openat(target, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!to.is_open()) refuse(path, "cannot be made", errno);
    if (!as_clone) {
      copy(from, to, path);
    } else if (ioctl(to.number(), FICLONE, from.number()) != 0) {
      clones_ = false;
      if (unlinkat(target, name.c_str(), 0) != 0) refuse(path, "cannot be removed", errno);
      return false;
    }
    if (fchmod(to.number(), seen.st_mode & k_permissions) != 0) refuse(path, "cannot be written", errno);
    own(to.number(), "", path, AT_EMPTY_PATH);
    set_times(to.number(), nullptr, seen);
    return true;
  }

  [[nodiscard]] Descriptor open_file(int folder, const std::string& name, const std::string& path) const {
    // O_NONBLOCK: if a pipe has replaced the file, the open must not block.
    Descriptor file(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat seen {};
    if (!file.is_open() || fstat(file.number(), &seen) != 0) refuse(from_ / path, "cannot be opened", errno);
    if (!S_ISREG(seen.st_mode))
      throw Error(ErrorKind::corrupt, (from_ / path).string(),
                  "must be a file: it was replaced after it was collected");
    return file;
  }

  // Reads the file from the current position to the end, and passes the bytes to `sink`.
  template <class Sink>
  void read_file(const Descriptor& file, const std::string& path, const Sink& sink) const {
    std::vector<char> piece(std::size_t{64} << 10U);
    while (true) {
      const ssize_t count = read(file.number(), piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse(from_ / path, "cannot be read", errno);
      if (count == 0) return;
      sink(std::string_view(piece.data(), static_cast<std::size_t>(count)));
    }
  }

  [[nodiscard]] std::string sum_of(int folder, const std::string& name, const std::string& path) const {
    Sha256 sum;
    read_file(open_file(folder, name, path), path, [&](std::string_view bytes) { sum.add(bytes); });
    return sum.text();
  }

  void copy(const Descriptor& from, const Descriptor& to, const std::string& path) const {
    read_file(from, path, [&](std::string_view bytes) {
      while (!bytes.empty()) {
        const ssize_t written = ::write(to.number(), bytes.data(), bytes.size());
        if (written == -1) {
          if (errno == EINTR) continue;
          refuse(path, "cannot be written", errno);
        }
        bytes.remove_prefix(static_cast<std::size_t>(written));
      }
    });
  }

  static void set_times(int folder, const char* name, const struct stat& as) {
    const std::array<timespec, 2> times{as.st_mtim, as.st_mtim};
    (void)(name == nullptr ? futimens(folder, times.data())
                           : utimensat(folder, name, times.data(), AT_SYMLINK_NOFOLLOW));
  }

  void own(int folder, const char* name, const std::string& path, int how = AT_SYMLINK_NOFOLLOW) const {
    if (owner_ && fchownat(folder, name, owner_->uid, owner_->gid, how) != 0)
      refuse(path, "setting the owner failed", errno);
  }

  void read_manifest(const Descriptor& source) {
    const std::string name(k_manifest_name);
    if (!source.is_open() || faccessat(source.number(), name.c_str(), F_OK, 0) != 0)
      throw Error(ErrorKind::not_found, from_.string(), "the outputs do not exist any more");
    const Descriptor file = open_file(source.number(), name, name);
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
  timespec written_{};  // modification time of the manifest
  // digest of each file of the manifest that the traversal of the folder has not reached yet, by path
  std::map<std::string, std::string> missing_;
  Descriptor root_;  // the new folder
  // For each file with several hard links, the path of its first copy, relative to root_.
  std::map<std::pair<dev_t, ino_t>, std::string> made_;
};

// Renames `unfinished` to `place`, and replaces an existing `place`. An existing folder `place` comes from an
// earlier attempt, or from a process that died before it recorded its result.
void put_in_place(int above, const std::string& unfinished, const std::string& place,
                  const std::string& shown) {
  const auto put = [&] { return renameat(above, unfinished.c_str(), above, place.c_str()) == 0; };
  if (put()) return;
  if (errno != ENOTEMPTY && errno != EEXIST)
    refuse(shown + '/' + place, "renaming the finished outputs to this name failed", errno);
  expect_removed(above, place, shown);
  if (!put()) refuse(shown + '/' + place, "renaming the finished outputs to this name failed", errno);
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
  const fs::path parent = folder;
  std::vector<std::string> faults(wanted.size());
  std::atomic<bool> clones = true;
  const auto unfinished = [&](std::size_t i) { return "." + wanted[i].trial + ".unfinished"; };
  Descriptor above;
  const std::string parent_fault = fault_of([&] { above = make_folders(parent, owner); });
  if (!parent_fault.empty()) {
    std::ranges::fill(faults, parent_fault);
    return faults;
  }
  in_parallel(wanted.size(), k_at_once, [&](std::size_t i) {
    faults[i] = fault_of([&] {
      expect_removed(above.number(), unfinished(i), folder);
      Sharer(wanted[i].from, owner, clones).share(above, unfinished(i));
    });
  });
  // Call syncfs() once for all trials, because each call writes all data of the file system to disk.
  const std::string unsafe = fault_of([&] {
    if (syncfs(above.number()) != 0) refuse(parent, "cannot be written", errno);
  });
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (faults[i].empty()) faults[i] = unsafe;
    if (faults[i].empty())
      faults[i] = fault_of([&] { put_in_place(above.number(), unfinished(i), wanted[i].trial, folder); });
    if (faults[i].empty()) continue;
    const std::string unremoved = remove_tree(above.number(), unfinished(i), folder);
    if (!unremoved.empty() && unremoved != faults[i]) faults[i] += "; " + unremoved;
  }
  const std::string unkept = fault_of([&] {
    if (fsync(above.number()) != 0) refuse(parent, "cannot be written", errno);
  });
  if (!unkept.empty())
    for (std::string& fault : faults)
      if (fault.empty()) fault = unkept;
  return faults;
}

}  // namespace combu::outputs
