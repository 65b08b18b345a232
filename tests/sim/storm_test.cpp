// Random runs under every fault. A failure names its seed. COMBU_SEEDS sets how many seeds are played (50),
// COMBU_SEED plays one seed alone, and COMBU_STORM_TRIALS sets the trials of each run (200).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <utility>

#include "combu/record.hpp"
#include "experiments.hpp"
#include "record_folder.hpp"
#include "simulation.hpp"

namespace combu::test {
namespace {

std::uint64_t setting(const char* name, std::uint64_t usual) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread has been started
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

// The first and the last one.
std::pair<std::uint64_t, std::uint64_t> seeds() {
  const std::uint64_t only = setting("COMBU_SEED", 0);
  return only > 0 ? std::pair(only, only) : std::pair(std::uint64_t{1}, setting("COMBU_SEEDS", 50));
}

std::size_t trials() {
  return setting("COMBU_STORM_TRIALS", 200);
}

// A random graph: each trial depends on up to three earlier ones; some are services, some fail, and some have
// health checks.
Run random_run(std::mt19937_64& random) {
  combu::Run run{.id = RunId("storm"), .experiment = {.name = "storm", .file = "/storm"}};
  const auto below = [&random](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  for (std::size_t i = 0; i < trials(); ++i) {
    const bool service = below(20) == 0;
    const std::string seconds = std::to_string(below(20));
    const bool leaves = below(4) == 0;
    const std::string writes = leaves && below(8) != 0 ? "echo x > /out/a; " : "";
    Trial one =
        trial((service ? "!t" : "t") + std::to_string(i),
              writes + "sleep " + (service ? "1000000" : seconds) + (below(10) == 0 ? "; exit 3" : ""));
    if (leaves) one.outputs = {Output{.path = "/out"}};
    if (service || below(8) == 0)
      one.healthcheck = Healthcheck{.test = {"CMD", below(6) == 0 ? "false" : "true"}};
    if (!service && below(3) == 0)
      one.slots.cpus.nano = static_cast<std::int64_t>(1 + below(4)) * 1'000'000'000;
    if (!service && below(4) == 0) one.slots.memory.count = static_cast<std::int64_t>(1 + below(8)) << 30U;
    if (!service && below(6) == 0) one.gpus = GpuRequest{.count = 1 + below(2)};
    one.priority = static_cast<int>(below(3));
    if (below(2) == 0) {
      one.retries.max = static_cast<int>(below(4));
      one.retries.on.set().reset(static_cast<std::size_t>(Cause::stopped));
      if (one.slots.memory.count > 0) one.retries.grow_memory = 1.5;
    }
    if (!service && below(10) == 0) one.timeout = Seconds(static_cast<double>(1 + below(20)));
    if (below(10) == 0) one.start_deadline = Seconds(0.2);
    if (below(10) == 0) one.container.networks = {"net" + std::to_string(below(3))};
    for (std::size_t need = i > 0 ? below(4) : 0; need > 0; --need) {
      const Trial& earlier = run.experiment.trials[below(i)];
      Condition condition = earlier.healthcheck && below(2) == 0 ? Condition::healthy : Condition::started;
      if (!earlier.service && below(3) == 0)
        condition = below(2) == 0 ? Condition::succeeded : Condition::finished;
      one.depends.push_back({.trial = earlier.name, .condition = condition});
    }
    run.experiment.trials.push_back(std::move(one));
  }
  return run;
}

Faults every_fault(bool live_restore) {
  return {.refused = 0.02,
          .cut_before = 0.05,
          .answer_lost = 0.05,
          .change_dropped = 0.05,
          .change_repeated = 0.1,
          .change_held = 0.1,
          .out_of_memory = 0.03,
          .slots_taken = 0.1,
          .crash = 0.01,
          .live_restore = live_restore};
}

constexpr std::size_t k_gpus = 3;

PlannerOptions with_slots(PlannerOptions options) {
  options.gpus = World({.gpus = k_gpus}).gpus();
  options.capacity = Slots{Cpus{4'000'000'000}, Bytes{std::int64_t{8} << 30}};
  for (const Gpu& gpu : options.gpus) options.capacity->gpus.push_back(gpu.id);
  return options;
}

// True if other trials only need this trial to run: then the run does not wait for its end.
bool serves_only(const Run& run, const std::string& name) {
  bool serves = false;
  for (const Trial& trial : run.experiment.trials) {
    for (const Depend& depend : trial.depends) {
      if (depend.trial != name) continue;
      if (depend.condition == Condition::succeeded || depend.condition == Condition::finished) return false;
      serves = true;
    }
  }
  return serves;
}

// Expects that the planner and the engine agree on every trial.
void expect_record_equals_engine(Simulation& simulation, const Run& run) {
  std::map<std::string, Observation> engine;
  for (const Observation& observation : simulation.truth({.experiment = "storm"})) {
    EXPECT_TRUE(engine.emplace(observation.key.trial, observation).second)
        << observation.key.trial << " lives twice";
  }
  for (TrialIndex trial = 0; trial < run.experiment.trials.size(); ++trial) {
    const std::string& name = run.experiment.trials[trial].name;
    const auto found = engine.find(name);
    switch (simulation.planner().state(trial)) {
      case TrialState::succeeded:
        ASSERT_TRUE(found != engine.end()) << name;
        EXPECT_EQ(found->second.exit_code, 0) << name;
        EXPECT_EQ(found->second.key.attempt, simulation.last_facts().at(trial).attempt) << name;
        break;
      case TrialState::blocked:
        // If a retry was planned, the container of the last attempt exists.
        if (simulation.last_facts().at(trial).attempt == 1) {
          EXPECT_TRUE(found == engine.end()) << name << " is blocked, and exists";
        } else if (found != engine.end()) {
          EXPECT_EQ(found->second.phase, Phase::ended) << name;
        }
        break;
      case TrialState::failed:
      case TrialState::stopped:
        if (found != engine.end()) {
          EXPECT_EQ(found->second.phase, Phase::ended) << name;
        }
        break;
      case TrialState::running:
        EXPECT_TRUE(serves_only(run, name)) << name << " still runs";
        break;
      default:
        ADD_FAILURE() << name << " is " << to_string(simulation.planner().state(trial));
        break;
    }
  }
}

// The process dies each time that a random number of facts is recorded.
void die_now_and_then(Simulation& simulation, Record& record, const RunId& run, std::mt19937_64& random) {
  std::size_t left = 1 + random() % 400;
  simulation.set_keep([&record, &random, run, left](const std::vector<Fact>& facts) mutable {
    const std::size_t kept = std::min(left, facts.size());
    record.append(run, {facts.data(), kept});
    left -= kept;
    if (kept < facts.size()) left = 1 + random() % 400;
    return kept;
  });
}

TEST(Storm, EveryInvariantHoldsUnderEveryFault) {
  const Folder folder("combu-storm");
  Record record(folder.path());
  std::map<Cause, std::size_t> causes;
  std::size_t deaths = 0;
  const auto [first, last] = seeds();
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    combu::Run run = random_run(random);
    run.id = RunId("storm" + std::to_string(seed));
    if (seed % 3 == 0) run.experiment.parallel_max = 20;
    if (seed % 5 == 0) run.experiment.order = Order::random;
    if (seed % 7 == 0) run.experiment.failures_max = 20;
    if (seed % 11 == 0) run.experiment.deadline = Seconds(60);
    if (seed % 13 == 0) run.experiment.canary = true;
    if (seed % 17 == 0) run.experiment.collect.on = CollectOn::success;
    const Plan plan = test::plan(run.experiment);
    PlannerOptions options{.starts_in_flight_max = 1 + seed % 16, .until = Until::ended};
    SimulationOptions world{.seed = seed, .gpus = k_gpus, .faults = every_fault(seed % 2 == 0)};
    if (seed % 6 == 5) {  // an engine that places attempts, with a quota
      world.places = true;
      world.attempts_max = 40;
      options.pending_max = k_simulated_pending_max;
    } else {
      options = with_slots(std::move(options));
    }
    Simulation simulation(run, plan, options, world);
    if (seed % 4 == 0) {
      record.begin(entry_of(run), run.experiment);
      die_now_and_then(simulation, record, run.id, random);
    }
    EXPECT_THAT(simulation.play(), testing::IsEmpty());
    for (; simulation.has_died(); ++deaths)
      EXPECT_THAT(simulation.resume(record.restored_trials(run.id)), testing::IsEmpty());
    expect_record_equals_engine(simulation, run);
    for (const auto& [cause, count] : simulation.causes()) causes[cause] += count;
    (void)simulation.release({.experiment = "storm"});
    EXPECT_THAT(simulation.truth({.experiment = "storm"}), testing::IsEmpty());
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(simulation.world().has_network("net" + std::to_string(i)));
    if (testing::Test::HasFailure()) break;
  }
  // With fewer seeds, some causes may be too rare.
  if (last - first + 1 < 50) return;
  EXPECT_GT(deaths, 10U);
  for (const Cause cause : {Cause::error, Cause::oom, Cause::timeout, Cause::start_deadline, Cause::host_lost,
                            Cause::start, Cause::stopped, Cause::outputs}) {
    EXPECT_GT(causes[cause], 10U) << to_string(cause);
  }
}

TEST(Storm, TheSameSeedGivesTheSameRun) {
  const auto play = [] {
    std::mt19937_64 random(7);
    const combu::Run run = random_run(random);
    const Plan plan = test::plan(run.experiment);
    Simulation simulation(run, plan, with_slots({.until = Until::ended}),
                          {.seed = 7, .gpus = k_gpus, .faults = every_fault(false)});
    EXPECT_THAT(simulation.play(), testing::IsEmpty());
    return std::pair(simulation.elapsed(), simulation.planner().counts());
  };
  EXPECT_EQ(play(), play());
}

}  // namespace
}  // namespace combu::test
