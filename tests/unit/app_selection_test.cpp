// Tests that select the trials and runs of a command.

#include <fmt/format.h>

#include "app_fixture.hpp"
#include "combu/session.hpp"

namespace combu::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SelectionTest : public AppTest {
 protected:
  std::vector<std::string> chosen(const SelectionOptions& options) {
    std::vector<std::string> names;
    missing.clear();
    with_session([&](Session& session) {
      const Chosen all = choose_attempts(session, invocation, options);
      for (const Observation& seen : all.attempts) names.push_back(seen.key.trial);
      for (const Error& error : all.missing) missing.emplace_back(error.what());
    });
    std::ranges::sort(names);
    return names;
  }
  void run_both() {
    EXPECT_EQ(start(file_text(trial_text("one") + trial_text("two")), waiting_run("r1")), Result::succeeded);
    write_file("other.jsonnet", "{experiment: 'other', trials: [{name: 'three', image: 'x', cmd: 'true'}]}");
    invocation = invocation_of("other.jsonnet");
    EXPECT_EQ(start(waiting_run("r2")), Result::succeeded);
    invocation = invocation_of("experiment.jsonnet");
    printed.clear();
  }
  std::vector<std::string> missing;
};

TEST_F(SelectionTest, TheFileSelectsItsExperiment) {
  run_both();
  EXPECT_THAT(chosen({}), ElementsAre("one", "two"));
  EXPECT_THAT(chosen({.experiment = "other"}), ElementsAre("three"));
  EXPECT_THAT(chosen({.trials = {"t*"}}), ElementsAre("two"));
  EXPECT_THAT(chosen({.run = "r2"}), IsEmpty());
}

TEST_F(SelectionTest, WithoutAFileTrialsOfSeveralExperimentsAreRefused) {
  run_both();
  invocation.file.clear();
  EXPECT_THAT(chosen({.trials = {"three"}}), ElementsAre("three"));
  EXPECT_THAT(chosen({.trials = {"t*"}}), IsEmpty());
  EXPECT_THAT(printed.of("error"),
              ElementsAre("t*: matches trials of several experiments (lab, other); choose one "
                          "with --experiment NAME"));
  EXPECT_THAT(chosen({}), IsEmpty());
  EXPECT_THAT(printed.of("error").back(), HasSubstr("an experiment must be given"));
}

TEST_F(SelectionTest, NamesWithoutAContainerAreErrors) {
  run_both();
  EXPECT_THAT(chosen({.trials = {"one", "twoo", "zzzzzz", "z*"}}), ElementsAre("one"));
  EXPECT_THAT(missing, ElementsAre(HasSubstr("its container has been removed; did you mean `two`?"),
                                   AllOf(HasSubstr("zzzzzz"), HasSubstr("`combu -f ")),
                                   HasSubstr("matches no trial that has a container")));
  with_session([&](Session& session) {
    EXPECT_EQ(error_in([&] { (void)chosen_attempts(session, invocation, {.trials = {"twoo"}}); }).subject(),
              "twoo");
    EXPECT_THAT(chosen_attempts(session, invocation, {.trials = {"two"}}), SizeIs(1));
  });
}

TEST_F(SelectionTest, AnErrorShowsTheStateOfATrialWithoutAContainer) {
  EXPECT_EQ(
      start(file_text(trial_text("done") + trial_text("bad", "/no/such") +
                      trial_text("next-1", "true", "depends: [{trial: 'bad', condition: 'succeeded'}]") +
                      trial_text("next-2", "true", "depends: [{trial: 'bad', condition: 'succeeded'}]")),
            waiting_run("r1")),
      Result::failed);
  remove_container("r1", "done");
  EXPECT_THAT(chosen({.trials = {"done", "next-1", "next-*"}}), IsEmpty());
  EXPECT_THAT(
      missing,
      ElementsAre(
          "done: has no container: the trial is succeeded in run r1, and the container has been removed",
          HasSubstr("next-1: has no container: the trial is blocked in run r1: "),
          HasSubstr("matches 2 trials that have no containers")));
  RunEntry waiting = entry("r1");
  waiting.id = RunId("r2");
  Experiment experiment;
  experiment.trials.emplace_back().name = "done";
  record().begin(waiting, experiment);
  EXPECT_THAT(chosen({.run = "r2", .trials = {"done"}}), IsEmpty());
  EXPECT_THAT(missing, ElementsAre("done: has no container yet: the trial is waiting in run r2; `combu "
                                   "why done --run r2` explains why"));
}

TEST_F(SelectionTest, SkippedTrialsAreFoundOnRecord) {
  const std::string text = file_text(trial_text("one", "true", "cache: true") + trial_text("two"));
  EXPECT_EQ(start(text, waiting_run("r1")), Result::succeeded);
  EXPECT_FALSE(was_skipped("one", invocation, {}));
  EXPECT_EQ(start(text, waiting_run("r2")), Result::succeeded);
  EXPECT_TRUE(was_skipped("one", invocation, {}));
  EXPECT_FALSE(was_skipped("*", invocation, {})) << "two was not";
  EXPECT_FALSE(was_skipped("one", invocation, {.run = "r1"}));
  EXPECT_FALSE(was_skipped("nobody", invocation, {}));
  write_file("state/record.sqlite", "no database, and long enough to be taken for one by its size alone");
  EXPECT_FALSE(was_skipped("one", invocation, {}));
}

TEST_F(SelectionTest, AnUnknownRunIsAnError) {
  EXPECT_NO_THROW(expect_run(invocation, {}));
  EXPECT_EQ(error_in([&] { expect_run(invocation, {.run = "r1"}); }).kind(), ErrorKind::not_found);
  run_both();
  EXPECT_NO_THROW(expect_run(invocation, {.run = "r1"}));
  EXPECT_EQ(error_in([&] { expect_run(invocation, {.run = "r9"}); }).subject(), "run r9");
}

TEST_F(SelectionTest, AnErrorNamesOtherExperimentsOnTheEngine) {
  run_both();
  invocation = invocation_of("third.jsonnet");
  EXPECT_THAT(chosen({.trials = {"one", "two"}}), IsEmpty());
  ASSERT_THAT(missing, SizeIs(2));
  EXPECT_EQ(missing[0],
            "one: this engine has no container of the experiment; other experiments on this engine: lab (2 "
            "containers), other (1 container); choose one with --experiment NAME");
  with_session([&](Session& session) {
    EXPECT_EQ(with_others("nothing", session, invocation_of("experiment.jsonnet"), {.experiment = "other"}),
              "nothing");
    EXPECT_EQ(others_text(session, invocation_of("experiment.jsonnet"), {.run = "r9"}),
              "runs of this experiment: r1");
  });
}

TEST_F(SelectionTest, AnErrorNamesAtMostFiveOtherExperiments) {
  for (int i = 0; i < 7; ++i) {
    const std::string name = "lab-" + std::to_string(i);
    write_file(name + ".jsonnet",
               fmt::format("{{experiment: '{0}', trials: [{{name: 't-{0}', image: 'x'}}]}}", name));
    invocation = invocation_of(name + ".jsonnet");
    EXPECT_EQ(start(new_run(name)), Result::succeeded);
  }
  invocation = invocation_of("experiment.jsonnet");
  with_session([&](Session& session) {
    EXPECT_THAT(others_text(session, invocation, {}),
                AllOf(HasSubstr("lab-4 (1 container), 2 more; choose one with --experiment NAME")));
  });
}

TEST_F(SelectionTest, AFilterIsMadeFromTheOptions) {
  const RunFilter by_file = filter_of(invocation, {});
  EXPECT_EQ(by_file.file, invocation.file);
  EXPECT_EQ(by_file.simulated, false);
  const RunFilter by_run = filter_of(invocation, {.experiment = "lab", .run = "r1"});
  EXPECT_EQ(by_run.id, RunId("r1"));
  EXPECT_EQ(by_run.experiment, "lab");
  EXPECT_EQ(by_run.file, "");
  EXPECT_EQ(by_run.simulated, std::nullopt);
  const Selector of_file = selector_of_file(invocation, {.run = "r1"});
  EXPECT_EQ(of_file.file, invocation.file);
  EXPECT_EQ(of_file.run, RunId("r1"));
  EXPECT_EQ(for_selection({}, {.trials = {"one"}}).file, "");
}

}  // namespace
}  // namespace combu::test
