// Tests of the text that explains why a trial is in its state.

#include <optional>

#include "app/explanation_text.hpp"
#include "app/owner_status.hpp"
#include "app/run_options.hpp"
#include "app/why.hpp"
#include "app_fixture.hpp"
#include "app_record_fixture.hpp"
#include "experiments.hpp"

namespace combu::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::StartsWith;

// ---- The text of one trial, with a run that the test describes directly

class ExplanationTextTest : public StateFolderTest {
 protected:
  ExplanationTextTest() : record(state()) {}

  void begin(Experiment experiment, const RunOptions& options = {}) {
    loaded.run = {.id = RunId("r1"), .experiment = std::move(experiment)};
    loaded.plan = test::plan(loaded.run.experiment);
    loaded.caller = caller_for(invocation_of("experiment.jsonnet"));
    restored.assign(loaded.run.experiment.trials.size(), RestoredTrial());
    RunEntry entry = entry_of(loaded.run);
    entry.options = to_json(options);
    entry.began_at = k_began;
    record.begin(entry, loaded.run.experiment);
  }
  void begin(const std::string& trials) { begin(test::experiment(trials)); }
  [[nodiscard]] Experiment& experiment() { return loaded.run.experiment; }

  // Returns an ended trial with this state and reason.
  static RestoredTrial ended(TrialState state, const std::string& reason, Cause cause = Cause::none) {
    return {.state = state, .cause = cause, .reason = reason};
  }
  static Snapshot with_capacity(const Slots& capacity) {
    Snapshot snapshot;
    snapshot.capacity = capacity;
    return snapshot;
  }
  static Slots cpus(const char* text) { return {.cpus = parse_cpus(text)}; }

  std::string text(TrialIndex trial) {
    return explanation_text(
        {.loaded = loaded,
         .restored = restored,
         .settings = settings,
         .snapshot = snapshot,
         .limits = limits,
         .others =
             [this] {
               ++others_asked;
               return others;
             },
         .last_line = [this](const std::string& name,
                             int attempt) { return last_lines[name + " " + std::to_string(attempt)]; },
         .record = record},
        trial);
  }

  static inline const Instant k_began = *parse_timestamp("2026-01-31T12:00:00Z");
  Record record;
  Loaded loaded;
  std::vector<RestoredTrial> restored;
  std::optional<Settings> settings;
  std::optional<Snapshot> snapshot;
  std::vector<StartLimit> limits;
  std::vector<Observation> others;
  int others_asked = 0;
  std::map<std::string, std::string> last_lines;  // by "TRIAL ATTEMPT"
};

TEST_F(ExplanationTextTest, UnmetDependenciesAreNamedWithTheirStates) {
  begin("a b c d e<-a:healthy,b:succeeded,c:finished,d f<-a,b");
  restored[0].state = TrialState::running;
  restored[0].was_started = true;
  restored[1].state = TrialState::collecting;
  EXPECT_EQ(text(4),
            "waits for `a` to be healthy (it is running), `b` to succeed (it is collecting), `c` to end (it "
            "is waiting), 1 more");
  EXPECT_EQ(text(5), "waits for `b` to be started (it is collecting)");
  EXPECT_EQ(others_asked, 0);
}

TEST_F(ExplanationTextTest, TheCanaryIsNamed) {
  Experiment experiment = test::experiment("a b");
  experiment.canary = true;
  begin(std::move(experiment));
  restored[0].state = TrialState::running;
  EXPECT_EQ(text(1), "waits for `a`, the canary of its shape, to succeed");
}

TEST_F(ExplanationTextTest, APausedRunIsTheReason) {
  begin("a");
  settings = Settings{.paused = true};
  EXPECT_EQ(text(0), "waits because the run is paused; `combu unpause r1` continues the run");
}

TEST_F(ExplanationTextTest, ServicesDoNotCountAgainstParallel) {
  Experiment experiment = test::experiment("!serv a b c");
  experiment.parallel_max = 2;
  begin(std::move(experiment));
  for (const TrialIndex trial : {0, 1, 2}) restored[trial].state = TrialState::running;
  EXPECT_EQ(text(3), "waits: 2 attempts are alive, which is the limit (parallel)");
  settings = Settings{.parallel_max = 1};
  restored[2].state = TrialState::waiting;
  EXPECT_EQ(text(3), "waits: 1 attempt is alive, which is the limit (parallel)");
}

TEST_F(ExplanationTextTest, HoldersOfSlotsAreNamedWithGpuHoldersFirst) {
  Experiment experiment = test::experiment("cpu=2 both=1 none all=6 gpu");
  experiment.trials[1].gpus = GpuRequest{.count = 1};
  experiment.trials[3].gpus = GpuRequest{.count = 1};
  experiment.trials[4].gpus = GpuRequest{.count = 1};
  begin(std::move(experiment));
  for (const TrialIndex trial : {0, 1, 2}) restored[trial].state = TrialState::running;
  restored[1].slots = {.cpus = parse_cpus("1"), .gpus = {"0"}};
  snapshot = with_capacity({.cpus = parse_cpus("8"), .gpus = {"0"}});
  EXPECT_EQ(text(4), "waits for 1 GPU; held by `both` (1 GPU)");
  EXPECT_EQ(text(3), "waits for 6 CPUs, 1 GPU; held by `both` (1 CPU, 1 GPU), `cpu` (2 CPUs)");
  EXPECT_EQ(others_asked, 2);
}

TEST_F(ExplanationTextTest, HoldersOfOtherRunsAreNamed) {
  begin("a=2");
  snapshot = with_capacity(cpus("2"));
  snapshot->held_by_others = cpus("1");
  Observation other{.key = {.run = RunId("r2"), .trial = "x"}, .experiment = "other", .slots = cpus("1")};
  other.slots.memory = parse_bytes("1g");
  others = {other};
  EXPECT_EQ(text(0), "waits for 2 CPUs; held by `x` of other (1 CPU)");
}

// Without an owner, the free slots are unknown.
TEST_F(ExplanationTextTest, WithoutACapacityATrialWithSlotsWaitsForThem) {
  begin("a=2 b");
  EXPECT_EQ(text(0), "waits for 2 CPUs");
  EXPECT_EQ(text(1), "waits: the limit of starts in flight is reached (starts_in_flight)");
}

TEST_F(ExplanationTextTest, ATrialWaitsForItsTurn) {
  begin("a=1 b=1 c=1");
  snapshot = with_capacity(cpus("4"));
  EXPECT_EQ(text(1), "waits for its turn");
  restored[0].state = TrialState::starting;
  settings = Settings{.starts_in_flight_max = 1};
  EXPECT_EQ(text(1), "waits: the limit of starts in flight is reached (starts_in_flight)");
}

TEST_F(ExplanationTextTest, ATrialWaitsBecauseOfALimitOfTheEngine) {
  begin("a b c");
  restored[0].state = TrialState::running;
  limits = {{.attempts_max = 1, .trials = {0, 1}}};
  EXPECT_EQ(text(1),
            "waits for another trial to end, because the engine runs no more trials like it at once");
  EXPECT_EQ(text(2), "waits: the limit of starts in flight is reached (starts_in_flight)");
}

TEST_F(ExplanationTextTest, ATrialWaitsForALargerTrial) {
  begin("long=1 large=8^1 small=1");
  restored[0].state = TrialState::running;
  snapshot = with_capacity(cpus("8"));
  EXPECT_EQ(text(1), "waits for 8 CPUs; held by `long` (1 CPU)");
  EXPECT_EQ(text(2), "waits, so that `large` gets 8 CPUs");
}

TEST_F(ExplanationTextTest, AServiceWaitsSoThatOthersHaveSlots) {
  begin("!one=1 !two=1 a=1<-one:started,two:started !three=2 b=1<-three:started");
  for (const TrialIndex trial : {0, 1}) restored[trial].state = TrialState::starting;
  snapshot = with_capacity(cpus("3"));
  EXPECT_EQ(text(3),
            "waits, because its start would leave too few slots for the trials that depend on services");
}

TEST_F(ExplanationTextTest, ARetryMayWaitForMoreMemory) {
  begin("a b");
  experiment().trials[0].slots.memory = parse_bytes("1g");
  restored[0] = {.state = TrialState::ready,
                 .cause = Cause::oom,
                 .reason = "out of memory",
                 .details = {.next = Next::due},
                 .memory = parse_bytes("2g")};
  EXPECT_EQ(text(0), "waits for 2 GiB of memory; attempt 2, after out of memory");
}

TEST_F(ExplanationTextTest, TheStateOfAnAttemptIsShown) {
  begin("a");
  RestoredTrial& it = restored[0];
  it.state = TrialState::starting;
  EXPECT_EQ(text(0), "is being started");
  it.attempt = 2;
  EXPECT_EQ(text(0), "is being started (attempt 2)");
  it.state = TrialState::running;
  EXPECT_EQ(text(0), "runs (attempt 2)");
  it.ran_at = real_clock().now() - std::chrono::hours(2);
  EXPECT_EQ(text(0), "runs for 2h00m (attempt 2)");
  it.state = TrialState::collecting;
  EXPECT_EQ(text(0), "has ended (attempt 2), and its outputs are being collected");
  it.reason = "exit code 1";
  EXPECT_EQ(text(0), "has ended (attempt 2), and its outputs are being collected: exit code 1");
  it.state = TrialState::succeeded;
  it.reason.clear();
  EXPECT_EQ(text(0), "has succeeded (attempt 2)");
  restored[0] = {.state = TrialState::retrying,
                 .cause = Cause::error,
                 .reason = "exit code 1",
                 .details = {.next = Next::attempt, .pause = Seconds(10)}};
  EXPECT_EQ(text(0), "is retried: exit code 1; attempt 2 in 10.0 s");
}

TEST_F(ExplanationTextTest, AFailureIsShownWithTheLastLineOfTheLog) {
  begin("a");
  restored[0] = ended(TrialState::failed, "exit code 1", Cause::error);
  restored[0].exit_code = 1;
  last_lines["a 1"] = "ValueError: x";
  EXPECT_EQ(text(0), "failed: exit code 1") << "it was not started: it has no log";
  restored[0].was_started = true;
  EXPECT_EQ(text(0), "failed: exit code 1: ValueError: x");
  restored[0].exit_code = 127;
  restored[0].reason = "exit code 127";
  last_lines["a 1"] = "sh: pyhton: not found";
  EXPECT_EQ(text(0), "failed: exit code 127: command not found: pyhton");
}

TEST_F(ExplanationTextTest, TheStopperOfATrialIsNamed) {
  begin("a");
  restored[0] = ended(TrialState::stopped, "by alice with `combu stop`", Cause::stopped);
  restored[0].details.stopper = Stopper::person;
  EXPECT_EQ(text(0), "was stopped by alice with `combu stop`");
  restored[0] = ended(TrialState::stopped, "the run's deadline of 1.0 s has passed", Cause::stopped);
  restored[0].details.stopper = Stopper::run;
  EXPECT_EQ(text(0), "was stopped: the run's deadline of 1.0 s has passed");
}

TEST_F(ExplanationTextTest, TheReasonOfAServicesStopIsShown) {
  begin("!serv");
  restored[0] = ended(TrialState::stopped, "");
  EXPECT_EQ(text(0), "was stopped because no trial needed it any more");
  experiment().deadline = Seconds(60);
  EXPECT_EQ(text(0), "was stopped because no trial needed it any more or the run's deadline had passed")
      << "when it ended is not on record";
  const auto end = [&](std::chrono::seconds after) {
    Fact fact{.trial = 0, .state = TrialState::stopped, .ran = true};
    std::vector<Fact> facts;
    for (const TrialState state : {TrialState::starting, TrialState::running, TrialState::stopped}) {
      fact.state = state;
      fact.at = k_began + (state == TrialState::stopped ? after : std::chrono::seconds(0));
      facts.push_back(fact);
    }
    record.append(RunId("r1"), facts);
  };
  end(std::chrono::seconds(30));
  EXPECT_EQ(text(0), "was stopped because no trial needed it any more");
  experiment().deadline = Seconds(10);
  EXPECT_EQ(text(0), "was stopped after the run's deadline of 10.0 s had passed");
}

TEST_F(ExplanationTextTest, TheReasonOfASkippedOrBlockedTrialIsShown) {
  begin("a b<-a:succeeded c<-b:succeeded");
  restored[0] = ended(TrialState::failed, "exit code 3", Cause::error);
  restored[1] = ended(TrialState::blocked, "depends on `a`, which did not succeed");
  restored[2] = ended(TrialState::blocked, "depends on `b`, which is blocked by `a`");
  EXPECT_EQ(text(2), "is blocked: depends on `b`, which is blocked by `a`");
  restored[2].root = 0;
  EXPECT_EQ(text(2), "is blocked: depends on `b`, which is blocked by `a`; a failed: exit code 3");
  restored[0].reason.clear();
  EXPECT_EQ(text(2), "is blocked: depends on `b`, which is blocked by `a`");
  restored[2] = ended(TrialState::skipped, "equal to `c` of run r0");
  EXPECT_EQ(text(2), "was skipped: equal to `c` of run r0");
}

TEST_F(ExplanationTextTest, MissingMetricsAreShown) {
  begin("a b");
  experiment().trials[0].metrics = Metrics{.pattern = R"(loss=(?P<loss>\d+))"};
  restored[0].state = TrialState::succeeded;
  EXPECT_EQ(text(0), "has succeeded") << "no log is kept";
  {
    Telemetry telemetry(state(), RunId("r1"));
    const std::vector<LogPiece> pieces{{.stream = LogStream::out, .text = "word\n", .at = k_began}};
    (void)telemetry.append("a", 1, std::nullopt, {.pieces = pieces, .metrics = {}, .complete = true},
                           Bytes{1 << 20});
  }
  EXPECT_EQ(
      text(0),
      "has succeeded; the trial reported no metric: the pattern finds no number in the standard output");
  restored[1].state = TrialState::succeeded;
  EXPECT_EQ(text(1), "has succeeded");
}

TEST_F(ExplanationTextTest, ATrialThatMustRunIsNotCompared) {
  begin("a");
  experiment().trials[0].cache.on = true;
  restored[0].state = TrialState::succeeded;
  EXPECT_EQ(text(0), "has succeeded; no cache lookup is recorded");
  const std::vector<CacheResult> known{{.trial = 0, .hash = "h1", .parts = "{}"}};
  record.append(RunId("r1"), {}, {}, {}, known);
  EXPECT_EQ(text(0), "has succeeded; no comparable trial completed before this trial");
  restored[0].anew = true;
  EXPECT_EQ(text(0), "has succeeded; the trial was run again on request");
}

// ---- Whole runs

class WhyTest : public AppTest {
 protected:
  std::string why(const std::string& trial, const std::string& run = "r1") {
    return why_trial(invocation, {.run = run, .trial = trial}, opener());
  }
  // Repeats `why` until the answer contains `part`, since an owner records facts a moment after it shows
  // them.
  std::string why_with(const std::string& trial, const std::string& part) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::string text = why(trial);
    while (text.find(part) == std::string::npos && std::chrono::steady_clock::now() < end) text = why(trial);
    return text;
  }
  std::string why_of_run(const std::string& run = "r1") {
    return why_run(invocation, {.run = run}, opener());
  }
};

TEST_F(WhyTest, WhyOfATrialReconcilesTheRun) {
  EXPECT_EQ(start(file_text(trial_text("good", "sleep 100") +
                            trial_text("bad", "sh -c 'echo first; echo boom; sleep 100; exit 3'")),
                  new_run("r1")),
            Result::succeeded);
  EXPECT_THAT(why("good"), MatchesRegex("good runs for [0-9.]+ m?s\n"));
  pass_an_hour();
  EXPECT_EQ(why("good"), "good has succeeded\n");
  EXPECT_EQ(states("r1").at("good"), "succeeded");
  EXPECT_EQ(why("bad"), "bad failed: exit code 3: boom\n") << "the engine has the log";
}

TEST_F(WhyTest, AMissingLogIsNoError) {
  EXPECT_EQ(start(file_text(trial_text("bad", "sh -c 'echo boom; sleep 100; exit 3'")), new_run("r1")),
            Result::succeeded);
  pass_an_hour();
  EXPECT_EQ(why("bad"), "bad failed: exit code 3: boom\n");
  remove_container("r1", "bad");
  EXPECT_EQ(why("bad"), "bad failed: exit code 3\n");
}

TEST_F(WhyTest, AStoredLogNeedsNoEngine) {
  EXPECT_EQ(start(file_text(trial_text("bad", "sh -c 'echo boom; exit 3'")), waiting_run("r1")),
            Result::failed);
  engine = nullptr;
  EXPECT_EQ(why("bad"), "bad failed: exit code 3: boom\n");
  EXPECT_EQ(why("bad", ""), "bad failed: exit code 3: boom\n") << "it is the file's last run";
}

TEST_F(WhyTest, AnUnknownTrialOrRunIsAnError) {
  EXPECT_EQ(start(file_text(trial_text("good")), waiting_run("r1")), Result::succeeded);
  const Error trial = error_in([&] { (void)why("goad"); });
  EXPECT_EQ(trial.kind(), ErrorKind::not_found);
  EXPECT_EQ(trial.message(), "is not a trial of the run; did you mean `good`?");
  EXPECT_EQ(error_in([&] { (void)why("good", "r2"); }).kind(), ErrorKind::not_found);
  EXPECT_EQ(error_in([&] { (void)why_of_run("r2"); }).kind(), ErrorKind::not_found);
}

TEST_F(WhyTest, WhyOfARunGroupsFailures) {
  const std::string fails = "sh -c 'echo boom; exit 1'";
  EXPECT_EQ(start(file_text(trial_text("a-1", fails) + trial_text("a-2", fails) + trial_text("good") +
                            trial_text("after", "true", "depends: [{trial: 'a-1', condition: 'succeeded'}]")),
                  waiting_run("r1")),
            Result::failed);
  engine = nullptr;
  EXPECT_EQ(why_of_run(),
            "run r1: 1 succeeded, 2 failed, 1 blocked\n"
            "failed: 2 trials (a-[1-2]): exit code 1: boom\n"
            "blocked: after: depends on `a-1`, which did not succeed\n");
}

TEST_F(WhyTest, WhyOfARunNamesTheReasonsOfPendingTrials) {
  World placing({.start_takes = Seconds(0), .places = true});
  const std::unique_ptr<Engine> placing_engine = open_simulated(placing, 1);
  KeptEngine kept(*placing_engine);
  engine = &kept;
  EXPECT_EQ(
      start(file_text(trial_text("a-1", "true", "cpus: 100000") + trial_text("a-2", "true", "cpus: 100000")),
            new_run("r1")),
      Result::succeeded);
  EXPECT_EQ(why_of_run(),
            "run r1: 2 starting\nstarting: 2 trials (a-[1-2]): no host has enough free CPUs and memory\n");
  EXPECT_EQ(why("a-1"), "a-1 is being started: no host has enough free CPUs and memory\n");
}

TEST_F(WhyTest, WhyOfARunReconcilesTheRun) {
  EXPECT_EQ(start(file_text(trial_text("bad", "sh -c 'sleep 100; exit 3'")), new_run("r1")),
            Result::succeeded);
  EXPECT_EQ(why_of_run(), "run r1: 1 running\n");
  pass_an_hour();
  EXPECT_EQ(why_of_run(), "run r1: 1 failed\nfailed: bad: exit code 3\n");
}

TEST_F(WhyTest, WhyAsksTheOwnerAndReportsAMissingOwner) {
  Process process(*this, file_text(trial_text("one", "sleep 1000") + trial_text("two"), "parallel: 1,"),
                  waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("one running"));
  EXPECT_EQ(why_with("two", "limit"), "two waits: 1 attempt is alive, which is the limit (parallel)\n");
  const auto settings = owner_settings(RunId("r1"), caller());
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->parallel_max, 1U);
  const auto snapshot = owner_snapshot(RunId("r1"), caller());
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->trials, 2U);
  process.stop.request_stop();
  EXPECT_EQ(process.result(), Result::interrupted);
  EXPECT_FALSE(owner_settings(RunId("r1"), caller()));
  EXPECT_FALSE(owner_snapshot(RunId("r1"), caller()));
  EXPECT_EQ(why("two"),
            "two waits: 1 attempt is alive, which is the limit (parallel); no process owns the run: "
            "`combu run --resume r1` resumes it\n");
  EXPECT_THAT(why("one"), HasSubstr("; no process owns the run: "));
}

TEST_F(WhyTest, HoldersOnTheEngineAreNamed) {
  write_file("other.jsonnet",
             "{experiment: 'other', trials: [" + trial_text("holds", "sleep 1000", "gpus: 2") + "]}");
  const Invocation first = std::exchange(invocation, invocation_of("other.jsonnet"));
  EXPECT_EQ(start(new_run("r0")), Result::succeeded);
  invocation = first;
  Process process(*this, file_text(trial_text("one", "true", "gpus: 1") + trial_text("two")),
                  waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("two succeeded"));
  EXPECT_EQ(why_with("one", "held by"), "one waits for 1 GPU; held by `holds` of other (GPU 0, 1)\n");
  class Away final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    std::vector<Observation> list(const Selector& /*selector*/, ListDetail /*look*/,
                                  std::stop_token /*token*/) override {
      throw Error(ErrorKind::unavailable, "engine", "is away");
    }
  };
  Away away(kept_engine);
  engine = &away;
  EXPECT_EQ(why("one"), "one waits for 1 GPU\n");
  EXPECT_THAT(printed.of("note"), Contains("the slots that other runs hold are unknown: engine: is away"));
}

TEST_F(WhyTest, TheLimitsOfTheEngineAreAskedFor) {
  class Limited final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    std::vector<StartLimit> limits(const combu::Run& run, const Slots& /*capacity*/) override {
      StartLimit limit{.attempts_max = 1, .trials = {}};
      for (std::size_t i = 0; i < run.experiment.trials.size(); ++i)
        if (!run.experiment.trials[i].has_own_container()) limit.trials.push_back(i);
      return {limit};
    }
  };
  Limited limited(kept_engine);
  engine = &limited;
  Process process(*this,
                  file_text(trial_text("one", "sleep 1000", "worker: true") +
                            trial_text("two", "true", "worker: true") + trial_text("three")),
                  waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("three succeeded"));
  EXPECT_EQ(why_with("two", "engine"),
            "two waits for another trial to end, because the engine runs no more trials like it at once\n");
}

constexpr const char* k_cached = "outputs: ['/out'], cache: true, params: {seed: 1}";

TEST_F(WhyTest, TheDifferenceFromTheMostSimilarTrialIsShown) {
  const std::string text = file_text(trial_text("one", "sh -c 'echo 1 > /out'", k_cached));
  EXPECT_EQ(start(text, waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(why("one"), "one has succeeded; no comparable trial completed before this trial\n");
  EXPECT_EQ(start(file_text(trial_text("one", "sh -c 'echo 2 > /out'",
                                       "outputs: ['/out'], cache: true, params: {seed: 2}")),
                  waiting_run("r2")),
            Result::succeeded);
  EXPECT_THAT(why("one", "r2"), StartsWith("one has succeeded; the trial differs from `one` of run r1: "));
  EXPECT_THAT(why("one", "r2"), HasSubstr("params.seed is 2, but was 1"));
}

TEST_F(WhyTest, TheReasonWhyAnEqualTrialRanIsShown) {
  const std::string text = file_text(trial_text("one", "sh -c 'echo 1 > /out'", k_cached));
  EXPECT_EQ(start(text, waiting_run("r1")), Result::succeeded);
  NewRun second = waiting_run("r2");
  second.options.cache = false;
  EXPECT_EQ(start(second), Result::succeeded);
  EXPECT_EQ(why("one", "r2"),
            "one has succeeded; the trial is equal to `one` of run r1, but was run because of --no-cache\n");
  EXPECT_EQ(start(waiting_run("r3")), Result::succeeded);
  EXPECT_EQ(why("one", "r3"), "one was skipped: equal to `one` of run r2\n");
  for (const char* run : {"r1", "r2", "r3"})
    std::filesystem::remove_all(path(std::string("results/lab/") + run + "/one"));
  EXPECT_EQ(start(waiting_run("r4")), Result::succeeded);
  EXPECT_THAT(why("one", "r4"), HasSubstr("which has no outputs to reuse\n"));
}

TEST_F(WhyTest, WhyOfASimulatedRunAsksNoEngine) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 100")), new_run("r1")), Result::succeeded);
  RunEntry entry = this->entry("r1");
  entry.id = RunId("r2");
  entry.engine.is_simulated = true;
  Experiment experiment;
  experiment.trials.push_back({.name = "one"});
  Record all(state());
  all.begin(entry, experiment);
  Fact fact{.trial = 0, .state = TrialState::failed, .cause = Cause::error, .exit_code = 3};
  fact.reason = "exit code 3";
  fact.ran = true;
  all.append(RunId("r2"), std::vector<Fact>{fact});
  engine = nullptr;
  EXPECT_EQ(why("one", "r2"), "one failed: exit code 3\n");
  EXPECT_EQ(why_of_run("r2"), "run r2: 1 failed\nfailed: one: exit code 3\n");
  EXPECT_THAT(printed.of("error"), IsEmpty());
}

}  // namespace
}  // namespace combu::test
