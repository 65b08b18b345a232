#include <utility>

#include "combu/run.hpp"

namespace combu {

bool Steering::post(const Adjust& adjust, Answer answer) {
  const std::scoped_lock lock(mutex_);
  if (is_over_) return false;
  if (take_) {
    take_({.adjust = adjust, .answer = std::move(answer)});
    return true;
  }
  settings_.take(adjust);
  early_ = {.parallel_max = settings_.parallel_max,
            .starts_in_flight_max = settings_.starts_in_flight_max,
            .paused = settings_.paused};
  answer(settings_);
  return true;
}

void Steering::connect(std::function<void(Order)> take) {
  const std::scoped_lock lock(mutex_);
  take_ = std::move(take);
  take_({.adjust = early_, .answer = [](const Settings&) {}});
}

void Steering::disconnect() {
  const std::scoped_lock lock(mutex_);
  take_ = nullptr;
  is_over_ = true;
}

}  // namespace combu
