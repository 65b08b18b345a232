// The state from which another process continues a run, and waiting for another process that writes.

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "combu/record.hpp"
#include "experiments.hpp"
#include "record_folder.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::chrono::seconds k_begin{1'800'000'000};

class RecordPastTest : public testing::Test {
 protected:
  RecordPastTest() {
    RunEntry entry = entry_of(run_);
    entry.began_at = Instant(k_begin);
    entry.working_since = entry.began_at;
    record_.begin(entry, run_.experiment);
  }

  static Fact fact(TrialState state, int attempt, Cause cause = Cause::none) {
    Fact fact{.trial = 0, .state = state, .attempt = attempt, .cause = cause};
    fact.at = Instant(k_begin + std::chrono::seconds(attempt));
    return fact;
  }
  static Fact healthy(int attempt) {
    Fact healthy = fact(TrialState::running, attempt);
    healthy.healthy = true;
    return healthy;
  }
  void append(const std::vector<Fact>& facts) { record_.append(run_.id, facts); }
  [[nodiscard]] RestoredTrial restored() { return record_.restored_trials(run_.id).at(0); }

  Folder folder_{"combu-record-past"};
  combu::Run run_ = test::run("one two");
  Record record_{folder_.path()};
};

TEST_F(RecordPastTest, TheStopCauseBelongsToTheLastAttempt) {
  append({fact(TrialState::starting, 1), fact(TrialState::running, 1), healthy(1)});
  EXPECT_TRUE(restored().was_healthy);
  EXPECT_EQ(restored().stop_cause, Cause::none);
  append({fact(TrialState::running, 1, Cause::timeout)});
  EXPECT_EQ(restored().stop_cause, Cause::timeout);
  append({fact(TrialState::retrying, 1, Cause::timeout), fact(TrialState::starting, 2),
          fact(TrialState::running, 2)});
  EXPECT_EQ(restored().stop_cause, Cause::none);
  EXPECT_EQ(restored().attempt, 2);
  EXPECT_TRUE(restored().was_healthy) << "what depends on it has begun";
  EXPECT_THAT(restored().earlier, ElementsAre(Cause::timeout));
}

TEST_F(RecordPastTest, AHostPathKeepsItsFirstTarget) {
  record_.add_host_paths(run_.id, {{"/data", "/disk/one"}});
  record_.add_host_paths(run_.id, {{"/data", "/disk/two"}, {"/more", "/more"}});
  EXPECT_THAT(record_.run(run_.id).host_paths,
              ElementsAre(testing::Pair("/data", "/disk/one"), testing::Pair("/more", "/more")));
  record_.remove(std::vector{run_.id});
  record_.begin(entry_of(run_), run_.experiment);
  EXPECT_THAT(record_.run(run_.id).host_paths, IsEmpty());
}

TEST_F(RecordPastTest, ATrialIsNotHealthyBeforeItsHealthCheckPasses) {
  append({fact(TrialState::starting, 1), fact(TrialState::running, 1)});
  EXPECT_FALSE(restored().was_healthy);
}

TEST_F(RecordPastTest, OnlyALivingAttemptHasADeparture) {
  append({fact(TrialState::starting, 1), fact(TrialState::running, 1)});
  EXPECT_EQ(restored().departure, Departure::no);
  EXPECT_TRUE(restored().slots.empty());
  record_.apply_file(run_.id, {.text = {.source = "text"}, .departure = {{0, Departure::replaced}}},
                     run_.experiment);
  EXPECT_EQ(restored().departure, Departure::replaced);
  Fact replaced = fact(TrialState::retrying, 1, Cause::stopped);
  replaced.is_reset = true;
  append({replaced, fact(TrialState::starting, 2)});
  EXPECT_EQ(restored().departure, Departure::no);
}

TEST_F(RecordPastTest, OutputsBelongToTheLastAttempt) {
  append({fact(TrialState::starting, 1), fact(TrialState::running, 1)});
  record_.append(run_.id, {}, {},
                 std::vector{CollectedOutputs{.trial = 0, .attempt = 1, .collection = {.files = 3}}});
  EXPECT_EQ(record_.trials(run_.id).at(0).collection.value().files, 3U);
  append({fact(TrialState::retrying, 1, Cause::error), fact(TrialState::starting, 2)});
  EXPECT_FALSE(record_.trials(run_.id).at(0).collection);
}

TEST_F(RecordPastTest, AReopenedTrialIsShownWithItsNextAttempt) {
  append({fact(TrialState::starting, 1), fact(TrialState::failed, 1, Cause::error)});
  record_.reopen(run_.id, {.facts = reopened({0}), .at = Instant(k_begin + std::chrono::seconds(9))}, {});
  const TrialEntry trial = record_.trials(run_.id).at(0);
  EXPECT_EQ(trial.attempt, 2);
  EXPECT_EQ(trial.state, TrialState::waiting);
}

TEST_F(RecordPastTest, AReopenedRunHasNotEnded) {
  append({fact(TrialState::starting, 1), fact(TrialState::running, 1)});
  record_.end(run_.id, Instant(k_begin + std::chrono::seconds(5)));
  record_.apply_file(run_.id, {.text = {.source = "text"}, .departure = {{0, Departure::replaced}}},
                     run_.experiment);
  EXPECT_TRUE(record_.run(run_.id).ended_at);
  record_.apply_file(run_.id, {.text = {.source = "text"}, .opens = FileVersion::Opens::if_ended},
                     test::run("one two three").experiment);
  EXPECT_FALSE(record_.run(run_.id).ended_at);
}

// The deadline of a run counts from working_since.
TEST_F(RecordPastTest, AddedTrialsDoNotMoveTheDeadlineOfAnUnendedRun) {
  record_.apply_file(run_.id,
                     {.text = {.source = "text"},
                      .opens = FileVersion::Opens::if_ended,
                      .at = Instant(k_begin + std::chrono::seconds(100))},
                     test::run("one two three").experiment);
  EXPECT_EQ(record_.run(run_.id).working_since, Instant(k_begin));
}

// The delay is the time by which the clock was set back.
TEST_F(RecordPastTest, TimesAfterAClockSetBackAreShiftedByOneDelay) {
  append({fact(TrialState::starting, 100), fact(TrialState::failed, 100, Cause::error)});
  Record another(folder_.path());
  Fact starting = fact(TrialState::starting, 1);
  starting.trial = 1;
  starting.ready_at = starting.at;
  another.append(run_.id, std::vector{starting});
  const AttemptEntry two = another.attempts(run_.id, "two").at(0);
  EXPECT_EQ(two.ready_at, two.started_at);
  EXPECT_GE(two.started_at, Instant(k_begin + std::chrono::seconds(100)));
}

TEST_F(RecordPastTest, ARecordExistsAfterItsCreation) {
  EXPECT_TRUE(Record::exists(folder_.path()));
  EXPECT_FALSE(Record::exists(folder_.path() + "/other"));
}

// An operation waits for another process that writes, and reports the wait after two seconds.
TEST_F(RecordPastTest, AWaitForAnotherProcessIsReportedOnce) {
  SQLite::Database other(folder_.path() + "/record.sqlite", SQLite::OPEN_READWRITE);
  other.exec("BEGIN IMMEDIATE");
  int waits = 0;
  record_.on_wait([&] {
    ++waits;
    other.exec("COMMIT");
  });
  append({fact(TrialState::starting, 1)});
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(restored().state, TrialState::starting);
}

}  // namespace
}  // namespace combu::test
