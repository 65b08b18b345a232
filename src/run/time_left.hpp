#pragma once
// Estimates the remaining time of a run.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "combu/base.hpp"

namespace combu {

inline constexpr std::size_t k_ended_min = 3;  // minimum number of ended trials for an estimate

// The progress of a run's work. Trials whose end the run does not wait for (services) do not count.
struct WorkDone {
  std::size_t ended = 0;      // number of trials that have run and ended
  Seconds ended_took{0};      // sum of the ended trials' durations
  Seconds worked{0};          // from the first command to the end of the last ended trial, less the pauses
  Seconds since_end{0};       // from the end of the last ended trial to now
  std::vector<Seconds> ages;  // for each open trial that was started: the seconds since its start
  std::size_t not_begun = 0;
};

// Estimates the remaining time. Assumes that every trial lasts as long as the ended trials did on average
// (the mean). Also assumes that the mean number of concurrently running trials stays as it was when the last
// trial ended. Therefore the estimate never grows until the next trial ends. A trial that hangs has no
// influence once it has run longer than the mean. Returns nullopt if too few trials have ended, or if all
// remaining trials have run longer than the mean.
[[nodiscard]] inline std::optional<Seconds> time_left(const WorkDone& work) {
  if (work.ended < k_ended_min || work.worked <= Seconds(0)) return std::nullopt;
  const Seconds mean = work.ended_took / static_cast<double>(work.ended);
  Seconds done = work.ended_took;
  Seconds rest = mean * static_cast<double>(work.not_begun);
  Seconds longest = work.not_begun > 0 ? mean : Seconds(0);
  for (const Seconds age : work.ages) {
    const Seconds of_trial = std::max(mean - age, Seconds(0));
    rest += of_trial;
    longest = std::max(longest, of_trial);
    // The whole age of a trial does not always count as work: the trial may hang, or an earlier process may
    // have started the trial.
    done += std::clamp(age - work.since_end, Seconds(0), std::min(mean, work.worked));
  }
  if (longest <= Seconds(0)) return std::nullopt;
  return std::max(longest, rest * (work.worked / done));
}

}  // namespace combu
