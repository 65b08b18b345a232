#include "schedule/failure_policy.hpp"

#include <fmt/format.h>

#include <utility>

#include "schedule/failure.hpp"

namespace combu::schedule {

FailurePolicy::FailurePolicy(const Experiment& experiment, const TrialTable& trials)
    : experiment_(experiment), trials_(trials), rows_(trials.size()) {}

FailurePolicy::Verdict FailurePolicy::judge(TrialIndex trial, const AttemptEnd& end) const {
  if (may_retry(trial, end.cause)) return Verdict::retry;
  const bool may_be_lost = end.cause == Cause::stopped && end.exit_code && end.engine == Break::unknown;
  return may_be_lost && may_retry(trial, Cause::host_lost) ? Verdict::await_engine : Verdict::fail;
}

bool FailurePolicy::may_retry(TrialIndex trial, Cause cause) const {
  const Retries& retries = trials_.trial(trial).retries;
  if (are_retries_over_ || !halted_.empty() || retries.max == 0) return false;
  if (!retries.on.test(static_cast<std::size_t>(cause))) return false;
  if (cause == Cause::host_lost) return rows_[trial].losses < Planner::k_losses_max;
  return rows_[trial].failures < retries.max;
}

void FailurePolicy::count(TrialIndex trial, Cause cause) {
  ++(cause == Cause::host_lost ? rows_[trial].losses : rows_[trial].failures);
}

Seconds FailurePolicy::pause(TrialIndex trial, Cause cause) const {
  // combu learns of a lost attempt when the host answers again, so a pause before the next attempt is
  // useless.
  if (cause == Cause::host_lost) return Seconds(0);
  return pause_after(trials_.trial(trial).retries, rows_[trial].failures);
}

void FailurePolicy::remember(TrialIndex trial, const AttemptEnd& end) {
  last_.insert_or_assign(trial, Fact{.trial = trial,
                                     .state = state_after(end.cause),
                                     .attempt = trials_.attempt(trial),
                                     .cause = end.cause,
                                     .exit_code = end.exit_code,
                                     .reason = end.reason,
                                     .details = details_of(end)});
}

const Fact* FailurePolicy::last(TrialIndex trial) const {
  const TrialState state = trials_.state(trial);
  if (state != TrialState::retrying && state != TrialState::ready) return nullptr;
  const auto failure = last_.find(trial);
  return failure == last_.end() ? nullptr : &failure->second;
}

std::vector<TrialIndex> FailurePolicy::release_awaiting() {
  std::vector<TrialIndex> waiting = std::exchange(awaiting_, {});
  std::erase_if(waiting, [this](TrialIndex trial) { return trials_.state(trial) != TrialState::retrying; });
  return waiting;
}

EndReason FailurePolicy::stop_reason(TrialIndex trial, std::optional<int> exit_code) const {
  const auto stopper = stoppers_.find(trial);
  if (stopper != stoppers_.end()) return stopped_by(stopper->second);
  return failure_reason(trials_.trial(trial), Cause::stopped, exit_code, {});
}

EndReason FailurePolicy::stop_cause_reason(TrialIndex trial, Cause cause) const {
  if (cause == Cause::stopped) return {.reason = halted_, .stopper = Stopper::run};
  return failure_reason(trials_.trial(trial), cause, std::nullopt, {});
}

std::optional<std::string> FailurePolicy::limit_reached() const {
  const std::size_t failed = trials_.count(TrialState::failed);
  if (experiment_.failures_max == 0 || failed < experiment_.failures_max) return std::nullopt;
  return fmt::format("{} trial{} failed, which is the limit (max_failures)", failed,
                     failed == 1 ? " has" : "s have");
}

}  // namespace combu::schedule
