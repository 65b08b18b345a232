#include "combu/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

#include "record/schema.hpp"
#include "record_folder.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RecordTest : public testing::Test {
 protected:
  RecordTest() { run.experiment = experiment({"one", "two", "three"}); }

  static Experiment experiment(const std::vector<std::string>& names) {
    Experiment experiment{.name = "lab", .file = "/lab/experiment.jsonnet"};
    for (const std::string& name : names) {
      Trial trial;
      trial.name = name;
      experiment.trials.push_back(std::move(trial));
    }
    return experiment;
  }

  [[nodiscard]] std::string path() const { return folder.path() + "/record.sqlite"; }

  [[nodiscard]] std::string bytes() const {
    std::ostringstream text;
    text << std::ifstream(path(), std::ios::binary).rdbuf();
    return text.str();
  }

  void write(const std::string& text) const {
    std::filesystem::create_directories(folder.path());
    std::ofstream(path(), std::ios::binary) << text;
  }

  static Fact fact(TrialIndex trial, TrialState state, int attempt = 1) {
    Fact fact{.trial = trial, .state = state, .attempt = attempt};
    fact.at = Instant(std::chrono::seconds(1'800'000'000 + attempt));
    return fact;
  }

  static Fact failure(TrialIndex trial, TrialState state, int attempt, Cause cause, int exit_code) {
    Fact one = fact(trial, state, attempt);
    one.cause = cause;
    one.exit_code = exit_code;
    one.reason = "exit code " + std::to_string(exit_code);
    return one;
  }

  static Error error_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error;
    }
    return {ErrorKind::cancelled, "", "nothing was thrown"};
  }

  Folder folder{"combu-record"};
  combu::Run run{.id = RunId("run1"), .experiment = {}};
};

TEST_F(RecordTest, ARunIsThereAsItBegan) {
  RunEntry entry = entry_of(run);
  entry.source = "local uuid = 'UUID'; []";
  entry.evaluated = "[]";
  entry.arguments = R"(["combu","run"])";
  entry.revision = "0123abc";
  entry.revision_dirty = true;
  entry.address = "unix:///var/run/docker.sock";
  entry.began_at = Instant(std::chrono::seconds(1'800'000'000));
  Record(folder.path()).begin(entry, run.experiment);

  Record record(folder.path());
  const RunEntry seen = record.run(run.id);
  EXPECT_EQ(seen.source, entry.source);
  EXPECT_EQ(seen.evaluated, entry.evaluated);
  EXPECT_EQ(seen.arguments, entry.arguments);
  EXPECT_EQ(seen.revision, entry.revision);
  EXPECT_TRUE(seen.revision_dirty);
  EXPECT_EQ(seen.address, entry.address);
  EXPECT_EQ(seen.began_at, entry.began_at);
  EXPECT_EQ(seen.ended_at, std::nullopt);
  EXPECT_THAT(record.trials(run.id),
              ElementsAre(testing::Field(&TrialEntry::name, "one"), testing::Field(&TrialEntry::name, "two"),
                          testing::Field(&TrialEntry::name, "three")));
}

TEST_F(RecordTest, RunsAreFoundByFileTheNewestFirst) {
  Record record(folder.path());
  for (const char* id : {"run1", "run2", "run3"}) {
    run.id = RunId(id);
    run.experiment.file = id == std::string("run2") ? "/other" : "/lab/experiment.jsonnet";
    record.begin(entry_of(run), run.experiment);
  }
  const auto ids = [&](const RunFilter& filter) {
    std::vector<std::string> found;
    for (const RunEntry& entry : record.runs(filter, 10)) found.push_back(entry.id.text());
    return found;
  };
  EXPECT_THAT(ids({}), ElementsAre("run3", "run2", "run1"));
  EXPECT_THAT(ids({.id = {}, .experiment = {}, .file = "/lab/experiment.jsonnet"}),
              ElementsAre("run3", "run1"));
  EXPECT_THAT(ids({.id = RunId("run2"), .experiment = "lab", .file = {}}), ElementsAre("run2"));
  EXPECT_EQ(record.runs({}, 1).size(), 1U);
}

TEST_F(RecordTest, ARunsIdIsThereOnce) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  const Error error = error_of([&] { record.begin(entry_of(run), run.experiment); });
  EXPECT_EQ(error.kind(), ErrorKind::conflict);
  EXPECT_THAT(error.message(), HasSubstr("--resume"));
  EXPECT_EQ(error_of([&] { (void)record.run(RunId("other")); }).kind(), ErrorKind::not_found);
  EXPECT_EQ(
      error_of([&] { record.append(RunId("other"), std::vector{fact(0, TrialState::starting)}); }).kind(),
      ErrorKind::not_found);
}

TEST_F(RecordTest, FactsBecomeStates) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  const auto states = [&] {
    std::string text;
    for (const TrialEntry& one : record.trials(run.id))
      text += std::string(to_string(one.state)) + std::to_string(one.attempt) + " ";
    return text;
  };
  EXPECT_EQ(states(), "waiting1 waiting1 waiting1 ");
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(1, TrialState::starting)});
  EXPECT_EQ(states(), "starting1 starting1 waiting1 ");
  record.append(run.id, std::vector{fact(0, TrialState::running), fact(1, TrialState::running)});
  EXPECT_EQ(states(), "running1 running1 waiting1 ");
  record.append(run.id, std::vector{failure(0, TrialState::retrying, 1, Cause::oom, 137),
                                    failure(1, TrialState::failed, 1, Cause::error, 3)});
  EXPECT_EQ(states(), "retrying1 failed1 waiting1 ");
  Fact blocked = fact(2, TrialState::blocked);
  blocked.reason = "depends on `two`, which did not succeed";
  blocked.root = 1;
  record.append(run.id, std::vector{fact(0, TrialState::starting, 2), blocked});
  EXPECT_EQ(states(), "starting2 failed1 blocked1 ");

  const std::vector<Past> past = record.past(run.id);
  EXPECT_EQ(past[0].attempt, 2);
  EXPECT_THAT(past[0].earlier, ElementsAre(Cause::oom));
  EXPECT_TRUE(past[0].was_started);
  EXPECT_EQ(past[0].ran_at, std::nullopt);
  EXPECT_EQ(past[1].cause, Cause::error);
  EXPECT_EQ(past[1].exit_code, 3);
  EXPECT_EQ(past[1].reason, "exit code 3");
  EXPECT_EQ(past[1].ran_at, Instant(std::chrono::seconds(1'800'000'001)));
  EXPECT_EQ(past[2].root, 1U);
  EXPECT_EQ(past[2].reason, blocked.reason);
  EXPECT_FALSE(past[2].was_started);
}

TEST_F(RecordTest, OutputsAreOnTheirWayUntilTheyAreHome) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  const auto state_of = [&](TrialIndex trial) { return record.trials(run.id).at(trial).state; };
  Fact ended = failure(0, TrialState::collecting, 1, Cause::none, 0);
  ended.reason.clear();
  ended.usage = Usage{.memory = Bytes{5}, .cpu = Seconds(1)};
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running), ended,
                                    fact(1, TrialState::starting), fact(1, TrialState::running),
                                    failure(1, TrialState::collecting, 1, Cause::error, 3)});
  EXPECT_EQ(state_of(0), TrialState::collecting);
  EXPECT_EQ(record.counts(run.id)[static_cast<std::size_t>(TrialState::collecting)], 2U);
  EXPECT_EQ(record.attempts(run.id, "one").at(0).collected_at, std::nullopt);
  const auto stamp = record.stamp(run.id);
  std::vector<Past> past = record.past(run.id);
  EXPECT_EQ(past[0].state, TrialState::collecting);
  EXPECT_EQ(past[0].cause, Cause::none);
  EXPECT_EQ(past[0].exit_code, 0);
  EXPECT_EQ(past[1].cause, Cause::error);
  EXPECT_EQ(past[1].reason, "exit code 3");

  ended.reason = "its outputs are not home: disk full";
  record.append(run.id, std::vector{ended});
  EXPECT_EQ(record.trials(run.id, "one").at(0).reason, ended.reason);
  EXPECT_EQ(record.stamp(run.id), stamp);

  Fact done = fact(0, TrialState::succeeded);
  done.exit_code = 0;
  done.at += std::chrono::seconds(10);
  record.append(run.id, std::vector{done, failure(1, TrialState::retrying, 1, Cause::error, 3)});
  EXPECT_NE(record.stamp(run.id), stamp);
  EXPECT_EQ(state_of(0), TrialState::succeeded);
  EXPECT_EQ(state_of(1), TrialState::retrying);
  const TrialEntry one = record.trials(run.id, "one").at(0);
  EXPECT_EQ(one.reason, "");
  EXPECT_EQ(one.ended_at, ended.at);
  EXPECT_EQ(one.usage->memory, Bytes{5});
  EXPECT_EQ(record.attempts(run.id, "one").at(0).collected_at, done.at);
  std::string events;
  record.events(run.id, "one", [&](const EventEntry& event) {
    events += event.state + " ";
    return true;
  });
  EXPECT_EQ(events, "ready starting running ended collected succeeded ");
}

TEST_F(RecordTest, AKillTellsWhatHasNotComeHome) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running),
                                    failure(0, TrialState::collecting, 1, Cause::none, 0)});
  record.kill(run.id, Instant(std::chrono::seconds(1'800'000'100)));
  EXPECT_EQ(record.trials(run.id).at(0).state, TrialState::stopped);
  EXPECT_EQ(record.trials(run.id).at(0).reason, "removed by kill before its outputs were taken home");
}

TEST_F(RecordTest, ATrialIsToldWithItsLastAttempt) {
  run.experiment.trials[0].image = "lab/solver";
  run.experiment.trials[0].params = R"({"lr":0.1})";
  RunEntry entry = entry_of(run);
  entry.digests[{"lab/solver", ""}] = "sha256:0123";
  entry.evaluated_in = Seconds(0.25);
  entry.prepared_in = Seconds(1.5);
  Record record(folder.path());
  record.begin(entry, run.experiment);
  Fact running = fact(0, TrialState::running, 2);
  running.id = "c2";
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running),
                                    failure(0, TrialState::retrying, 1, Cause::error, 3),
                                    fact(0, TrialState::starting, 2), running});
  const std::vector<TrialEntry> one = record.trials(run.id, "one");
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].image, "lab/solver");
  EXPECT_EQ(one[0].digest, "sha256:0123");
  EXPECT_EQ(one[0].params, R"({"lr":0.1})");
  EXPECT_EQ(one[0].state, TrialState::running);
  EXPECT_EQ(one[0].attempt, 2);
  EXPECT_EQ(one[0].container, "c2");
  EXPECT_EQ(one[0].ran_at, running.at);
  EXPECT_EQ(one[0].ended_at, std::nullopt);
  EXPECT_EQ(one[0].exit_code, std::nullopt);
  EXPECT_EQ(one[0].cause, Cause::none);
  EXPECT_THAT(record.trials(run.id, "nobody"), testing::IsEmpty());
  EXPECT_EQ(record.run(run.id).evaluated_in, Seconds(0.25));
  EXPECT_EQ(record.run(run.id).prepared_in, Seconds(1.5));
  const TrialCounts counts = record.counts(run.id);
  EXPECT_EQ(counts[static_cast<std::size_t>(TrialState::running)], 1U);
  EXPECT_EQ(counts[static_cast<std::size_t>(TrialState::waiting)], 2U);
}

TEST_F(RecordTest, WhatTheEngineTookIsThereWithItsAttempt) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(1, TrialState::starting), fact(1, TrialState::running)});
  EXPECT_EQ(record.attempts(run.id, "two").at(0).created_in, std::nullopt);
  record.append(run.id, {},
                std::vector<Started>{
                    {.trial = 1, .attempt = 1, .created_in = Seconds(0.25), .started_in = Seconds(0.5)}});
  const AttemptEntry seen = record.attempts(run.id, "two").at(0);
  EXPECT_EQ(seen.created_in, Seconds(0.25));
  EXPECT_EQ(seen.started_in, Seconds(0.5));
}

TEST_F(RecordTest, NoTrialIsReadyBeforeTheRunsBeginning) {
  RunEntry entry = entry_of(run);
  entry.began_at = Instant(std::chrono::seconds(1'799'999'000));
  Record record(folder.path());
  record.begin(entry, run.experiment);
  Fact waited = fact(1, TrialState::starting);
  waited.ready_at = entry.began_at + std::chrono::seconds(30);
  Fact over = fact(0, TrialState::succeeded);
  over.at += std::chrono::seconds(30);
  record.append(run.id, std::vector{fact(0, TrialState::starting), waited, over});
  EXPECT_EQ(record.attempts(run.id, "one").at(0).ready_at, entry.began_at);
  EXPECT_EQ(record.attempts(run.id, "two").at(0).ready_at, waited.ready_at);
  EXPECT_EQ(record.past(run.id)[0].over_at, over.at);
  EXPECT_EQ(record.past(run.id)[1].over_at, std::nullopt);
  // The run is over, and reopened for a trial that is new.
  record.end(run.id, Instant(std::chrono::seconds(1'800'000'100)));
  Experiment edited = run.experiment;
  edited.trials.emplace_back().name = "four";
  Edition edition;
  edition.source = edition.evaluated = "[4]";
  edition.at = Instant(std::chrono::seconds(1'800'000'200));
  record.revise(run.id, edition, edited);
  Fact added = fact(3, TrialState::starting);
  added.at = edition.at + std::chrono::seconds(7);
  record.append(run.id, std::vector{added});
  const AttemptEntry four = record.attempts(run.id, "four").at(0);
  EXPECT_EQ(four.revision, 2);
  EXPECT_EQ(four.ready_at, edition.at);
}

TEST_F(RecordTest, AClockThatWasSetBackKeepsTheOrder) {
  constexpr std::chrono::hours k_back{2};
  RunEntry entry = entry_of(run);
  entry.began_at = Instant(std::chrono::seconds(1'800'000'000));
  entry.working_since = entry.began_at;
  {
    Record record(folder.path());
    record.begin(entry, run.experiment);
    record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running)});
  }
  // Another process goes on.
  Record record(folder.path());
  std::vector<Fact> later{fact(0, TrialState::succeeded), fact(1, TrialState::starting),
                          fact(1, TrialState::running), fact(1, TrialState::succeeded)};
  for (std::size_t i = 0; i < later.size(); ++i) {
    later[i].at = entry.began_at - k_back + std::chrono::seconds(i);
    later[i].ready_at = later[i].at;
  }
  record.append(run.id, later);
  record.end(run.id, later.back().at);
  std::vector<std::string> states;
  record.events(run.id, {}, [&](const EventEntry& event) {
    states.push_back(event.trial + " " + event.state);
    return true;
  });
  const auto place = [&](const std::string& state) {
    return std::ranges::find(states, state) - states.begin();
  };
  EXPECT_LT(place("one running"), place("one ended"));
  EXPECT_LT(place("one ended"), place("two running"));
  for (const AttemptEntry& attempt : record.attempts(run.id, {})) {
    EXPECT_LE(attempt.ready_at, attempt.started_at);
    EXPECT_LE(attempt.started_at, *attempt.ran_at);
    EXPECT_LE(*attempt.ran_at, *attempt.ended_at);
  }
  // What took place after the clock was set back took as long as it did.
  const AttemptEntry two = record.attempts(run.id, "two").at(0);
  EXPECT_EQ(*two.ended_at - *two.ran_at, std::chrono::seconds(1));
  EXPECT_GE(*record.run(run.id).ended_at, *two.ended_at);
}

TEST_F(RecordTest, InOneMomentTheCauseComesFirst) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  // "one" starts when "two" is over, and "three" has run for no time.
  const auto at = [](Fact fact, int second) {
    fact.at = fact.ready_at = Instant(std::chrono::seconds(1'800'000'000 + second));
    return fact;
  };
  std::vector<Fact> facts{at(fact(1, TrialState::starting), 1), at(fact(1, TrialState::running), 2)};
  for (const Fact& one :
       {fact(1, TrialState::succeeded), fact(0, TrialState::starting), fact(0, TrialState::running),
        fact(2, TrialState::starting), fact(2, TrialState::running), fact(2, TrialState::succeeded)})
    facts.push_back(at(one, 3));
  record.append(run.id, facts);
  const auto told = [&](const std::string& trial) {
    std::vector<std::string> states;
    record.events(run.id, trial, [&](const EventEntry& event) {
      if (event.trial != "three" || trial == "three") states.push_back(event.trial + " " + event.state);
      return true;
    });
    return states;
  };
  EXPECT_THAT(told({}), ElementsAre("two ready", "two starting", "two running", "two ended", "two succeeded",
                                    "one ready", "one starting", "one running"));
  EXPECT_THAT(told("three"), ElementsAre("three ready", "three starting", "three running", "three ended",
                                         "three succeeded"));
}

TEST_F(RecordTest, WhatIsRemovedGivesItsRoomBack) {
  constexpr std::size_t k_large = std::size_t{4} << 20U;
  {
    Record record(folder.path());
    RunEntry entry = entry_of(run);
    entry.source = std::string(k_large, 'x');
    record.begin(entry, run.experiment);
  }
  EXPECT_GT(std::filesystem::file_size(path()), k_large);
  {
    Record record(folder.path());
    record.remove(std::vector{run.id});
  }
  EXPECT_LT(std::filesystem::file_size(path()), k_large / 10);
}

TEST_F(RecordTest, RoomIsGivenBackAnotherTimeWhileSomebodyReads) {
  Record record(folder.path());
  RunEntry entry = entry_of(run);
  entry.source = std::string(std::size_t{4} << 20U, 'x');
  record.begin(entry, run.experiment);
  SQLite::Database other(path(), SQLite::OPEN_READONLY);
  SQLite::Statement reading(other, "SELECT 1 FROM runs");
  ASSERT_TRUE(reading.executeStep());
  record.remove(std::vector{run.id});
  EXPECT_TRUE(record.runs({}, 1).empty());
}

TEST_F(RecordTest, WhatNobodyWatchedHasItsOwnTimes) {
  RunEntry entry = entry_of(run);
  entry.began_at = entry.working_since = Instant(std::chrono::seconds(1'800'000'000));
  Record record(folder.path());
  record.begin(entry, run.experiment);
  std::vector<Fact> seen{fact(0, TrialState::starting), fact(0, TrialState::running),
                         fact(1, TrialState::starting), fact(1, TrialState::running)};
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i].at = entry.began_at + std::chrono::seconds(i);
  record.append(run.id, seen);
  Fact unwatched = fact(0, TrialState::succeeded);
  unwatched.at = seen[1].at + std::chrono::milliseconds(500);  // before what is on record of the other
  const Record::Stamp stamp = record.stamp(run.id);
  EXPECT_TRUE(record.append_unwatched(run.id, std::vector{unwatched}, stamp));
  EXPECT_EQ(record.trials(run.id)[0].ended_at, unwatched.at);
  // And what is seen later is not put off by it.
  Fact later = fact(1, TrialState::succeeded);
  later.at = entry.began_at + std::chrono::seconds(9);
  record.append(run.id, std::vector{later});
  EXPECT_EQ(record.trials(run.id)[1].ended_at, later.at);
  EXPECT_FALSE(record.run(run.id).ended_at);

  // What was known when it was looked at is not so any more.
  Fact late = fact(1, TrialState::failed);
  late.at = later.at;
  EXPECT_FALSE(record.append_unwatched(run.id, std::vector{late}, stamp));
  EXPECT_EQ(record.trials(run.id)[1].state, TrialState::succeeded);

  Fact last = fact(2, TrialState::blocked);
  last.at = later.at + std::chrono::seconds(1);
  EXPECT_TRUE(record.append_unwatched(run.id, std::vector{last}, record.stamp(run.id)));
  EXPECT_EQ(record.run(run.id).ended_at, last.at);
}

TEST_F(RecordTest, AClockThatWasSetBackEndsNothingBeforeItRan) {
  RunEntry entry = entry_of(run);
  entry.began_at = entry.working_since = Instant(std::chrono::seconds(1'800'000'000));
  Record record(folder.path());
  record.begin(entry, run.experiment);
  const auto at = [&](Fact fact, int seconds) {
    fact.at = fact.ready_at = entry.began_at + std::chrono::seconds(seconds);
    return fact;
  };
  record.append(run.id,
                std::vector{at(fact(0, TrialState::starting), 1), at(fact(0, TrialState::running), 2),
                            at(fact(1, TrialState::starting), 3), at(fact(2, TrialState::starting), 4)});
  EXPECT_TRUE(record.append_unwatched(
      run.id, std::vector{at(fact(0, TrialState::succeeded), -60), at(fact(1, TrialState::running), -60)},
      record.stamp(run.id)));
  record.kill(run.id, entry.began_at - std::chrono::seconds(60));
  for (const AttemptEntry& attempt : record.attempts(run.id, {})) {
    EXPECT_LE(attempt.started_at, attempt.ran_at.value_or(attempt.started_at)) << attempt.trial;
    EXPECT_LE(attempt.ran_at.value_or(attempt.started_at), *attempt.ended_at) << attempt.trial;
    EXPECT_LE(*attempt.ended_at, *record.run(run.id).ended_at) << attempt.trial;
  }
  std::vector<std::string> states;
  record.events(run.id, "one", [&](const EventEntry& event) {
    states.push_back(event.state);
    return true;
  });
  EXPECT_THAT(states, ElementsAre("ready", "starting", "running", "ended", "succeeded"));
}

TEST_F(RecordTest, WhatIsReopenedWaitsForANewAttempt) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running),
                                    failure(0, TrialState::retrying, 1, Cause::error, 3),
                                    fact(0, TrialState::starting, 2), fact(0, TrialState::running, 2),
                                    failure(0, TrialState::failed, 2, Cause::error, 3)});
  Fact blocked = fact(1, TrialState::blocked);
  blocked.root = 0;
  record.append(run.id, std::vector{blocked});
  record.end(run.id, Instant(std::chrono::seconds(1'800'000'100)));
  const Instant reopened(std::chrono::seconds(1'800'000'200));
  record.reopen(run.id, {.trials = {0, 1}, .at = reopened}, {});
  EXPECT_EQ(record.run(run.id).working_since, reopened);
  EXPECT_FALSE(record.run(run.id).ended_at);
  const std::vector<Past> past = record.past(run.id);
  EXPECT_EQ(past[0].state, TrialState::waiting);
  EXPECT_EQ(past[0].attempt, 3);
  EXPECT_FALSE(past[0].was_started);
  EXPECT_THAT(past[0].earlier, testing::IsEmpty());
  EXPECT_EQ(past[1].state, TrialState::waiting);
  EXPECT_EQ(past[1].attempt, 1);
  EXPECT_EQ(past[1].root, std::nullopt);
  record.append(run.id, std::vector{fact(0, TrialState::starting, 3), fact(0, TrialState::running, 3)});
  EXPECT_EQ(record.past(run.id)[0].state, TrialState::running);
  EXPECT_TRUE(record.past(run.id)[0].was_started);
}

TEST_F(RecordTest, AStartThatDidNotGetToTheEngineIsTakenBack) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting)});
  record.append(run.id, std::vector{fact(0, TrialState::ready)});
  EXPECT_EQ(record.past(run.id)[0].state, TrialState::waiting);
}

TEST_F(RecordTest, AFurtherAttemptThatWaitsForSlotsIsReady) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact ready = fact(0, TrialState::ready, 2);
  ready.slots.memory = Bytes{5};
  ready.ready_at = ready.at;
  Fact retrying = failure(0, TrialState::retrying, 1, Cause::oom, 137);
  retrying.reason += "; attempt 2 in 1.0 s";
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running), retrying});
  EXPECT_EQ(record.past(run.id)[0].state, TrialState::retrying);
  record.append(run.id, std::vector{ready});
  const auto expect_ready = [&] {
    const Past past = record.past(run.id)[0];
    EXPECT_EQ(past.state, TrialState::ready);
    EXPECT_EQ(past.attempt, 1);
    EXPECT_EQ(past.cause, Cause::oom);
    EXPECT_EQ(past.memory, Bytes{5});
    EXPECT_EQ(record.counts(run.id)[static_cast<std::size_t>(TrialState::ready)], 1U);
    const TrialEntry entry = record.trials(run.id, "one").at(0);
    EXPECT_EQ(entry.state, TrialState::ready);
    EXPECT_EQ(entry.reason, "exit code 137; attempt 2 waits to be started");
  };
  expect_ready();
  record.append(run.id, std::vector{fact(0, TrialState::starting, 2)});
  EXPECT_EQ(record.past(run.id)[0].state, TrialState::starting);
  record.append(run.id, std::vector{ready});
  expect_ready();
  record.append(run.id, std::vector{fact(0, TrialState::starting, 2), fact(0, TrialState::running, 2),
                                    failure(0, TrialState::retrying, 2, Cause::error, 3)});
  EXPECT_EQ(record.past(run.id)[0].state, TrialState::retrying);
  EXPECT_EQ(record.trials(run.id, "one").at(0).state, TrialState::retrying);
}

TEST_F(RecordTest, WhatIsKilledIsOver) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running),
                                    fact(1, TrialState::starting), fact(1, TrialState::succeeded)});
  record.kill(run.id, Instant(std::chrono::seconds(1'800'000'200)));
  const std::vector<TrialEntry> trials = record.trials(run.id);
  EXPECT_EQ(trials[0].state, TrialState::stopped);
  EXPECT_EQ(trials[0].cause, Cause::stopped);
  EXPECT_EQ(trials[0].reason, "removed by kill");
  EXPECT_EQ(trials[1].state, TrialState::succeeded);
  EXPECT_EQ(trials[2].state, TrialState::blocked);
  EXPECT_TRUE(record.run(run.id).ended_at);
}

// Only a failure of its own is one.
TEST_F(RecordTest, KillKeepsAFailureThatCameBefore) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact ended = fact(1, TrialState::collecting);
  ended.exit_code = 0;
  Fact failed = failure(2, TrialState::collecting, 1, Cause::error, 3);
  failed.reason = "exit code 3; its outputs are not home: the disk is full";
  Fact tried = failure(0, TrialState::retrying, 1, Cause::error, 7);
  tried.reason = "exit code 7; attempt 2 in 5.0 s";
  for (TrialIndex trial = 0; trial < 3; ++trial)
    record.append(run.id, std::vector{fact(trial, TrialState::starting), fact(trial, TrialState::running)});
  record.append(run.id, std::vector{tried, ended, failed});
  record.kill(run.id, Instant(std::chrono::seconds(1'800'000'200)));
  const std::vector<TrialEntry> trials = record.trials(run.id);
  EXPECT_EQ(trials[0].state, TrialState::failed);
  EXPECT_EQ(trials[0].reason, "exit code 7");
  EXPECT_EQ(trials[1].state, TrialState::stopped);
  EXPECT_EQ(trials[1].cause, Cause::stopped);
  EXPECT_EQ(trials[1].reason, "removed by kill before its outputs were taken home");
  EXPECT_EQ(trials[2].state, TrialState::failed);
  EXPECT_EQ(trials[2].cause, Cause::error);
  EXPECT_EQ(trials[2].reason, "exit code 3; removed by kill before its outputs were taken home");
}

TEST_F(RecordTest, KillLeavesTrialsWhoseContainersAreKeptAsTheyAre) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact ended = fact(0, TrialState::collecting);
  ended.exit_code = 0;
  ended.reason = "its outputs are not home: disk full";
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running), ended,
                                    fact(1, TrialState::starting), fact(1, TrialState::running)});
  record.kill(run.id, Instant(std::chrono::seconds(1'800'000'200)), std::vector<std::string>{"one"});
  std::vector<TrialEntry> trials = record.trials(run.id);
  EXPECT_EQ(trials[0].state, TrialState::collecting);
  EXPECT_EQ(trials[0].reason, ended.reason);
  EXPECT_EQ(trials[1].state, TrialState::stopped);
  EXPECT_EQ(trials[1].reason, "removed by kill");
  EXPECT_EQ(trials[2].state, TrialState::blocked);
  EXPECT_FALSE(record.run(run.id).ended_at);
  // A later kill removes it.
  record.kill(run.id, Instant(std::chrono::seconds(1'800'000'300)));
  trials = record.trials(run.id);
  EXPECT_EQ(trials[0].reason, "removed by kill before its outputs were taken home");
  EXPECT_EQ(trials[1].reason, "removed by kill");
  EXPECT_TRUE(record.run(run.id).ended_at);
}

// What was to be run once more, and has not been, was not started.
TEST_F(RecordTest, KillLooksAtNoAttemptBeforeARetry) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running),
                                    failure(0, TrialState::failed, 1, Cause::error, 3)});
  record.reopen(run.id, {.trials = {0}, .at = Instant(std::chrono::seconds(1'800'000'100))}, run.experiment);
  record.kill(run.id, Instant(std::chrono::seconds(1'800'000'200)));
  EXPECT_EQ(record.trials(run.id)[0].state, TrialState::blocked);
  EXPECT_EQ(record.trials(run.id)[0].reason, "not started: the run was killed");
}

TEST_F(RecordTest, WhatHasComeHomeIsKept) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact ended = fact(0, TrialState::collecting);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running), ended});
  EXPECT_FALSE(record.trials(run.id)[0].taken);
  const Taken taken{.files = 12, .size = Bytes{34567}, .left = {"out/pipe", "out/line\nend"}};
  record.append(run.id, std::vector{fact(0, TrialState::succeeded)}, {},
                std::vector{CameHome{.trial = 0, .attempt = 1, .taken = taken}});
  const std::vector<TrialEntry> trials = record.trials(run.id);
  ASSERT_TRUE(trials[0].taken);
  EXPECT_EQ(trials[0].taken->files, 12U);
  EXPECT_EQ(trials[0].taken->size.count, 34567);
  EXPECT_EQ(trials[0].taken->left, taken.left);
  EXPECT_FALSE(trials[1].taken);
  std::map<std::string, std::optional<Taken>> events;
  record.events(run.id, "", [&](const EventEntry& event) {
    events[event.state] = event.taken;
    return true;
  });
  ASSERT_TRUE(events["collected"]);
  EXPECT_EQ(events["collected"]->files, 12U);
  EXPECT_EQ(events["collected"]->size.count, 34567);
  EXPECT_FALSE(events["succeeded"]);
}

TEST_F(RecordTest, SeveralWriteAtTheSameTime) {
  constexpr int k_writers = 4;
  constexpr int k_facts = 100;
  std::vector<std::jthread> writers;
  for (int writer = 0; writer < k_writers; ++writer) {
    writers.emplace_back([this, writer] {
      Record record(folder.path());
      combu::Run mine{.id = RunId("run" + std::to_string(writer)), .experiment = experiment({"one"})};
      record.begin(entry_of(mine), mine.experiment);
      for (int attempt = 1; attempt <= k_facts; ++attempt)
        record.append(mine.id, std::vector{fact(0, TrialState::starting, attempt)});
    });
  }
  writers.clear();
  Record record(folder.path());
  ASSERT_EQ(record.runs({}, 10).size(), static_cast<std::size_t>(k_writers));
  for (const RunEntry& entry : record.runs({}, 10)) EXPECT_EQ(record.trials(entry.id)[0].attempt, k_facts);
}

TEST_F(RecordTest, AnOlderOneIsBroughtUpToDate) {
  constexpr std::array<std::string_view, 1> k_old{"CREATE TABLE a (x); INSERT INTO a VALUES (7)"};
  constexpr std::array<std::string_view, 2> k_new{"CREATE TABLE a (x); INSERT INTO a VALUES (7)",
                                                  "ALTER TABLE a ADD COLUMN y DEFAULT 8"};
  std::filesystem::create_directories(folder.path());
  (void)database::open(path(), {record::schema().application_id, k_old});
  SQLite::Database database = database::open(path(), {record::schema().application_id, k_new});
  EXPECT_EQ(database.execAndGet("SELECT x + y FROM a").getInt(), 15);
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), 2);
}

TEST_F(RecordTest, OneOfTheFirstVersionKeepsItsRuns) {
  std::filesystem::create_directories(folder.path());
  database::open(path(), {record::schema().application_id, record::schema().steps.first(1)})
      .exec(
          "INSERT INTO experiments VALUES (1, 'lab');"
          "INSERT INTO runs VALUES (7, 'old', 1, '/f', '/', 'the source', '[]', '[]', '{}', '', 0, "
          "'unix:///e', "
          "'e', 'u', 'm', 'p', 1000000, 1000000, 0, 3000000);"
          "INSERT INTO trials VALUES (7, 0, 'one', 'lab/x', '{}', 1, 'failed', 3000000, 'exit code 3', NULL);"
          "INSERT INTO attempts VALUES (7, 0, 1, 'c', 0, 0, 1000000, 1000000, 2000000, NULL, 3000000, 3, "
          "'error', 'exit code 3')");
  Record record(folder.path());
  const RunEntry entry = record.run(RunId("old"));
  EXPECT_EQ(entry.source, "the source");
  EXPECT_EQ(entry.evaluated, "[]");
  EXPECT_EQ(entry.address, "unix:///e");
  EXPECT_EQ(entry.evaluated_in, std::nullopt);
  const TrialEntry one = record.trials(entry.id, "one").at(0);
  EXPECT_EQ(one.exit_code, 3);
  EXPECT_EQ(one.digest, "");
  EXPECT_EQ(record.attempts(entry.id, {}).at(0).created_in, std::nullopt);
  record.remove(std::vector{entry.id});
  EXPECT_THAT(record.runs({}, 1), testing::IsEmpty());
}

TEST_F(RecordTest, AnEditedFileAddsAndChangesTrials) {
  Record record(folder.path());
  RunEntry entry = entry_of(run);
  entry.evaluated = "[1]";
  record.begin(entry, run.experiment);
  Experiment edited = experiment({"one", "two", "three", "four"});
  edited.trials[1].image = "new";
  record.revise(run.id, {.source = "text", .evaluated = "[2]", .digests = {}, .taken = {1}}, edited);
  const RunEntry read = record.run(run.id);
  EXPECT_EQ(read.evaluated, "[2]");
  EXPECT_EQ(read.source, "text");
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

TEST_F(RecordTest, AReopenedRunHasTheImagesThatItsTrialsAreTriedAgainWith) {
  Record record(folder.path());
  RunEntry entry = entry_of(run);
  entry.references = {{{"old", ""}, "old@sha256:1"}, {{"kept", ""}, "kept@sha256:1"}};
  record.begin(entry, run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::failed)});
  record.reopen(run.id,
                {.trials = {0}, .references = {{{"old", ""}, "old@sha256:2"}, {{"new", ""}, "new@sha256:1"}}},
                run.experiment);
  EXPECT_EQ(record.run(run.id).references, (Digests{{{"old", ""}, "old@sha256:2"},
                                                    {{"kept", ""}, "kept@sha256:1"},
                                                    {{"new", ""}, "new@sha256:1"}}));
}

TEST_F(RecordTest, CountsTheAttemptsThatHaveRun) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  EXPECT_EQ(record.begun(run.id), 0U);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running),
                                    failure(0, TrialState::retrying, 1, Cause::error, 1),
                                    fact(0, TrialState::starting, 2), fact(0, TrialState::running, 2),
                                    fact(1, TrialState::starting)});
  EXPECT_EQ(record.begun(run.id), 2U);
}

TEST_F(RecordTest, AReopenedTrialTakesTheNewestText) {
  Record record(folder.path());
  RunEntry entry = entry_of(run);
  entry.imports = R"({"/a":"01"})";
  record.begin(entry, run.experiment);
  EXPECT_EQ(record.run(run.id).imports, R"({"/a":"01"})");
  record.append(run.id, std::vector{failure(0, TrialState::failed, 1, Cause::error, 3)});
  Experiment edited = run.experiment;
  edited.trials[0].image = "new";
  edited.trials[0].params = R"({"lr":2})";
  record.revise(run.id, {.source = "text", .evaluated = "[2]", .imports = "{}"}, edited);
  EXPECT_EQ(record.run(run.id).imports, "{}");
  EXPECT_EQ(record.trials(run.id)[0].revision, 1);
  record.reopen(run.id, {.trials = {0}, .taken = {0}, .digests = {{{"new", ""}, "sha256:02"}}}, edited);
  const TrialEntry trial = record.trials(run.id)[0];
  EXPECT_EQ(trial.state, TrialState::waiting);
  EXPECT_EQ(trial.revision, 2);
  EXPECT_EQ(trial.image, "new");
  EXPECT_EQ(trial.digest, "sha256:02");
  EXPECT_EQ(trial.params, R"({"lr":2})");
}

TEST_F(RecordTest, WithoutATextTheNewestOneStays) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{failure(0, TrialState::failed, 1, Cause::error, 3),
                                    fact(1, TrialState::blocked), fact(2, TrialState::succeeded)});
  record.revise(run.id, {.again = {0, 1, 2}, .anew = {2}}, run.experiment);
  EXPECT_THAT(record.run(run.id).earlier, testing::IsEmpty());
  const std::vector<Past> past = record.past(run.id);
  EXPECT_EQ(past[0].state, TrialState::waiting);
  EXPECT_FALSE(past[0].anew);
  EXPECT_EQ(past[1].state, TrialState::waiting);
  EXPECT_TRUE(past[2].anew);
}

TEST_F(RecordTest, AnEditedFileIsTakenInWholeOrNotAtAll) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running)});
  record.end(run.id, Instant(std::chrono::seconds(1'800'000'100)));
  const Edition edition{.source = "text",
                        .evaluated = "[2]",
                        .taken = {0},
                        .ends = {failure(1, TrialState::stopped, 1, Cause::none, 0)},
                        .leaving = {{0, Leaving::replaced}},
                        .again = {2},
                        .at = Instant(std::chrono::seconds(1'800'000'200))};
  const Experiment edited = experiment({"one", "two", "three", "four"});
  SQLite::Database other(path(), SQLite::OPEN_READWRITE);
  other.exec("CREATE TRIGGER last BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'no'); END");
  EXPECT_THROW(record.revise(run.id, edition, edited), Error);
  EXPECT_EQ(record.past(run.id)[0].state, TrialState::running);
  EXPECT_EQ(record.trial_count(run.id), 3U);
  EXPECT_THAT(record.run(run.id).earlier, testing::IsEmpty());
  other.exec("DROP TRIGGER last");
  record.revise(run.id, edition, edited);
  EXPECT_EQ(record.past(run.id)[0].state, TrialState::running);
  EXPECT_EQ(record.past(run.id)[0].leaving, Leaving::replaced);
  EXPECT_EQ(record.past(run.id)[1].state, TrialState::stopped);
  EXPECT_EQ(record.trials(run.id, "four").at(0).revision, 2);
  EXPECT_EQ(record.run(run.id).working_since, edition.at);
  EXPECT_FALSE(record.run(run.id).ended_at);
  record.append(run.id, std::vector{failure(0, TrialState::retrying, 1, Cause::stopped, 143)});
  const Past one = record.past(run.id)[0];
  EXPECT_EQ(one.state, TrialState::waiting);
  EXPECT_EQ(one.attempt, 2);
  EXPECT_EQ(one.leaving, Leaving::no);
}

TEST_F(RecordTest, WhatAnAttemptThatLeavesHoldsIsKnown) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact starting = fact(0, TrialState::starting);
  starting.slots = {.cpus = {2'000'000'000}, .memory = {1 << 20}, .gpus = {"0", "1"}};
  record.append(run.id, std::vector{starting});
  const Record::Stamp stamp = record.stamp(run.id);
  record.revise(run.id,
                {.source = "text", .evaluated = "[2]", .digests = {}, .leaving = {{0, Leaving::removed}}},
                run.experiment);
  EXPECT_NE(record.stamp(run.id), stamp);
  EXPECT_EQ(record.past(run.id)[0].leaving, Leaving::removed);
  EXPECT_EQ(record.past(run.id)[0].slots, starting.slots);
}

TEST_F(RecordTest, WhoMayNotReviseARunHasChangedNothing) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  EXPECT_THROW(record.revise(run.id, {.source = "text", .evaluated = "[2]"},
                             experiment({"one", "two", "three", "four"}),
                             [] { throw Error(ErrorKind::conflict, "", "no"); }),
               Error);
  EXPECT_EQ(record.trial_count(run.id), 3U);
}

TEST_F(RecordTest, AnAttemptHasItsGpusAndWhatItWasSeenToUse) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact starting = fact(0, TrialState::starting);
  starting.slots.gpus = {"nvidia.com/gpu=0", "nvidia.com/gpu=1"};
  Fact over = fact(0, TrialState::succeeded);
  over.exit_code = 0;
  over.usage = Usage{.memory = Bytes{1 << 20}, .cpu = Seconds(1.5)};
  record.append(run.id, std::vector{starting, fact(1, TrialState::starting), over});
  const std::vector<TrialEntry> entries = record.trials(run.id);
  EXPECT_EQ(entries[0].gpus, "nvidia.com/gpu=0,nvidia.com/gpu=1");
  ASSERT_TRUE(entries[0].usage);
  EXPECT_EQ(entries[0].usage->memory.count, 1 << 20);
  EXPECT_EQ(entries[0].usage->cpu, Seconds(1.5));
  EXPECT_EQ(entries[1].gpus, "");
  EXPECT_FALSE(entries[1].usage);
  std::vector<TrialEntry> states;
  record.trials(run.id, {}, Detail::state, [&]() -> TrialEntry& { return states.emplace_back(); });
  ASSERT_TRUE(states[0].usage) << "a list of states shows it, too";
  EXPECT_EQ(states[0].usage->memory.count, 1 << 20);
  EXPECT_FALSE(states[1].usage);
}

TEST_F(RecordTest, ManyMayBeTheFirstAtOnce) {
  constexpr std::size_t k_together = 6;
  for (int round = 0; round < 40; ++round) {
    const std::string place = folder.path() + "/" + std::to_string(round);
    std::latch ready(k_together);
    std::vector<std::string> faults(k_together);
    in_parallel(k_together, k_together, [&](std::size_t i) {
      ready.arrive_and_wait();
      try {
        Record record(place);
        combu::Run own = run;
        own.id = RunId("run" + std::to_string(i));
        record.begin(entry_of(own), own.experiment);
      } catch (const Error& error) {
        faults[i] = error.what();
      }
    });
    EXPECT_THAT(faults, testing::Each("")) << round;
  }
}

TEST_F(RecordTest, WhatHasBeenDoneIsFoundByItsHash) {
  Record record(folder.path());
  const auto recollection = [](TrialIndex trial, const std::string& hash) {
    return Recollection{.trial = trial, .hash = hash, .parts = R"({"cmd":"x"})"};
  };
  for (const char* id : {"run1", "run2"}) {
    run.id = RunId(id);
    RunEntry entry = entry_of(run);
    entry.results = std::string("/results/") + id;
    record.begin(entry, run.experiment);
    const std::vector<Recollection> known{recollection(0, "aa"), recollection(1, "bb"),
                                          recollection(2, "aa")};
    record.append(
        run.id,
        std::vector<Fact>{fact(0, TrialState::skipped), failure(1, TrialState::failed, 1, Cause::error, 3)},
        {}, {}, known);
  }
  const std::vector<DoneEntry> done = record.done("aa", 8);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].run, RunId("run2"));
  EXPECT_EQ(done[0].trial, "one");
  EXPECT_EQ(done[0].place, "/results/run2/one");
  EXPECT_EQ(done[1].run, RunId("run1"));
  EXPECT_EQ(record.done("aa", 1).size(), 1U);
  EXPECT_TRUE(record.done("bb", 8).empty()) << "it has failed";
  EXPECT_TRUE(record.done("cc", 8).empty());
  EXPECT_EQ(record.known_before(run.id, "one", 8).size(), 1U) << "of an earlier run";
  record.remove(std::vector<RunId>{RunId("run2")});
  EXPECT_EQ(record.done("aa", 8).size(), 1U);
}

TEST_F(RecordTest, WhatWasSkippedIsDoneByWhoHadRun) {
  Record record(folder.path());
  const auto begin = [&](const char* id, TrialState state, const Recollection& known) {
    run.id = RunId(id);
    RunEntry entry = entry_of(run);
    entry.results = std::string("/results/") + id;
    record.begin(entry, run.experiment);
    record.append(run.id, std::vector<Fact>{fact(0, state)}, {}, {}, std::vector<Recollection>{known});
  };
  const Recollection known{.trial = 0, .hash = "aa", .parts = "{}"};
  begin("run1", TrialState::succeeded, known);
  Recollection equal = known;
  equal.run = "run1";
  equal.name = "one";
  begin("run2", TrialState::skipped, equal);
  const std::vector<DoneEntry> done = record.done("aa", 8);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].run, RunId("run1"));
  EXPECT_EQ(done[0].kept_in, RunId("run2"));
  EXPECT_EQ(done[0].kept_as, "one");
  EXPECT_EQ(done[0].place, "/results/run2/one") << "where it was shared from";
  EXPECT_EQ(done[1].place, "/results/run1/one");
}

TEST_F(RecordTest, WhatRanWithSomethingElseIsNotFoundByWhatItWasKnownBy) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  std::vector<Recollection> known;
  for (TrialIndex trial = 0; trial < 3; ++trial)
    known.push_back({.trial = trial,
                     .hash = "aa",
                     .parts = R"({"image":"sha256:1","inputs":{}})",
                     .inputs = {"sha256:x", "sha256:y"}});
  record.append(run.id, {}, {}, {}, known);
  record.append(run.id,
                std::vector<Fact>{fact(0, TrialState::succeeded), fact(1, TrialState::succeeded),
                                  fact(2, TrialState::succeeded)},
                std::vector<Started>{{.trial = 0, .inputs = {"sha256:x", "sha256:y"}, .digest = "sha256:1"},
                                     {.trial = 1, .inputs = {"sha256:x", "sha256:z"}, .digest = "sha256:1"},
                                     {.trial = 2, .inputs = {"sha256:x", "sha256:y"}, .digest = "sha256:2"}});
  const std::vector<DoneEntry> done = record.done("aa", 8);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].trial, run.experiment.trials[0].name);
  EXPECT_FALSE(record.known(run.id, run.experiment.trials[1].name)) << "its inputs were others";
  EXPECT_FALSE(record.known(run.id, run.experiment.trials[2].name)) << "its image was another";
  EXPECT_THAT(record.inputs(run.id, run.experiment.trials[1].name), ElementsAre("sha256:x", "sha256:z"));
}

TEST_F(RecordTest, AnInputThatDoesNotCountMayChange) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, {}, {}, {},
                std::vector<Recollection>{
                    {.trial = 0, .hash = "aa", .parts = R"({"image":"sha256:1"})", .inputs = {"sha256:x"}}});
  record.append(run.id, std::vector<Fact>{fact(0, TrialState::succeeded)},
                std::vector<Started>{{.trial = 0, .inputs = {"sha256:y"}, .digest = "sha256:1"}});
  EXPECT_EQ(record.done("aa", 8).size(), 1U);
}

TEST_F(RecordTest, ATrialIsKnownByWhatItWasLast) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  EXPECT_FALSE(record.known(run.id, "one"));
  record.append(run.id, {}, {}, {}, std::vector<Recollection>{{.trial = 0, .hash = "aa", .parts = "{}"}});
  record.append(run.id, {}, {}, {},
                std::vector<Recollection>{
                    {.trial = 0, .hash = "bb", .parts = R"({"cmd":"x"})", .run = "run0", .name = "zero"}});
  const auto known = record.known(run.id, "one");
  ASSERT_TRUE(known);
  EXPECT_EQ(known->hash, "bb");
  EXPECT_EQ(known->parts, R"({"cmd":"x"})");
  EXPECT_EQ(known->equal_run, RunId("run0"));
  EXPECT_EQ(known->equal_trial, "zero");
}

TEST_F(RecordTest, WhatAPersonWantsAgainIsNotSkippedButWhatWasBlockedMayBe) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector<Fact>{fact(0, TrialState::skipped), fact(1, TrialState::blocked)});
  record.reopen(run.id, {.trials = {0, 1}, .at = Instant(std::chrono::seconds(1'800'000'200))}, {});
  const std::vector<Past> past = record.past(run.id);
  EXPECT_EQ(past[0].state, TrialState::waiting);
  EXPECT_TRUE(past[0].anew);
  EXPECT_FALSE(past[1].anew);
  EXPECT_FALSE(past[2].anew);
}

TEST_F(RecordTest, HowTheWorkingTreeDifferedIsThere) {
  RunEntry entry = entry_of(run);
  entry.working_tree = {.diff = "--- a\n",
                        .is_cut = true,
                        .untracked = {"x", "y z"},
                        .left_out = {".env"},
                        .by_index = {"a.bin"}};
  entry.references = {{{"lab/x", "linux/arm64"}, "lab/x@sha256:1"}, {{"lab/x", ""}, "lab/x@sha256:2"}};
  entry.results = "/results";
  Record record(folder.path());
  record.begin(entry, run.experiment);
  const RunEntry seen = record.run(run.id);
  EXPECT_EQ(seen.working_tree.diff, entry.working_tree.diff);
  EXPECT_TRUE(seen.working_tree.is_cut);
  EXPECT_THAT(seen.working_tree.untracked, ElementsAre("x", "y z"));
  EXPECT_THAT(seen.working_tree.left_out, ElementsAre(".env"));
  EXPECT_EQ(seen.references, entry.references);
  EXPECT_EQ(seen.results, "/results");
}

TEST_F(RecordTest, AStepThatFailsLeavesTheOlderOne) {
  constexpr std::array<std::string_view, 1> k_old{"CREATE TABLE a (x)"};
  constexpr std::array<std::string_view, 3> k_new{"CREATE TABLE a (x)", "CREATE TABLE b (x)", "nonsense"};
  std::filesystem::create_directories(folder.path());
  (void)database::open(path(), {record::schema().application_id, k_old});
  EXPECT_EQ(error_of([&] {
              (void)database::open(path(), {record::schema().application_id, k_new});
            }).kind(),
            ErrorKind::invalid);
  SQLite::Database database = database::open(path(), {record::schema().application_id, k_old});
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM sqlite_master").getInt(), 1);
}

TEST_F(RecordTest, ANewerOneIsRefusedAndNotTouched) {
  constexpr std::array<std::string_view, 9> k_newer{"CREATE TABLE a (x)", "", "", "", "", "", "", "", ""};
  std::filesystem::create_directories(folder.path());
  (void)database::open(path(), {record::schema().application_id, k_newer});
  const std::string before = bytes();
  const Error error = error_of([&] { Record{folder.path()}; });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), path());
  EXPECT_THAT(error.message(), HasSubstr("newer combu"));
  EXPECT_EQ(bytes(), before);
}

TEST_F(RecordTest, ADamagedOneIsRefusedAndNotTouched) {
  write(std::string(8192, 'x'));
  const Error error = error_of([&] { Record{folder.path()}; });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_THAT(error.message(), HasSubstr("damaged"));
  EXPECT_EQ(bytes(), std::string(8192, 'x'));
}

TEST_F(RecordTest, AnotherProgramsDatabaseIsRefusedAndNotTouched) {
  std::filesystem::create_directories(folder.path());
  SQLite::Database(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE theirs (x)");
  const std::string before = bytes();
  const Error error = error_of([&] { Record{folder.path()}; });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_THAT(error.message(), HasSubstr("another program"));
  EXPECT_EQ(bytes(), before);
}

TEST_F(RecordTest, AFolderThatCannotBeMadeIsNamed) {
  write("a file");
  const Error error = error_of([&] { Record{path() + "/below"}; });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_EQ(error.subject(), path() + "/below");
  EXPECT_THAT(error.message(), HasSubstr("COMBU_HOME"));
}

}  // namespace
}  // namespace combu::test
