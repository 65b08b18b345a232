// Tests that compare an edited file with its run, and that apply the file to the run.

#include "app/apply.hpp"
#include "app/changes.hpp"
#include "app/edited.hpp"
#include "app_fixture.hpp"

namespace combu::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class ApplyTest : public AppTest {
 protected:
  Result apply(const RestartRequest& restart = {}, const std::string& run = "") {
    RunOwner owner(nullptr);
    return result_of([&](const OpenSession& open_session) {
      return combu::apply(invocation, run, restart, shown, open_session, owner);
    });
  }
  Result apply(const std::string& text, const RestartRequest& restart = {}) {
    write(text);
    printed.clear();
    return apply(restart);
  }
};

TEST_F(ApplyTest, AnUnchangedFileChangesNothing) {
  const std::string text = file_text(trial_text("one"));
  EXPECT_EQ(start(text, waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(apply(text), Result::succeeded);
  EXPECT_THAT(printed.of("note"), ElementsAre("run r1: the file has not changed"));
  EXPECT_EQ(apply(text, {.failed = true}), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              ElementsAre("run r1: the file has not changed, and none of its trials has failed"));
}

TEST_F(ApplyTest, AFileWithOtherBytesButTheSameMeaningIsRecorded) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  const std::string text = "// a comment\n" + file_text(trial_text("one"));
  EXPECT_EQ(apply(text), Result::succeeded);
  EXPECT_THAT(printed.of("note"), ElementsAre("run r1: the file has not changed"));
  EXPECT_EQ(entry("r1").text.source, text);
  EXPECT_THAT(entry("r1").earlier, IsEmpty());
}

TEST_F(ApplyTest, ANewTrialIsRun) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  const std::string text = file_text(trial_text("zero") + trial_text("one") + trial_text("two", "exit 2"));
  EXPECT_EQ(apply(text), Result::failed);
  EXPECT_THAT(printed.of("note"), Contains("run r1: 2 trials are new"));
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("one", "succeeded"), Pair("zero", "succeeded"),
                                                 Pair("two", "failed")));
  EXPECT_EQ(trial_of("r1", "two").revision, 2);
  EXPECT_EQ(trial_of("r1", "one").revision, 1);
  EXPECT_TRUE(entry("r1").ended_at);
  EXPECT_GT(entry("r1").working_since, entry("r1").began_at) << "the run was opened again";
}

TEST_F(ApplyTest, InputsOfTrialsThatAreOverMayBeGone) {
  write_file("data", "word\n");
  const std::string one = trial_text("one", "true", "inputs: ['./data:/data']");
  EXPECT_EQ(start(file_text(one), waiting_run("r1")), Result::succeeded);
  std::filesystem::remove(path("data"));
  EXPECT_EQ(apply(file_text(one + trial_text("two"))), Result::succeeded);
  EXPECT_EQ(states("r1").at("two"), "succeeded");
}

TEST_F(ApplyTest, ARemovedTrialThatIsOverKeepsItsState) {
  EXPECT_EQ(start(file_text(trial_text("one") + trial_text("two", "exit 1")), waiting_run("r1")),
            Result::failed);
  EXPECT_EQ(apply(file_text(trial_text("one"))), Result::failed) << "two has failed all the same";
  EXPECT_THAT(printed.of("note"), Contains("run r1: 1 trial was removed"));
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("one", "succeeded"), Pair("two", "failed")));
}

TEST_F(ApplyTest, ARemovedTrialThatRunsIsStopped) {
  EXPECT_EQ(
      start(file_text(trial_text("one", "sleep 1000") + trial_text("two", "sleep 1000")), new_run("r1")),
      Result::succeeded);
  EXPECT_EQ(apply(file_text(trial_text("one", "sleep 1000"))), Result::succeeded);
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("one", "running"), Pair("two", "stopped")));
  EXPECT_TRUE(world.is_running("one"));
  EXPECT_FALSE(world.is_running("two"));
  EXPECT_THAT(trial_of("r1", "two").reason, HasSubstr("removed"));
  // A removed trial runs if a later file contains the trial again.
  EXPECT_EQ(apply(file_text(trial_text("one", "sleep 1000") + trial_text("two", "sleep 1000"))),
            Result::succeeded);
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("one", "running"), Pair("two", "running 2")));
}

TEST_F(ApplyTest, AChangedTrialThatRunsOrSucceededKeepsItsText) {
  EXPECT_EQ(
      start(file_text(trial_text("done", "sleep 100") + trial_text("goes", "sleep 100000")), new_run("r1")),
      Result::succeeded);
  pass_an_hour();
  const std::string text = file_text(trial_text("done", "echo new") + trial_text("goes", "sleep 200000"));
  EXPECT_EQ(apply(text), Result::succeeded);
  EXPECT_THAT(
      printed.of("note"),
      AllOf(Contains("run r1: 2 trials changed"),
            Contains("run r1: these trials changed, but still run with the earlier definition; `apply "
                     "--replace` restarts these trials: goes"),
            Contains("run r1: these trials changed, but succeeded with the earlier definition; `apply "
                     "--replace` runs these trials again: done")));
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("done", "succeeded"), Pair("goes", "running")));
  EXPECT_EQ(trial_of("r1", "goes").revision, 1);
}

TEST_F(ApplyTest, ReplaceRunsAChangedTrialAgain) {
  EXPECT_EQ(start(file_text(trial_text("done", "sleep 100") + trial_text("goes", "sleep 100000") +
                            trial_text("same")),
                  new_run("r1")),
            Result::succeeded);
  pass_an_hour();
  const std::string text =
      file_text(trial_text("done", "echo new") + trial_text("goes", "sleep 200000") + trial_text("same"));
  EXPECT_EQ(apply(text, {.replace = {"*"}}), Result::succeeded);
  EXPECT_EQ(trial_of("r1", "goes").attempt, 2);
  EXPECT_EQ(trial_of("r1", "goes").revision, 2);
  EXPECT_EQ(trial_of("r1", "done").attempt, 2);
  EXPECT_EQ(trial_of("r1", "same").attempt, 1);
  EXPECT_TRUE(world.is_running("goes"));
}

TEST_F(ApplyTest, AChangedTrialThatFailedRunsOnRequest) {
  EXPECT_EQ(start(file_text(trial_text("bad", "exit 3")), waiting_run("r1")), Result::failed);
  EXPECT_EQ(apply(file_text(trial_text("bad"))), Result::failed);
  EXPECT_THAT(printed.of("note"), Contains("run r1: these trials changed, but failed or were stopped with "
                                           "the earlier definition; `apply --failed` "
                                           "starts these trials again: bad"));
  EXPECT_EQ(states("r1").at("bad"), "failed");
  EXPECT_EQ(apply(file_text(trial_text("bad")), {.failed = true}), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("run r1: 1 trial changed, 1 trial is retried"));
  EXPECT_EQ(states("r1").at("bad"), "succeeded 2");
  EXPECT_EQ(trial_of("r1", "bad").revision, 2);
}

TEST_F(ApplyTest, ABlockedTrialRunsAfterTheTrialThatBlockedIt) {
  const std::string after = trial_text("after", "true", "depends: [{trial: 'bad', condition: 'succeeded'}]");
  EXPECT_EQ(start(file_text(trial_text("bad", "exit 3") + after), waiting_run("r1")), Result::failed);
  EXPECT_EQ(apply(file_text(trial_text("bad") + after), {.replace = {"bad"}}), Result::succeeded);
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("bad", "succeeded 2"), Pair("after", "succeeded")));
}

TEST_F(ApplyTest, AnInvalidFileChangesNothing) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  const std::string before = entry("r1").text.evaluated;
  EXPECT_EQ(apply("[{name: 'one'}]"), Result::invalid);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("experiment.jsonnet: [0]")));
  write("{experiment: 'other', trials: [{name: 'one', image: 'x'}]}");
  const Error error = error_in([&] { (void)apply(); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_THAT(error.message(),
              HasSubstr("describes the experiment other, but the run belongs to the experiment lab"));
  EXPECT_EQ(entry("r1").text.evaluated, before);
}

TEST_F(ApplyTest, AnImageThatTheEngineLacksChangesNothing) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  const std::string text = file_text(trial_text("one") + "{name: 'two', image: 'missing/x'},");
  EXPECT_EQ(apply(text), Result::failed);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("missing/x")));
  EXPECT_THAT(printed.of("note"), ElementsAre("nothing was changed"));
  EXPECT_THAT(states("r1"), ElementsAre(Pair("one", "succeeded")));
  EXPECT_FALSE(owner_pid(RunId("r1"), caller()));
}

TEST_F(ApplyTest, AnotherEngineIsRefused) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  address = "unix:///another.sock";
  EXPECT_EQ(apply(file_text(trial_text("two"))), Result::failed);
  EXPECT_THAT(printed.of("error"),
              ElementsAre(AllOf(HasSubstr("must continue on its engine unix:///run/lab.sock"),
                                HasSubstr("not on unix:///another.sock"))));
}

TEST_F(ApplyTest, AnIdChoosesTheRun) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r2")), Result::succeeded);
  write(file_text(trial_text("one") + trial_text("two")));
  invocation.file.clear();
  EXPECT_EQ(apply({}, "r1"), Result::succeeded);
  EXPECT_EQ(states("r1").size(), 2U);
  EXPECT_EQ(states("r2").size(), 1U);
  EXPECT_EQ(error_in([&] { (void)apply({}, "r9"); }).kind(), ErrorKind::not_found);
}

TEST_F(ApplyTest, AnEditedParallelReplacesTheRecordedValue) {
  NewRun run = waiting_run("r1");
  run.options.parallel = 5;
  EXPECT_EQ(start(file_text(trial_text("one"), "parallel: 1,"), run), Result::succeeded);
  EXPECT_EQ(apply(file_text(trial_text("one") + trial_text("two"), "parallel: 2,")), Result::succeeded);
  EXPECT_EQ(run_options_of(entry("r1").options).parallel, std::nullopt);
}

TEST_F(ApplyTest, ATrialThatTheRunLeftOutStaysOut) {
  NewRun some = waiting_run("r1");
  some.only = {"one"};
  EXPECT_EQ(start(file_text(trial_text("one") + trial_text("two")), some), Result::succeeded);
  EXPECT_EQ(apply(file_text(trial_text("one") + trial_text("two") + trial_text("three"))), Result::succeeded);
  EXPECT_THAT(states("r1"), UnorderedElementsAre(Pair("one", "succeeded"), Pair("three", "succeeded")));
}

TEST_F(ApplyTest, AnEditedFileIsNoted) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  const auto note = [&] {
    printed.clear();
    Record all(state());
    note_edits(shown, all, all.run(RunId("r1")), invocation, "retry");
    return printed.text();
  };
  EXPECT_EQ(note(), "");
  write("// other bytes\n" + file_text(trial_text("one")));
  EXPECT_THAT(
      note(),
      HasSubstr("was edited after it was recorded, and no trial differs; `retry` uses the recorded text"));
  write(file_text(trial_text("one", "echo new")));
  EXPECT_THAT(note(), HasSubstr("was edited after it was recorded, and 1 trial differs;"));
  write(file_text(trial_text("two") + trial_text("three")));
  EXPECT_THAT(note(), HasSubstr("was edited after it was recorded, and 3 trials differ;"));
  write("]");
  EXPECT_THAT(note(), HasSubstr("run r1: the recorded text is used; the current file cannot be read: "));
  EXPECT_EQ(states("r1").size(), 1U);
}

// ---- The comparison

class Comparing : public testing::Test {
 protected:
  static Trial trial(const std::string& name, const std::string& command = "true") {
    Trial trial;
    trial.name = name;
    trial.image = "x";
    trial.process.cmd = {{command}};
    return trial;
  }
  static Trial after(Trial trial, const std::string& other) {
    trial.depends.push_back({.trial = other, .condition = Condition::succeeded});
    return trial;
  }
  // Returns the trials on record, with `command` as the command of each trial.
  [[nodiscard]] std::vector<Trial> with_command(const std::string& command) const {
    std::vector<Trial> trials = before.trials;
    for (Trial& trial : trials) trial.process.cmd = {{command}};
    return trials;
  }
  // Adds a trial to the record.
  void put(Trial trial, TrialState state) {
    named.latest.insert(trial.name);
    named.ever.insert(trial.name);
    before.trials.push_back(std::move(trial));
    restored.push_back({.state = state});
  }
  [[nodiscard]] Changes compare(const std::vector<Trial>& trials, const RestartRequest& restart = {}) const {
    Experiment file;
    file.trials = trials;
    return compare_with_file(RunId("r1"), before, restored, named, file, restart);
  }

  Experiment before;
  std::vector<RestoredTrial> restored;
  Named named;
};

TEST_F(Comparing, BlockedTrialsMayBeSkipped) {
  restored = {{.state = TrialState::blocked}, {.state = TrialState::failed}};
  EXPECT_THAT(anew_of({0, 1, 2}, restored), ElementsAre(Pair(0, false), Pair(1, true), Pair(2, true)))
      << "the third trial joins the run";
}

TEST_F(Comparing, AnEqualFileHasNoChanges) {
  put(trial("one"), TrialState::succeeded);
  const Changes changes = compare({trial("one")});
  EXPECT_TRUE(changes.none());
  EXPECT_EQ(changes.changed(), 0U);
}

TEST_F(Comparing, PullAlwaysIsNoChange) {
  put(trial("one"), TrialState::running);
  Trial pulled = trial("one");
  pulled.pull = Pull::always;
  EXPECT_EQ(compare({pulled}).changed(), 0U);
  pulled.pull = Pull::never;
  EXPECT_EQ(compare({pulled}).changed(), 1U);
}

TEST_F(Comparing, ChangedTrialsAreSortedByTheirStates) {
  put(trial("waits"), TrialState::waiting);
  put(trial("blocked"), TrialState::blocked);
  put(trial("runs"), TrialState::running);
  put(trial("collects"), TrialState::collecting);
  put(trial("done"), TrialState::succeeded);
  put(trial("failed"), TrialState::failed);
  const Changes changes = compare(with_command("new"));
  EXPECT_THAT(changes.updated, ElementsAre(0, 1));
  EXPECT_THAT(changes.again, ElementsAre(1)) << "what was blocked waits again";
  EXPECT_THAT(changes.running, ElementsAre(2, 3));
  EXPECT_THAT(changes.succeeded, ElementsAre(4));
  EXPECT_THAT(changes.unsuccessful, ElementsAre(5));
  EXPECT_EQ(changes.experiment.trials[0].process.cmd->front(), "new");
  EXPECT_EQ(changes.experiment.trials[2].process.cmd->front(), "true");
  EXPECT_EQ(changes.experiment.trials[5].process.cmd->front(), "new");
}

TEST_F(Comparing, ReplaceExceptsCollectingTrials) {
  put(trial("runs"), TrialState::running);
  put(trial("collects"), TrialState::collecting);
  put(trial("done"), TrialState::succeeded);
  const Changes changes =
      compare({trial("runs", "new"), trial("collects", "new"), trial("done", "new")}, {.replace = {"*"}});
  EXPECT_THAT(changes.updated, ElementsAre(0, 2));
  EXPECT_THAT(changes.again, ElementsAre(0, 2));
  EXPECT_THAT(changes.running, ElementsAre(1));
}

TEST_F(Comparing, TrialsThatTheFileLacksAreRemoved) {
  put(trial("waits"), TrialState::waiting);
  put(trial("done"), TrialState::succeeded);
  put(after(trial("collects"), "done"), TrialState::collecting);
  restored.push_back({.state = TrialState::running, .departure = Departure::removed});
  before.trials.push_back(trial("leaves"));
  const Changes changes = compare({trial("new")});
  EXPECT_THAT(changes.removed, ElementsAre(0));
  EXPECT_EQ(changes.gone, 3U) << "`leaves` is not in the newest text";
  EXPECT_EQ(changes.joined, 1U);
  EXPECT_EQ(changes.experiment.trials.back().name, "new");
  EXPECT_THAT(changes.experiment.trials[2].depends, IsEmpty());
  EXPECT_FALSE(changes.none());
}

TEST_F(Comparing, ATrialThatReturnsToTheFileRuns) {
  put(trial("one"), TrialState::stopped);
  EXPECT_TRUE(compare({trial("one")}).none()) << "it was stopped, not removed";
  named.latest.clear();
  const Changes changes = compare({trial("one")});
  EXPECT_THAT(changes.updated, ElementsAre(0));
  EXPECT_THAT(changes.again, ElementsAre(0));
  EXPECT_EQ(changes.joined, 0U);
}

TEST_F(Comparing, ANamedTrialStartsWithTheTrialsThatItNeeds) {
  put(trial("root"), TrialState::failed);
  put(after(trial("middle"), "root"), TrialState::blocked);
  put(after(trial("leaf"), "middle"), TrialState::blocked);
  put(trial("other"), TrialState::failed);
  const Changes changes = compare(before.trials, {.again = {"middle"}});
  EXPECT_THAT(changes.named, ElementsAre(1));
  EXPECT_THAT(changes.again, ElementsAre(1, 0, 2));
  EXPECT_EQ(changes.retried, 2U);
}

TEST_F(Comparing, AllFailedTrialsStartOnRequest) {
  put(trial("done"), TrialState::succeeded);
  put(trial("failed"), TrialState::failed);
  put(trial("stopped"), TrialState::stopped);
  Trial service = trial("service");
  service.service = true;
  put(service, TrialState::stopped);
  put(after(trial("blocked"), "gone"), TrialState::blocked);
  before.trials.back().depends.clear();
  const Changes changes = compare(before.trials, {.failed = true});
  EXPECT_THAT(changes.again, ElementsAre(1, 2, 4));
  EXPECT_EQ(changes.retried, 2U);
}

TEST_F(Comparing, AServiceThatIsNeededAgainStarts) {
  Trial service = trial("service");
  service.service = true;
  put(service, TrialState::stopped);
  Trial user = trial("user");
  user.depends.push_back({.trial = "service", .condition = Condition::started});
  put(user, TrialState::succeeded);
  EXPECT_THAT(compare(before.trials, {.again = {"user"}}).again, ElementsAre(1, 0));
  std::vector<Trial> file = before.trials;
  file.push_back(user);
  file.back().name = "more";
  const Changes changes = compare(file);
  EXPECT_EQ(changes.joined, 1U);
  EXPECT_THAT(changes.again, ElementsAre(0));
}

TEST_F(Comparing, ATrialThatStartsAgainGetsTheFilesText) {
  put(trial("root"), TrialState::failed);
  put(after(trial("leaf"), "root"), TrialState::blocked);
  const Changes changes = compare({trial("root", "new"), after(trial("leaf"), "root")}, {.again = {"leaf"}});
  EXPECT_THAT(changes.again, ElementsAre(1, 0));
  EXPECT_THAT(changes.updated, ElementsAre(0));
  EXPECT_THAT(changes.unsuccessful, IsEmpty());
}

TEST_F(Comparing, WishesThatCannotBeMetAreErrors) {
  put(trial("runs"), TrialState::running);
  put(trial("collects"), TrialState::collecting);
  const auto fault = [&](const RestartRequest& restart) {
    return error_in([&] { (void)compare(before.trials, restart); });
  };
  EXPECT_EQ(fault({.again = {"runs"}}).kind(), ErrorKind::conflict);
  EXPECT_THAT(fault({.again = {"runs"}}).message(), HasSubstr("still runs; stop the trial first"));
  EXPECT_THAT(fault({.again = {"collects"}}).message(), HasSubstr("`run --resume` collects the outputs"));
  EXPECT_EQ(fault({.again = {"nobody"}}).subject(), "retry nobody");
  EXPECT_EQ(fault({.replace = {"nobody"}}).subject(), "--replace nobody");
}

TEST_F(Comparing, AFileThatMakesACycleWithTheRecordIsAnError) {
  put(after(trial("one"), "two"), TrialState::running);
  put(trial("two"), TrialState::waiting);
  const Changes changes = compare({trial("one"), after(trial("two"), "one")});
  EXPECT_FALSE(changes.errors.empty());
}

TEST_F(Comparing, ChangesArePrintedInOneLine) {
  for (int i = 0; i < 7; ++i) put(trial("t" + std::to_string(i)), TrialState::succeeded);
  std::vector<Trial> file = with_command("new");
  file.pop_back();
  file.push_back(trial("new"));
  Printed printed;
  Shown shown(printed);
  print_changes(shown, RunId("r1"), compare(file), {});
  EXPECT_THAT(
      printed.of("note"),
      ElementsAre(
          "run r1: 6 trials changed, 1 trial is new, 1 trial was removed",
          "run r1: these trials changed, but succeeded with the earlier definition; `apply --replace` runs "
          "these trials again: t0, t1, t2, t3, t4 and 1 more"));
  printed.clear();
  print_changes(shown, RunId("r1"), compare(before.trials), {});
  EXPECT_THAT(printed.of("note"), ElementsAre("run r1: no trial changed"));
}

}  // namespace
}  // namespace combu::test
