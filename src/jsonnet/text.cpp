#include "jsonnet/text.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "combu/base.hpp"

namespace combu {
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

std::optional<std::string> read_file(const std::string& path, const std::string& subject) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw Error(ErrorKind::invalid, subject, "cannot be read: " + std::generic_category().message(errno));
  }
  return read_all(file.number(), subject, k_file_max);
}

}  // namespace combu
