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
#include <string_view>
#include <utility>

#include "remove_tree.hpp"

namespace combu::agent {
namespace {

constexpr const char* k_socket = "socket";
constexpr const char* k_new_socket = "socket.new";
constexpr const char* k_results = "results";
constexpr const char* k_life = "life";
constexpr const char* k_over = "over";
constexpr int k_folder_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int k_new_file_flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;

constexpr mode_t k_mode_bits = 07777;
constexpr int k_few_files = 64;

std::string name_of(std::uint64_t number) {
  return to_text(number);
}

// Calls `visit` with the name of each entry of the folder until it returns false. Returns false in this case,
// or if the folder cannot be read. Uses little memory, unlike readdir().
template <class Visit>
bool visit_entries(int folder, const Visit& visit) {
  alignas(dirent64) char buffer[4096];
  if (lseek(folder, 0, SEEK_SET) != 0) return false;
  while (true) {
    const ssize_t size = getdents64(folder, buffer, sizeof(buffer));
    if (size <= 0) return size == 0;
    for (ssize_t at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      const std::string_view name = entry->d_name;
      if (name != "." && name != ".." && !visit(entry->d_name)) return false;
    }
  }
}

bool is_empty(int folder) {
  return visit_entries(folder, [](const char*) { return false; });
}

// Removes the files of the folder. Returns false if it contains a folder or too many files.
bool remove_few_files(int folder) {
  int count = 0;
  const bool is_done = visit_entries(
      folder, [&](const char* name) { return ++count <= k_few_files && unlinkat(folder, name, 0) == 0; });
  return is_done && (count == 0 || is_empty(folder));
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
  is_listener_new_ = true;
  return {};
}

Folder::Life Folder::begin_life() const {
  struct stat status {};
  if (fstatat(folder_.get(), k_over, &status, AT_SYMLINK_NOFOLLOW) == 0) return Life::over;
  const Descriptor made(openat(folder_.get(), k_life, k_new_file_flags, S_IRUSR | S_IWUSR));
  return made.is_open() || errno != EEXIST ? Life::fresh : Life::begun;
}

void Folder::end_life() const {
  // A new name needs no space on a full disk.
  if (renameat(folder_.get(), k_life, folder_.get(), k_over) == 0) return;
  const Descriptor made(openat(folder_.get(), k_over, k_new_file_flags, S_IRUSR | S_IWUSR));
}

bool Folder::is_in_place() const {
  struct stat own {};
  struct stat there {};
  return fstat(folder_.get(), &own) == 0 && lstat(path_.c_str(), &there) == 0 && own.st_dev == there.st_dev &&
         own.st_ino == there.st_ino;
}

void Folder::repair() {
  struct stat status {};
  bool has_changed = false;
  if (!is_in_place()) {
    if (lstat(path_.c_str(), &status) == 0 && unlink(path_.c_str()) != 0 && rmdir(path_.c_str()) != 0) {
      const std::string other = path_ + ".replaced-" + to_text(static_cast<std::uint64_t>(steady_time()));
      (void)rename(path_.c_str(), other.c_str());
    }
    if (!open_folder().empty()) return;
    has_changed = true;
  }
  if (!has_changed && fstatat(folder_.get(), k_socket, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      status.st_ino == socket_inode_)
    return;
  if (unlinkat(folder_.get(), k_socket, 0) != 0 && errno == EISDIR)
    (void)renameat(folder_.get(), k_socket, folder_.get(), "socket.replaced");
  (void)listen();
}

bool Folder::take_new_listener() {
  return std::exchange(is_listener_new_, false);
}

void Folder::close_listener() {
  listener_.close();
  unlinkat(folder_.get(), k_socket, 0);
}

std::string Folder::scratch_path(std::uint64_t number) const {
  return path_ + "/" + name_of(number);
}

int Folder::make_scratch(std::uint64_t& number) {
  while (!empty_.empty()) {
    number = empty_.back();
    empty_.pop_back();
    // An attempt of the same user may have removed or changed the folder.
    if (const Descriptor folder = open_scratch(number); folder.is_open() && is_empty(folder.get())) return 0;
  }
  number = ++last_scratch_;
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

bool Folder::empty_scratch(std::uint64_t number) {
  const Descriptor folder = open_scratch(number);
  if (!folder.is_open()) return errno == ENOENT;
  struct stat status {};
  if (fstat(folder.get(), &status) != 0) return false;
  if ((status.st_mode & k_mode_bits) != S_IRWXU && fchmod(folder.get(), S_IRWXU) != 0) return false;
  if (!remove_few_files(folder.get())) return false;
  empty_.push_back(number);
  return true;
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
