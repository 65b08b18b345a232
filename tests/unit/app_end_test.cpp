// Tests of commands that end or follow a run from outside: stop, wait, forget.

#include <SQLiteCpp/SQLiteCpp.h>

#include <utility>

#include "app/forget.hpp"
#include "app/stop.hpp"
#include "app/wait.hpp"
#include "app_fixture.hpp"
#include "app_refusing.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

// ---- stop

class StopTest : public AppTest {
 protected:
  Result stop_trials(const std::vector<std::string>& trials, const std::string& run = "") {
    printed.clear();
    stopped.clear();
    StopOptions options;
    options.selection.trials = trials;
    options.selection.run = run;
    options.on_stopped = [&](const Observation& seen, const std::optional<Error>& error) {
      stopped[seen.key.trial] = error ? error->message() : "stopped";
    };
    return in_session([&](Session& session) { return combu::stop(session, invocation, options); });
  }
  std::map<std::string, std::string> stopped;
};

TEST_F(StopTest, StopEndsRunningTrialsAndRecordsTheStop) {
  EXPECT_EQ(start(file_text(k_endless_trial + trial_text("other", "sleep 100000") + trial_text("done")),
                  new_run("r1")),
            Result::succeeded);
  EXPECT_EQ(stop_trials({"goes"}), Result::succeeded);
  EXPECT_THAT(stopped, ElementsAre(Pair("goes", "stopped")));
  EXPECT_THAT(printed.of("note"), ElementsAre("stopped 1 of 1"));
  EXPECT_EQ(states("r1").at("goes"), "stopped");
  EXPECT_THAT(trial_of("r1", "goes").reason, HasSubstr("combu stop"));
  EXPECT_TRUE(world.is_running("other"));
  EXPECT_EQ(stop_trials({}), Result::succeeded);
  EXPECT_THAT(stopped, ElementsAre(Pair("other", "stopped")));
  EXPECT_THAT(containers(), ElementsAre("done", "goes", "other"));
  EXPECT_EQ(stop_trials({}), Result::succeeded);
  EXPECT_THAT(printed.of("note"), ElementsAre("nothing runs"));
}

TEST_F(StopTest, StopEndsPendingTrials) {
  World placing({.start_takes = Seconds(0), .places = true});
  const std::unique_ptr<Engine> placing_engine = open_simulated(placing, 1);
  KeptEngine kept(*placing_engine);
  engine = &kept;
  EXPECT_EQ(start(file_text(trial_text("large", "true", "cpus: 100000")), new_run("r1")), Result::succeeded);
  EXPECT_EQ(stop_trials({"large"}), Result::succeeded);
  EXPECT_THAT(printed.of("note"), ElementsAre("stopped 1 of 1"));
  EXPECT_EQ(states("r1").at("large"), "stopped");
}

TEST_F(StopTest, ATrialWithoutAContainerIsAnError) {
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
  EXPECT_EQ(stop_trials({"go*", "nobody"}), Result::failed);
  EXPECT_THAT(stopped, ElementsAre(Pair("goes", "stopped")));
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("combu: nobody: has no container")));
}

TEST_F(StopTest, ATrialThatTheEngineCannotStopIsAnError) {
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
  Refusing refusing(kept_engine);
  engine = &refusing;
  refusing.stop_fault = refusal("will not");
  EXPECT_EQ(stop_trials({"goes"}), Result::failed);
  EXPECT_THAT(stopped, ElementsAre(Pair("goes", "will not")));
  EXPECT_THAT(printed.of("error"), ElementsAre("not stopped: goes: will not"));
  EXPECT_EQ(states("r1").at("goes"), "running");
  refusing.stop_fault = Error(ErrorKind::cancelled, "", "cancelled");
  EXPECT_EQ(stop_trials({"goes"}), Result::interrupted);
}

TEST_F(StopTest, StopWorksIfTheOwnerDoesNotListen) {
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
  const combu::Run run{.id = RunId("r1"), .experiment = {.name = "lab"}};
  const RunLock lock(LockScope::run, run, address, caller(), {});
  EXPECT_EQ(stop_trials({"goes"}), Result::succeeded);
  EXPECT_FALSE(world.is_running("goes"));
  EXPECT_EQ(states("r1").at("goes"), "running") << "the process at work records it";
}

// ---- wait

class WaitTest : public AppTest {
 protected:
  Result wait(const std::vector<std::string>& trials = {}, const std::string& run = "") {
    printed.clear();
    ends.clear();
    const OnEnd on_end = [&](const Observation& seen, const TrialRow& row) {
      ends[seen.key.trial] = std::string(to_string(row.entry.state));
    };
    SelectionOptions selection;
    selection.trials = trials;
    selection.run = run;
    return in_session([&](Session& session) { return combu::wait(session, invocation, selection, on_end); });
  }
  std::map<std::string, std::string> ends;
};

TEST_F(WaitTest, WaitReportsAndRecordsEachEnd) {
  EXPECT_EQ(
      start(file_text(trial_text("good", "sleep 0.05") + trial_text("bad", "sh -c 'sleep 0.05; exit 2'") +
                      trial_text("stays", "sleep 1000", "service: true")),
            new_run("r1")),
      Result::succeeded);
  EXPECT_EQ(wait(), Result::failed);
  EXPECT_THAT(ends, UnorderedElementsAre(Pair("good", "succeeded"), Pair("bad", "failed")));
  EXPECT_EQ(states("r1").at("good"), "succeeded");
  EXPECT_EQ(wait({"good"}), Result::succeeded);
  EXPECT_THAT(ends, ElementsAre(Pair("good", "succeeded")));
}

TEST_F(WaitTest, WaitReportsATrialWhoseContainerIsGone) {
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
  class Removing final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
               std::stop_token token) override {
      (void)PassingEngine::release({.trials = {"goes"}}, {}, token);
      PassingEngine::watch(selector, on_change, token);
    }
  };
  Removing removing(kept_engine);
  engine = &removing;
  EXPECT_EQ(wait(), Result::failed);
  EXPECT_THAT(ends, ElementsAre(Pair("goes", "stopped")));
}

TEST_F(WaitTest, WaitIgnoresOldRuns) {
  EXPECT_EQ(start(file_text(trial_text("bad", "exit 1")), waiting_run("r1")), Result::failed);
  EXPECT_EQ(start(file_text(trial_text("good", "sleep 0.05")), new_run("r2")), Result::succeeded);
  EXPECT_EQ(wait(), Result::succeeded);
  EXPECT_THAT(ends, ElementsAre(Pair("good", "succeeded")));
  EXPECT_EQ(wait(), Result::succeeded) << "when nothing lives, the newest run is meant";
  EXPECT_THAT(ends, ElementsAre(Pair("good", "succeeded")));
  EXPECT_EQ(wait({}, "r1"), Result::failed);
}

TEST_F(WaitTest, WaitWithoutTrialsSucceeds) {
  invocation = invocation_of("other.jsonnet");
  EXPECT_EQ(wait(), Result::succeeded);
  EXPECT_THAT(printed.of("note"), ElementsAre("nothing to wait for"));
  EXPECT_EQ(wait({"nobody"}), Result::failed);
}

TEST_F(WaitTest, AnInterruptEndsTheWait) {
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
  class Interrupting final : public PassingEngine {
   public:
    Interrupting(Engine& inner, std::stop_source source) : PassingEngine(inner), source_(std::move(source)) {}
    void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
               std::stop_token token) override {
      source_.request_stop();
      PassingEngine::watch(selector, on_change, token);
    }

   private:
    std::stop_source source_;
  };
  Interrupting interrupting(kept_engine, stop);
  engine = &interrupting;
  EXPECT_EQ(wait(), Result::interrupted);
  EXPECT_THAT(ends, IsEmpty());
}

TEST_F(WaitTest, AnErrorOfTheListenerIsAnErrorOfTheCommand) {
  EXPECT_EQ(start(file_text(trial_text("good")), new_run("r1")), Result::succeeded);
  const OnEnd on_end = [](const Observation& /*seen*/, const TrialRow& /*row*/) {
    throw Error(ErrorKind::refused, "output", "is closed");
  };
  EXPECT_EQ(in_session([&](Session& session) { return combu::wait(session, invocation, {}, on_end); }),
            Result::failed);
  EXPECT_THAT(printed.of("error"), ElementsAre("output: is closed"));
}

TEST_F(WaitTest, ARecordThatCannotBeWrittenIsNotedOnce) {
  EXPECT_EQ(
      start(file_text(trial_text("first", "sleep 0.05") + trial_text("second", "sleep 0.5")), new_run("r1")),
      Result::succeeded);
  SQLite::Database(state() + "/record.sqlite", SQLite::OPEN_READWRITE)
      .exec("CREATE TRIGGER no BEFORE UPDATE ON trials BEGIN SELECT RAISE(ABORT, 'no'); END");
  EXPECT_EQ(wait(), Result::succeeded);
  EXPECT_THAT(ends, UnorderedElementsAre(Pair("first", "succeeded"), Pair("second", "succeeded")));
  EXPECT_THAT(printed.of("note"),
              ElementsAre(HasSubstr("the record does not show yet which trials have ended: ")));
}

TEST_F(WaitTest, WaitWorksWithoutARecord) {
  EXPECT_EQ(start(file_text(trial_text("bad", "sh -c 'sleep 0.05; exit 1'")), new_run("r1")),
            Result::succeeded);
  std::filesystem::remove_all(state());
  EXPECT_EQ(wait(), Result::failed);
  EXPECT_THAT(ends, ElementsAre(Pair("bad", "failed")));
}

// ---- forget

class ForgetTest : public AppTest {
 protected:
  std::size_t forget(const std::vector<std::string>& ids) { return remove_runs(invocation, ids, opener()); }
};

TEST_F(ForgetTest, RunsAreRemovedWithTheirLogs) {
  EXPECT_EQ(start(file_text(trial_text("one", "echo word")), waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(start(waiting_run("r2")), Result::succeeded);
  write_file("state/logs/r1.log", "of the background");
  EXPECT_EQ(forget({"r1", "r1"}), 1U);
  EXPECT_EQ(error_in([&] { (void)entry("r1"); }).kind(), ErrorKind::not_found);
  EXPECT_FALSE(Telemetry::exists(state(), RunId("r1")));
  EXPECT_FALSE(std::filesystem::exists(path("state/logs/r1.log")));
  EXPECT_TRUE(Telemetry::exists(state(), RunId("r2")));
  EXPECT_EQ(error_in([&] { (void)forget({"r1"}); }).kind(), ErrorKind::not_found);
}

TEST_F(ForgetTest, ARunIsReconciledBeforeItIsRemoved) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 100")), new_run("r1")), Result::succeeded);
  pass_an_hour();
  EXPECT_FALSE(entry("r1").ended_at);
  EXPECT_EQ(forget({"r1"}), 1U);
}

TEST_F(ForgetTest, AnInterruptRemovesNothing) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 100")), new_run("r1")), Result::succeeded);
  pass_an_hour();
  stop.request_stop();
  EXPECT_EQ(error_in([&] { (void)forget({"r1"}); }).kind(), ErrorKind::cancelled);
  EXPECT_NO_THROW((void)entry("r1"));
}

TEST_F(ForgetTest, ARunThatIsNotOverIsRefused) {
  EXPECT_EQ(start(file_text(trial_text("done")), waiting_run("r0")), Result::succeeded);
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
  const Error error = error_in([&] { (void)forget({"r0", "r1"}); });
  EXPECT_EQ(error.kind(), ErrorKind::conflict);
  EXPECT_EQ(error.message(),
            "cannot be removed: it has not ended; `combu kill --experiment lab --run r1` ends the run");
  EXPECT_NO_THROW((void)entry("r0")) << "then none is removed";
  const combu::Run run{.id = RunId("r1"), .experiment = {.name = "lab"}};
  const RunLock lock(LockScope::run, run, address, caller(), {});
  EXPECT_THAT(error_in([&] { (void)forget({"r1"}); }).message(), HasSubstr("owns the run"));
}

TEST_F(ForgetTest, RunsThatEndedBeforeAnInstantAreRemoved) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  const Instant between = *entry("r1").ended_at + std::chrono::nanoseconds(1);
  invocation = invocation_of("other.jsonnet");
  write_file("other.jsonnet", "[{name: 'two', image: 'x', cmd: 'true'}]");
  EXPECT_EQ(start(waiting_run("r2")), Result::succeeded);
  EXPECT_EQ(start(waiting_run("r3")), Result::succeeded);
  EXPECT_EQ(remove_runs_before(invocation, between), 0U) << "r1 is of another file";
  EXPECT_EQ(remove_runs_before(invocation, *entry("r3").ended_at), 1U);
  invocation.file.clear();
  EXPECT_EQ(remove_runs_before(invocation, between), 1U);
  EXPECT_EQ(record().runs({}, 9).size(), 1U);
}

}  // namespace
}  // namespace combu::test
