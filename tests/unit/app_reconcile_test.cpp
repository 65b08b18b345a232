// Tests that reconcile a run: they record what happened while the run had no owner.

#include "app/reconcile.hpp"
#include "app/trial_row.hpp"
#include "app/wait.hpp"
#include "app_fixture.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class ReconcileTest : public AppTest {
 protected:
  void reconcile(Outlook outlook = Outlook::resumable, const TrialNames& stopped = {}) {
    with_session([&](Session& session) {
      Record all(state());
      reconcile_run(session, all, RunId("r1"), outlook, stopped);
    });
  }
};

TEST_F(ReconcileTest, AnEndWithoutAnOwnerIsRecorded) {
  EXPECT_EQ(start(file_text(trial_text("good", "sleep 100") + trial_text("bad", "sh -c 'sleep 100; exit 3'") +
                            trial_text("goes", "sleep 100000")),
                  new_run("r1")),
            Result::succeeded);
  pass_an_hour();
  EXPECT_EQ(states("r1").at("good"), "running");
  reconcile();
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("good", "succeeded"), Pair("bad", "failed"),
                                                 Pair("goes", "running")));
  const TrialEntry bad = trial_of("r1", "bad");
  EXPECT_EQ(bad.exit_code, 3);
  ASSERT_TRUE(bad.ran_at && bad.ended_at);
  EXPECT_GE(*bad.ended_at, *bad.ran_at);
  EXPECT_FALSE(entry("r1").ended_at);
}

TEST_F(ReconcileTest, ARunWithoutRemainingTrialsIsEnded) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 100")), new_run("r1")), Result::succeeded);
  pass_an_hour();
  reconcile();
  EXPECT_TRUE(entry("r1").ended_at);
  reconcile();
  EXPECT_EQ(states("r1").at("one"), "succeeded");
}

TEST_F(ReconcileTest, ATrialWhoseContainerIsGoneIsStopped) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 1000")), new_run("r1")), Result::succeeded);
  remove_container("r1", "one");
  reconcile();
  const TrialEntry one = trial_of("r1", "one");
  EXPECT_EQ(one.state, TrialState::stopped);
  EXPECT_EQ(one.reason, "its container no longer exists, and its end was not recorded");
  EXPECT_EQ(one.exit_code, std::nullopt);
}

TEST_F(ReconcileTest, WithoutNewsTheRecordStaysUnchanged) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 1000")), new_run("r1")), Result::succeeded);
  Record all(state());
  const Record::Stamp before = all.stamp(RunId("r1"));
  reconcile();
  EXPECT_EQ(all.stamp(RunId("r1")), before);
}

TEST_F(ReconcileTest, NothingIsRecordedIfAnotherProcessChangesTheRunMeanwhile) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 100")), new_run("r1")), Result::succeeded);
  pass_an_hour();
  class Overtaking final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    std::function<void()> on_list;
    std::vector<Observation> list(const Selector& selector, ListDetail detail,
                                  std::stop_token token) override {
      if (on_list) std::exchange(on_list, {})();
      return PassingEngine::list(selector, detail, token);
    }
  };
  Overtaking overtaking(kept_engine);
  overtaking.on_list = [&] {
    Record(state()).append(RunId("r1"),
                           std::vector<Fact>{{.state = TrialState::retrying, .reason = "by another"}});
  };
  engine = &overtaking;
  with_session([&](Session& session) {
    Record all(state());
    EXPECT_TRUE(try_reconcile(session, all, RunId("r1")).was_overtaken);
  });
  EXPECT_EQ(trial_of("r1", "one").reason, "by another");
}

TEST_F(ReconcileTest, AStopByTheCallerIsRecordedAsAStop) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 1000")), new_run("r1")), Result::succeeded);
  stop_container("r1", "one");
  reconcile(Outlook::resumable, {"one"});
  EXPECT_EQ(trial_of("r1", "one").state, TrialState::stopped);
  EXPECT_THAT(trial_of("r1", "one").reason, HasSubstr("combu stop"));
}

// A run whose owner died right after it started trials, before it recorded the starts.
class CutOff : public ReconcileTest {
 protected:
  void cut_off(const std::string& trials, const std::vector<Fact>& facts) {
    write(file_text(trials));
    auto loaded = load(invocation, RunId("r1"), shown);
    ASSERT_TRUE(loaded);
    Record all(state());
    with_session([&](Session& session) {
      RunEntry begun;
      begun.id = RunId("r1");
      begun.experiment = "lab";
      begun.file = invocation.file;
      begun.folder = folder.path();
      begun.text.evaluated = loaded->text.evaluated;
      begun.text.imports = "{}";
      begun.arguments = "[]";
      begun.options = to_json(RunOptions{.wait = true});
      begun.engine.address = session.engine_address();
      begun.results = path("results/lab/r1");
      begun.began_at = begun.working_since = real_clock().now();
      all.begin(begun, loaded->run.experiment);
    });
    all.append(RunId("r1"), facts);
    for (const Trial& trial : loaded->run.experiment.trials)
      (void)simulated->start(loaded->run, trial, 1, {});
  }
  static Fact fact(TrialIndex trial, TrialState state) {
    Fact fact{.trial = trial, .state = state};
    fact.at = real_clock().now();
    return fact;
  }
};

TEST_F(CutOff, AnUnrecordedStartIsFound) {
  cut_off(trial_text("goes", "sleep 100000") + trial_text("done") + trial_text("never", "sleep 1000"),
          {fact(0, TrialState::starting), fact(1, TrialState::starting), fact(2, TrialState::starting)});
  remove_container("r1", "never");
  reconcile();
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("goes", "running"), Pair("done", "succeeded"),
                                                 Pair("never", "waiting")));
  EXPECT_TRUE(trial_of("r1", "goes").ran_at);
}

TEST_F(CutOff, AFailedTrialWithRetriesWaitsForAResume) {
  cut_off(trial_text("bad", "exit 3", "retries: 2"),
          {fact(0, TrialState::starting), fact(0, TrialState::running)});
  reconcile();
  EXPECT_EQ(states("r1").at("bad"), "retrying");
  EXPECT_FALSE(entry("r1").ended_at);
}

TEST_F(CutOff, AFailedTrialWithRetriesHasFailedIfTheRunEnds) {
  cut_off(trial_text("bad", "exit 3", "retries: 2"),
          {fact(0, TrialState::starting), fact(0, TrialState::running)});
  reconcile(Outlook::ended);
  EXPECT_EQ(states("r1").at("bad"), "failed");
}

TEST_F(CutOff, AWaitReportsTheStatesOnRecord) {
  cut_off(trial_text("bad", "exit 3", "retries: 2") +
              trial_text("leaves", "sh -c 'echo word > /out'", "outputs: ['/out']"),
          {fact(0, TrialState::starting), fact(1, TrialState::starting)});
  std::map<std::string, std::string> ends;
  const auto wait_for = [&](const std::string& trial) {
    return in_session([&](Session& session) {
      return wait(session, invocation, {.experiment = {}, .run = {}, .trials = {trial}},
                  [&](const Observation& seen, const TrialRow& row) {
                    ends[seen.key.trial] = to_string(row.entry.state);
                    EXPECT_EQ(reason_text(row.entry), reason_text(trial_of("r1", seen.key.trial)));
                  });
    });
  };
  EXPECT_EQ(wait_for("leaves"), Result::succeeded);
  EXPECT_EQ(wait_for("bad"), Result::failed);
  EXPECT_THAT(ends, UnorderedElementsAre(Pair("leaves", "collecting"), Pair("bad", "retrying")));
  EXPECT_EQ(states("r1"), ends);
}

TEST_F(CutOff, AWaitReconcilesARunOfWhichSomeEndsAreOnRecord) {
  cut_off(trial_text("one") + trial_text("two") + trial_text("three"),
          {fact(0, TrialState::succeeded), fact(1, TrialState::running), fact(2, TrialState::succeeded)});
  std::map<std::string, std::string> ends;
  const auto on_end = [&](const Observation& seen, const TrialRow& row) {
    ends[seen.key.trial] = to_string(row.entry.state);
  };
  EXPECT_EQ(in_session([&](Session& session) { return wait(session, invocation, {}, on_end); }),
            Result::succeeded);
  EXPECT_THAT(ends, UnorderedElementsAre(Pair("one", "succeeded"), Pair("two", "succeeded"),
                                         Pair("three", "succeeded")));
}

TEST_F(CutOff, AFailureBlocksDependentTrials) {
  cut_off(trial_text("bad", "exit 3") +
              trial_text("after", "true", "depends: [{trial: 'bad', condition: 'succeeded'}]"),
          {fact(0, TrialState::starting), fact(0, TrialState::running)});
  remove_container("r1", "after");
  reconcile();
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("bad", "failed"), Pair("after", "blocked")));
}

TEST_F(CutOff, ARunWithAnOwnerIsNotReconciled) {
  cut_off(trial_text("done"), {fact(0, TrialState::starting), fact(0, TrialState::running)});
  const combu::Run run{.id = RunId("r1"), .experiment = {.name = "lab"}};
  auto lock = std::make_unique<RunLock>(LockScope::run, run, address, caller(), std::stop_token());
  const std::map<RunId, TrialNames> runs{{RunId("r1"), {}}};
  const auto reconcile_all = [&] {
    with_session([&](Session& session) { reconcile_runs_or_note(session, invocation, runs); });
    return states("r1").at("done");
  };
  EXPECT_EQ(reconcile_all(), "running");
  lock.reset();
  EXPECT_EQ(reconcile_all(), "succeeded");
}

TEST_F(CutOff, AnUnreachableEngineIsOnlyANote) {
  cut_off(trial_text("done"), {fact(0, TrialState::starting), fact(0, TrialState::running)});
  class Silent final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    ErrorKind kind = ErrorKind::unavailable;
    std::vector<Observation> list(const Selector& /*selector*/, ListDetail /*look*/,
                                  std::stop_token /*token*/) override {
      throw Error(kind, "engine", "is away");
    }
  };
  Silent silent(kept_engine);
  engine = &silent;
  with_session([&](Session& session) {
    Record all(state());
    reconcile_or_note(session, all, RunId("r1"));
    EXPECT_THAT(printed.of("note"),
                ElementsAre("the record does not show yet which trials have ended: engine: is away"));
    silent.kind = ErrorKind::cancelled;
    EXPECT_EQ(error_in([&] { reconcile_or_note(session, all, RunId("r1")); }).kind(), ErrorKind::cancelled);
  });
}

TEST_F(ReconcileTest, WithoutARecordThereIsNothingToDo) {
  with_session([&](Session& session) { reconcile_runs_or_note(session, invocation, {{RunId("r1"), {}}}); });
  EXPECT_THAT(printed.lines(), IsEmpty());
  EXPECT_FALSE(Record::exists(state()));
}

// ---- The row of a trial

class Row : public testing::Test {
 protected:
  Row() {
    row.entry.state = TrialState::running;
    seen.key = {.run = RunId("r1"), .trial = "one", .attempt = 1};
    seen.id = "c1";
    seen.phase = Phase::running;
    seen.health = Health::healthy;
  }
  TrialRow row;
  Observation seen;
};

TEST_F(Row, ARowShowsTheContainerAndItsHealth) {
  seen.created_at = Instant(std::chrono::seconds(5));
  add_observation(row, seen);
  EXPECT_EQ(row.entry.container, "c1");
  EXPECT_EQ(row.health, Health::healthy);
  EXPECT_EQ(row.created_at, seen.created_at);
  EXPECT_EQ(row.entry.state, TrialState::running);
}

TEST_F(Row, ATrialThatIsOverHasNoHealth) {
  row.entry.state = TrialState::succeeded;
  add_observation(row, seen);
  EXPECT_EQ(row.health, Health::none);
}

TEST_F(Row, AnEarlierAttemptIsIgnored) {
  row.entry.attempt = 2;
  add_observation(row, seen);
  EXPECT_EQ(row.entry.container, "");
}

TEST_F(Row, UnrecordedFactsAreShown) {
  row.entry.state = TrialState::starting;
  const Instant at(std::chrono::seconds(9));
  show_fact(row.entry, {.state = TrialState::running, .at = at});
  EXPECT_EQ(row.entry.state, TrialState::running);
  EXPECT_EQ(row.entry.ran_at, at);
  show_fact(row.entry, {.state = TrialState::running, .cause = Cause::timeout});
  EXPECT_EQ(row.entry.state, TrialState::running) << "it is only being stopped";
  EXPECT_EQ(row.entry.cause, Cause::none);
  show_fact(row.entry, {.state = TrialState::failed,
                        .attempt = 1,
                        .cause = Cause::error,
                        .exit_code = 3,
                        .reason = "exit code 3",
                        .at = at});
  EXPECT_EQ(row.entry.state, TrialState::failed);
  EXPECT_EQ(row.entry.exit_code, 3);
  EXPECT_EQ(row.entry.reason, "exit code 3");
  EXPECT_EQ(row.entry.ended_at, at);
}

TEST_F(Row, AFurtherAttemptHasNoEndYet) {
  const Instant at(std::chrono::seconds(9));
  show_fact(row.entry, {.state = TrialState::retrying,
                        .cause = Cause::error,
                        .exit_code = 3,
                        .reason = "exit code 3",
                        .at = at});
  show_fact(row.entry, {.state = TrialState::starting, .attempt = 2, .at = at});
  show_fact(row.entry, {.state = TrialState::running, .attempt = 2, .at = at});
  EXPECT_EQ(row.entry.attempt, 2);
  EXPECT_EQ(row.entry.cause, Cause::none);
  EXPECT_EQ(row.entry.reason, "");
  EXPECT_EQ(row.entry.exit_code, std::nullopt);
  EXPECT_EQ(row.entry.ended_at, std::nullopt);
}

TEST(Behind, ARecordIsBehindIfTheEngineKnowsMore) {
  TrialEntry entry;
  const auto behind = [&](TrialState state, Phase phase, int attempt = 1) {
    entry.state = state;
    const Observation seen{.key = {.run = RunId("r1"), .trial = "one", .attempt = attempt}, .phase = phase};
    return is_behind(entry, &seen);
  };
  EXPECT_TRUE(behind(TrialState::running, Phase::ended));
  EXPECT_FALSE(behind(TrialState::running, Phase::running));
  EXPECT_TRUE(behind(TrialState::starting, Phase::running));
  EXPECT_FALSE(behind(TrialState::starting, Phase::created));
  EXPECT_TRUE(behind(TrialState::waiting, Phase::running));
  EXPECT_TRUE(behind(TrialState::running, Phase::running, 2));
  EXPECT_FALSE(behind(TrialState::succeeded, Phase::running));
  EXPECT_FALSE(behind(TrialState::retrying, Phase::ended));
  entry.attempt = 2;
  EXPECT_FALSE(behind(TrialState::waiting, Phase::ended, 1));
  EXPECT_FALSE(is_behind(entry, nullptr));
  entry.state = TrialState::running;
  EXPECT_TRUE(is_behind(entry, nullptr));
}

}  // namespace
}  // namespace combu::test
