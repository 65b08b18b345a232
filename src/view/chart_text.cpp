#include <fmt/format.h>
#include <langinfo.h>
#include <locale.h>  // NOLINT(modernize-deprecated-headers): locale_t is POSIX, not of <clocale>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "combu/analysis.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"
#include "progress/forms.hpp"
#include "view/axis.hpp"

namespace combu {
namespace {

// ECMA-48 codes of blue, yellow, green, red, cyan and magenta, which are readable on black and on white.
constexpr std::array<std::string_view, 6> k_terminal_colours{"\x1b[34m", "\x1b[33m", "\x1b[32m",
                                                             "\x1b[31m", "\x1b[36m", "\x1b[35m"};
constexpr std::string_view k_plain = "\x1b[0m";
constexpr std::string_view k_letters = "abcdefghijklmnopqrstuvwxyz";

// How points are drawn.
enum class Marks {
  dots,     // braille characters, with 2 by 4 dots each
  bullets,  // one bullet for each point
  letters,  // a letter for each series
};

Marks marks_for(const Chart& chart, const ChartSurface& surface) {
  const bool can_display =
      chart.series.size() == 1 || (surface.colours && chart.series.size() <= k_terminal_colours.size());
  if (!surface.utf8 || !can_display) return Marks::letters;
  return chart.joined ? Marks::dots : Marks::bullets;
}

// The plot area between the axes.
class CellField {
 public:
  CellField(std::size_t columns, std::size_t rows, Marks marks)
      : columns_(columns), rows_(rows), marks_(marks), cells_(columns * rows) {}

  // Coordinates are from 0 to 1 and begin in the lower left corner.
  void point(double x, double y, std::size_t series) { mark(dot_x(x), dot_y(y), series); }

  // Draws a line by Bresenham's algorithm.
  void line(double x1, double y1, double x2, double y2, std::size_t series) {
    long x = dot_x(x1);
    long y = dot_y(y1);
    const long end_x = dot_x(x2);
    const long end_y = dot_y(y2);
    const long wide = std::labs(end_x - x);
    const long high = -std::labs(end_y - y);
    const long step_x = x < end_x ? 1 : -1;
    const long step_y = y < end_y ? 1 : -1;
    for (long error = wide + high;;) {
      mark(x, y, series);
      if (x == end_x && y == end_y) return;
      const long twice = 2 * error;
      if (twice >= high) {
        error += high;
        x += step_x;
      }
      if (twice <= wide) {
        error += wide;
        y += step_y;
      }
    }
  }

  [[nodiscard]] std::string row(std::size_t row, bool colours) const {
    std::string text;
    for (std::size_t column = 0; column < columns_; ++column) {
      const Cell& cell = cells_[row * columns_ + column];
      if (cell.dots == 0) {
        text += ' ';
        continue;
      }
      if (colours) text += k_terminal_colours.at(cell.series % k_terminal_colours.size());
      text += text_of(cell);
      if (colours) text += k_plain;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

 private:
  struct Cell {
    std::uint8_t dots = 0;
    std::size_t series = 0;
  };

  [[nodiscard]] long wide() const { return static_cast<long>(columns_) * (marks_ == Marks::dots ? 2 : 1); }
  [[nodiscard]] long high() const { return static_cast<long>(rows_) * (marks_ == Marks::dots ? 4 : 1); }
  [[nodiscard]] long dot_x(double x) const {
    return std::clamp(std::lround(x * static_cast<double>(wide() - 1)), 0L, wide() - 1);
  }
  [[nodiscard]] long dot_y(double y) const {
    return std::clamp(std::lround((1 - y) * static_cast<double>(high() - 1)), 0L, high() - 1);
  }

  void mark(long x, long y, std::size_t series) {
    // The bits of the dots, from "Braille Patterns" in Unicode 15, section 24.1.
    constexpr std::array<std::array<std::uint8_t, 2>, 4> k_bits{
        {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    const bool dots = marks_ == Marks::dots;
    const auto column = static_cast<std::size_t>(dots ? x / 2 : x);
    const auto row = static_cast<std::size_t>(dots ? y / 4 : y);
    Cell& cell = cells_[row * columns_ + column];
    cell.dots |= dots ? k_bits.at(static_cast<std::size_t>(y % 4)).at(static_cast<std::size_t>(x % 2)) : 1;
    cell.series = series;
  }

  [[nodiscard]] std::string text_of(const Cell& cell) const {
    if (marks_ == Marks::letters) return {k_letters[cell.series % k_letters.size()]};
    if (marks_ == Marks::bullets) return "•";
    // The result is the UTF-8 encoding of U+2800 plus the bits of the dots.
    return {'\xE2', static_cast<char>(0xA0 + (cell.dots >> 6)), static_cast<char>(0x80 + (cell.dots & 0x3F))};
  }

  std::size_t columns_;
  std::size_t rows_;
  Marks marks_;
  std::vector<Cell> cells_;
};

CellField field_of(const Chart& chart, const Axis& x, const Axis& y, std::size_t columns, std::size_t rows,
                   Marks marks) {
  CellField field(columns, rows, marks);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const std::vector<Chart::Point>& points = chart.series[i].points;
    for (std::size_t at = 0; at < points.size(); ++at) {
      const double from_x = x.place(points[at].x);
      const double from_y = y.place(points[at].y);
      if (chart.joined && at + 1 < points.size() && !points[at + 1].apart) {
        field.line(from_x, from_y, x.place(points[at + 1].x), y.place(points[at + 1].y), i);
      } else {
        field.point(from_x, from_y, i);
      }
    }
  }
  return field;
}

// Returns a line with the labels below their ticks. Labels that have no room are left out.
std::string labels_below(const Axis& axis, std::size_t margin, std::size_t columns) {
  std::string line(margin, ' ');
  std::size_t used = 0;
  for (const AxisTick& tick : axis.ticks()) {
    const std::size_t width = columns_of(tick.label);
    const auto middle = static_cast<std::size_t>(std::lround(tick.place * static_cast<double>(columns - 1)));
    const std::size_t from = margin + middle - std::min(middle, width / 2);
    if (used > 0 && from < used + 2) continue;
    if (from + width > margin + columns + 1) continue;
    line.append(from - std::min(from, std::max(used, margin)), ' ');
    line += tick.label;
    used = from + width;
  }
  return line;
}

// Returns the labels in at most `rows_max` rows below their ticks. Each label is in the first row that has
// room for it. Returns nullopt if the rows cannot hold all labels.
std::optional<std::vector<std::string>> rows_of_words(const Axis& axis, std::size_t columns,
                                                      std::size_t rows_max) {
  constexpr std::size_t k_between = 2;
  struct LabelRow {
    std::string text;
    std::size_t used = 0;  // columns
  };
  std::vector<LabelRow> rows;
  for (const AxisTick& tick : axis.ticks()) {
    const std::string label = cut_line(tick.label, columns);
    const std::size_t width = columns_of(label);
    const auto middle = static_cast<std::size_t>(std::lround(tick.place * static_cast<double>(columns - 1)));
    const std::size_t from = std::min(middle - std::min(middle, width / 2), columns - width);
    auto row = std::ranges::find_if(rows, [&](const LabelRow& one) { return from >= one.used + k_between; });
    if (row == rows.end()) {
      if (rows.size() == rows_max) return std::nullopt;
      row = rows.emplace(rows.end());
    }
    row->text.append(from - row->used, ' ');
    row->text += label;
    row->used = from + width;
  }
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (LabelRow& row : rows) texts.push_back(std::move(row.text));
  return texts;
}

struct WordLabels {
  Axis axis;
  std::vector<std::string> rows;
  std::size_t stride = 1;
};

// Labels every word if all labels have room, or else every second word, every third, and so on. A single
// label always has room.
WordLabels label_words(const std::vector<std::string>& words, std::size_t columns, std::size_t rows_max) {
  for (std::size_t stride = 1;; ++stride) {
    Axis axis(words, stride);
    if (auto rows = rows_of_words(axis, columns, rows_max))
      return {.axis = std::move(axis), .rows = std::move(*rows), .stride = stride};
  }
}

}  // namespace

ChartSurface standard_surface() {
  ChartSurface surface;
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  if (is_terminal) {
    const ScreenSize size = screen_size(stdout);
    surface.columns = size.columns;
    surface.rows = size.rows;
  }
  // NOLINTBEGIN(concurrency-mt-unsafe): nothing here changes the environment
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  // NOLINTEND(concurrency-mt-unsafe)
  const bool knows_colours = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  surface.colours = is_terminal && knows_colours && (no_colour == nullptr || *no_colour == '\0');
  const locale_t locale = newlocale(LC_CTYPE_MASK, "", nullptr);
  surface.utf8 = locale != nullptr && std::string_view(nl_langinfo_l(CODESET, locale)) == "UTF-8";
  if (locale != nullptr) freelocale(locale);
  return surface;
}

std::string print_chart(std::ostream& out, const Chart& chart, const ChartSurface& surface) {
  constexpr std::size_t k_columns_min = 20;
  constexpr std::size_t k_rows_min = 6;
  constexpr std::size_t k_rows_max = 30;
  // Number of lines for title, axis, labels, axis title and the shell prompt.
  constexpr std::size_t k_around = 5;
  constexpr std::size_t k_word_rows_max = 3;
  const Marks marks = marks_for(chart, surface);
  const bool legend = chart.series.size() > 1;
  const bool has_words = !chart.x_words.empty();
  const std::size_t beside =
      k_around + (legend ? chart.series.size() : 0) + (has_words ? k_word_rows_max - 1 : 0);
  const std::size_t rows =
      std::clamp(surface.rows > beside ? surface.rows - beside : 0, k_rows_min, k_rows_max);
  const Axis y = y_axis(chart, std::max<std::size_t>(2, rows / 3));
  std::size_t margin = 0;
  for (const AxisTick& tick : y.ticks()) margin = std::max(margin, columns_of(tick.label));
  const std::size_t columns =
      std::max(surface.columns > margin + 4 ? surface.columns - margin - 4 : 0, k_columns_min);
  const WordLabels words =
      has_words ? label_words(chart.x_words, columns, k_word_rows_max)
                : WordLabels{.axis = x_axis(chart, std::max<std::size_t>(2, columns / 12)), .rows = {}};
  const Axis& x = words.axis;
  const CellField field = field_of(chart, x, y, columns, rows, marks);

  const std::string_view edge = surface.utf8 ? "│" : "|";
  const std::string_view notch = surface.utf8 ? "┤" : "+";
  std::vector<std::string> labels(rows);
  for (const AxisTick& tick : y.ticks())
    labels[static_cast<std::size_t>(std::lround((1 - tick.place) * static_cast<double>(rows - 1)))] =
        tick.label;
  out << std::string(margin + 2, ' ') << chart.y_title << '\n';
  for (std::size_t row = 0; row < rows; ++row)
    out << std::string(margin - columns_of(labels[row]), ' ') << labels[row] << ' '
        << (labels[row].empty() ? edge : notch) << field.row(row, surface.colours) << '\n';
  std::string floor;
  std::vector<bool> notches(columns);
  for (const AxisTick& tick : x.ticks())
    notches[static_cast<std::size_t>(std::lround(tick.place * static_cast<double>(columns - 1)))] = true;
  for (const bool is_notch : notches) floor += surface.utf8 ? (is_notch ? "┬" : "─") : (is_notch ? "+" : "-");
  out << std::string(margin + 1, ' ') << (surface.utf8 ? "└" : "+") << floor << '\n';
  if (!has_words) out << labels_below(x, margin + 2, columns) << '\n';
  for (const std::string& row : words.rows) out << std::string(margin + 2, ' ') << row << '\n';
  const std::size_t title_at = margin + 2 + (columns - std::min(columns, columns_of(chart.x_title))) / 2;
  out << std::string(title_at, ' ') << chart.x_title << '\n';
  for (std::size_t i = 0; legend && i < chart.series.size(); ++i) {
    const std::string sign = marks == Marks::letters ? std::string(1, k_letters[i % k_letters.size()])
                             : marks == Marks::dots  ? "⠤⠤"
                                                     : "•";
    out << fmt::format("  {}{}{} {}\n",
                       surface.colours ? k_terminal_colours.at(i % k_terminal_colours.size()) : "", sign,
                       surface.colours ? k_plain : "", chart.series[i].title);
  }
  return thinning_note(chart, words.stride);
}

}  // namespace combu
