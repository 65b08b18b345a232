// Tests of the table of results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "combu/text.hpp"
#include "combu/view.hpp"
#include "results_fixture.hpp"
#include "view/numbers.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string table(const Results& results, const ResultsForm& form = {}) {
  std::ostringstream out;
  print_results(out, results, form);
  return out.str();
}

TEST(ShortNumber, HasFourDigits) {
  EXPECT_EQ(short_number(0.123456), "0.1235");
  EXPECT_EQ(short_number(3), "3");
  EXPECT_EQ(short_number(-0.0), "0");
  EXPECT_EQ(short_number(123456), "123456");
  EXPECT_EQ(short_number(12345.67), "12346");
  EXPECT_EQ(short_number(1.23456e-7), "1.235e-07");
  EXPECT_EQ(short_number(1e20), "1e+20");
  EXPECT_EQ(short_number(k_no_number), "nan");
  EXPECT_EQ(short_number(-k_infinite), "-inf");
}

TEST(Results, AlignDecimalPoints) {
  EXPECT_EQ(table(grid()),
            "run mine of lab: 2 succeeded, 1 failed\n"
            "in all rows: epochs=10\n"
            "TRIAL     lr  model   STATE      TIME   loss\n"
            "a      0.1    resnet  succeeded  –      0.25\n"
            "b      0.01   vit     succeeded  –     12.5\n"
            "c      1e-05  –       failed     –         –\n");
}

TEST(Results, SortByAColumnWithMissingValuesLast) {
  const auto trials = [](const ResultsForm& form) {
    std::istringstream lines(table(grid(), form));
    std::string names;
    for (std::string line; std::getline(lines, line);)
      if (line.size() == 1) names += line;
    return names;
  };
  EXPECT_EQ(trials({.columns = {"trial"}, .sort = "loss", .reverse = false}), "abc");
  EXPECT_EQ(trials({.columns = {"trial"}, .sort = "loss", .reverse = true}), "bac");
  EXPECT_EQ(trials({.columns = {"trial"}, .sort = "lr", .reverse = false}), "cba");
  EXPECT_EQ(trials({.columns = {"trial"}, .sort = "model", .reverse = true}), "bac");
}

TEST(Results, ShowTheRequestedColumns) {
  EXPECT_THAT(table(grid(), {.columns = {"loss.least", "trial", "loss.points"}}),
              HasSubstr("loss.least  TRIAL  loss.points\n     0.025  a                3\n"));
}

TEST(Results, ShortenTextsButNotNumbersToFitTheTerminal) {
  Results results = run_of("mine", {"note"}, {"validation_accuracy"});
  add(results, "first-of-the-trials-with-a-long-name", {std::string(50, 'x')}, {0.25});
  add(results, "b", {"y"}, {12345678.0});
  const ResultsForm form{.columns = {}, .sort = {}, .reverse = false, .table = {.columns = 60}};
  EXPECT_EQ(table(results, form),
            "run mine of lab: 2 succeeded\n"
            "TRIAL          note           STATE      TIME  valida…curacy\n"
            "first-…g-name  xxxxxx…xxxxxx  succeeded  –              0.25\n"
            "b              y              succeeded  –       12345678\n");
}

Results wide_grid() {
  Results results = run_of("mine",
                           {"a-quite-long-param-1", "a-quite-long-param-2", "a-quite-long-param-3",
                            "a-quite-long-param-4", "model", "optimizer"},
                           {"acc", "loss"});
  results.run.engine.is_simulated = true;
  add(results, "a-quite-long-trial-17", {0.5, 1.5, 2.5, 3.5, "resnet", "adam"}, {0.123456, 12.5});
  add(results, "a-quite-long-trial-18", {0.25, 1.25, 2.25, 3.25, "vit", "sgd"}, {0.654321, 0.25});
  return results;
}

TEST(Results, LeaveOutWholeColumnsInsteadOfCuttingNumbers) {
  const auto lines = lines_within(80, table(wide_grid(), {.table = {.columns = 80}}));
  EXPECT_THAT(
      lines, ElementsAre("run mine (simulated) of lab: 2 succeeded",
                         "TRIAL     a-qu…m-1  a-qu…m-2  a-qu…m-3  a-qu…m-4  STATE      TIME     acc   loss",
                         testing::MatchesRegex("a-qu…-17 +0.5 +1.5 +2.5 +3.5 +succeeded  –     0.1235  12.5"),
                         testing::MatchesRegex("a-qu…-18 .* +succeeded  –     0.6543   0.25"),
                         "2 columns left out: model, optimizer; use --columns; piped output has all"));
}

TEST(Results, KeepTrialStateAndSimulatedMarkOnANarrowTerminal) {
  const auto lines = lines_within(30, table(wide_grid(), {.table = {.columns = 30}}));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_THAT(lines[0], StartsWith("run mine (simulated) of lab"));
  EXPECT_THAT(lines[1], testing::MatchesRegex("TRIAL +STATE +acc"));
  EXPECT_THAT(lines[2], testing::MatchesRegex("a-qui…al-17 +succeeded +0.1235"));
  EXPECT_THAT(lines[4], StartsWith("8 columns left out: "));
}

TEST(Results, LeaveOutParamsBeforeMetricsInAnyOrderOfColumns) {
  const std::vector<std::string> columns{"loss", "acc", "optimizer", "model", "trial"};
  const auto lines = lines_within(34, table(wide_grid(), {.columns = columns, .table = {.columns = 34}}));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_THAT(lines[1], testing::MatchesRegex(" *loss +acc +opti…zer +TRIAL"));
  EXPECT_THAT(lines[4], StartsWith("1 column left out: model; "));
}

TEST(Results, CutTheLineOfSharedParamsBetweenTwoParams) {
  Results results = run_of("mine", {"epochs", "lr", "note"});
  for (const char* name : {"a", "b"}) add(results, name, {10.0, 0.125, std::string(60, 'x')}, {0.5});
  EXPECT_THAT(table(results, {.table = {.columns = 40}}), HasSubstr("\nin all rows: epochs=10 lr=0.125 …\n"));
  EXPECT_THAT(table(results, {.table = {.columns = 30}}), HasSubstr("\nin all rows: epochs=10 …\n"));
}

TEST(Results, CountTheRowsThatAreLeftOut) {
  const ResultsForm form{.columns = {"trial"}, .sort = "loss", .reverse = true, .table = {.rows = 2}};
  EXPECT_THAT(table(grid(), form), testing::EndsWith("TRIAL\nb\na\n… and 1 more; --limit 0 shows all\n"));
  std::ostringstream json;
  print_results_json(json, grid(), form);
  EXPECT_EQ(json.str(), "{\"trial\":\"b\"}\n{\"trial\":\"a\"}\n");
}

TEST(Results, SuggestASimilarNameForAnUnknownColumn) {
  try {
    (void)table(grid(), {.columns = {"los"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_STREQ(error.what(), "--columns: run mine has no param and no metric `los`; did you mean `loss`?");
  }
}

TEST(Results, DistinguishParamMetricAndFieldOfTheSameName) {
  Results results = run_of("mine", {"loss", "state"});
  add(results, "a", {"mse", "hot"}, {0.5});
  add(results, "b", {"mae", "cold"}, {0.25});
  EXPECT_THAT(table(results), HasSubstr("TRIAL  loss  params.state  STATE      TIME  metrics.loss\n"
                                        "a      mse   hot           succeeded  –             0.5\n"));
  EXPECT_THAT(table(results, {.columns = {"state", "params.state", "loss", "metrics.loss"}}),
              HasSubstr("succeeded  cold          mae           0.25\n"));
}

TEST(Results, GiveEachParamADistinctName) {
  Results results = run_of("mine", {"params.state", "state"});
  add(results, "a", {"one", "hot"}, {0.5});
  add(results, "b", {"two", "cold"}, {0.25});
  EXPECT_THAT(table(results), HasSubstr("TRIAL  params.params.state  params.state"));
  EXPECT_THAT(table(results, {.columns = {"params.params.state", "params.state"}}),
              HasSubstr("two                  cold\n"));
}

TEST(Results, DistinguishAMetricNamedLikeAPartFromThatPart) {
  Results results = run_of("mine", {"lr"}, {"loss", "loss.least"});
  add(results, "a", {0.1}, {0.5, 7.0});
  EXPECT_THAT(table(results, {.columns = {"loss.least"}}), HasSubstr("loss.least\n         7\n"));
  std::ostringstream json;
  print_results_json(json, results, {});
  EXPECT_EQ(nlohmann::json::parse(json.str())["metrics"]["loss"]["least"], 0.05);
}

TEST(Results, RefuseAColumnThatIsNamedTwice) {
  EXPECT_THROW((void)table(grid(), {.columns = {"time", "seconds"}}), Error);
}

TEST(NearestColumn, SuggestsAColumnForAnUnknownName) {
  EXPECT_EQ(nearest_column(grid(), "los"), "loss");
  EXPECT_EQ(nearest_column(grid(), "stat"), "state");
  EXPECT_EQ(nearest_column(grid(), "loss"), std::nullopt);
  EXPECT_EQ(nearest_column(grid(), "zzzzzz"), std::nullopt);
}

TEST(Results, CutALongTextButNoTrialName) {
  Results results = run_of("mine", {"note"});
  const std::string name(80, 'n');
  add(results, name, {std::string(80, 'x')}, {0.5});
  add(results, "b", {"y"}, {0.25});
  EXPECT_THAT(table(results),
              HasSubstr(name + "  " + std::string(30, 'x') + "…" + std::string(29, 'x') + "  succeeded"));
}

TEST(Compare, ShowsNoEscapeSequenceOfAName) {
  Results results = run_of("one", {}, {"a\x1b[31mred"});
  add(results, "a", {}, {1.0});
  std::ostringstream out;
  print_comparison(out, std::vector{results}, {.metrics = {}, .over = {}});
  EXPECT_THAT(out.str(), StartsWith("ared of run one\n"));
}

TEST(Results, ShowAllParamsOfASingleTrial) {
  Results results = run_of("mine", {"lr"});
  add(results, "a", {0.1}, {0.5});
  EXPECT_THAT(table(results), HasSubstr("TRIAL   lr  STATE"));
}

TEST(Results, AreFilteredByParamsMetricsAndFields) {
  const auto chosen = [](const std::string& where) {
    Results results = grid();
    const auto valueless = choose_results(results, Filter(where));
    std::string names;
    for (const ResultRow& row : results.rows) names += row.trial.name;
    for (const std::string& name : valueless) names += " " + name;
    return names;
  };
  EXPECT_EQ(chosen("lr<0.05"), "bc");
  EXPECT_EQ(chosen("loss<1"), "a");
  EXPECT_EQ(chosen("loss.greatest>=125"), "b");
  EXPECT_EQ(chosen("state=failed"), "c");
  EXPECT_EQ(chosen("model!=resnet && state=succeeded"), "b");
  EXPECT_EQ(chosen("nothing=1"), " nothing");
  EXPECT_EQ(chosen("lr=99 && nothing=1"), " nothing") << "also where no trial gets so far";
  Results results = grid();
  EXPECT_THROW((void)choose_results(results, Filter("state=suceeded")), Error);
}

TEST(ResultsJson, HasFullPrecisionAndNullForNan) {
  Results results = run_of("mine", {"lr"});
  add(results, "a", {0.1}, {1.0 / 3});
  add(results, "b", {0.2}, {k_no_number});
  std::ostringstream out;
  print_results_json(out, results, {});
  std::istringstream lines(out.str());
  std::string line;
  std::getline(lines, line);
  const auto first = nlohmann::json::parse(line);
  EXPECT_EQ(first["metrics"]["loss"]["last"], 1.0 / 3);
  EXPECT_EQ(first["params"], nlohmann::json::parse(R"({"lr": 0.1})"));
  EXPECT_EQ(first["metrics"]["loss"]["points"], 3);
  std::getline(lines, line);
  EXPECT_EQ(nlohmann::json::parse(line)["metrics"]["loss"]["last"], nullptr);
}

}  // namespace
}  // namespace combu
