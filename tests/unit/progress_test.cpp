#include "combu/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "progress/block.hpp"
#include "progress/forms.hpp"
#include "unit/progress_screen.hpp"

namespace combu {
namespace {

using testing::_;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Le;
using testing::Not;
using testing::ResultOf;
using testing::SizeIs;

// A stream whose content a test can read.
class Paper {
 public:
  Paper() : stream_(open_memstream(&text_, &size_)) {}
  ~Paper() {
    std::fclose(stream_);
    std::free(text_);  // NOLINT: the caller must free the memory of open_memstream
  }
  Paper(const Paper&) = delete;
  Paper& operator=(const Paper&) = delete;
  [[nodiscard]] std::FILE* stream() { return stream_; }
  [[nodiscard]] std::string text() {
    std::fflush(stream_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  std::FILE* stream_;
};

// The clock advances by a second at each call, so no output is delayed.
Surroundings around(Paper& paper, ScreenSize size = {}) {
  return {.stream = paper.stream(),
          .colours = Colours::none,
          .size = [size] { return size; },
          .time = [now = Seconds{0}]() mutable { return now += Seconds{1}; }};
}

Run run_of(const std::vector<std::string>& names) {
  Run run{.id = RunId("r1"), .experiment = {.name = "lab", .file = "/lab/experiment.jsonnet", .trials = {}}};
  for (const std::string& name : names) {
    Trial trial;
    trial.name = name;
    trial.image = "solver";
    run.experiment.trials.push_back(trial);
  }
  return run;
}

Snapshot snapshot_of(std::size_t running, std::size_t starting, std::size_t waiting) {
  Snapshot snapshot;
  snapshot.trials = running + starting + waiting;
  snapshot.started = running;
  snapshot.counts[static_cast<std::size_t>(TrialState::running)] = running;
  snapshot.counts[static_cast<std::size_t>(TrialState::starting)] = starting;
  snapshot.counts[static_cast<std::size_t>(TrialState::waiting)] = waiting;
  return snapshot;
}

// ---- Lines

TEST(Block, ShowsCountsRateTimeAndStartingTrials) {
  BlockContent content;
  content.snapshot = snapshot_of(30, 2, 71);
  content.starting = {"solver-a-31", "solver-b-31"};
  content.elapsed = Seconds{4};
  content.starts_per_second = 7.5;
  EXPECT_THAT(block_lines(content, {80, 24}),
              ElementsAre("30 of 103 started, 7.5/s, " + to_string(Seconds{4}),
                          "  71 waiting, 2 starting, 30 running", "  starting solver-a-31 solver-b-31"));
}

TEST(Block, ShowsWhyTrialsArePending) {
  BlockContent content;
  content.snapshot = snapshot_of(0, 1, 0);
  content.starting = {"a"};
  content.pending = {"starting: a: no room"};
  EXPECT_THAT(block_lines(content, {80, 24}),
              ElementsAre(_, "  1 starting", "  starting a", "  starting: a: no room"));
}

TEST(Block, ShowsTheRemainingTime) {
  BlockContent content;
  content.snapshot = snapshot_of(30, 2, 71);
  content.elapsed = Seconds{4};
  content.snapshot->left = Seconds{250.4};
  EXPECT_EQ(block_lines(content, {80, 24}).front(), "30 of 103 started, 4.0 s, about 4m10s left");
}

TEST(Block, NamesRunningTrialsWithTheirAgesIfTheyAreFew) {
  BlockContent content;
  content.snapshot = snapshot_of(2, 0, 0);
  content.running = {{.name = "forest-s3", .age = Seconds{250.4}},
                     {.name = "forest\x1b[2J-s7", .age = Seconds{12.9}}};
  content.elapsed = Seconds{4};
  EXPECT_THAT(block_lines(content, {80, 24}), ElementsAre("2 of 2 started, 4.0 s", "  2 running",
                                                          "  running forest-s3 (4m10s), forest-s7 (12 s)"));
  EXPECT_EQ(running_text({{.name = "a", .age = Seconds{59.99}}}), "running a (59 s)");
  EXPECT_EQ(running_text({{.name = "a", .age = Seconds{60}}}), "running a (1m00s)");
}

TEST(Block, ShowsThatTheRunIsPaused) {
  BlockContent content;
  content.snapshot = snapshot_of(1, 0, 2);
  content.snapshot->settings.paused = true;
  content.elapsed = Seconds{4};
  EXPECT_EQ(block_lines(content, {80, 24}).front(), "1 of 3 started, 4.0 s, paused");
}

TEST(Block, ShowsPullsWithTheirBytes) {
  BlockContent content;
  content.phase = "preparing";
  content.pulls["solver"] = {.name = "solver", .done = {1 << 20}, .total = {std::int64_t{4} << 20}};
  EXPECT_THAT(block_lines(content, {80, 24}),
              ElementsAre("preparing…", "  pulling solver: " + to_string(Bytes{1 << 20}) + " of " +
                                            to_string(Bytes{std::int64_t{4} << 20})));
}

TEST(Block, NeverExceedsTheScreen) {
  BlockContent content;
  content.snapshot = snapshot_of(3000, 200, 7000);
  for (int i = 0; i < 200; ++i) {
    content.starting.push_back("実験-with-a-long-name-" + std::to_string(i));
    const std::string image = "registry.example.com/\x1b[2J/image" + std::to_string(i);
    content.pulls[image] = {.name = image, .done = {5}};
  }
  for (const ScreenSize size : {ScreenSize{80, 24}, {20, 4}, {1, 1}, {300, 2}, {2, 100}}) {
    const auto lines = block_lines(content, size);
    EXPECT_THAT(lines, SizeIs(Le(std::max<std::size_t>(1, size.rows - 1))));
    EXPECT_THAT(lines, Each(ResultOf(columns_of, Le(std::max<std::size_t>(1, size.columns - 1)))));
    EXPECT_THAT(lines, Each(Not(HasSubstr("\x1b"))));
  }
}

TEST(StartRate, CountsTheLastSeconds) {
  StartRate rate;
  EXPECT_EQ(rate.per_second(), 0);
  for (int second = 0; second <= 20; ++second) {
    Snapshot snapshot = snapshot_of(second < 10 ? static_cast<std::size_t>(second) * 10 : 100, 0, 0);
    snapshot.elapsed = Seconds(second);
    rate.add(snapshot);
    if (second == 5) {
      EXPECT_NEAR(rate.per_second(), 10, 0.01);
    }
  }
  EXPECT_EQ(rate.per_second(), 0);
}

// ---- Implementations of Progress

TEST(TtyProgress, LeavesOnlyPermanentLines) {
  Paper paper;
  Screen screen({40, 10});
  const auto run = run_of({"a", "b", "c"});
  {
    const auto progress = make_tty_progress(around(paper, {40, 10}));
    progress->phase("checking");
    progress->note("made the folder /data");
    progress->begin(run);
    progress->snapshot(snapshot_of(1, 1, 1));
    progress->failure({.trial = 1, .state = TrialState::failed, .reason = "exit\x1b[2J code 3"}, {});
    progress->snapshot(snapshot_of(2, 0, 1));
  }
  screen.show(paper.text());
  EXPECT_THAT(screen.lines(),
              ElementsAre("made the folder /data", "run r1: 3 trials", "failed: b: exit code 3"));
}

TEST(TtyProgress, NeverExceedsASmallScreen) {
  Paper paper;
  std::vector<std::string> names;
  names.reserve(50);
  for (int i = 0; i < 50; ++i)
    names.push_back("a-trial-with-a-name-longer-than-the-screen-" + std::to_string(i));
  const auto run = run_of(names);
  {
    const auto progress = make_tty_progress(around(paper, {20, 4}));
    progress->begin(run);
    for (std::size_t i = 0; i < 50; ++i) {
      Snapshot snapshot = snapshot_of(i, 1, 49 - i);
      snapshot.starting = {static_cast<TrialIndex>(i)};
      progress->snapshot(snapshot);
    }
  }
  Screen screen({20, 4});
  screen.show(paper.text());
  EXPECT_THAT(screen.lines(),
              ElementsAre("run r1: 50 trials"));  // lines that exceed the screen would remain
}

TEST(TtyProgress, ErasesTheBlockAfterTheWindowBecameNarrower) {
  Paper paper;
  // The ticker reads both. It writes nothing while the clock stands still.
  std::atomic<int> now{100};
  std::atomic<std::size_t> columns{60};
  Surroundings surroundings = around(paper);
  surroundings.size = [&columns] { return ScreenSize{columns.load(), 20}; };
  surroundings.time = [&now] { return Seconds(now.load()); };
  const auto run = run_of({"solver-1", "solver-2"});
  Screen screen({60, 20});
  const auto progress = make_tty_progress(std::move(surroundings));
  progress->begin(run);
  now = 110;
  progress->snapshot(snapshot_of(1, 1, 0));
  const std::string before = paper.text();
  screen.show(before);
  columns = 25;
  screen.resize({25, 20});
  progress->end();
  screen.show(paper.text().substr(before.size()));
  EXPECT_THAT(screen.lines(), ElementsAre("run r1: 2 trials"));
}

TEST(TtyProgress, AgesGrowWithoutASnapshot) {
  Paper paper;
  std::atomic<int> now{100};  // atomic, because the ticker reads it too
  Surroundings surroundings = around(paper);
  surroundings.time = [&now] { return Seconds(now.load()); };
  const auto run = run_of({"a", "b"});
  {
    const auto progress = make_tty_progress(std::move(surroundings));
    progress->begin(run);
    now = 110;
    Snapshot snapshot = snapshot_of(1, 0, 1);
    snapshot.running = {{.trial = 1, .age = Seconds{2.5}}};
    progress->snapshot(snapshot);
    now = 170;
    progress->note("a note");
  }
  EXPECT_THAT(paper.text(), HasSubstr("  running b (1m02s)\n"));
}

TEST(TtyProgress, ReportsAnInterruptOnce) {
  Paper paper;
  const auto run = run_of({"a", "b"});
  const auto progress = make_tty_progress(around(paper, {80, 24}));
  progress->begin(run);
  Snapshot snapshot = snapshot_of(1, 3, 0);
  snapshot.starts_in_flight = 1;  // the engine has accepted two of the three
  snapshot.interrupted = true;
  progress->snapshot(snapshot);
  progress->snapshot(snapshot);
  progress->end();
  Screen screen({80, 24});
  screen.show(paper.text());
  EXPECT_THAT(screen.lines(),
              ElementsAre("run r1: 2 trials",
                          "no new starts; combu waits for 1 start under way; Ctrl-C again exits at once"));
}

TEST(TtyProgress, UsesColoursOnlyIfEnabled) {
  Paper paper;
  {
    const auto progress = make_tty_progress(around(paper));
    progress->error("bad");
  }
  EXPECT_EQ(paper.text(), "bad\n");
  Paper coloured;
  {
    Surroundings surroundings = around(coloured);
    surroundings.colours = Colours::ansi;
    make_tty_progress(std::move(surroundings))->error("bad");
  }
  EXPECT_EQ(coloured.text(), "\x1b[31mbad\n\x1b[0m");
}

TEST(PlainProgress, PrintsPermanentLines) {
  Paper paper;
  const auto run = run_of({"a", "b"});
  const auto progress = make_plain_progress(around(paper));
  progress->phase("checking");
  progress->preparation({.name = "solver"});
  progress->preparation({.name = "solver", .done = {5}, .total = {10}});
  progress->preparation({.name = "solver", .finished = true});
  progress->preparation({.kind = Preparation::Kind::network, .name = "net", .finished = true});
  progress->begin(run);
  progress->fact({.trial = 0, .state = TrialState::running});
  progress->failure({.trial = 0, .state = TrialState::failed, .exit_code = 3}, {"a", "ValueError: x"});
  progress->fact({.trial = 1, .state = TrialState::blocked, .reason = "a failed"});
  progress->end();
  EXPECT_EQ(
      paper.text(),
      "checking…\npulling solver\npulled solver\nnetwork net created\nrun r1: 2 trials\nfailed: a: exit "
      "code 3\n  a | a\n  a | ValueError: x\n");
}

// Its clock is `now`, which must outlive the result.
std::unique_ptr<Progress> plain_progress_at(Paper& paper, const Seconds& now) {
  Surroundings surroundings = around(paper);
  surroundings.time = [&now] { return now; };
  return make_plain_progress(std::move(surroundings));
}

TEST(PlainProgress, PrintsCountsEveryFewSeconds) {
  Paper paper;
  const auto run = run_of({"a"});
  Seconds now{100};
  const auto progress = plain_progress_at(paper, now);
  progress->counted("removed", 1, 9);
  now += Seconds{6};
  progress->counted("removed", 5, 9);
  progress->counted("removed", 6, 9);
  EXPECT_EQ(paper.text(), "removed 5 of 9\n");
}

TEST(PlainProgress, NamesRunningTrialsAfterTheCountsIfTheyAreFew) {
  Paper paper;
  const auto run = run_of({"a", "b"});
  Seconds now{100};
  const auto progress = plain_progress_at(paper, now);
  progress->begin(run);
  now += Seconds{6};
  Snapshot snapshot = snapshot_of(2, 0, 0);
  snapshot.elapsed = Seconds{6};
  snapshot.running = {{.trial = 1, .age = Seconds{5.5}}, {.trial = 0, .age = Seconds{0}}};
  progress->snapshot(snapshot);
  EXPECT_EQ(paper.text(), "run r1: 2 trials\n2 running after 6.0 s; running b (5 s), a (0 s)\n");
}

TEST(PlainProgress, PrintsEachReasonOfPendingTrialsOnce) {
  Paper paper;
  const auto run = run_of({"a", "b", "c"});
  Seconds now{100};
  const auto progress = plain_progress_at(paper, now);
  progress->begin(run);
  Snapshot snapshot = snapshot_of(0, 3, 0);
  snapshot.pending = {{.reason = "no room", .first = 1, .count = 2},
                      {.reason = "no image", .first = 0, .count = 1}};
  for (int i = 1; i <= 2; ++i) {
    now += Seconds{6};
    snapshot.elapsed = Seconds(6 * i);
    progress->snapshot(snapshot);
  }
  EXPECT_EQ(
      paper.text(),
      "run r1: 3 trials\n3 starting after 6.0 s\n  starting: b and 1 more: no room\n  starting: a: no image\n"
      "3 starting after 12.0 s\n");
}

TEST(PlainProgress, ReportsThatARunIsPausedAndUnpaused) {
  Paper paper;
  const auto run = run_of({"a", "b"});
  Seconds now{100};
  const auto progress = plain_progress_at(paper, now);
  progress->begin(run);
  Snapshot snapshot = snapshot_of(1, 0, 1);
  snapshot.settings.paused = true;
  progress->snapshot(snapshot);
  now += Seconds{6};
  progress->snapshot(snapshot);
  snapshot.settings.paused = false;
  progress->snapshot(snapshot);
  progress->snapshot(snapshot);
  EXPECT_EQ(paper.text(),
            "run r1: 2 trials\npaused: nothing starts until `combu unpause`\n"
            "1 waiting, 1 running after " +
                to_string(Seconds{0}) + ", paused\nunpaused\n");
}

TEST(PlainProgress, PrintsTheRateAndTheReservedSlots) {
  Paper paper;
  const auto run = run_of({"a", "b", "c", "d"});
  Seconds now{100};
  const auto progress = plain_progress_at(paper, now);
  progress->begin(run);
  Snapshot snapshot = snapshot_of(1, 0, 1);
  snapshot.elapsed = Seconds{4};
  progress->snapshot(snapshot);
  snapshot = snapshot_of(1, 0, 3);
  snapshot.started += 3;
  snapshot.elapsed = Seconds{6};
  snapshot.capacity = Slots{.cpus = parse_cpus("8"), .memory = parse_bytes("16g"), .gpus = {}};
  snapshot.held.cpus = parse_cpus("6");
  now += Seconds{6};
  progress->snapshot(snapshot);
  EXPECT_THAT(paper.text(), HasSubstr(", 1.5/s; 6 of 8 CPUs, 0 B of 16 GiB\n"));
}

TEST(JsonProgress, PrintsOneObjectALine) {
  Paper paper;
  const auto run = run_of({"a", "b"});
  const auto progress = make_json_progress(around(paper));
  progress->begin(run);
  progress->fact({.trial = 1, .state = TrialState::blocked, .reason = "a failed \xff", .root = 0});
  Snapshot snapshot = snapshot_of(1, 0, 1);
  snapshot.running = {{.trial = 0, .age = Seconds{2.5}}};
  progress->snapshot(snapshot);
  std::istringstream lines(paper.text());
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  ASSERT_THAT(objects, SizeIs(3));
  EXPECT_EQ(objects[0]["event"], "begin");
  EXPECT_EQ(objects[0]["run"], "r1");
  EXPECT_EQ(objects[1]["trial"], "b");
  EXPECT_EQ(objects[1]["state"], "blocked");
  EXPECT_EQ(objects[1]["root"], "a");
  EXPECT_EQ(objects[2]["counts"]["running"], 1);
  EXPECT_EQ(objects[2]["counts"]["waiting"], 1);
  EXPECT_EQ(objects[2]["running"], nlohmann::json::parse(R"([{"trial": "a", "seconds": 2.5}])"));
}

TEST(QuietProgress, PrintsOnlyErrors) {
  Paper paper;
  const auto run = run_of({"a"});
  const auto progress = make_quiet_progress(around(paper));
  progress->phase("checking");
  progress->note("a note");
  progress->begin(run);
  progress->error("failed: a: exit code 3");
  EXPECT_EQ(paper.text(), "failed: a: exit code 3\n");
}

TEST(ProgressForm, AutomaticFormIsPlainWithoutATerminal) {
  Paper paper;
  make_progress(ProgressForm::automatic, paper.stream())->error("bad");
  EXPECT_EQ(paper.text(), "bad\n");
  EXPECT_THROW((void)parse_progress_form("fancy"), Error);
  EXPECT_EQ(parse_progress_form("json"), ProgressForm::json);
}

// ---- The end of a run

TEST(Outcome, NamesFailuresAndTheNextCommands) {
  Paper paper;
  const auto run = run_of({"a", "b", "c"});
  Outcome outcome;
  outcome.last = snapshot_of(1, 0, 0);
  outcome.last.trials = 3;
  outcome.last.elapsed = Seconds{2};
  outcome.unsuccessful = {{.trial = 1, .state = TrialState::blocked, .reason = "a failed", .root = 0},
                          {.trial = 0, .state = TrialState::failed, .reason = "exit code 3"}};
  outcome.running = {2};
  print_outcome(*make_plain_progress(around(paper)), run, outcome, {.until = Until::started});
  EXPECT_EQ(paper.text(), "failed: a: exit code 3\nblocked: b: a failed\nrun r1: 1 of 3 trials started in " +
                              to_string(Seconds{2}) +
                              "\ncombu -f /lab/experiment.jsonnet wait: waits until the trials end\n"
                              "combu -f /lab/experiment.jsonnet kill: removes the containers\n");
}

TEST(Outcome, PendingTrialsAreNotCountedAsStarted) {
  Paper paper;
  const auto run = run_of({"a", "b", "c"});
  const auto progress = make_plain_progress(around(paper));
  Outcome outcome;
  outcome.last = snapshot_of(1, 2, 0);
  outcome.last.started = 1;
  outcome.last.elapsed = Seconds{0.2};
  print_outcome(*progress, run, outcome, {.until = Until::started, .engine = "kubernetes"});
  EXPECT_EQ(paper.text(),
            "run r1: the engine has accepted 3 of 3 trials in 200 ms, and starts them by itself; 1 started\n"
            "combu --engine kubernetes -f /lab/experiment.jsonnet wait: waits until the trials end\n"
            "combu --engine kubernetes -f /lab/experiment.jsonnet kill: removes the containers\n");
}

TEST(Outcome, AnInterruptLeavesPendingTrials) {
  Paper paper;
  Outcome outcome;
  outcome.interrupted = true;
  outcome.last = snapshot_of(0, 3, 0);  // the start of one trial was cancelled
  outcome.pending = 2;
  print_outcome(*make_plain_progress(around(paper)), run_of({"a", "b", "c"}), outcome,
                {.until = Until::ended, .engine = "kubernetes"});
  EXPECT_THAT(paper.text(),
              HasSubstr("interrupted: 0 of 3 trials were started; the engine has accepted 2 more, and "
                        "starts them by itself\n"));
  EXPECT_THAT(paper.text(), HasSubstr("kill: removes the containers\n"));
}

TEST(Outcome, SuggestsResumingFirstAfterAnInterrupt) {
  Paper paper;
  Outcome outcome;
  outcome.interrupted = true;
  outcome.last = snapshot_of(1, 0, 0);
  outcome.last.trials = 3;
  print_outcome(*make_plain_progress(around(paper)), run_of({"a", "b", "c"}), outcome,
                {.until = Until::ended});
  EXPECT_EQ(paper.text(),
            "interrupted: 1 of 3 trials were started\ncombu run --resume r1: resumes the run\n"
            "combu -f /lab/experiment.jsonnet kill: removes the containers\n");
}

TEST(Outcome, SuggestedCommandsHaveTheGivenEngine) {
  EXPECT_EQ(command_line(run_of({"a"}).experiment, "kill", ""), "combu -f /lab/experiment.jsonnet kill");
  EXPECT_EQ(command_line(run_of({"a"}).experiment, "kill", "unix:///my engine"),
            "combu --engine 'unix:///my engine' -f /lab/experiment.jsonnet kill");
}

TEST(Outcome, PrintsEqualFailuresAsOneLine) {
  Paper paper;
  std::vector<std::string> names;
  Outcome outcome;
  for (TrialIndex i = 0; i < 8; ++i) {
    names.push_back("forest-s" + std::to_string(i));
    outcome.unsuccessful.push_back(
        {.trial = i, .state = TrialState::failed, .ran = true, .exit_code = 1, .reason = "exit code 1"});
  }
  names.emplace_back("report");
  outcome.unsuccessful.insert(outcome.unsuccessful.begin(),
                              {.trial = 8, .state = TrialState::blocked, .reason = "depends on `forest-s0`"});
  const auto last_line = [](const std::string& trial, int /*attempt*/) {
    return std::string(trial == "forest-s6" ? "KeyError: lr" : "ValueError: x");
  };
  print_outcome(*make_quiet_progress(around(paper)), run_of(names), outcome,
                {.until = Until::ended, .last_line = last_line});
  EXPECT_EQ(paper.text(),
            "failed: 7 trials (forest-s[0-5], forest-s7): exit code 1: ValueError: x\n"
            "failed: forest-s6: exit code 1: KeyError: lr\n"
            "blocked: report: depends on `forest-s0`\n");
}

// After `combu apply` the run begins again with the changed file.
TEST(PlainProgress, CountsFailuresAnewAfterAnApply) {
  Paper paper;
  const auto run = run_of({"a", "b", "c"});
  const auto progress = make_plain_progress(around(paper));
  progress->begin(run);
  const auto fail = [&](TrialIndex trial) {
    progress->failure({.trial = trial, .state = TrialState::failed, .reason = "exit code 1"}, {});
  };
  for (TrialIndex trial = 0; trial < 3; ++trial) fail(trial);
  progress->begin(run);
  fail(2);
  EXPECT_EQ(paper.text(),
            "run r1: 3 trials\nfailed: a: exit code 1\nfailed: b: exit code 1\n"
            "run r1: 3 trials\nfailed: c: exit code 1\n");
}

TEST(Outcome, NamesTheCommandThatInterruptsTheRun) {
  Paper paper;
  Outcome outcome;
  outcome.interrupted = true;
  outcome.last = snapshot_of(1, 0, 0);
  outcome.last.trials = 3;
  outcome.last.interrupter = "combu kill";
  print_outcome(*make_plain_progress(around(paper)), run_of({"a", "b", "c"}), outcome,
                {.until = Until::ended});
  EXPECT_EQ(paper.text(), "interrupted by `combu kill`: 1 of 3 trials were started\n");
}

TEST(Outcome, PrintsTheFirstOfManyFailuresAndANumber) {
  Paper paper;
  std::vector<std::string> names;
  Outcome outcome;
  for (TrialIndex i = 0; i < 1000; ++i) {
    names.push_back("t" + std::to_string(i));
    outcome.unsuccessful.push_back(
        {.trial = i, .state = TrialState::failed, .reason = "exit code " + std::to_string(i)});
  }
  print_outcome(*make_quiet_progress(around(paper)), run_of(names), outcome, {.until = Until::ended});
  EXPECT_THAT(paper.text(), HasSubstr("failed: t19: exit code 19\n… and 980 more\n"));
  EXPECT_THAT(paper.text(), Not(HasSubstr("t20:")));
}

}  // namespace
}  // namespace combu
