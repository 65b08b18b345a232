// bench_results FOLDER [TRIALS] [POINTS]: writes a record with two runs of /bench.jsonnet, "one" and "two",
// into FOLDER. Each run has TRIALS trials with five params and two metrics of POINTS points.
// tests/bench/results times the commands that read this record.

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "combu/record.hpp"
#include "combu/telemetry.hpp"

namespace combu {
namespace {

constexpr int k_seeds = 5;

Experiment grid(std::size_t count) {
  Experiment experiment{.name = "bench", .file = "/bench.jsonnet"};
  for (std::size_t i = 0; i < count; ++i) {
    Trial trial;
    trial.name = fmt::format("trial-{}", i);
    trial.image = "lab/solver";
    trial.params =
        fmt::format(R"({{"batch":{},"layers":{},"lr":{},"model":"{}","seed":{}}})", 32 << (i / k_seeds % 4),
                    2 + i / k_seeds / 4 % 5, 1e-5 * static_cast<double>(1 + i / k_seeds / 20),
                    i % 2 == 0 ? "resnet" : "vit", i % k_seeds);
    experiment.trials.push_back(std::move(trial));
  }
  return experiment;
}

std::vector<Fact> facts_of(std::size_t count, Instant began) {
  std::vector<Fact> facts;
  for (std::size_t i = 0; i < count; ++i) {
    const auto trial = static_cast<TrialIndex>(i);
    const auto fact = [&](TrialState state, int second) {
      Fact one{.trial = trial, .state = state};
      one.at = began + std::chrono::seconds(second);
      one.ready_at = began;
      return one;
    };
    facts.push_back(fact(TrialState::starting, 1));
    facts.push_back(fact(TrialState::running, 2));
    facts.push_back(fact(TrialState::succeeded, 60));
    facts.back().ran = true;
    facts.back().exit_code = 0;
  }
  return facts;
}

LogBatch::Metric metric(std::string name, std::size_t points, double from, Instant began) {
  LogBatch::Metric metric{.name = std::move(name), .points = {}};
  for (std::size_t i = 0; i < points; ++i)
    metric.points.push_back({.step = static_cast<double>(i),
                             .at = began + std::chrono::milliseconds(500 * i),
                             .value = from * std::exp(-static_cast<double>(i) / 30) +
                                      0.1 * std::sin(from + static_cast<double>(i))});
  return metric;
}

void write_run(Record& record, const std::string& folder, const std::string& id, std::size_t trials,
               std::size_t points, double worse) {
  const Instant began = std::chrono::floor<std::chrono::seconds>(real_clock().now()) - std::chrono::hours(1);
  const Experiment experiment = grid(trials);
  RunEntry entry;
  entry.id = RunId(id);
  entry.experiment = experiment.name;
  entry.file = experiment.file;
  entry.text.evaluated = "[]";
  entry.options = "{}";
  entry.began_at = began;
  record.begin(entry, experiment);
  record.append(entry.id, facts_of(trials, began));
  record.end(entry.id, began + std::chrono::seconds(60));
  Telemetry telemetry(folder, entry.id);
  for (std::size_t i = 0; i < trials; ++i) {
    const double from = worse + 1 + static_cast<double>(i % 97) / 97;
    const std::vector<LogBatch::Metric> metrics{metric("accuracy", points, -from, began),
                                                metric("loss", points, from, began)};
    LogBatch batch;
    batch.metrics = metrics;
    batch.complete = true;
    (void)telemetry.append(experiment.trials[i].name, 1, std::nullopt, batch, Bytes{1 << 20});
  }
}

}  // namespace
}  // namespace combu

int main(int argc, char** argv) {
  using namespace combu;
  if (argc < 2) {
    fmt::print(stderr, "bench_results FOLDER [TRIALS] [POINTS]\n");
    return 2;
  }
  const std::string folder = argv[1];
  const std::size_t trials = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10'000;
  const std::size_t points = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 100;
  Record record(folder);
  write_run(record, folder, "one", trials, points, 0);
  write_run(record, folder, "two", trials, points, 0.125);
}
