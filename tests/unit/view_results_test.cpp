#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "combu/telemetry.hpp"
#include "combu/view.hpp"
#include "view/axis.hpp"
#include "view/numbers.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr double k_no_number = std::numeric_limits<double>::quiet_NaN();
constexpr double k_infinite = std::numeric_limits<double>::infinity();

Results run_of(const std::string& id, std::vector<std::string> params,
               std::vector<std::string> metrics = {"loss"}) {
  Results results{.run = {}, .params = std::move(params), .metrics = std::move(metrics), .rows = {}};
  results.run.id = RunId(id);
  results.run.experiment = "lab";
  return results;
}

// The least value is a tenth, the greatest ten times the last one.
ResultRow& add(Results& results, const std::string& name, std::vector<Value> params,
               std::vector<Value> metrics) {
  ResultRow& row = results.rows.emplace_back();
  row.trial.name = name;
  row.trial.state = TrialState::succeeded;
  row.params = std::move(params);
  nlohmann::ordered_json json;
  for (std::size_t i = 0; i < row.params.size(); ++i) {
    if (const auto* number = std::get_if<double>(&row.params[i])) json[results.params[i]] = *number;
    if (const auto* text = std::get_if<std::string>(&row.params[i])) json[results.params[i]] = *text;
  }
  if (!json.is_null()) row.trial.params = json.dump();
  for (const Value& value : metrics) {
    Told& told = row.metrics.emplace_back();
    if (const auto* number = std::get_if<double>(&value))
      told = {.points = 3, .last = *number, .least = *number / 10, .greatest = *number * 10};
  }
  return row;
}

std::string table(const Results& results, const ResultsForm& form = {}) {
  std::ostringstream out;
  print_results(out, results, form);
  return out.str();
}

Results grid() {
  Results results = run_of("mine", {"epochs", "lr", "model"});
  add(results, "a", {10.0, 0.1, "resnet"}, {0.25});
  add(results, "b", {10.0, 0.01, "vit"}, {12.5});
  ResultRow& last = add(results, "c", {10.0, 1e-05, std::monostate()}, {std::monostate()});
  last.trial.state = TrialState::failed;
  return results;
}

TEST(ShortNumber, has_four_digits) {
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

TEST(Results, are_a_table_with_points_below_points) {
  EXPECT_EQ(table(grid()),
            "run mine of lab: 2 succeeded, 1 failed\n"
            "the same for all: epochs=10\n"
            "TRIAL     lr  model   STATE      TIME   loss\n"
            "a      0.1    resnet  succeeded  –      0.25\n"
            "b      0.01   vit     succeeded  –     12.5\n"
            "c      1e-05  –       failed     –         –\n");
}

TEST(Results, are_sorted_by_a_column_and_what_has_no_value_is_last) {
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

TEST(Results, have_the_columns_that_are_asked_for) {
  EXPECT_THAT(table(grid(), {.columns = {"loss.least", "trial", "loss.points"}}),
              HasSubstr("loss.least  TRIAL  loss.points\n     0.025  a                3\n"));
}

TEST(Results, shorten_texts_but_no_number_to_fit_the_terminal) {
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
  results.run.address = "simulated:";
  add(results, "a-quite-long-trial-17", {0.5, 1.5, 2.5, 3.5, "resnet", "adam"}, {0.123456, 12.5});
  add(results, "a-quite-long-trial-18", {0.25, 1.25, 2.25, 3.25, "vit", "sgd"}, {0.654321, 0.25});
  return results;
}

std::vector<std::string> lines_within(std::size_t columns, const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    EXPECT_LE(columns_of(line), columns) << line;
    lines.push_back(std::move(line));
  }
  return lines;
}

TEST(Results, leave_out_whole_columns_rather_than_cut_a_number) {
  const auto lines = lines_within(80, table(wide_grid(), {.table = {.columns = 80}}));
  EXPECT_THAT(
      lines, ElementsAre("run mine (simulated) of lab: 2 succeeded",
                         "TRIAL     a-qu…m-1  a-qu…m-2  a-qu…m-3  a-qu…m-4  STATE      TIME     acc   loss",
                         testing::MatchesRegex("a-qu…-17 +0.5 +1.5 +2.5 +3.5 +succeeded  –     0.1235  12.5"),
                         testing::MatchesRegex("a-qu…-18 .* +succeeded  –     0.6543   0.25"),
                         "2 columns left out: model, optimizer; --columns chooses, a pipe has all"));
}

TEST(Results, keep_the_trial_its_state_and_the_mark_of_a_simulated_run_on_a_narrow_terminal) {
  const auto lines = lines_within(30, table(wide_grid(), {.table = {.columns = 30}}));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_THAT(lines[0], StartsWith("run mine (simulated) of lab"));
  EXPECT_THAT(lines[1], testing::MatchesRegex("TRIAL +STATE +acc"));
  EXPECT_THAT(lines[2], testing::MatchesRegex("a-qui…al-17 +succeeded +0.1235"));
  EXPECT_THAT(lines[4], StartsWith("8 columns left out: "));
}

TEST(Results, leave_out_params_before_metrics_in_any_order) {
  const std::vector<std::string> columns{"loss", "acc", "optimizer", "model", "trial"};
  const auto lines = lines_within(34, table(wide_grid(), {.columns = columns, .table = {.columns = 34}}));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_THAT(lines[1], testing::MatchesRegex(" *loss +acc +opti…zer +TRIAL"));
  EXPECT_THAT(lines[4], StartsWith("1 column left out: model; "));
}

TEST(Results, cut_the_line_of_shared_params_between_two) {
  Results results = run_of("mine", {"epochs", "lr", "note"});
  for (const char* name : {"a", "b"}) add(results, name, {10.0, 0.125, std::string(60, 'x')}, {0.5});
  EXPECT_THAT(table(results, {.table = {.columns = 40}}),
              HasSubstr("\nthe same for all: epochs=10 lr=0.125 …\n"));
  EXPECT_THAT(table(results, {.table = {.columns = 34}}), HasSubstr("\nthe same for all: epochs=10 …\n"));
}

TEST(Results, count_the_rows_that_they_leave_out) {
  const ResultsForm form{.columns = {"trial"}, .sort = "loss", .reverse = true, .table = {.rows = 2}};
  EXPECT_THAT(table(grid(), form), testing::EndsWith("TRIAL\nb\na\n… and 1 more; --limit 0 shows all\n"));
  std::ostringstream json;
  print_results_json(json, grid(), form);
  EXPECT_EQ(json.str(), "{\"trial\":\"b\"}\n{\"trial\":\"a\"}\n");
}

TEST(Results, name_what_an_unknown_column_may_mean) {
  try {
    (void)table(grid(), {.columns = {"los"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_STREQ(error.what(), "--columns: run mine has no param and no metric `los`; is `loss` meant?");
  }
}

TEST(Results, tell_a_param_from_a_metric_and_a_field_of_the_same_name) {
  Results results = run_of("mine", {"loss", "state"});
  add(results, "a", {"mse", "hot"}, {0.5});
  add(results, "b", {"mae", "cold"}, {0.25});
  EXPECT_THAT(table(results), HasSubstr("TRIAL  loss  params.state  STATE      TIME  metrics.loss\n"
                                        "a      mse   hot           succeeded  –             0.5\n"));
  EXPECT_THAT(table(results, {.columns = {"state", "params.state", "loss", "metrics.loss"}}),
              HasSubstr("succeeded  cold          mae           0.25\n"));
}

TEST(Results, have_a_name_for_each_param) {
  Results results = run_of("mine", {"params.state", "state"});
  add(results, "a", {"one", "hot"}, {0.5});
  add(results, "b", {"two", "cold"}, {0.25});
  EXPECT_THAT(table(results), HasSubstr("TRIAL  params.params.state  params.state"));
  EXPECT_THAT(table(results, {.columns = {"params.params.state", "params.state"}}),
              HasSubstr("two                  cold\n"));
}

TEST(Results, tell_a_metric_that_is_called_like_a_part_from_that_part) {
  Results results = run_of("mine", {"lr"}, {"loss", "loss.least"});
  add(results, "a", {0.1}, {0.5, 7.0});
  EXPECT_THAT(table(results, {.columns = {"loss.least"}}), HasSubstr("loss.least\n         7\n"));
  std::ostringstream json;
  print_results_json(json, results, {});
  EXPECT_EQ(nlohmann::json::parse(json.str())["metrics"]["loss"]["least"], 0.05);
}

TEST(Results, have_each_column_once) {
  EXPECT_THROW((void)table(grid(), {.columns = {"time", "seconds"}}), Error);
}

TEST(NearestColumn, is_of_names_that_there_are_not) {
  EXPECT_EQ(nearest_column(grid(), "los"), "loss");
  EXPECT_EQ(nearest_column(grid(), "stat"), "state");
  EXPECT_EQ(nearest_column(grid(), "loss"), std::nullopt);
  EXPECT_EQ(nearest_column(grid(), "zzzzzz"), std::nullopt);
}

TEST(Results, cut_a_long_text_but_no_name) {
  Results results = run_of("mine", {"note"});
  const std::string name(80, 'n');
  add(results, name, {std::string(80, 'x')}, {0.5});
  add(results, "b", {"y"}, {0.25});
  EXPECT_THAT(table(results),
              HasSubstr(name + "  " + std::string(30, 'x') + "…" + std::string(29, 'x') + "  succeeded"));
}

TEST(Compare, shows_no_escape_sequence_in_a_name) {
  Results results = run_of("one", {}, {"a\x1b[31mred"});
  add(results, "a", {}, {1.0});
  std::ostringstream out;
  print_comparison(out, std::vector{results}, {.metrics = {}, .over = {}});
  EXPECT_THAT(out.str(), StartsWith("ared of run one\n"));
}

TEST(Results, of_one_trial_show_its_params) {
  Results results = run_of("mine", {"lr"});
  add(results, "a", {0.1}, {0.5});
  EXPECT_THAT(table(results), HasSubstr("TRIAL   lr  STATE"));
}

TEST(Results, are_chosen_by_params_metrics_and_fields) {
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

TEST(ResultsJson, is_whole_and_null_for_what_is_no_number) {
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

// ---- Comparison

std::string comparison(const std::vector<Results>& runs,
                       CompareForm form = {.metrics = {}, .over = {"seed"}}) {
  std::ostringstream out;
  print_comparison(out, runs, form);
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

TEST(Compare, fits_the_terminal) {
  Results results = run_of("one", {"seed", "text"});
  for (const char letter : {'x', 'y'})
    for (int seed = 0; seed < 3; ++seed)
      add(results, "t-" + std::to_string(results.rows.size()),
          {static_cast<double>(seed), std::string(50, letter)}, {0.25 + seed});
  const std::string text = comparison({results}, {.metrics = {}, .over = {"seed"}, .table = {.columns = 50}});
  EXPECT_THAT(text, HasSubstr("xxx…"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), 50U) << line;
  EXPECT_THAT(comparison({results}), HasSubstr(std::string(50, 'x')));
}

TEST(Compare, leaves_out_deviations_and_counts_first) {
  const std::string text = comparison({repeated("one", 0), repeated("two", 0.5)},
                                      {.metrics = {}, .over = {"seed"}, .table = {.columns = 56}});
  EXPECT_THAT(text, HasSubstr("\n  lr   one      ±  N   two      ±  DIFFERENCE  ±  BY\n"
                              "0.25  1.25  2.484  3  1.75  2.484         0.5  0  paired\n"));
  EXPECT_THAT(text, HasSubstr("\n3 columns left out: DEVIATION, N; a pipe has all\n"));
}

TEST(Compare, counts_the_rows_that_it_leaves_out) {
  Results one = run_of("one", {"lr"}, {"acc", "loss"});
  Results two = run_of("two", {"lr"}, {"acc", "loss"});
  for (const double lr : {1.0, 2.0, 3.0}) {
    add(one, "a", {lr}, {lr / 4, lr});
    add(two, "a", {lr}, {lr / 2, lr + 1});
  }
  const CompareForm form{.metrics = {}, .over = {}, .table = {.rows = 1}};
  const std::string text = comparison({one, two}, form);
  EXPECT_THAT(text, HasSubstr("\nlr   one  two  DIFFERENCE\n 1  0.25  0.5        0.25\n"
                              "… and 2 more; --limit 0 shows all\nall 3 pairs: two less one is 0.5 ± "));
  EXPECT_THAT(text, HasSubstr("\nlr  one  two  DIFFERENCE\n 1    1    2           1\n"
                              "… and 2 more; --limit 0 shows all\nall 3 pairs: two less one is 1 ± "));
  std::ostringstream json;
  EXPECT_THAT(print_comparison_json(json, std::vector{one, two}, form), testing::IsEmpty());
  EXPECT_EQ(lines_within(10'000, json.str()).size(), 2U) << "one of each metric";
}

TEST(Compare, one_run_groups_its_repeats) {
  EXPECT_EQ(comparison({repeated("one", 0)}),
            "loss of run one; ± is half of a 95 % interval (Student's t)\n"
            "  lr   one      ±  DEVIATION  N\n"
            "0.25  1.25  2.484          1  3\n"
            "0.5   1.5   2.484          1  3\n");
}

TEST(Compare, pairs_repeats_of_the_same_seed) {
  EXPECT_EQ(comparison({repeated("one", 0), repeated("two", 0.5)}),
            "loss of run one, and of run two less that; ± is half of a 95 % interval (Student's t)\n"
            "  lr   one      ±  DEVIATION  N   two      ±  DEVIATION  N  DIFFERENCE  ±  BY\n"
            "0.25  1.25  2.484          1  3  1.75  2.484          1  3         0.5  0  paired\n"
            "0.5   1.5   2.484          1  3  2     2.484          1  3         0.5  0  paired\n"
            "all 2 pairs: two less one is 0.5 ± 0 in the mean (95 %, paired)\n");
}

TEST(Compare, of_three_runs_names_the_differences) {
  EXPECT_THAT(comparison({repeated("one", 0), repeated("two", 0.5), repeated("three", 1)}),
              HasSubstr("  N  two LESS one  ±  BY      three LESS one  ±  BY\n"));
}

TEST(Compare, takes_welch_where_seeds_are_others) {
  EXPECT_THAT(comparison({repeated("one", 0), repeated("two", 0.5, 7)}), HasSubstr("0.5  2.267  Welch\n"));
}

TEST(Compare, of_single_values_has_the_interval_over_all_pairs) {
  Results one = run_of("one", {"lr"});
  Results two = run_of("two", {"lr"});
  for (int i = 1; i <= 3; ++i) {
    add(one, "a-" + std::to_string(i), {i * 1.0}, {1.0});
    add(two, "b-" + std::to_string(i), {i * 1.0}, {1.0 + i});
  }
  EXPECT_EQ(comparison({one, two}),
            "loss of run one, and of run two less that\n"
            "lr  one  two  DIFFERENCE\n"
            " 1    1    2           1\n"
            " 2    1    3           2\n"
            " 3    1    4           3\n"
            "all 3 pairs: two less one is 2 ± 2.484 in the mean (95 %, paired)\n");
}

TEST(Compare, names_what_it_leaves_out) {
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
                                "left out of run one: 1 trial without it (a-4)\n"
                                "left out of run one: 1 trial whose value is no number (a-3)\n"));
}

TEST(Compare, counts_what_was_skipped_as_done) {
  Results one = repeated("one", 0);
  for (std::size_t i = 0; i < one.rows.size(); i += 2) one.rows[i].trial.state = TrialState::skipped;
  EXPECT_EQ(comparison({one}), comparison({repeated("one", 0)}));
}

TEST(Compare, pairs_trials_without_params_by_their_names) {
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

// A loader without params, and an evaluator that has others, beside two that train.
Results with_helpers(const std::string& id, const Value& optimizer, double shift) {
  Results results = run_of(id, {"kind", "lr", "optimizer"});
  add(results, "train-1", {std::monostate(), 0.1, optimizer}, {1 + shift});
  add(results, "train-2", {std::monostate(), 0.2, optimizer}, {2 + shift});
  add(results, "evaluator", {"eval", std::monostate(), std::monostate()}, {8 + shift});
  add(results, "loader", {}, {std::monostate()}).params.resize(3);
  return results;
}

TEST(Compare, pairs_trials_beside_others_without_the_param_that_differs) {
  EXPECT_EQ(comparison({with_helpers("one", "sgd", 0), with_helpers("two", "adam", 0.5)}),
            "loss of run one, and of run two less that\n"
            "kind   lr  one  two  DIFFERENCE\n"
            "–     0.1    1  1.5         0.5\n"
            "–     0.2    2  2.5         0.5\n"
            "eval    –    8  8.5         0.5\n"
            "all 3 pairs: two less one is 0.5 ± 0 in the mean (95 %, paired)\n"
            "differs between the runs: optimizer sgd → adam\n"
            "left out of run one: 1 trial without it (loader)\n"
            "left out of run two: 1 trial without it (loader)\n");
}

TEST(Compare, pairs_trials_of_a_param_that_one_run_does_not_have) {
  const std::string text =
      comparison({with_helpers("one", "sgd", 0), with_helpers("two", std::monostate(), 0.5)});
  EXPECT_THAT(text, HasSubstr("all 3 pairs: two less one is 0.5 ± 0 in the mean"));
  EXPECT_THAT(text, HasSubstr("differs between the runs: optimizer sgd → –\n"));
}

TEST(Compare, keeps_trials_apart_that_differ_in_having_a_param) {
  Results one = run_of("one", {"lr", "warmup"});
  Results two = run_of("two", {"lr"});
  add(one, "warm", {0.1, 5.0}, {1.0});
  add(one, "cold", {0.1, std::monostate()}, {2.0});
  add(two, "cold", {0.1}, {2.5});
  const std::string text = comparison({one, two});
  EXPECT_THAT(text, HasSubstr("lr  one  two  DIFFERENCE\n0.1    2  2.5         0.5\n"));
  EXPECT_THAT(text, HasSubstr("only in run one: 1 trial (warm)\n"));
  // The one that warms up differs by more, but is the same trial.
  Results three = run_of("three", {"lr", "warmup"});
  add(three, "warm", {0.1, 7.0}, {1.5});
  add(three, "cold", {0.1, std::monostate()}, {2.25});
  EXPECT_THAT(comparison({one, three}), HasSubstr("all 2 pairs: three less one is 0.375 ± 1.588 in"));
}

TEST(Compare, says_why_nothing_is_paired) {
  Results one = run_of("one", {"lr", "model"});
  Results two = run_of("two", {"lr", "model"});
  for (const double i : {1.0, 2.0}) {
    add(one, "a", {i, "vit"}, {1.0});
    add(two, "a", {i / 8, "vit"}, {1.0});
  }
  EXPECT_THAT(
      comparison({one, two}),
      HasSubstr("nothing is paired: no value of lr is in two runs; `--over lr` takes trials that differ "
                "in it as repeats\n"));
  std::ostringstream out;
  EXPECT_THAT(print_comparison_json(out, std::vector{one, two}, {.metrics = {}, .over = {}}),
              ElementsAre(StartsWith("nothing is paired: "), "only in run one: 2 trials (a, a)",
                          "only in run two: 2 trials (a, a)"));
  EXPECT_EQ(out.str(), "");
}

TEST(Compare, takes_a_metric_for_what_it_is_in_all_runs) {
  Results one = run_of("one", {"model"}, {"loss"});
  Results two = run_of("two", {"loss", "model"}, {"loss"});
  add(one, "a", {"vit"}, {1.0});
  add(two, "a", {"mse", "vit"}, {1.5});
  EXPECT_THAT(comparison({one, two}), StartsWith("metrics.loss of run one, and of run two less that\n"
                                                 "model  one  two  DIFFERENCE\n"
                                                 "vit      1  1.5         0.5\n"));
}

TEST(CompareJson, has_the_params_and_the_intervals) {
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

// ---- Charts

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> all;
  for (const AxisTick& tick : axis.ticks()) all.push_back(tick.label);
  return all;
}

TEST(Axis, has_round_ticks) {
  EXPECT_THAT(labels(Axis(0, 1, Scale::linear, 5)), ElementsAre("0", "0.5", "1.0"));
  EXPECT_THAT(labels(Axis(0, 1, Scale::linear, 6)), ElementsAre("0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels(Axis(-3, 97, Scale::linear, 6)), ElementsAre("0", "20", "40", "60", "80", "100"));
  EXPECT_THAT(labels(Axis(0.001, 10, Scale::logarithmic, 5)), ElementsAre("0.001", "0.01", "0.1", "1", "10"));
  EXPECT_THAT(labels(Axis(1, 30, Scale::logarithmic, 5)), ElementsAre("1", "2", "5", "10", "20"));
}

TEST(Axis, of_one_value_has_it_in_its_middle) {
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

TEST(PrintChart, draws_dots_on_a_terminal) {
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

TEST(PrintChart, draws_letters_without_utf8_and_colours) {
  const std::string text = drawn(diagonal(2), {.columns = 40, .rows = 16, .utf8 = false, .colours = false});
  EXPECT_THAT(text, HasSubstr("  a lr=0\n  b lr=1\n"));
  EXPECT_THAT(text, HasSubstr("bb"));
  for (const char letter : text) EXPECT_LT(static_cast<unsigned char>(letter), 0x80);
}

TEST(PrintChart, fits_its_surface) {
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

// The words that stand in `text`, by their places in the chart.
std::vector<std::size_t> words_in(const Chart& chart, const std::string& text) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < chart.x_words.size(); ++i)
    if (text.find(chart.x_words[i]) != std::string::npos) found.push_back(i);
  return found;
}

// Either all words are labelled, or every n-th as the note says.
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

TEST(PrintChart, labels_every_word_in_several_rows) {
  const Chart chart = of_words(12, "model");
  std::ostringstream out;
  EXPECT_EQ(print_chart(out, chart, {.columns = 80, .rows = 24, .utf8 = false, .colours = false}), "");
  expect_even_labels(chart, out.str(), "");
}

TEST(PrintChart, labels_words_evenly_where_not_all_have_room) {
  for (const std::size_t count : {1U, 2U, 40U, 113U, 500U})
    for (const std::size_t columns : {10U, 40U, 80U, 200U}) {
      const Chart chart = of_words(count, "model");
      std::ostringstream out;
      const std::string note =
          print_chart(out, chart, {.columns = columns, .rows = 24, .utf8 = false, .colours = false});
      expect_even_labels(chart, out.str(), note);
      if (columns < 40) continue;  // less than it can be drawn in
      std::istringstream lines(out.str());
      std::size_t height = 0;
      for (std::string line; std::getline(lines, line); ++height) EXPECT_LE(line.size(), columns) << line;
      EXPECT_LE(height, 24U);
    }
}

TEST(PrintChart, says_how_many_words_are_labelled) {
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

TEST(PrintChart, cuts_a_word_that_is_wider_than_the_chart) {
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

TEST(PrintChartSvg, turns_words_that_have_no_room_side_by_side) {
  for (const auto& [count, are_turned] : {std::pair(3, false), std::pair(20, true), std::pair(34, true)}) {
    const Chart chart = of_words(static_cast<std::size_t>(count), "model");
    std::ostringstream out;
    EXPECT_EQ(print_chart_svg(out, chart), "");
    expect_even_labels(chart, out.str(), "");
    EXPECT_EQ(turned_in(out.str()), 1U + (are_turned ? chart.x_words.size() : 0U)) << "the title of y, too";
  }
}

TEST(PrintChartSvg, labels_words_evenly_where_not_all_have_room) {
  const Chart chart = of_words(100, "model");
  std::ostringstream out;
  const std::string note = print_chart_svg(out, chart);
  EXPECT_EQ(note, "every 3rd of 100 values of `model` is labelled");
  expect_even_labels(chart, out.str(), note);
}

TEST(PrintChartSvg, escapes_names_and_has_a_curve_for_each_series) {
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

TEST(PrintChartSvg, replaces_characters_that_xml_does_not_allow) {
  Chart chart = diagonal(2);
  chart.series[0].title =
      "\x01|\x1f|\xff|\xed\xa0\x80|"
      "\xef\xbf\xbe|\xef\xbf\xbf|\t|\xee\x80\x80|\xf0\x9f\x9a\x80|";
  std::ostringstream out;
  print_chart_svg(out, chart);
  EXPECT_THAT(out.str(), HasSubstr(">�|�|�|���|�|�|\t|\xee\x80\x80|🚀|<"));
}

TEST(PrintChart, leaves_a_gap) {
  Chart chart = diagonal();
  chart.series[0].points = {{0, 1, 0}, {1, 2, 0}, {6, 9, 0, true}, {7, 8, 0}, {9, 5, 0, true}};
  const ChartSurface surface{.columns = 30, .rows = 11, .utf8 = false, .colours = false};
  std::istringstream lines(drawn(chart, surface));
  std::string marked(surface.columns, '.');  // the columns with any mark
  for (std::string line; std::getline(lines, line);)
    for (std::size_t i = 0; i < line.size(); ++i)
      if (line[i] == 'a') marked[i] = 'a';
  EXPECT_THAT(marked, testing::MatchesRegex("[.]*a+[.]+a+[.]+a[.]*"));
}

TEST(PrintChartSvg, leaves_a_gap_in_a_curve_and_its_interval) {
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

  // Of one metric, as the trial has told it: steps and values.
  void tell(const std::string& trial, std::vector<std::pair<double, double>> told) {
    LogBatch::Metric metric{.name = "loss", .points = {}};
    for (const auto& [step, value] : told) metric.points.push_back({.step = step, .at = {}, .value = value});
    (void)telemetry_.take(trial, 1, std::nullopt, {.pieces = {}, .metrics = {&metric, 1}}, Bytes(1));
    add(results_, trial, {told.back().second}, {told.back().second});
  }

  Chart chart(const std::string& by = {}) {
    results_.telemetry = &telemetry_;
    return make_chart(results_, {.metric = "loss", .by = by, .x = ""});
  }

  std::string folder_ = testing::TempDir() + "combu-curves-" + std::to_string(getpid());
  Telemetry telemetry_{folder_, RunId("mine")};
  Results results_ = run_of("mine", {"lr"});
};

TEST_F(Curves, have_one_value_of_a_trial_for_a_step_the_last) {
  tell("a", {{1, 8}, {2, 6}, {1, 4}, {2, 3}, {2, 2}});
  const Chart chart = this->chart();
  ASSERT_EQ(chart.series.size(), 1U);
  const std::vector<Chart::Point>& points = chart.series[0].points;
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].y, 4);
  EXPECT_EQ(points[1].y, 2);
  for (const Chart::Point& point : points) EXPECT_EQ(point.spread, 0);
}

TEST_F(Curves, have_intervals_over_trials) {
  for (const char* name : {"a", "b"}) tell(name, {{1, 100}, {1, name[0] == 'a' ? 2.0 : 4.0}, {2, 1}});
  for (ResultRow& row : results_.rows) row.params[0] = 0.5;
  const Chart chart = this->chart("lr");
  ASSERT_EQ(chart.series.size(), 1U);
  EXPECT_EQ(chart.series[0].points[0].y, 3);
  EXPECT_NEAR(chart.series[0].points[0].spread, 12.706,
              0.001);  // Student's t of one degree, by a deviation / √2 of 1
  EXPECT_EQ(chart.series[0].points[1].spread, 0);
}

TEST_F(Curves, have_a_gap_where_there_is_no_number) {
  tell("a", {{1, 1}, {2, 2}, {3, k_no_number}, {4, k_infinite}, {5, 9}, {6, 8}});
  const Chart chart = this->chart();
  std::vector<double> apart;
  for (const Chart::Point& point : chart.series.at(0).points)
    if (point.apart) apart.push_back(point.x);
  EXPECT_THAT(apart, ElementsAre(5));
  EXPECT_EQ(chart.series[0].points.size(), 4U);
  EXPECT_THAT(chart.notes, ElementsAre("left out: 2 values that are no number"));
}

TEST_F(Curves, have_no_gap_where_one_trial_has_a_number) {
  tell("a", {{1, 1}, {2, k_no_number}, {3, 1}});
  tell("b", {{1, 3}, {2, 3}, {3, 1}});
  const Chart chart = this->chart("lr");
  ASSERT_EQ(chart.series.size(), 1U);
  ASSERT_EQ(chart.series[0].points.size(), 3U);
  for (const Chart::Point& point : chart.series[0].points) EXPECT_FALSE(point.apart);
}

TEST(MakeChart, has_one_place_for_what_is_no_number) {
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

TEST(MakeChart, draws_last_values_over_a_param) {
  const Chart chart =
      make_chart(grid(), {.metric = "loss", .by = "", .x = "lr", .x_scale = Scale::logarithmic});
  ASSERT_EQ(chart.series.size(), 1U);
  EXPECT_EQ(chart.series[0].points.size(), 2U);
  EXPECT_FALSE(chart.joined);
  const Chart words = make_chart(grid(), {.metric = "loss", .by = "model", .x = "model"});
  EXPECT_THAT(words.x_words, ElementsAre("resnet", "vit"));
  EXPECT_EQ(words.series.size(), 2U);
}

TEST(MakeChart, cuts_long_names) {
  Results results = run_of("mine", {"note"});
  add(results, "a", {std::string(200, 'x')}, {1.0});
  add(results, "b", {"y"}, {2.0});
  const Chart chart = make_chart(results, {.metric = "loss", .by = "note", .x = "note"});
  EXPECT_EQ(chart.series.at(0).title, "note=" + std::string(54, 'x') + "…");
  EXPECT_THAT(chart.x_words, ElementsAre(std::string(59, 'x') + "…", "y"));
}

TEST(MakeChart, says_what_it_leaves_out) {
  Results results = run_of("mine", {"lr"});
  add(results, "a", {0.1}, {1.0});
  add(results, "b", {0.2}, {k_no_number});
  add(results, "c", {0.3}, {-1.0});
  const Chart chart =
      make_chart(results, {.metric = "loss", .by = "", .x = "lr", .y_scale = Scale::logarithmic});
  EXPECT_THAT(chart.notes,
              ElementsAre("left out: 1 value that is no number",
                          "left out: 1 value not above 0, which a logarithmic scale does not have"));
  results.rows.erase(results.rows.begin());
  EXPECT_THROW(
      (void)make_chart(results, {.metric = "loss", .by = "", .x = "lr", .y_scale = Scale::logarithmic}),
      Error);
}

// ---- Files

TEST(ExportCsv, quotes_what_has_to_be) {
  Results results = run_of("mine", {"note"}, {"loss"});
  add(results, "a", {"one, \"two\"\nthree"}, {k_infinite});
  add(results, "b", {std::monostate()}, {k_no_number});
  std::ostringstream out;
  export_csv(out, std::vector{results});
  EXPECT_EQ(out.str(),
            "run,trial,attempt,state,seconds,exit_code,cause,image,digest,note,loss,loss.least,loss.greatest,"
            "loss.points\n"
            "mine,a,1,succeeded,,,,,,\"one, \"\"two\"\"\nthree\",inf,inf,inf,3\n"
            "mine,b,1,succeeded,,,,,,,nan,nan,nan,3\n");
}

std::string first_line(const Results& results) {
  std::ostringstream out;
  export_csv(out, std::vector{results});
  const std::string text = out.str();
  return text.substr(text.find("digest,") + 7, text.find('\n') - text.find("digest,") - 7);
}

TEST(ExportCsv, has_no_two_columns_of_one_name) {
  EXPECT_EQ(first_line(run_of("mine", {"lr", "state"}, {"lr"})),
            "lr,params.state,metrics.lr,metrics.lr.least,metrics.lr.greatest,metrics.lr.points");
  EXPECT_EQ(first_line(run_of("mine", {"", "LR", "Run", "State", "lr", "params.lr"}, {})),
            "params.,LR,params.Run,params.State,params.lr,params.params.lr");
  EXPECT_EQ(first_line(run_of("mine", {"X", "params.x", "x"}, {})), "X,params.x,params.x_2");
  EXPECT_EQ(first_line(run_of("mine", {"loss.points"}, {"loss"})),
            "loss.points,metrics.loss,metrics.loss.least,metrics.loss.greatest,metrics.loss.points");
  EXPECT_EQ(first_line(run_of("mine", {}, {"a", "a.least"})),
            "a,a.least,a.greatest,a.points,metrics.a.least,metrics.a.least.least,metrics.a.least.greatest,"
            "metrics.a.least.points");
}

TEST(ExportCsv, has_each_value_in_its_own_column) {
  Results one = run_of("one", {"LR", "lr"}, {"lr"});
  add(one, "a", {1.0, 2.0}, {3.0});
  Results two = run_of("two", {}, {"lr"});
  add(two, "a", {}, {4.0});
  std::ostringstream out;
  export_csv(out, std::vector{one, two});
  EXPECT_THAT(out.str(), HasSubstr("digest,LR,params.lr,metrics.lr,metrics.lr.least,"));
  EXPECT_THAT(out.str(), HasSubstr("\none,a,1,succeeded,,,,,,1,2,3,0.3,30,3\n"));
  EXPECT_THAT(out.str(), HasSubstr("\ntwo,a,1,succeeded,,,,,,,,4,0.4,40,3\n"));
}

TEST(ExportJson, keeps_what_params_are) {
  Results results = run_of("mine", {"deep", "layers"});
  ResultRow& row = add(results, "a", {"true", "[64,64]"}, {k_infinite});
  row.trial.params = R"({"deep":true,"layers":[64,64]})";
  std::ostringstream out;
  export_json(out, std::vector{results});
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["deep"], true);
  EXPECT_EQ(json["layers"], nlohmann::json::parse("[64,64]"));
  EXPECT_EQ(json["loss"], nullptr);
  EXPECT_EQ(json["loss.points"], 3);
}

}  // namespace
}  // namespace combu
