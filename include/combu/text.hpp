#pragma once
// Text for people and programs: text of others made fit for a terminal, names, numbers, times, shell words.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"

namespace combu {

// Text that others wrote, as one line of a terminal with so many columns; 0: it is not cut.
[[nodiscard]] std::string fit_line(std::string_view line, std::size_t columns_max);

// `text` without control characters and escape sequences, in valid UTF-8: line ends and tabs become spaces,
// bytes that are no UTF-8 become question marks.
[[nodiscard]] std::string clean_line(std::string_view text);

// Whether it is printable ASCII only, and so clean.
[[nodiscard]] bool is_plain(std::string_view text);

// A clean line cut to at most `columns_max` columns, between characters; what was cut is told by "…".
[[nodiscard]] std::string cut_line(std::string_view clean, std::size_t columns_max);

// The same, but cut in its middle: "a-qu…-17". Names that differ at their ends stay different.
[[nodiscard]] std::string cut_middle(std::string_view clean, std::size_t columns_max);

// The order in which numbers in names count by their value.
[[nodiscard]] bool is_before(std::string_view left, std::string_view right);

// Names that differ in their last number only, and follow one another in it, become one: "solver-a-[1-5]",
// "solver-[08-10]". In the order of the first of each.
[[nodiscard]] std::vector<std::string> ranges(const std::vector<std::string_view>& names);

// A count and its noun: "1 run", "3 runs". `plural`: of the noun; empty: the noun with an "s".
[[nodiscard]] std::string number_of(std::size_t count, std::string_view noun, std::string_view plural = {});

// Four significant digits, whole numbers whole: "0.2134", "1.234e-05", "12346"; "nan", "inf".
[[nodiscard]] std::string short_number(double number);
// The shortest text that is read as the same number.
[[nodiscard]] std::string whole_number(double number);
// The same; "null" for what JSON has no number for.
[[nodiscard]] std::string json_number(double number);

// A text as JSON has it, quoted.
[[nodiscard]] std::string json_string(std::string_view text);

// "2026-01-31 12:00:00", in local time; and for programs "2026-01-31T12:00:00.250Z".
[[nodiscard]] std::string local_time(Instant instant);
[[nodiscard]] std::string rfc3339(Instant instant);

// A text of several lines that others wrote (an error with its stack), for a terminal: without control
// characters and escape sequences, in valid UTF-8, each line with its end.
[[nodiscard]] std::string clean_lines(std::string_view text);

// Makes text with colours fit for a terminal: keeps ECMA-48's SGR sequences (`ESC [ 31 m`), carriage returns,
// newlines and tabs, and escapes every other control character and byte that is not UTF-8. Resets colours
// before each newline and at the end.
class ColouredText {
 public:
  // `prefix` (text without control characters) is repeated behind each carriage return that other text
  // follows on the same line.
  explicit ColouredText(std::string_view prefix = {}) : prefix_(prefix) {}

  // `piece` continues the text of the last call. A character or a sequence that is not complete is held back.
  [[nodiscard]] std::string add(std::string_view piece);
  // What was held back, and the reset of the last colour.
  [[nodiscard]] std::string end();

 private:
  // Moves complete text from `held_` to `out`; all of it if `is_end`.
  void move_to(std::string& out, bool is_end);
  void reset(std::string& out);

  std::string prefix_;
  std::string held_;
  bool is_coloured_ = false;
};

// As one word of a POSIX shell: quoted where it has to be. Holds no control character but newline and tab,
// and is UTF-8.
[[nodiscard]] std::string shell_word(std::string_view text);

}  // namespace combu
