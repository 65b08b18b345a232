#pragma once
// Numbers as people and programs read them.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "combu/view.hpp"

namespace combu {

// Four significant digits, whole numbers whole: "0.2134", "1.234e-05", "12346"; "nan", "inf".
[[nodiscard]] std::string short_number(double number);
// The shortest text that is read as the same number.
[[nodiscard]] std::string whole_number(double number);
// The same; "null" for what JSON has no number for.
[[nodiscard]] std::string json_number(double number);

// A value for people, and in full; empty where there is none.
[[nodiscard]] std::string short_text(const Value& value);
[[nodiscard]] std::string whole_text(const Value& value);
// "null" for none, and for what JSON has no number for.
[[nodiscard]] std::string json_value(const Value& value);

// Aligned columns, the heads first; a column of numbers at their points. An empty cell is shown as "–".
class NumberTable {
 public:
  explicit NumberTable(const std::vector<std::string>& heads);

  void add_text(std::string_view text);
  void add_number(std::string number);
  // By what it holds; a text is cut to 60 columns.
  void add(const Value& value);
  // No line is wider than `columns_max`, and no number is cut; 0: lines are whole.
  void print(std::ostream& out, std::size_t columns_max = 0) const;

 private:
  struct Cell {
    std::string text;
    std::size_t left = 0;   // columns in front of the point; of a text all of them
    std::size_t right = 0;  // from the point on
    bool is_number = false;
  };
  struct Widths {
    std::size_t left = 0;
    std::size_t right = 0;
    std::size_t text = 0;
  };

  void add(Cell cell);
  [[nodiscard]] std::string line_of(std::size_t row, const std::vector<std::size_t>& widths) const;

  std::size_t columns_;
  std::vector<Cell> cells_;
  std::vector<Widths> widths_;
};

}  // namespace combu
