#pragma once
// A folder ROOT for code that unpacks archives. The code may write in ROOT/results. It must not change
// ROOT/canary and ROOT/beside.

#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

namespace combu::fuzz {

class GuardedFolder {
 public:
  GuardedFolder() {
    // A folder in memory if possible, because each input writes files.
    std::string root =
        std::filesystem::exists("/dev/shm") ? "/dev/shm/combu-fuzz-XXXXXX" : "/tmp/combu-fuzz-XXXXXX";
    if (mkdtemp(root.data()) == nullptr) std::abort();
    root_ = root;
    std::filesystem::create_directories(root_ / "beside");
    std::filesystem::create_directories(results());
    std::ofstream(root_ / "canary") << "alive";
    canary_ = status_of("canary");
    beside_ = status_of("beside");
  }
  ~GuardedFolder() { std::filesystem::remove_all(root_); }
  GuardedFolder(const GuardedFolder&) = delete;
  GuardedFolder& operator=(const GuardedFolder&) = delete;

  [[nodiscard]] std::filesystem::path results() const { return root_ / "results"; }
  // Returns the names in a folder, without following symbolic links.
  static std::set<std::string> names_in(const std::filesystem::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      names.insert(entry.path().filename());
    return names;
  }
  // Aborts if anything outside of ROOT/results has changed.
  void expect_untouched() const {
    std::ostringstream canary;
    canary << std::ifstream(root_ / "canary").rdbuf();
    if (canary.str() != "alive" || names_in(root_) != std::set<std::string>{"beside", "canary", "results"} ||
        !std::filesystem::is_empty(root_ / "beside") || status_of("canary") != canary_ ||
        status_of("beside") != beside_)
      std::abort();
  }

 private:
  // The inode, the mode, the number of hard links, and the time of the last change.
  using Status = std::tuple<ino_t, mode_t, nlink_t, std::int64_t, std::int64_t>;

  [[nodiscard]] Status status_of(const char* name) const {
    struct stat seen {};
    if (lstat((root_ / name).c_str(), &seen) != 0) std::abort();
    return {seen.st_ino, seen.st_mode, seen.st_nlink, seen.st_mtim.tv_sec, seen.st_mtim.tv_nsec};
  }

  std::filesystem::path root_;
  Status canary_;
  Status beside_;
};

}  // namespace combu::fuzz
