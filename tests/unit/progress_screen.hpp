#pragma once
// Simulates the parts of a terminal that the block uses: wrapping of text, new lines, moving the cursor up,
// erasing downwards, colours. If the window becomes narrower, displayed lines are wrapped again, as current
// terminals do.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "progress/block.hpp"

namespace combu {

class Screen {
 public:
  explicit Screen(ScreenSize size) : size_(size) {}

  // Shows text. A non-ASCII character occupies one column and is shown as '?'.
  void show(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); ++at) {
      const char c = text[at];
      if (c == '\x1b') {
        at = escape(text, at);
      } else if (c == '\n') {
        new_line();
      } else if (c == '\r') {
        column_ = 0;
      } else if ((c & 0xC0) != 0x80) {
        put((c & 0x80) == 0 ? c : '?');
      }
    }
  }

  // Changes the window's size. The cursor must be at the beginning of a line.
  void resize(ScreenSize size) {
    std::vector<std::string> wrapped;
    for (const std::string& line : rows_)
      for (std::size_t from = 0; from == 0 || from < line.size(); from += size.columns)
        wrapped.push_back(line.substr(from, size.columns));
    const std::size_t below = rows_.size() - row_;
    rows_ = wrapped;
    row_ = rows_.size() - below;
    size_ = size;
  }

  // Returns all lines that were shown and not erased, including lines above the screen. Empty rows at the end
  // are removed.
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines = rows_;
    while (!lines.empty() && lines.back().empty()) lines.pop_back();
    return lines;
  }

 private:
  void put(char c) {
    if (column_ == size_.columns) new_line();
    std::string& row = rows_[row_];
    row.resize(std::max(row.size(), column_ + 1), ' ');
    row[column_++] = c;
  }

  void new_line() {
    if (++row_ == rows_.size()) rows_.emplace_back();
    column_ = 0;
  }

  // The first row on the screen, which is the limit for moving the cursor up.
  [[nodiscard]] std::size_t top() const { return rows_.size() > size_.rows ? rows_.size() - size_.rows : 0; }

  std::size_t escape(std::string_view text, std::size_t at) {
    const std::size_t end = text.find_first_of("ABCDHJKm", at);
    const auto count = static_cast<std::size_t>(std::atoi(text.data() + at + 2));
    if (text[end] == 'A') row_ = std::max(top(), row_ - std::min(row_, count));
    if (text[end] == 'J') {
      rows_.resize(row_ + 1);
      rows_[row_].resize(column_);
    }
    return end;
  }

  ScreenSize size_;
  std::vector<std::string> rows_{1};
  std::size_t row_ = 0;
  std::size_t column_ = 0;
};

}  // namespace combu
