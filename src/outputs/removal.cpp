#include "outputs/removal.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "outputs/place_folders.hpp"

namespace combu::outputs {
namespace {

class Removal {
 public:
  Removal(int above, const std::string& name) : above_(above), name_(name), path_(name) {}

  void run() {
    if (unlinkat(above_, name_.c_str(), 0) == 0 || errno == ENOENT) return;
    const int why = errno;
    Descriptor folder(openat(above_, name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder.is_open()) return note(name_, errno == ENOTDIR ? why : errno);
    folder_.emplace(std::move(folder));
    empty_folder();
    while (levels_.size() > 1 || !levels_.back().folders.empty())
      if (!step()) return;
    if (unlinkat(above_, name_.c_str(), AT_REMOVEDIR) != 0) note(name_, errno);
  }

  struct Remainder {
    std::string path;
    int code = 0;
  };
  [[nodiscard]] const std::optional<Remainder>& left() const { return left_; }

 private:
  struct Level {
    std::vector<std::string> folders;  // not removed yet
    std::size_t path_size = 0;
  };

  // Enters the next subfolder of the current folder. If there is none, leaves the current folder and removes
  // it. Returns false if the removal cannot continue.
  bool step() {
    Level& level = levels_.back();
    path_.resize(level.path_size);
    if (!level.folders.empty()) {
      const std::string name = std::move(level.folders.back());
      level.folders.pop_back();
      path_ += '/' + name;
      if (folder_->enter(name)) {
        empty_folder();
      } else if (errno != ENOENT) {
        note(path_, errno);
      }
      return true;
    }
    levels_.pop_back();
    if (!folder_->leave()) {
      note(path_, errno);
      return false;
    }
    const std::string name = path_.substr(levels_.back().path_size + 1);
    if (unlinkat(folder_->number(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) note(path_, errno);
    return true;
  }

  // Removes all entries of the current folder except its subfolders. Adds a level with the names of the
  // subfolders to levels_.
  void empty_folder() {
    levels_.push_back({.folders = {}, .path_size = path_.size()});
    auto entries = list_folder(folder_->number());
    if (!entries) return note(path_, errno);
    for (FolderEntry& entry : *entries) {
      const bool is_gone = entry.kind != S_IFDIR &&
                           (unlinkat(folder_->number(), entry.name.c_str(), 0) == 0 || errno == ENOENT);
      if (is_gone) continue;
      const int code = errno;
      if (entry.kind == S_IFDIR || code == EISDIR) {
        levels_.back().folders.push_back(std::move(entry.name));
      } else {
        note(path_ + '/' + entry.name, code);
      }
    }
  }

  // Records only the first failure. Later failures follow from the first one: for example, a parent folder
  // cannot be removed because it is not empty.
  void note(const std::string& path, int code) {
    if (!left_) left_.emplace(Remainder{.path = path, .code = code});
  }

  int above_;
  const std::string& name_;
  std::string path_;  // relative to above_
  std::optional<FolderPath> folder_;
  std::vector<Level> levels_;
  std::optional<Remainder> left_;
};

}  // namespace

void expect_removed(int above, const std::string& name, const std::string& shown) {
  Removal removal(above, name);
  removal.run();
  if (const auto& left = removal.left()) refuse(shown + '/' + left->path, "cannot be removed", left->code);
}

std::string remove_tree(int above, const std::string& name, const std::string& shown) {
  try {
    expect_removed(above, name, shown);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace combu::outputs
