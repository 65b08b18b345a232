#include "schedule/failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "combu/schedule.hpp"

namespace combu::schedule {
namespace {

constexpr int k_exit_killed = 137;
constexpr int k_exit_terminated = 143;

// Signals that end programs, with their numbers in Linux on x86 and ARM.
constexpr std::array<std::pair<int, std::string_view>, 9> k_signals{{{1, "SIGHUP"},
                                                                     {2, "SIGINT"},
                                                                     {3, "SIGQUIT"},
                                                                     {4, "SIGILL"},
                                                                     {6, "SIGABRT"},
                                                                     {8, "SIGFPE"},
                                                                     {9, "SIGKILL"},
                                                                     {11, "SIGSEGV"},
                                                                     {15, "SIGTERM"}}};

std::string exit_text(std::optional<int> exit_code) {
  if (!exit_code) return "exit code not known";
  const auto signal =
      std::ranges::find(k_signals, *exit_code - 128, &std::pair<int, std::string_view>::first);
  if (signal == k_signals.end()) return fmt::format("exit code {}", *exit_code);
  return fmt::format("exit code {}, {}", *exit_code, signal->second);
}

}  // namespace

const std::string& engine_reason(const Observation& ended) {
  return ended.placement.limit_error.empty() ? ended.lost : ended.placement.limit_error;
}

Cause cause_of(const Observation& ended, bool after_break) {
  if (!ended.placement.limit_error.empty()) return Cause::error;
  if (!ended.lost.empty()) return Cause::host_lost;
  if (ended.timed_out) return Cause::timeout;
  // A stopped attempt counts as out of memory only if SIGKILL ended it. With another exit code, the kernel
  // may have killed some process of the attempt long before the stop.
  if (ended.oom && !(ended.stopped && ended.exit_code != k_exit_killed)) return Cause::oom;
  // A restarted engine reports only its latest few hundred events, so combu may not know who sent the signal.
  const bool looks_lost = ended.stopped || ended.exit_code == k_exit_unknown ||
                          ended.exit_code == k_exit_killed || ended.exit_code == k_exit_terminated;
  if (after_break && looks_lost) return Cause::host_lost;
  if (ended.oom_likely) return Cause::oom;
  return ended.stopped ? Cause::stopped : Cause::error;
}

Break break_since(std::optional<Instant> ran_at, std::optional<Instant> engine_began_at) {
  if (!ran_at || !engine_began_at) return Break::was;
  return *engine_began_at > *ran_at ? Break::was : Break::was_not;
}

TrialState state_after(Cause cause) {
  return cause == Cause::stopped ? TrialState::stopped : TrialState::failed;
}

EndReason failure_reason(const Trial& trial, Cause cause, std::optional<int> exit_code, Bytes memory) {
  switch (cause) {
    case Cause::none:
    case Cause::error:
      return {exit_text(exit_code)};
    case Cause::oom:
      return {fmt::format("out of memory{} ({})",
                          memory.count > 0 ? fmt::format(" at {}", to_string(memory)) : "",
                          exit_text(exit_code))};
    case Cause::timeout:
      return {fmt::format("took longer than its timeout of {}", to_string(trial.timeout))};
    case Cause::start_deadline:
      return {fmt::format("did not run within its start_deadline of {}", to_string(trial.start_deadline))};
    case Cause::host_lost:
      return {fmt::format("lost with its host or engine ({})", exit_text(exit_code))};
    case Cause::start:
      return {"could not be started"};
    case Cause::stopped:
      if (!exit_code) return {"the container was removed while the attempt ran"};
      return {.reason = fmt::format("from outside ({})", exit_text(exit_code)), .stopper = Stopper::outside};
    case Cause::outputs:
      return {"did not write its outputs"};
  }
  return {};
}

std::string start_failure_reason(std::string_view error) {
  return fmt::format("could not be started: {}", error);
}

EndReason stopped_by(const std::string& who) {
  return {.reason = fmt::format("by {} with `combu stop`", who), .stopper = Stopper::person};
}

std::string text_of(const EndReason& end) {
  return reason_text(end.reason, {.stopper = end.stopper}, 1);
}

Seconds pause_after(const Retries& retries, int failures) {
  if (retries.pause.count() == 0) return retries.pause;
  return std::min(retries.pause * std::pow(retries.factor, std::max(0, failures - 1)), retries.pause_max);
}

}  // namespace combu::schedule

namespace combu {

Ending ending_of(const Observation& ended) {
  if (ended.phase == Phase::gone)
    return {.cause = Cause::stopped, .reason = std::string(schedule::k_end_unknown)};
  if (!ended.placement.start_error.empty())
    return {.cause = Cause::start, .reason = schedule::start_failure_reason(ended.placement.start_error)};
  if (ended.exit_code == 0) return {};
  const Cause cause = schedule::cause_of(ended, false);
  auto [reason, stopper] = schedule::failure_reason({}, cause, ended.exit_code, ended.slots.memory);
  if (const std::string& of_engine = schedule::engine_reason(ended); !of_engine.empty()) reason = of_engine;
  return {.cause = cause, .reason = std::move(reason), .details = {.stopper = stopper}};
}

TrialState state_of(const Observation& container) {
  if (!has_run(container.phase)) return TrialState::starting;
  return container.phase == Phase::running ? TrialState::running : state_of(ending_of(container));
}

TrialState state_of(const Ending& ending) {
  if (ending.cause == Cause::none) return TrialState::succeeded;
  return schedule::state_after(ending.cause);
}

}  // namespace combu
