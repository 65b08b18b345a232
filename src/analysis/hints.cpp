// Hints about the field `worker`, judged by the attempts of a run.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "combu/analysis.hpp"

namespace combu {
namespace {

constexpr Seconds k_short{5};
constexpr Seconds k_long{60};

// The durations of some attempts.
struct Durations {
  std::vector<Seconds> running;
  std::vector<Seconds> starting;  // creating and starting the container
  std::optional<Instant> first;   // when the first attempt was started
  std::optional<Instant> last;    // when the last attempt ended

  void add(const TimedAttempt& attempt) {
    const auto part = [&](AttemptPart which) { return attempt.times.at(static_cast<std::size_t>(which)); };
    const auto run = part(AttemptPart::running);
    if (!run) return;
    running.push_back(*run);
    starting.push_back(part(AttemptPart::creating).value_or(Seconds(0)) +
                       part(AttemptPart::starting).value_or(Seconds(0)));
    if (!first || attempt.entry.started_at < *first) first = attempt.entry.started_at;
    if (!last || *attempt.entry.ended_at > *last) last = attempt.entry.ended_at;
  }
};

Seconds median(std::vector<Seconds> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::vector<std::string> hints_of(const Experiment& experiment, std::span<const TimedAttempt> attempts) {
  std::unordered_map<std::string_view, bool> own_container;
  for (const Trial& trial : experiment.trials)
    if (!trial.service && trial.container.ports.empty() && !trial.healthcheck)
      own_container.emplace(trial.name, trial.has_own_container());
  Durations in_own;
  Durations in_workers;
  for (const TimedAttempt& attempt : attempts) {
    const auto known = own_container.find(attempt.entry.trial);
    if (known != own_container.end()) (known->second ? in_own : in_workers).add(attempt);
  }
  std::vector<std::string> hints;
  if (in_own.running.size() >= k_hint_attempts_min) {
    const Seconds run = median(in_own.running);
    const Seconds start = median(in_own.starting);
    if (run < k_short && start > Seconds(0)) {
      // The share of the starts in the time of an attempt is the share of the run that workers would save.
      const Seconds saved = Seconds(*in_own.last - *in_own.first) * (start / (start + run));
      hints.push_back(
          fmt::format("{} attempts ran for {} in the median, and each start of a container took {}; "
                      "`worker: true` would save about {} (see docs/workers.md)",
                      in_own.running.size(), to_string(run), to_string(start), to_string(saved)));
    }
  }
  if (!in_workers.running.empty()) {
    const Seconds run = median(in_workers.running);
    if (run > k_long)
      hints.push_back(
          fmt::format("the trials with `worker` ran for {} in the median; `worker` gains nothing for "
                      "trials that run for more than a minute",
                      to_string(run)));
  }
  return hints;
}

}  // namespace combu
