#pragma once
// Tables that mix numbers and texts.

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "combu/analysis.hpp"

namespace combu {

// Returns a line such as "in all rows: epochs=10 lr=0.1", which is printed above a table. A line that is
// too wide is cut between two params.
[[nodiscard]] std::string shared_line(std::string_view params, std::size_t columns_max);

// A table with aligned columns. The first row contains the headings of the columns. Columns of numbers are
// aligned at their decimal points. An empty cell is printed as "–".
class NumberTable {
 public:
  struct Head {
    std::string text;
    // If the table is too wide, columns of the highest rank are left out first. Columns of rank 0 are always
    // printed.
    int rank = 0;
    bool is_whole = false;  // true: texts in the column are not shortened
  };
  explicit NumberTable(const std::vector<Head>& heads);

  void add_text(std::string_view text);
  void add_number(std::string number);
  // Adds a number, or a text that is cut in its middle to 60 columns.
  void add(const Value& value);
  // Prints the table with lines of at most `columns_max` columns; 0: no limit. If the table is too wide,
  // texts are shortened first. If the table is still too wide, whole columns are left out: first the columns
  // of the highest rank, and within a rank the last column first. If columns are left out, a last line names
  // these columns and ends with `way_out`, a hint for the user. A number is cut only if its column alone is
  // too wide.
  void print(std::ostream& out, std::size_t columns_max = 0, std::string_view way_out = {}) const;

 private:
  struct Cell {
    std::string text;
    std::size_t left = 0;   // width before the decimal point, or the whole width of a text
    std::size_t right = 0;  // width from the decimal point on
    bool is_number = false;
  };
  struct ColumnLayout {
    int rank = 0;
    bool is_whole = false;
    std::size_t left = 0;  // `left`, `right` and `text` are the maxima of the column's cells
    std::size_t right = 0;
    std::size_t text = 0;

    [[nodiscard]] std::size_t width() const;
    // width of the column if its texts are shortened as far as possible
    [[nodiscard]] std::size_t width_least() const;
  };

  void add(Cell cell);
  // Returns the indices of the columns that fit into a line, in ascending order.
  [[nodiscard]] std::vector<std::size_t> fitting(std::size_t columns_max) const;
  [[nodiscard]] std::string line_of(std::size_t row, const std::vector<std::size_t>& shown,
                                    const std::vector<std::size_t>& widths) const;
  // Prints the line that names the columns not in `shown`, each name once.
  void print_left_out(std::ostream& out, const std::vector<std::size_t>& shown, std::size_t columns_max,
                      std::string_view way_out) const;

  std::vector<ColumnLayout> columns_;
  std::vector<Cell> cells_;
};

}  // namespace combu
