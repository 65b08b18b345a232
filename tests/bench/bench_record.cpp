// bench_record [TRIALS] [ROUNDS]: measures the cost of the record. Runs the same experiment on the simulated
// engine with real threads, alternately without and with a record: first as fast as the model can, then with
// starts of 5 ms. Each fact is in the record before combu executes the commands that follow from it. Prints
// trials per second, and the ratio in each round.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "combu/plan.hpp"
#include "combu/record.hpp"
#include "combu/run.hpp"
#include "combu/simulated.hpp"

namespace combu {
namespace {

using Steady = std::chrono::steady_clock;

class Keeper : public Journal {
 public:
  Keeper(Record* record, RunId run) : record_(record), run_(std::move(run)) {}
  void fact(const Fact& fact) override {
    if (record_ != nullptr) facts_.push_back(fact);
  }
  void commit() override {
    if (facts_.empty()) return;
    record_->append(run_, facts_);
    ++commits;
    facts_.clear();
  }
  std::size_t commits = 0;

 private:
  Record* record_;
  RunId run_;
  std::vector<Fact> facts_;
};

Experiment star(std::size_t count) {
  Experiment experiment{.name = "bench", .file = "/bench"};
  for (std::size_t i = 0; i < count; ++i) {
    Trial trial;
    trial.name = fmt::format("trial-{}", i);
    trial.image = "lab/solver";
    trial.process.cmd = {"true"};
    experiment.trials.push_back(std::move(trial));
  }
  return experiment;
}

struct Figures {
  double rate = 0;
  std::size_t commits = 0;
};

Figures play(const Experiment& experiment, const SimulationOptions& model, Record* record,
             const std::string& id) {
  const Run run{.id = RunId(id), .experiment = experiment};
  const Plan plan = make_plan(experiment).plan;
  const auto began = Steady::now();
  if (record != nullptr) {
    RunEntry entry;
    entry.id = run.id;
    entry.experiment = experiment.name;
    record->begin(entry, experiment);
  }
  const auto engine = open_simulated(model);
  Keeper keeper(record, run.id);
  ProgressListener nobody;
  const Outcome outcome =
      drive(run, plan, {.until = Until::ended},
            {.engine = *engine, .clock = real_clock(), .journal = keeper, .progress = nobody});
  const double seconds = std::chrono::duration<double>(Steady::now() - began).count();
  if (outcome.last.count(TrialState::succeeded) != experiment.trials.size())
    fmt::print("NOT ALL SUCCEEDED\n");
  return {.rate = static_cast<double>(experiment.trials.size()) / seconds, .commits = keeper.commits};
}

void compare(const char* title, const Experiment& experiment, const SimulationOptions& model, Record& record,
             int rounds) {
  fmt::print("{}, {} trials\nround  without/s     with/s  ratio  commits\n", title, experiment.trials.size());
  std::vector<double> ratios;
  for (int round = 1; round <= rounds; ++round) {
    const Figures bare = play(experiment, model, nullptr, "bench");
    const Figures kept = play(experiment, model, &record, fmt::format("bench-{}-{}", model.speed, round));
    ratios.push_back(kept.rate / bare.rate);
    fmt::print("{:>5} {:>10.0f} {:>10.0f} {:>6.3f} {:>8}\n", round, bare.rate, kept.rate, ratios.back(),
               kept.commits);
  }
  std::ranges::sort(ratios);
  fmt::print("median ratio {:.3f}\n\n", ratios[ratios.size() / 2]);
}

}  // namespace
}  // namespace combu

int main(int argc, char** argv) {
  using namespace combu;
  const std::size_t trials = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 5;
  const std::string folder =
      fmt::format("{}/bench_record.{}", std::filesystem::temp_directory_path().string(), getpid());
  {
    Record record(folder);
    const Experiment experiment = star(trials);
    compare("as fast as can be", experiment, {.speed = 0}, record, rounds);
    compare("starts of 5 ms", experiment,
            {.start_takes = Seconds(0.005), .trial_takes = Seconds(0.01), .speed = 1}, record, rounds);
  }
  std::filesystem::remove_all(folder);
}
