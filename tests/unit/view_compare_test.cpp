// Tests of the comparison of runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "combu/view.hpp"
#include "results_fixture.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string comparison(const std::vector<Results>& runs,
                       const CompareForm& form = {.metrics = {}, .over = {"seed"}},
                       const TableForm& table = {}) {
  std::ostringstream out;
  print_comparison(out, runs, form, table);
  return out.str();
}

Results repeated(const std::string& id, double shift, int seeds_from = 1) {
  Results results = run_of(id, {"lr", "seed"});
  for (const double lr : {0.25, 0.5})
    for (int seed = 0; seed < 3; ++seed)
      add(results, "t-" + std::to_string(results.rows.size()), {lr, static_cast<double>(seeds_from + seed)},
          {lr + shift + seed});
  return results;
}

TEST(Compare, FitsTheTerminal) {
  Results results = run_of("one", {"seed", "text"});
  for (const char letter : {'x', 'y'})
    for (int seed = 0; seed < 3; ++seed)
      add(results, "t-" + std::to_string(results.rows.size()),
          {static_cast<double>(seed), std::string(50, letter)}, {0.25 + seed});
  const std::string text = comparison({results}, {.metrics = {}, .over = {"seed"}}, {.columns = 50});
  EXPECT_THAT(text, HasSubstr("xxx…"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 50U) << line;
  EXPECT_THAT(comparison({results}), HasSubstr(std::string(50, 'x')));
}

TEST(Compare, LeavesOutDeviationsAndCountsFirst) {
  const std::string text = comparison({repeated("one", 0), repeated("two", 0.5)},
                                      {.metrics = {}, .over = {"seed"}}, {.columns = 56});
  EXPECT_THAT(text, HasSubstr("\n  lr   one      ±  N   two      ±  DIFFERENCE  ±  BY\n"
                              "0.25  1.25  2.484  3  1.75  2.484         0.5  0  paired\n"));
  EXPECT_THAT(text, HasSubstr("\n3 columns left out: DEVIATION, N; piped output has all\n"));
}

TEST(Compare, CountsTheRowsThatItLeavesOut) {
  Results one = run_of("one", {"lr"}, {"acc", "loss"});
  Results two = run_of("two", {"lr"}, {"acc", "loss"});
  for (const double lr : {1.0, 2.0, 3.0}) {
    add(one, "a", {lr}, {lr / 4, lr});
    add(two, "a", {lr}, {lr / 2, lr + 1});
  }
  const CompareForm form{.metrics = {}, .over = {}};
  const TableForm one_row{.rows = 1};
  const std::string text = comparison({one, two}, form, one_row);
  EXPECT_THAT(text, HasSubstr("\nlr   one  two  DIFFERENCE\n 1  0.25  0.5        0.25\n"
                              "… and 2 more; --limit 0 shows all\nall 3 pairs: two minus one is 0.5 ± "));
  EXPECT_THAT(text, HasSubstr("\nlr  one  two  DIFFERENCE\n 1    1    2           1\n"
                              "… and 2 more; --limit 0 shows all\nall 3 pairs: two minus one is 1 ± "));
  std::ostringstream json;
  EXPECT_THAT(print_comparison_json(json, std::vector{one, two}, form, one_row), testing::IsEmpty());
  EXPECT_EQ(lines_within(10'000, json.str()).size(), 2U) << "one of each metric";
}

TEST(Compare, GroupsRepetitionsOfASingleRun) {
  EXPECT_EQ(comparison({repeated("one", 0)}),
            "loss of run one; ± is half of a 95 % interval (Student's t)\n"
            "  lr   one      ±  DEVIATION  N\n"
            "0.25  1.25  2.484          1  3\n"
            "0.5   1.5   2.484          1  3\n");
}

TEST(Compare, PairsRepetitionsWithTheSameSeed) {
  EXPECT_EQ(comparison({repeated("one", 0), repeated("two", 0.5)}),
            "loss of run one, and of run two minus run one; ± is half of a 95 % interval (Student's t)\n"
            "  lr   one      ±  DEVIATION  N   two      ±  DEVIATION  N  DIFFERENCE  ±  BY\n"
            "0.25  1.25  2.484          1  3  1.75  2.484          1  3         0.5  0  paired\n"
            "0.5   1.5   2.484          1  3  2     2.484          1  3         0.5  0  paired\n"
            "all 2 pairs: two minus one is 0.5 ± 0 on average (95 %, paired)\n");
}

TEST(Compare, NamesTheDifferencesOfThreeRuns) {
  EXPECT_THAT(comparison({repeated("one", 0), repeated("two", 0.5), repeated("three", 1)}),
              HasSubstr("  N  two MINUS one  ±  BY      three MINUS one  ±  BY\n"));
}

TEST(Compare, UsesWelchIfSeedsDiffer) {
  EXPECT_THAT(comparison({repeated("one", 0), repeated("two", 0.5, 7)}), HasSubstr("0.5  2.267  Welch\n"));
}

TEST(Compare, ComputesAnIntervalOverAllPairsOfSingleValues) {
  Results one = run_of("one", {"lr"});
  Results two = run_of("two", {"lr"});
  for (int i = 1; i <= 3; ++i) {
    add(one, "a-" + std::to_string(i), {i * 1.0}, {1.0});
    add(two, "b-" + std::to_string(i), {i * 1.0}, {1.0 + i});
  }
  EXPECT_EQ(comparison({one, two}),
            "loss of run one, and of run two minus run one\n"
            "lr  one  two  DIFFERENCE\n"
            " 1    1    2           1\n"
            " 2    1    3           2\n"
            " 3    1    4           3\n"
            "all 3 pairs: two minus one is 2 ± 2.484 on average (95 %, paired)\n");
}

TEST(Compare, NamesTrialsThatItLeavesOut) {
  Results one = run_of("one", {"lr", "optimizer"});
  Results two = run_of("two", {"lr", "optimizer"});
  add(one, "a-1", {0.1, "sgd"}, {1.0});
  add(one, "a-2", {0.2, "sgd"}, {1.0});
  add(one, "a-3", {0.3, "sgd"}, {k_no_number});
  add(one, "a-4", {0.4, "sgd"}, {std::monostate()});
  add(one, "a-5", {0.5, "sgd"}, {1.0}).trial.state = TrialState::failed;
  add(one, "a-6", {0.6, "sgd"}, {1.0}).trial.state = TrialState::stopped;
  add(two, "b-1", {0.1, "adam"}, {0.5});
  add(two, "b-9", {0.9, "adam"}, {0.5});
  EXPECT_THAT(comparison({one, two}),
              testing::EndsWith("differs between the runs: optimizer sgd → adam\n"
                                "left out of run one: 1 failed, 1 stopped\n"
                                "only in run one: 1 trial (a-2)\n"
                                "only in run two: 1 trial (b-9)\n"
                                "left out of run one: 1 trial without a value (a-4)\n"
                                "left out of run one: 1 trial whose value is not a number (a-3)\n"));
}

TEST(Compare, CountsSkippedTrialsAsSucceeded) {
  Results one = repeated("one", 0);
  for (std::size_t i = 0; i < one.rows.size(); i += 2) one.rows[i].trial.state = TrialState::skipped;
  EXPECT_EQ(comparison({one}), comparison({repeated("one", 0)}));
}

TEST(Compare, PairsTrialsWithoutParamsByName) {
  Results one = run_of("one", {});
  Results two = run_of("two", {});
  add(one, "x", {}, {1.0});
  add(one, "y", {}, {2.0});
  add(two, "y", {}, {2.5});
  add(two, "x", {}, {1.25});
  EXPECT_THAT(comparison({one, two}), HasSubstr("TRIAL  one   two  DIFFERENCE\n"
                                                "x        1  1.25        0.25\n"
                                                "y        2  2.5         0.5\n"));
}

// Two trials that train, an evaluator with other params, and a loader without params.
Results with_helpers(const std::string& id, const Value& optimizer, double shift) {
  Results results = run_of(id, {"kind", "lr", "optimizer"});
  add(results, "train-1", {std::monostate(), 0.1, optimizer}, {1 + shift});
  add(results, "train-2", {std::monostate(), 0.2, optimizer}, {2 + shift});
  add(results, "evaluator", {"eval", std::monostate(), std::monostate()}, {8 + shift});
  add(results, "loader", {}, {std::monostate()}).params.resize(3);
  return results;
}

TEST(Compare, IgnoresTrialsWithoutTheParamThatDiffersBetweenRuns) {
  EXPECT_EQ(comparison({with_helpers("one", "sgd", 0), with_helpers("two", "adam", 0.5)}),
            "loss of run one, and of run two minus run one\n"
            "kind   lr  one  two  DIFFERENCE\n"
            "–     0.1    1  1.5         0.5\n"
            "–     0.2    2  2.5         0.5\n"
            "eval    –    8  8.5         0.5\n"
            "all 3 pairs: two minus one is 0.5 ± 0 on average (95 %, paired)\n"
            "differs between the runs: optimizer sgd → adam\n"
            "left out of run one: 1 trial without a value (loader)\n"
            "left out of run two: 1 trial without a value (loader)\n");
}

TEST(Compare, PairsTrialsIfOneRunDoesNotHaveAParam) {
  const std::string text =
      comparison({with_helpers("one", "sgd", 0), with_helpers("two", std::monostate(), 0.5)});
  EXPECT_THAT(text, HasSubstr("all 3 pairs: two minus one is 0.5 ± 0 on average"));
  EXPECT_THAT(text, HasSubstr("differs between the runs: optimizer sgd → –\n"));
}

TEST(Compare, DoesNotPairATrialWithAParamAndOneWithoutIt) {
  Results one = run_of("one", {"lr", "warmup"});
  Results two = run_of("two", {"lr"});
  add(one, "warm", {0.1, 5.0}, {1.0});
  add(one, "cold", {0.1, std::monostate()}, {2.0});
  add(two, "cold", {0.1}, {2.5});
  const std::string text = comparison({one, two});
  EXPECT_THAT(text, HasSubstr("lr  one  two  DIFFERENCE\n0.1    2  2.5         0.5\n"));
  EXPECT_THAT(text, HasSubstr("only in run one: 1 trial (warm)\n"));
  // The values of `warmup` differ between the runs, but both are the same trial.
  Results three = run_of("three", {"lr", "warmup"});
  add(three, "warm", {0.1, 7.0}, {1.5});
  add(three, "cold", {0.1, std::monostate()}, {2.25});
  EXPECT_THAT(comparison({one, three}), HasSubstr("all 2 pairs: three minus one is 0.375 ± 1.588 on"));
}

TEST(Compare, SaysWhyNothingIsPaired) {
  Results one = run_of("one", {"lr", "model"});
  Results two = run_of("two", {"lr", "model"});
  for (const double i : {1.0, 2.0}) {
    add(one, "a", {i, "vit"}, {1.0});
    add(two, "a", {i / 8, "vit"}, {1.0});
  }
  EXPECT_THAT(
      comparison({one, two}),
      HasSubstr("nothing is paired: no value of lr is in two runs; `--over lr` treats trials that differ "
                "in these params as repeats\n"));
  std::ostringstream out;
  EXPECT_THAT(print_comparison_json(out, std::vector{one, two}, {.metrics = {}, .over = {}}),
              ElementsAre(StartsWith("nothing is paired: "), "only in run one: 2 trials (a, a)",
                          "only in run two: 2 trials (a, a)"));
  EXPECT_EQ(out.str(), "");
}

TEST(Compare, PrefersTheMetricIfAParamOfOneRunHasItsName) {
  Results one = run_of("one", {"model"}, {"loss"});
  Results two = run_of("two", {"loss", "model"}, {"loss"});
  add(one, "a", {"vit"}, {1.0});
  add(two, "a", {"mse", "vit"}, {1.5});
  EXPECT_THAT(comparison({one, two}), StartsWith("metrics.loss of run one, and of run two minus run one\n"
                                                 "model  one  two  DIFFERENCE\n"
                                                 "vit      1  1.5         0.5\n"));
}

TEST(CompareJson, HasParamsAndIntervals) {
  std::ostringstream out;
  const std::vector<Results> runs{repeated("one", 0), repeated("two", 0.5, 7)};
  EXPECT_THAT(print_comparison_json(out, runs, {.metrics = {"loss.least"}, .over = {"seed"}}), ElementsAre());
  std::istringstream lines(out.str());
  std::string line;
  std::getline(lines, line);
  const auto pair = nlohmann::json::parse(line);
  EXPECT_EQ(pair["metric"], "loss.least");
  EXPECT_EQ(pair["params"], nlohmann::json::parse(R"({"lr": 0.25})"));
  EXPECT_EQ(pair["runs"][0]["count"], 3);
  EXPECT_DOUBLE_EQ(pair["runs"][0]["mean"], 0.125);
  EXPECT_EQ(pair["differences"][0]["by"], "Welch");
  EXPECT_LT(pair["differences"][0]["interval"][0], 0.05);
}

}  // namespace
}  // namespace combu
