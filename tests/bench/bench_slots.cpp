// bench_slots [TRIALS]: measures the time from the engine's report of a trial's end to the start of the trial
// that was waiting, with at most eight trials in parallel. Uses the simulated engine with real threads and a
// record, which combu writes before each command. Prints milliseconds.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "combu/plan.hpp"
#include "combu/record.hpp"
#include "combu/run.hpp"
#include "combu/simulated.hpp"
#include "fact_keeper.hpp"
#include "passing_engine.hpp"

namespace combu {
namespace {

using Steady = std::chrono::steady_clock;
constexpr std::size_t k_places = 8;

// Records when the engine reports ends and when combu calls start().
class Stopwatch final : public test::PassingEngine {
 public:
  using PassingEngine::PassingEngine;

  StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    note(starts);
    return engine_.start(run, trial, attempt, stop);
  }
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    const auto noting = [&](const Change& change) {
      const auto* seen = std::get_if<Observation>(&change);
      if (seen != nullptr && seen->phase == Phase::ended) note(ends);
      on_change(change);
    };
    engine_.watch(selector, noting, stop);
  }

  std::vector<Steady::time_point> ends;
  std::vector<Steady::time_point> starts;

 private:
  void note(std::vector<Steady::time_point>& timestamps) {
    const auto now = Steady::now();
    const std::scoped_lock lock(mutex_);
    timestamps.push_back(now);
  }

  std::mutex mutex_;
};

}  // namespace
}  // namespace combu

int main(int argc, char** argv) {
  using namespace combu;
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  Run run{.id = RunId("bench"), .experiment = {.name = "bench", .file = "/bench", .parallel_max = k_places}};
  for (std::size_t i = 0; i < count; ++i) {
    Trial trial;
    trial.name = fmt::format("trial-{}", i);
    trial.image = "lab/solver";
    run.experiment.trials.push_back(std::move(trial));
  }
  const std::string folder =
      fmt::format("{}/bench_slots.{}", std::filesystem::temp_directory_path().string(), getpid());
  {
    Record record(folder);
    RunEntry entry;
    entry.id = run.id;
    entry.experiment = run.experiment.name;
    record.begin(entry, run.experiment);
    const auto engine =
        open_simulated({.start_takes = Seconds(0.005), .trial_takes = Seconds(0.02), .speed = 1});
    Stopwatch stopwatch(*engine);
    test::FactKeeper keeper(record, run.id);
    const Plan plan = make_plan(run.experiment).plan;
    ProgressListener nobody;
    (void)drive(run, plan, {.until = Until::ended},
                {.engine = stopwatch, .clock = real_clock(), .journal = keeper, .progress = nobody});
    // The first k_places trials start at once; each later start follows an end.
    std::vector<double> waits;
    for (std::size_t i = k_places; i < stopwatch.starts.size(); ++i)
      waits.push_back(
          std::chrono::duration<double, std::milli>(stopwatch.starts[i] - stopwatch.ends[i - k_places])
              .count());
    std::ranges::sort(waits);
    fmt::print("{} trials: median {:.3f} ms, 99 % {:.3f} ms, most {:.3f} ms\n", count,
               waits[waits.size() / 2], waits[waits.size() * 99 / 100], waits.back());
  }
  std::filesystem::remove_all(folder);
}
