#include "combu/session.hpp"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <utility>

namespace combu {
namespace {

constexpr Seconds k_repeated_note_pause{5};

// Prints at most one note per k_repeated_note_pause, since many calls fail while an engine is unreachable.
class RepeatNotes {
 public:
  explicit RepeatNotes(Progress& progress) : progress_(progress) {}
  void operator()(const Error& error) {
    std::scoped_lock lock(mutex_);
    const Instant now = real_clock().now();
    if (told_at_ && now - *told_at_ < k_repeated_note_pause) return;
    told_at_ = now;
    progress_.note(fmt::format("{}; trying again", error.what()));
  }

 private:
  Progress& progress_;
  std::mutex mutex_;
  std::optional<Instant> told_at_;
};

}  // namespace

std::unique_ptr<Engine> Session::patient_engine() {
  const auto reporter = std::make_shared<RepeatNotes>(progress_);
  return with_retry(engine(), {}, real_clock(),
                    [reporter](const Error& error, Seconds /*pause*/) { (*reporter)(error); });
}

}  // namespace combu
