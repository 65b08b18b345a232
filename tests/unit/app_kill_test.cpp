// Tests of the command kill.

#include <atomic>
#include <utility>

#include "app/kill.hpp"
#include "app_fixture.hpp"
#include "app_refusing.hpp"
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
  EXPECT_EQ(start(file_text(k_endless_trial +
                            trial_text("done", "sh -c 'echo word; sleep 100'", "networks: ['lab']")),
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
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
  invocation = invocation_of("other.jsonnet");
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_THAT(
      printed.of("note"),
      ElementsAre("nothing to remove",
                  "other experiments on this engine: lab (1 container); choose one with --experiment NAME"));
}

TEST_F(KillTest, KillOnAnotherEngineNamesTheEngineOfTheLastRun) {
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
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
  EXPECT_EQ(start(file_text(k_endless_trial + trial_text("other", "sleep 100000")), new_run("r1")),
            Result::succeeded);
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
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
  engine = &refusing;
  refusing.logs_fault = Error(ErrorKind::unavailable, "engine", "the disk is gone");
  EXPECT_EQ(kill(discarding()), Result::succeeded);
  EXPECT_THAT(containers(), IsEmpty());
  EXPECT_TRUE(entry("r1").ended_at);
}

TEST_F(KillTest, AContainerThatCannotBeStoppedIsAnError) {
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
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
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
  write_file("state/record.sqlite", "no database, and long enough to be taken for one by its size alone");
  EXPECT_EQ(kill(), Result::failed);
  EXPECT_THAT(printed.of("note"), Contains(HasSubstr("the record was not updated: ")));
  EXPECT_THAT(printed.of("error"),
              ElementsAre(HasSubstr("not removed: goes: the outputs and the log cannot be collected: ")));
  EXPECT_EQ(kill(discarding()), Result::succeeded);
  EXPECT_THAT(containers(), IsEmpty());
}

TEST_F(KillTest, KillWorksWithoutARecord) {
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
  std::filesystem::remove_all(state());
  EXPECT_EQ(kill(), Result::succeeded);
  EXPECT_THAT(containers(), IsEmpty());
}

TEST_F(KillTest, ARunThatKeepsStartingTrialsIsAnError) {
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
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
  EXPECT_EQ(start(file_text(k_endless_trial), new_run("r1")), Result::succeeded);
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

}  // namespace
}  // namespace combu::test
