// Tests of charts of results and curves, in a terminal and as SVG.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "combu/telemetry.hpp"
#include "combu/view.hpp"
#include "results_fixture.hpp"
#include "view/axis.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> all;
  for (const AxisTick& tick : axis.ticks()) all.push_back(tick.label);
  return all;
}

TEST(Axis, TicksAreRoundNumbers) {
  EXPECT_THAT(labels(Axis(0, 1, Scale::linear, 5)), ElementsAre("0", "0.5", "1.0"));
  EXPECT_THAT(labels(Axis(0, 1, Scale::linear, 6)), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels(Axis(-3, 97, Scale::linear, 6)), ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_THAT(labels(Axis(0.001, 10, Scale::logarithmic, 5)), ElementsAre("0.001", "0.01", "0.1", "1", "10"));
  EXPECT_THAT(labels(Axis(1, 30, Scale::logarithmic, 5)), ElementsAre("1", "2", "5", "10", "20"));
}

TEST(Axis, ASingleValueIsInTheMiddle) {
  for (const double value : {0.0, 5.0, -2.0})
    EXPECT_DOUBLE_EQ(Axis(value, value, Scale::linear, 5).place(value), 0.5);
  EXPECT_DOUBLE_EQ(Axis(5, 5, Scale::logarithmic, 5).place(5), 0.5);
}

Chart diagonal(std::size_t series = 1) {
  Chart chart{.x_title = "step", .y_title = "loss", .x_words = {}, .series = {}, .notes = {}};
  for (std::size_t i = 0; i < series; ++i)
    chart.series.push_back(
        {.title = "lr=" + std::to_string(i),
         .points = {{0, static_cast<double>(i), 0}, {10, 1.0 + static_cast<double>(i), 0}}});
  return chart;
}

std::string drawn(const Chart& chart, const ChartSurface& surface) {
  std::ostringstream out;
  print_chart(out, chart, surface);
  return out.str();
}

TEST(PrintChart, DrawsBrailleDotsOnATerminal) {
  EXPECT_EQ(drawn(diagonal(), {.columns = 30, .rows = 11, .utf8 = true, .colours = false}),
            "   loss\n"
            "1 ┤                     ⢀⡠⠔⠂\n"
            "  │                 ⣀⠤⠒⠊⠁\n"
            "  │            ⢀⡠⠔⠒⠉\n"
            "  │        ⣀⠤⠔⠊⠁\n"
            "  │   ⢀⡠⠤⠒⠉\n"
            "0 ┤⠠⠔⠊⠁\n"
            "  └─┬─────────────────────┬─\n"
            "    0                    10\n"
            "             step\n");
}

TEST(PrintChart, DrawsLettersWithoutUtf8AndColours) {
  const std::string text = drawn(diagonal(2), {.columns = 40, .rows = 16, .utf8 = false, .colours = false});
  EXPECT_THAT(text, HasSubstr("  a lr=0\n  b lr=1\n"));
  EXPECT_THAT(text, HasSubstr("bb"));
  for (const char letter : text) EXPECT_LT(static_cast<unsigned char>(letter), 0x80);
}

TEST(PrintChart, FitsItsSurface) {
  for (const std::size_t columns : {40U, 80U, 200U}) {
    std::istringstream lines(
        drawn(diagonal(3), {.columns = columns, .rows = 24, .utf8 = false, .colours = false}));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), columns) << line;
    EXPECT_LE(count, 24U);
  }
}

Chart of_words(std::size_t count, const std::string& word) {
  Chart chart{.x_title = "model", .y_title = "loss", .x_words = {}, .series = {}, .notes = {}};
  chart.joined = false;
  chart.series.push_back({.title = "all", .points = {}});
  for (std::size_t i = 0; i < count; ++i) {
    chart.x_words.push_back(fmt::format("{}-{:03}", word, i));
    chart.series[0].points.push_back({static_cast<double>(i), static_cast<double>(i % 5), 0});
  }
  return chart;
}

// Returns the indices of the words that `text` contains.
std::vector<std::size_t> words_in(const Chart& chart, const std::string& text) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < chart.x_words.size(); ++i)
    if (text.find(chart.x_words[i]) != std::string::npos) found.push_back(i);
  return found;
}

// If there is a note, every n-th word must be labelled as the note says. Otherwise all words must be
// labelled.
void expect_even_labels(const Chart& chart, const std::string& text, const std::string& note) {
  std::size_t stride = 1;
  if (!note.empty()) {
    ASSERT_THAT(note,
                testing::MatchesRegex("every [0-9]+(st|nd|rd|th) of " + std::to_string(chart.x_words.size()) +
                                      " values of `model` is labelled"));
    stride = std::stoul(note.substr(std::string("every ").size()));
    EXPECT_GT(stride, 1U);
  }
  std::vector<std::size_t> expected;
  for (std::size_t i = 0; i < chart.x_words.size(); i += stride) expected.push_back(i);
  EXPECT_EQ(words_in(chart, text), expected);
}

TEST(PrintChart, LabelsEveryWordInSeveralRows) {
  const Chart chart = of_words(12, "model");
  std::ostringstream out;
  EXPECT_EQ(print_chart(out, chart, {.columns = 80, .rows = 24, .utf8 = false, .colours = false}), "");
  expect_even_labels(chart, out.str(), "");
}

TEST(PrintChart, LabelsEveryNthWordIfNotAllHaveRoom) {
  for (const std::size_t count : {1U, 2U, 40U, 113U, 500U})
    for (const std::size_t columns : {10U, 40U, 80U, 200U}) {
      const Chart chart = of_words(count, "model");
      std::ostringstream out;
      const std::string note =
          print_chart(out, chart, {.columns = columns, .rows = 24, .utf8 = false, .colours = false});
      expect_even_labels(chart, out.str(), note);
      if (columns < 40) continue;  // narrower than the minimum width of a chart
      std::istringstream lines(out.str());
      std::size_t height = 0;
      for (std::string line; std::getline(lines, line); ++height) EXPECT_LE(line.size(), columns) << line;
      EXPECT_LE(height, 24U);
    }
}

TEST(PrintChart, SaysHowManyWordsAreLabelled) {
  const Chart chart = of_words(40, "model");
  std::ostringstream out;
  EXPECT_EQ(print_chart(out, chart, {.columns = 80, .rows = 24, .utf8 = false, .colours = false}),
            "every 3rd of 40 values of `model` is labelled");
  EXPECT_EQ(thinning_note(chart, 1), "");
  EXPECT_EQ(thinning_note(chart, 2), "every 2nd of 40 values of `model` is labelled");
  EXPECT_EQ(thinning_note(chart, 11), "every 11th of 40 values of `model` is labelled");
  EXPECT_EQ(thinning_note(chart, 21), "every 21st of 40 values of `model` is labelled");
  EXPECT_EQ(thinning_note(chart, 113), "every 113th of 40 values of `model` is labelled");
}

TEST(PrintChart, CutsAWordThatIsWiderThanTheChart) {
  const Chart chart = of_words(3, std::string(200, 'x'));
  std::istringstream lines(drawn(chart, {.columns = 40, .rows = 24, .utf8 = true, .colours = false}));
  std::size_t cut = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(columns_of(line), 40U) << line;
    if (line.find("xxx") != std::string::npos && line.ends_with("…")) ++cut;
  }
  EXPECT_EQ(cut, 3U) << "one in each row";
}

std::size_t turned_in(const std::string& svg) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = svg.find("rotate(-90", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(PrintChartSvg, RotatesWordsThatHaveNoRoomSideBySide) {
  for (const auto& [count, are_turned] : {std::pair(3, false), std::pair(20, true), std::pair(34, true)}) {
    const Chart chart = of_words(static_cast<std::size_t>(count), "model");
    std::ostringstream out;
    EXPECT_EQ(print_chart_svg(out, chart), "");
    expect_even_labels(chart, out.str(), "");
    EXPECT_EQ(turned_in(out.str()), 1U + (are_turned ? chart.x_words.size() : 0U)) << "the title of y, too";
  }
}

TEST(PrintChartSvg, LabelsEveryNthWordIfNotAllHaveRoom) {
  const Chart chart = of_words(100, "model");
  std::ostringstream out;
  const std::string note = print_chart_svg(out, chart);
  EXPECT_EQ(note, "every 3rd of 100 values of `model` is labelled");
  expect_even_labels(chart, out.str(), note);
}

TEST(PrintChartSvg, EscapesNamesAndDrawsACurveForEachSeries) {
  Chart chart = diagonal(2);
  chart.series[0].title = "a<b & \"c\"";
  std::ostringstream out;
  print_chart_svg(out, chart);
  EXPECT_THAT(out.str(), StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(out.str(), HasSubstr("a&lt;b &amp; &quot;c&quot;"));
  EXPECT_THAT(out.str(), Not(HasSubstr("nan")));
  std::size_t curves = 0;
  for (std::size_t at = 0; (at = out.str().find("<polyline", at)) != std::string::npos; ++at) ++curves;
  EXPECT_EQ(curves, 2U);
}

TEST(PrintChartSvg, ReplacesCharactersThatXmlDoesNotAllow) {
  Chart chart = diagonal(2);
  chart.series[0].title =
      "\x01|\x1f|\xff|\xed\xa0\x80|"
      "\xef\xbf\xbe|\xef\xbf\xbf|\t|\xee\x80\x80|\xf0\x9f\x9a\x80|";
  std::ostringstream out;
  print_chart_svg(out, chart);
  EXPECT_THAT(out.str(), HasSubstr(">�|�|�|���|�|�|\t|\xee\x80\x80|🚀|<"));
}

TEST(PrintChart, LeavesAGap) {
  Chart chart = diagonal();
  chart.series[0].points = {{0, 1, 0}, {1, 2, 0}, {6, 9, 0, true}, {7, 8, 0}, {9, 5, 0, true}};
  const ChartSurface surface{.columns = 30, .rows = 11, .utf8 = false, .colours = false};
  std::istringstream lines(drawn(chart, surface));
  std::string marked(surface.columns, '.');  // 'a' for columns with a mark
  for (std::string line; std::getline(lines, line);)
    for (std::size_t i = 0; i < line.size(); ++i)
      if (line[i] == 'a') marked[i] = 'a';
  EXPECT_THAT(marked, testing::MatchesRegex("[.]*a+[.]+a+[.]+a[.]*"));
}

TEST(PrintChartSvg, LeavesAGapInACurveAndItsInterval) {
  Chart chart = diagonal();
  chart.series[0].points = {{0, 1, 1}, {1, 2, 1}, {6, 9, 1, true}, {7, 8, 1}, {9, 5, 0, true}};
  std::ostringstream out;
  print_chart_svg(out, chart);
  const auto count = [text = out.str()](const std::string& wanted) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find(wanted, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("<polyline"), 2U);
  EXPECT_EQ(count("<polygon"), 2U);
  EXPECT_EQ(count("<circle"), 1U);
}

class Curves : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Stores the points of one metric, (step, value), for a trial.
  void add_points(const std::string& trial, std::vector<std::pair<double, double>> points) {
    LogBatch::Metric metric{.name = "loss", .points = {}};
    for (const auto& [step, value] : points)
      metric.points.push_back({.step = step, .at = {}, .value = value});
    (void)telemetry_->append(trial, 1, std::nullopt, {.pieces = {}, .metrics = {&metric, 1}}, Bytes(1));
    add(results_, trial, {points.back().second}, {points.back().second});
  }

  Chart chart(const std::string& by = {}) {
    results_.telemetry = telemetry_;
    return make_chart(results_, {.metric = "loss", .by = by, .x = ""});
  }

  std::string folder_ = testing::TempDir() + "combu-curves-" + std::to_string(getpid());
  std::shared_ptr<Telemetry> telemetry_ = std::make_shared<Telemetry>(folder_, RunId("mine"));
  Results results_ = run_of("mine", {"lr"});
};

TEST_F(Curves, UseTheLastValueOfATrialForAStep) {
  add_points("a", {{1, 8}, {2, 6}, {1, 4}, {2, 3}, {2, 2}});
  const Chart chart = this->chart();
  ASSERT_EQ(chart.series.size(), 1U);
  const std::vector<Chart::Point>& points = chart.series[0].points;
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].y, 4);
  EXPECT_EQ(points[1].y, 2);
  for (const Chart::Point& point : points) EXPECT_EQ(point.spread, 0);
}

TEST_F(Curves, HaveIntervalsOverTrials) {
  for (const char* name : {"a", "b"}) add_points(name, {{1, 100}, {1, name[0] == 'a' ? 2.0 : 4.0}, {2, 1}});
  for (ResultRow& row : results_.rows) row.params[0] = 0.5;
  const Chart chart = this->chart("lr");
  ASSERT_EQ(chart.series.size(), 1U);
  EXPECT_EQ(chart.series[0].points[0].y, 3);
  EXPECT_NEAR(chart.series[0].points[0].spread, 12.706,
              0.001);  // Student's t of one degree; deviation / √2 is 1
  EXPECT_EQ(chart.series[0].points[1].spread, 0);
}

TEST_F(Curves, HaveAGapAtStepsWithoutAFiniteValue) {
  add_points("a", {{1, 1}, {2, 2}, {3, k_no_number}, {4, k_infinite}, {5, 9}, {6, 8}});
  const Chart chart = this->chart();
  std::vector<double> apart;
  for (const Chart::Point& point : chart.series.at(0).points)
    if (point.apart) apart.push_back(point.x);
  EXPECT_THAT(apart, ElementsAre(5));
  EXPECT_EQ(chart.series[0].points.size(), 4U);
  EXPECT_THAT(chart.notes, ElementsAre("left out: 2 values that are not numbers"));
}

TEST_F(Curves, HaveNoGapAtStepsWhereOneTrialHasAFiniteValue) {
  add_points("a", {{1, 1}, {2, k_no_number}, {3, 1}});
  add_points("b", {{1, 3}, {2, 3}, {3, 1}});
  const Chart chart = this->chart("lr");
  ASSERT_EQ(chart.series.size(), 1U);
  ASSERT_EQ(chart.series[0].points.size(), 3U);
  for (const Chart::Point& point : chart.series[0].points) EXPECT_FALSE(point.apart);
}

TEST(MakeChart, SortsInfinityAndNanAfterNumbers) {
  Results results = run_of("mine", {"lr"}, {"loss", "score"});
  const std::vector<double> scores{2, k_no_number, 1, 3, k_no_number, 2, k_infinite, 1, k_no_number, 3};
  for (std::size_t i = 0; i < scores.size(); ++i)
    add(results, std::string(1, static_cast<char>('a' + i)), {0.1}, {1.0, scores[i]});
  const Chart chart = make_chart(results, {.metric = "loss", .by = "score", .x = "lr"});
  std::vector<std::string> titles;
  std::size_t points = 0;
  for (const Chart::Series& series : chart.series) {
    titles.push_back(series.title);
    points += series.points.size();
  }
  EXPECT_THAT(titles, ElementsAre("score=1", "score=2", "score=3", "score=inf", "score=nan"));
  EXPECT_EQ(points, scores.size());
}

TEST(MakeChart, DrawsLastValuesOverAParam) {
  const Chart chart =
      make_chart(grid(), {.metric = "loss", .by = "", .x = "lr", .x_scale = Scale::logarithmic});
  ASSERT_EQ(chart.series.size(), 1U);
  EXPECT_EQ(chart.series[0].points.size(), 2U);
  EXPECT_FALSE(chart.joined);
  const Chart words = make_chart(grid(), {.metric = "loss", .by = "model", .x = "model"});
  EXPECT_THAT(words.x_words, ElementsAre("resnet", "vit"));
  EXPECT_EQ(words.series.size(), 2U);
}

TEST(MakeChart, CutsLongNames) {
  Results results = run_of("mine", {"note"});
  add(results, "a", {std::string(200, 'x')}, {1.0});
  add(results, "b", {"y"}, {2.0});
  const Chart chart = make_chart(results, {.metric = "loss", .by = "note", .x = "note"});
  EXPECT_EQ(chart.series.at(0).title, "note=" + std::string(54, 'x') + "…");
  EXPECT_THAT(chart.x_words, ElementsAre(std::string(59, 'x') + "…", "y"));
}

TEST(MakeChart, NamesValuesThatItLeavesOut) {
  Results results = run_of("mine", {"lr"});
  add(results, "a", {0.1}, {1.0});
  add(results, "b", {0.2}, {k_no_number});
  add(results, "c", {0.3}, {-1.0});
  const Chart chart =
      make_chart(results, {.metric = "loss", .by = "", .x = "lr", .y_scale = Scale::logarithmic});
  EXPECT_THAT(chart.notes, ElementsAre("left out: 1 value that is not a number",
                                       "left out: 1 value not above 0, because the scale is logarithmic"));
  results.rows.erase(results.rows.begin());
  EXPECT_THROW(
      (void)make_chart(results, {.metric = "loss", .by = "", .x = "lr", .y_scale = Scale::logarithmic}),
      Error);
}

}  // namespace
}  // namespace combu
