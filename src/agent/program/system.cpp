#include "system.hpp"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <system_error>

namespace combu::agent {
namespace {

std::int64_t time_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec * k_second + time.tv_nsec;
}

}  // namespace

void Descriptor::close() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

bool open_pipe(Pipe& pipe) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  pipe.reader = Descriptor(ends[0]);
  pipe.writer = Descriptor(ends[1]);
  return true;
}

void set_nonblocking(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags >= 0) fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

void set_blocking(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags >= 0) fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK);
}

std::int64_t real_time() {
  return time_of(CLOCK_REALTIME);
}

std::int64_t steady_time() {
  return time_of(CLOCK_BOOTTIME);
}

std::string read_file(const char* path, std::size_t bytes_max) {
  std::string text;
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) return text;
  std::array<char, 4096> part;
  while (text.size() < bytes_max) {
    const ssize_t count = read(file.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  if (text.size() > bytes_max) text.resize(bytes_max);
  return text;
}

bool read_again(int descriptor, std::string& out) {
  out.clear();
  std::array<char, 4096> part;
  while (true) {
    const ssize_t count = pread(descriptor, part.data(), part.size(), static_cast<off_t>(out.size()));
    if (count < 0) return false;
    if (count == 0) return true;
    out.append(part.data(), static_cast<std::size_t>(count));
  }
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void complain(std::string_view text) {
  std::string line = "agent: ";
  line += text;
  line += '\n';
  write_all(STDERR_FILENO, line);
}

std::string to_text(std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), end};
}

bool read_number(std::string_view text, std::uint64_t& number) {
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc() && read.ptr == end;
}

std::string problem_text(std::string_view what, int error) {
  std::string text(what);
  text += ": ";
  text += strerrordesc_np(error) != nullptr ? strerrordesc_np(error) : "unknown error";
  return text;
}

}  // namespace combu::agent
