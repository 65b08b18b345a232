#include "run_progress.hpp"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "time_left.hpp"

namespace combu {
namespace {

constexpr std::size_t k_starting_shown_max = 32;

Seconds since(Instant timestamp, Instant now) {
  return std::max(Seconds(now - timestamp), Seconds(0));
}

}  // namespace

RunProgress::RunProgress(const Run& run, Until until, std::optional<Slots> capacity)
    : run_(run),
      until_(until),
      capacity_(std::move(capacity)),
      was_started_(run.experiment.trials.size()),
      ran_here_(run.experiment.trials.size()) {}

void RunProgress::begin(Instant now) {
  began_ = now;
  if (run_.began_at) before_ = since(*run_.began_at, now);
}

void RunProgress::restore(TrialIndex trial, const RestoredTrial& restored, bool is_awaited, Instant now) {
  was_started_[trial] = restored.was_started;
  if (restored.was_started) ++started_;
  const bool is_under_way = is_alive(restored.state) || restored.state == TrialState::collecting;
  if (is_under_way && is_awaited) {
    const bool runs = restored.state == TrialState::running;
    set_under_way({.trial = trial,
                   .begun_at = restored.ran_at.value_or(now),
                   .ran_at = runs ? restored.ran_at : std::nullopt});
  }
  // If a blocked trial can run after all, a later fact reports that.
  if (!is_unsuccessful(restored.state, restored.cause)) return;
  unsuccessful_.push_back({.trial = trial,
                           .state = restored.state,
                           .attempt = restored.attempt,
                           .cause = restored.cause,
                           .ran = restored.was_started,
                           .exit_code = restored.exit_code,
                           .reason = restored.reason,
                           .details = restored.details,
                           .root = restored.root});
}

void RunProgress::observe(const Fact& fact, bool is_awaited, Instant now) {
  if (is_awaited) observe_work(fact, now);
  pending_reasons_.erase(fact.trial);
  if (fact.state == TrialState::starting) {
    starting_.push_back(fact.trial);
  } else if (const auto at = std::ranges::find(starting_, fact.trial); at != starting_.end()) {
    starting_.erase(at);
  }
  if (fact.state == TrialState::running) {
    if (!was_started_[fact.trial]) ++started_;
    was_started_[fact.trial] = true;
    ran_here_[fact.trial] = true;
  }
  if (is_unsuccessful(fact.state, fact.cause)) unsuccessful_.push_back(fact);
}

void RunProgress::observe_work(const Fact& fact, Instant now) {
  UnderWay* const at = find_under_way(fact.trial);
  if (fact.state == TrialState::starting) {
    set_under_way({.trial = fact.trial, .begun_at = now, .ran_at = std::nullopt});
  } else if (at == nullptr) {
    return;
  } else if (fact.state == TrialState::running) {
    if (!at->ran_at) at->ran_at = now;
  } else if (fact.state == TrialState::collecting) {
    at->ran_at.reset();
  } else {
    if (is_over(fact.state) && ran_here_[fact.trial]) {
      ++ended_.count;
      ended_.took += now - at->begun_at;
      ended_.last_at = now;
      ended_.worked = worked(now);
    }
    erase_under_way(fact.trial);
  }
}

RunProgress::UnderWay* RunProgress::find_under_way(TrialIndex trial) {
  const auto place = places_.find(trial);
  return place == places_.end() ? nullptr : &under_way_[place->second];
}

void RunProgress::set_under_way(const UnderWay& it) {
  if (UnderWay* const known = find_under_way(it.trial)) {
    *known = it;
    return;
  }
  places_.emplace(it.trial, under_way_.size());
  under_way_.push_back(it);
}

// The last trial takes the place of the erased trial.
void RunProgress::erase_under_way(TrialIndex trial) {
  const std::size_t place = places_.extract(trial).mapped();
  under_way_[place] = under_way_.back();
  under_way_.pop_back();
  if (place < under_way_.size()) places_[under_way_[place].trial] = place;
}

void RunProgress::set_pending_reason(TrialIndex trial, const std::string& reason) {
  if (reason.empty()) {
    pending_reasons_.erase(trial);
  } else if (std::ranges::find(starting_, trial) != starting_.end()) {
    pending_reasons_.insert_or_assign(trial, reason);
  }
}

void RunProgress::set_paused(bool is_paused, Instant now) {
  if (is_paused && !paused_since_) paused_since_ = now;
  if (!is_paused && paused_since_) paused_for_ += now - *std::exchange(paused_since_, std::nullopt);
}

Snapshot RunProgress::snapshot(std::size_t unfinished, Instant now) const {
  const auto shown = static_cast<std::ptrdiff_t>(std::min(starting_.size(), k_starting_shown_max));
  return {.trials = run_.experiment.trials.size(),
          .starting = {starting_.begin(), starting_.begin() + shown},
          .running = few_running(now),
          .pending = pending(),
          .started = started_,
          .elapsed = now - began_ + before_,
          .left = left(unfinished, now),
          .interrupter = {},
          .settings = {},
          .held = {},
          .held_by_others = {},
          .capacity = capacity_};
}

std::vector<RunningTrial> RunProgress::few_running(Instant now) const {
  std::vector<RunningTrial> running;
  for (const UnderWay& it : under_way_) {
    if (!it.ran_at) continue;
    if (running.size() == Snapshot::k_running_max) return {};
    running.push_back({.trial = it.trial, .age = since(*it.ran_at, now)});
  }
  std::ranges::sort(running, {}, [](const RunningTrial& it) { return std::pair(-it.age, it.trial); });
  return running;
}

std::vector<PendingTrials> RunProgress::pending() const {
  std::vector<PendingTrials> groups;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const auto& [trial, reason] : pending_reasons_) {
    const auto [place, is_new] = places.try_emplace(reason, groups.size());
    if (is_new) groups.push_back({.reason = reason, .first = trial, .count = 0});
    ++groups[place->second].count;
  }
  std::ranges::stable_sort(groups, std::greater(), &PendingTrials::count);
  if (groups.size() > Snapshot::k_pending_max) groups.resize(Snapshot::k_pending_max);
  return groups;
}

// Returns the seconds since this process began to drive the run, less the pauses.
Seconds RunProgress::worked(Instant now) const {
  return paused_since_.value_or(now) - began_ - paused_for_;
}

// Returns nullopt while the run is paused, if the run does not wait for the trials' ends, or if time_left()
// returns nullopt.
std::optional<Seconds> RunProgress::left(std::size_t unfinished, Instant now) const {
  if (until_ != Until::ended || paused_since_) return std::nullopt;
  WorkDone work{.ended = ended_.count,
                .ended_took = ended_.took,
                .worked = ended_.worked,
                .since_end = since(ended_.last_at, now),
                .ages = {}};
  for (const UnderWay& it : under_way_) work.ages.push_back(since(it.begun_at, now));
  work.not_begun = unfinished - std::min(unfinished, under_way_.size());
  return time_left(work);
}

}  // namespace combu
