#include "combu/plan.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace combu;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

Trial trial(std::string name, const std::vector<std::string>& depends = {}) {
  Trial made;
  made.name = std::move(name);
  for (const std::string& on : depends)
    made.depends.push_back({on, Condition::started, made.name + ".depends"});
  return made;
}

std::string name(std::size_t i) {
  return fmt::format("t{}", i);
}

std::vector<std::string> messages(const Planning& planning) {
  std::vector<std::string> texts;
  for (const Error& error : planning.errors) texts.emplace_back(error.what());
  return texts;
}

std::vector<std::uint32_t> waves(const Plan& plan) {
  std::vector<std::uint32_t> numbers;
  for (const Plan::Node& node : plan.nodes) numbers.push_back(node.wave);
  return numbers;
}

TEST(MakePlan, AnEmptyExperimentHasAnEmptyPlan) {
  const Planning planning = make_plan({});
  EXPECT_THAT(planning.errors, IsEmpty());
  EXPECT_EQ(planning.plan.wave_count, 0U);
}

TEST(MakePlan, AWaveIsTheLongestDistanceFromTheRoots) {
  Experiment experiment;
  experiment.trials = {trial("last", {"first", "middle"}), trial("middle", {"first"}), trial("first"),
                       trial("alone")};
  const Planning planning = make_plan(experiment);
  EXPECT_THAT(planning.errors, IsEmpty());
  EXPECT_THAT(waves(planning.plan), ElementsAre(2, 1, 0, 0));
  EXPECT_EQ(planning.plan.wave_count, 3U);
  EXPECT_THAT(planning.plan.nodes[0].needs, SizeIs(2));
  EXPECT_THAT(planning.plan.nodes[2].needed_by, SizeIs(2));
}

TEST(MakePlan, DuplicateDependenciesAreMergedAndOtherConditionsAreKept) {
  Experiment experiment;
  experiment.trials = {trial("user", {"base", "base"}), trial("base"), trial("other", {"base"})};
  experiment.trials[0].depends.push_back({"base", Condition::finished, ""});
  const Planning planning = make_plan(experiment);
  ASSERT_THAT(planning.plan.nodes[0].needs, SizeIs(2));
  EXPECT_EQ(planning.plan.nodes[0].needs[0].condition, Condition::started);
  EXPECT_EQ(planning.plan.nodes[0].needs[1].condition, Condition::finished);
  EXPECT_THAT(planning.plan.nodes[1].needed_by, SizeIs(3));
}

TEST(MakePlan, ALongChainIsPlanned) {
  Experiment experiment;
  constexpr std::size_t k_length = 200'000;
  for (std::size_t i = 0; i < k_length; ++i) {
    Trial link;
    link.name = name(i);
    if (i + 1 < k_length) link.depends.push_back({name(i + 1), Condition::started, ""});
    experiment.trials.push_back(std::move(link));
  }
  const Planning planning = make_plan(experiment);
  EXPECT_THAT(planning.errors, IsEmpty());
  EXPECT_EQ(planning.plan.wave_count, k_length);
  EXPECT_EQ(planning.plan.nodes[0].wave, k_length - 1);
}

TEST(MakePlan, ALadderIsPlanned) {
  // Each rung has two trials, and each depends on both trials of the previous rung. The number of paths is 2
  // to the power of the number of rungs.
  Experiment experiment;
  constexpr std::size_t k_rungs = 25'000;
  for (std::size_t i = 0; i < k_rungs; ++i) {
    for (const char side : {'a', 'b'}) {
      experiment.trials.push_back(trial(fmt::format("{}{}", side, i)));
      if (i == 0) continue;
      for (const char other : {'a', 'b'}) {
        experiment.trials.back().depends.push_back(
            {fmt::format("{}{}", other, i - 1), Condition::started, ""});
      }
    }
  }
  const Planning planning = make_plan(experiment);
  EXPECT_THAT(planning.errors, IsEmpty());
  EXPECT_EQ(planning.plan.wave_count, k_rungs);
}

TEST(MakePlan, TheErrorNamesACycle) {
  Experiment experiment;
  experiment.trials = {trial("behind", {"aa"}), trial("aa", {"bb"}), trial("bb", {"aa", "base"}),
                       trial("base")};
  EXPECT_THAT(messages(make_plan(experiment)), ElementsAre(HasSubstr("aa → bb → aa")));
}

TEST(MakePlan, TheErrorsNameEachCycleOnce) {
  Experiment experiment;
  experiment.trials = {trial("aa", {"bb", "xx"}), trial("bb", {"aa"}), trial("xx", {"yy"}),
                       trial("yy", {"xx"})};
  EXPECT_THAT(messages(make_plan(experiment)),
              ElementsAre(HasSubstr("aa → bb → aa"), HasSubstr("xx → yy → xx")));
}

TEST(MakePlan, ACycleOfTenThousandTrialsIsShortened) {
  Experiment experiment;
  constexpr std::size_t k_length = 10'000;
  for (std::size_t i = 0; i < k_length; ++i)
    experiment.trials.push_back(trial(name(i), {name((i + 1) % k_length)}));
  EXPECT_THAT(messages(make_plan(experiment)),
              ElementsAre(HasSubstr("t0 → t1 → t2 → … (9,996 more) … → t9999 → t0")));
}

TEST(MakePlan, ATrialThatDependsOnItselfIsOneError) {
  Experiment experiment;
  experiment.trials = {trial("aa", {"aa"}), trial("bb", {"aa"})};
  EXPECT_THAT(messages(make_plan(experiment)), ElementsAre("aa.depends: `aa` depends on itself"));
}

TEST(MakePlan, TheErrorOfADuplicateNameNamesBothTrials) {
  Experiment experiment;
  experiment.trials = {trial("aa"), trial("bb"), trial("aa"), trial("user", {"aa"})};
  experiment.trials[0].path = "trials[0]";
  experiment.trials[2].path = "trials[2]";
  EXPECT_THAT(messages(make_plan(experiment)),
              ElementsAre(StartsWith("trials[2].name: `aa` is also the name of trials[0]")));
}

TEST(MakePlan, TheErrorOfAnUnknownNameSuggestsTheNearestName) {
  Experiment experiment;
  experiment.trials = {trial("loader"), trial("solver", {"laoder"}), trial("other", {"nothing-like-it"})};
  EXPECT_THAT(messages(make_plan(experiment)),
              ElementsAre(HasSubstr("no trial is named `laoder`: did you mean `loader`?"),
                          Not(HasSubstr("did you mean"))));
}

TEST(MakePlan, TheNumberOfSuggestionsIsLimited) {
  Experiment experiment;
  for (std::size_t i = 0; i < 50'000; ++i)
    experiment.trials.push_back(trial(name(i), {fmt::format("unknown-{}", i)}));
  EXPECT_THAT(make_plan(experiment).errors, SizeIs(50'000));
}

TEST(MakePlan, OneMisspeltNameIsOneError) {
  Experiment experiment;
  experiment.trials.push_back(trial("loader"));
  for (std::size_t i = 0; i < 100; ++i) experiment.trials.push_back(trial(name(i), {"laoder"}));
  EXPECT_THAT(messages(make_plan(experiment)), ElementsAre(HasSubstr("(and 99 more like this)")));
}

TEST(MakePlan, TrialsWithoutANameAreSkipped) {
  Experiment experiment;
  experiment.trials = {trial(""), trial(""), trial("aa")};
  EXPECT_THAT(make_plan(experiment).errors, IsEmpty());
}

// ---- Ports of the host

Trial with_ports(std::string called, std::vector<Port> ports) {
  Trial made = trial(std::move(called));
  made.container.ports = std::move(ports);
  return made;
}

std::size_t conflicts(const Port& one, const Port& other) {
  Experiment experiment;
  experiment.trials = {with_ports("aa", {one}), with_ports("bb", {other})};
  return make_plan(experiment).errors.size();
}

TEST(SharedPorts, AllAddressesConflictWithEachAddress) {
  for (const std::string ip : {"", "0.0.0.0", "127.0.0.1"}) {
    EXPECT_EQ(conflicts({"", 80, 80, "tcp"}, {ip, 80, 81, "tcp"}), 1U) << ip;
    EXPECT_EQ(conflicts({ip, 80, 81, "tcp"}, {"", 80, 80, "tcp"}), 1U) << ip;
    EXPECT_EQ(conflicts({"0.0.0.0", 80, 80, "tcp"}, {ip, 80, 81, "tcp"}), 1U) << ip;
    EXPECT_EQ(conflicts({ip, 80, 80, "tcp"}, {"0.0.0.0", 80, 81, "tcp"}), 1U) << ip;
  }
  EXPECT_EQ(conflicts({"::", 80, 80, "tcp"}, {"::1", 80, 81, "tcp"}), 1U);
  EXPECT_EQ(conflicts({"", 80, 80, "tcp"}, {"::1", 80, 81, "tcp"}), 1U);
}

TEST(SharedPorts, OtherAddressesProtocolsAndPortsDoNotConflict) {
  EXPECT_EQ(conflicts({"127.0.0.1", 80, 80, "tcp"}, {"127.0.0.2", 80, 80, "tcp"}), 0U);
  EXPECT_EQ(conflicts({"0.0.0.0", 80, 80, "tcp"}, {"::1", 80, 80, "tcp"}), 0U);
  EXPECT_EQ(conflicts({"", 80, 80, "tcp"}, {"", 80, 80, "udp"}), 0U);
  EXPECT_EQ(conflicts({"", 80, 80, "tcp"}, {"", 81, 80, "tcp"}), 0U);
}

TEST(SharedPorts, TheErrorNamesBothTrialsAndThePort) {
  Experiment experiment;
  experiment.trials = {with_ports("aa", {{"", 8080, 80, "tcp"}}),
                       with_ports("bb", {{"127.0.0.1", 8080, 80, "tcp"}})};
  EXPECT_THAT(
      messages(make_plan(experiment)),
      ElementsAre("[1].ports: `bb` publishes the host's port 127.0.0.1:8080/tcp, but `aa` ([0]) publishes "
                  "8080/tcp; use different ports"));
}

TEST(SharedPorts, APortThatManyTrialsPublishIsOneError) {
  Experiment experiment;
  for (std::size_t i = 0; i < 10'000; ++i)
    experiment.trials.push_back(with_ports(name(i), {{"", 8080, 80, "tcp"}}));
  EXPECT_THAT(messages(make_plan(experiment)), ElementsAre(HasSubstr("(and 9998 more like this)")));
}

TEST(SharedPorts, ATrialCannotPublishAPortTwice) {
  Experiment experiment;
  experiment.trials = {with_ports("aa", {{"", 8080, 80, "tcp"}, {"", 8080, 81, "tcp"}})};
  EXPECT_THAT(messages(make_plan(experiment)),
              ElementsAre("[0].ports: `aa` publishes the host's port 8080/tcp twice"));
}

}  // namespace
