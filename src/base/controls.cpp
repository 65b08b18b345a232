#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

bool is_control(char32_t code) {
  const auto is_in = [code](char32_t first, char32_t last) { return code >= first && code <= last; };
  return code < 0x20 || is_in(0x7F, 0x9F) || code == 0x061C || is_in(0x200E, 0x200F) ||
         is_in(0x2028, 0x202E) || is_in(0x2066, 0x2069) || code == 0xFEFF;
}

std::size_t whole_characters(std::string_view text) {
  constexpr std::size_t k_bytes_max = 4;
  for (std::size_t from_end = 1; from_end < k_bytes_max && from_end <= text.size(); ++from_end) {
    const std::size_t at = text.size() - from_end;
    if (is_inside_character(text[at])) continue;
    const auto first = static_cast<unsigned char>(text[at]);
    const std::size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    return bytes > from_end ? at : text.size();
  }
  return text.size();
}

std::string escape_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto is_plain = [](char letter) {
      return (letter >= ' ' && letter < 0x7F) || letter == '\n' || letter == '\t';
    };
    std::size_t plain = 0;
    while (plain < text.size() && is_plain(text[plain])) ++plain;
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const auto character = first_character(text);
    const std::size_t bytes = character ? character->bytes : 1;
    if (!character) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (is_control(character->code)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(character->code));
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace combu
