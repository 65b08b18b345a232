// Tests that start a new run: refusals, containers of earlier runs, and the result of the run.

#include "app/execution.hpp"
#include "app/outputs.hpp"
#include "app_fixture.hpp"
#include "combu/session.hpp"

namespace combu::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class StartTest : public AppTest {};

TEST_F(StartTest, ARunIsOnRecordFromItsBeginning) {
  EXPECT_EQ(start(file_text(trial_text("one") + trial_text("two")), waiting_run("r1")), Result::succeeded);
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("one", "succeeded"), Pair("two", "succeeded")));
  const RunEntry run = entry("r1");
  EXPECT_EQ(run.experiment, "lab");
  EXPECT_EQ(run.file, invocation.file);
  EXPECT_EQ(run.text.source, read("experiment.jsonnet"));
  EXPECT_EQ(run.arguments, R"(["combu","run"])");
  EXPECT_EQ(run.engine.address, address);
  EXPECT_EQ(run.engine.description, "simulated engine");
  EXPECT_EQ(run.results, path("results/lab/r1"));
  EXPECT_TRUE(run.ended_at);
  EXPECT_TRUE(run_options_of(run.options).wait);
  EXPECT_FALSE(run_options_of(run.options).monitored) << "nobody has to stay when it is over";
  EXPECT_THAT(containers(), ElementsAre("one", "two"));
  EXPECT_THAT(printed.of("phase"), ElementsAre("checking", "preparing images and networks"));
}

TEST_F(StartTest, WithoutWaitTheProcessEndsWhileTrialsRun) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 1000")), new_run("r1")), Result::succeeded);
  EXPECT_THAT(states("r1"), ElementsAre(Pair("one", "running")));
  EXPECT_FALSE(entry("r1").ended_at);
  EXPECT_FALSE(owner_pid(RunId("r1"), caller()));
}

TEST_F(StartTest, WithoutAnIdTheRunGetsARandomId) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("")), Result::succeeded);
  Record all(state());
  EXPECT_EQ(all.runs({}, 9).at(0).id.text().size(), 12U);
}

TEST_F(StartTest, AFailedTrialFailsTheRun) {
  const std::string text =
      file_text(trial_text("bad", "exit 3") +
                trial_text("after", "true", "depends: [{trial: 'bad', condition: 'succeeded'}]"));
  EXPECT_EQ(start(text, waiting_run("r1")), Result::failed);
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("bad", "failed"), Pair("after", "blocked")));
}

TEST_F(StartTest, WithoutWaitAnUnmonitoredFailureDoesNotFailTheRun) {
  EXPECT_EQ(start(file_text(trial_text("bad", "exit 3")), new_run("r1")), Result::succeeded);
  EXPECT_EQ(start(file_text(trial_text("bad", "/no/such")), new_run("r2")), Result::failed);
  EXPECT_EQ(start(file_text(trial_text("bad", "exit 3", "retries: 1")), new_run("r3")), Result::failed);
}

TEST_F(StartTest, AFileWithErrorsStartsNothing) {
  EXPECT_EQ(start("[{name: 'one'}]", waiting_run("r1")), Result::invalid);
  EXPECT_THAT(containers(), IsEmpty());
  EXPECT_FALSE(Record::exists(state()));
}

TEST_F(StartTest, AMissingImageIsAnErrorBeforeAnyStart) {
  write(file_text("{name: 'one', image: 'missing/x'}, {name: 'two', image: 'absent/y'},"));
  EXPECT_EQ(start(waiting_run("r1")), Result::failed);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("absent/y"), HasSubstr("missing/x")));
  EXPECT_THAT(printed.of("note"), ElementsAre("nothing was started"));
  EXPECT_THAT(record().runs({}, 9), IsEmpty());
}

TEST_F(StartTest, ATakenContainerNameIsRefused) {
  world.add_stranger("one");
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::failed);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("the name is taken")));
}

TEST_F(StartTest, SlotsThatTheEngineLacksAreRefused) {
  EXPECT_EQ(start(file_text(trial_text("one", "true", "cpus: 99")), waiting_run("r1")), Result::invalid);
  NewRun reserving = waiting_run("r1");
  reserving.options.reserve = "gpu=0";
  EXPECT_EQ(start(file_text(trial_text("one", "true", "gpus: 2")), reserving), Result::invalid);
  EXPECT_EQ(start(file_text(trial_text("one", "true", "gpus: 1")), reserving), Result::succeeded);
  EXPECT_EQ(trial_of("r1", "one").gpus, "1");
}

TEST_F(StartTest, MissingFoldersOfVolumesAreCreated) {
  EXPECT_EQ(start(file_text(trial_text("one", "true", "volumes: ['./data/:/data']")), waiting_run("r1")),
            Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("created the folder " + path("data")));
  EXPECT_TRUE(std::filesystem::is_directory(path("data")));
}

TEST_F(StartTest, OutputsAreCollectedBesideTheFile) {
  EXPECT_EQ(
      start(file_text(trial_text("one", "sh -c 'echo word > /out'", "outputs: ['/out']")), waiting_run("r1")),
      Result::succeeded);
  EXPECT_EQ(read("results/lab/r1/one/out"), "word\n");
  EXPECT_THAT(printed.of("note"), Contains("outputs are in " + path("results/lab/r1")));
}

// Environment variables that are set while this object exists.
class Variables {
 public:
  explicit Variables(std::map<std::string, std::string> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_)
      setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  }
  ~Variables() {
    for (const auto& [name, value] : values_)
      unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): there is one thread
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  std::map<std::string, std::string> values_;
};

TEST_F(StartTest, ABucketThatCannotBeWrittenIsRefused) {
  const std::string text =
      file_text(trial_text("one", "true", "outputs: ['/out']"), "collect: {to: 's3://lab/of'},");
  {
    const Variables no_keys({{"AWS_SHARED_CREDENTIALS_FILE", path("none")},
                             {"AWS_CONFIG_FILE", path("none")},
                             {"AWS_ACCESS_KEY_ID", ""},
                             {"AWS_SECRET_ACCESS_KEY", ""}});
    EXPECT_NE(start(text, waiting_run("r1")), Result::succeeded);
    EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("collect.to: ")));
    EXPECT_THAT(containers(), IsEmpty());
  }
  const Variables keys({{"S3_ENDPOINT_URL", "http://nowhere.invalid"},
                        {"AWS_ACCESS_KEY_ID", "key"},
                        {"AWS_SECRET_ACCESS_KEY", "secret"}});
  const auto loaded = load(invocation, RunId("r1"), shown);
  ASSERT_TRUE(loaded);
  stop.request_stop();
  EXPECT_EQ(error_in([&] { (void)check_results(*loaded, stop.get_token()); }).kind(), ErrorKind::cancelled);
}

TEST_F(StartTest, AnInterruptBeforeTheFirstStartIsNoted) {
  stop.request_stop();
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::interrupted);
  EXPECT_THAT(printed.of("note"), Contains("interrupted: nothing was started"));
  EXPECT_THAT(containers(), IsEmpty());
}

TEST_F(StartTest, RunningTrialsOfAnEarlierRunPreventAStart) {
  const std::string text = file_text(trial_text("one", "sleep 1000") + trial_text("two", "sleep 1000"));
  EXPECT_EQ(start(text, new_run("r1")), Result::succeeded);
  EXPECT_EQ(start(text, new_run("r2")), Result::failed);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("an earlier run still has 2 running trials")));
  EXPECT_THAT(record().runs({}, 9).size(), 1U);
}

TEST_F(StartTest, PendingTrialsOfAnEarlierRunPreventAStart) {
  World placing({.start_takes = Seconds(0), .places = true});
  const std::unique_ptr<Engine> placing_engine = open_simulated(placing, 1);
  KeptEngine kept(*placing_engine);
  engine = &kept;
  const std::string text = file_text(trial_text("one", "true", "cpus: 100000"));
  EXPECT_EQ(start(text, new_run("r1")), Result::succeeded);
  EXPECT_EQ(start(text, new_run("r2")), Result::failed);
  EXPECT_THAT(
      printed.of("error"),
      ElementsAre(HasSubstr("an earlier run still has 1 running or pending trial; remove them with")));
  EXPECT_THAT(placing_engine->list({}, ListDetail::basic, {}), SizeIs(1));
  EXPECT_THAT(record().runs({}, 9), SizeIs(1));
}

TEST_F(StartTest, RunningTrialsOfAnEarlierRunAreReplacedOnRequest) {
  const std::string text = file_text(trial_text("one", "sleep 1000") + trial_text("two"));
  EXPECT_EQ(start(text, new_run("r1")), Result::succeeded);
  NewRun second = new_run("r2");
  second.replace = true;
  EXPECT_EQ(start(text, second), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("removed 2 containers of run r1, which is replaced"));
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("one", "stopped"), Pair("two", "succeeded")));
  EXPECT_TRUE(entry("r1").ended_at);
  EXPECT_EQ(states("r2").at("one"), "running");
}

TEST_F(StartTest, EndedContainersOfEarlierRunsAreRemoved) {
  EXPECT_EQ(start(file_text(trial_text("one", "echo word") + trial_text("other")), waiting_run("r1")),
            Result::succeeded);
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r2")), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains("removed 1 old container of run r1, because the new run needs its name"));
  EXPECT_THAT(containers(), ElementsAre("one", "other"));
  EXPECT_EQ(start(file_text(trial_text("one") + trial_text("other")), waiting_run("r3")), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains("removed 1 old container of run r2, because the new run needs its name"));
}

TEST_F(StartTest, TheEndAndTheLogOfARemovedContainerAreRecorded) {
  EXPECT_EQ(start(file_text(trial_text("one", "sh -c 'sleep 100; echo word; exit 3'")), new_run("r1")),
            Result::succeeded);
  pass_an_hour();
  EXPECT_EQ(states("r1").at("one"), "running");
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r2")), Result::succeeded);
  EXPECT_EQ(trial_of("r1", "one").exit_code, 3);
  EXPECT_TRUE(Telemetry::exists(state(), RunId("r1")));
}

// An engine whose log calls fail while `log` has a message.
class Withholding final : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::string log;
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token token) override {
    if (!log.empty()) throw Error(ErrorKind::unavailable, key.trial, log);
    PassingEngine::logs(key, options, on_piece, token);
  }
};

TEST_F(StartTest, AContainerWhoseLogCannotBeReadIsNotRemoved) {
  EXPECT_EQ(start(file_text(trial_text("one", "sh -c 'echo word; sleep 100'")), new_run("r1")),
            Result::succeeded);
  Withholding withholding(kept_engine);
  withholding.log = "the disk is gone";
  engine = &withholding;
  pass_an_hour();
  EXPECT_EQ(start(waiting_run("r2")), Result::failed);
  EXPECT_THAT(printed.of("error"),
              ElementsAre(AllOf(HasSubstr("the container of run r1 was not removed"),
                                HasSubstr("the disk is gone"), HasSubstr("kill --run r1 --discard"))));
  EXPECT_THAT(states("r2"), ElementsAre(Pair("one", "blocked"))) << "it has begun, and is given up";
  EXPECT_TRUE(entry("r2").ended_at);
}

TEST_F(StartTest, ANoteNamesAnInterruptedRun) {
  const std::string text =
      file_text(trial_text("one", "sleep 1000") +
                trial_text("two", "true", "depends: [{trial: 'one', condition: 'succeeded'}]"));
  class Interrupting final : public PassingEngine {
   public:
    Interrupting(Engine& inner, std::stop_source source) : PassingEngine(inner), source_(std::move(source)) {}
    StartResult start(const combu::Run& run, const Trial& trial, int attempt,
                      std::stop_token token) override {
      StartResult result = PassingEngine::start(run, trial, attempt, token);
      source_.request_stop();
      return result;
    }

   private:
    std::stop_source source_;
  };
  Interrupting interrupting(kept_engine, stop);
  engine = &interrupting;
  EXPECT_EQ(start(text, waiting_run("r1")), Result::interrupted);
  EXPECT_FALSE(entry("r1").ended_at);
  EXPECT_TRUE(run_options_of(entry("r1").options).monitored);
  engine = &kept_engine;
  stop = {};
  NewRun second = new_run("r2");
  second.replace = true;
  second.only = {"one"};
  EXPECT_EQ(start(second), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains(AllOf(HasSubstr("run r1 is interrupted"), HasSubstr("--resume r1"))));
}

TEST_F(StartTest, StartedTrialsStayIfTheEngineFails) {
  class Failing final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    void watch(const Selector& /*selector*/, const std::function<void(const Change&)>& /*tell*/,
               std::stop_token /*token*/) override {
      throw Error(ErrorKind::corrupt, "engine", "speaks in tongues");
    }
  };
  Failing failing(kept_engine);
  engine = &failing;
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 1000")), waiting_run("r1")), Result::no_engine);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("speaks in tongues")));
  EXPECT_THAT(printed.of("note"), Contains(AllOf(HasSubstr("started trials are not removed"),
                                                 HasSubstr("--resume r1"), HasSubstr("kill"))));
}

TEST_F(StartTest, AnOutageIsNotedOnceAndRetried) {
  class Flickering final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    StartResult start(const combu::Run& run, const Trial& trial, int attempt,
                      std::stop_token token) override {
      if (failed_.insert(trial.name).second) throw Error(ErrorKind::unavailable, "engine", "is away");
      return PassingEngine::start(run, trial, attempt, token);
    }

   private:
    std::set<std::string> failed_;
  };
  Flickering flickering(kept_engine);
  engine = &flickering;
  NewRun run = waiting_run("r1");
  run.options.starts_in_flight = 1;
  EXPECT_EQ(start(file_text(trial_text("one") + trial_text("two")), run), Result::succeeded);
  const std::vector<std::string> notes = printed.of("note");
  EXPECT_EQ(std::ranges::count(notes, "engine: is away; trying again"), 1);
}

TEST_F(StartTest, ARunningTrialOfAnotherUserPreventsAStart) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 1000")), new_run("r1")), Result::succeeded);
  std::filesystem::rename(state(), path("another"));
  EXPECT_EQ(start(new_run("r2")), Result::failed);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("an earlier run still has 1 running trial;")));
}

TEST_F(StartTest, AnotherUsersRunIsListedTwice) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  std::filesystem::rename(state(), path("another"));
  EXPECT_EQ(start(waiting_run("r2")), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains("removed 1 old container of run r1, because the new run needs its name"));
}

TEST_F(StartTest, MissingMetricsAreNoted) {
  const std::string text = file_text(trial_text("one", "echo nothing", "metrics: 'json'") +
                                     trial_text("two", "echo nothing", "metrics: 'json'") +
                                     trial_text("bad", "exit 1", "metrics: 'json'"));
  EXPECT_EQ(start(text, waiting_run("r1")), Result::failed);
  EXPECT_THAT(printed.of("note"),
              Contains(AllOf(HasSubstr("reported no metric, nor did 1 more: no line of the standard output"),
                             Not(HasSubstr("bad")))));
}

TEST_F(StartTest, ParallelOfTheCommandLineIsRecorded) {
  NewRun run = waiting_run("r1");
  run.options.parallel = 1;
  EXPECT_EQ(start(file_text(trial_text("one") + trial_text("two"), "parallel: 2,"), run), Result::succeeded);
  EXPECT_EQ(run_options_of(entry("r1").options).parallel, 1U);
}

// --only: patterns and conditions that choose trials.
class Only : public AppTest {
 protected:
  std::map<std::string, std::string> run(const std::vector<std::string>& wanted) {
    NewRun some = waiting_run("r1");
    some.only = wanted;
    write(file_text(trial_text("solver-1", "true", "params: {lr: 0.1}, depends: ['data']") +
                    trial_text("solver-2", "true", "params: {lr: 0.5, trial: 'x'}, depends: ['data']") +
                    trial_text("data") + trial_text("report-r1")));
    EXPECT_EQ(start(some), Result::succeeded);
    return states("r1");
  }
  Error fault(const std::vector<std::string>& wanted) {
    return error_in([&] { (void)run(wanted); });
  }
};

TEST_F(Only, APatternChoosesTrialsWithTheirDependencies) {
  EXPECT_THAT(run({"solver-?"}),
              UnorderedElementsAre(Pair("solver-1", "succeeded"), Pair("solver-2", "succeeded"),
                                   Pair("data", "succeeded")));
}

TEST_F(Only, AConditionChoosesTrialsByParams) {
  EXPECT_THAT(run({"lr<0.2"}),
              UnorderedElementsAre(Pair("solver-1", "succeeded"), Pair("data", "succeeded")));
}

TEST_F(Only, SeveralArgumentsAddUp) {
  EXPECT_THAT(run({"params.trial=x", "trial=report-r1"}),
              UnorderedElementsAre(Pair("solver-2", "succeeded"), Pair("data", "succeeded"),
                                   Pair("report-r1", "succeeded")));
}

TEST_F(Only, UuidIsReplacedByTheRunsId) {
  EXPECT_THAT(run({"report-UUID"}), ElementsAre(Pair("report-r1", "succeeded")));
}

TEST_F(Only, AnArgumentThatMatchesNoTrialIsRefused) {
  EXPECT_EQ(fault({"solvr-1"}).kind(), ErrorKind::invalid);
  EXPECT_EQ(fault({"solvr-1"}).subject(), "--only solvr-1");
  EXPECT_EQ(fault({"solvr-1"}).message(), "matches no trial: did you mean `solver-1`?");
  EXPECT_THAT(fault({"state=failed"}).message(),
              HasSubstr("no trial has a param `state`; before a run, conditions"));
  EXPECT_EQ(fault({"image=y"}).message(), "matches no trial");
  const Experiment none;
  EXPECT_THAT(error_in([&] { (void)trials_meant(none, RunId("r1"), "a=1", "retry"); }).message(),
              HasSubstr("matches no trial"));
}

}  // namespace
}  // namespace combu::test
