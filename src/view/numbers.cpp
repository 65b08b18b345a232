#include "view/numbers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "view/json_string.hpp"
#include "view/line.hpp"
#include "view/table.hpp"

namespace combu {
namespace {

constexpr std::string_view k_missing = "–";

template <class NumberText>
std::string text_of(const Value& value, const NumberText& number_text) {
  return std::visit(
      [&](const auto& one) -> std::string {
        using One = std::decay_t<decltype(one)>;
        if constexpr (std::is_same_v<One, double>) return number_text(one);
        if constexpr (std::is_same_v<One, std::string>) return one;
        return {};
      },
      value);
}

}  // namespace

std::string short_number(double number) {
  constexpr double k_whole_from = 1e4;
  constexpr double k_whole_until = 1e15;  // beyond it not every whole number is one of these
  if (std::isnan(number)) return "nan";
  const double size = std::fabs(number);
  const bool is_whole = number == std::trunc(number);
  // -0 is 0 to a person.
  if (size < k_whole_until && (is_whole || size >= k_whole_from)) return fmt::format("{:.0f}", number + 0.0);
  return fmt::format("{:.4g}", number);
}

std::string whole_number(double number) {
  return std::isnan(number) ? "nan" : fmt::format("{}", number);
}

std::string json_number(double number) {
  return std::isfinite(number) ? fmt::format("{}", number) : "null";
}

std::string short_text(const Value& value) {
  return text_of(value, short_number);
}

std::string whole_text(const Value& value) {
  return text_of(value, whole_number);
}

std::string json_value(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return json_number(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return json_string(*text);
  return "null";
}

NumberTable::NumberTable(const std::vector<std::string>& heads)
    : columns_(heads.size()), widths_(heads.size()) {
  for (const std::string& head : heads) add_text(head);
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
    add_text(cut_line(clean_line(short_text(value)), k_columns_max));
  }
}

void NumberTable::add(Cell cell) {
  Widths& widths = widths_[cells_.size() % columns_];
  if (cell.is_number) {
    widths.left = std::max(widths.left, cell.left);
    widths.right = std::max(widths.right, cell.right);
  } else {
    widths.text = std::max(widths.text, cell.left);
  }
  cells_.push_back(std::move(cell));
}

void NumberTable::print(std::ostream& out, std::size_t columns_max) const {
  std::vector<std::size_t> widths;
  std::vector<std::size_t> floors;
  widths.reserve(columns_);
  floors.reserve(columns_);
  for (const Widths& column : widths_) {
    const std::size_t numbers = column.left + column.right;
    widths.push_back(std::max(numbers, column.text));
    floors.push_back(std::max(numbers, k_column_least));
  }
  fit_widths(widths, floors, columns_max);
  for (std::size_t row = 0; row < cells_.size() / columns_; ++row) {
    const std::string line = line_of(row, widths);
    out << (columns_max == 0 ? line : cut_line(line, columns_max)) << '\n';
  }
}

std::string NumberTable::line_of(std::size_t row, const std::vector<std::size_t>& widths) const {
  std::string line;
  for (std::size_t i = 0; i < columns_; ++i) {
    const Cell& whole = cells_[row * columns_ + i];
    Cell cut;
    if (!whole.is_number && whole.left > widths[i]) {
      cut.text = cut_line(whole.text, widths[i]);
      cut.left = columns_of(cut.text);
    }
    const Cell& cell = cut.text.empty() ? whole : cut;
    const Widths& column = widths_[i];
    const bool is_numeric = column.left > 0;
    // Numbers stand at the right, each with its point below the others'; so does what is among them.
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

}  // namespace combu
