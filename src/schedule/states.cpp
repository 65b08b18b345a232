// Names of states, and short functions of the public types.

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "combu/schedule.hpp"

namespace combu {

std::string_view to_string(TrialState state) {
  switch (state) {
    case TrialState::waiting:
      return "waiting";
    case TrialState::ready:
      return "ready";
    case TrialState::starting:
      return "starting";
    case TrialState::running:
      return "running";
    case TrialState::retrying:
      return "retrying";
    case TrialState::collecting:
      return "collecting";
    case TrialState::succeeded:
      return "succeeded";
    case TrialState::skipped:
      return "skipped";
    case TrialState::failed:
      return "failed";
    case TrialState::blocked:
      return "blocked";
    case TrialState::stopped:
      return "stopped";
  }
  return "unknown";
}

std::string counts_text(const TrialCounts& counts) {
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts.at(i) > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counts.at(i),
                          to_string(static_cast<TrialState>(i)));
  return text;
}

std::string_view to_string(Departure departure) {
  switch (departure) {
    case Departure::no:
      return "no";
    case Departure::removed:
      return "removed";
    case Departure::replaced:
      return "replaced";
  }
  return "unknown";
}

std::string_view reason_of(Departure departure) {
  switch (departure) {
    case Departure::no:
      return "";
    case Departure::removed:
      return "removed from the file";
    case Departure::replaced:
      return "replaced by its new definition in the file";
  }
  return "";
}

void Settings::take(const Adjust& adjust) {
  parallel_max = adjust.parallel_max.value_or(parallel_max);
  starts_in_flight_max = adjust.starts_in_flight_max.value_or(starts_in_flight_max);
  paused = adjust.paused.value_or(paused);
}

bool is_monitored(const Experiment& experiment, const Trial& trial) {
  return !trial.outputs.empty() || trial.retries.max > 0 || trial.timeout > Seconds(0) ||
         experiment.deadline > Seconds(0) || !trial.has_own_container();
}

}  // namespace combu
