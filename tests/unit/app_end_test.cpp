// Tests of commands that end or follow a run from outside: kill, stop, wait, forget.

#include <SQLiteCpp/SQLiteCpp.h>

#include <atomic>
#include <utility>

#include "app/forget.hpp"
#include "app/kill.hpp"
#include "app/stop.hpp"
#include "app/wait.hpp"
#include "app_fixture.hpp"
#include "combu/workers.hpp"

namespace combu::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

// An engine whose calls fail with the given errors.
class Refusing final : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::optional<Error> copy_out_fault;
  std::optional<Error> logs_fault;
  std::optional<Error> stop_fault;
  std::optional<Error> facts_fault;

  Facts facts(std::stop_token token) override {
    if (facts_fault) throw Error(*facts_fault);
    return PassingEngine::facts(token);
  }
  bool copy_out(const Key& key, const std::string& from,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token token) override {
    if (copy_out_fault) throw Error(*copy_out_fault);
    return PassingEngine::copy_out(key, from, on_bytes, token);
  }
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token token) override {
    if (logs_fault) throw Error(*logs_fault);
    PassingEngine::logs(key, options, on_piece, token);
  }
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token token) override {
    if (stop_fault) throw Error(*stop_fault);
    PassingEngine::stop(key, grace, token);
  }
};

Error refusal(const std::string& why) {
  return {ErrorKind::refused, "engine", why};
}

constexpr const char* k_goes = "{name: 'goes', image: 'lab/x', cmd: 'sleep 100000'},";
constexpr const char* k_leaves =
    "{name: 'leaves', image: 'lab/x', cmd: ['sh', '-c', 'echo word > /out; sleep 0.01'], outputs: ['/out']},";

class KillTest : public AppTest {
 protected:
  Result kill(const KillOptions& options = {}) {
    printed.clear();
    return in_session([&](Session& session) { return combu::kill(session, invocation, options); });
  }
  static KillOptions discarding() {
    KillOptions options;
    options.discard = true;
    return options;
  }
  Refusing refusing{kept_engine};
};

TEST_F(KillTest, KillRemovesAllContainersAndRecordsTheEnds) {
  EXPECT_EQ(start(file_text(k_goes + trial_text("done", "sh -c 'echo word; sleep 100'", "networks: ['lab']")),
                  new_run("r1")),
            Result::succeeded);
  pass_an_hour();
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_THAT(printed.of("note"), ElementsAre("removed 2 containers, 1 network"));
  EXPECT_THAT(containers(), IsEmpty());
  EXPECT_FALSE(world.has_network("lab"));
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("goes", "stopped"), Pair("done", "succeeded")));
  EXPECT_TRUE(entry("r1").ended_at);
  EXPECT_TRUE(Telemetry::exists(state(), RunId("r1"))) << "logs are kept before containers go";
}

TEST_F(KillTest, KillWithoutContainersRemovesNothing) {
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
  invocation = invocation_of("other.jsonnet");
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_THAT(
      printed.of("note"),
      ElementsAre("nothing to remove",
                  "other experiments on this engine: lab (1 container); choose one with --experiment NAME"));
}

TEST_F(KillTest, KillOnAnotherEngineNamesTheEngineOfTheLastRun) {
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
  World other_world({});
  const std::unique_ptr<Engine> other = open_simulated(other_world, 1);
  KeptEngine kept(*other);
  engine = &kept;
  const std::string before = std::exchange(address, "unix:///run/other.sock");
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_THAT(
      printed.of("note"),
      ElementsAre("nothing to remove",
                  "the last run of this file, r1, is on another engine: add `--engine " + before + "`"));
}

TEST_F(KillTest, KillOfARunKeepsOtherRuns) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(start(file_text(trial_text("two")), waiting_run("r2")), Result::succeeded);
  KillOptions options;
  options.experiment = "lab";
  options.run = "r1";
  EXPECT_EQ(kill(options), Result::succeeded);
  EXPECT_THAT(containers(), ElementsAre("two"));
  EXPECT_EQ(kill(options), Result::succeeded);
  EXPECT_THAT(printed.of("note"), ElementsAre("nothing to remove", "runs of this experiment: r2"));
}

TEST_F(KillTest, KillRemovesAllRunsOfTheFilesExperiment) {
  EXPECT_EQ(start(file_text(trial_text("one", "true", "networks: ['lab']")), waiting_run("r1")),
            Result::succeeded);
  invocation = invocation_of("copy.jsonnet");
  write_file("copy.jsonnet", file_text(trial_text("two", "true", "networks: ['lab']")));
  EXPECT_EQ(start(waiting_run("r2")), Result::succeeded);
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_THAT(containers(), IsEmpty());
  EXPECT_THAT(printed.of("note"), ElementsAre("removed 2 containers, 1 network"));
}

TEST_F(KillTest, ANetworkThatOtherContainersUseStays) {
  EXPECT_EQ(start(file_text(trial_text("one", "true", "networks: ['lab']")), waiting_run("r1")),
            Result::succeeded);
  invocation = invocation_of("other.jsonnet");
  write_file("other.jsonnet", "[{name: 'two', image: 'x', networks: ['lab']}]");
  EXPECT_EQ(start(new_run("r2")), Result::succeeded);
  invocation = invocation_of("experiment.jsonnet");
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains(AllOf(HasSubstr("network lab was not removed: "), HasSubstr("run `kill` again"))));
}

TEST_F(KillTest, AContainerWhoseLogCannotBeReadIsKept) {
  EXPECT_EQ(start(file_text(k_goes + trial_text("other", "sleep 100000")), new_run("r1")), Result::succeeded);
  engine = &refusing;
  refusing.logs_fault = Error(ErrorKind::unavailable, "engine", "the disk is gone");
  EXPECT_EQ(kill(), Result::failed);
  EXPECT_THAT(printed.of("error"),
              UnorderedElementsAre("not removed: goes: the log cannot be stored: engine: the disk is gone",
                                   "not removed: other: the log cannot be stored: engine: the disk is gone"));
  EXPECT_THAT(printed.of("note"), Contains(HasSubstr("2 containers are stopped, but not removed")));
  EXPECT_THAT(containers(), ElementsAre("goes", "other"));
  EXPECT_FALSE(world.is_running("goes"));
  EXPECT_EQ(states("r1").at("goes"), "stopped");

  refusing.logs_fault.reset();
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_THAT(containers(), IsEmpty());
}

TEST_F(KillTest, DiscardRemovesAContainerWhoseLogCannotBeRead) {
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
  engine = &refusing;
  refusing.logs_fault = Error(ErrorKind::unavailable, "engine", "the disk is gone");
  EXPECT_EQ(kill(discarding()), Result::succeeded);
  EXPECT_THAT(containers(), IsEmpty());
  EXPECT_TRUE(entry("r1").ended_at);
}

TEST_F(KillTest, AContainerThatCannotBeStoppedIsAnError) {
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
  engine = &refusing;
  refusing.logs_fault = Error(ErrorKind::unavailable, "engine", "the disk is gone");
  refusing.stop_fault = refusal("will not");
  EXPECT_EQ(kill(), Result::failed);
  EXPECT_THAT(printed.of("error"), Contains("goes: cannot be stopped: engine: will not"));
}

// Requests the stop of `stop` when outputs are copied for the second time.
class InterruptingCopy final : public PassingEngine {
 public:
  InterruptingCopy(Engine& inner, std::stop_source source)
      : PassingEngine(inner), source_(std::move(source)) {}
  bool copy_out(const Key& key, const std::string& from,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token token) override {
    if (++calls_ == 2) source_.request_stop();
    return PassingEngine::copy_out(key, from, on_bytes, token);
  }

 private:
  std::atomic<int> calls_ = 0;
  std::stop_source source_;
};

// A run whose owner was interrupted before it could collect the outputs of its trials.
class KillCollecting : public KillTest {
 protected:
  void leave_uncollected() {
    leave_uncollected(refusing, k_leaves + trial_text("other", "sh -c 'sleep 0.01; echo more > /out'",
                                                      "outputs: ['/out']"));
    EXPECT_THAT(states("r1"),
                UnorderedElementsAre(Pair("leaves", "collecting"), Pair("other", "collecting")));
  }
  // Two of the trials must have outputs.
  void leave_uncollected(Refusing& refusing, const std::string& trials) {
    refusing.copy_out_fault = refusal("the disk is full");
    write(file_text(trials));
    InterruptingCopy watching(refusing, stop);
    engine = &watching;
    EXPECT_EQ(start(waiting_run("r1")), Result::interrupted);
    engine = &refusing;
    stop = {};
  }
};

TEST_F(KillCollecting, KillCollectsOutputsBeforeItRemovesContainers) {
  leave_uncollected();
  refusing.copy_out_fault.reset();
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("collecting the outputs of 2 trials of run r1"));
  EXPECT_EQ(read("results/lab/r1/leaves/out"), "word\n");
  EXPECT_EQ(read("results/lab/r1/other/out"), "more\n");
  EXPECT_THAT(containers(), IsEmpty());
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("leaves", "succeeded"), Pair("other", "succeeded")));
  EXPECT_TRUE(entry("r1").ended_at);
}

TEST_F(KillCollecting, AContainerWhoseOutputsCannotBeCollectedIsKept) {
  leave_uncollected();
  EXPECT_EQ(kill(), Result::failed);
  EXPECT_THAT(
      printed.of("error"),
      UnorderedElementsAre(
          HasSubstr("not removed: leaves: the outputs cannot be collected: engine: the disk is full"),
          HasSubstr("not removed: other: the outputs cannot be collected: engine: the disk is full")));
  EXPECT_THAT(containers(), ElementsAre("leaves", "other"));
  EXPECT_FALSE(entry("r1").ended_at);
  EXPECT_EQ(states("r1").at("leaves"), "collecting");

  EXPECT_EQ(kill(discarding()), Result::succeeded);
  EXPECT_THAT(containers(), IsEmpty());
  EXPECT_TRUE(entry("r1").ended_at);
}

TEST_F(KillCollecting, KillEndsTheOtherTrialsInAWorkerWithUncollectedOutputs) {
  const auto in_worker = [](const std::string& name, const std::string& script, const std::string& outputs) {
    return trial_text(name, "sh -c '" + script + "'",
                      "worker: {count: 1, concurrency: 3}, outputs: [" + outputs + "]");
  };
  const auto open_workers = [&] {
    return with_workers(kept_engine, [](std::string_view) { return "agent"; });
  };
  {
    const std::unique_ptr<Engine> workers = open_workers();
    Refusing of_owner(*workers);
    leave_uncollected(of_owner, in_worker("goes", "sleep 100000", "") +
                                    in_worker("leaves", "sleep 0.01; echo word > out", "'out'") +
                                    in_worker("other", "sleep 0.01; echo more > out", "'out'"));
    EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("goes", "running"), Pair("leaves", "collecting"),
                                                   Pair("other", "collecting")));
  }
  const std::unique_ptr<Engine> workers = open_workers();
  Refusing of_kill(*workers);
  of_kill.copy_out_fault = refusal("the disk is full");
  engine = &of_kill;
  EXPECT_EQ(kill(), Result::failed);
  EXPECT_THAT(printed.of("error"), UnorderedElementsAre(HasSubstr("not removed: leaves: the outputs cannot"),
                                                        HasSubstr("not removed: other: the outputs cannot")));
  EXPECT_THAT(printed.of("note"), Contains(HasSubstr("removed 1 container,")));
  for (const World::Execution& one : world.executions()) EXPECT_TRUE(one.ended_at) << one.id << " runs";
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("goes", "stopped"), Pair("leaves", "collecting"),
                                                 Pair("other", "collecting")));

  of_kill.copy_out_fault.reset();
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_EQ(read("results/lab/r1/leaves/out"), "word\n");
  EXPECT_THAT(containers(), IsEmpty());
}

TEST_F(KillCollecting, AnInterruptKeepsUncollectedContainers) {
  leave_uncollected();
  refusing.copy_out_fault.reset();
  InterruptingCopy interrupting(kept_engine, stop);
  engine = &interrupting;
  EXPECT_EQ(kill(), Result::interrupted);
  EXPECT_THAT(printed.of("note"), Contains("interrupted; run the same command again to remove the rest"));
  EXPECT_THAT(containers(), ElementsAre("other"));
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("leaves", "succeeded"), Pair("other", "collecting")));
}

TEST_F(KillCollecting, ResumeCollectsTheOutputs) {
  leave_uncollected();
  refusing.copy_out_fault.reset();
  EXPECT_EQ(resume(), Result::succeeded);
  EXPECT_EQ(read("results/lab/r1/leaves/out"), "word\n");
  EXPECT_EQ(states("r1").at("leaves"), "succeeded");
}

TEST_F(KillTest, ATrialWhoseEndCannotBeRecordedDoesNotCountAsKilled) {
  EXPECT_EQ(start(file_text(trial_text("done", "sh -c 'sleep 100; exit 3'")), new_run("r1")),
            Result::succeeded);
  pass_an_hour();
  engine = &refusing;
  refusing.facts_fault = refusal("does not say");
  EXPECT_EQ(kill(), Result::failed);
  EXPECT_THAT(printed.of("note"),
              Contains("combu could not record how the trials of run r1 ended: engine: does not say"));
  EXPECT_THAT(
      printed.of("error"),
      ElementsAre("not removed: done: combu could not record how the trial ended: engine: does not say"));
  EXPECT_EQ(states("r1").at("done"), "running");
  refusing.facts_fault.reset();
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_EQ(states("r1").at("done"), "failed");
}

TEST_F(KillTest, ADiscardedTrialWhoseEndCannotBeRecordedDoesNotCountAsKilled) {
  EXPECT_EQ(start(file_text(trial_text("done", "sleep 100")), new_run("r1")), Result::succeeded);
  pass_an_hour();
  engine = &refusing;
  refusing.facts_fault = refusal("does not say");
  EXPECT_EQ(kill(discarding()), Result::succeeded);
  EXPECT_THAT(containers(), IsEmpty());
  EXPECT_EQ(states("r1").at("done"), "running");
  EXPECT_FALSE(entry("r1").ended_at);
}

TEST_F(KillTest, ADamagedRecordKeepsContainers) {
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
  write_file("state/record.sqlite", "no database, and long enough to be taken for one by its size alone");
  EXPECT_EQ(kill(), Result::failed);
  EXPECT_THAT(printed.of("note"), Contains(HasSubstr("the record was not updated: ")));
  EXPECT_THAT(printed.of("error"),
              ElementsAre(HasSubstr("not removed: goes: the outputs and the log cannot be collected: ")));
  EXPECT_EQ(kill(discarding()), Result::succeeded);
  EXPECT_THAT(containers(), IsEmpty());
}

TEST_F(KillTest, KillWorksWithoutARecord) {
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
  std::filesystem::remove_all(state());
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_THAT(containers(), IsEmpty());
}

TEST_F(KillTest, ARunThatKeepsStartingTrialsIsAnError) {
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
  class Starting final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                     std::stop_token token) override {
      Released released = PassingEngine::release(selector, callbacks, token);
      Trial trial;
      trial.name = "goes";
      trial.image = "x";
      trial.process.cmd = {{"sleep", "1000"}};
      const combu::Run run{.id = RunId("r1"), .experiment = {.name = "lab", .file = file}};
      (void)PassingEngine::start(run, trial, 1, token);
      return released;
    }
    std::string file;
  };
  Starting starting(kept_engine);
  starting.file = invocation.file;
  engine = &starting;
  EXPECT_EQ(kill(discarding()), Result::failed);
  EXPECT_THAT(printed.of("error"),
              ElementsAre("a run is still starting trials; end its process, then run `kill` again"));
  EXPECT_FALSE(entry("r1").ended_at);
}

TEST_F(KillTest, AContainerThatTheEngineCannotRemoveIsAnError) {
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
  class Holding final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                     std::stop_token token) override {
      (void)callbacks.found(PassingEngine::list(selector, ListDetail::basic, token));
      return {.experiments = {"lab"}, .left = {{ErrorKind::refused, "goes", "is busy"}}};
    }
  };
  Holding holding(kept_engine);
  engine = &holding;
  EXPECT_EQ(kill(), Result::failed);
  EXPECT_THAT(printed.of("error"), ElementsAre("not removed: goes: is busy"));
  EXPECT_FALSE(entry("r1").ended_at);
}

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
  EXPECT_EQ(
      start(file_text(k_goes + trial_text("other", "sleep 100000") + trial_text("done")), new_run("r1")),
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
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
  EXPECT_EQ(stop_trials({"go*", "nobody"}), Result::failed);
  EXPECT_THAT(stopped, ElementsAre(Pair("goes", "stopped")));
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("combu: nobody: has no container")));
}

TEST_F(StopTest, ATrialThatTheEngineCannotStopIsAnError) {
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
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
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
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
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
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
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
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
  EXPECT_EQ(start(file_text(k_goes), new_run("r1")), Result::succeeded);
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
