#include "outputs/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "combu/outputs.hpp"
#include "outputs/place_folders.hpp"
#include "outputs/removal.hpp"
#include "outputs/share.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;
using outputs::k_permissions;
using outputs::refuse;

constexpr mode_t k_owner_reads_and_writes = S_IRUSR | S_IWUSR;
constexpr std::size_t k_synced_alone_max = 64;

std::array<timespec, 2> times_of(Instant modified) {
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(modified.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(nanoseconds);
  const timespec time{.tv_sec = seconds.count(), .tv_nsec = (nanoseconds - seconds).count()};
  return {time, time};
}

constexpr std::size_t k_block = 4096;  // the usual block size of file systems

// True if all bytes are zero. `bytes`: at most one block.
bool are_zeros(std::string_view bytes) {
  static constexpr std::array<char, k_block> k_zeros{};
  return bytes == std::string_view(k_zeros.data(), bytes.size());
}

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

std::string unfinished_name(const std::string& place) {
  return "." + place + ".unfinished";
}

// Returns why the file system can never store this output; nullptr if the error is a fault of this machine,
// and a retry may succeed.
const char* fault_of_output(int code) {
  switch (code) {
    case ENAMETOOLONG:
      return "a name in the path, or the target of the link, is longer than the file system allows";
    case EFBIG:
      return "the file is larger than the file system allows";
    case EMLINK:
      return "the file has more hard links, or its folder has more subfolders, than the file system allows";
    case EINVAL:
    case EILSEQ:
      return "the file system does not allow this name, or a file of this size";
    case EEXIST:
    case EISDIR:
    case ELOOP:
    case ENOTDIR:
      return "another output has the same path, or a path that the file system cannot distinguish from this "
             "one";
    case EOPNOTSUPP:
      return "the file system does not support this kind of link";
    default:
      return nullptr;
  }
}

// Returns errno after making a link failed, with EOPNOTSUPP in place of EPERM. File systems without links,
// such as FAT, set EPERM.
int link_fault() {
  return errno == EPERM ? EOPNOTSUPP : errno;
}

// The destination of an output: the relative path `path` below the folder `place`.
struct Target {
  std::string place;
  std::string path;

  // Error(invalid) makes the attempt fail, because its outputs caused the error. After Error(refused), combu
  // retries the collection.
  [[noreturn]] void refuse(const char* what, int code) const {
    if (const char* const why = fault_of_output(code))
      throw Error(ErrorKind::invalid, shortened(path), fmt::format("{}: {}: {}", what, why, place));
    outputs::refuse(place + '/' + path, what, code);
  }
};

// A file that is written sequentially, with holes in place of blocks of zeros.
class Growing {
 public:
  Growing(Descriptor file, OutputEntry entry, Target target)
      : file_(std::move(file)), entry_(std::move(entry)), target_(std::move(target)) {
    // Fail before any bytes are read if the file system does not support a file of this size.
    if (entry_.size >= k_large && ftruncate(file_.number(), entry_.size) != 0)
      target_.refuse("cannot be made", errno);
  }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t room = k_block - static_cast<std::size_t>(size_) % k_block;
      const std::string_view block = bytes.substr(0, room);
      if (!are_zeros(block)) {
        std::size_t count = block.size();
        // Write the following blocks in the same call, up to the first block of zeros.
        for (auto next = bytes.substr(count, k_block); !are_zeros(next); next = bytes.substr(count, k_block))
          count += next.size();
        put(bytes.substr(0, count));
        bytes.remove_prefix(count);
      } else {
        size_ += static_cast<off_t>(block.size());
        bytes.remove_prefix(block.size());
      }
    }
  }

  void end() {
    const int number = file_.number();
    const auto times = times_of(entry_.modified);
    // Growing::write() skips zeros, so the file may still be shorter than size_.
    if (ftruncate(number, size_) != 0 ||
        fchmod(number, (entry_.mode & k_permissions) | k_owner_reads_and_writes) != 0 ||
        futimens(number, times.data()) != 0)
      target_.refuse("cannot be written", errno);
  }

 private:
  static constexpr std::int64_t k_large = std::int64_t{1} << 30U;
  static constexpr off_t k_write_out = off_t{8} << 20U;

  void put(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = pwrite(file_.number(), bytes.data(), bytes.size(), size_);
      if (count == -1) {
        if (errno == EINTR) continue;
        target_.refuse("cannot be written", errno);
      }
      size_ += count;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    write_out();
  }

  // Starts to write the data to disk while more data arrives. Later, sync() waits until all data is on disk.
  void write_out() {
    const off_t size = size_ - written_out_;
    if (size < k_write_out) return;
    (void)sync_file_range(file_.number(), written_out_, size, SYNC_FILE_RANGE_WRITE);
    written_out_ = size_;
  }

  Descriptor file_;
  OutputEntry entry_;
  Target target_;
  off_t size_ = 0;
  off_t written_out_ = 0;
};

// Writes outputs into a folder. Each folder is opened relative to its parent, so the writer follows no link.
// The number of open descriptors does not depend on the depth of the folders.
class FolderWriter final : public OutputWriter {
 public:
  enum class Lasts { over_crashes, passing };

  FolderWriter(std::string folder, const std::string& place, std::optional<Owner> owner, Lasts lasts)
      : folder_(std::move(folder)),
        name_(place),
        unfinished_(unfinished_name(place)),
        owner_(owner),
        lasts_(lasts) {
    above_ = outputs::make_folders(folder_, owner_);
    // remove the folder that a dead process may have left
    outputs::expect_removed(above_.number(), unfinished_, folder_);
    if (mkdirat(above_.number(), unfinished_.c_str(), k_permissions) != 0)
      refuse(path_of(unfinished_), "cannot be made", errno);
    give(above_.number(), unfinished_, unfinished_);
    root_ = Descriptor(
        openat(above_.number(), unfinished_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root_.is_open()) refuse(path_of(unfinished_), "cannot be opened", errno);
  }
  // If the removal fails, the next writer for the same folder tries again, and reports a second failure.
  ~FolderWriter() override { (void)outputs::remove_tree(above_.number(), unfinished_, folder_); }
  FolderWriter(const FolderWriter&) = delete;
  FolderWriter& operator=(const FolderWriter&) = delete;

  void add(const OutputEntry& entry) override {
    if (things_.size() <= k_synced_alone_max) things_.push_back(entry);
    end_file();
    const auto [above, name] = split(entry.path);
    const int folder = open_folder(here_, above);
    switch (entry.kind) {
      case OutputEntry::Kind::folder:
        if (mkdirat(folder, name.c_str(), S_IRWXU) != 0 && errno != EEXIST)
          target(entry.path).refuse("cannot be made", errno);
        give(folder, name, entry.path);
        folders_.push_back(entry);
        return;
      case OutputEntry::Kind::file:
        return begin_file(folder, name, entry);
      case OutputEntry::Kind::symbolic_link: {
        if (symlinkat(entry.target.c_str(), folder, name.c_str()) != 0)
          target(entry.path).refuse("cannot be made", link_fault());
        give(folder, name, entry.path);
        const auto times = times_of(entry.modified);
        (void)utimensat(folder, name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
        return;
      }
      case OutputEntry::Kind::hard_link: {
        const auto [other_above, other] = split(entry.target);
        const int from = open_folder(linked_from_, other_above);
        if (linkat(from, other.c_str(), folder, name.c_str(), 0) != 0)
          target(entry.path).refuse("cannot be linked", link_fault());
        return;
      }
    }
  }

  void write(std::string_view bytes) override { file_->write(bytes); }

  std::string close(const std::string& manifest) override {
    add({.path = std::string(k_manifest_name), .mode = 0644, .modified = real_clock().now()});
    write(manifest);
    end_file();
    // Making entries changes a folder's modification time, and a folder's final permissions may forbid
    // writing. So close() sets the modification times and permissions of folders last.
    std::ranges::for_each(std::views::reverse(folders_), [this](const OutputEntry& entry) { settle(entry); });
    if (lasts_ == Lasts::over_crashes) sync();
    std::string unremoved = put_in_place();
    if (lasts_ == Lasts::over_crashes && fsync(above_.number()) != 0)
      refuse(folder_, "cannot be written", errno);
    return unremoved;
  }

 private:
  // An open folder below root_. The folder stays open, because the next entry is usually in or near that
  // folder.
  struct Position {
    std::optional<FolderPath> folder = std::nullopt;
    std::string path = {};  // the folder's path relative to root_
  };

  [[nodiscard]] std::string path_of(const std::string& below) const { return folder_ + "/" + below; }
  [[nodiscard]] Target target(const std::string& path) const {
    return {.place = path_of(name_), .path = path};
  }

  // Sets the owner of the entry `name` in `folder`. `path`: the entry's path for messages.
  void give(int folder, const std::string& name, const std::string& path) const {
    if (!owner_) return;
    if (fchownat(folder, name.c_str(), owner_->uid, owner_->gid, AT_SYMLINK_NOFOLLOW) != 0)
      refuse(path_of(path), "setting the owner failed", errno);
  }

  // Returns the folders that contain the entries; nullopt if there are more than k_synced_alone_max.
  [[nodiscard]] std::optional<std::set<std::string>> few_folders() const {
    std::set<std::string> folders{""};
    for (const OutputEntry& entry : things_)
      for (std::string path = entry.kind == OutputEntry::Kind::folder ? entry.path : split(entry.path).first;
           folders.insert(path).second; path = split(path).first)
        if (folders.size() > k_synced_alone_max) return std::nullopt;
    return folders;
  }

  // syncfs() also waits for data of other processes on the same file system. So sync() syncs a small number
  // of entries one by one.
  void sync() {
    const auto folders = things_.size() > k_synced_alone_max ? std::nullopt : few_folders();
    if (!folders) {
      if (syncfs(root_.number()) != 0) refuse(path_of(unfinished_), "cannot be written", errno);
      return;
    }
    // Start to write all files to disk before waiting for the first file.
    for_each_file([](int file) {
      (void)sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
      return true;
    });
    for_each_file([](int file) { return fsync(file) == 0; });
    for (const std::string& path : *folders)
      if (fsync(open_folder(here_, path)) != 0) target(path).refuse("cannot be written", errno);
  }

  template <class Body>
  void for_each_file(const Body& body) {
    for (const OutputEntry& entry : things_) {
      if (entry.kind != OutputEntry::Kind::file) continue;
      const auto [above, name] = split(entry.path);
      const Descriptor file(
          openat(open_folder(here_, above), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
      if (!file.is_open()) target(entry.path).refuse("cannot be opened", errno);
      if (!body(file.number())) target(entry.path).refuse("cannot be written", errno);
    }
  }

  // Renames the finished outputs to their final name. Returns the same message as close().
  std::string put_in_place() {
    const int above = above_.number();
    const char* const from = unfinished_.c_str();
    const char* const to = name_.c_str();
    if (renameat2(above, from, above, to, RENAME_NOREPLACE) == 0) return "";
    // After the exchange, the earlier outputs have the name unfinished_.
    if (errno == EEXIST && renameat2(above, from, above, to, RENAME_EXCHANGE) == 0)
      return outputs::remove_tree(above, unfinished_, folder_);
    // The file system supports neither RENAME_NOREPLACE nor RENAME_EXCHANGE.
    const std::string old = "." + name_ + ".old";
    outputs::expect_removed(above, old, folder_);
    if (renameat(above, to, above, old.c_str()) != 0 && errno != ENOENT)
      refuse(path_of(name_), "cannot be replaced", errno);
    if (renameat(above, from, above, to) != 0)
      refuse(path_of(name_), "renaming the finished outputs to this name failed", errno);
    return outputs::remove_tree(above, old, folder_);
  }

  void settle(const OutputEntry& entry) {
    const int folder = open_folder(here_, entry.path);
    const auto times = times_of(entry.modified);
    if (fchmod(folder, (entry.mode & k_permissions) | S_IRWXU) != 0 || futimens(folder, times.data()) != 0)
      target(entry.path).refuse("cannot be written", errno);
  }

  // Moves `at` to the folder `path` below root_ and returns that folder's descriptor. Makes missing folders.
  int open_folder(Position& at, const std::string& path) const {
    if (!at.folder) {
      Descriptor root(openat(root_.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!root.is_open()) refuse(path_of(unfinished_), "cannot be opened", errno);
      at.folder.emplace(std::move(root));
    }
    FolderPath& folder = *at.folder;
    while (!holds_path(at.path, path)) {
      if (!folder.leave()) refuse(path_of(unfinished_), "cannot be opened", errno);
      at.path.resize(split(at.path).first.size());
    }
    while (at.path.size() < path.size()) {
      const std::size_t from = at.path.empty() ? 0 : at.path.size() + 1;
      const std::size_t slash = std::min(path.find('/', from), path.size());
      const std::string part = path.substr(from, slash - from);
      if (!folder.enter(part) && !(errno == ENOENT && make_folder(folder, part, path) && folder.enter(part)))
        target(path).refuse("cannot be opened", errno);
      at.path.append(path, at.path.size(), slash - at.path.size());
    }
    return folder.number();
  }

  [[nodiscard]] bool make_folder(const FolderPath& above, const std::string& name,
                                 const std::string& path) const {
    if (mkdirat(above.number(), name.c_str(), k_permissions) != 0)
      target(path).refuse("cannot be made", errno);
    give(above.number(), name, path);
    return true;
  }

  void begin_file(int folder, const std::string& name, const OutputEntry& entry) {
    constexpr int k_how = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    Descriptor file(openat(folder, name.c_str(), k_how, k_owner_reads_and_writes));
    if (!file.is_open()) target(entry.path).refuse("cannot be made", errno);
    give(folder, name, entry.path);
    file_.emplace(std::move(file), entry, target(entry.path));
  }

  void end_file() {
    if (!file_) return;
    file_->end();
    file_.reset();
  }

  std::string folder_;
  std::string name_;
  std::string unfinished_;
  std::optional<Owner> owner_;
  Lasts lasts_;
  Descriptor above_;  // the open folder_
  Descriptor root_;   // the open folder unfinished_
  Position here_;
  Position linked_from_;
  std::optional<Growing> file_;
  std::vector<OutputEntry> folders_;
  // the first entries of the outputs, at most k_synced_alone_max + 1; sync() needs no more
  std::vector<OutputEntry> things_;
};

class Folder final : public OutputStore {
 public:
  Folder(std::string folder, std::optional<Owner> owner) : folder_(std::move(folder)), owner_(owner) {}
  std::unique_ptr<OutputWriter> open(const std::string& place, const std::stop_token& /*stop*/) override {
    return std::make_unique<FolderWriter>(folder_, place, owner_, FolderWriter::Lasts::over_crashes);
  }
  void remove(const std::string& place) override {
    const Descriptor above = outputs::open_place(folder_);
    if (!above.is_open()) return;
    const std::string away = unfinished_name(place);
    outputs::expect_removed(above.number(), away, folder_);
    // Rename the folder first, so that half-removed outputs never look complete.
    if (renameat(above.number(), place.c_str(), above.number(), away.c_str()) == 0)
      return outputs::expect_removed(above.number(), away, folder_);
    if (errno != ENOENT) refuse(folder_ + '/' + place, "cannot be removed", errno);
  }
  bool holds_any() override {
    const auto holds = [](const fs::path& place) {
      std::error_code fault;
      for (fs::directory_iterator it(place, fault), end; !fault && it != end; it.increment(fault))
        if (it->path().filename() != k_manifest_name) return true;
      return false;
    };
    std::error_code fault;
    for (fs::directory_iterator it(folder_, fault), end; !fault && it != end; it.increment(fault))
      if (!it->path().filename().string().starts_with('.') && holds(it->path())) return true;
    return false;
  }
  bool is_whole(const std::string& place) override {
    return std::filesystem::exists(fmt::format("{}/{}", place, k_manifest_name));
  }
  std::string fetch(const std::string& trial, const std::string& /*path*/,
                    const std::stop_token& /*stop*/) override {
    return fmt::format("{}/{}", folder_, trial);
  }
  std::vector<std::string> share(std::span<const Sharing> wanted) override {
    return outputs::share_in_folder(folder_, owner_, wanted);
  }

 private:
  std::string folder_;
  std::optional<Owner> owner_;
};

}  // namespace

std::unique_ptr<OutputWriter> outputs::open_passing(const std::string& folder, const std::string& place) {
  return std::make_unique<FolderWriter>(folder, place, std::nullopt, FolderWriter::Lasts::passing);
}

std::unique_ptr<OutputStore> open_folder(const std::string& folder, std::optional<Owner> owner) {
  return std::make_unique<Folder>(folder, owner);
}

}  // namespace combu
