#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "combu/text.hpp"

namespace combu {

struct RunEntry;  // combu/record.hpp

inline constexpr std::size_t k_column_gap = 2;    // width of the gap between two columns of a table
inline constexpr std::size_t k_column_least = 8;  // minimum width to which a column of free text is shortened

// Shortens the widest columns until a line has at most `columns_max` terminal columns (0: no limit). No
// column becomes narrower than its floor.
void fit_widths(std::span<std::size_t> widths, std::span<const std::size_t> floors, std::size_t columns_max);

// Joins `begin`, `text` and `end` to a line of at most `columns_max` columns (0: no limit). If the line is
// too wide, `text` is shortened first.
[[nodiscard]] std::string fit_between(std::string_view begin, std::string_view text, std::string_view end,
                                      std::size_t columns_max);

// Returns a title such as "run r1 (simulated) of lab", followed by `rest`. Shortens the title with
// fit_between(): the experiment's name, which may be a path, is shortened first.
[[nodiscard]] std::string run_title(const RunEntry& run, std::string_view rest, std::size_t columns_max);

// A table with aligned columns. The first row contains the headings of the columns. clean_line() cleans the
// text of each cell for a terminal. A table may have 100,000 rows, so the text of all cells is one string
// until the widths are known.
template <std::size_t columns>
class Table {
 public:
  using Row = std::array<std::string_view, columns>;

  // `flexible` contains the indices of the columns with free text such as names or reasons. print() may
  // shorten these columns.
  Table(const Row& heads, std::initializer_list<std::size_t> flexible) {
    floors_.fill(SIZE_MAX);
    for (const std::size_t column : flexible) floors_.at(column) = k_column_least;
    add(heads);
  }

  void reserve(std::size_t rows) { cells_.reserve((rows + 1) * columns); }

  void add(const Row& row) {
    for (std::size_t i = 0; i < columns; ++i) {
      Cell cell{.size = row[i].size(), .width = row[i].size()};
      if (is_plain(row[i])) {
        text_ += row[i];
      } else {
        const std::string clean = clean_line(row[i]);
        text_ += clean;
        cell = {.size = clean.size(), .width = columns_of(clean)};
      }
      widths_[i] = std::max(widths_[i], cell.width);
      cells_.push_back(cell);
    }
  }

  // Prints the table with lines of at most `columns_max` columns; 0: no limit.
  void print(std::ostream& out, std::size_t columns_max = 0) const {
    std::array<std::size_t, columns> widths = widths_;
    fit_widths(widths, floors_, columns_max);
    std::string_view rest = text_;
    std::string line;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const std::size_t column = i % columns;
      std::size_t width = cells_[i].width;
      if (width <= widths[column]) {
        line += rest.substr(0, cells_[i].size);
      } else {
        const std::string cut = cut_line(rest.substr(0, cells_[i].size), widths[column]);
        line += cut;
        width = columns_of(cut);
      }
      rest.remove_prefix(cells_[i].size);
      if (column + 1 < columns) {
        line.append(widths[column] - width + k_column_gap, ' ');
        continue;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out << (columns_max == 0 ? line : cut_line(line, columns_max)) << '\n';
      line.clear();
    }
  }

 private:
  struct Cell {
    std::size_t size;   // number of bytes of the cell's text
    std::size_t width;  // width of the cell in columns of the terminal
  };

  std::string text_;
  std::vector<Cell> cells_;
  std::array<std::size_t, columns> widths_{};
  std::array<std::size_t, columns> floors_{};
};

}  // namespace combu
