#include "view/line.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>

#include "combu/view.hpp"

namespace combu {
namespace {

struct Character {
  std::optional<char32_t> code;  // nullopt: no UTF-8
  std::size_t size = 1;
};

// The length that a first byte announces (RFC 3629), 0 when it cannot be one.
std::size_t announced_size(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

Character character_at(std::string_view text, std::size_t at) {
  constexpr unsigned char k_first_masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  constexpr char32_t k_least[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t size = announced_size(first);
  if (size == 0 || at + size > text.size()) return {};
  char32_t code = first & k_first_masks[size];
  for (std::size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[at + i]);
    if ((byte & 0xC0) != 0x80) return {};
    code = (code << 6) | (byte & 0x3F);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < k_least[size] || code > 0x10FFFF || surrogate) return {};
  return {code, size};
}

// Characters that move the cursor, or turn the order of what follows.
bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || (code >= 0x200E && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

// The length of the escape sequence at `at` (ECMA-48): ESC [ … final byte, ESC ] … BEL, else ESC alone.
std::size_t escape_size(std::string_view text, std::size_t at) {
  if (at + 1 >= text.size()) return 1;
  if (text[at + 1] == '[') {
    std::size_t end = at + 2;
    while (end < text.size() && text[end] >= 0x20 && text[end] < 0x40) ++end;
    return (end < text.size() ? end + 1 : end) - at;
  }
  if (text[at + 1] == ']') {
    const std::size_t end = text.find_first_of("\a\x1b", at + 2);
    return (end == std::string_view::npos ? text.size() : end + 1) - at;
  }
  return 1;
}

// Two columns for all beyond Hangul Jamo, but for punctuation, arrows and box drawing: rather one too many (a
// combining mark) than one too few, since a line that is too long would wrap and break the block.
std::size_t width_of(char32_t code) {
  const bool narrow =
      code < 0x1100 || (code >= 0x2000 && code <= 0x23FF) || (code >= 0x2500 && code <= 0x25FF);
  return narrow ? 1 : 2;
}

}  // namespace

std::string clean_line(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\x1b') {
      at += escape_size(text, at);
      continue;
    }
    const auto [code, size] = character_at(text, at);
    if (!code) {
      clean += '?';
    } else if (*code == '\n' || *code == '\t') {
      clean += ' ';
    } else if (!is_control(*code)) {
      clean += text.substr(at, size);
    }
    at += size;
  }
  return clean;
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) { return letter >= 0x20 && letter < 0x7F; });
}

std::string clean_lines(std::string_view text) {
  std::string clean;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    clean += clean_line(text.substr(from, end - from)) + "\n";
    from = end + 1;
  }
  return clean;
}

std::size_t columns_of(std::string_view clean) {
  if (is_plain(clean)) return clean.size();
  std::size_t columns = 0;
  for (std::size_t at = 0; at < clean.size();) {
    const auto [code, size] = character_at(clean, at);
    columns += code ? width_of(*code) : 1;
    at += size;
  }
  return columns;
}

std::string cut_line(std::string_view clean, std::size_t columns_max) {
  if (columns_of(clean) <= columns_max) return std::string(clean);
  if (columns_max == 0) return {};
  std::size_t columns = 1;  // the "…"
  std::size_t at = 0;
  while (at < clean.size()) {
    const auto [code, size] = character_at(clean, at);
    columns += code ? width_of(*code) : 1;
    if (columns > columns_max) break;
    at += size;
  }
  return std::string(clean.substr(0, at)) + "…";
}

std::string local_time(Instant instant) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(instant);
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

}  // namespace combu
