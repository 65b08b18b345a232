// bench_metrics FOLDER [ROUNDS]: measures how many points per second combu ingests from logs into the
// telemetry database on disk. Each log line is a JSON object with two metrics. The program creates FOLDER and
// removes it at the end.

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "combu/telemetry.hpp"
#include "passing_engine.hpp"

namespace combu {
namespace {

// An engine on which every attempt has the same log.
class OneLog final : public test::PassingEngine {
 public:
  explicit OneLog(std::size_t lines) : PassingEngine(static_cast<Engine&>(*this)) {
    for (std::size_t i = 0; i < lines; ++i)
      lines_.push_back(fmt::format(R"({{"step": {}, "loss": {:.6f}, "accuracy": {:.6f}}}
)",
                                   i, 1.0 / static_cast<double>(i + 1),
                                   1 - 1.0 / static_cast<double>(i + 2)));
  }
  void logs(const Key& /*key*/, const LogOptions& /*options*/, const OnLogPiece& on_piece,
            std::stop_token /*stop*/) override {
    Instant at = real_clock().now();
    for (const std::string& line : lines_)
      on_piece({.stream = LogStream::out, .text = line, .at = at += std::chrono::milliseconds(1)});
  }

 private:
  std::vector<std::string> lines_;
};

double points_a_second(const std::string& folder, std::size_t trials, std::size_t lines) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  OneLog engine(lines);
  const RunId run("run1");
  Telemetry telemetry(folder, run);
  Trial trial{.name = "trial"};
  trial.metrics = Metrics{.json = true};
  const auto began = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < trials; ++i) {
    trial.name = fmt::format("trial-{}", i);
    (void)ingest_logs(engine, {.run = run, .trial = trial.name, .attempt = 1}, trial, LogEnd::complete,
                      telemetry, {});
  }
  const Seconds took = std::chrono::steady_clock::now() - began;
  std::size_t points = 0;
  telemetry.metrics([&](const MetricSummary& one) { points += one.points; });
  if (points != 2 * trials * lines) throw std::runtime_error("some are missing");
  return static_cast<double>(points) / took.count();
}

}  // namespace
}  // namespace combu

int main(int count, char** words) {
  if (count < 2) {
    fmt::print(stderr, "bench_metrics FOLDER [ROUNDS]\n");
    return 2;
  }
  const std::string folder = words[1];
  const int rounds = count > 2 ? std::atoi(words[2]) : 3;
  for (const auto& [trials, lines] :
       {std::pair<std::size_t, std::size_t>{1, 500'000}, {100, 5'000}, {5'000, 100}})
    for (int round = 0; round < rounds; ++round)
      fmt::print("{:>5} trials, {:>7} lines each: {:>9.0f} points/s\n", trials, lines,
                 combu::points_a_second(folder, trials, lines));
  std::filesystem::remove_all(folder);
}
