// The record of a run whose file was edited, or whose trials are retried.

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "record_fixture.hpp"

namespace combu::test {
namespace {

TEST_F(RecordTest, AnEditedFileAddsAndChangesTrials) {
  Record record(folder.path());
  RunEntry entry = entry_of(run);
  entry.text.evaluated = "[1]";
  record.begin(entry, run.experiment);
  Experiment edited = experiment({"one", "two", "three", "four"});
  edited.trials[1].image = "new";
  record.apply_file(run.id, {.text = {.source = "text", .evaluated = "[2]"}, .digests = {}, .updated = {1}},
                    edited);
  const RunEntry read = record.run(run.id);
  EXPECT_EQ(read.text.evaluated, "[2]");
  EXPECT_EQ(read.text.source, "text");
  EXPECT_THAT(read.earlier, testing::ElementsAre("[1]"));
  const std::vector<TrialEntry> trials = record.trials(run.id);
  ASSERT_EQ(trials.size(), 4U);
  EXPECT_EQ(trials[0].revision, 1);
  EXPECT_EQ(trials[1].revision, 2);
  EXPECT_EQ(trials[1].image, "new");
  EXPECT_EQ(trials[3].name, "four");
  EXPECT_EQ(trials[3].revision, 2);
  EXPECT_EQ(trials[3].state, TrialState::waiting);
}

TEST_F(RecordTest, AReopenedRunHasTheImagesOfItsRetriedTrials) {
  Record record(folder.path());
  RunEntry entry = entry_of(run);
  entry.references = {{{"old", ""}, "old@sha256:1"}, {{"kept", ""}, "kept@sha256:1"}};
  record.begin(entry, run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::failed)});
  record.reopen(
      run.id,
      {.facts = reopened({0}), .references = {{{"old", ""}, "old@sha256:2"}, {{"new", ""}, "new@sha256:1"}}},
      run.experiment);
  EXPECT_EQ(record.run(run.id).references, (Digests{{{"old", ""}, "old@sha256:2"},
                                                    {{"kept", ""}, "kept@sha256:1"},
                                                    {{"new", ""}, "new@sha256:1"}}));
}

TEST_F(RecordTest, AReopenedTrialUsesTheNewestFileVersion) {
  Record record(folder.path());
  RunEntry entry = entry_of(run);
  entry.text.imports = R"({"/a":"01"})";
  record.begin(entry, run.experiment);
  EXPECT_EQ(record.run(run.id).text.imports, R"({"/a":"01"})");
  record.append(run.id, std::vector{failure(0, TrialState::failed, 1, Cause::error, 3)});
  Experiment edited = run.experiment;
  edited.trials[0].image = "new";
  edited.trials[0].params = R"({"lr":2})";
  record.apply_file(run.id, {.text = {.source = "text", .evaluated = "[2]", .imports = "{}"}}, edited);
  EXPECT_EQ(record.run(run.id).text.imports, "{}");
  EXPECT_EQ(record.trials(run.id)[0].revision, 1);
  record.reopen(run.id, {.facts = reopened({0}), .updated = {0}, .digests = {{{"new", ""}, "sha256:02"}}},
                edited);
  const TrialEntry trial = record.trials(run.id)[0];
  EXPECT_EQ(trial.state, TrialState::waiting);
  EXPECT_EQ(trial.revision, 2);
  EXPECT_EQ(trial.image, "new");
  EXPECT_EQ(trial.digest, "sha256:02");
  EXPECT_EQ(trial.params, R"({"lr":2})");
}

TEST_F(RecordTest, WithoutANewTextTheNewestFileVersionStays) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{failure(0, TrialState::failed, 1, Cause::error, 3),
                                    fact(1, TrialState::blocked), fact(2, TrialState::succeeded)});
  record.apply_file(
      run.id,
      {.facts = reopened({0, 1, 2}), .opens = FileVersion::Opens::always, .anew = {{0, false}, {2, true}}},
      run.experiment);
  EXPECT_THAT(record.run(run.id).earlier, testing::IsEmpty());
  const std::vector<RestoredTrial> restored = record.restored_trials(run.id);
  EXPECT_EQ(restored[0].state, TrialState::waiting);
  EXPECT_FALSE(restored[0].anew);
  EXPECT_EQ(restored[1].state, TrialState::waiting);
  EXPECT_TRUE(restored[2].anew);
}

TEST_F(RecordTest, AnEditedFileIsAppliedCompletelyOrNotAtAll) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running)});
  record.end(run.id, Instant(std::chrono::seconds(1'800'000'100)));
  const FileVersion file_version{
      .text = {.source = "text", .evaluated = "[2]"},
      .updated = {0},
      .facts = {failure(1, TrialState::stopped, 1, Cause::none, 0), reopened({2})[0]},
      .departure = {{0, Departure::replaced}},
      .opens = FileVersion::Opens::always,
      .at = Instant(std::chrono::seconds(1'800'000'200))};
  const Experiment edited = experiment({"one", "two", "three", "four"});
  SQLite::Database other(path(), SQLite::OPEN_READWRITE);
  other.exec("CREATE TRIGGER last BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'no'); END");
  EXPECT_THROW(record.apply_file(run.id, file_version, edited), Error);
  EXPECT_EQ(record.restored_trials(run.id)[0].state, TrialState::running);
  EXPECT_EQ(record.trial_count(run.id), 3U);
  EXPECT_THAT(record.run(run.id).earlier, testing::IsEmpty());
  other.exec("DROP TRIGGER last");
  record.apply_file(run.id, file_version, edited);
  EXPECT_EQ(record.restored_trials(run.id)[0].state, TrialState::running);
  EXPECT_EQ(record.restored_trials(run.id)[0].departure, Departure::replaced);
  EXPECT_EQ(record.restored_trials(run.id)[1].state, TrialState::stopped);
  EXPECT_EQ(record.trials(run.id, "four").at(0).revision, 2);
  EXPECT_EQ(record.run(run.id).working_since, file_version.at);
  EXPECT_FALSE(record.run(run.id).ended_at);
  Fact replaced = failure(0, TrialState::retrying, 1, Cause::stopped, 143);
  replaced.is_reset = true;
  record.append(run.id, std::vector{replaced});
  const RestoredTrial one = record.restored_trials(run.id)[0];
  EXPECT_EQ(one.state, TrialState::waiting);
  EXPECT_EQ(one.attempt, 2);
  EXPECT_EQ(one.departure, Departure::no);
}

TEST_F(RecordTest, ALeavingAttemptKeepsItsSlots) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact starting = fact(0, TrialState::starting);
  starting.slots = {.cpus = {2'000'000'000}, .memory = {1 << 20}, .gpus = {"0", "1"}};
  record.append(run.id, std::vector{starting});
  const Record::Stamp stamp = record.stamp(run.id);
  record.apply_file(
      run.id,
      {.text = {.source = "text", .evaluated = "[2]"}, .digests = {}, .departure = {{0, Departure::removed}}},
      run.experiment);
  EXPECT_NE(record.stamp(run.id), stamp);
  EXPECT_EQ(record.restored_trials(run.id)[0].departure, Departure::removed);
  EXPECT_EQ(record.restored_trials(run.id)[0].slots, starting.slots);
}

TEST_F(RecordTest, ARefusedFileVersionChangesNothing) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  EXPECT_THROW(record.apply_file(run.id, {.text = {.source = "text", .evaluated = "[2]"}},
                                 experiment({"one", "two", "three", "four"}),
                                 [] { throw Error(ErrorKind::conflict, "", "no"); }),
               Error);
  EXPECT_EQ(record.trial_count(run.id), 3U);
}

TEST_F(RecordTest, ARequestedRetryIsExecutedButABlockedTrialMayBeSkipped) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector<Fact>{fact(0, TrialState::skipped), fact(1, TrialState::blocked)});
  record.reopen(run.id,
                {.facts = reopened({0, 1}),
                 .anew = {{0, true}, {1, false}},
                 .at = Instant(std::chrono::seconds(1'800'000'200))},
                {});
  const std::vector<RestoredTrial> restored = record.restored_trials(run.id);
  EXPECT_EQ(restored[0].state, TrialState::waiting);
  EXPECT_TRUE(restored[0].anew);
  EXPECT_FALSE(restored[1].anew);
  EXPECT_FALSE(restored[2].anew);
}

TEST_F(RecordTest, AnAddedTrialChangesTheStampOfTheRun) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  const Record::Stamp stamp = record.stamp(run.id);
  record.apply_file(run.id, {.text = {.source = "text", .evaluated = "[4]"}},
                    experiment({"one", "two", "three", "four"}));
  EXPECT_FALSE(record.append_unwatched(run.id, {}, stamp, Record::RunEnds::with_last_trial));
  EXPECT_FALSE(record.run(run.id).ended_at);
}

}  // namespace
}  // namespace combu::test
