// stop(), list(), watch(), and stop tokens.

#include <future>
#include <optional>
#include <stop_token>
#include <vector>

#include "conformance/engine_suite.hpp"

namespace combu::conformance {
namespace {

// ---- stop

TEST_P(EngineSuite, StopEndsATrial) {
  const Run run =
      ready("stop", {subject().runs_until_stopped("stop-a"), subject().runs_until_stopped("stop-b")});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  engine().stop(key_of(run, "stop-a"), Seconds{5}, {});
  EXPECT_TRUE(watcher.wait_for("stop-a", Phase::ended));
  const std::vector<Observation> listed = list_settled("stop", [](const Observation& observation) {
    return observation.key.trial != "stop-a" || has_ended(observation);
  });
  for (const Observation& observation : listed) {
    EXPECT_EQ(observation.phase, observation.key.trial == "stop-a" ? Phase::ended : Phase::running);
  }
}

TEST_P(EngineSuite, StopOfAnEndedOrAbsentAttemptIsSuccess) {
  const Run run = ready("stop-twice", {subject().runs_until_stopped("stop-twice-a")});
  start_all(run);
  for (int i = 0; i < 2; ++i) engine().stop(key_of(run, "stop-twice-a"), Seconds{5}, {});
  engine().stop(key_of(run, "never-started"), std::nullopt, {});
  EXPECT_EQ(list_settled("stop-twice", has_ended).at(0).phase, Phase::ended);
}

TEST_P(EngineSuite, StopSelectsByKeyAndNotByName) {
  const Run run = ready("stop-key", {subject().runs_until_stopped("stop-key-a")});
  start_all(run);
  engine().stop({RunId("another"), "stop-key-a", 1}, Seconds{5}, {});
  engine().stop({run.id, "stop-key-a", 2}, Seconds{5}, {});
  EXPECT_EQ(list_all("stop-key").at(0).phase, Phase::running);
  subject().make_stranger("stop-key-stranger", 0);
  engine().stop(key_of(run, "stop-key-stranger"), Seconds{5}, {});
  EXPECT_TRUE(subject().stranger_runs("stop-key-stranger"));
}

// ---- list and watch

TEST_P(EngineSuite, ListSelectsByLabels) {
  subject().make_stranger("select-stranger", 0);
  const Run first =
      ready("select-1", {subject().runs_until_stopped("select-a"), subject().exits_with("select-b", 0)});
  const Run second = ready("select-2", {subject().runs_until_stopped("select-c")});
  start_all(first);
  start_all(second);
  using testing::UnorderedElementsAre;
  Selector selector;
  selector.experiment = "select-1";
  EXPECT_THAT(names(selector), UnorderedElementsAre("select-a", "select-b"));
  selector.trials = {"select-b", "select-c"};
  EXPECT_THAT(names(selector), UnorderedElementsAre("select-b"));
  selector = {};
  selector.file = second.experiment.file;
  EXPECT_THAT(names(selector), UnorderedElementsAre("select-c"));
  selector = {};
  selector.run = first.id;
  EXPECT_THAT(names(selector), UnorderedElementsAre("select-a", "select-b"));
  selector.experiment = "select-2";
  EXPECT_THAT(names(selector), testing::IsEmpty());
  EXPECT_THAT(names({}), testing::AllOf(testing::IsSupersetOf({"select-a", "select-b", "select-c"}),
                                        testing::Not(testing::Contains("select-stranger"))));
}

TEST_P(EngineSuite, WatchSelectsByLabels) {
  const Run watched = ready("watched", {subject().runs_until_stopped("watched-a")});
  const Run other = ready("unwatched", {subject().runs_until_stopped("unwatched-a")});
  Watcher watcher(subject(), all_of(watched));
  start_all(other);
  start_all(watched);
  EXPECT_TRUE(watcher.wait_for("watched-a", Phase::running));
  for (const Observation& observation : watcher.seen()) EXPECT_EQ(observation.experiment, "watched");
}

// ---- stop tokens

TEST_P(EngineSuite, ASetStopTokenCancelsEveryFunction) {
  const Run run = ready("cancel", {subject().runs_until_stopped("cancel-a")});
  start_all(run);
  const Key key = key_of(run, "cancel-a");
  const auto tell_log = [](const LogPiece&) {};
  EXPECT_EQ(kind_of([&] { (void)engine().facts(stopped()); }), ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { (void)engine().check(run, stopped()); }), ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] {
              (void)engine().prepare(
                  run, [](const Preparation&) {}, stopped());
            }),
            ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { engine().start(run, run.experiment.trials[0], 1, stopped()); }),
            ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { engine().stop(key, Seconds{1}, stopped()); }), ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { (void)engine().list(all_of(run), ListDetail::consistent, stopped()); }),
            ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { engine().logs(key, {}, tell_log, stopped()); }), ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { engine().release(all_of(run), {}, stopped()); }), ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] {
              engine().watch(
                  all_of(run), [](const Change&) {}, stopped());
            }),
            std::nullopt);
  EXPECT_EQ(list_all("cancel").at(0).phase, Phase::running);
}

TEST_P(EngineSuite, AStopTokenEndsAWatchAndAFollow) {
  const Run run = ready("follow", {subject().runs_until_stopped("follow-a")});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  watcher.wait_for("follow-a", Phase::running);
  LogOptions options;
  options.follow = true;
  std::stop_source stop;
  auto following = std::async(std::launch::async, [&] {
    return kind_of([&] {
      engine().logs(
          key_of(run, "follow-a"), options, [](const LogPiece&) {}, stop.get_token());
    });
  });
  stop.request_stop();
  EXPECT_EQ(following.get(), ErrorKind::cancelled);
  // If the watcher's stop token did not end its thread, this test would never end.
}

}  // namespace
}  // namespace combu::conformance
