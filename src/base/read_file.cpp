#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <system_error>

#include "combu/base.hpp"

namespace combu {
namespace {

Error unreadable(const std::string& path, int fault) {
  if (fault == EISDIR) return {ErrorKind::invalid, path, "is a folder, not a file"};
  return {ErrorKind::invalid, path, "cannot be read: " + std::generic_category().message(fault)};
}

void expect_regular(const std::string& path, const struct stat& state, Bytes most) {
  if (S_ISDIR(state.st_mode)) throw Error(ErrorKind::invalid, path, "is a folder, not a file");
  if (!S_ISREG(state.st_mode))
    throw Error(ErrorKind::invalid, path, "is a pipe, a device or a socket; it must be a regular file");
  if (state.st_size > most.count)
    throw Error(ErrorKind::invalid, path, fmt::format("is larger than {}", to_string(most)));
}

}  // namespace

std::string read_all(int descriptor, const std::string& subject, Bytes most) {
  std::string content;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return content;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw unreadable(subject, errno);
    content.append(buffer.data(), static_cast<std::size_t>(count));
    if (Bytes{static_cast<std::int64_t>(content.size())} > most)
      throw Error(ErrorKind::invalid, subject, fmt::format("is larger than {}", to_string(most)));
  }
}

std::optional<std::string> read_regular_file(const std::string& path, Bytes most) {
  struct stat state {};
  // Opening a device for reading can change its state, and opening a pipe can unblock its writer. Opening
  // with O_PATH does not change a device or unblock a writer.
  const Descriptor found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!found.is_open() && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (!found.is_open() || ::fstat(found.number(), &state) != 0) throw unreadable(path, errno);
  expect_regular(path, state, most);
  const Descriptor file = reopen(found, O_RDONLY | O_NOCTTY);
  if (!file.is_open()) throw unreadable(path, errno);
  return read_all(file.number(), path,
                  most);  // checks the size again: the file may grow, and files in /proc report size 0
}

}  // namespace combu
