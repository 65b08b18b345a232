// Engines that accept attempts and place them later.

#include <optional>
#include <string>
#include <variant>

#include "conformance/engine_suite.hpp"

namespace combu::conformance {
namespace {

using testing::HasSubstr;

TEST_P(PlacingSuite, FactsDescribeTheEngine) {
  const Facts facts = engine().facts({});
  EXPECT_NE(facts.engine, "");
  EXPECT_NE(facts.address, "");
  EXPECT_TRUE(facts.places_attempts);
  EXPECT_GT(facts.pending_max, 0U);
  EXPECT_TRUE(facts.capacity.empty());
  EXPECT_TRUE(engine().gpus({}).empty());
}

TEST_P(PlacingSuite, AnAcceptedTrialIsListedAndRunsLater) {
  const Run run = ready("placed", {subject().runs_until_stopped("placed-a")});
  Watcher watcher(subject(), all_of(run));
  ASSERT_TRUE(std::holds_alternative<Accepted>(engine().start(run, run.experiment.trials[0], 1, {})));
  ASSERT_EQ(list_all("placed").size(), 1U);
  const std::optional<Observation> watched = watcher.wait_for("placed-a", Phase::running);
  ASSERT_TRUE(watched);
  EXPECT_EQ(watched->key, key_of(run, "placed-a"));
  EXPECT_EQ(watched->experiment, "placed");
  EXPECT_EQ(watched->file, run.experiment.file);
  EXPECT_EQ(watched->placement.pending_reason, "");
  EXPECT_NE(watched->status, "");
  EXPECT_NE(watched->created_at, Instant{});
  const std::vector<Observation> listed = list_all("placed");
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].id, watched->id);
  EXPECT_EQ(listed[0].phase, Phase::running);
}

TEST_P(PlacingSuite, ATrialThatFitsNowhereIsPendingWithAReason) {
  Trial trial = subject().runs_until_stopped("nowhere-a");
  trial.slots.cpus = parse_cpus("4000");
  const Run run = ready("nowhere", {trial});
  Watcher watcher(subject(), all_of(run));
  EXPECT_TRUE(std::holds_alternative<Accepted>(engine().start(run, trial, 1, {})));
  const auto waits = [](const Observation& seen) {
    return seen.phase == Phase::pending && (seen.placement.pending_reason.find("cpu") != std::string::npos ||
                                            seen.placement.pending_reason.find("CPU") != std::string::npos);
  };
  EXPECT_TRUE(watcher.wait_for("the reason of nowhere-a", waits));
  EXPECT_THAT(list_settled("nowhere", waits), testing::SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<Accepted>(engine().start(run, trial, 1, {}))) << "it is adopted";
}

TEST_P(PlacingSuite, APendingTrialThatIsStoppedIsGone) {
  Trial trial = subject().runs_until_stopped("unplaced-a");
  trial.slots.cpus = parse_cpus("4000");
  const Run run = ready("unplaced", {trial});
  Watcher watcher(subject(), all_of(run));
  (void)engine().start(run, trial, 1, {});
  engine().stop(key_of(run, "unplaced-a"), std::nullopt, {});
  EXPECT_TRUE(watcher.wait_for("unplaced-a", Phase::gone));
  EXPECT_THAT(list_all("unplaced"), testing::IsEmpty());
}

TEST_P(PlacingSuite, AnAttemptThatCannotBeStartedEndsWithTheReason) {
  const Run run = ready("unstartable", {subject().cannot_start("unstartable-a")});
  Watcher watcher(subject(), all_of(run));
  (void)engine().start(run, run.experiment.trials[0], 1, {});
  const auto ended = watcher.wait_for("unstartable-a", Phase::ended);
  ASSERT_TRUE(ended);
  EXPECT_THAT(ended->placement.start_error, HasSubstr("/no/such/command"));
  EXPECT_FALSE(ended->exit_code);
  EXPECT_FALSE(ended->ran_at);
}

TEST_P(PlacingSuite, TheNextAttemptIsSeparate) {
  const Run run = ready("separate", {subject().exits_with("separate-a", 4)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("separate-a", Phase::ended));
  (void)engine().start(run, run.experiment.trials[0], 2, {});
  const auto again = [](const Observation& seen) { return seen.key.attempt == 2 && has_ended(seen); };
  const auto ended = watcher.wait_for("the second attempt", again);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->exit_code, 4);
}

}  // namespace
}  // namespace combu::conformance
