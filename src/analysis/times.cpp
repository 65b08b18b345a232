#include <algorithm>
#include <optional>
#include <utility>

#include "combu/analysis.hpp"

namespace combu {
namespace {

Seconds at_least_none(Seconds time) {
  return std::max(time, Seconds(0));
}

// True if the attempt is a retry. False for a trial's first attempt, and for the first attempt after `combu
// retry`.
bool waits_to_retry(const AttemptEntry& entry) {
  return entry.attempt > 1 && entry.attempt != entry.first_attempt;
}

// Returns the moment at which the attempt began to wait. A trial's first attempt begins to wait when the run
// begins, or when an edited file adds the trial. A retry begins to wait at the end of the previous attempt,
// `before`. The first attempt after `combu retry` begins to wait at the moment `ready_at` of this attempt.
Instant since_of(const AttemptEntry& entry, const AttemptEntry* before, const RunEntry& run) {
  if (entry.attempt == 1) return entry.revision > 1 ? run.working_since : run.began_at;
  if (!waits_to_retry(entry) || before == nullptr || before->trial != entry.trial) return entry.ready_at;
  return before->collected_at.value_or(before->ended_at.value_or(entry.ready_at));
}

AttemptTimes parts_of(const AttemptEntry& entry, Instant since) {
  const auto between = [](Instant from, Instant to) { return at_least_none(to - from); };
  std::optional<Seconds> needs;
  std::optional<Seconds> retry;
  // A trial without dependencies is ready when the run begins, so `needs` stays nullopt.
  if (waits_to_retry(entry)) {
    retry = between(since, entry.ready_at);
  } else if (entry.ready_at > since) {
    needs = between(since, entry.ready_at);
  }
  std::optional<Seconds> combu;
  std::optional<Seconds> starting = entry.started_in;
  std::optional<Seconds> running;
  std::optional<Seconds> collecting;
  if (entry.ran_at) {
    const Seconds whole = between(entry.started_at, *entry.ran_at);
    if (entry.created_in && entry.started_in)
      combu = at_least_none(whole - *entry.created_in - *entry.started_in);
    if (!starting) starting = whole;
    if (entry.ended_at) running = between(*entry.ran_at, *entry.ended_at);
    if (entry.ended_at && entry.collected_at) collecting = between(*entry.ended_at, *entry.collected_at);
  }
  return {needs,   retry,     between(entry.ready_at, entry.started_at), combu, entry.created_in, starting,
          running, collecting};
}

}  // namespace

std::vector<TimedAttempt> times_of(std::vector<AttemptEntry> attempts, const RunEntry& run) {
  std::vector<TimedAttempt> timed;
  timed.reserve(attempts.size());
  for (AttemptEntry& entry : attempts) {
    const AttemptEntry* before = timed.empty() ? nullptr : &timed.back().entry;
    const AttemptTimes times = parts_of(entry, since_of(entry, before, run));
    timed.push_back({.entry = std::move(entry), .times = times});
  }
  return timed;
}

TimesByPart times_by_part(std::span<const TimedAttempt> attempts) {
  TimesByPart parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<Seconds> times;
    Seconds sum{0};
    for (const TimedAttempt& attempt : attempts) {
      if (!attempt.times.at(i)) continue;
      times.push_back(*attempt.times.at(i));
      sum += *attempt.times.at(i);
    }
    if (times.empty()) continue;
    std::ranges::sort(times);
    parts.at(i) = {.median = times[times.size() / 2],
                   .most_of_90_percent = times[times.size() * 9 / 10],
                   .most = times.back(),
                   .sum = sum};
  }
  return parts;
}

}  // namespace combu
