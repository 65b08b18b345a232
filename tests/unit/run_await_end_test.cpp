// await_end() on an engine whose listings and changes the test scripts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "unit/run_drive.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Each listing returns the next one of `lists`. watch() reports `changes`.
class ScriptedWatch final : public test::PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::vector<Observation> list(const Selector& /*selector*/, ListDetail /*look*/,
                                std::stop_token /*stop*/) override {
    return lists.at(listed++);
  }
  void watch(const Selector& /*selector*/, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    for (const Change& change : changes) {
      if (stop.stop_requested()) return;
      on_change(change);
      ++reported;
    }
  }
  std::vector<std::vector<Observation>> lists;
  std::vector<Change> changes;
  std::size_t listed = 0;
  std::size_t reported = 0;
};

class AwaitEndTest : public testing::Test {
 protected:
  static Observation seen(const std::string& trial, Phase phase, const std::string& id = "1") {
    return {.key = {.run = RunId("run1"), .trial = trial, .attempt = 1}, .id = id, .phase = phase};
  }
  std::vector<Observation> await(const Selector& selector = {}) {
    return await_end(engine_, selector, [&](const Observation& it) { told_.push_back(it.key.trial); }, {});
  }

  World world_{{}};
  std::unique_ptr<Engine> simulated_ = open_simulated(world_, 0);
  ScriptedWatch engine_{*simulated_};
  std::vector<std::string> told_;
};

TEST_F(AwaitEndTest, DoesNotWaitForAttemptsThatEndedOrNeverStarted) {
  engine_.lists = {{seen("a", Phase::ended), seen("b", Phase::created), seen("c", Phase::gone)}};
  EXPECT_EQ(await().size(), 3U);
  EXPECT_THAT(told_, ElementsAre("a", "c", "b"));
}

TEST_F(AwaitEndTest, WaitsForACreatedAttemptThatStartsMeanwhile) {
  engine_.lists = {{seen("a", Phase::running), seen("b", Phase::created)}};
  engine_.changes = {seen("b", Phase::created), seen("b", Phase::running), seen("a", Phase::ended),
                     seen("a", Phase::ended),   seen("x", Phase::ended),   seen("b", Phase::ended),
                     seen("b", Phase::running)};
  const std::vector<Observation> last = await();
  EXPECT_THAT(told_, ElementsAre("a", "b"));
  EXPECT_EQ(engine_.reported, 6U) << "it ends with the last trial";
  ASSERT_EQ(last.size(), 2U);
  EXPECT_EQ(last[1].phase, Phase::ended);
}

TEST_F(AwaitEndTest, IgnoresTheEndOfAnEarlierContainer) {
  engine_.lists = {{seen("a", Phase::running, "2")}};
  engine_.changes = {seen("a", Phase::ended, "1"), seen("a", Phase::ended, "2")};
  const std::vector<Observation> last = await();
  EXPECT_THAT(told_, ElementsAre("a"));
  EXPECT_EQ(last.at(0).id, "2");
}

// Each reconnection is followed by a listing.
TEST_F(AwaitEndTest, TheListingAfterAReconnectionShowsEndsAndRemovals) {
  engine_.lists = {{seen("a", Phase::running), seen("b", Phase::running), seen("c", Phase::ended)},
                   {seen("a", Phase::running), seen("b", Phase::ended)},
                   {}};
  engine_.changes = {Watching{}, Watching{}, Watching{}};
  const std::vector<Observation> last = await();
  EXPECT_THAT(told_, ElementsAre("c", "b", "a"));
  EXPECT_EQ(engine_.listed, 3U);
  ASSERT_EQ(last.size(), 3U);
  EXPECT_EQ(last[0].phase, Phase::gone);
  EXPECT_EQ(last[1].phase, Phase::ended);
  EXPECT_EQ(last[2].phase, Phase::ended);
}

TEST_F(AwaitEndTest, WaitsForAServiceOnlyIfItIsNamed) {
  Observation service = seen("s", Phase::running);
  service.service = true;
  engine_.lists = {{service}, {service}};
  EXPECT_THAT(await(), IsEmpty());
  Observation ended = service;
  ended.phase = Phase::ended;
  engine_.changes = {ended};
  EXPECT_EQ(await({.trials = {"s"}}).size(), 1U);
  EXPECT_THAT(told_, ElementsAre("s"));
}

}  // namespace
}  // namespace combu
