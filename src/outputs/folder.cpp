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
#include <cstring>
#include <filesystem>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "combu/outputs.hpp"
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

bool are_zeros(std::string_view bytes) {
  return bytes.front() == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

std::string unfinished_name(const std::string& place) {
  return "." + place + ".unfinished";
}

// A file that is written from its beginning to its end, with holes where there are only zeros.
class Growing {
 public:
  Growing(Descriptor file, OutputEntry entry, std::string path)
      : file_(std::move(file)), entry_(std::move(entry)), path_(std::move(path)) {}

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      // By blocks as file systems have them.
      const std::size_t room = k_block - static_cast<std::size_t>(size_) % k_block;
      const std::string_view block = bytes.substr(0, room);
      if (!are_zeros(block)) {
        std::size_t count = block.size();
        // As many as follow in one call.
        while (count < bytes.size()) {
          const std::string_view next = bytes.substr(count, k_block);
          if (are_zeros(next)) break;
          count += next.size();
        }
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
    if ((put_ < size_ && ftruncate(number, size_) != 0) ||
        fchmod(number, (entry_.mode & k_permissions) | k_owner_reads_and_writes) != 0 ||
        futimens(number, times.data()) != 0)
      refuse(path_, "cannot be written", errno);
  }

 private:
  static constexpr std::size_t k_block = 4096;
  static constexpr off_t k_write_out = off_t{8} << 20U;

  void put(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = pwrite(file_.number(), bytes.data(), bytes.size(), size_);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) refuse(path_, "cannot be written", errno);
      size_ += count;
      put_ = size_;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    write_out();
  }

  // The disk is to be at work while more comes; that all is on it is seen to at the end.
  void write_out() {
    if (put_ - written_out_ < k_write_out) return;
    (void)sync_file_range(file_.number(), written_out_, put_ - written_out_, SYNC_FILE_RANGE_WRITE);
    written_out_ = put_;
  }

  Descriptor file_;
  OutputEntry entry_;
  std::string path_;
  off_t size_ = 0;
  off_t put_ = 0;  // behind it are only zeros
  off_t written_out_ = 0;
};

// No path is ever followed through a link: each folder is opened in the one above it.
class FolderParcel final : public Parcel {
 public:
  enum class Lasts { over_crashes, passing };

  FolderParcel(std::string folder, const std::string& place, std::optional<Owner> owner, Lasts lasts)
      : folder_(std::move(folder)),
        name_(place),
        unfinished_(unfinished_name(place)),
        owner_(owner),
        lasts_(lasts) {
    outputs::make_folders(folder_, owner_);
    above_ = Descriptor(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!above_.is_open()) refuse(folder_, "cannot be opened", errno);
    discard(unfinished_);  // of a process that died
    if (mkdirat(above_.number(), unfinished_.c_str(), k_permissions) != 0)
      refuse(path_of(unfinished_), "cannot be made", errno);
    give(above_.number(), unfinished_);
    root_ = Descriptor(
        openat(above_.number(), unfinished_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root_.is_open()) refuse(path_of(unfinished_), "cannot be opened", errno);
  }
  ~FolderParcel() override { discard(unfinished_); }
  FolderParcel(const FolderParcel&) = delete;
  FolderParcel& operator=(const FolderParcel&) = delete;

  void add(const OutputEntry& entry) override {
    if (++things_ <= k_synced_alone_max) synced_alone_.push_back(entry);
    end_file();
    const auto [above, name] = split(entry.path);
    const int folder = open_above(above);
    switch (entry.kind) {
      case OutputEntry::Kind::folder:
        if (mkdirat(folder, name.c_str(), S_IRWXU) != 0 && errno != EEXIST)
          refuse_below(entry.path, "cannot be made", errno);
        give(folder, name);
        folders_.push_back(entry);
        return;
      case OutputEntry::Kind::file:
        return begin_file(folder, name, entry);
      case OutputEntry::Kind::symbolic_link: {
        if (symlinkat(entry.target.c_str(), folder, name.c_str()) != 0)
          refuse_below(entry.path, "cannot be made", errno);
        give(folder, name);
        const auto times = times_of(entry.modified);
        (void)utimensat(folder, name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
        return;
      }
      case OutputEntry::Kind::hard_link: {
        const auto [other_above, other] = split(entry.target);
        const Descriptor from = open_folder_in_root(other_above);
        if (linkat(from.number(), other.c_str(), folder, name.c_str(), 0) != 0)
          refuse_below(entry.path, "cannot be linked", errno);
        return;
      }
    }
  }

  void write(std::string_view bytes) override { file_->write(bytes); }

  void close(const std::string& manifest) override {
    add({.path = std::string(k_manifest_name), .mode = 0644, .modified = real_clock().now()});
    if (!manifest.empty()) write(manifest);
    end_file();
    // A folder's time changes with what is made in it, and it may not be writable.
    std::ranges::for_each(std::views::reverse(folders_), [this](const OutputEntry& entry) { settle(entry); });
    if (lasts_ == Lasts::over_crashes) sync();
    put_in_place();
    if (lasts_ == Lasts::over_crashes && fsync(above_.number()) != 0)
      refuse(folder_, "cannot be written", errno);
  }

 private:
  [[nodiscard]] std::string path_of(const std::string& below) const { return folder_ + "/" + below; }

  // As outputs::refuse(). A name that the file system has no room for is the trial's own doing.
  [[noreturn]] void refuse_below(const std::string& path, const char* what, int code) const {
    if (code != ENAMETOOLONG) refuse(path_of(path), what, code);
    throw Error(ErrorKind::invalid, shortened(path),
                fmt::format("{}: a name in it, or what it links to, is longer than the file system of {} has "
                            "room for",
                            what, folder_));
  }

  // What has been made in a folder.
  void give(int folder, const std::string& name) const {
    if (!owner_) return;
    if (fchownat(folder, name.c_str(), owner_->uid, owner_->gid, AT_SYMLINK_NOFOLLOW) != 0)
      refuse(path_of(name), "cannot be given to its owner", errno);
  }

  // Of what is in the folder.
  void discard(const std::string& name) const noexcept {
    std::error_code ignored;
    fs::remove_all(fs::path(folder_) / name, ignored);
  }

  // What others write to the same file system meanwhile would be waited for as well, so a few things are
  // synced each by itself.
  void sync() const {
    if (things_ > k_synced_alone_max) {
      if (syncfs(root_.number()) != 0) refuse(path_of(unfinished_), "cannot be written", errno);
      return;
    }
    std::set<std::string> folders;
    std::vector<std::pair<Descriptor, std::string>> all;
    const auto take = [&](Descriptor file, const std::string& path) {
      if (!file.is_open()) refuse_below(path, "cannot be opened", errno);
      // All begin before the first is waited for.
      (void)sync_file_range(file.number(), 0, 0, SYNC_FILE_RANGE_WRITE);
      all.emplace_back(std::move(file), path);
    };
    for (const OutputEntry& entry : synced_alone_) {
      const auto [above, name] = split(entry.path);
      if (entry.kind == OutputEntry::Kind::folder) folders.insert(entry.path);
      if (entry.kind == OutputEntry::Kind::file)
        take(Descriptor(openat(open_folder_in_root(above).number(), name.c_str(),
                               O_RDONLY | O_NOFOLLOW | O_CLOEXEC)),
             entry.path);
      for (std::string path = above; folders.insert(path).second && !path.empty();) path = split(path).first;
    }
    for (const std::string& path : folders) take(open_folder_in_root(path), path);
    for (const auto& [file, path] : all)
      if (fsync(file.number()) != 0) refuse(path_of(path), "cannot be written", errno);
  }

  void put_in_place() {
    const int above = above_.number();
    const char* const from = unfinished_.c_str();
    const char* const to = name_.c_str();
    if (renameat2(above, from, above, to, RENAME_NOREPLACE) == 0) return;
    // What was there goes with the unfinished one's name.
    if (errno == EEXIST && renameat2(above, from, above, to, RENAME_EXCHANGE) == 0)
      return discard(unfinished_);
    // A file system that can do neither.
    const std::string old = "." + name_ + ".old";
    discard(old);
    if (renameat(above, to, above, old.c_str()) != 0 && errno != ENOENT)
      refuse(path_of(name_), "cannot be replaced", errno);
    if (renameat(above, from, above, to) != 0) refuse(path_of(name_), "cannot be put in place", errno);
    discard(old);
  }

  void settle(const OutputEntry& entry) const {
    const Descriptor folder = open_folder_in_root(entry.path);
    const auto times = times_of(entry.modified);
    if (fchmod(folder.number(), (entry.mode & k_permissions) | S_IRWXU) != 0 ||
        futimens(folder.number(), times.data()) != 0)
      refuse(path_of(entry.path), "cannot be written", errno);
  }

  [[nodiscard]] Descriptor open_folder_in_root(const std::string& path) const {
    Descriptor folder(openat(root_.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (std::size_t from = 0; from < path.size();) {
      const std::size_t slash = std::min(path.find('/', from), path.size());
      const std::string part = path.substr(from, slash - from);
      from = slash + 1;
      constexpr int k_how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
      Descriptor next(openat(folder.number(), part.c_str(), k_how));
      if (!next.is_open() && errno == ENOENT) {
        if (mkdirat(folder.number(), part.c_str(), k_permissions) != 0)
          refuse_below(path, "cannot be made", errno);
        give(folder.number(), part);
        next = Descriptor(openat(folder.number(), part.c_str(), k_how));
      }
      if (!next.is_open()) refuse_below(path, "cannot be opened", errno);
      folder = std::move(next);
    }
    return folder;
  }

  // Most of what comes is in the same folder as what came before it.
  int open_above(const std::string& path) {
    if (!above_entry_.is_open() || path != above_entry_path_) {
      above_entry_ = open_folder_in_root(path);
      above_entry_path_ = path;
    }
    return above_entry_.number();
  }

  void begin_file(int folder, const std::string& name, const OutputEntry& entry) {
    constexpr int k_how = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    Descriptor file(openat(folder, name.c_str(), k_how, k_owner_reads_and_writes));
    if (!file.is_open()) refuse_below(entry.path, "cannot be made", errno);
    give(folder, name);
    file_.emplace(std::move(file), entry, path_of(entry.path));
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
  Descriptor above_;  // folder_
  Descriptor root_;   // the unfinished one
  Descriptor above_entry_;
  std::string above_entry_path_;
  std::optional<Growing> file_;
  std::vector<OutputEntry> folders_;
  std::size_t things_ = 0;
  std::vector<OutputEntry> synced_alone_;  // the first of them
};

class Folder final : public Depot {
 public:
  Folder(std::string folder, std::optional<Owner> owner) : folder_(std::move(folder)), owner_(owner) {}
  std::unique_ptr<Parcel> open(const std::string& place, const std::stop_token& /*stop*/) override {
    return std::make_unique<FolderParcel>(folder_, place, owner_, FolderParcel::Lasts::over_crashes);
  }
  void remove(const std::string& place) override {
    const fs::path from = fs::path(folder_) / place;
    const fs::path away = fs::path(folder_) / unfinished_name(place);
    std::error_code fault;
    fs::remove_all(away, fault);
    // So that nothing half-removed looks whole.
    if (!fault) fs::rename(from, away, fault);
    if (fault == std::errc::no_such_file_or_directory) return;
    if (!fault) fs::remove_all(away, fault);
    if (fault) refuse(from.string(), "cannot be removed", fault.value());
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

void outputs::refuse(const std::string& path, const char* what, int code) {
  throw Error(ErrorKind::refused, path, fmt::format("{}: {}", what, std::generic_category().message(code)));
}

void outputs::make_folders(const std::string& folder, std::optional<Owner> owner) {
  for (std::size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    const std::string path = folder.substr(0, end);
    if (mkdir(path.c_str(), k_permissions) == 0) {
      if (owner && lchown(path.c_str(), owner->uid, owner->gid) != 0)
        refuse(path, "cannot be given to its owner", errno);
    } else if (errno != EEXIST) {
      refuse(path, "cannot be made", errno);
    }
    if (end == std::string::npos) return;
  }
}

std::unique_ptr<Parcel> outputs::open_passing(const std::string& folder, const std::string& place) {
  return std::make_unique<FolderParcel>(folder, place, std::nullopt, FolderParcel::Lasts::passing);
}

std::unique_ptr<Depot> open_folder(const std::string& folder, std::optional<Owner> owner) {
  return std::make_unique<Folder>(folder, owner);
}

}  // namespace combu
