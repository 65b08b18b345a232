// The record of a run, of its trials and of their attempts.

#include "combu/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "record_fixture.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(RecordTest, ARunIsReadAsItBegan) {
  RunEntry entry = entry_of(run);
  entry.text.source = "local uuid = 'UUID'; []";
  entry.text.evaluated = "[]";
  entry.arguments = R"(["combu","run"])";
  entry.revision = "0123abc";
  entry.revision_dirty = true;
  entry.engine.address = "unix:///var/run/docker.sock";
  entry.began_at = Instant(std::chrono::seconds(1'800'000'000));
  Record(folder.path()).begin(entry, run.experiment);

  Record record(folder.path());
  const RunEntry seen = record.run(run.id);
  EXPECT_EQ(seen.text.source, entry.text.source);
  EXPECT_EQ(seen.text.evaluated, entry.text.evaluated);
  EXPECT_EQ(seen.arguments, entry.arguments);
  EXPECT_EQ(seen.revision, entry.revision);
  EXPECT_TRUE(seen.revision_dirty);
  EXPECT_EQ(seen.engine.address, entry.engine.address);
  EXPECT_EQ(seen.began_at, entry.began_at);
  EXPECT_EQ(seen.ended_at, std::nullopt);
  EXPECT_THAT(record.trials(run.id),
              ElementsAre(testing::Field(&TrialEntry::name, "one"), testing::Field(&TrialEntry::name, "two"),
                          testing::Field(&TrialEntry::name, "three")));
}

TEST_F(RecordTest, RunsOfAFileAreListedNewestFirst) {
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

TEST_F(RecordTest, ARunIdIsUnique) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  const Error error = error_in([&] { record.begin(entry_of(run), run.experiment); });
  EXPECT_EQ(error.kind(), ErrorKind::conflict);
  EXPECT_THAT(error.message(), HasSubstr("--resume"));
  EXPECT_EQ(error_in([&] { (void)record.run(RunId("other")); }).kind(), ErrorKind::not_found);
  EXPECT_EQ(
      error_in([&] { record.append(RunId("other"), std::vector{fact(0, TrialState::starting)}); }).kind(),
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

  const std::vector<RestoredTrial> restored = record.restored_trials(run.id);
  EXPECT_EQ(restored[0].attempt, 2);
  EXPECT_THAT(restored[0].earlier, ElementsAre(Cause::oom));
  EXPECT_TRUE(restored[0].was_started);
  EXPECT_EQ(restored[0].ran_at, std::nullopt);
  EXPECT_EQ(restored[1].cause, Cause::error);
  EXPECT_EQ(restored[1].exit_code, 3);
  EXPECT_EQ(restored[1].reason, "exit code 3");
  EXPECT_EQ(restored[1].ran_at, Instant(std::chrono::seconds(1'800'000'001)));
  EXPECT_EQ(restored[2].root, 1U);
  EXPECT_EQ(restored[2].reason, blocked.reason);
  EXPECT_FALSE(restored[2].was_started);
}

TEST_F(RecordTest, ATrialIsCollectingUntilItsOutputsAreCollected) {
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
  std::vector<RestoredTrial> restored = record.restored_trials(run.id);
  EXPECT_EQ(restored[0].state, TrialState::collecting);
  EXPECT_EQ(restored[0].cause, Cause::none);
  EXPECT_EQ(restored[0].exit_code, 0);
  EXPECT_EQ(restored[1].cause, Cause::error);
  EXPECT_EQ(restored[1].reason, "exit code 3");

  ended.details = {.next = Next::collect, .next_why = "disk full"};
  record.append(run.id, std::vector{ended});
  EXPECT_EQ(*record.trials(run.id, "one").at(0).details, ended.details);
  EXPECT_EQ(record.restored_trials(run.id)[0].details, ended.details);
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

TEST_F(RecordTest, AKillReportsUncollectedOutputs) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running),
                                    failure(0, TrialState::collecting, 1, Cause::none, 0)});
  kill(record, Instant(std::chrono::seconds(1'800'000'100)));
  EXPECT_EQ(record.trials(run.id).at(0).state, TrialState::stopped);
  EXPECT_EQ(reason_text(record.trials(run.id).at(0)),
            "removed by `combu kill` before its outputs were collected");
}

TEST_F(RecordTest, ATrialIsReadWithItsLastAttempt) {
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

TEST_F(RecordTest, AnAttemptHasTheTimesThatTheEngineTook) {
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

TEST_F(RecordTest, NoTrialIsReadyBeforeTheRunBegan) {
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
  EXPECT_EQ(record.restored_trials(run.id)[0].over_at, over.at);
  EXPECT_EQ(record.restored_trials(run.id)[1].over_at, std::nullopt);
  // The run has ended and is reopened for a new trial.
  record.end(run.id, Instant(std::chrono::seconds(1'800'000'100)));
  Experiment edited = run.experiment;
  edited.trials.emplace_back().name = "four";
  FileVersion file_version;
  file_version.text.source = file_version.text.evaluated = "[4]";
  file_version.opens = FileVersion::Opens::if_ended;
  file_version.at = Instant(std::chrono::seconds(1'800'000'200));
  record.apply_file(run.id, file_version, edited);
  Fact added = fact(3, TrialState::starting);
  added.at = file_version.at + std::chrono::seconds(7);
  record.append(run.id, std::vector{added});
  const AttemptEntry four = record.attempts(run.id, "four").at(0);
  EXPECT_EQ(four.revision, 2);
  EXPECT_EQ(four.ready_at, file_version.at);
}

TEST_F(RecordTest, EventsKeepTheirOrderIfTheClockIsSetBack) {
  constexpr std::chrono::hours k_back{2};
  RunEntry entry = entry_of(run);
  entry.began_at = Instant(std::chrono::seconds(1'800'000'000));
  entry.working_since = entry.began_at;
  {
    Record record(folder.path());
    record.begin(entry, run.experiment);
    record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running)});
  }
  // Another process continues the run.
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
  // Durations after the clock was set back are unchanged.
  const AttemptEntry two = record.attempts(run.id, "two").at(0);
  EXPECT_EQ(*two.ended_at - *two.ran_at, std::chrono::seconds(1));
  EXPECT_GE(*record.run(run.id).ended_at, *two.ended_at);
}

TEST_F(RecordTest, AtTheSameTimeTheCauseComesFirst) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  // "one" starts when "two" ends, and "three" runs for no time.
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
  const auto reported = [&](const std::string& trial) {
    std::vector<std::string> states;
    record.events(run.id, trial, [&](const EventEntry& event) {
      if (event.trial != "three" || trial == "three") states.push_back(event.trial + " " + event.state);
      return true;
    });
    return states;
  };
  EXPECT_THAT(reported({}), ElementsAre("two ready", "two starting", "two running", "two ended",
                                        "two succeeded", "one ready", "one starting", "one running"));
  EXPECT_THAT(reported("three"), ElementsAre("three ready", "three starting", "three running", "three ended",
                                             "three succeeded"));
}

TEST_F(RecordTest, UnwatchedFactsKeepTheirTimes) {
  RunEntry entry = entry_of(run);
  entry.began_at = entry.working_since = Instant(std::chrono::seconds(1'800'000'000));
  Record record(folder.path());
  record.begin(entry, run.experiment);
  std::vector<Fact> seen{fact(0, TrialState::starting), fact(0, TrialState::running),
                         fact(1, TrialState::starting), fact(1, TrialState::running)};
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i].at = entry.began_at + std::chrono::seconds(i);
  record.append(run.id, seen);
  Fact unwatched = fact(0, TrialState::succeeded);
  unwatched.at = seen[1].at + std::chrono::milliseconds(500);  // before a time on record of the other trial
  const Record::Stamp stamp = record.stamp(run.id);
  EXPECT_TRUE(record.append_unwatched(run.id, std::vector{unwatched}, stamp, Record::RunEnds::no));
  EXPECT_EQ(record.trials(run.id)[0].ended_at, unwatched.at);
  // The unwatched fact does not shift the times of later facts.
  Fact later = fact(1, TrialState::succeeded);
  later.at = entry.began_at + std::chrono::seconds(9);
  record.append(run.id, std::vector{later});
  EXPECT_EQ(record.trials(run.id)[1].ended_at, later.at);
  EXPECT_FALSE(record.run(run.id).ended_at);

  // Facts with an old stamp are refused, because the run has changed since then.
  Fact late = fact(1, TrialState::failed);
  late.at = later.at;
  EXPECT_FALSE(record.append_unwatched(run.id, std::vector{late}, stamp, Record::RunEnds::no));
  EXPECT_EQ(record.trials(run.id)[1].state, TrialState::succeeded);

  Fact last = fact(2, TrialState::blocked);
  last.at = later.at + std::chrono::seconds(1);
  EXPECT_TRUE(record.append_unwatched(run.id, std::vector{last}, record.stamp(run.id),
                                      Record::RunEnds::with_last_trial));
  EXPECT_EQ(record.run(run.id).ended_at, last.at);
}

TEST_F(RecordTest, NoAttemptEndsBeforeItRanIfTheClockIsSetBack) {
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
      record.stamp(run.id), Record::RunEnds::no));
  kill(record, entry.began_at - std::chrono::seconds(60));
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

TEST_F(RecordTest, AReopenedTrialWaitsForANewAttempt) {
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
  const Instant at(std::chrono::seconds(1'800'000'200));
  record.reopen(run.id, {.facts = reopened({0, 1}), .at = at}, {});
  EXPECT_EQ(record.run(run.id).working_since, at);
  EXPECT_FALSE(record.run(run.id).ended_at);
  const std::vector<RestoredTrial> restored = record.restored_trials(run.id);
  EXPECT_EQ(restored[0].state, TrialState::waiting);
  EXPECT_EQ(restored[0].attempt, 3);
  EXPECT_FALSE(restored[0].was_started);
  EXPECT_THAT(restored[0].earlier, testing::IsEmpty());
  EXPECT_EQ(restored[1].state, TrialState::waiting);
  EXPECT_EQ(restored[1].attempt, 1);
  EXPECT_EQ(restored[1].root, std::nullopt);
  record.append(run.id, std::vector{fact(0, TrialState::starting, 3), fact(0, TrialState::running, 3)});
  EXPECT_EQ(record.restored_trials(run.id)[0].state, TrialState::running);
  EXPECT_TRUE(record.restored_trials(run.id)[0].was_started);
}

TEST_F(RecordTest, AStartThatDidNotReachTheEngineIsRolledBack) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, std::vector{fact(0, TrialState::starting)});
  record.append(run.id, std::vector{fact(0, TrialState::ready)});
  EXPECT_EQ(record.restored_trials(run.id)[0].state, TrialState::waiting);
}

TEST_F(RecordTest, AFurtherAttemptThatWaitsForSlotsIsReady) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  Fact ready = fact(0, TrialState::ready, 2);
  ready.slots.memory = Bytes{5};
  ready.ready_at = ready.at;
  Fact retrying = failure(0, TrialState::retrying, 1, Cause::oom, 137);
  retrying.details = {.next = Next::attempt, .pause = Seconds(1)};
  record.append(run.id, std::vector{fact(0, TrialState::starting), fact(0, TrialState::running), retrying});
  EXPECT_EQ(record.restored_trials(run.id)[0].state, TrialState::retrying);
  EXPECT_EQ(record.restored_trials(run.id)[0].details, retrying.details);
  record.append(run.id, std::vector{ready});
  const auto expect_ready = [&] {
    const RestoredTrial restored = record.restored_trials(run.id)[0];
    EXPECT_EQ(restored.state, TrialState::ready);
    EXPECT_EQ(restored.attempt, 1);
    EXPECT_EQ(restored.cause, Cause::oom);
    EXPECT_EQ(restored.memory, Bytes{5});
    EXPECT_EQ(restored.details.next, Next::due);
    EXPECT_EQ(record.counts(run.id)[static_cast<std::size_t>(TrialState::ready)], 1U);
    const TrialEntry entry = record.trials(run.id, "one").at(0);
    EXPECT_EQ(entry.state, TrialState::ready);
    EXPECT_EQ(reason_text(entry), "exit code 137; attempt 2 waits to be started");
  };
  expect_ready();
  record.append(run.id, std::vector{fact(0, TrialState::starting, 2)});
  EXPECT_EQ(record.restored_trials(run.id)[0].state, TrialState::starting);
  record.append(run.id, std::vector{ready});
  expect_ready();
  record.append(run.id, std::vector{fact(0, TrialState::starting, 2), fact(0, TrialState::running, 2),
                                    failure(0, TrialState::retrying, 2, Cause::error, 3)});
  EXPECT_EQ(record.restored_trials(run.id)[0].state, TrialState::retrying);
  EXPECT_EQ(record.trials(run.id, "one").at(0).state, TrialState::retrying);
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

TEST_F(RecordTest, AnAttemptHasItsGpusAndItsUsage) {
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

TEST_F(RecordTest, ARunHasTheChangesOfItsWorkingTree) {
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

}  // namespace
}  // namespace combu::test
