#pragma once

#include <chrono>
#include <mutex>
#include <optional>

#include "combu/base.hpp"

namespace combu::kubernetes {

// The clock of an API server, as far as the server's answers show it. May be used from many threads.
class ServerClock {
 public:
  // `date`: the header `Date` of an answer; `now`: the moment of its arrival, by this machine's clock.
  void heard(Instant date, Instant now);

  // Returns the moment `now` of this machine's clock by the server's clock. Without an answer so far, returns
  // `now`. Unless a clock was set, the result is at most one second and the duration of an answer too early,
  // and not too late.
  [[nodiscard]] Instant at(Instant now) const;

  // Returns how far the server's clock is ahead of this machine's clock. Returns 0 for less than 5 seconds,
  // which may be an error of the measurement.
  [[nodiscard]] Instant::duration lead() const;

 private:
  mutable std::mutex mutex_;
  std::optional<Instant::duration> lead_;
};

}  // namespace combu::kubernetes
