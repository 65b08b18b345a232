#include "inputs/walk.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "combu/base.hpp"

namespace combu::inputs {
namespace {

constexpr std::size_t k_piece = std::size_t{256} << 10U;
// O_PATH is needed because another process may have replaced the file by a device, and opening a device can
// have side effects.
constexpr int k_find = O_PATH | O_NOFOLLOW | O_CLOEXEC;
constexpr int k_open_file = O_RDONLY | O_NONBLOCK | O_NOCTTY;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::refused, "inputs", path + ' ' + why);
}

[[noreturn]] void refuse_changed(const std::string& path) {
  refuse(path, "changed while it was read; start the trial when no program writes to its inputs");
}

[[noreturn]] void refuse_link(const std::string& path) {
  refuse(path,
         "cannot be read: it was replaced by a symbolic link or a file after the run began, and combu does "
         "not follow such a link; if you created the link, start a new run");
}

[[noreturn]] void refuse(const std::string& path, int error) {
  // openat() and readlinkat() return one of these errors if the entry has changed its kind (file, folder or
  // link).
  if (error == ELOOP || error == ENOTDIR || error == ENXIO || error == EINVAL || error == ESTALE)
    refuse_changed(path);
  refuse(path,
         error == ENOENT ? "is not there" : "cannot be read: " + std::generic_category().message(error));
}

// Opens the folder that contains `path`.
Descriptor open_above(const std::string& path) {
  OpenedFolder above = open_without_links(path.substr(0, path.rfind('/')));
  if (above.code == ENOTDIR) refuse_link(above.failed);
  if (!above.folder.is_open()) refuse(above.failed, above.code);
  return std::move(above.folder);
}

class Walk {
 public:
  Walk(const Input& input, const std::function<bool(const Found&)>& visit)
      : path_(input.from), root_size_(path_.size()), visit_(visit) {}

  bool run() {
    if (!visit_root()) return false;
    while (!levels_.empty()) {
      Level& level = levels_.back();
      path_.resize(level.path_size);
      if (level.next == level.entries.size()) {
        levels_.pop_back();
        if (!levels_.empty() && !folder_->leave()) refuse(path_, errno);
        continue;
      }
      const FolderEntry entry = std::move(level.entries[level.next++]);
      path_ += '/' + entry.name;
      if (!visit(entry)) return false;
    }
    return true;
  }

 private:
  struct Level {
    std::vector<FolderEntry> entries;
    std::size_t next = 0;
    std::size_t path_size = 0;
  };

  bool visit_root() {
    const Descriptor above = open_above(path_);
    const std::string name = path_ == "/" ? "." : path_.substr(path_.rfind('/') + 1);
    const Descriptor found(openat(above.number(), name.c_str(), k_find));
    if (!found.is_open() || fstat(found.number(), &status_) != 0) {
      if (errno == ENOENT) refuse(path_, ENOENT);
      refuse(path_, "cannot be read: " + std::generic_category().message(errno));
    }
    if (S_ISLNK(status_.st_mode)) refuse_link(path_);
    if (!S_ISREG(status_.st_mode) && !S_ISDIR(status_.st_mode)) refuse_kind();
    Descriptor opened = reopen(found, k_open_file);
    if (!opened.is_open()) refuse(path_, errno);
    if (S_ISREG(status_.st_mode)) return visit_file(opened);
    folder_.emplace(std::move(opened));
    return visit_folder();
  }

  // Visits one entry of the current folder.
  bool visit(const FolderEntry& entry) {
    const int above = folder_->number();
    const char* const name = entry.name.c_str();
    mode_t kind = entry.kind;
    if ((kind == 0 || kind == S_IFLNK)) {
      if (fstatat(above, name, &status_, AT_SYMLINK_NOFOLLOW) != 0) refuse(path_, errno);
      if (kind == 0) kind = status_.st_mode & S_IFMT;
    }
    switch (kind) {
      case S_IFREG: {
        const Descriptor found(openat(above, name, k_find));
        if (!found.is_open() || fstat(found.number(), &status_) != 0) refuse(path_, errno);
        if (!S_ISREG(status_.st_mode)) refuse_changed(path_);
        const Descriptor file = reopen(found, k_open_file);
        if (!file.is_open()) refuse(path_, errno);
        return visit_file(file);
      }
      case S_IFDIR:
        if (!folder_->enter(entry.name) || fstat(folder_->number(), &status_) != 0) refuse(path_, errno);
        return visit_folder();
      case S_IFLNK:
        if (!S_ISLNK(status_.st_mode)) refuse_changed(path_);
        target_ = read_link(above, name);
        return sink(-1);
      default:
        refuse_kind();
    }
  }

  [[noreturn]] void refuse_kind() const { refuse(path_, "must be a file, folder or symbolic link"); }

  bool visit_file(const Descriptor& file) { return sink(file.number()); }

  bool visit_folder() {
    if (!sink(-1)) return false;
    auto entries = list_folder(folder_->number());
    if (!entries) refuse(path_, errno);
    std::ranges::sort(*entries, {}, &FolderEntry::name);
    levels_.push_back({.entries = std::move(*entries), .path_size = path_.size()});
    return true;
  }

  [[nodiscard]] std::string read_link(int above, const char* name) const {
    std::string target(static_cast<std::size_t>(std::max<std::int64_t>(status_.st_size, 255)) + 1, '\0');
    while (true) {
      const ssize_t count = readlinkat(above, name, target.data(), target.size());
      if (count < 0) refuse(path_, errno);
      if (static_cast<std::size_t>(count) < target.size()) {
        target.resize(static_cast<std::size_t>(count));
        return target;
      }
      target.resize(target.size() * 2);
    }
  }

  bool sink(int file) {
    return visit_({.path = path_,
                   .name = std::string_view(path_).substr(root_size_),
                   .status = status_,
                   .file = file,
                   .target = target_});
  }

  std::string path_;
  std::size_t root_size_;
  const std::function<bool(const Found&)>& visit_;
  std::optional<FolderPath> folder_;  // the current folder
  std::vector<Level> levels_;  // the folders that contain the current entry; the first is the input itself
  struct stat status_ {};
  std::string target_;
};

}  // namespace

bool walk(const Input& input, const std::function<bool(const Found&)>& visit) {
  return Walk(input, visit).run();
}

bool read_file(const Found& found, const std::function<bool(std::string_view)>& sink) {
  const std::int64_t size = found.status.st_size;
  std::vector<char> piece(static_cast<std::size_t>(std::min<std::int64_t>(size, k_piece)));
  for (std::int64_t at = 0; at < size;) {
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(size - at, k_piece));
    const ssize_t count = pread(found.file, piece.data(), wanted, at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(found.path, errno);
    if (count == 0) refuse(found.path, "became shorter while it was read");
    if (!sink({piece.data(), static_cast<std::size_t>(count)})) return false;
    at += count;
  }
  return true;
}

}  // namespace combu::inputs
