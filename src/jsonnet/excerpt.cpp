#include "jsonnet/excerpt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "combu/base.hpp"
#include "jsonnet/text.hpp"

namespace combu {
namespace {

// Maximum length in bytes of a shown line. A longer line is cut to the bytes around the column of the error.
constexpr std::size_t k_line_bytes_max = 120;
constexpr std::size_t k_bytes_before = 60;
constexpr std::size_t k_bytes_after = 60;

// The part of a line that a message shows, and the number of terminal columns before the caret.
struct Shown {
  std::string text;
  std::size_t caret = 0;
};

Shown part_of(std::string_view line, std::size_t column) {
  const std::size_t at = std::min(column == 0 ? 0 : column - 1, line.size());
  std::size_t begin = 0;
  std::size_t end = line.size();
  if (line.size() > k_line_bytes_max) {
    begin = at > k_bytes_before ? at - k_bytes_before : 0;
    while (begin > 0 && is_inside_character(line[begin])) --begin;
    end = std::min(at + k_bytes_after, line.size());
    while (end < line.size() && is_inside_character(line[end])) ++end;
  }
  const std::string_view before = line.substr(begin, at - begin);
  Shown shown{fmt::format("{}{}{}", begin > 0 ? "…" : "", line.substr(begin, end - begin),
                          end < line.size() ? "…" : ""),
              (begin > 0 ? 1 : 0) + columns_of(before)};
  // Control characters such as tabs would move the cursor, so a space replaces each control character.
  const auto is_control = [](char byte) { return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F; };
  std::ranges::replace_if(shown.text, is_control, ' ');
  return shown;
}

std::string_view without_blanks_behind(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r");
  return last == std::string_view::npos ? std::string_view{} : text.substr(0, last + 1);
}

// Reads a regular file for an excerpt, because a pipe cannot be read twice. An error message can name any
// file, so the size is limited; hand-written files are smaller than the limit.
std::optional<std::string> read_again(const std::string& file) {
  constexpr Bytes k_most{std::int64_t{4} << 20U};
  try {
    auto text = read_regular_file(file, k_most);
    return text && !text->empty() ? text : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns the offset of the line's first byte; npos if the text has fewer lines.
std::size_t offset_of(std::string_view text, std::size_t line) {
  std::size_t offset = 0;
  for (; line > 1; --line) {
    const std::size_t end = text.find('\n', offset);
    if (end == std::string_view::npos) return end;
    offset = end + 1;
  }
  return offset;
}

}  // namespace

Excerpts::Excerpts(std::string_view file, std::string_view source) {
  texts_.emplace(file, source);
}

const std::string_view* Excerpts::text_of(std::string_view file) {
  if (const auto known = texts_.find(file); known != texts_.end()) return &known->second;
  std::string name(file);
  std::string& text = read_[name];
  if (auto content = read_again(name); content && !find_bad_utf8(*content)) text = *std::move(content);
  return &texts_.emplace(std::move(name), text).first->second;
}

std::string_view Excerpts::from(std::string_view file, std::size_t line, std::size_t column) {
  const std::string_view text = *text_of(file);
  const std::size_t begin = offset_of(text, line);
  if (begin == std::string_view::npos || column == 0) return {};
  return text.substr(std::min(begin + column - 1, text.size()));
}

std::string_view Excerpts::before(std::string_view file, std::size_t line, std::size_t column) {
  const std::string_view text = *text_of(file);
  return text.substr(0, text.size() - from(file, line, column).size());
}

std::string_view Excerpts::whole_line(std::string_view file, std::size_t line) {
  const std::string_view rest = from(file, line, 1);
  return without_blanks_behind(rest.substr(0, rest.find('\n')));
}

std::string Excerpts::with_caret(std::string_view file, std::size_t line, std::size_t column) {
  const std::string_view whole = whole_line(file, line);
  if (whole.empty()) return {};
  const Shown shown = part_of(whole, column);
  return fmt::format("\n    {}\n    {}^", shown.text, std::string(shown.caret, ' '));
}

std::string Excerpts::line(std::string_view file, std::size_t line, std::size_t column) {
  std::string_view whole = whole_line(file, line);
  const std::size_t blanks = std::min(whole.find_first_not_of(" \t"), whole.size());
  whole.remove_prefix(blanks);
  return part_of(whole, column > blanks ? column - blanks : 1).text;
}

}  // namespace combu
