#include "kubernetes/server_clock.hpp"

namespace combu::kubernetes {
namespace {

constexpr std::chrono::seconds k_lead_min{5};
constexpr std::chrono::seconds k_step_min{5};  // a lead that falls by this much shows that a clock was set

}  // namespace

void ServerClock::heard(Instant date, Instant now) {
  // The header has whole seconds, and arrives later than it was written. So each answer shows a lower bound.
  const Instant::duration lead = date - now;
  const std::scoped_lock lock(mutex_);
  if (!lead_ || lead > *lead_ || lead < *lead_ - k_step_min) lead_ = lead;
}

Instant ServerClock::at(Instant now) const {
  const std::scoped_lock lock(mutex_);
  return now + lead_.value_or(Instant::duration{});
}

Instant::duration ServerClock::lead() const {
  const std::scoped_lock lock(mutex_);
  return lead_ && std::chrono::abs(*lead_) >= k_lead_min ? *lead_ : Instant::duration{};
}

}  // namespace combu::kubernetes
