#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <ranges>
#include <span>
#include <string_view>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/view.hpp"
#include "view/axis.hpp"

namespace combu {
namespace {

// Colours that colour-blind readers can distinguish, from "Color Universal Design" by Okabe and Ito (2008).
constexpr std::array<std::string_view, 7> k_svg_colours{"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                        "#E69F00", "#56B4E9", "#000000"};
// If there are more series than colours, dashes distinguish them.
constexpr std::array<std::string_view, 4> k_dashes{"", "7 3", "2 2", "9 3 2 3"};

// Sizes in pixels, the units of the SVG.
constexpr double k_width = 480;  // width of the plot area; k_height is its height
constexpr double k_height = 320;
constexpr double k_font = 12;
constexpr double k_letter = 6.8;  // approximate width of a letter
constexpr double k_top = 14;
constexpr double k_tick_length = 5;
constexpr double k_line = 18;  // height of a line of the legend
constexpr std::size_t k_ticks_max = 7;
// Maximum number of word labels that have room side by side when they are rotated by 90°.
constexpr auto k_words_max = static_cast<std::size_t>(k_width / (k_font + 2));

// Returns false for a character that XML 1.0 (section 2.2) cannot represent.
bool is_in_xml(char32_t code) {
  return code == '\t' || code == '\n' || code == '\r' || (code >= 0x20 && code != 0xFFFE && code != 0xFFFF);
}

std::string escaped(std::string_view text) {
  constexpr std::string_view k_replacement = "\uFFFD";
  std::string xml;
  while (!text.empty()) {
    const auto character = first_character(text);
    const std::string_view letter = text.substr(0, character ? character->bytes : 1);
    text.remove_prefix(letter.size());
    if (!character || !is_in_xml(character->code)) {
      xml += k_replacement;
    } else if (letter == "&") {
      xml += "&amp;";
    } else if (letter == "<") {
      xml += "&lt;";
    } else if (letter == ">") {
      xml += "&gt;";
    } else if (letter == "\"") {
      xml += "&quot;";
    } else {
      xml += letter;
    }
  }
  return xml;
}

std::string stroke_of(std::size_t series) {
  const std::string_view dash = k_dashes.at(series / k_svg_colours.size() % k_dashes.size());
  return fmt::format(R"(stroke="{}"{})", k_svg_colours.at(series % k_svg_colours.size()),
                     dash.empty() ? "" : fmt::format(R"( stroke-dasharray="{}")", dash));
}

double widest(const std::vector<AxisTick>& ticks) {
  std::size_t columns = 0;
  for (const AxisTick& tick : ticks) columns = std::max(columns, columns_of(tick.label));
  return static_cast<double>(columns) * k_letter;
}

std::size_t stride_of(const std::vector<std::string>& words) {
  return (words.size() + k_words_max - 1) / k_words_max;
}

class Drawing {
 public:
  Drawing(const Chart& chart, std::ostream& out)
      : chart_(chart),
        out_(out),
        x_(chart.x_words.empty() ? x_axis(chart, k_ticks_max)
                                 : Axis(chart.x_words, stride_of(chart.x_words))),
        y_(y_axis(chart, k_ticks_max)),
        left_(widest(y_.ticks()) + k_tick_length + 2 * k_font + 12),
        is_turned_(!chart.x_words.empty() &&
                   widest(x_.ticks()) + k_letter >= k_width / static_cast<double>(chart.x_words.size())),
        labels_height_(is_turned_ ? widest(x_.ticks()) : k_font) {}

  void draw() {
    const bool legend = chart_.series.size() > 1;
    std::size_t longest = 0;
    for (const Chart::Series& series : chart_.series) longest = std::max(longest, columns_of(series.title));
    const double beside = legend ? static_cast<double>(longest) * k_letter + 54 : 16;
    const double legend_height = legend ? static_cast<double>(chart_.series.size()) * k_line + k_top : 0;
    const double height = std::max(k_top + k_height + labels_height_ + 2 * k_font + 14, legend_height);
    out_ << fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="{2:.0f}">)"
        "\n",
        left_ + k_width + beside, height, k_font);
    out_ << R"(<rect width="100%" height="100%" fill="white"/>)" << '\n';
    draw_axes();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_spread(i);
    for (std::size_t i = 0; i < chart_.series.size(); ++i) draw_series(i);
    for (std::size_t i = 0; legend && i < chart_.series.size(); ++i) draw_legend(i);
    out_ << "</svg>\n";
  }

 private:
  [[nodiscard]] double x_at(double place) const { return left_ + place * k_width; }
  [[nodiscard]] static double y_at(double place) { return k_top + (1 - place) * k_height; }
  [[nodiscard]] std::string at(double x, double y) const {
    return fmt::format("{:.2f},{:.2f}", x_at(x_.place(x)), y_at(std::clamp(y_.place(y), 0.0, 1.0)));
  }

  void text(double x, double y, std::string_view anchor, std::string_view words, std::string_view more = {}) {
    out_ << fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}"{}>{}</text>)", x, y, anchor, more,
                        escaped(words))
         << '\n';
  }
  // Writes text that is rotated by 90° and reads upwards.
  void turned_text(double x, double y, std::string_view anchor, std::string_view words) {
    text(x, y, anchor, words, fmt::format(R"svg( transform="rotate(-90 {:.1f} {:.1f})")svg", x, y));
  }
  void line(double x1, double y1, double x2, double y2, std::string_view colour) {
    out_ << fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}"/>)", x1, y1, x2,
                        y2, colour)
         << '\n';
  }

  void draw_axes() {
    constexpr std::string_view k_grid = "#E5E5E5";
    const double bottom = k_top + k_height;
    double label_end = 0;
    for (const AxisTick& tick : x_.ticks()) {
      const double x = x_at(tick.place);
      line(x, k_top, x, bottom, k_grid);
      line(x, bottom, x, bottom + k_tick_length, "black");
      if (is_turned_) {
        turned_text(x + k_font / 3, bottom + k_tick_length + 4, "end", tick.label);
        continue;
      }
      const double half = static_cast<double>(columns_of(tick.label)) * k_letter / 2;
      if (label_end > 0 && x - half < label_end + k_letter) continue;
      label_end = x + half;
      text(x, bottom + k_tick_length + k_font + 2, "middle", tick.label);
    }
    for (const AxisTick& tick : y_.ticks()) {
      const double y = y_at(tick.place);
      line(left_, y, left_ + k_width, y, k_grid);
      line(left_ - k_tick_length, y, left_, y, "black");
      text(left_ - k_tick_length - 4, y + k_font / 3, "end", tick.label);
    }
    out_ << fmt::format(
                R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="none" stroke="black"/>)",
                left_, k_top, k_width, k_height)
         << '\n';
    text(left_ + k_width / 2, bottom + k_tick_length + labels_height_ + k_font + 12, "middle",
         chart_.x_title);
    turned_text(k_font + 4, k_top + k_height / 2, "middle", chart_.y_title);
  }

  // Points of a series between two gaps.
  using Stretch = std::span<const Chart::Point>;
  [[nodiscard]] std::vector<Stretch> stretches_of(std::size_t number) const {
    const std::vector<Chart::Point>& points = chart_.series[number].points;
    std::vector<Stretch> stretches;
    for (auto from = points.begin(); from != points.end();) {
      const auto until =
          std::find_if(from + 1, points.end(), [](const Chart::Point& point) { return point.apart; });
      stretches.emplace_back(from, until);
      from = until;
    }
    return stretches;
  }

  // Draws the 95 % intervals of means, below all curves.
  void draw_spread(std::size_t number) {
    if (!chart_.joined) return;
    for (const Stretch points : stretches_of(number)) draw_spread(points, number);
  }
  void draw_spread(Stretch points, std::size_t number) {
    const auto has_spread = [](const Chart::Point& point) { return point.spread > 0; };
    if (std::ranges::none_of(points, has_spread)) return;
    const auto low = [&](const Chart::Point& point) {
      const double value = point.y - point.spread;
      // A logarithmic scale has no position for 0 and negative values, so the polygon ends at the bottom of
      // the plot.
      return chart_.y_scale == Scale::logarithmic && value <= 0
                 ? fmt::format("{:.2f},{:.2f}", x_at(x_.place(point.x)), y_at(0))
                 : at(point.x, value);
    };
    std::string path;
    for (const Chart::Point& point : points) path += at(point.x, point.y + point.spread) + " ";
    std::ranges::for_each(std::views::reverse(points),
                          [&](const Chart::Point& point) { path += low(point) + " "; });
    path.pop_back();
    out_ << fmt::format(R"(<polygon points="{}" fill="{}" fill-opacity="0.15"/>)", path,
                        k_svg_colours.at(number % k_svg_colours.size()))
         << '\n';
  }

  void draw_series(std::size_t number) {
    for (const Stretch points : stretches_of(number)) draw_stretch(points, number);
  }
  void draw_stretch(Stretch points, std::size_t number) {
    if (chart_.joined && points.size() > 1) {
      std::string path;
      for (const Chart::Point& point : points) path += (path.empty() ? "" : " ") + at(point.x, point.y);
      out_ << fmt::format(
                  R"(<polyline points="{}" fill="none" {} stroke-width="1.5" stroke-linejoin="round"/>)",
                  path, stroke_of(number))
           << '\n';
      return;
    }
    for (const Chart::Point& point : points) dot(x_at(x_.place(point.x)), y_at(y_.place(point.y)), number);
  }

  void dot(double x, double y, std::size_t number) {
    const bool is_hollow = number >= k_svg_colours.size();
    const std::string_view colour = k_svg_colours.at(number % k_svg_colours.size());
    out_ << fmt::format(R"(<circle cx="{:.2f}" cy="{:.2f}" r="3" fill="{}" fill-opacity="0.7" stroke="{}"/>)",
                        x, y, is_hollow ? "none" : colour, colour)
         << '\n';
  }

  void draw_legend(std::size_t number) {
    const double x = left_ + k_width + 10;
    const double y = k_top + k_font / 2 + static_cast<double>(number) * k_line;
    if (chart_.joined) {
      out_ << fmt::format(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" {} stroke-width="1.5"/>)",
                          x, y, x + 20, y, stroke_of(number))
           << '\n';
    } else {
      dot(x + 10, y, number);
    }
    text(x + 26, y + k_font / 3, "start", chart_.series[number].title);
  }

  const Chart& chart_;
  std::ostream& out_;
  Axis x_;
  Axis y_;
  double left_;
  bool is_turned_;  // true if the x labels are words that have no room side by side
  double labels_height_;
};

}  // namespace

std::string print_chart_svg(std::ostream& out, const Chart& chart) {
  Drawing(chart, out).draw();
  return thinning_note(chart, stride_of(chart.x_words));
}

}  // namespace combu
