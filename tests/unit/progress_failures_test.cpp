#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "combu/progress.hpp"
#include "progress/failures.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Feed : public testing::Test {
 protected:
  Feed() {
    run_.id = RunId("r1");
    for (int i = 0; i < 50; ++i) {
      run_.experiment.trials.emplace_back();
      run_.experiment.trials.back().name = "t-" + std::to_string(i);
    }
  }
  std::string add(TrialIndex trial, const std::string& reason, const std::vector<std::string>& tail = {},
                  TrialState state = TrialState::failed, const EndDetails& details = {}, int attempt = 1) {
    const Fact fact{.trial = trial, .state = state, .attempt = attempt, .reason = reason, .details = details};
    const FailureFeed::Shown shown = feed_.add(run_, fact, tail);
    return shown.tail.empty() ? shown.line : shown.line + "\n" + shown.tail;
  }

  combu::Run run_;
  FailureFeed feed_;
};

TEST_F(Feed, TwoEqualFailuresAreShownAndFurtherOnesCounted) {
  EXPECT_EQ(add(0, "exit code 1", {"Traceback", "ValueError: x", ""}),
            "failed: t-0: exit code 1\n  t-0 | Traceback\n  t-0 | ValueError: x\n  t-0 | ");
  EXPECT_EQ(add(1, "exit code 1", {"ValueError: x"}), "failed: t-1: exit code 1\n  t-1 | ValueError: x");
  EXPECT_THAT(feed_.counted(), IsEmpty());
  EXPECT_EQ(add(2, "exit code 1", {"ValueError: x"}), "");
  EXPECT_EQ(add(3, "exit code 1", {"KeyError: lr"}), "failed: t-3: exit code 1\n  t-3 | KeyError: lr");
  EXPECT_EQ(add(4, "exit code 2"), "failed: t-4: exit code 2");
  EXPECT_THAT(feed_.counted(), ElementsAre("failed: 1 more trial: exit code 1: ValueError: x"));
  EXPECT_EQ(add(5, "exit code 1", {"ValueError: x"}), "");
  EXPECT_THAT(feed_.counted(), ElementsAre("failed: 2 more trials: exit code 1: ValueError: x"));
}

// The last line of the log is read only for the first failures, so failures without it are not equal to
// these.
TEST_F(Feed, AFailureWithoutALogIsNotEqualToOneWithALog) {
  for (TrialIndex trial = 0; trial < 3; ++trial) (void)add(trial, "exit code 1", {"ValueError: x"});
  EXPECT_EQ(add(3, "exit code 1"), "failed: t-3: exit code 1");
  EXPECT_EQ(add(4, "exit code 1"), "failed: t-4: exit code 1");
  EXPECT_EQ(add(5, "exit code 1"), "");
  EXPECT_THAT(feed_.counted(), ElementsAre("failed: 1 more trial: exit code 1: ValueError: x",
                                           "failed: 1 more trial: exit code 1"));
  EXPECT_EQ(add(6, "by alice", {}, TrialState::stopped, {.stopper = Stopper::person}),
            "stopped: t-6: by alice");
}

TEST_F(Feed, EqualFailuresOfOneTrialAreCounted) {
  const auto retrying = [&](int attempt, double pause) {
    return add(0, "exit code 1", {}, TrialState::retrying, {.next = Next::attempt, .pause = Seconds(pause)},
               attempt);
  };
  EXPECT_EQ(retrying(1, 1), "retrying: t-0: exit code 1; attempt 2 in 1.0 s");
  EXPECT_EQ(retrying(2, 2), "retrying: t-0: exit code 1; attempt 3 in 2.0 s");
  EXPECT_EQ(retrying(3, 4), "");
  EXPECT_THAT(feed_.counted(), ElementsAre("retrying: 1 more attempt: exit code 1"));
}

std::vector<std::string> lines_of(const std::vector<Failure>& failures) {
  std::vector<std::string> lines;
  for (const FailureGroup& group : group_failures(failures)) lines.push_back(group_line(group));
  return lines;
}

TEST(FailureGroups, AreInTheOrderOfTheirFirstFailures) {
  EXPECT_THAT(lines_of({{.trial = "b-1", .state = TrialState::failed, .reason = "exit code 1"},
                        {.trial = "a", .state = TrialState::stopped, .reason = "removed by `combu kill`"},
                        {.trial = "b-2", .state = TrialState::failed, .reason = "exit code 1"},
                        {.trial = "b-4", .state = TrialState::failed, .reason = "exit code 1: x"}}),
              ElementsAre("failed: 2 trials (b-[1-2]): exit code 1", "stopped: a: removed by `combu kill`",
                          "failed: b-4: exit code 1: x"));
}

TEST(FailureGroups, DoNotDependOnTheNumberOfAttempts) {
  const auto failed = [](std::string_view trial, const std::string& reason, int attempts,
                         std::string_view last_line) {
    const EndDetails details{.next = attempts > 1 ? Next::spent : Next::none};
    return failure_of(trial, TrialState::failed, reason, details, attempts, 2, last_line);
  };
  EXPECT_EQ(failed("a", "exit code 2", 2, "x").reason, "exit code 2, after 2 attempts: x");
  EXPECT_THAT(
      lines_of({failed("a", "exit code 2", 2, "x"), failed("b", "exit code 2", 1, "x"),
                failed("c", "exit code 3", 4, "")}),
      ElementsAre("failed: 2 trials (a, b): exit code 2: x", "failed: c: exit code 3, after 4 attempts"));
}

TEST(FailureGroups, SayOnceThatATrialWasStopped) {
  const Failure stopped =
      failure_of("a", TrialState::stopped, "by alice", {.stopper = Stopper::person}, 1, 143, "");
  const Failure over = failure_of("b", TrialState::stopped, "late", {.stopper = Stopper::run}, 1, 143, "");
  EXPECT_THAT(lines_of({stopped, over}), ElementsAre("stopped: a: by alice", "stopped: b: late"));
  const std::vector<FailureGroup> groups = group_failures(std::vector{stopped, over});
  EXPECT_EQ(reason_of(groups[0]), "stopped by alice");
  EXPECT_EQ(reason_of(groups[1]), "stopped: late");
  const Failure failed = failure_of("c", TrialState::failed, "late", {.stopper = Stopper::run}, 1, 143, "");
  EXPECT_THAT(lines_of({failed}), ElementsAre("failed: c: stopped: late"));
}

TEST(FailureGroups, JoinTrialsThatAreBlockedByOneRoot) {
  EXPECT_THAT(
      lines_of({{.trial = "b1",
                 .state = TrialState::blocked,
                 .reason = "depends on `a`, which did not succeed",
                 .root = "a"},
                {.trial = "a", .reason = "exit code 1"},
                {.trial = "b2",
                 .state = TrialState::blocked,
                 .reason = "depends on `b1`, which is blocked by `a`",
                 .root = "a"},
                {.trial = "c", .state = TrialState::blocked, .reason = "not started: the run was killed"}}),
      ElementsAre("failed: a: exit code 1", "blocked: 2 trials (b[1-2]): depend on `a`",
                  "blocked: c: not started: the run was killed"));
}

TEST(WithLastLine, NamesTheCommandThatWasNotFound) {
  EXPECT_EQ(with_last_line("exit code 1", 1, "ValueError: x"), "exit code 1: ValueError: x");
  EXPECT_EQ(with_last_line("exit code 1", 1, ""), "exit code 1");
  for (const std::string line :
       {"sh: 1: pyhton: not found", "sh: pyhton: not found", "bash: line 1: pyhton: command not found",
        "env: 'pyhton': No such file or directory", "env: ‘pyhton’: No such file or directory"})
    EXPECT_EQ(with_last_line("exit code 127", 127, line), "exit code 127: command not found: pyhton") << line;
  EXPECT_EQ(with_last_line("exit code 127", 127, ""), "exit code 127: command not found");
  EXPECT_EQ(with_last_line("exit code 127", 127, "bye"), "exit code 127: command not found: bye");
}

TEST(FailureGroups, NameAtMostFiveRangesOfTrials) {
  std::vector<std::string> names;
  for (int i = 0; i < 40; i += 2) names.push_back("t" + std::to_string(i));
  const std::vector<std::string_view> trials(names.begin(), names.end());
  EXPECT_EQ(trials_text(trials), "20 trials (t0, t2, t4, t6, t8, …)");
}

TEST(LastLine, IsTheLastLineThatIsNotBlank) {
  EXPECT_EQ(last_line_of("one\n  two \x1b[31mred\x1b[0m\n \n\n"), "two red");
  EXPECT_EQ(last_line_of("\n\n"), "");
  EXPECT_EQ(last_line_of(""), "");
  EXPECT_EQ(last_line_of(std::string(1000, 'a')).size(), 199 + std::string("…").size());
}

}  // namespace
}  // namespace combu
