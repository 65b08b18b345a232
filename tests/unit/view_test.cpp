#include "combu/view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "combu/text.hpp"

namespace combu {
namespace {

using testing::HasSubstr;
using testing::Not;

Experiment experiment_of(std::size_t solvers) {
  Experiment experiment{.name = "lab", .file = "/lab/experiment.jsonnet", .trials = {}};
  const auto add = [&](const std::string& name, const std::string& image) {
    Trial trial;
    trial.name = name;
    trial.image = image;
    trial.container.networks = {"simulation", "host"};
    experiment.trials.push_back(trial);
  };
  for (std::size_t i = 1; i <= solvers; ++i) add("solver-" + std::to_string(i), "lab/solver");
  add("loader", "lab/loader");
  return experiment;
}

// Every solver depends on the loader, which is the last trial.
Plan plan_of(const Experiment& experiment) {
  Plan plan;
  plan.nodes.resize(experiment.trials.size());
  const auto loader = static_cast<TrialIndex>(experiment.trials.size() - 1);
  for (TrialIndex i = 0; i < loader; ++i) {
    plan.nodes[i].needs = {{loader, Condition::healthy}};
    plan.nodes[i].wave = 1;
    plan.nodes[loader].needed_by.push_back({i, Condition::healthy});
  }
  plan.wave_count = 2;
  return plan;
}

TEST(PrintFindings, WritesALineForEach) {
  const std::vector<Finding> findings{
      {.subject = "engine", .text = "Lab 1"},
      {.kind = Finding::Kind::warning, .subject = "disk", .text = "one\ntwo", .remedy = "remove"},
      {.kind = Finding::Kind::fault, .subject = "rights", .text = "none", .remedy = "run:\na\nb"}};
  std::ostringstream out;
  print_findings(out, findings);
  EXPECT_EQ(out.str(),
            "ok      engine: Lab 1\n"
            "warning disk: one two; remove\n"
            "fault   rights: none; run:\na\nb\n");
}

TEST(PrintFindings, WritesAJsonObjectForEach) {
  const std::vector<Finding> findings{
      {.subject = "engine", .text = "Lab \"1\""},
      {.kind = Finding::Kind::fault, .subject = "rights", .text = "none", .remedy = "run:\na"}};
  std::ostringstream out;
  print_findings_json(out, findings);
  EXPECT_EQ(out.str(), R"({"kind":"ok","subject":"engine","text":"Lab \"1\"","remedy":""})"
                       "\n"
                       R"({"kind":"fault","subject":"rights","text":"none","remedy":"run:\na"})"
                       "\n");
}

TEST(PrintPlan, ShowsCountsAndWaves) {
  const Experiment experiment = experiment_of(100);
  std::ostringstream out;
  print_plan(out, experiment, plan_of(experiment));
  EXPECT_EQ(out.str(),
            "101 trials in 2 waves, 100 dependencies, 2 images, 1 network\n"
            "wave 1: 1 trial     loader\n"
            "wave 2: 100 trials  solver-[1-100]\n");
}

TEST(PrintPlan, ShowsHowManyWorkersThereAre) {
  Experiment experiment = experiment_of(100);
  const auto second_line = [&] {
    std::ostringstream out;
    print_plan(out, experiment, plan_of(experiment));
    std::istringstream lines(out.str());
    std::string line;
    std::getline(lines, line);
    std::getline(lines, line);
    return line;
  };
  for (Trial& trial : experiment.trials)
    if (trial.name != "loader") trial.worker = WorkerSettings{.on = true, .count = 3, .concurrency = 2};
  EXPECT_EQ(second_line(),
            "100 trials in workers: at most 3 workers at once; 1 trial in containers of their own");
  for (Trial& trial : experiment.trials)
    if (trial.worker) trial.worker = WorkerSettings{.on = true};
  EXPECT_EQ(second_line(),
            "100 trials in workers: as many workers at once as the host has CPUs or slots for; 1 trial in "
            "containers of their own");
}

TEST(PrintPlan, ShortensALongWave) {
  Experiment experiment = experiment_of(0);
  for (int i = 0; i < 1000; ++i) {
    Trial trial;
    trial.name = "name-" + std::string(1, static_cast<char>('a' + i % 26)) + std::to_string(i * 2);
    experiment.trials.push_back(trial);
  }
  Plan plan;
  plan.nodes.resize(experiment.trials.size());
  plan.wave_count = 1;
  std::ostringstream out;
  print_plan(out, experiment, plan);
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
  EXPECT_THAT(out.str(), HasSubstr(" more\n"));
}

TEST(PrintPlanJson, HasTheWholePlan) {
  const Experiment experiment = experiment_of(2);
  std::ostringstream out;
  print_plan_json(out, experiment, plan_of(experiment));
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json, nlohmann::json::parse(R"({
    "experiment": "lab", "file": "/lab/experiment.jsonnet", "trials": 3, "edges": 2,
    "images": [{"image": "lab/solver", "trials": 2}, {"image": "lab/loader", "trials": 1}],
    "networks": ["simulation"],
    "containers": {"own": 3, "in_workers": 0, "workers_max": 0},
    "waves": [["loader"], ["solver-1", "solver-2"]],
    "needs": {"solver-1": [{"trial": "loader", "condition": "healthy"}],
              "solver-2": [{"trial": "loader", "condition": "healthy"}]}})"));
}

Observation observation_of(const std::string& trial, Phase phase) {
  Observation observation;
  observation.key = {.run = RunId("r1"), .trial = trial, .attempt = 1};
  observation.experiment = "lab";
  observation.image = "solver";
  observation.phase = phase;
  return observation;
}

TEST(PrintObservations, PrintsAnAlignedTableSortedByName) {
  Observation failed = observation_of("solver-10", Phase::ended);
  failed.exit_code = 3;
  Observation healthy = observation_of("solver-2", Phase::running);
  healthy.health = Health::healthy;
  Observation odd = observation_of("loader", Phase::created);
  odd.experiment = "a\x1b[2Jb";
  const std::vector<Observation> observations{failed, healthy, odd};
  std::ostringstream out;
  print_observations(out, observations);
  EXPECT_EQ(out.str(),
            "EXPERIMENT  RUN  TRIAL      STATE              IMAGE\n"
            "ab          r1   loader     created            solver\n"
            "lab         r1   solver-2   running (healthy)  solver\n"
            "lab         r1   solver-10  ended (3)          solver\n");
}

TEST(PrintObservationsJson, PrintsOneObjectALine) {
  Observation ended = observation_of("a", Phase::ended);
  ended.exit_code = 0;
  ended.id = "0123";
  ended.created_at = Instant(std::chrono::milliseconds(1'769'860'800'250));
  std::ostringstream out;
  print_observations_json(out, std::vector<Observation>{ended, observation_of("b\xff", Phase::running)});
  EXPECT_THAT(out.str(),
              HasSubstr(R"({"experiment":"lab","run":"r1","trial":"a","attempt":1,"state":"ended",)"
                        R"("health":null,"exit_code":0,"image":"solver","id":"0123",)"
                        R"("created_at":"2026-01-31T12:00:00.250Z"})"
                        "\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("\xff")));
}

RunRow run_row() {
  RunRow row{.entry = {}, .state = "left running", .counts = {}};
  row.entry.id = RunId("r1");
  row.entry.experiment = "lab";
  row.entry.engine.address = "unix:///e.sock";
  row.entry.began_at = Instant(std::chrono::seconds(1'769'860'800));
  row.counts[static_cast<std::size_t>(TrialState::running)] = 1;
  row.counts[static_cast<std::size_t>(TrialState::failed)] = 1;
  return row;
}

std::vector<TrialRow> trial_rows(Instant began) {
  TrialRow running{.entry = {.name = "solver-1", .image = "solver", .state = TrialState::running},
                   .health = Health::healthy,
                   .created_at = {}};
  running.entry.ran_at = began;
  running.usage = Usage{.memory = Bytes{312 << 20}, .cpu = Seconds(18)};
  TrialRow failed{.entry = {.name = "b\x1b", .image = "solver", .state = TrialState::failed, .attempt = 2},
                  .health = Health::none,
                  .created_at = began};
  failed.entry.params = R"({"lr":0.1})";
  failed.entry.digest = "sha256:01";
  failed.entry.gpus = "0,1";
  failed.entry.usage = Usage{.memory = Bytes{1 << 20}, .cpu = Seconds(1.5)};
  failed.entry.collection = CollectionResult{.files = 2, .size = Bytes{30}, .left = {"out/pipe"}};
  failed.entry.container = "c1";
  failed.entry.ran_at = began;
  failed.entry.ended_at = began + std::chrono::seconds(3);
  failed.entry.exit_code = 137;
  failed.entry.cause = Cause::oom;
  failed.entry.reason = "out of memory (exit code 137, SIGKILL)";
  return {running, failed};
}

TEST(PrintTrials, AlignsColumnsBelowTheRun) {
  const RunRow run = run_row();
  std::ostringstream out;
  print_trials(out, run, trial_rows(run.entry.began_at), run.entry.began_at + std::chrono::seconds(12));
  EXPECT_EQ(out.str(),
            "run r1 of lab, left running: 1 running, 1 failed\n"
            "TRIAL     STATE              ATTEMPT  RAN     MEMORY   CPU        REASON\n"
            "solver-1  running (healthy)  1        12.0 s  312 MiB  1.5 cores\n"
            "b         failed             2        3.0 s   1 MiB    1.5 s      out of memory (exit code 137, "
            "SIGKILL)\n");
}

std::string trials_table(const std::vector<TrialRow>& rows, const TableForm& form) {
  const RunRow run = run_row();
  std::ostringstream out;
  print_trials(out, run, rows, run.entry.began_at + std::chrono::seconds(12), form);
  return out.str();
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, columns_of(line));
  return widest;
}

TEST(PrintTrials, ShowsNoUsageColumnsIfUsageIsUnknown) {
  std::vector<TrialRow> rows = trial_rows(run_row().entry.began_at);
  rows[0].usage.reset();
  EXPECT_THAT(trials_table(rows, {}), HasSubstr("12.0 s  -      "));
  rows[1].entry.usage.reset();
  EXPECT_THAT(trials_table(rows, {}), HasSubstr("TRIAL     STATE              ATTEMPT  RAN     REASON\n"));
  EXPECT_THAT(trials_table(rows, {}), HasSubstr("solver-1  running (healthy)  1        12.0 s\n"));
  rows[0].usage = Usage{.memory = Bytes{}, .cpu = Seconds(0.36)};
  EXPECT_THAT(trials_table(rows, {}), HasSubstr("12.0 s  0 B     0.03 cores\n"));
}

TEST(PrintTrials, ShortensNamesAndReasonsToFitTheTerminal) {
  std::vector<TrialRow> rows = trial_rows(run_row().entry.began_at);
  rows[0].entry.name = std::string(40, 'n');
  EXPECT_EQ(trials_table(rows, {.columns = 80}),
            "run r1 of lab, left running: 1 running, 1 failed\n"
            "TRIAL        STATE              ATTEMPT  RAN     MEMORY   CPU        REASON\n"
            "nnnnnnnnnn…  running (healthy)  1        12.0 s  312 MiB  1.5 cores\n"
            "b            failed             2        3.0 s   1 MiB    1.5 s      out of mem…\n");
  rows[1].entry.reason = "実験実験実験実験実験実験実験実験実験";
  EXPECT_LE(widest_line(trials_table(rows, {.columns = 80})), 80U);
  EXPECT_LE(widest_line(trials_table(rows, {.columns = 20})), 20U)
      << "where even the other columns do not fit";
  EXPECT_THAT(trials_table(rows, {}), HasSubstr(std::string(40, 'n') + "  running"));
}

TEST(PrintTrials, ShortensTheExperimentsNameAboveTheTable) {
  RunRow run = run_row();
  run.entry.experiment = "/home/me/" + std::string(60, 'x') + "/experiment.jsonnet";
  std::ostringstream out;
  print_trials(out, run, trial_rows(run.entry.began_at), run.entry.began_at, {.columns = 70});
  const std::string title = out.str().substr(0, out.str().find('\n'));
  EXPECT_EQ(columns_of(title), 70U);
  EXPECT_THAT(title, testing::EndsWith("…, left running: 1 running, 1 failed"));
}

TEST(PrintTrials, CountsTheRowsThatItLeavesOut) {
  std::vector<TrialRow> rows(5000, trial_rows(run_row().entry.began_at)[0]);
  const std::string text = trials_table(rows, {.rows = 100});
  EXPECT_EQ(std::ranges::count(text, '\n'), 2 + 100 + 1);
  EXPECT_THAT(text, testing::EndsWith("\n… and 4,900 more; --limit 0 shows all\n"));
  EXPECT_EQ(std::ranges::count(trials_table(rows, {}), '\n'), 2 + 5000);
}

TEST(PrintObservations, CountsTheRowsThatItLeavesOut) {
  const std::vector<Observation> observations{observation_of("solver-10", Phase::running),
                                              observation_of("solver-2", Phase::running)};
  std::ostringstream out;
  print_observations(out, observations, {.rows = 1});
  EXPECT_THAT(out.str(), HasSubstr("solver-2 "));
  EXPECT_THAT(out.str(), testing::EndsWith("\n… and 1 more; --limit 0 shows all\n"));
  std::ostringstream json;
  print_observations_json(json, observations, {.rows = 1});
  EXPECT_EQ(std::ranges::count(json.str(), '\n'), 1);
}

TEST(PrintRuns, DoesNotShortenIdsTimesAndStatesOnATerminal) {
  RunRow row = run_row();
  row.entry.experiment = "/home/me/lab/experiment.jsonnet";
  std::ostringstream out;
  print_runs(out, std::vector{row}, 90);
  EXPECT_LE(widest_line(out.str()), 90U);
  EXPECT_THAT(out.str(), HasSubstr(local_time(row.entry.began_at)));
  EXPECT_THAT(out.str(), HasSubstr("left running"));
  EXPECT_THAT(out.str(), HasSubstr("…"));
}

TEST(MoreText, GroupsDigits) {
  EXPECT_EQ(more_text(999), "… and 999 more; --limit 0 shows all");
  EXPECT_EQ(more_text(1234567), "… and 1,234,567 more; --limit 0 shows all");
}

TEST(EventLine, IsCutToTheWidthOfTheTerminal) {
  const EventEntry event{.at = run_row().entry.began_at,
                         .trial = "a",
                         .attempt = 1,
                         .state = "ended",
                         .reason = std::string(90, 'r')};
  EXPECT_EQ(columns_of(event_line(event, 60)), 60U);
  EXPECT_THAT(event_line(event, 60), testing::EndsWith("rrr…"));
  EXPECT_THAT(event_line(event), testing::EndsWith(std::string(90, 'r')));
}

TEST(PrintTrialsJson, PrintsOneObjectALine) {
  const RunRow run = run_row();
  std::ostringstream out;
  print_trials_json(out, run, trial_rows(run.entry.began_at), run.entry.began_at + std::chrono::seconds(12));
  std::istringstream lines(out.str());
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0]["health"], "healthy");
  EXPECT_EQ(objects[0]["seconds"], 12);
  EXPECT_TRUE(objects[0]["exit_code"].is_null());
  EXPECT_TRUE(objects[0]["params"].is_null());
  EXPECT_TRUE(objects[0]["gpus"].is_null());
  EXPECT_EQ(objects[0]["memory"], 312 << 20);
  EXPECT_EQ(objects[0]["cpu_seconds"], 18);
  EXPECT_TRUE(objects[0]["memory_peak"].is_null());
  EXPECT_EQ(objects[1],
            nlohmann::json::parse(R"json({"experiment":"lab","run":"r1","trial":"b\u001b","attempt":2,
              "state":"failed","health":null,"exit_code":137,"cause":"oom",
              "reason":"out of memory (exit code 137, SIGKILL)","image":"solver",
              "digest":"sha256:01","params":{"lr":0.1},"id":"c1",
              "created_at":"2026-01-31T12:00:00.000Z",
              "ran_at":"2026-01-31T12:00:00.000Z",
              "ended_at":"2026-01-31T12:00:03.000Z","seconds":3.0,
              "gpus":["0","1"],"memory":null,"memory_peak":1048576,"cpu_seconds":1.5,"version":1,
              "outputs":{"files":2,"bytes":30,"left":["out/pipe"]},"simulated":false})json"));
}

TEST(PrintRunsJson, PrintsOneObjectALine) {
  std::ostringstream out;
  print_runs_json(out, std::vector<RunRow>{run_row()});
  EXPECT_EQ(out.str(), R"({"run":"r1","experiment":"lab","file":"","state":"left running",)"
                       R"("began_at":"2026-01-31T12:00:00.000Z","ended_at":null,"trials":2,)"
                       R"("counts":{"running":1,"failed":1},"engine":"unix:///e.sock","simulated":false})"
                       "\n");
}

}  // namespace
}  // namespace combu
