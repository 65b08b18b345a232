// Tests of `ps`: the trials of a run, containers, and runs.

#include <SQLiteCpp/SQLiteCpp.h>

#include <atomic>

#include "app/status.hpp"
#include "app_fixture.hpp"

namespace combu::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

// An engine that can be unreachable. Counts the calls for usage, which can fail.
class FaultyEngine final : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token token) override {
    if (is_away) throw Error(ErrorKind::unavailable, "engine", "connection refused");
    return PassingEngine::list(selector, detail, std::move(token));
  }
  std::optional<Usage> usage(const std::string& id, std::stop_token token) override {
    ++usages;
    if (has_no_usage) throw Error(ErrorKind::refused, id, "no usage");
    return PassingEngine::usage(id, std::move(token));
  }
  bool is_away = false;
  bool has_no_usage = false;
  std::atomic<int> usages = 0;  // usage() is called in parallel
};

class StatusTest : public AppTest {
 protected:
  StatusTest() {
    engine = &faulty;
    query.address = address;
  }

  Result show(const Invocation& of) {
    rows.clear();
    lines.clear();
    printed.clear();
    const auto line_of = [](const Observation& seen) {
      return seen.key.run.text() + " " + seen.key.trial + " " + std::string(to_string(seen.phase));
    };
    const StatusListener listener{
        .trials =
            [&](const RunRow& run, std::span<const TrialRow> trials,
                std::span<const Observation> unrecorded) {
              lines.push_back(run.entry.id.text() + " " + run.state);
              for (const TrialRow& row : trials) {
                rows.push_back(row);
                lines.push_back(row.entry.name + " " + std::string(to_string(row.entry.state)));
              }
              for (const Observation& seen : unrecorded) lines.push_back("unrecorded " + line_of(seen));
            },
        .containers =
            [&](std::span<const Observation> containers) {
              for (const Observation& seen : containers) lines.push_back("container " + line_of(seen));
            },
        .runs =
            [&](std::span<const RunRow> runs) {
              for (const RunRow& run : runs)
                lines.push_back(run.entry.id.text() + " " + run.state + ": " + counts_text(run.counts));
            }};
    return result_of(
        [&](const OpenSession& open_session) { return status(of, shown, open_session, query, listener); });
  }
  Result show() { return show(invocation); }
  Result show_runs() {
    Invocation none = invocation;
    none.file.clear();
    return show(none);
  }

  // Starts a container of a run that is not on record.
  void start_unrecorded(const std::string& run, const std::string& trial) {
    combu::Run of{.id = RunId(run), .experiment = {.name = "lab", .file = invocation.file}};
    Trial it;
    it.name = trial;
    it.image = "lab/x";
    it.process.cmd = {"sleep", "1000"};
    (void)simulated->start(of, it, 1, {});
  }

  FaultyEngine faulty{kept_engine};
  StatusQuery query;
  std::vector<TrialRow> rows;
  std::vector<std::string> lines;
};

TEST_F(StatusTest, AnEndWithoutAnOwnerIsRecorded) {
  EXPECT_EQ(
      start(file_text(trial_text("done", "sleep 100") + trial_text("runs", "sleep 100000")), new_run("r1")),
      Result::succeeded);
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 left running", "done running", "runs running"));
  EXPECT_EQ(faulty.usages, 2);
  EXPECT_TRUE(rows.at(0).usage);
  pass_an_hour();
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 left running", "done succeeded", "runs running"));
  EXPECT_EQ(states("r1").at("done"), "succeeded");
}

TEST_F(StatusTest, AnAttemptThatIsPendingOnTheEngineNeedsNoOwner) {
  World placing({.start_takes = Seconds(0), .places = true});
  const std::unique_ptr<Engine> placing_engine = open_simulated(placing, 1);
  KeptEngine kept(*placing_engine);
  engine = &kept;
  EXPECT_EQ(start(file_text(trial_text("large", "true", "cpus: 100000")), new_run("r1")), Result::succeeded);
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 left running", "large starting"));
  EXPECT_EQ(rows.at(0).entry.reason, "no host has enough free CPUs and memory");
  EXPECT_EQ(show_runs(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 left running: 1 starting"));
}

TEST_F(StatusTest, ARunningTrialOfAnEndedRunIsReconciled) {
  EXPECT_EQ(start(file_text(trial_text("helper", "sleep 100") +
                            trial_text("main", "true", "depends: [{trial: 'helper', condition: 'started'}]")),
                  waiting_run("r1")),
            Result::succeeded);
  EXPECT_TRUE(entry("r1").ended_at);
  EXPECT_EQ(states("r1").at("helper"), "running");
  pass_an_hour();
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 ended", "helper succeeded", "main succeeded"));
  EXPECT_EQ(states("r1").at("helper"), "succeeded");
}

TEST_F(StatusTest, WithoutTheEngineTheRecordIsShown) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 100")), new_run("r1")), Result::succeeded);
  pass_an_hour();
  faulty.is_away = true;
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 left running", "one running"));
  EXPECT_THAT(printed.of("note"),
              ElementsAre("only the record is shown, because the engine could not be asked: "
                          "engine: connection refused"));
  EXPECT_EQ(show_runs(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 left running: 1 running"));
}

TEST_F(StatusTest, ADefaultEngineWithoutRunsNeedNotAnswer) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 100")), new_run("r1")), Result::succeeded);
  address = "unix:///run/other.sock";
  faulty.is_away = true;
  EXPECT_EQ(show_runs(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 left running: 1 running"));
  EXPECT_THAT(printed.of("note"), IsEmpty());
}

TEST_F(StatusTest, AnInterruptShowsNothing) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  faulty.is_away = true;
  stop.request_stop();
  EXPECT_NE(show(), Result::succeeded);
  EXPECT_THAT(lines, IsEmpty());
}

TEST_F(StatusTest, FactsThatCannotBeRecordedAreShown) {
  EXPECT_EQ(
      start(file_text(trial_text("bad", "sh -c 'sleep 100; exit 3'") + trial_text("runs", "sleep 9999")),
            new_run("r1")),
      Result::succeeded);
  pass_an_hour();
  remove_container("r1", "runs");
  SQLite::Database(state() + "/record.sqlite", SQLite::OPEN_READWRITE)
      .exec("CREATE TRIGGER no BEFORE UPDATE ON trials BEGIN SELECT RAISE(ABORT, 'no'); END");
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains(HasSubstr("the record does not show yet which trials have ended: ")));
  EXPECT_THAT(lines, Contains("bad failed"));
  EXPECT_EQ(rows.at(0).entry.exit_code, 3);
  EXPECT_EQ(rows.at(1).entry.reason, "its container no longer exists, and its end was not recorded");
  EXPECT_EQ(states("r1").at("bad"), "running");
}

TEST_F(StatusTest, NamesAndConditionsChooseTrials) {
  EXPECT_EQ(start(file_text(trial_text("a1", "true", "params: {lr: 1}") +
                            trial_text("a2", "exit 2", "params: {lr: 2}") + trial_text("b1")),
                  waiting_run("r1")),
            Result::failed);
  query.selection.trials = {"a*"};
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 ended", "a1 succeeded", "a2 failed"));
  query.selection.trials = {"b1"};
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 ", "b1 succeeded")) << "the other trials are not counted";
  query.selection.trials.clear();
  for (const char* where : {"lr>1", "params.lr=2", "state=failed", "exit_code=2", "experiment=lab && lr=2"}) {
    query.where = where;
    EXPECT_EQ(show(), Result::succeeded);
    EXPECT_THAT(lines, ElementsAre("r1 ended", "a2 failed")) << where;
  }
  query.where = "run=r1 && nothing=1";
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 ended"));
  EXPECT_THAT(printed.of("note"), ElementsAre(HasSubstr("nothing")));
}

TEST_F(StatusTest, ANameThatMatchesNothingIsAnError) {
  EXPECT_EQ(start(file_text(trial_text("one") + trial_text("two")), waiting_run("r1")), Result::succeeded);
  query.selection.trials = {"three"};
  EXPECT_EQ(show(), Result::failed);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("three")));
  EXPECT_THAT(lines, IsEmpty());
  query.selection.trials = {"one", "x*"};
  EXPECT_EQ(show(), Result::failed);
  EXPECT_THAT(lines, ElementsAre("r1 ended", "one succeeded")) << "the others are shown first";
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("x*")));
}

TEST_F(StatusTest, EqualFailuresAreOneRow) {
  EXPECT_EQ(start(file_text(trial_text("a1", "exit 3") + trial_text("b1") + trial_text("c1", "exit 3") +
                            trial_text("d1", "exit 4")),
                  waiting_run("r1")),
            Result::failed);
  query.join_failures = true;
  EXPECT_EQ(show(), Result::succeeded);
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_THAT(rows[0].entry.name, AllOf(HasSubstr("a1"), HasSubstr("c1")));
  EXPECT_EQ(rows[0].entry.attempt, 0);
  EXPECT_EQ(rows[0].entry.reason, "exit code 3");
  EXPECT_EQ(rows[1].entry.name, "b1");
  EXPECT_EQ(rows[2].entry.reason, "exit code 4");
  query.selection.trials = {"*"};
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(rows, SizeIs(4)) << "a pattern asks for each trial";
}

TEST_F(StatusTest, UsageIsReadOnlyForShownTrials) {
  EXPECT_EQ(
      start(file_text(trial_text("one", "sleep 1000") + trial_text("two", "sleep 1000")), new_run("r1")),
      Result::succeeded);
  query.trials_max = 1;
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, SizeIs(3));
  EXPECT_EQ(faulty.usages, 1);
  faulty.has_no_usage = true;
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_FALSE(rows.at(0).usage);
}

TEST_F(StatusTest, UsageIsReadUpToALimit) {
  std::string trials;
  for (int i = 0; i < 201; ++i) trials += trial_text("t" + std::to_string(i), "sleep 1000");
  EXPECT_EQ(start(file_text(trials), new_run("r1")), Result::succeeded);
  faulty.has_no_usage = true;
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_EQ(faulty.usages, 200);
  EXPECT_THAT(printed.of("note"), ElementsAre(HasSubstr("shown for 200 of 201 running trials")));
}

TEST_F(StatusTest, ContainersThatAreNotOnRecordAreShown) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  start_unrecorded("r9", "lost");
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 ended", "one succeeded", "unrecorded r9 lost running"));
  query.where = "state=running";
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 ended", "unrecorded r9 lost running"));
  query.selection.run = "r9";
  query.where = "trial=lost && run=r9 && experiment=lab && image=lab/x && attempt=1";
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("container r9 lost running"));
  query.where.clear();
  query.selection.trials = {"other"};
  EXPECT_EQ(show(), Result::failed);
}

TEST_F(StatusTest, AnUnknownRunIsAnError) {
  query.selection.run = "r9";
  EXPECT_EQ(show(), Result::failed);
  EXPECT_THAT(printed.of("error"),
              ElementsAre(HasSubstr(
                  "run r9: no matching run is on record, and no matching container is on this engine")));
  query.selection = {.experiment = "other"};
  EXPECT_EQ(show(), Result::failed);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("other: no matching run is on record")));
  query.selection = {};
  EXPECT_EQ(show(), Result::succeeded) << "the file may have no run yet";
  EXPECT_THAT(printed.of("note"), ElementsAre(HasSubstr("no matching run is on record")));
}

TEST_F(StatusTest, ADamagedRecordIsAnErrorAndTheEngineAnswers) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 1000")), new_run("r1")), Result::succeeded);
  write_file("state/record.sqlite", "this is no database, and long enough to be read as one");
  EXPECT_EQ(show(), Result::invalid);
  EXPECT_THAT(lines, ElementsAre("container r1 one running"));
  EXPECT_THAT(printed.of("error"), SizeIs(1));
  EXPECT_EQ(show_runs(), Result::invalid);
  EXPECT_THAT(lines, ElementsAre("r1 not on record: 1 running"));
}

TEST_F(StatusTest, TrialsWithoutARunAreRefused) {
  query.selection.trials = {"one"};
  EXPECT_THAT(error_in([&] { (void)show_runs(); }).what(), HasSubstr("a run must be given with the names"));
}

TEST_F(StatusTest, ANoteSaysThatOnlySimulatedRunsExist) {
  engine = simulated.get();
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  engine = &faulty;
  query.address.clear();
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains(HasSubstr("the record has only runs on the simulated engine")));
}

TEST_F(StatusTest, RunsAreListedWithTheNewestFirst) {
  const std::string text = file_text(trial_text("one", "sleep 100") + trial_text("two"));
  EXPECT_EQ(start(text, new_run("r1")), Result::succeeded);
  pass_an_hour();
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r2")), Result::succeeded);
  start_unrecorded("r9", "lost");
  EXPECT_EQ(show_runs(), Result::succeeded);
  EXPECT_THAT(lines,
              ElementsAre("r2 ended: 1 succeeded", "r1 ended: 2 succeeded", "r9 not on record: 1 running"));
  EXPECT_TRUE(entry("r1").ended_at) << "the end is on record";
  for (const char* where : {"run=r9", "state='not on record'", "running=1"}) {
    query.where = where;
    EXPECT_EQ(show_runs(), Result::succeeded) << where;
    EXPECT_THAT(lines, ElementsAre("r9 not on record: 1 running")) << where;
  }
  query.where = "experiment=lab && engine=" + address + " && state=ended";
  EXPECT_EQ(show_runs(), Result::succeeded);
  EXPECT_THAT(lines, SizeIs(2));
  query.where = "lr=1";
  EXPECT_EQ(show_runs(), Result::invalid);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("`lr` is not a field of runs")));
}

TEST_F(StatusTest, ALimitLeavesOutOlderRuns) {
  for (const char* run : {"r1", "r2", "r3"})
    EXPECT_EQ(start(file_text(trial_text("one")), waiting_run(run)), Result::succeeded);
  query.runs_max = 1;
  EXPECT_EQ(show_runs(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r3 ended: 1 succeeded"));
  EXPECT_THAT(printed.of("note"), ElementsAre("2 older runs: --limit 0 shows all"));
  query.where = "trials=1";
  EXPECT_EQ(show_runs(), Result::succeeded);
  EXPECT_THAT(lines, SizeIs(1));
  query = {};
  query.all_runs = true;
  EXPECT_EQ(show_runs(), Result::succeeded);
  EXPECT_THAT(lines, SizeIs(3));
  EXPECT_THAT(printed.of("note"), IsEmpty());
}

TEST_F(StatusTest, ARunWithAnOwnerIsShownFromTheRecord) {
  EXPECT_EQ(start(file_text(trial_text("one", "sleep 100")), new_run("r1")), Result::succeeded);
  pass_an_hour();
  const combu::Run run{.id = RunId("r1"), .experiment = {.name = "lab"}};
  const RunLock lock(LockScope::run, run, address, caller(), std::stop_token());
  EXPECT_EQ(show(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 running", "one running"));
  EXPECT_EQ(show_runs(), Result::succeeded);
  EXPECT_THAT(lines, ElementsAre("r1 running: 1 running"));
}

}  // namespace
}  // namespace combu::test
