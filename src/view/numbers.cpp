#include "view/numbers.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "combu/analysis.hpp"
#include "combu/text.hpp"
#include "view/table.hpp"

namespace combu {
namespace {

constexpr std::string_view k_missing = "–";

}  // namespace

std::string shared_line(std::string_view params, std::size_t columns_max) {
  constexpr std::string_view k_begin = "in all rows: ";
  std::string whole = clean_line(fmt::format("{}{}", k_begin, params));
  if (columns_max == 0 || columns_of(whole) <= columns_max) return whole;
  const std::string line = cut_line(whole, columns_max);
  const std::size_t blank = line.rfind(' ');
  return blank == std::string::npos || blank < k_begin.size() ? line : line.substr(0, blank) + " …";
}

NumberTable::NumberTable(const std::vector<Head>& heads) {
  columns_.reserve(heads.size());
  for (const Head& head : heads) columns_.push_back({.rank = head.rank, .is_whole = head.is_whole});
  for (const Head& head : heads) add_text(head.text);
}

void NumberTable::add_text(std::string_view text) {
  std::string clean = text.empty() ? std::string(k_missing) : clean_line(text);
  const std::size_t width = columns_of(clean);
  add({.text = std::move(clean), .left = width, .right = 0, .is_number = false});
}

void NumberTable::add_number(std::string number) {
  const std::size_t point = std::min(number.find_first_of(".e"), number.size());
  const std::size_t right = number.size() - point;
  add({.text = std::move(number), .left = point, .right = right, .is_number = true});
}

void NumberTable::add(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) {
    add_number(short_number(*number));
  } else {
    constexpr std::size_t k_columns_max = 60;
    add_text(cut_middle(clean_line(short_text(value)), k_columns_max));
  }
}

void NumberTable::add(Cell cell) {
  ColumnLayout& column = columns_[cells_.size() % columns_.size()];
  if (cell.is_number) {
    column.left = std::max(column.left, cell.left);
    column.right = std::max(column.right, cell.right);
  } else {
    column.text = std::max(column.text, cell.left);
  }
  cells_.push_back(std::move(cell));
}

std::size_t NumberTable::ColumnLayout::width() const {
  return std::max(left + right, text);
}

std::size_t NumberTable::ColumnLayout::width_least() const {
  return is_whole ? width() : std::min(width(), std::max(left + right, k_column_least));
}

std::vector<std::size_t> NumberTable::fitting(std::size_t columns_max) const {
  std::vector<std::size_t> shown(columns_.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (columns_max == 0) return shown;
  std::size_t line = 0;
  for (const ColumnLayout& column : columns_) line += column.width_least() + k_column_gap;
  while (shown.size() > 1 && line > columns_max + k_column_gap) {
    const auto next = std::ranges::max_element(shown.rbegin(), shown.rend(), {},
                                               [&](std::size_t i) { return columns_[i].rank; });
    const ColumnLayout& column = columns_[*next];
    if (column.rank == 0) break;
    line -= column.width_least() + k_column_gap;
    shown.erase(std::next(next).base());
  }
  return shown;
}

void NumberTable::print(std::ostream& out, std::size_t columns_max, std::string_view way_out) const {
  const std::vector<std::size_t> shown = fitting(columns_max);
  std::vector<std::size_t> widths;
  std::vector<std::size_t> floors;
  widths.reserve(shown.size());
  floors.reserve(shown.size());
  for (const std::size_t i : shown) {
    widths.push_back(columns_[i].width());
    floors.push_back(columns_[i].width_least());
  }
  fit_widths(widths, floors, columns_max);
  for (std::size_t row = 0; row < cells_.size() / columns_.size(); ++row) {
    const std::string line = line_of(row, shown, widths);
    out << (columns_max == 0 ? line : cut_line(line, columns_max)) << '\n';
  }
  print_left_out(out, shown, columns_max, way_out);
}

std::string NumberTable::line_of(std::size_t row, const std::vector<std::size_t>& shown,
                                 const std::vector<std::size_t>& widths) const {
  std::string line;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const Cell& whole = cells_[row * columns_.size() + shown[i]];
    Cell cut;
    if (!whole.is_number && whole.left > widths[i]) {
      cut.text = cut_middle(whole.text, widths[i]);
      cut.left = columns_of(cut.text);
    }
    const Cell& cell = cut.text.empty() ? whole : cut;
    const ColumnLayout& column = columns_[shown[i]];
    const bool is_numeric = column.left > 0;
    // Numbers are right-aligned with their decimal points in one column. Texts in a column of numbers are
    // right-aligned too.
    std::size_t before = 0;
    if (is_numeric) {
      const std::size_t right = cell.is_number ? column.right : 0;
      before = widths[i] - right - cell.left;
    }
    line.append(before, ' ');
    line += cell.text;
    line.append(widths[i] - before - cell.left - cell.right + k_column_gap, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

void NumberTable::print_left_out(std::ostream& out, const std::vector<std::size_t>& shown,
                                 std::size_t columns_max, std::string_view way_out) const {
  const std::size_t count = columns_.size() - shown.size();
  if (count == 0) return;
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (!std::ranges::binary_search(shown, i) && std::ranges::find(names, cells_[i].text) == names.end())
      names.emplace_back(cells_[i].text);
  out << fit_between(fmt::format("{} left out: ", number_of(count, "column")),
                     fmt::format("{}", fmt::join(names, ", ")), fmt::format("; {}", way_out), columns_max)
      << '\n';
}

}  // namespace combu
