#pragma once
// Tables of numbers and texts.

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "combu/analysis.hpp"

namespace combu {

// A line above a table: "the same for all: epochs=10 lr=0.1", cut between two params.
[[nodiscard]] std::string shared_line(std::string_view params, std::size_t columns_max);

// Aligned columns, the heads first; a column of numbers at their points. An empty cell is shown as "–".
class NumberTable {
 public:
  struct Head {
    std::string text;
    int rank = 0;           // a table that is too wide leaves out the greatest first; 0: the column stays
    bool is_whole = false;  // its texts are not shortened
  };
  explicit NumberTable(const std::vector<Head>& heads);

  void add_text(std::string_view text);
  void add_number(std::string number);
  // A number, or a text, which is cut to 60 columns in its middle.
  void add(const Value& value);
  // No line is wider than `columns_max`; 0: lines are whole. First texts are shortened, then whole columns
  // are left out: by their rank, of one rank the last one first. A last line names these, and ends with
  // `way_out`: how to see them. No number is cut, unless its column alone is too wide.
  void print(std::ostream& out, std::size_t columns_max = 0, std::string_view way_out = {}) const;

 private:
  struct Cell {
    std::string text;
    std::size_t left = 0;   // columns in front of the point; of a text all of them
    std::size_t right = 0;  // from the point on
    bool is_number = false;
  };
  struct ColumnLayout {
    int rank = 0;
    bool is_whole = false;
    std::size_t left = 0;  // the widest cell's, as in Cell
    std::size_t right = 0;
    std::size_t text = 0;

    [[nodiscard]] std::size_t width() const;
    [[nodiscard]] std::size_t width_least() const;  // with its texts shortened
  };

  void add(Cell cell);
  // The columns that are printed, in order.
  [[nodiscard]] std::vector<std::size_t> fitting(std::size_t columns_max) const;
  [[nodiscard]] std::string line_of(std::size_t row, const std::vector<std::size_t>& shown,
                                    const std::vector<std::size_t>& widths) const;
  // Prints the line about the columns that are not among `shown`, each name once.
  void print_left_out(std::ostream& out, const std::vector<std::size_t>& shown, std::size_t columns_max,
                      std::string_view way_out) const;

  std::vector<ColumnLayout> columns_;
  std::vector<Cell> cells_;
};

}  // namespace combu
