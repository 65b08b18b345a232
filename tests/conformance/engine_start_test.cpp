// facts(), start(), usage() and health.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "conformance/engine_suite.hpp"

namespace combu::conformance {
namespace {

TEST_P(HostSuite, FactsDescribeTheEngine) {
  const Facts facts = engine().facts({});
  EXPECT_NE(facts.engine, "");
  EXPECT_NE(facts.address, "");
  EXPECT_GT(facts.capacity.cpus.nano, 0);
  EXPECT_GT(facts.capacity.memory.count, 0);
}

TEST_P(HostSuite, AStartedTrialRunsAndIsListed) {
  const Run run = ready("started", {subject().runs_until_stopped("started-a")});
  Watcher watcher(subject(), all_of(run));
  const StartResult result = engine().start(run, run.experiment.trials[0], 1, {});
  ASSERT_TRUE(std::holds_alternative<Running>(result));
  EXPECT_EQ(std::get<Running>(result).observation.phase, Phase::running);
  const std::optional<Observation> watched = watcher.wait_for("started-a", Phase::running);
  ASSERT_TRUE(watched);
  EXPECT_EQ(watched->key, key_of(run, "started-a"));
  EXPECT_EQ(watched->experiment, "started");

  const std::vector<Observation> listed = list_all("started");
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].key, key_of(run, "started-a"));
  EXPECT_EQ(listed[0].experiment, "started");
  EXPECT_EQ(listed[0].file, run.experiment.file);
  EXPECT_EQ(listed[0].phase, Phase::running);
  EXPECT_EQ(listed[0].health, Health::none);
  EXPECT_FALSE(listed[0].exit_code);
  EXPECT_NE(listed[0].id, "");
  EXPECT_EQ(listed[0].id, watched->id);
  EXPECT_NE(listed[0].status, "");
  EXPECT_NE(listed[0].created_at, Instant{});
}

TEST_P(EngineSuite, TheEndOfATrialIsReportedWithItsExitCode) {
  const Run run =
      ready("ends", {subject().exits_with("ends-well", 0), subject().exits_with("ends-badly", 3)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto well = watcher.wait_for("ends-well", Phase::ended);
  const auto badly = watcher.wait_for("ends-badly", Phase::ended);
  ASSERT_TRUE(well && badly);
  EXPECT_EQ(well->exit_code, 0);
  EXPECT_EQ(badly->exit_code, 3);
  for (const Observation& observation : list_settled("ends", has_ended)) {
    EXPECT_EQ(observation.exit_code, observation.key.trial == "ends-well" ? 0 : 3);
  }
}

TEST_P(EngineSuite, AFullListingContainsStartAndEndTimes) {
  const Run run =
      ready("times", {subject().exits_with("times-over", 3), subject().runs_until_stopped("times-on")});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("times-over", Phase::ended));
  for (const Observation& observation : engine().list(all_of(run), ListDetail::full, {})) {
    const bool is_over = observation.key.trial == "times-over";
    ASSERT_TRUE(observation.ran_at) << observation.key.trial;
    // An engine may round the time of creation to a second.
    EXPECT_GE(*observation.ran_at, observation.created_at) << observation.key.trial;
    ASSERT_EQ(observation.ended_at.has_value(), is_over);
    if (!is_over) continue;
    EXPECT_EQ(observation.exit_code, 3);
    EXPECT_GE(*observation.ended_at, *observation.ran_at);
    EXPECT_LT(*observation.ended_at - *observation.ran_at, std::chrono::minutes(1));
  }
}

TEST_P(EngineSuite, ARepeatedStartAdoptsTheRunningAttempt) {
  const Run run = ready("adopt", {subject().runs_until_stopped("adopt-a")});
  start_all(run);
  const std::vector<Observation> before = list_all("adopt");
  start_all(run);
  const std::vector<Observation> after = list_all("adopt");
  ASSERT_EQ(before.size(), 1U);
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(before[0].id, after[0].id);
}

TEST_P(EngineSuite, ARepeatedStartKeepsTheEndedAttempt) {
  const Run run = ready("adopt-ended", {subject().exits_with("adopt-ended-a", 4)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto ended = watcher.wait_for("adopt-ended-a", Phase::ended);
  ASSERT_TRUE(ended);
  start_all(run);
  const std::vector<Observation> listed = list_settled("adopt-ended", has_ended);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].id, ended->id);
  EXPECT_EQ(listed[0].phase, Phase::ended);
  EXPECT_EQ(listed[0].exit_code, 4);
}

TEST_P(HostSuite, TheNextAttemptReplacesAnEndedOne) {
  const Run run = ready("again", {subject().exits_with("again-a", 4)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("again-a", Phase::ended));
  engine().start(run, run.experiment.trials[0], 2, {});
  const std::vector<Observation> listed = list_settled("again", has_ended);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].key.attempt, 2);
}

TEST_P(HostSuite, TheNextAttemptDoesNotReplaceARunningOne) {
  const Run run = ready("alive", {subject().runs_until_stopped("alive-a")});
  start_all(run);
  EXPECT_EQ(kind_of([&] { engine().start(run, run.experiment.trials[0], 2, {}); }), ErrorKind::conflict);
  const std::vector<Observation> listed = list_all("alive");
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].key.attempt, 1);
  EXPECT_EQ(listed[0].phase, Phase::running);
}

TEST_P(EngineSuite, AnAttemptThatExceedsItsMemoryIsReportedAsOutOfMemory) {
  Trial trial = subject().eats("eats-a", Bytes{std::int64_t{256} << 20});
  trial.slots.memory = Bytes{std::int64_t{32} << 20};
  const Run run = ready("eats", {trial});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto ended = watcher.wait_for("eats-a", Phase::ended);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->oom);
  EXPECT_FALSE(ended->stopped);
  EXPECT_EQ(ended->exit_code, 137);
  const std::vector<Observation> listed = list_settled("eats", has_ended);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_TRUE(listed[0].oom);
}

TEST_P(HostSuite, UsageIsReportedWhileTheAttemptRuns) {
  const Run run = ready("usage", {subject().runs_until_stopped("usage-a")});
  const Trial& trial = run.experiment.trials[0];
  const std::string id = std::get<Running>(engine().start(run, trial, 1, {})).observation.id;
  std::optional<Usage> usage;
  // For a moment after its start, a program may use no memory yet.
  (void)list_settled("usage", [&](const Observation&) {
    usage = engine().usage(id, {});
    return usage && usage->memory.count > 0;
  });
  ASSERT_TRUE(usage);
  EXPECT_GE(usage->cpu.count(), 0);
  engine().stop(key_of(run, "usage-a"), Seconds(0), {});
  ASSERT_FALSE(list_settled("usage", has_ended).empty());
  EXPECT_FALSE(engine().usage(id, {}));
  EXPECT_FALSE(engine().usage("0123456789ab", {}));
}

TEST_P(EngineSuite, AStoppedAttemptIsReportedAsStopped) {
  const Run run = ready("halted", {subject().runs_until_stopped("halted-a")});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  engine().stop(key_of(run, "halted-a"), Seconds(5), {});
  const auto ended = watcher.wait_for("halted-a", Phase::ended);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->stopped);
  EXPECT_FALSE(ended->oom);
}

TEST_P(EngineSuite, StartMayBeCalledFromManyThreads) {
  constexpr std::size_t k_count = 12;
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < k_count; ++i)
    trials.push_back(subject().runs_until_stopped("many-" + std::to_string(i)));
  const Run run = ready("many", std::move(trials));
  in_parallel(k_count, 6, [&](std::size_t i) { engine().start(run, run.experiment.trials[i], 1, {}); });
  EXPECT_EQ(list_all("many").size(), k_count);
}

TEST_P(HostSuite, AnAbsentImageIsNotFound) {
  Trial trial = subject().runs_until_stopped("imageless-a");
  trial.image = "combu-test-absent:never";
  const Run run = described("imageless", {trial});
  EXPECT_EQ(kind_of([&] { engine().start(run, trial, 1, {}); }), ErrorKind::not_found);
}

TEST_P(HostSuite, AStartThatTheEngineRefusesIsRefused) {
  const Run run = ready("refused", {subject().cannot_start("refused-a")});
  EXPECT_EQ(kind_of([&] { start_all(run); }), ErrorKind::refused);
  for (const Observation& observation : list_all("refused")) EXPECT_NE(observation.phase, Phase::running);
}

TEST_P(ContainerSuite, ANameOfAnotherContainerIsAConflict) {
  subject().make_stranger("conflict-a", 0);
  const Run run = ready("conflict", {subject().runs_until_stopped("conflict-a")});
  EXPECT_EQ(kind_of([&] { start_all(run); }), ErrorKind::conflict);
  EXPECT_TRUE(subject().stranger_runs("conflict-a"));
  EXPECT_THAT(list_all("conflict"), testing::IsEmpty());
}

TEST_P(HealthSuite, HealthIsReportedAndListed) {
  const Run run = ready("health", {subject().turns("health-good", Health::healthy),
                                   subject().turns("health-bad", Health::unhealthy)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  EXPECT_TRUE(watcher.wait_for("health-good", Health::healthy));
  EXPECT_TRUE(watcher.wait_for("health-bad", Health::unhealthy));
  const auto as_told = [](const Observation& observation) {
    return observation.health ==
           (observation.key.trial == "health-good" ? Health::healthy : Health::unhealthy);
  };
  for (const Observation& observation : list_settled("health", as_told))
    EXPECT_EQ(observation.phase, Phase::running);
}

}  // namespace
}  // namespace combu::conformance
