// drive() collects the outputs of trials, and fetches them for trials that use them as inputs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "record_folder.hpp"
#include "unit/run_drive.hpp"

namespace combu {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class OutputsTest : public test::DriveTest {
 protected:
  Outcome drive_collecting(const combu::Run& run) {
    return drive_on(hooked_, run, {.until = Until::ended}, &places_);
  }

  test::Hooked hooked_{*simulated_};
  test::Places places_;
};

TEST_F(OutputsTest, WithoutAnIntervalOutputsAreCollectedOnlyAtTheEnd) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].process.cmd = {"sleep", "20"};
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  (void)drive_collecting(run);
  EXPECT_THAT(places_.all(), ElementsAre("t"));
}

TEST_F(OutputsTest, RequiredOutputsOfAFailedAttemptMayBeMissing) {
  combu::Run run = test::run("fails succeeds");
  run.experiment.trials[0].process.cmd = {"sh", "-c", "exit 7"};
  for (Trial& trial : run.experiment.trials) trial.outputs = {Output{.path = "/out", .required = true}};
  const Outcome outcome = drive_collecting(run);
  EXPECT_THAT(places_.all(), ElementsAre("fails"));
  ASSERT_EQ(outcome.unsuccessful.size(), 2U);
  for (const Fact& fact : outcome.unsuccessful)
    EXPECT_EQ(fact.cause, fact.trial == 0 ? Cause::error : Cause::outputs);
}

TEST_F(OutputsTest, AnAttemptWhoseHostIsLostBeforeTheCollectionRunsAgain) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].retries.max = 1;
  run.experiment.trials[0].retries.on.set(static_cast<std::size_t>(Cause::host_lost));
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  std::vector<int> attempts;
  hooked_.before_copy_out = [&](const Key& key, const std::stop_token&) {
    attempts.push_back(key.attempt);
    if (key.attempt == 1) throw Error(ErrorKind::lost, "t", "the node is gone");
  };
  recorder_.attempt_with_outputs = 2;
  const Outcome outcome = drive_collecting(run);
  EXPECT_THAT(attempts, ElementsAre(1, 2));
  EXPECT_EQ(outcome.last.count(TrialState::succeeded), 1U);
  EXPECT_EQ(outcome.undelivered, "");
  EXPECT_THAT(recorder_.remarks, Not(Contains(HasSubstr("collecting the outputs failed"))));
  EXPECT_THAT(places_.all(), ElementsAre("t"));
}

TEST_F(OutputsTest, AnAttemptWhoseContainerIsGoneBeforeTheCollectionFails) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  hooked_.before_copy_out = [&](const Key&, const std::stop_token&) {
    throw Error(ErrorKind::not_found, "t", "no such container");
  };
  const Outcome outcome = drive_collecting(run);
  ASSERT_EQ(outcome.unsuccessful.size(), 1U);
  EXPECT_EQ(outcome.unsuccessful[0].cause, Cause::outputs);
  EXPECT_THAT(outcome.unsuccessful[0].reason, HasSubstr("its outputs are lost"));
}

// A failed attempt may have written fewer outputs.
TEST_F(OutputsTest, PartialOutputsStayIfNoneCanBeCollectedAtTheEnd) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].process.cmd = {"sleep", "1000000"};
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = true}};
  run.experiment.collect.every = Seconds(600);
  run.experiment.trials[0].process.cmd = {"sleep", "1"};
  (void)drive_collecting(run);
  EXPECT_THAT(places_.all(), IsEmpty());
}

TEST_F(OutputsTest, ATrialWithoutOutputsHasNoPartialCollection) {
  combu::Run run = test::run("t u");
  for (Trial& trial : run.experiment.trials) trial.process.cmd = {"sleep", "1000000"};
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  run.experiment.collect.every = Seconds(0.01);
  int calls = 0;
  hooked_.before_copy_out = [&](const Key&, const std::stop_token&) {
    if (++calls != 3) return;
    for (const char* trial : {"t", "u"})
      simulated_->stop({.run = run.id, .trial = trial, .attempt = 1}, std::nullopt, {});
  };
  (void)drive_collecting(run);
  EXPECT_THAT(places_.all(), Contains("t@so-far"));
  EXPECT_THAT(places_.all(), Not(Contains("u@so-far")));
}

// An engine that copies out of a container holds the container's lock.
TEST_F(OutputsTest, ACopyUnderWayIsCancelledBeforeTheAttemptIsStopped) {
  combu::Run run = test::run("t");
  run.experiment.trials[0].process.cmd = {"sleep", "1000000"};
  run.experiment.trials[0].timeout = Seconds(0.2);
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  run.experiment.collect.every = Seconds(0.01);
  std::stop_token copying;
  hooked_.before_copy_out = [&](const Key&, const std::stop_token& stop) {
    if (copying.stop_possible()) return;
    copying = stop;
    real_clock().wait(Seconds(600), stop);
    throw Error(ErrorKind::cancelled, "t", "cancelled");
  };
  hooked_.before_stop = [&](const Key&) { EXPECT_TRUE(copying.stop_requested()); };
  (void)drive_collecting(run);
  EXPECT_TRUE(copying.stop_requested());
}

TEST_F(OutputsTest, AnInputFromAnotherTrialIsFetchedBeforeTheStart) {
  const test::Folder folder("run_outputs_test");
  std::filesystem::create_directories(folder.path() + "/out");
  std::ofstream(folder.path() + "/out/model") << "text";
  combu::Run run = test::run("a b<-a:succeeded");
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  run.experiment.trials[1].inputs = {Input{.from = "/out/model", .trial = "a", .to = "/in"}};
  places_.on_fetch = [&](const std::string& trial) {
    EXPECT_EQ(trial, "a");
    return folder.path();
  };
  std::string from;
  hooked_.before_start = [&](const Trial& trial, const std::stop_token&) {
    if (trial.name == "b") from = trial.inputs.at(0).from;
  };
  EXPECT_EQ(drive_collecting(run).last.count(TrialState::succeeded), 2U);
  EXPECT_EQ(from, folder.path() + "/out/model");
}

TEST_F(OutputsTest, AnInputThatCannotBeFetchedFailsTheTrial) {
  combu::Run run = test::run("a b<-a:succeeded");
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  run.experiment.trials[1].inputs = {Input{.from = "/out/model", .trial = "a", .to = "/in"}};
  places_.on_fetch = [](const std::string&) -> std::string {
    throw Error(ErrorKind::refused, "s3://bucket", "no such key");
  };
  const Outcome outcome = drive_collecting(run);
  ASSERT_EQ(outcome.unsuccessful.size(), 1U);
  EXPECT_EQ(outcome.unsuccessful[0].trial, 1U);
  EXPECT_THAT(outcome.unsuccessful[0].reason, HasSubstr("s3://bucket: no such key"));
}

// fetch() blocks until its stop token is set. If `fault` is set, open() fails with it.
class Stuck final : public test::Places {
 public:
  std::string fetch(const std::string& trial, const std::string& /*path*/,
                    const std::stop_token& stop) override {
    on_fetch();
    real_clock().wait(Seconds(600), stop);
    throw Error(ErrorKind::cancelled, trial, "cancelled");
  }
  std::unique_ptr<OutputWriter> open(const std::string& place, const std::stop_token& stop) override {
    if (fault.empty()) return test::Places::open(place, stop);
    on_open();
    throw Error(ErrorKind::refused, "/results/" + place + "/out", fault);
  }

  std::function<void()> on_fetch;
  std::function<void()> on_open;
  std::string fault;
};

TEST_F(OutputsTest, AStopCancelsTheFetchingOfInputs) {
  combu::Run run = test::run("a b<-a:succeeded");
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  run.experiment.trials[1].inputs = {{.from = "/out", .trial = "a", .to = "/in"}};
  std::stop_source stop;
  Stuck output_store;
  output_store.on_fetch = [&] { stop.request_stop(); };
  const Outcome outcome = combu::drive(run, test::plan(run.experiment), {.until = Until::ended},
                                       {.engine = engine_,
                                        .clock = real_clock(),
                                        .journal = recorder_,
                                        .progress = recorder_.listener,
                                        .stop = stop.get_token(),
                                        .output_store = &output_store});
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_EQ(outcome.last.count(TrialState::succeeded), 1U);
  EXPECT_EQ(outcome.last.count(TrialState::starting), 1U);
  EXPECT_THAT(outcome.unsuccessful, testing::IsEmpty());
}

TEST_F(OutputsTest, AStopCancelsTheSendingOfInputs) {
  combu::Run run = test::run("a b");
  run.experiment.trials[1].inputs = {{.from = "/data", .to = "/in"}};
  std::stop_source stop;
  hooked_.before_start = [&](const Trial& trial, const std::stop_token& given_up) {
    if (trial.inputs.empty()) return;
    stop.request_stop();
    real_clock().wait(Seconds(600), given_up);
    throw Error(ErrorKind::cancelled, trial.name, "cancelled");
  };
  const Outcome outcome = combu::drive(run, test::plan(run.experiment), {.until = Until::ended},
                                       {.engine = hooked_,
                                        .clock = real_clock(),
                                        .journal = recorder_,
                                        .progress = recorder_.listener,
                                        .stop = stop.get_token()});
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_EQ(outcome.last.count(TrialState::starting), 1U);
  EXPECT_THAT(outcome.unsuccessful, testing::IsEmpty());
}

TEST_F(OutputsTest, AFailedCollectionIsReportedWithTrialAndFolder) {
  combu::Run run = test::run("a");
  run.experiment.trials[0].outputs = {Output{.path = "/out", .required = false}};
  std::stop_source stop;
  Stuck output_store;
  output_store.fault = "cannot be written: No space left on device";
  int tries = 0;
  output_store.on_open = [&] {
    if (++tries == 2) stop.request_stop();
  };
  const Outcome outcome = combu::drive(run, test::plan(run.experiment), {.until = Until::ended},
                                       {.engine = engine_,
                                        .clock = real_clock(),
                                        .journal = recorder_,
                                        .progress = recorder_.listener,
                                        .stop = stop.get_token(),
                                        .output_store = &output_store});
  const std::string why = "/results/a/out: cannot be written: No space left on device";
  EXPECT_EQ(outcome.undelivered, "a: " + why);
  EXPECT_THAT(recorder_.remarks,
              testing::ElementsAre("a: collecting the outputs failed: " + why + "; combu tries again"))
      << "once";
}

TEST(NotesOf, ReportFilesThatAreNotCollectedOrRemoved) {
  EXPECT_THAT(notes_of("t", {}), IsEmpty());
  EXPECT_THAT(notes_of("t", {.left = {"/out/pipe"}}),
              ElementsAre("t: /out/pipe is not collected: an output must be a file, folder or link"));
  EXPECT_THAT(
      notes_of("t", {.left = {"/out/pipe", "/out/socket", "/out/null"}}),
      ElementsAre("t: /out/pipe and 2 more are not collected: outputs must be files, folders or links"));
  EXPECT_THAT(
      notes_of("t", {.unremoved = "/results/.t.unfinished/a: cannot be removed: no"}),
      ElementsAre("t: removing the trial's earlier outputs failed: /results/.t.unfinished/a: cannot be "
                  "removed: no; remove them by hand"));
}

}  // namespace
}  // namespace combu
