// Tests of the invocation and of trial names. Tests that need an engine and a record are in
// app_selection_test.cpp.

#include "combu/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "error_of.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Result, SeveralErrorsHaveTheWorstResult) {
  EXPECT_EQ(result_of(ErrorKind::invalid), Result::invalid);
  EXPECT_EQ(result_of(ErrorKind::unavailable), Result::no_engine);
  EXPECT_EQ(result_of(ErrorKind::timeout), Result::no_engine);
  EXPECT_EQ(result_of(ErrorKind::corrupt), Result::no_engine);
  EXPECT_EQ(result_of(ErrorKind::conflict), Result::failed);
  EXPECT_EQ(result_of(std::vector<Error>()), Result::succeeded);
  EXPECT_EQ(result_of({{ErrorKind::invalid, "", ""}, {ErrorKind::conflict, "", ""}}), Result::invalid);
}

TEST(InvocationOptions, OptionValuesAreNumbersWithUnits) {
  EXPECT_EQ(duration_option("--grace", "2m"), Seconds(120));
  EXPECT_EQ(cpus_option("--cpus", "1.5").nano, 1'500'000'000);
  EXPECT_EQ(bytes_option("--memory", "2k").count, 2048);
  const Error error = error_in([] { (void)duration_option("--grace", "soon"); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), "--grace");
}

TEST(InvocationFile, ASecondFileIsRefused) {
  EXPECT_EQ(with_file({}, "a.jsonnet").file, "a.jsonnet");
  EXPECT_EQ(with_file({.file = "a.jsonnet"}, "").file, "a.jsonnet");
  const Error error = error_in([] { (void)with_file({.file = "a.jsonnet"}, "b.jsonnet"); });
  EXPECT_EQ(error.subject(), "b.jsonnet");
  EXPECT_THAT(error.message(), HasSubstr("a.jsonnet"));
}

TEST(Patience, TheTokenIsSetWithTheCallersToken) {
  std::stop_source stop;
  const Patience patience(stop.get_token(), Seconds(3600));
  EXPECT_FALSE(patience.token().stop_requested());
  stop.request_stop();
  EXPECT_TRUE(patience.token().stop_requested());
}

TEST(Patience, TheTokenIsSetAfterTheTimeHasPassed) {
  const Patience patience({}, Seconds(0.001));
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  EXPECT_FALSE(changed.wait(lock, patience.token(), [] { return false; }));
  EXPECT_TRUE(patience.token().stop_requested());
}

TEST(TrialNames, ATrialIsNamedByItsNameOrByAPattern) {
  EXPECT_FALSE(is_pattern("solver-a.1"));
  for (const char* pattern : {"solver-*", "solver-?", "solver-[ab]", "solver-\\a"})
    EXPECT_TRUE(is_pattern(pattern)) << pattern;
  EXPECT_TRUE(names_trial("solver-[ab]", "solver-a"));
  EXPECT_FALSE(names_trial("solver-[ab]", "solver-c"));
  EXPECT_FALSE(names_trial("solver", "solver-a"));
  EXPECT_TRUE(is_chosen({}, "solver-a"));
  EXPECT_TRUE(is_chosen({"x", "s*"}, "solver-a"));
  EXPECT_FALSE(is_chosen({"x"}, "solver-a"));
}

TEST(TrialNames, TheErrorListsNamesThatMatchNoTrial) {
  std::vector<std::string> names{"solver-*", "a", "b*"};
  drop_matching(names, "solver-1");
  EXPECT_THAT(names, ElementsAre("a", "b*"));
  const auto message = [](const std::vector<std::string>& unmatched) {
    return std::string(error_in([&] { expect_all_matched(unmatched, "run r1"); }).what());
  };
  EXPECT_EQ(message(names), "a, b*: are not trials of run r1");
  EXPECT_EQ(message({"a"}), "a: is not a trial of run r1");
  EXPECT_NO_THROW(expect_all_matched({}, "run r1"));
}

TEST(FindTrial, AnErrorSuggestsASimilarName) {
  Experiment experiment;
  experiment.trials.emplace_back().name = "solver-a";
  experiment.trials.emplace_back().name = "report";
  EXPECT_EQ(find_trial(experiment, "report"), 1U);
  EXPECT_EQ(error_in([&] { (void)find_trial(experiment, "reprot"); }).message(),
            "is not a trial of the run; did you mean `report`?");
  EXPECT_EQ(error_in([&] { (void)find_trial(experiment, "zzzzzz"); }).message(), "is not a trial of the run");
}

TEST(TrialsLeft, RetryingTrialsAreLeftAndRunningTrialsAreNot) {
  TrialCounts counts{};
  counts.at(static_cast<std::size_t>(TrialState::running)) = 2;
  counts.at(static_cast<std::size_t>(TrialState::failed)) = 1;
  EXPECT_FALSE(any_left(counts));
  counts.at(static_cast<std::size_t>(TrialState::retrying)) = 1;
  EXPECT_TRUE(any_left(counts));
}

}  // namespace
}  // namespace combu::test
