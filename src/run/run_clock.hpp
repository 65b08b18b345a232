#pragma once

#include <chrono>

#include "combu/base.hpp"

namespace combu {

// A clock for one run: starts at the moment `began`, and advances with a steady clock, which is never set
// back.
class RunClock {
 public:
  explicit RunClock(Instant began) : began_(began) {}

  [[nodiscard]] Instant now() const {
    return began_ + std::chrono::duration_cast<Instant::duration>(Steady::now() - steady_began_);
  }

 private:
  using Steady = std::chrono::steady_clock;

  Instant began_;
  Steady::time_point steady_began_ = Steady::now();
};

}  // namespace combu
