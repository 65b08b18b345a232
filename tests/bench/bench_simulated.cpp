// bench_simulated [TRIALS...]: from evaluated JSON to the last trial ended, on the simulated engine with real
// threads, as fast as can be. Prints trials per second, for a star and for a ladder, and whether time is
// linear in the number of trials.

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "combu/plan.hpp"
#include "combu/run.hpp"
#include "combu/simulated.hpp"
#include "combu/spec.hpp"

namespace combu {
namespace {

using Steady = std::chrono::steady_clock;

class NoJournal : public Journal {
 public:
  void fact(const Fact& /*fact*/) override {}
  void commit() override {}
};

std::string trial_json(std::size_t i, const std::string& depends) {
  return fmt::format(
      R"({{"name":"trial-{}","image":"lab/solver","cmd":["solve","--id={}"],"env":{{"SEED":"{}"}}{}}})", i, i,
      i, depends.empty() ? "" : fmt::format(R"(,"depends":[{}])", depends));
}

// One trial before all others.
std::string star(std::size_t count) {
  std::string json = "[" + trial_json(0, "");
  for (std::size_t i = 1; i < count; ++i) json += "," + trial_json(i, R"("trial-0")");
  return json + "]";
}

// Two trials a rung, each depending on both of the rung before.
std::string ladder(std::size_t count) {
  std::string json = "[" + trial_json(0, "");
  for (std::size_t i = 1; i < count; ++i) {
    const std::size_t rung = i / 2;
    json +=
        "," +
        trial_json(i, rung == 0 ? "" : fmt::format(R"("trial-{}","trial-{}")", rung * 2 - 2, rung * 2 - 1));
  }
  return json + "]";
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void measure(const char* shape, const std::string& json, std::size_t count) {
  const auto began = Steady::now();
  const double cpu_began = cpu_seconds();
  Reading reading = read_experiment(
      json,
      {.file = "/bench", .folder = "/", .home = "/", .env = [](const std::string&) { return std::nullopt; }});
  const Planning planning = make_plan(reading.experiment);
  if (!reading.errors.empty() || !planning.errors.empty()) {
    fmt::print(stderr, "the benchmark's experiment is wrong\n");
    std::exit(1);  // NOLINT(concurrency-mt-unsafe): no thread has been started
  }
  const auto planned = Steady::now();
  const Run run{.id = RunId("bench"), .experiment = std::move(reading.experiment)};
  const auto engine = open_simulated({.speed = 0});
  NoJournal journal;
  ProgressListener nobody;
  const Outcome outcome =
      drive(run, planning.plan, {.until = Until::ended},
            {.engine = *engine, .clock = real_clock(), .journal = journal, .progress = nobody});
  const auto ended = Steady::now();
  const double total = std::chrono::duration<double>(ended - began).count();
  fmt::print("{:<7} {:>8} {:>12.3f} {:>10.3f} {:>12.0f} {:>14.1f}{}\n", shape, count,
             std::chrono::duration<double>(planned - began).count(), total,
             static_cast<double>(count) / total,
             (cpu_seconds() - cpu_began) / static_cast<double>(count) * 1e6,
             outcome.last.count(TrialState::succeeded) == count ? "" : "  NOT ALL SUCCEEDED");
}

}  // namespace
}  // namespace combu

int main(int argc, char** argv) {
  std::vector<std::size_t> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(std::strtoull(argv[i], nullptr, 10));
  if (counts.empty()) counts = {1'000, 10'000, 100'000};
  fmt::print("shape     trials read+plan s    total s   trials/s  CPU us/trial\n");
  for (const std::size_t count : counts) {
    combu::measure("star", combu::star(count), count);
    combu::measure("ladder", combu::ladder(count), count);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("peak memory of this process: {} MiB\n", usage.ru_maxrss / 1024);
}
