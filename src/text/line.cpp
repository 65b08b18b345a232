
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <optional>

#include "combu/text.hpp"

namespace combu {
namespace {

// Returns the length of the ECMA-48 escape sequence that begins at position `at`. Recognises `ESC [` … final
// byte and `ESC ]` … BEL; otherwise the sequence is ESC alone.
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

}  // namespace

std::string clean_line(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\x1b') {
      at += escape_size(text, at);
      continue;
    }
    const auto character = first_character(text.substr(at));
    if (!character) {
      clean += '?';
      ++at;
      continue;
    }
    if (character->code == '\n' || character->code == '\t') {
      clean += ' ';
    } else if (!is_control(character->code)) {
      clean += text.substr(at, character->bytes);
    }
    at += character->bytes;
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

std::string cut_line(std::string_view clean, std::size_t columns_max) {
  if (columns_of(clean) <= columns_max) return std::string(clean);
  if (columns_max == 0) return {};
  std::size_t columns = 1;  // for the "…"
  std::size_t at = 0;
  while (at < clean.size()) {
    const std::size_t bytes = first_character(clean.substr(at)).value_or(Character{}).bytes;
    columns += columns_of(clean.substr(at, bytes));
    if (columns > columns_max) break;
    at += bytes;
  }
  return std::string(clean.substr(0, at)) + "…";
}

std::string cut_middle(std::string_view clean, std::size_t columns_max) {
  std::size_t columns = columns_of(clean);
  if (columns <= columns_max) return std::string(clean);
  if (columns_max == 0) return {};
  const std::size_t tail_max = (columns_max - 1) / 2;
  std::string_view tail = clean;
  while (columns > tail_max) {
    const std::size_t bytes = first_character(tail).value_or(Character{}).bytes;
    columns -= columns_of(tail.substr(0, bytes));
    tail.remove_prefix(bytes);
  }
  return cut_line(clean, columns_max - tail_max) + std::string(tail);
}

std::string fit_line(std::string_view line, std::size_t columns_max) {
  std::string clean = clean_line(line);
  return columns_max == 0 ? clean : cut_line(clean, columns_max);
}

std::string local_time(Instant instant) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(instant);
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

}  // namespace combu
