// bench_simulated [star|ladder] [TRIALS...]: measures the time from evaluated JSON to the end of the last
// trial, on the simulated engine with real threads at full speed. Prints trials per second for a star and a
// ladder of each number of trials. Equal rates show that the time is linear in the number of trials.

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cctype>
#include <chrono>
#include <cstdlib>
#include <span>
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

// Returns an experiment in which all trials depend on the first trial.
std::string star(std::size_t count) {
  std::string json = "[" + trial_json(0, "");
  for (std::size_t i = 1; i < count; ++i) json += "," + trial_json(i, R"("trial-0")");
  return json + "]";
}

// Returns an experiment of rungs with two trials; each trial depends on both trials of the previous rung.
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

// Resources that this process has used since its start.
struct Spent {
  double cpu_seconds;
  double context_switches;
};
Spent spent() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return {.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime),
          .context_switches = static_cast<double>(usage.ru_nvcsw + usage.ru_nivcsw)};
}

void measure(const char* shape, const std::string& json, std::size_t count) {
  const auto began = Steady::now();
  const Spent before = spent();
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
  const Spent after = spent();
  const double total = std::chrono::duration<double>(ended - began).count();
  const auto trials = static_cast<double>(count);
  fmt::print("{:<7} {:>8} {:>12.3f} {:>10.3f} {:>12.0f} {:>14.1f} {:>14.2f}{}\n", shape, count,
             std::chrono::duration<double>(planned - began).count(), total, trials / total,
             (after.cpu_seconds - before.cpu_seconds) / trials * 1e6,
             (after.context_switches - before.context_switches) / trials,
             outcome.last.count(TrialState::succeeded) == count ? "" : "  NOT ALL SUCCEEDED");
}

}  // namespace
}  // namespace combu

int main(int argc, char** argv) {
  std::vector<std::size_t> counts;
  std::string shape;  // empty: both
  for (const char* argument : std::span(argv, static_cast<std::size_t>(argc)).subspan(1)) {
    if (std::isdigit(static_cast<unsigned char>(*argument)) != 0) {
      counts.push_back(std::strtoull(argument, nullptr, 10));
    } else {
      shape = argument;
    }
  }
  if (counts.empty()) counts = {1'000, 10'000, 100'000};
  fmt::print("shape     trials read+plan s    total s   trials/s  CPU us/trial switches/trial\n");
  for (const std::size_t count : counts) {
    if (shape != "ladder") combu::measure("star", combu::star(count), count);
    if (shape != "star") combu::measure("ladder", combu::ladder(count), count);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("peak memory of this process: {} MiB\n", usage.ru_maxrss / 1024);
}
