#include "schedule/output_collection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "schedule/failure.hpp"

namespace combu::schedule {
namespace {

constexpr Seconds k_pause_max{60};  // pauses double from one second up to this maximum

}  // namespace

AttemptEnd OutputCollection::abandon(TrialIndex trial) {
  AttemptEnd end = std::move(ends_.extract(trial).mapped().end);
  if (ends_.empty()) undelivered_.clear();
  return end;
}

AttemptEnd OutputCollection::finish(TrialIndex trial, const std::string& fault, Cause cause) {
  AttemptEnd end = abandon(trial);
  if (!fault.empty() && end.as == TrialState::succeeded) {
    end.as = TrialState::failed;
    end.cause = cause;
    end.reason = fault;
  } else if (!fault.empty() && end.as == TrialState::failed) {
    end.outputs_fault = fault;
  }
  return end;
}

Seconds OutputCollection::retry(TrialIndex trial, const std::string& fault) {
  undelivered_ = fmt::format("{}: {}", trials_.name(trial), fault);
  const int failed = ends_.at(trial).tries++;
  return std::min(k_pause_max, Seconds(std::pow(2, std::min(failed, 9))));
}

void OutputCollection::mark_lost() {
  for (auto& [trial, waiting] : ends_) {
    AttemptEnd& end = waiting.end;
    if (end.cause != Cause::stopped || end.engine != Break::unknown) continue;
    end.cause = Cause::host_lost;
    end.reason = failure_reason(trials_.trial(trial), end.cause, end.exit_code, {}).reason;
    end.stopper = Stopper::none;
  }
}

}  // namespace combu::schedule
