#include "jsonnet/text.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "combu/base.hpp"

namespace combu {
namespace {

[[noreturn]] void refuse(const std::string& subject, int fault) {
  if (fault == EISDIR) throw Error(ErrorKind::invalid, subject, "is a folder, not a file");
  throw Error(ErrorKind::invalid, subject, "cannot be read: " + std::generic_category().message(fault));
}

}  // namespace

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !is_inside_character(byte); }));
}

std::optional<std::size_t> find_bad_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const bool is_ascii = static_cast<unsigned char>(text[at]) < 0x80;
    const auto character = is_ascii ? Character{} : first_character(text.substr(at));
    if (!character) return at;
    at += character->bytes;
  }
  return std::nullopt;
}

std::string read_all(int descriptor, const std::string& subject) {
  std::string content;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return content;
    if (count < 0) {
      if (errno == EINTR) continue;
      refuse(subject, errno);
    }
    content.append(buffer.data(), static_cast<std::size_t>(count));
    if (Bytes{static_cast<std::int64_t>(content.size())} > k_file_max)
      throw Error(ErrorKind::invalid, subject, "is larger than " + to_string(k_file_max));
  }
}

std::optional<std::string> read_file(const std::string& path, const std::string& subject) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    refuse(subject, errno);
  }
  return read_all(file.number(), subject);
}

}  // namespace combu
