// The record of trials whose run was killed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "record_fixture.hpp"

namespace combu::test {
namespace {

TEST_F(RecordTest, AKillStopsOrBlocksUnfinishedTrials) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running),
                                    fact(1, TrialState::starting), fact(1, TrialState::succeeded)});
  kill(record, Instant(std::chrono::seconds(1'800'000'200)));
  const std::vector<TrialEntry> trials = record.trials(run.id);
  EXPECT_EQ(trials[0].state, TrialState::stopped);
  EXPECT_EQ(trials[0].cause, Cause::stopped);
  EXPECT_EQ(trials[0].reason, "removed by `combu kill`");
  EXPECT_EQ(trials[1].state, TrialState::succeeded);
  EXPECT_EQ(trials[2].state, TrialState::blocked);
  EXPECT_TRUE(record.run(run.id).ended_at);
}

TEST_F(RecordTest, AKillIsNotWrittenIfTheRunHasChanged) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running)});
  const auto stamp = record.stamp(run.id);
  const std::vector<std::string> names{"one", "two", "three"};
  const std::vector<Fact> facts = facts_of_kill(run.id, names, record.restored_trials(run.id), {},
                                                Instant(std::chrono::seconds(1'800'000'200)));
  EXPECT_EQ(facts.size(), 3U);
  record.append(run.id, std::vector{failure(0, TrialState::failed, 1, Cause::error, 3)});
  EXPECT_FALSE(record.append_if_unchanged(run.id, facts, stamp, Record::RunEnds::with_last_trial));
  EXPECT_EQ(record.trials(run.id)[0].state, TrialState::failed);
  EXPECT_EQ(record.trials(run.id)[1].state, TrialState::waiting);
  EXPECT_FALSE(record.run(run.id).ended_at);
  EXPECT_TRUE(record.append_if_unchanged(run.id, {}, record.stamp(run.id), Record::RunEnds::no));
}

// A trial that only waits for the collection of its outputs has not failed.
TEST_F(RecordTest, AKillKeepsAnEarlierFailure) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact ended = fact(1, TrialState::collecting);
  ended.exit_code = 0;
  Fact failed = failure(2, TrialState::collecting, 1, Cause::error, 3);
  failed.details = {.next = Next::collect, .next_why = "the disk is full"};
  Fact tried = failure(0, TrialState::retrying, 1, Cause::error, 7);
  tried.details = {.next = Next::attempt, .pause = Seconds(5)};
  for (TrialIndex trial = 0; trial < 3; ++trial)
    record.append(run.id, std::vector{fact(trial, TrialState::starting), fact(trial, TrialState::running)});
  record.append(run.id, std::vector{tried, ended, failed});
  kill(record, Instant(std::chrono::seconds(1'800'000'200)));
  const std::vector<TrialEntry> trials = record.trials(run.id);
  EXPECT_EQ(trials[0].state, TrialState::failed);
  EXPECT_EQ(reason_text(trials[0]), "exit code 7");
  EXPECT_EQ(trials[1].state, TrialState::stopped);
  EXPECT_EQ(trials[1].cause, Cause::stopped);
  EXPECT_EQ(reason_text(trials[1]), "removed by `combu kill` before its outputs were collected");
  EXPECT_EQ(trials[2].state, TrialState::failed);
  EXPECT_EQ(trials[2].cause, Cause::error);
  EXPECT_EQ(reason_text(trials[2]), "exit code 3; removed by `combu kill` before its outputs were collected");
}

TEST_F(RecordTest, AKillDoesNotChangeTrialsWhoseContainersAreKept) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact ended = fact(0, TrialState::collecting);
  ended.exit_code = 0;
  ended.details = {.next = Next::collect, .next_why = "disk full"};
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running), ended,
                                    fact(1, TrialState::starting), fact(1, TrialState::running)});
  kill(record, Instant(std::chrono::seconds(1'800'000'200)), std::vector<std::string>{"one"});
  std::vector<TrialEntry> trials = record.trials(run.id);
  EXPECT_EQ(trials[0].state, TrialState::collecting);
  EXPECT_EQ(reason_text(trials[0]), "its outputs are not collected yet: disk full");
  EXPECT_EQ(trials[1].state, TrialState::stopped);
  EXPECT_EQ(trials[1].reason, "removed by `combu kill`");
  EXPECT_EQ(trials[2].state, TrialState::blocked);
  EXPECT_FALSE(record.run(run.id).ended_at);
  // A later kill removes the container.
  kill(record, Instant(std::chrono::seconds(1'800'000'300)));
  trials = record.trials(run.id);
  EXPECT_EQ(reason_text(trials[0]), "removed by `combu kill` before its outputs were collected");
  EXPECT_EQ(trials[1].reason, "removed by `combu kill`");
  EXPECT_TRUE(record.run(run.id).ended_at);
}

// A reopened trial that has not run again counts as not started.
TEST_F(RecordTest, AKillIgnoresAttemptsBeforeARetry) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running),
                                    failure(0, TrialState::failed, 1, Cause::error, 3)});
  const Instant at(std::chrono::seconds(1'800'000'100));
  record.reopen(run.id, {.facts = reopened({0}), .at = at}, run.experiment);
  kill(record, Instant(std::chrono::seconds(1'800'000'200)));
  EXPECT_EQ(record.trials(run.id)[0].state, TrialState::blocked);
  EXPECT_EQ(record.trials(run.id)[0].reason, "not started: the run was killed");
}

TEST_F(RecordTest, CollectedOutputsAreOnRecord) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact ended = fact(0, TrialState::collecting);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running), ended});
  EXPECT_FALSE(record.trials(run.id)[0].collection);
  const CollectionResult collection{.files = 12, .size = Bytes{34567}, .left = {"out/pipe", "out/line\nend"}};
  record.append(run.id, std::vector{fact(0, TrialState::succeeded)}, {},
                std::vector{CollectedOutputs{.trial = 0, .attempt = 1, .collection = collection}});
  const std::vector<TrialEntry> trials = record.trials(run.id);
  ASSERT_TRUE(trials[0].collection);
  EXPECT_EQ(trials[0].collection->files, 12U);
  EXPECT_EQ(trials[0].collection->size.count, 34567);
  EXPECT_EQ(trials[0].collection->left, collection.left);
  EXPECT_FALSE(trials[1].collection);
  std::map<std::string, std::optional<CollectionResult>> events;
  record.events(run.id, "", [&](const EventEntry& event) {
    events[event.state] = event.collection;
    return true;
  });
  ASSERT_TRUE(events["collected"]);
  EXPECT_EQ(events["collected"]->files, 12U);
  EXPECT_EQ(events["collected"]->size.count, 34567);
  EXPECT_FALSE(events["succeeded"]);
}

}  // namespace
}  // namespace combu::test
