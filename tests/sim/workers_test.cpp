// Runs over workers: under every fault, and by a process that dies at each of its operations in turn. A
// failure names its seed; COMBU_WORKER_SEEDS sets how many seeds are played (6).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>

#include "record_folder.hpp"
#include "sim/workers_simulation.hpp"

namespace combu::test {
namespace {

constexpr double k_workers_speed = 100;

std::size_t worker_seeds() {
  const char* text = std::getenv("COMBU_WORKER_SEEDS");  // NOLINT(concurrency-mt-unsafe): no thread yet
  return text == nullptr ? 6 : std::strtoull(text, nullptr, 10);
}

// An input of trials that print it twice: more than an agent sends before its client has consumed some.
class LargeInput {
 public:
  explicit LargeInput(const Folder& folder) : path_(folder.path() + "/large") {
    std::filesystem::create_directories(folder.path());
    for (int i = 0; i < 55; ++i) content_ += std::to_string(i) + std::string(10'000, '.') + '\n';
    std::ofstream(path_) << content_;
  }
  void add_to(Trial& trial) const {
    trial.inputs = {{.from = path_, .to = "/large", .in_scratch = true}};
    trial.process.cmd->back().insert(0, "cat large large; ");
  }
  [[nodiscard]] std::string output_of(const Trial& trial) const {
    return (trial.inputs.empty() ? "" : content_ + content_) + "line\n";
  }

 private:
  std::string path_;
  std::string content_;
};

// Trials of several shapes, most of them with workers; some fail, depend on others, or have a timeout. One
// prints the large input.
combu::Run random_workers_run(std::mt19937_64& random, std::size_t trials, const LargeInput& large) {
  combu::Run run{.id = RunId("storm"), .experiment = {.name = "storm", .file = "/storm"}};
  const auto below = [&random](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  for (std::size_t i = 0; i < trials; ++i) {
    Trial one = trial("t" + std::to_string(i),
                      "echo line; sleep " + std::to_string(below(4)) + (below(10) == 0 ? "; exit 3" : ""));
    const std::size_t shape = below(4);
    if (shape > 0) one.worker = combu::WorkerSettings{.on = true, .concurrency = shape};
    if (shape == 2)
      one.worker = combu::WorkerSettings{.on = true, .count = 3, .concurrency = 2, .trials_max = 7};
    if (shape == 3) one.slots.memory.count = std::int64_t{1} << 30U;
    if (shape != 2) one.slots.cpus.nano = 1'000'000'000;
    one.retries.max = static_cast<int>(below(4));
    one.retries.on.set().reset(static_cast<std::size_t>(Cause::stopped));
    one.retries.pause = Seconds(0.01);
    one.retries.factor = 1;
    if (below(10) == 0) one.timeout = Seconds(1);
    if (i > 0 && below(3) == 0)
      one.depends.push_back(
          {.trial = run.experiment.trials[below(i)].name, .condition = Condition::finished});
    run.experiment.trials.push_back(std::move(one));
  }
  // Only one, because combu waits for a second or more before it tries again to store a log.
  const auto in_worker = std::ranges::find_if(run.experiment.trials,
                                              [](const Trial& one) { return one.worker && one.worker->on; });
  if (in_worker != run.experiment.trials.end()) large.add_to(*in_worker);
  return run;
}

PlannerOptions worker_options(const combu::Run& run, Engine& engine) {
  return {.starts_in_flight_max = 6,
          .until = Until::ended,
          .capacity = capacity_of_workers(),
          .limits = engine.limits(run, capacity_of_workers())};
}

// Expects that the stored log of each trial's last attempt is the beginning of its output: the rest is lost
// with its worker. Returns the number of whole logs with the large input.
std::size_t count_large_logs(Telemetry& telemetry, const combu::Run& run,
                             const std::vector<TrialEntry>& entries, const LargeInput& large) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    std::string log;
    telemetry.read_log(entries[i].name, entries[i].attempt, std::nullopt, [&](const LogPiece& piece) {
      log += piece.text;
      return true;
    });
    const Trial& one = run.experiment.trials.at(i);
    const std::string output = large.output_of(one);
    EXPECT_TRUE(output.starts_with(log)) << one.name << " has a log of " << log.size() << " bytes";
    if (!one.inputs.empty() && log == output) ++count;
  }
  return count;
}

TEST(WorkersStorm, EveryInvariantHoldsUnderEveryFault) {
  const Folder folder("combu-workers-storm");
  Record record(folder.path());
  const LargeInput large(folder);
  std::size_t lost = 0;
  std::size_t large_logs = 0;
  const std::size_t last = worker_seeds();
  for (std::uint64_t seed = 1; seed <= last; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    combu::Run run = random_workers_run(random, 80, large);
    run.id = RunId("storm" + std::to_string(seed));
    record.begin(entry_of(run), run.experiment);
    World world({.seed = seed,
                 .faults = {.refused = 0.02,
                            .cut_before = 0.02,
                            .answer_lost = 0.02,
                            .change_dropped = 0.05,
                            .change_repeated = 0.1,
                            .change_held = 0.1,
                            .out_of_memory = 0.03,
                            .slots_taken = 0.05,
                            .crash = 0.002,
                            .live_restore = seed % 2 == 0,
                            .agent_stream_cut = 0.01,
                            .agent_garbage = 0.01,
                            .agent_killed = 0.02}});
    const auto simulated = open_simulated(world, k_workers_speed);
    {
      const auto workers = with_workers(*simulated, any_program);
      ResultChecker checked(*workers);
      const auto retried =
          with_retry(checked, {.pause = Seconds(0.01), .give_up = Seconds(20)}, real_clock());
      EXPECT_THAT(retried->prepare(run, [](const Preparation&) {}, {}), testing::IsEmpty());
      WorkersJournal journal(record, run.id, [] { return false; });
      QuietProgress progress;
      Telemetry telemetry(folder.path(), run.id);
      const Outcome outcome = drive(run, plan(run.experiment), worker_options(run, *retried),
                                    {.engine = *retried,
                                     .clock = real_clock(),
                                     .journal = journal,
                                     .progress = progress,
                                     .telemetry = &telemetry});
      EXPECT_THAT(outcome.running, testing::IsEmpty());
      const std::vector<TrialEntry> entries = record.trials(run.id);
      for (const TrialEntry& one : entries)
        EXPECT_TRUE(is_over(one.state)) << one.name << " is " << to_string(one.state);
      large_logs += count_large_logs(telemetry, run, entries, large);
      (void)retried->release({.experiment = "storm"}, {}, {});
      EXPECT_THAT(retried->list({.experiment = "storm"}, ListDetail::full, {}), testing::IsEmpty());
    }
    expect_sound_executions(world, run);
    for (const World::Execution& one : world.executions()) lost += one.is_lost ? 1 : 0;
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(lost, 0U);
  EXPECT_GT(large_logs, 0U);
}

// Some trials with workers of two shapes, and one without.
combu::Run small_workers_run(const std::string& id) {
  combu::Run run{.id = RunId(id), .experiment = {.name = "resumed", .file = "/resumed"}};
  for (int i = 0; i < 9; ++i) {
    Trial one = trial("t" + std::to_string(i),
                      "echo line; sleep " + std::to_string(i % 3) + (i == 4 ? "; exit 3" : ""));
    one.slots.cpus.nano = 1'000'000'000;
    if (i % 4 != 3)
      one.worker = combu::WorkerSettings{.on = true, .count = 2, .concurrency = i % 2 == 0 ? 2U : 1U};
    if (i > 5)
      one.depends.push_back({.trial = "t" + std::to_string(i - 5), .condition = Condition::finished});
    run.experiment.trials.push_back(std::move(one));
  }
  return run;
}

// A hundred trials that two workers run at once.
combu::Run wide_workers_run(const std::string& id) {
  combu::Run run{.id = RunId(id), .experiment = {.name = "resumed", .file = "/resumed"}};
  for (int i = 0; i < 100; ++i) {
    Trial one =
        trial("t" + std::to_string(i), "echo line; sleep 100" + std::string(i == 4 ? "; exit 3" : ""));
    one.worker = combu::WorkerSettings{.on = true, .count = 2, .concurrency = 50};
    run.experiment.trials.push_back(std::move(one));
  }
  return run;
}

// Drives a part of the run in a process that dies at an operation. Returns the number of its operations.
std::size_t drive_workers_until(Engine& engine, Record& record, const combu::Run& run, std::size_t dies_at) {
  MortalEngine mortal(engine, dies_at);
  const auto workers = with_workers(mortal, any_program);
  WorkersJournal journal(record, run.id, [&] { return mortal.is_dead(); });
  QuietProgress progress;
  try {
    PlannerOptions options = worker_options(run, *workers);
    options.restored = record.restored_trials(run.id);
    (void)workers->prepare(run, [](const Preparation&) {}, {});
    (void)drive(run, plan(run.experiment), options,
                {.engine = *workers,
                 .clock = real_clock(),
                 .journal = journal,
                 .progress = progress,
                 .stop = mortal.death()});
  } catch (const Error& error) {
    EXPECT_TRUE(mortal.is_dead()) << error.what();
  }
  return mortal.operations();
}

// Plays the run once for each of many of its operations, by a process that dies at that operation and another
// process that resumes the run. `step(n)`: the number of operations to the next death after operation n.
// Returns the largest number of attempts that were in flight at a death.
std::size_t expect_each_runs_once(combu::Run (*run_of)(const std::string& id),
                                  const std::function<std::size_t(std::size_t)>& step) {
  const Folder folder("combu-workers-resume");
  Record record(folder.path());
  std::size_t operations = SIZE_MAX;
  std::size_t in_flight_max = 0;
  for (std::size_t dies_at = 1; dies_at < operations; dies_at += step(dies_at)) {
    SCOPED_TRACE(testing::Message() << "dies at operation " << dies_at);
    const combu::Run run = run_of("dies" + std::to_string(dies_at));
    record.begin(entry_of(run), run.experiment);
    World world({.start_takes = Seconds(0.01)});
    const auto simulated = open_simulated(world, k_workers_speed);
    const std::size_t reached = drive_workers_until(*simulated, record, run, dies_at);
    if (reached < dies_at) operations = dies_at;
    const auto in_flight = static_cast<std::size_t>(
        std::ranges::count_if(world.executions(), [](const World::Execution& one) { return !one.ended_at; }));
    in_flight_max = std::max(in_flight_max, in_flight);
    (void)drive_workers_until(*simulated, record, run, SIZE_MAX);
    std::map<std::string, int> count;
    for (const World::Execution& one : world.executions()) ++count[one.id];
    for (const TrialEntry& one : record.trials(run.id)) {
      EXPECT_EQ(one.state, one.name == "t4" ? TrialState::failed : TrialState::succeeded) << one.name;
      EXPECT_EQ(one.attempt, 1) << one.name << ": " << one.reason;
      const bool is_in_worker = run.experiment.trials.at(std::stoul(one.name.substr(1))).worker->on;
      EXPECT_EQ(count[one.name + "/1"], is_in_worker ? 1 : 0) << one.name;
    }
    if (testing::Test::HasFailure()) break;
  }
  return in_flight_max;
}

TEST(WorkersResume, ARunContinuesAfterAnyOfItsOperations) {
  EXPECT_GE(expect_each_runs_once(small_workers_run, [](std::size_t n) { return 1 + n / 20; }), 1U);
}

TEST(WorkersResume, ARunWithAHundredAttemptsInFlightContinues) {
  // A slow machine may have started fewer than all when the first ones end.
  EXPECT_GE(expect_each_runs_once(wide_workers_run, [](std::size_t n) { return 1 + n / 3; }), 50U);
}

}  // namespace
}  // namespace combu::test
