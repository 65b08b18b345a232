// Tests that resume a recorded run, retry trials, and skip equal trials.

#include <csignal>

#include "app/outputs.hpp"
#include "app/recorder.hpp"
#include "app/resume.hpp"
#include "app_fixture.hpp"
#include "soft_limit.hpp"

namespace combu::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

// Requests the stop of `stop` after the trial `after` has been started.
class InterruptingEngine final : public PassingEngine {
 public:
  InterruptingEngine(Engine& inner, std::stop_source source, std::string after)
      : PassingEngine(inner), source_(std::move(source)), after_(std::move(after)) {}
  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token token) override {
    StartResult result = PassingEngine::start(run, trial, attempt, token);
    if (trial.name == after_) source_.request_stop();
    return result;
  }

 private:
  std::stop_source source_;
  std::string after_;
};

class ResumeTest : public AppTest {
 protected:
  // Starts a run that is interrupted when the trial `after` has been started.
  void interrupt(const std::string& text, const std::string& after) {
    InterruptingEngine interrupting(kept_engine, stop, after);
    engine = &interrupting;
    EXPECT_EQ(start(text, waiting_run("r1")), Result::interrupted);
    engine = &kept_engine;
    stop = {};
    printed.clear();
  }
  static std::string after(const std::string& name, const std::string& other, const std::string& cmd = "true",
                           const std::string& fields = "") {
    return trial_text(name, cmd, "depends: [{trial: '" + other + "', condition: 'succeeded'}], " + fields);
  }
};

TEST_F(ResumeTest, AnInterruptedRunContinues) {
  interrupt(file_text(trial_text("one", "sleep 0.5") + after("two", "one")), "one");
  EXPECT_EQ(states("r1").at("two"), "waiting");
  EXPECT_EQ(resume(), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains(HasSubstr("resuming run r1: ")));
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("one", "succeeded"), Pair("two", "succeeded")));
  EXPECT_TRUE(entry("r1").ended_at);
}

TEST_F(ResumeTest, AnEndDuringTheInterruptionIsRecordedWithItsLog) {
  interrupt(file_text(trial_text("one", "sh -c 'echo word; sleep 100'") + after("two", "one")), "one");
  pass_an_hour();
  EXPECT_EQ(resume(), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("resuming run r1: 1 waiting, 1 succeeded"));
  EXPECT_TRUE(Telemetry(state(), RunId("r1"), Telemetry::Use::reading).log("one", 1)->complete);
}

TEST_F(ResumeTest, ALogThatCannotBeReadDoesNotPreventAResume) {
  interrupt(file_text(trial_text("one", "sleep 100") + after("two", "one")), "one");
  pass_an_hour();
  class Deaf final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
              std::stop_token token) override {
      if (key.trial == "one") throw Error(ErrorKind::unavailable, key.trial, "is away");
      PassingEngine::logs(key, options, on_piece, token);
    }
  };
  Deaf deaf(kept_engine);
  engine = &deaf;
  EXPECT_EQ(resume(), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("one: the log cannot be stored: one: is away"));
}

TEST_F(ResumeTest, ARunThatIsOverIsOnlyShown) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(start(file_text(trial_text("bad", "exit 1")), waiting_run("r2")), Result::failed);
  printed.clear();
  engine = nullptr;
  EXPECT_EQ(resume({.run = "r1"}), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("run r1 has ended: 1 succeeded"));
  EXPECT_EQ(resume(), Result::failed);
  EXPECT_THAT(printed.of("note"), Contains("run r2 has ended: 1 failed"));
}

TEST_F(ResumeTest, OptionsAreAdjusted) {
  interrupt(file_text(trial_text("one", "sleep 0.05") + after("two", "one", "sleep 1000")), "one");
  EXPECT_EQ(resume({.adjust =
                        [](RunOptions& options) {
                          options.wait = false;
                          options.parallel = 3;
                        }}),
            Result::succeeded);
  EXPECT_EQ(states("r1").at("two"), "running");
  EXPECT_EQ(run_options_of(entry("r1").options).parallel, 3U);
}

TEST_F(ResumeTest, AnEditedFileIsAppliedOnRequest) {
  interrupt(file_text(trial_text("one", "sleep 0.05") + after("two", "one", "exit 1")), "one");
  write(file_text(trial_text("one", "sleep 0.05") + after("two", "one", "true")));
  EXPECT_EQ(resume({.edited = true}), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("run r1: 1 trial changed"));
  EXPECT_EQ(states("r1").at("two"), "succeeded");
  write("[");
  EXPECT_EQ(resume({.edited = true}), Result::invalid);
}

TEST_F(ResumeTest, AWaitingTrialThatTheEditedFileLacksIsRemoved) {
  interrupt(file_text(trial_text("one", "sleep 0.05") + after("two", "one")), "one");
  write(file_text(trial_text("one", "sleep 0.05")));
  EXPECT_EQ(resume({.edited = true}), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("run r1: 1 trial was removed"));
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("one", "succeeded"), Pair("two", "stopped")));
  EXPECT_THAT(containers(), ElementsAre("one"));
}

TEST_F(ResumeTest, AnEditedFileIsNoted) {
  interrupt(file_text(trial_text("one", "sleep 0.05") + after("two", "one")), "one");
  write(file_text(trial_text("one", "sleep 0.05") + after("two", "one", "exit 1")));
  EXPECT_EQ(resume(), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains(HasSubstr("1 trial differs; `run --resume` uses the recorded text")));
}

TEST_F(ResumeTest, AMissingEnvFileIsRefusedOnlyIfItIsNeeded) {
  write_file("needed.env", "A=1\n");
  write_file("done.env", "B=1\n");
  interrupt(file_text(trial_text("one", "sleep 0.05", "env_file: 'done.env'") +
                      after("two", "one", "true", "env_file: 'needed.env'")),
            "one");
  std::filesystem::remove(path("needed.env"));
  std::filesystem::remove(path("done.env"));
  EXPECT_EQ(resume(), Result::invalid);
  EXPECT_THAT(printed.of("error"),
              ElementsAre(AllOf(HasSubstr("trials[1].env_file"), HasSubstr("needed.env"))));
  write_file("needed.env", "A=1\n");
  EXPECT_EQ(resume(), Result::succeeded);
}

TEST_F(ResumeTest, InputsOfTrialsThatAreOverMayBeMissing) {
  write_file("data", "word\n");
  interrupt(file_text(trial_text("one", "sleep 100", "inputs: ['./data:/data']") + after("two", "one")),
            "one");
  pass_an_hour();
  std::filesystem::remove(path("data"));
  EXPECT_EQ(resume(), Result::succeeded);
}

TEST_F(ResumeTest, AChangedLinkIsNoted) {
  write_file("old/data", "old\n");
  write_file("new/data", "new\n");
  std::filesystem::create_directory_symlink(path("old"), path("link"));
  interrupt(file_text(trial_text("one", "sleep 0.05") +
                      after("two", "one", "cat /data", "inputs: ['./link/data:/data']")),
            "one");
  std::filesystem::remove(path("link"));
  std::filesystem::create_directory_symlink(path("new"), path("link"));
  EXPECT_EQ(resume(), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains(AllOf(HasSubstr(path("link")),
                             HasSubstr("when run r1 began; the run keeps using the earlier target"))));
}

TEST_F(ResumeTest, WithoutAnIdAndAFileNoRunIsFound) {
  invocation.file = "";
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_THAT(error_in([&] { (void)resume(); }).message(), HasSubstr("a run must be given"));
  std::filesystem::current_path(before);
  invocation = invocation_of("experiment.jsonnet");
  EXPECT_EQ(error_in([&] { (void)resume(); }).message(), "the record has no run of this file");
}

TEST_F(ResumeTest, RunsOnTheSimulatedEngineNeedItsName) {
  address = "simulated:?seed=1";
  engine = simulated.get();
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(error_in([&] { (void)resume(); }).message(), k_only_simulated);
  invocation.engine = "simulated:";
  invocation.named_engine = NamedEngine::any_simulated;
  EXPECT_EQ(resume(), Result::succeeded);
  const Invocation meant = on_its_engine(invocation, entry("r1"));
  EXPECT_EQ(meant.engine, "simulated:?seed=1");
  EXPECT_EQ(meant.named_engine, NamedEngine::simulated);
  std::filesystem::remove_all(state());
  address = "unix:///run/lab.sock";
  engine = &kept_engine;
  EXPECT_EQ(start(waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(error_in([&] { (void)resume(); }).message(),
            "the record has no run of this file on the simulated engine");
}

// ---- retry

TEST_F(ResumeTest, RetryStartsFailedTrialsWithTheTrialsThatTheyBlocked) {
  EXPECT_EQ(start(file_text(trial_text("good") + trial_text("bad", "exit 3") + after("next", "bad")),
                  waiting_run("r1")),
            Result::failed);
  printed.clear();
  EXPECT_EQ(retry({.failed = true}), Result::failed);
  EXPECT_THAT(printed.of("note"), Contains("run r1: 1 trial is retried"));
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("good", "succeeded"), Pair("bad", "failed 2"),
                                                 Pair("next", "blocked")));
}

TEST_F(ResumeTest, RetryStartsNamedTrials) {
  EXPECT_EQ(start(file_text(trial_text("one") + trial_text("two")), waiting_run("r1")), Result::succeeded);
  printed.clear();
  EXPECT_EQ(retry({.run = "r1", .wait = true, .trials = {"t*"}}), Result::succeeded);
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("one", "succeeded"), Pair("two", "succeeded 2")));
  EXPECT_EQ(retry({.trials = {"nobody"}}), Result::invalid);
  EXPECT_THAT(printed.of("error"), ElementsAre("retry nobody: matches no trial"));
}

TEST_F(ResumeTest, RetryWithoutAFailureChangesNothing) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(retry({}), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("run r1: nothing has failed: 1 succeeded"));
  EXPECT_THAT(states("r1"), ElementsAre(Pair("one", "succeeded")));
}

TEST_F(ResumeTest, RetryUsesTheEditedFileOnRequest) {
  EXPECT_EQ(start(file_text(trial_text("bad", "exit 3")), waiting_run("r1")), Result::failed);
  write(file_text(trial_text("bad")));
  EXPECT_EQ(retry({.failed = true}), Result::failed);
  EXPECT_THAT(printed.of("note"), Contains(HasSubstr("1 trial differs; `retry` uses the recorded text")));
  EXPECT_EQ(retry({.failed = true, .edited = true, .wait = true}), Result::succeeded);
  EXPECT_EQ(states("r1").at("bad"), "succeeded 3");
  EXPECT_EQ(trial_of("r1", "bad").revision, 2);
  // If the run was edited, a retried trial has the newest text.
  EXPECT_EQ(retry({.trials = {"bad"}}), Result::succeeded);
  EXPECT_EQ(states("r1").at("bad"), "succeeded 4");
}

TEST_F(ResumeTest, FailuresBeforeARetryDoNotCount) {
  const std::string text =
      file_text(trial_text("bad", "exit 3") + trial_text("two", "exit 3"), "max_failures: 2,");
  EXPECT_EQ(start(text, waiting_run("r1")), Result::failed);
  EXPECT_EQ(retry({.trials = {"two"}}), Result::failed);
  EXPECT_EQ(states("r1").at("two"), "failed 2");
  Experiment unlimited{.failures_max = 0};
  forgive(unlimited, {.failures_forgiven = 1});
  EXPECT_EQ(unlimited.failures_max, 0U);
  Experiment limited{.failures_max = 2};
  forgive(limited, {.failures_forgiven = 1});
  EXPECT_EQ(limited.failures_max, 3U);
}

TEST_F(ResumeTest, ARecordedTextThatCannotBeReadIsAnError) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  RunEntry run = entry("r1");
  run.id = RunId("r2");
  run.text.evaluated = R"([{"name": "one"}])";
  Record all(state());
  Experiment experiment;
  experiment.trials.emplace_back().name = "one";
  all.begin(run, experiment);
  EXPECT_THAT(error_in([&] { (void)load(all, RunId("r2")); }).what(), HasSubstr("run r2: [0]"));
}

// ---- The cache

class CacheTest : public AppTest {
 protected:
  const std::string text =
      file_text(trial_text("one", "sh -c 'echo word; echo result > /out'", "outputs: ['/out'], cache: true") +
                trial_text("bad", "exit 3", "cache: true") + trial_text("plain"));
};

TEST_F(CacheTest, ATrialThatSucceededIsSkippedInTheNextRun) {
  EXPECT_EQ(start(text, waiting_run("r1")), Result::failed);
  EXPECT_EQ(start(text, waiting_run("r2")), Result::failed);
  EXPECT_THAT(states("r2"), UnorderedElementsAre(Pair("one", "skipped"), Pair("bad", "failed"),
                                                 Pair("plain", "succeeded")));
  EXPECT_EQ(read("results/lab/r2/one/out"), "result\n");
  Telemetry kept(state(), RunId("r2"), Telemetry::Use::reading);
  EXPECT_TRUE(kept.log("one", k_adopted));
}

TEST_F(CacheTest, AChangedTrialRuns) {
  EXPECT_EQ(start(file_text(trial_text("one", "true", "cache: true")), waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(start(file_text(trial_text("one", "echo new", "cache: true")), waiting_run("r2")),
            Result::succeeded);
  EXPECT_EQ(states("r2").at("one"), "succeeded");
}

TEST_F(CacheTest, NoCacheRunsAllTrials) {
  EXPECT_EQ(start(text, waiting_run("r1")), Result::failed);
  NewRun second = waiting_run("r2");
  second.options.cache = false;
  EXPECT_EQ(start(second), Result::failed);
  EXPECT_EQ(states("r2").at("one"), "succeeded");
}

TEST_F(CacheTest, ATrialWhoseOutputsAreMissingRuns) {
  EXPECT_EQ(start(text, waiting_run("r1")), Result::failed);
  std::filesystem::remove_all(path("results/lab/r1/one"));
  EXPECT_EQ(start(waiting_run("r2")), Result::failed);
  EXPECT_EQ(states("r2").at("one"), "succeeded");
  EXPECT_EQ(read("results/lab/r2/one/out"), "result\n");
}

TEST_F(CacheTest, RetryRunsASkippedTrial) {
  EXPECT_EQ(start(text, waiting_run("r1")), Result::failed);
  EXPECT_EQ(start(waiting_run("r2")), Result::failed);
  EXPECT_EQ(retry({.trials = {"one"}}), Result::failed) << "bad has failed all the same";
  EXPECT_THAT(states("r2").at("one"), HasSubstr("succeeded"));
}

// ---- The places of outputs

TEST_F(CacheTest, OutputsAreFoundByTheirManifest) {
  EXPECT_EQ(start(text, waiting_run("r1")), Result::failed);
  const std::string results = path("results/lab/r1");
  TrialEntry one = trial_of("r1", "one");
  EXPECT_EQ(outputs_at(results, one).place, results + "/one");
  EXPECT_EQ(outputs_at(results, one).so_far, "");
  EXPECT_EQ(outputs_at(results, trial_of("r1", "bad")).place, "");
  one.state = TrialState::running;
  EXPECT_EQ(outputs_at(results, one).place, "") << "they are an earlier attempt's";
  EXPECT_EQ(outputs_at("s3://lab/of", one).place, "");
  one.state = TrialState::succeeded;
  EXPECT_EQ(outputs_at("s3://lab/of", one).place, "s3://lab/of/one");
}

// ---- The journal of a run

class RecorderTest : public AppTest {
 protected:
  RecorderTest() {
    Experiment experiment{.name = "lab"};
    experiment.trials.emplace_back().name = "one";
    all.begin(entry_of({.id = RunId("r1"), .experiment = experiment}), experiment);
  }
  static Fact fact(TrialState state) {
    Fact fact{.trial = 0, .state = state};
    fact.at = real_clock().now();
    return fact;
  }
  Record all{state()};
  Recorder recorder{shown, all, RunId("r1")};
};

TEST_F(RecorderTest, TheRecorderWritesAtACommit) {
  recorder.commit();
  recorder.fact(fact(TrialState::starting));
  EXPECT_EQ(states("r1").at("one"), "waiting");
  recorder.commit();
  EXPECT_EQ(states("r1").at("one"), "starting");
  Observation seen;
  seen.key = {.run = RunId("r1"), .trial = "one"};
  recorder.started(0, seen);
  seen.start_took = StartDuration{.created = Seconds(1), .started = Seconds(2)};
  seen.digest = "lab/x@sha256:1";
  recorder.started(0, seen);
  recorder.fact(fact(TrialState::running));
  recorder.fact(fact(TrialState::succeeded));
  recorder.end();
  EXPECT_EQ(all.attempts(RunId("r1"), "one").at(0).started_in, Seconds(2));
  EXPECT_TRUE(entry("r1").ended_at);
  EXPECT_THAT(printed.lines(), IsEmpty());
}

TEST_F(RecorderTest, TheRecorderKeepsFactsThatItCannotWrite) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);  // a write fails and does not end the process
  {
    const SoftLimit full(RLIMIT_FSIZE, 0);
    recorder.fact(fact(TrialState::starting));
    recorder.commit();
    recorder.fact(fact(TrialState::running));
    recorder.commit();
  }
  EXPECT_THAT(printed.of("error"),
              ElementsAre(HasSubstr("the run continues, but the record cannot be written: ")));
  EXPECT_EQ(states("r1").at("one"), "waiting");
  recorder.fact(fact(TrialState::succeeded));
  recorder.commit();
  EXPECT_THAT(printed.of("note"), ElementsAre("the record can be written again, and nothing is missing"));
  EXPECT_EQ(states("r1").at("one"), "succeeded");
  printed.clear();
  {
    const SoftLimit full(RLIMIT_FSIZE, 0);
    recorder.end();
  }
  EXPECT_THAT(printed.of("error"), Contains(HasSubstr("the record lacks the end of this run")));
  EXPECT_FALSE(entry("r1").ended_at);
  (void)std::signal(SIGXFSZ, before);
}

TEST(Recorder, ADigestIsReadFromAReference) {
  EXPECT_EQ(digest_in("lab/x@sha256:1"), "sha256:1");
  EXPECT_EQ(digest_in("sha256:1"), "sha256:1");
}

}  // namespace
}  // namespace combu::test
