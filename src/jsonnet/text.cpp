#include "jsonnet/text.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "combu/base.hpp"

namespace combu {
namespace {

constexpr std::size_t k_file_bytes_max = std::size_t{1} << 30;
constexpr const char* k_too_large = "is larger than 1 GiB";

// The length of the sequence that begins at `at`, or 0 when it is not one (table 3-7 of the Unicode
// standard).
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : (first < 0xF0 ? 3 : 4);
  for (std::size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || !is_inside_character(text[at + i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[at + 1]);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : length;
}

[[noreturn]] void refuse(const std::string& subject, int fault) {
  if (fault == EISDIR) throw Error(ErrorKind::invalid, subject, "is a folder, not a file");
  throw Error(ErrorKind::invalid, subject, "cannot be read: " + std::generic_category().message(fault));
}

}  // namespace

bool is_inside_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !is_inside_character(byte); }));
}

std::optional<std::size_t> find_bad_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text, at);
    if (length == 0) return at;
    at += length;
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
    if (content.size() > k_file_bytes_max) throw Error(ErrorKind::invalid, subject, k_too_large);
  }
}

std::optional<std::string> read_file(const std::string& path, const std::string& subject) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    refuse(subject, errno);
  }
  struct stat state {};
  if (::fstat(file.number(), &state) == 0 && S_ISREG(state.st_mode) &&
      state.st_size > static_cast<off_t>(k_file_bytes_max))
    throw Error(ErrorKind::invalid, subject, k_too_large);
  return read_all(file.number(), subject);
}

}  // namespace combu
