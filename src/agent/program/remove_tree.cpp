#include "remove_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "system.hpp"

namespace combu::agent {
namespace {

Descriptor open_folder(int parent, const std::string& name) {
  constexpr int k_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Descriptor folder(openat(parent, name.c_str(), k_flags));
  if (!folder.is_open() && errno == EACCES && fchmodat(parent, name.c_str(), S_IRWXU, 0) == 0)
    folder = Descriptor(openat(parent, name.c_str(), k_flags));
  return folder;
}

// Removes the files of a folder, and moves its folders to `root` under new names, which it appends to
// `moved`.
void empty_folder(int folder, int root, std::vector<std::string>& moved) {
  static std::uint64_t count = 0;
  fchmod(folder, S_IRWXU);
  DIR* listing = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (listing == nullptr) return;
  while (const dirent* entry = readdir(listing)) {  // NOLINT(concurrency-mt-unsafe): there is one thread
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (unlinkat(folder, name.c_str(), 0) == 0 || unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0) continue;
    if (folder == root) {
      moved.push_back(name);
      continue;
    }
    // Moving a folder changes its entry "..", which needs permission to write.
    fchmodat(folder, name.c_str(), S_IRWXU, 0);
    std::string new_name;
    bool is_moved = false;
    do {
      new_name = "combu-removed-" + to_text(++count);
      is_moved = renameat(folder, name.c_str(), root, new_name.c_str()) == 0;
    } while (!is_moved && (errno == ENOTEMPTY || errno == EEXIST));  // `root` has a folder with this name
    if (is_moved) moved.push_back(new_name);
  }
  closedir(listing);
}

}  // namespace

void remove_tree(int folder, const std::string& name) {
  if (unlinkat(folder, name.c_str(), 0) == 0 || unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0) return;
  const Descriptor root = open_folder(folder, name);
  if (!root.is_open()) return;
  std::vector<std::string> left;
  empty_folder(root.get(), root.get(), left);
  while (!left.empty()) {
    const std::string next = left.back();
    left.pop_back();
    if (const Descriptor opened = open_folder(root.get(), next); opened.is_open())
      empty_folder(opened.get(), root.get(), left);
    unlinkat(root.get(), next.c_str(), AT_REMOVEDIR);
  }
  unlinkat(folder, name.c_str(), AT_REMOVEDIR);
}

}  // namespace combu::agent
