#include "folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "remove_tree.hpp"

namespace combu::agent {
namespace {

constexpr const char* k_socket = "socket";
constexpr const char* k_new_socket = "socket.new";
constexpr const char* k_results = "results";
constexpr int k_folder_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int k_new_file_flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

std::string name_of(std::uint64_t number) {
  return to_text(number);
}

}  // namespace

std::string Folder::open(std::string path) {
  path_ = std::move(path);
  std::string problem = open_folder();
  if (problem.empty()) {
    remove_old_scratch_folders();
    problem = listen();
  }
  return problem;
}

std::string Folder::open_folder() {
  if (mkdir(path_.c_str(), S_IRWXU) != 0 && errno != EEXIST) return problem_text(path_, errno);
  folder_ = Descriptor(::open(path_.c_str(), k_folder_flags));
  return folder_.is_open() ? std::string() : problem_text(path_, errno);
}

std::string Folder::listen() {
  // The path through the descriptor is short, and leads to the folder also if another one has its path.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path =
      "/proc/self/fd/" + to_text(static_cast<std::uint64_t>(folder_.get())) + "/" + k_new_socket;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  unlinkat(folder_.get(), k_new_socket, 0);
  // The socket gets its name when clients can connect to it.
  if (!listener.is_open() ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0 ||
      renameat(folder_.get(), k_new_socket, folder_.get(), k_socket) != 0)
    return problem_text(path_ + "/" + k_socket, errno);
  struct stat status {};
  if (fstatat(folder_.get(), k_socket, &status, AT_SYMLINK_NOFOLLOW) == 0) socket_inode_ = status.st_ino;
  listener_ = std::move(listener);
  return {};
}

bool Folder::is_in_place() const {
  struct stat own {};
  struct stat there {};
  return fstat(folder_.get(), &own) == 0 && lstat(path_.c_str(), &there) == 0 && own.st_dev == there.st_dev &&
         own.st_ino == there.st_ino;
}

bool Folder::repair() {
  struct stat status {};
  bool has_changed = false;
  if (!is_in_place()) {
    if (lstat(path_.c_str(), &status) == 0 && unlink(path_.c_str()) != 0 && rmdir(path_.c_str()) != 0) {
      const std::string other = path_ + ".replaced-" + to_text(static_cast<std::uint64_t>(steady_time()));
      (void)rename(path_.c_str(), other.c_str());
    }
    if (!open_folder().empty()) return false;
    has_changed = true;
  }
  if (!has_changed && fstatat(folder_.get(), k_socket, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      status.st_ino == socket_inode_)
    return false;
  if (unlinkat(folder_.get(), k_socket, 0) != 0 && errno == EISDIR)
    (void)renameat(folder_.get(), k_socket, folder_.get(), "socket.replaced");
  return listen().empty();
}

std::string Folder::scratch_path(std::uint64_t number) const {
  return path_ + "/" + name_of(number);
}

int Folder::make_scratch(std::uint64_t number) const {
  return mkdirat(folder_.get(), name_of(number).c_str(), S_IRWXU) == 0 ? 0 : errno;
}

Descriptor Folder::open_scratch(std::uint64_t number) const {
  return Descriptor(openat(folder_.get(), name_of(number).c_str(), k_folder_flags));
}

int Folder::write_file(std::uint64_t number, const File& file) const {
  const std::string& name = file.name;
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos)
    return EINVAL;
  const Descriptor scratch = open_scratch(number);
  if (!scratch.is_open()) return errno;
  const Descriptor opened(
      openat(scratch.get(), name.c_str(), k_new_file_flags, S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH));
  if (!opened.is_open()) return errno;
  return write_all(opened.get(), file.content) ? 0 : errno;
}

bool Folder::remove_small_scratch(std::uint64_t number, const std::vector<std::string>& names) const {
  const std::string scratch = name_of(number);
  if (!names.empty()) {
    const Descriptor opened = open_scratch(number);
    for (const std::string& name : names) unlinkat(opened.get(), name.c_str(), 0);
  }
  return unlinkat(folder_.get(), scratch.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
}

void Folder::remove_old_scratch_folders() const {
  DIR* listing = fdopendir(openat(folder_.get(), ".", k_folder_flags));
  if (listing == nullptr) return;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(listing)) {  // NOLINT(concurrency-mt-unsafe): there is one thread
    std::uint64_t number = 0;
    if (read_number(entry->d_name, number)) names.emplace_back(entry->d_name);
  }
  closedir(listing);
  for (const std::string& name : names) remove_tree(folder_.get(), name);
}

Descriptor Folder::make_unnamed_file() const {
  Descriptor file(openat(folder_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file.is_open()) return file;
  constexpr const char* k_name = "log";  // some file systems, such as those of old kernels, need a name
  unlinkat(folder_.get(), k_name, 0);
  file = Descriptor(
      openat(folder_.get(), k_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  unlinkat(folder_.get(), k_name, 0);
  return file;
}

Descriptor Folder::make_results_file() const {
  unlinkat(folder_.get(), k_results, 0);
  Descriptor file(openat(folder_.get(), k_results, k_new_file_flags, S_IRUSR | S_IWUSR));
  if (!file.is_open()) {
    remove_tree(folder_.get(), k_results);
    file = Descriptor(openat(folder_.get(), k_results, k_new_file_flags, S_IRUSR | S_IWUSR));
  }
  return file;
}

}  // namespace combu::agent
