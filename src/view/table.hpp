#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "view/line.hpp"

namespace combu {

// Aligned columns, the heads first; what is in the cells is made fit for a terminal. There may be 100,000
// rows: the text of all cells is held in one piece until the widths are known.
template <std::size_t columns>
class Table {
 public:
  using Row = std::array<std::string_view, columns>;

  explicit Table(const Row& heads) { add(heads); }

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

  void print(std::ostream& out) const {
    std::string_view rest = text_;
    std::string line;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const std::size_t column = i % columns;
      line += rest.substr(0, cells_[i].size);
      rest.remove_prefix(cells_[i].size);
      if (column + 1 < columns) {
        line.append(widths_[column] - cells_[i].width + 2, ' ');
        continue;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      line += '\n';
      out << line;
      line.clear();
    }
  }

 private:
  struct Cell {
    std::size_t size;   // bytes of the text
    std::size_t width;  // columns of the terminal
  };

  std::string text_;
  std::vector<Cell> cells_;
  std::array<std::size_t, columns> widths_{};
};

}  // namespace combu
