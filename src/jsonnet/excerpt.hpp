#pragma once
// Lines of Jsonnet files for error messages, which show the line with the error.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace combu {

class Excerpts {
 public:
  // `source` is the content of `file`, and must outlive this object.
  Excerpts(std::string_view file, std::string_view source);

  // Returns the text of the file from this line and column to the end; empty if the text is not available.
  // Lines and columns (in bytes) begin at 1. Reads each file only once, and never the file that the
  // constructor got.
  [[nodiscard]] std::string_view from(std::string_view file, std::size_t line, std::size_t column);
  // Returns the text of the file before this line and column.
  [[nodiscard]] std::string_view before(std::string_view file, std::size_t line, std::size_t column);

  // Returns "\n TEXT\n ^": the line, cut to about a hundred characters around the column, and a caret below
  // the column. Returns an empty string if the line is not available.
  [[nodiscard]] std::string with_caret(std::string_view file, std::size_t line, std::size_t column);
  // Returns the line without surrounding blanks, cut as in with_caret().
  [[nodiscard]] std::string line(std::string_view file, std::size_t line, std::size_t column);

 private:
  [[nodiscard]] const std::string_view* text_of(std::string_view file);
  [[nodiscard]] std::string_view whole_line(std::string_view file, std::size_t line);

  std::map<std::string, std::string, std::less<>> read_;
  std::map<std::string, std::string_view, std::less<>> texts_;
};

}  // namespace combu
