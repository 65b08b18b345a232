#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"

namespace combu {
namespace {

// Returns the length of the character that begins with the byte `first`, or 0 if no character begins with
// this byte.
std::size_t announced_bytes(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

bool is_wide(char32_t code) {
  return code >= 0x1100 && (code < 0x2000 || code > 0x23FF) && (code < 0x2500 || code > 0x25FF);
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view k_blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(k_blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(k_blanks) - first + 1);
}

std::string list_text(const std::vector<std::string>& names, std::size_t named_max) {
  const std::size_t named = std::min(names.size(), named_max);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  if (named < names.size()) text += fmt::format(" and {} more", names.size() - named);
  return text;
}

bool holds_path(std::string_view folder, std::string_view path) {
  return folder.empty() ||
         (path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/'));
}

std::optional<Character> first_character(std::string_view text) {
  constexpr unsigned char k_first_masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  constexpr char32_t k_least[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t bytes = announced_bytes(first);
  if (bytes == 0 || bytes > text.size()) return std::nullopt;
  char32_t code = first & k_first_masks[bytes];
  for (std::size_t i = 1; i < bytes; ++i) {
    if (!is_inside_character(text[i])) return std::nullopt;
    code = (code << 6U) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < k_least[bytes] || code > 0x10FFFF || is_surrogate) return std::nullopt;
  return Character{code, bytes};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::optional<Character> character = first_character(text);
    if (!character) return false;
    text.remove_prefix(character->bytes);
  }
  return true;
}

bool is_inside_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text).value_or(Character{});
    columns += is_wide(character.code) ? 2 : 1;
    text.remove_prefix(character.bytes);
  }
  return columns;
}

void append_to_tail(std::string& text, std::string_view more, std::size_t size) {
  text += more;
  if (text.size() > 2 * size) text.erase(0, text.size() - size);
}

}  // namespace combu
