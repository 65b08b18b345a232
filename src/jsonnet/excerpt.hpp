#pragma once
// Lines of files, for a person who looks for a mistake in them.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace combu {

class Excerpts {
 public:
  // `source` is what `file` holds, and outlives this.
  Excerpts(std::string_view file, std::string_view source);

  // What the file has from that place on, to its end; empty where it cannot be had. Lines and columns (in
  // bytes) begin at 1. Other files than the one at hand are read, once.
  [[nodiscard]] std::string_view from(std::string_view file, std::size_t line, std::size_t column);
  // Likewise, what is before that place.
  [[nodiscard]] std::string_view before(std::string_view file, std::size_t line, std::size_t column);

  // The line, cut to some hundred characters around the column, and below it a caret: "\n    TEXT\n      ^".
  // Empty where it cannot be had.
  [[nodiscard]] std::string with_caret(std::string_view file, std::size_t line, std::size_t column);
  // The line alone, without the blanks around it, cut likewise.
  [[nodiscard]] std::string line(std::string_view file, std::size_t line, std::size_t column);

 private:
  [[nodiscard]] const std::string_view* text_of(std::string_view file);
  [[nodiscard]] std::string_view whole_line(std::string_view file, std::size_t line);

  std::map<std::string, std::string, std::less<>> read_;
  std::map<std::string, std::string_view, std::less<>> texts_;
};

}  // namespace combu
