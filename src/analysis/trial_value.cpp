#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "combu/analysis.hpp"

namespace combu {
namespace {

// Returns the state (Phase) of the trial's container, or "" if there is no container. A condition may name a
// container's state instead of a trial's state.
std::string_view phase_of(const TrialEntry& entry) {
  switch (entry.state) {
    case TrialState::starting:
      return to_string(Phase::created);
    case TrialState::running:
      return to_string(Phase::running);
    case TrialState::retrying:
    case TrialState::collecting:
      return to_string(Phase::ended);
    default:
      return is_over(entry.state) && (entry.exit_code || entry.ran_at) ? to_string(Phase::ended) : "";
  }
}

bool is_phase(std::string_view word) {
  return word == to_string(Phase::created) || word == to_string(Phase::ended);
}

[[noreturn]] void throw_unknown_state(std::string_view word) {
  std::vector<std::string_view> states;
  states.reserve(k_trial_state_count);
  for (std::size_t i = 0; i < k_trial_state_count; ++i)
    states.push_back(to_string(static_cast<TrialState>(i)));
  throw Error(ErrorKind::invalid, "--where",
              fmt::format("`{}` is not a state; the states are {}, {} and {}", word, fmt::join(states, ", "),
                          to_string(Phase::created), to_string(Phase::ended)));
}

// Returns the trial's state in the record. If `wanted` is a container's state (Phase), returns the state of
// the trial's container instead.
std::string state_like(const TrialEntry& entry, std::string_view wanted) {
  const std::string_view state = to_string(entry.state);
  if (wanted.empty() || wanted == state) return std::string(state);
  if (is_phase(wanted)) return std::string(phase_of(entry));
  const bool is_pattern = wanted.find_first_of("*?[\\") != std::string_view::npos;
  if (!is_pattern && !parse_enum<TrialState>(wanted, k_trial_state_count)) throw_unknown_state(wanted);
  return std::string(state);
}

// If `wanted` is one of the trial's GPUs, returns `wanted`, so that a condition on one of several GPUs
// matches. Otherwise returns `gpus`.
std::string gpus_like(const std::string& gpus, std::string_view wanted) {
  const bool is_among = fmt::format(",{},", gpus).find(fmt::format(",{},", wanted)) != std::string::npos;
  return is_among ? std::string(wanted) : gpus;
}

}  // namespace

std::optional<std::string> trial_value(const TrialEntry& entry, std::string_view name,
                                       std::string_view wanted) {
  if (name == "trial") return entry.name;
  if (name == "attempt") return std::to_string(entry.attempt);
  if (name == "state") return state_like(entry, wanted);
  if (name == "image") return entry.image;
  if (name == "digest") return entry.digest;
  if (name == "id") return entry.container;
  if (name == "exit_code")
    return entry.exit_code ? std::optional(std::to_string(*entry.exit_code)) : std::nullopt;
  if (name == "cause")
    return entry.cause == Cause::none ? std::nullopt : std::optional(std::string(to_string(entry.cause)));
  if (name == "reason") return reason_text(entry);
  if (name == "gpus") return gpus_like(entry.gpus, wanted);
  if (name == "memory_peak")
    return entry.usage ? std::optional(std::to_string(entry.usage->memory.count)) : std::nullopt;
  if (name == "cpu_seconds")
    return entry.usage ? std::optional(fmt::format("{}", entry.usage->cpu.count())) : std::nullopt;
  if (name == "version") return std::to_string(entry.revision);
  return std::nullopt;
}

}  // namespace combu
