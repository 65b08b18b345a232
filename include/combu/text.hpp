#pragma once
// Functions that make text for people and programs: text that is safe for a terminal, names, numbers, times
// and shell words.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"

namespace combu {

// Returns clean_line(line), cut to `columns_max` columns. If `columns_max` is 0, the line is not cut.
[[nodiscard]] std::string fit_line(std::string_view line, std::size_t columns_max);

// Returns `text` as valid UTF-8 without control characters and escape sequences. Line ends and tabs become
// spaces, and bytes that are not UTF-8 become question marks.
[[nodiscard]] std::string clean_line(std::string_view text);

// True if `text` is printable ASCII. Plain text does not need clean_line().
[[nodiscard]] bool is_plain(std::string_view text);

// Shortens a clean line to at most `columns_max` columns, without splitting a character. A shortened line
// ends with "…".
[[nodiscard]] std::string cut_line(std::string_view clean, std::size_t columns_max);

// Like cut_line(), but puts "…" in place of the middle of the line, for example "a-qu…-17". Hence names that
// differ only at their ends stay different.
[[nodiscard]] std::string cut_middle(std::string_view clean, std::size_t columns_max);

// Returns true if the name `left` sorts before the name `right`. Sequences of digits compare as whole
// numbers, so that "a2" sorts before "a10".
[[nodiscard]] bool is_before(std::string_view left, std::string_view right);

// Joins names that differ only in their last number, if the numbers are consecutive, as in "solver-a-[1-5]"
// and "solver-[08-10]". The ranges are returned in the order in which their first names appear in `names`.
[[nodiscard]] std::vector<std::string> ranges(const std::vector<std::string_view>& names);

// Returns a count with its noun, such as "1 run" or "3 runs". If `plural` is empty, the plural is the noun
// with an "s".
[[nodiscard]] std::string number_of(std::size_t count, std::string_view noun, std::string_view plural = {});

// Returns a number with four significant digits, or all digits of an integer, such as "0.2134", "1.234e-05",
// "12346" or "nan".
[[nodiscard]] std::string short_number(double number);
// Returns the shortest decimal text that parses to exactly `number`.
[[nodiscard]] std::string whole_number(double number);
// Like whole_number(), but returns "null" for NaN and infinity, which JSON does not have.
[[nodiscard]] std::string json_number(double number);

// Returns `text` as a quoted JSON string.
[[nodiscard]] std::string json_string(std::string_view text);

// For example, local_time() returns "2026-01-31 12:00:00" in local time, and rfc3339() returns
// "2026-01-31T12:00:00.250Z" for programs.
[[nodiscard]] std::string local_time(Instant instant);
[[nodiscard]] std::string rfc3339(Instant instant);

// Returns a text of several lines (for example an error with its stack trace) that is safe for a terminal.
// Applies clean_line() to each line and ends each line with a newline.
[[nodiscard]] std::string clean_lines(std::string_view text);

// Makes a text safe for a terminal, but keeps its colours. ColouredText keeps the SGR sequences of ECMA-48,
// such as `ESC [ 31 m`, carriage returns, newlines and tabs. ColouredText escapes all other control
// characters and all bytes that are not UTF-8. ColouredText resets the colours before each newline and at the
// end of the text.
class ColouredText {
 public:
  // If text follows a carriage return on the same line, ColouredText first repeats `prefix`. `prefix` must
  // not contain control characters.
  explicit ColouredText(std::string_view prefix = {}) : prefix_(prefix) {}

  // Returns the terminal-safe form of the next piece of the text. Buffers an incomplete character or escape
  // sequence at the end of `piece`.
  [[nodiscard]] std::string add(std::string_view piece);
  // Returns the terminal-safe form of the buffered text, followed by a colour reset if colours are set.
  [[nodiscard]] std::string end();

 private:
  // Moves complete characters and escape sequences from `held_` to `out`. If `is_end` is true, also moves
  // incomplete characters and sequences.
  void move_to(std::string& out, bool is_end);
  void reset(std::string& out);

  std::string prefix_;
  std::string held_;
  bool is_coloured_ = false;
};

// Returns `text` as one word of a POSIX shell, quoted if needed. The result is valid UTF-8 without control
// characters other than newline and tab.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace combu
