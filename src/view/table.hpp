#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "view/line.hpp"

namespace combu {

// Aligned columns, the heads first; what is in the cells is made fit for a terminal.
template <std::size_t columns>
void print_table(std::ostream& out, std::vector<std::array<std::string, columns>> rows) {
  std::array<std::size_t, columns> widths{};
  for (auto& row : rows) {
    for (std::size_t i = 0; i < columns; ++i) {
      if (!is_plain(row[i])) row[i] = clean_line(row[i]);
      widths[i] = std::max(widths[i], columns_of(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < columns; ++i) {
      text += row[i];
      if (i + 1 < columns) text.append(widths[i] - columns_of(row[i]) + 2, ' ');
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  out << text;
}

}  // namespace combu
