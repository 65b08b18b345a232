#include "schedule/attempts.hpp"

#include <utility>

namespace combu::schedule {

void Attempts::renew(TrialIndex trial) {
  clear_stop_cause(trial);
  attempts_[trial] = {.is_start_in_flight = attempts_[trial].is_start_in_flight};
}

void Attempts::start_sent(TrialIndex trial) {
  attempts_[trial].is_start_in_flight = true;
  ++starts_in_flight_;
}

void Attempts::start_answered(TrialIndex trial) {
  if (std::exchange(attempts_[trial].is_start_in_flight, false)) --starts_in_flight_;
}

void Attempts::set_stop_cause(TrialIndex trial, Cause cause) {
  clear_stop_cause(trial);
  attempts_[trial].stop_cause = cause;
  if (cause != Cause::none) ++stopping_;
}

void Attempts::clear_stop_cause(TrialIndex trial) {
  if (std::exchange(attempts_[trial].stop_cause, Cause::none) != Cause::none) --stopping_;
}

}  // namespace combu::schedule
