#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "combu/system.hpp"

namespace combu {
namespace {

constexpr mode_t k_folder_mode = S_IRWXU;
constexpr mode_t k_file_mode = S_IRUSR | S_IWUSR;
constexpr mode_t k_others_write = S_IWGRP | S_IWOTH;
constexpr mode_t k_permissions = 07777;
// Flags of open(2) that open a file or folder neither for reading nor for writing, and need no permission to
// read it.
constexpr int k_look = O_PATH | O_CLOEXEC;

std::string why() {
  return std::generic_category().message(errno);
}

Error cannot_be_made(const std::string& path) {
  return {ErrorKind::refused, path,
          fmt::format("cannot be created: {}; choose another folder with COMBU_HOME", why())};
}

Error cannot_be_opened(const std::string& path) {
  return {ErrorKind::refused, path,
          fmt::format("cannot be written: {}; choose another folder with COMBU_HOME", why())};
}

bool is_trusted(uid_t owner) {
  return owner == geteuid() || owner == calling_user().uid;
}

Error foreign(const std::string& path, uid_t owner) {
  return {ErrorKind::invalid, path,
          fmt::format("cannot hold combu's state: user {} owns it, not user {}; name another folder with "
                      "COMBU_HOME or, if you trust what it holds, run `chown -R {} {}`",
                      owner, geteuid(), geteuid(), path)};
}

struct stat status_of(const Descriptor& file, const std::string& path) {
  struct stat status {};
  if (fstat(file.number(), &status) != 0)
    throw Error(ErrorKind::refused, path, "cannot be examined: " + why());
  return status;
}

// Changes the mode of an open file. Unlike fchmod(), set_mode() also accepts a descriptor that was opened
// with O_PATH (open(2)).
bool set_mode(const Descriptor& file, mode_t mode) {
  return chmod(fmt::format("/proc/self/fd/{}", file.number()).c_str(), mode) == 0;
}

void take_writing_from_others(const Descriptor& file, const std::string& path, mode_t mode) {
  if ((mode & k_others_write) == 0 || set_mode(file, mode & k_permissions & ~k_others_write)) return;
  throw Error(ErrorKind::invalid, path,
              fmt::format("cannot hold combu's state: other users can write to it, and its mode cannot be "
                          "changed: {}; run `chmod go-w {}`, or name another folder with COMBU_HOME",
                          why(), path));
}

// Sets the mode of a file or folder that has just been created in the folder `above`. If root created it and
// `above` belongs to the calling user, also makes that user its owner.
bool set_up(const Descriptor& made, const Descriptor& above, mode_t mode) {
  if (!set_mode(made, mode)) return false;
  struct stat status {};
  const User user = calling_user();
  if (fstat(above.number(), &status) != 0 || status.st_uid == geteuid() || status.st_uid != user.uid)
    return true;
  return fchownat(made.number(), "", user.uid, user.gid, AT_EMPTY_PATH) == 0;
}

// Returns true if the folder contains the record, and only files of combu.
bool is_state_folder(const Descriptor& folder) {
  constexpr std::string_view k_record = "record.sqlite";  // the names of the files that SQLite keeps beside
                                                          // the record begin with this name, too
  constexpr std::array<std::string_view, 4> k_folders = {"locks", "channels", "logs", "telemetry"};
  bool has_record = false;
  std::error_code failed;
  std::filesystem::directory_iterator entry(fmt::format("/proc/self/fd/{}", folder.number()), failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(k_record) && std::ranges::find(k_folders, name) == k_folders.end()) return false;
    has_record |= name == k_record;
  }
  return !failed && has_record;
}

enum class Mode { corrected, corrected_if_state };

void check_folder(const Descriptor& folder, const std::string& path, Mode mode) {
  const struct stat status = status_of(folder, path);
  if (!is_trusted(status.st_uid)) throw foreign(path, status.st_uid);
  // For a folder that all users share, such as /tmp, combu reports an error and does not change the mode.
  if ((status.st_mode & S_ISVTX) != 0 && (status.st_mode & k_others_write) != 0)
    throw Error(ErrorKind::invalid, path,
                fmt::format("cannot hold combu's state: other users can write to it (mode {:o}); name "
                            "another folder with COMBU_HOME",
                            status.st_mode & k_permissions));
  if (mode == Mode::corrected_if_state && (status.st_mode & k_others_write) != 0 && !is_state_folder(folder))
    throw Error(ErrorKind::invalid, path,
                fmt::format("cannot hold combu's state: other users can write to it (mode {:o}), and combu "
                            "did not make it; run `chmod go-w {}`, or name another folder with COMBU_HOME",
                            status.st_mode & k_permissions, path));
  take_writing_from_others(folder, path, status.st_mode);
}

// Rejects a symbolic link of another user, because the link may lead to a folder that the calling user did
// not choose. Symbolic links of root are accepted, because root can replace any folder anyway.
void check_link(const Descriptor& above, const std::string& name, const std::string& path) {
  struct stat status {};
  if (fstatat(above.number(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode) &&
      !is_trusted(status.st_uid) && status.st_uid != 0)
    throw foreign(path, status.st_uid);
}

Descriptor make_folder(const Descriptor& above, const std::string& name, const std::string& path) {
  const bool made = mkdirat(above.number(), name.c_str(), k_folder_mode) == 0;
  if (!made && errno != EEXIST) throw cannot_be_made(path);
  Descriptor folder(openat(above.number(), name.c_str(), k_look | O_DIRECTORY | O_NOFOLLOW));
  if (!folder.is_open() || (made && !set_up(folder, above, k_folder_mode))) throw cannot_be_made(path);
  return folder;
}

void check_file(const Descriptor& file, const std::string& path) {
  const struct stat status = status_of(file, path);
  if (!S_ISREG(status.st_mode))
    throw Error(
        ErrorKind::invalid, path,
        "cannot hold combu's state: it must be a regular file, not a link or device; remove it, or name "
        "another folder with COMBU_HOME");
  if (!is_trusted(status.st_uid)) throw foreign(path, status.st_uid);
  if (status.st_nlink > 1)
    throw Error(
        ErrorKind::invalid, path,
        fmt::format(
            "cannot hold combu's state: it must be a file with one name, but has {} (hard links); while "
            "no combu process runs, replace it with a copy: `cp -p {} {}.new && mv {}.new {}`, or name "
            "another folder with COMBU_HOME",
            status.st_nlink, path, path, path, path));
  take_writing_from_others(file, path, status.st_mode);
}

void make_and_check_folder(const std::string& path, Mode mode) {
  Descriptor folder(open(path.starts_with('/') ? "/" : ".", k_look | O_DIRECTORY));
  Descriptor above;
  std::string name;
  for (const auto& part : std::filesystem::path(path).relative_path()) {
    if (part.empty()) continue;  // the part after a trailing slash is empty
    above = std::move(folder);
    name = part.string();
    folder = Descriptor(openat(above.number(), name.c_str(), k_look | O_DIRECTORY));
    if (!folder.is_open() && errno == ENOENT) folder = make_folder(above, name, path);
    if (!folder.is_open()) throw cannot_be_made(path);
  }
  if (above.is_open()) check_link(above, name, path);
  check_folder(folder, path, mode);
}

}  // namespace

void make_private_folder(const std::string& path) {
  make_and_check_folder(path, Mode::corrected);
}

void make_state_folder(const std::string& path) {
  make_and_check_folder(path, Mode::corrected_if_state);
}

Descriptor open_private_file(const std::string& path, int flags) {
  const std::filesystem::path place(path);
  const std::string name = place.filename().string();
  const Descriptor above(open((place.parent_path() / ".").c_str(), k_look | O_DIRECTORY));
  if (!above.is_open() && errno == ENOENT && (flags & O_CREAT) == 0) return Descriptor();
  if (!above.is_open()) throw cannot_be_opened(path);
  // Without O_NONBLOCK, opening a FIFO would block.
  const int existing = (flags & ~O_CREAT) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Descriptor file(openat(above.number(), name.c_str(), existing));
  if (!file.is_open() && errno == ENOENT) {
    if ((flags & O_CREAT) == 0) return file;
    file = Descriptor(openat(above.number(), name.c_str(), existing | O_CREAT | O_EXCL, k_file_mode));
    if (file.is_open()) {
      if (!set_up(file, above, k_file_mode)) throw cannot_be_opened(path);
      return file;
    }
    // Another process may have created the file between the two calls of openat().
    if (errno == EEXIST) file = Descriptor(openat(above.number(), name.c_str(), existing));
  }
  if (!file.is_open()) {
    const int code = errno;
    (void)is_private_file(
        path);  // is_private_file() throws a more precise error for a link, a folder or a socket
    errno = code;
    throw cannot_be_opened(path);
  }
  check_file(file, path);
  return file;
}

bool is_read_only(const std::string& path) {
  const auto may = [&](int what) { return faccessat(AT_FDCWD, path.c_str(), what, AT_EACCESS) == 0; };
  return may(R_OK) && !may(W_OK);
}

bool is_private_file(const std::string& path) {
  const Descriptor file(open(path.c_str(), k_look | O_NOFOLLOW));
  if (!file.is_open() && errno == ENOENT) return false;
  if (!file.is_open()) throw cannot_be_opened(path);
  check_file(file, path);
  return true;
}

}  // namespace combu
