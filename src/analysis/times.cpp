#include <algorithm>
#include <optional>
#include <utility>

#include "combu/analysis.hpp"

namespace combu {
namespace {

Seconds at_least_none(Seconds time) {
  return std::max(time, Seconds(0));
}

// An attempt, and since when it waited: a first one since the run began, or was reopened with a file that has
// added or changed its trial; one that waited to retry since the end of the one before. The first one that
// `retry` begins has waited for neither.
struct Placed {
  AttemptEntry entry;
  Instant since{};
};

// False for the first attempt, and for the first one that `retry` begins.
bool waits_to_retry(const AttemptEntry& entry) {
  return entry.attempt > 1 && entry.attempt != entry.first_attempt;
}

std::vector<Placed> placed(std::vector<AttemptEntry> attempts, const RunEntry& run) {
  std::vector<Placed> all;
  all.reserve(attempts.size());
  for (AttemptEntry& entry : attempts) {
    Instant since = entry.ready_at;
    if (entry.attempt == 1) since = entry.revision > 1 ? run.working_since : run.began_at;
    if (waits_to_retry(entry) && !all.empty() && all.back().entry.trial == entry.trial)
      since = all.back().entry.collected_at.value_or(all.back().entry.ended_at.value_or(since));
    all.push_back({std::move(entry), since});
  }
  return all;
}

AttemptTimes parts_of(const Placed& attempt) {
  const AttemptEntry& entry = attempt.entry;
  const auto between = [](Instant from, Instant to) { return at_least_none(to - from); };
  std::optional<Seconds> needs;
  std::optional<Seconds> retry;
  // A trial that waits for no other is ready from the beginning.
  if (waits_to_retry(entry)) {
    retry = between(attempt.since, entry.ready_at);
  } else if (entry.ready_at > attempt.since) {
    needs = between(attempt.since, entry.ready_at);
  }
  std::optional<Seconds> combu;
  std::optional<Seconds> starting = entry.started_in;
  std::optional<Seconds> running;
  std::optional<Seconds> home;
  if (entry.ran_at) {
    const Seconds whole = between(entry.started_at, *entry.ran_at);
    if (entry.created_in && entry.started_in)
      combu = at_least_none(whole - *entry.created_in - *entry.started_in);
    if (!starting) starting = whole;
    if (entry.ended_at) running = between(*entry.ran_at, *entry.ended_at);
    if (entry.ended_at && entry.collected_at) home = between(*entry.ended_at, *entry.collected_at);
  }
  return {needs,   retry, between(entry.ready_at, entry.started_at), combu, entry.created_in, starting,
          running, home};
}

}  // namespace

std::vector<TimedAttempt> times_of(std::vector<AttemptEntry> attempts, const RunEntry& run) {
  std::vector<TimedAttempt> timed;
  timed.reserve(attempts.size());
  for (Placed& attempt : placed(std::move(attempts), run)) {
    const AttemptTimes times = parts_of(attempt);
    timed.push_back({.entry = std::move(attempt.entry), .times = times});
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
