#include <utility>

#include "combu/run.hpp"

namespace combu {

namespace {

Adjust all_of(const Settings& settings) {
  return {.parallel_max = settings.parallel_max,
          .starts_in_flight_max = settings.starts_in_flight_max,
          .paused = settings.paused};
}

}  // namespace

bool Steering::post(const Adjust& adjust, Answer answer) {
  const std::scoped_lock lock(mutex_);
  if (is_over_) return false;
  if (take_) {
    take_({.adjust = adjust, .answer = std::move(answer)});
    return true;
  }
  settings_.take(adjust);
  early_ = all_of(settings_);
  answer(settings_);
  return true;
}

bool Steering::leave() {
  const std::scoped_lock lock(mutex_);
  if (!take_) return false;
  take_({.adjust = {.paused = true}, .answer = [](const Settings&) {}, .leave = true});
  return true;
}

void Steering::connect(std::function<void(Order)> take) {
  const std::scoped_lock lock(mutex_);
  take_ = std::move(take);
  take_({.adjust = early_, .answer = [](const Settings&) {}});
}

void Steering::disconnect(std::optional<Settings> settings) {
  const std::scoped_lock lock(mutex_);
  take_ = nullptr;
  is_over_ = !settings;
  if (!settings) return;
  settings_ = *settings;
  early_ = all_of(settings_);
}

}  // namespace combu
