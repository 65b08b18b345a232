// release(), and the networks of attempts.

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "conformance/engine_suite.hpp"

namespace combu::conformance {
namespace {

TEST_P(EngineSuite, ReleaseRemovesOnlyTheSelectedAttempts) {
  subject().make_stranger("release-stranger", 0);
  const Run run =
      ready("release", {subject().runs_until_stopped("release-a"), subject().exits_with("release-b", 1)});
  const Run other = ready("release-other", {subject().runs_until_stopped("release-c")});
  start_all(run);
  start_all(other);
  Watcher watcher(subject(), all_of(run));
  std::pair<std::size_t, std::size_t> progress;
  std::size_t found = 0;
  const Released released = engine().release(all_of(run),
                                             {.found =
                                                  [&](const std::vector<Observation>& attempts) {
                                                    found = attempts.size();
                                                    return std::set<Key>();
                                                  },
                                              .removed =
                                                  [&](std::size_t done, std::size_t all) {
                                                    progress = {done, all};
                                                  }},
                                             {});
  EXPECT_EQ(released.attempts, 2U);
  EXPECT_THAT(words(released.left), testing::IsEmpty());
  EXPECT_EQ(progress, std::pair(std::size_t{2}, std::size_t{2}));
  EXPECT_TRUE(watcher.wait_for("release-a", Phase::gone));
  EXPECT_TRUE(watcher.wait_for("release-b", Phase::gone));
  EXPECT_THAT(list_all("release"), testing::IsEmpty());
  EXPECT_EQ(list_all("release-other").at(0).phase, Phase::running);
  EXPECT_TRUE(subject().stranger_runs("release-stranger"));

  const Released again = engine().release(all_of(run), {}, {});
  EXPECT_EQ(again.attempts, 0U);
  EXPECT_THAT(words(again.left), testing::IsEmpty());
}

TEST_P(HostSuite, ReleaseKeepsTheChosenAttemptsAndTheirNetworks) {
  Trial kept = subject().leaves("kept-over");
  Trial running = subject().runs_until_stopped("kept-running");
  Trial gone = subject().runs_until_stopped("kept-gone");
  kept.container.networks = {"combu-net-kept"};
  gone.container.networks = {"combu-net-kept", "combu-net-gone"};
  const Run run = ready("release-kept", {kept, running, gone});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("kept-over", Phase::ended));
  const ReleaseCallbacks keeping{.found = [&](const std::vector<Observation>& attempts) {
    EXPECT_EQ(attempts.size(), 3U);
    return std::set<Key>{key_of(run, "kept-over"), key_of(run, "kept-running")};
  }};
  const Released released = engine().release(all_of(run), keeping, {});
  EXPECT_EQ(released.attempts, 1U);
  EXPECT_EQ(released.networks, 1U);
  EXPECT_THAT(released.experiments, testing::ElementsAre("release-kept"));
  EXPECT_THAT(words(released.left), testing::IsEmpty());
  ASSERT_EQ(released.in_use.size(), 1U);
  EXPECT_EQ(released.in_use[0].subject(), "combu-net-kept");
  EXPECT_THAT(names(all_of(run)), testing::UnorderedElementsAre("kept-over", "kept-running"));
  EXPECT_TRUE(subject().has_network("combu-net-kept"));
  EXPECT_FALSE(subject().has_network("combu-net-gone"));
  for (const Observation& seen : list_all("release-kept"))
    EXPECT_EQ(seen.phase, seen.key.trial == "kept-over" ? Phase::ended : Phase::running) << seen.key.trial;
  std::string archive;
  EXPECT_TRUE(engine().copy_out(key_of(run, "kept-over"), "/out",
                                [&](std::string_view piece) { archive += piece; }, {}));
  EXPECT_THAT(archive, testing::HasSubstr("kept\n"));

  const Released rest = engine().release(all_of(run), {}, {});
  EXPECT_EQ(rest.attempts, 2U);
  EXPECT_EQ(rest.networks, 1U);
  EXPECT_FALSE(subject().has_network("combu-net-kept"));
}

// In a worker, the second attempt runs beside the result of the first one.
TEST_P(EngineSuite, ReleaseRemovesAnAttemptBesideAKeptOne) {
  const Run run = ready("release-beside", {subject().says("beside-over", {"kept"}, {}),
                                           subject().runs_until_stopped("beside-gone")});
  const Trial& over = run.experiment.trials.at(0);
  const Trial& gone = run.experiment.trials.at(1);
  Watcher watcher(subject(), all_of(run));
  (void)engine().start(run, over, 1, {});
  ASSERT_TRUE(watcher.wait_for(over.name, Phase::ended));
  (void)engine().start(run, gone, 1, {});
  ASSERT_TRUE(watcher.wait_for(gone.name, Phase::running));
  const ReleaseCallbacks keeping{.found = [&](const std::vector<Observation>&) {
    return std::set<Key>{key_of(run, over.name), key_of(run, "no-such-trial")};
  }};
  const Released released = engine().release(all_of(run), keeping, {});
  EXPECT_EQ(released.attempts, 1U);
  EXPECT_THAT(words(released.left), testing::IsEmpty());
  EXPECT_TRUE(watcher.wait_for(gone.name, Phase::gone));
  EXPECT_THAT(names(all_of(run)), testing::ElementsAre(over.name));
  EXPECT_EQ(logs_of(run, over.name, {}, LogStream::out), "kept\n");
  EXPECT_EQ(engine().release(all_of(run), keeping, {}).attempts, 0U);
}

TEST_P(EngineSuite, ReleaseOfTrialsKeepsTheOtherTrials) {
  const Run run =
      ready("release-some", {subject().runs_until_stopped("some-a"), subject().runs_until_stopped("some-b")});
  start_all(run);
  Selector selector = all_of(run);
  selector.trials = {"some-b", "unknown"};
  EXPECT_EQ(engine().release(selector, {}, {}).attempts, 1U);
  EXPECT_THAT(names(all_of(run)), testing::ElementsAre("some-a"));
}

TEST_P(EngineSuite, ReleaseOfARunKeepsOtherRuns) {
  const Run first = ready("release-run", {subject().runs_until_stopped("run-a")});
  const Run second = ready("release-run", {subject().runs_until_stopped("run-b")});
  start_all(first);
  start_all(second);
  Selector selector;
  selector.run = first.id;
  EXPECT_EQ(engine().release(selector, {}, {}).attempts, 1U);
  EXPECT_THAT(names(all_of(second)), testing::ElementsAre("run-b"));
}

// ---- networks

TEST_P(HostSuite, PrepareCreatesNetworksAndReleaseRemovesThem) {
  Trial trial = subject().runs_until_stopped("net-a");
  trial.container.networks = {"combu-net-1", "combu-net-2"};
  const Run run = ready("net", {trial});
  EXPECT_TRUE(subject().has_network("combu-net-1"));
  EXPECT_TRUE(subject().has_network("combu-net-2"));
  start_all(run);
  Selector one = all_of(run);
  one.trials = {"net-a"};
  EXPECT_EQ(engine().release(one, {}, {}).networks, 0U);
  EXPECT_TRUE(subject().has_network("combu-net-1"));
  EXPECT_EQ(engine().release(all_of(run), {}, {}).networks, 2U);
  EXPECT_FALSE(subject().has_network("combu-net-1"));
  EXPECT_FALSE(subject().has_network("combu-net-2"));
}

TEST_P(HostSuite, NetworksThatCombuDidNotCreateAreUsedAndKept) {
  subject().make_strange_network("combu-net-strange");
  Trial trial = subject().runs_until_stopped("net-shared-a");
  trial.container.networks = {"combu-net-strange"};
  const Run run = ready("net-shared", {trial});
  start_all(run);
  const Released released = engine().release(all_of(run), {}, {});
  EXPECT_EQ(released.attempts, 1U);
  EXPECT_EQ(released.networks, 0U);
  EXPECT_TRUE(subject().has_network("combu-net-strange"));
}

TEST_P(HostSuite, ANetworkInUseIsKeptAndReported) {
  Trial mine = subject().runs_until_stopped("net-mine");
  Trial guest = subject().runs_until_stopped("net-guest");
  mine.container.networks = guest.container.networks = {"combu-net-used"};
  const Run run = ready("net-used", {mine});
  const Run visitor = ready("net-visitor", {guest});
  start_all(run);
  start_all(visitor);
  const Released released = engine().release(all_of(run), {}, {});
  EXPECT_EQ(released.attempts, 1U);
  EXPECT_EQ(released.networks, 0U);
  EXPECT_THAT(words(released.left), testing::IsEmpty());
  ASSERT_EQ(released.in_use.size(), 1U);
  EXPECT_EQ(released.in_use[0].subject(), "combu-net-used");
  EXPECT_TRUE(subject().has_network("combu-net-used"));
  EXPECT_EQ(list_all("net-visitor").at(0).phase, Phase::running);
  const Released last = engine().release(all_of(visitor), {}, {});
  EXPECT_EQ(last.attempts, 1U);
  EXPECT_EQ(last.networks, 1U) << "nothing is left of the experiment that it was made for";
  EXPECT_FALSE(subject().has_network("combu-net-used"));
}

TEST_P(HostSuite, ANetworkIsKeptWhileItsExperimentHasAttempts) {
  Trial mine = subject().runs_until_stopped("net-host");
  Trial guest = subject().runs_until_stopped("net-caller");
  guest.container.networks = {"combu-net-lent"};
  Trial alone = subject().runs_until_stopped("net-alone");
  alone.container.networks = {"combu-net-lent"};
  const Run run = ready("net-lender", {mine, alone});
  const Run visitor = ready("net-borrower", {guest});
  engine().start(run, mine, 1, {});
  start_all(visitor);
  EXPECT_EQ(engine().release(all_of(visitor), {}, {}).networks, 0U);
  EXPECT_TRUE(subject().has_network("combu-net-lent"));
}

}  // namespace
}  // namespace combu::conformance
