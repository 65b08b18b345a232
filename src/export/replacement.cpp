#include "export/replacement.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "combu/base.hpp"
#include "combu/export.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

Error cannot_be_written(const std::string& path, int fault) {
  return {ErrorKind::refused, path,
          fmt::format("cannot be written: {}", std::generic_category().message(fault))};
}

// True if combu writes to `path` directly instead of replacing the file. True for a pipe, a device, and a
// path of an open descriptor (/dev/stdout, /dev/fd, /proc).
bool is_in_place(const std::string& path) {
  std::error_code none;
  const fs::file_status status = fs::status(path, none);
  return path.starts_with("/dev/std") || path.starts_with("/dev/fd/") || path.starts_with("/proc/") ||
         (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status));
}

void write_in_place(const std::string& path, const std::function<void(std::ostream&)>& write) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  if (file) write(file);
  file.flush();
  if (!file) throw cannot_be_written(path, errno);
}

}  // namespace

Replacement::Replacement(const std::string& path) : path_(path), place_(path) {
  std::error_code fault;
  const fs::file_status status = fs::status(path, fault);
  if (fs::exists(status)) {
    if (is_in_place(path) || !fs::is_regular_file(status))
      throw Error(ErrorKind::refused, path, "cannot be written: it must be a regular file");
    place_ = fs::canonical(path).string();
  } else if (fs::is_symlink(fs::symlink_status(path, fault))) {
    throw Error(ErrorKind::refused, path, "cannot be written: it is a link whose target does not exist");
  }
  beside_ = fmt::format("{}.{}.new", place_, getpid());
  fs::remove(beside_, fault);
  // If a file is replaced, only the owner can access the new file until commit() gives the new file the
  // permissions of the replaced file.
  if (fs::exists(status))
    const Descriptor file(open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

Replacement::~Replacement() {
  std::error_code fault;
  if (!beside_.empty()) fs::remove(beside_, fault);
}

void Replacement::commit() {
  const Descriptor file(open(beside_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) throw cannot_be_written(path_, errno);
  struct stat there {};
  if (stat(place_.c_str(), &there) == 0) {
    // If this process may change owners, the new file gets the owner of the replaced file. The new file never
    // becomes setuid or setgid.
    (void)!fchown(file.number(), there.st_uid, there.st_gid);
    (void)fchmod(file.number(), there.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO));
  }
  if (fsync(file.number()) != 0 || rename(beside_.c_str(), place_.c_str()) != 0)
    throw cannot_be_written(path_, errno);
  beside_.clear();
}

bool is_file_to_be(const std::string& path) {
  return !is_in_place(path);
}

void write_file(const std::string& path, const std::function<void(std::ostream&)>& write) {
  if (is_in_place(path)) return write_in_place(path, write);
  Replacement replacement(path);
  errno = 0;
  {
    std::ofstream file(replacement.beside(), std::ios::binary | std::ios::trunc);
    if (file) write(file);
    file.close();
    if (!file) throw cannot_be_written(path, errno);
  }
  replacement.commit();
}

}  // namespace combu
