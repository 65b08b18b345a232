#include "usage_poller.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "poll_pause.hpp"

namespace combu {
namespace {

constexpr std::chrono::seconds k_busy_pause{1};

}  // namespace

void UsagePoller::begin(TrialIndex trial, int attempt, const std::string& id, Instant now) {
  running_[trial] = {.attempt = attempt, .usage = std::nullopt};
  schedule({.trial = trial, .attempt = attempt, .id = id, .pause = first_}, now);
}

std::optional<Usage> UsagePoller::end(TrialIndex trial) {
  const auto ended = running_.extract(trial);
  return ended ? ended.mapped().usage : std::nullopt;
}

std::optional<PollUsage> UsagePoller::next(Instant now, bool is_busy) {
  while (!due_.empty() && due_.begin()->first <= now) {
    if (is_busy && now < last_ + k_busy_pause) return std::nullopt;
    PollUsage poll = std::move(due_.extract(due_.begin()).mapped());
    if (running(poll) == nullptr) continue;
    last_ = now;
    return poll;
  }
  return std::nullopt;
}

void UsagePoller::answer(const UsagePolled& polled, Instant now) {
  Running* const attempt = running(polled.poll);
  if (attempt == nullptr) return;
  if (polled.usage) {
    const Bytes before = attempt->usage ? attempt->usage->memory : Bytes{};
    attempt->usage = {.memory = std::max(before, polled.usage->memory), .cpu = polled.usage->cpu};
  }
  PollUsage next = polled.poll;
  next.pause = poll_pause(polled.poll.pause, polled.log_growth, polled.took);
  schedule(std::move(next), now);
}

// Returns nullptr if the attempt has ended.
UsagePoller::Running* UsagePoller::running(const PollUsage& poll) {
  const auto found = running_.find(poll.trial);
  return found == running_.end() || found->second.attempt != poll.attempt ? nullptr : &found->second;
}

void UsagePoller::schedule(PollUsage poll, Instant now) {
  const Instant at = now + std::chrono::duration_cast<Instant::duration>(poll.pause);
  due_.emplace(at, std::move(poll));
}

}  // namespace combu
