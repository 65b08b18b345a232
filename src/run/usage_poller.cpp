#include "usage_poller.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "poll_pause.hpp"

namespace combu {
namespace {

constexpr Seconds k_busy_pause{1};

}  // namespace

void UsagePoller::begin(TrialIndex trial, int attempt, const std::string& id, Instant now) {
  running_[trial] = {.attempt = attempt, .usage = std::nullopt};
  schedule(due_, {.trial = trial, .attempt = attempt, .id = id, .pause = pace_.polled_after}, now);
}

std::optional<Usage> UsagePoller::end(TrialIndex trial) {
  const auto ended = running_.extract(trial);
  return ended ? ended.mapped().usage : std::nullopt;
}

std::optional<PollUsage> UsagePoller::next(Instant now, bool is_busy) {
  const Seconds pause = is_busy ? std::max(k_busy_pause, pace_.poll_pause_min) : pace_.poll_pause_min;
  if (now - last_ < pause) return std::nullopt;
  for (const bool is_urgent : {!was_urgent_, was_urgent_}) {
    std::optional<PollUsage> poll = take_due(is_urgent ? urgent_ : due_, now);
    if (!poll) continue;
    was_urgent_ = is_urgent;
    last_ = now;
    return poll;
  }
  return std::nullopt;
}

// Returns the first poll that is due and whose attempt still runs.
std::optional<PollUsage> UsagePoller::take_due(Queue& queue, Instant now) {
  while (!queue.empty() && queue.begin()->first <= now) {
    PollUsage poll = std::move(queue.extract(queue.begin()).mapped());
    if (running(poll) != nullptr) return poll;
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
  schedule(polled.log_growth > k_poll_brings_max ? urgent_ : due_, std::move(next), now);
}

// Returns nullptr if the attempt has ended.
UsagePoller::Running* UsagePoller::running(const PollUsage& poll) {
  const auto found = running_.find(poll.trial);
  return found == running_.end() || found->second.attempt != poll.attempt ? nullptr : &found->second;
}

void UsagePoller::schedule(Queue& queue, PollUsage poll, Instant now) {
  const Instant at = now + std::chrono::duration_cast<Instant::duration>(poll.pause);
  queue.emplace(at, std::move(poll));
}

}  // namespace combu
