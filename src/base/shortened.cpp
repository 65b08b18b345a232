#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

namespace {

// Returns the position after the UTF-8 character that begins at `at`.
std::size_t end_of_character(std::string_view text, std::size_t at) {
  ++at;
  while (at < text.size() && is_inside_character(text[at])) ++at;
  return at;
}

}  // namespace

std::string shortened(std::string_view text) {
  constexpr std::size_t k_characters_max = 60;
  std::string result;
  std::size_t cut_at = 0;  // position at which the text is cut if an ellipsis is needed
  std::size_t at = 0;
  for (std::size_t count = 0; count < k_characters_max && at < text.size(); ++count) {
    const std::size_t end = end_of_character(text, at);
    cut_at = result.size();
    const auto first = static_cast<unsigned char>(text[at]);
    if (text[at] == '\n') {
      result += "\\n";
    } else if (first < ' ' || first == 0x7F) {
      result += fmt::format("\\x{:02x}", first);
    } else {
      result += text.substr(at, end - at);
    }
    at = end;
  }
  if (at == text.size()) return result;
  return result.substr(0, cut_at) + "…";
}

std::string one_line(std::string_view text) {
  constexpr std::size_t k_length_max = 500;
  std::string line;
  for (const char letter : text) {
    const bool blank = static_cast<unsigned char>(letter) <= ' ';
    if (blank && (line.empty() || line.back() == ' ')) continue;
    line += blank ? ' ' : letter;
  }
  while (line.ends_with(' ')) line.pop_back();
  if (line.size() <= k_length_max) return line;
  std::size_t end = k_length_max;
  while (end > 0 && is_inside_character(line[end])) --end;
  return line.substr(0, end) + "…";
}

}  // namespace combu
