#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "combu/schedule.hpp"
#include "schedule/ready.hpp"

namespace combu {

namespace {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

// What is known of one trial. Everything else about it is derived from the plan.
struct Progress {
  TrialState state = TrialState::waiting;
  bool in_flight = false;    // a start has been commanded and not answered
  bool was_started = false;  // it has run, if only for a moment
  bool healthy = false;      // it has been healthy once
  bool stop_asked = false;
  std::uint32_t unmet = 0;    // conditions that are not so yet
  std::uint32_t users = 0;    // trials not over that depend on it
  std::string id;             // the engine's, of what runs
  std::uint64_t seen_at = 0;  // the listing that began last before it was seen to run
};

std::string_view unmet_words(Condition condition) {
  switch (condition) {
    case Condition::started:
      return "was not started";
    case Condition::healthy:
      return "did not become healthy";
    case Condition::succeeded:
      return "did not succeed";
    case Condition::finished:
      return "is not over";
  }
  return "";
}

}  // namespace

std::string_view to_string(TrialState state) {
  switch (state) {
    case TrialState::waiting:
      return "waiting";
    case TrialState::ready:
      return "ready";
    case TrialState::starting:
      return "starting";
    case TrialState::running:
      return "running";
    case TrialState::succeeded:
      return "succeeded";
    case TrialState::failed:
      return "failed";
    case TrialState::blocked:
      return "blocked";
    case TrialState::stopped:
      return "stopped";
  }
  return "unknown";
}

struct Planner::Impl {
  Impl(RunId run_id, const Experiment& the_experiment, const Plan& the_plan, PlannerOptions the_options)
      : run(std::move(run_id)),
        experiment(the_experiment),
        plan(the_plan),
        options(the_options),
        ready(the_experiment) {
    const auto& trials = experiment.trials;
    known.resize(trials.size());
    by_name.reserve(trials.size());
    for (TrialIndex trial = 0; trial < trials.size(); ++trial) {
      by_name.emplace(trials[trial].name, trial);
      known[trial].unmet = static_cast<std::uint32_t>(plan.nodes[trial].needs.size());
      known[trial].users = static_cast<std::uint32_t>(plan.nodes[trial].needed_by.size());
      if (trials[trial].service) services.push_back(trial);
    }
    unfinished_work = trials.size() - services.size();
    counts[index(TrialState::waiting)] = trials.size();
  }

  static std::size_t index(TrialState state) { return static_cast<std::size_t>(state); }
  [[nodiscard]] const std::string& name(TrialIndex trial) const { return experiment.trials[trial].name; }

  // ---- Events

  void on(const Begin& /*event*/) {
    for (TrialIndex trial = 0; trial < known.size(); ++trial) {
      if (known[trial].unmet == 0) make_ready(trial);
    }
  }

  void on(const StartAnswered& event) {
    answered(event.trial);
    if (event.seen) see(event.trial, *event.seen);
  }

  void on(const StartFailed& event) {
    answered(event.trial);
    // The engine's events may have shown that it runs although the answer was lost.
    if (known[event.trial].state == TrialState::starting) {
      fail(event.trial, fmt::format("could not be started: {}", event.error.message()), std::nullopt);
    }
  }

  void on(const StopFailed& event) {
    if (is_over(known[event.trial].state)) return;
    fail(event.trial, fmt::format("could not be stopped: {}", event.error.message()), std::nullopt);
  }

  void on(const Seen& event) {
    if (event.sighting.key.run != run) {
      see_other(event.sighting);
    } else if (const auto trial = find(event.sighting)) {
      see(*trial, event.sighting);
    }
  }

  void on(const ListingBegins& /*event*/) { ++listings; }

  void on(const Listed& event) {
    std::vector<bool> listed(known.size());
    others.clear();
    held_by_others = {};
    others_known = true;
    for (const Sighting& sighting : event.sightings) {
      if (sighting.key.run != run) {
        see_other(sighting);
      } else if (const auto trial = find(sighting)) {
        listed[*trial] = true;
        see(*trial, sighting);
      }
    }
    for (TrialIndex trial = 0; trial < known.size(); ++trial) {
      if (!listed[trial] && known[trial].state == TrialState::running && known[trial].seen_at < listings) {
        vanish(trial);
      }
    }
  }

  void on(const Interrupt& /*event*/) { interrupted = true; }

  // ---- Sightings

  [[nodiscard]] std::optional<TrialIndex> find(const Sighting& sighting) const {
    const auto found = by_name.find(sighting.key.trial);
    if (found == by_name.end()) return std::nullopt;
    return found->second;
  }

  // An attempt of another run: what it holds is not free. One that has ended never runs again, whatever is
  // told late.
  void see_other(const Sighting& sighting) {
    if (sighting.slots.empty() || sighting.phase == Phase::created) return;
    Other& other = others[sighting.id];
    const bool runs = sighting.phase == Phase::running && !other.is_over;
    if (runs && !other.holds) held_by_others += sighting.slots;
    if (!runs && other.holds) held_by_others -= sighting.slots;
    other = {.holds = runs, .is_over = !runs};
  }

  void see(TrialIndex trial, const Sighting& sighting) {
    const TrialState state = known[trial].state;
    if (is_over(state) || sighting.phase == Phase::created) return;
    // What an engine could not start is made anew, and what is told late may be of the first.
    std::string& id = known[trial].id;
    if (state == TrialState::running && !id.empty() && id != sighting.id) return;
    if (sighting.phase == Phase::running) id = sighting.id;
    if (sighting.phase == Phase::gone) {
      // While the start is in flight this may be the engine's clearing away of what a lost call left behind.
      if (state == TrialState::running) vanish(trial);
      return;
    }
    if (state != TrialState::running) run_began(trial);
    if (sighting.phase == Phase::ended) {
      end(trial, sighting.exit_code);
    } else if (sighting.health == Health::healthy) {
      become_healthy(trial);
    } else if (sighting.health == Health::unhealthy && !known[trial].healthy) {
      block_users(trial, Condition::healthy);
    }
  }

  void run_began(TrialIndex trial) {
    known[trial].was_started = true;
    known[trial].seen_at = listings;
    move(trial, TrialState::running);
    tell({.trial = trial, .state = TrialState::running});
    satisfy(trial, Condition::started);
    stop_when_unused(trial);
  }

  void become_healthy(TrialIndex trial) {
    if (std::exchange(known[trial].healthy, true)) return;
    tell({.trial = trial, .state = TrialState::running, .healthy = true});
    satisfy(trial, Condition::healthy);
  }

  // An ended trial whose exit code nobody knows has not been seen to succeed.
  void end(TrialIndex trial, std::optional<int> exit_code) {
    if (known[trial].stop_asked) {
      finish(trial, {.trial = trial, .state = TrialState::stopped, .exit_code = exit_code});
    } else if (exit_code == 0) {
      finish(trial, {.trial = trial, .state = TrialState::succeeded, .exit_code = exit_code});
    } else {
      fail(trial, exit_code ? fmt::format("exit code {}", *exit_code) : "ended; its exit code is not known",
           exit_code);
    }
  }

  void vanish(TrialIndex trial) {
    if (known[trial].stop_asked) {
      finish(trial, {.trial = trial, .state = TrialState::stopped});
    } else {
      fail(trial, "its container was removed while it ran", std::nullopt);
    }
  }

  // ---- Changes of state

  void make_ready(TrialIndex trial) {
    move(trial, TrialState::ready);
    ready.push(trial);
  }

  void fail(TrialIndex trial, std::string reason, std::optional<int> exit_code) {
    finish(
        trial,
        {.trial = trial, .state = TrialState::failed, .exit_code = exit_code, .reason = std::move(reason)});
  }

  // A trial is over. What becomes of those around it is put on a list rather than done by recursion: a chain
  // may be long.
  void finish(TrialIndex trial, Fact fact) {
    give_back_slots(trial);
    move(trial, fact.state);
    fact.ran = known[trial].was_started;
    tell(std::move(fact));
    if (!experiment.trials[trial].service) --unfinished_work;
    over.push_back(trial);
    if (spreading) return;
    spreading = true;
    while (!over.empty()) {
      const TrialIndex next = over.back();
      over.pop_back();
      spread(next);
      if (over.empty() && unfinished_work == 0 && options.until == Until::ended) stop_unused_services();
    }
    spreading = false;
  }

  // What the end of `trial` means to those that depend on it and those that it depended on.
  void spread(TrialIndex trial) {
    const Progress& it = known[trial];
    // "finished" is so however it ended, also when it never ran: what waits for the end of others wants to
    // look at what there is.
    satisfy(trial, Condition::finished);
    if (it.state == TrialState::succeeded) {
      satisfy(trial, Condition::succeeded);
    } else {
      block_users(trial, Condition::succeeded);
    }
    if (!it.healthy) block_users(trial, Condition::healthy);
    if (!it.was_started) block_users(trial, Condition::started);
    for (const Edge& need : plan.nodes[trial].needs) {
      --known[need.trial].users;
      stop_when_unused(need.trial);
    }
  }

  void satisfy(TrialIndex trial, Condition condition) {
    for (const Edge& edge : plan.nodes[trial].needed_by) {
      if (edge.condition != condition) continue;
      Progress& user = known[edge.trial];
      if (--user.unmet == 0 && user.state == TrialState::waiting) make_ready(edge.trial);
    }
  }

  void block_users(TrialIndex trial, Condition condition) {
    for (const Edge& edge : plan.nodes[trial].needed_by) {
      if (edge.condition == condition && known[edge.trial].state == TrialState::waiting) {
        block(edge.trial, trial, condition);
      }
    }
  }

  void block(TrialIndex trial, TrialIndex cause, Condition condition) {
    TrialIndex root = cause;
    if (const auto found = roots.find(cause); found != roots.end()) root = found->second;
    roots.emplace(trial, root);
    const std::string why =
        root == cause ? fmt::format("depends on `{}`, which {}", name(root), unmet_words(condition))
                      : fmt::format("depends on `{}`, which is blocked by `{}`", name(cause), name(root));
    finish(trial, {.trial = trial, .state = TrialState::blocked, .reason = why, .root = root});
  }

  // ---- Services

  void stop_when_unused(TrialIndex trial) {
    // A service that nothing depends on serves all: it stands until the work is done.
    if (options.until == Until::ended && known[trial].users == 0 && !plan.nodes[trial].needed_by.empty())
      ask_stop(trial);
  }

  void stop_unused_services() {
    for (const TrialIndex trial : services) {
      if (known[trial].users != 0) continue;
      if (known[trial].state == TrialState::running) ask_stop(trial);
      // One that has not been started has nobody left to serve.
      if (known[trial].state == TrialState::waiting || known[trial].state == TrialState::ready) {
        finish(trial, {.trial = trial, .state = TrialState::stopped});
      }
    }
  }

  void ask_stop(TrialIndex trial) {
    if (!experiment.trials[trial].service || known[trial].state != TrialState::running) return;
    if (!std::exchange(known[trial].stop_asked, true))
      out->commands.emplace_back(StopCommand{.trial = trial});
  }

  // ---- Starts

  void answered(TrialIndex trial) {
    if (std::exchange(known[trial].in_flight, false)) --in_flight;
  }

  using Line = schedule::ReadyLines::Line;

  // The first of a line that is still ready; nullptr when there is none.
  [[nodiscard]] const schedule::ReadyLines::Place* head_of(Line& line) const {
    while (!line.places.empty() && known[line.places.top().trial].state != TrialState::ready)
      line.places.pop();
    return line.places.empty() ? nullptr : &line.places.top();
  }

  [[nodiscard]] bool has_room(const Line& line) const {
    return line.service || experiment.parallel_max == 0 || alive < experiment.parallel_max;
  }

  // What is free now, and what would be when this run's trials are over.
  [[nodiscard]] Slots free() const {
    Slots slots = *options.capacity;
    slots -= held;
    slots -= held_by_others;
    return slots;
  }
  [[nodiscard]] Slots free_in_time() const {
    Slots slots = *options.capacity;
    slots -= held_by_services;
    slots -= held_by_others;
    return slots;
  }

  // Nobody takes slots before it is known what others hold.
  [[nodiscard]] bool is_free(const Slots& slots, const Slots& now_free) const {
    return !options.capacity || slots.empty() || (others_known && slots.fit(now_free));
  }

  // The line whose head starts next; nullptr when none may.
  [[nodiscard]] Line* next_line() {
    Line* first = nullptr;    // that may start but for its slots
    Line* fitting = nullptr;  // whose slots are free, too
    const Slots now_free = options.capacity ? free() : Slots{};
    const auto better = [this](Line& line, Line* than) {
      return than == nullptr || head_of(line)->is_before(*head_of(*than));
    };
    for (Line& line : ready.lines()) {
      if (head_of(line) == nullptr || !has_room(line)) continue;
      if (better(line, first)) first = &line;
      if (is_free(line.slots, now_free) && better(line, fitting)) fitting = &line;
    }
    if (fitting == nullptr || fitting == first) return fitting;
    const TrialIndex waiting = head_of(*first)->trial;
    if (std::exchange(overtaken, std::optional(waiting)) != waiting) overtakes = 0;
    if (overtakes == k_overtakes_max && first->slots.fit(free_in_time())) return nullptr;
    overtakes = std::min(overtakes + 1, k_overtakes_max);
    return fitting;
  }

  void start_what_fits() {
    while (!interrupted && in_flight < options.starts_in_flight_max) {
      Line* line = next_line();
      if (line == nullptr) return;
      const TrialIndex trial = line->places.top().trial;
      line->places.pop();
      move(trial, TrialState::starting);
      known[trial].in_flight = true;
      ++in_flight;
      take_slots(trial);
      tell({.trial = trial, .state = TrialState::starting});
      out->commands.emplace_back(StartCommand{.trial = trial});
    }
  }

  void take_slots(TrialIndex trial) {
    const Trial& it = experiment.trials[trial];
    held += it.slots;
    if (it.service) {
      held_by_services += it.slots;
    } else {
      ++alive;
    }
  }

  void give_back_slots(TrialIndex trial) {
    const TrialState state = known[trial].state;
    if (state != TrialState::starting && state != TrialState::running) return;
    const Trial& it = experiment.trials[trial];
    held -= it.slots;
    if (it.service) {
      held_by_services -= it.slots;
    } else {
      --alive;
    }
  }

  void move(TrialIndex trial, TrialState state) {
    --counts[index(known[trial].state)];
    ++counts[index(state)];
    known[trial].state = state;
  }

  void tell(Fact fact) { out->facts.push_back(std::move(fact)); }

  [[nodiscard]] bool done() const {
    if (in_flight > 0) return false;
    if (interrupted) return true;
    const std::size_t to_start = counts[index(TrialState::waiting)] + counts[index(TrialState::ready)] +
                                 counts[index(TrialState::starting)];
    if (options.until == Until::started) return to_start == 0;
    return to_start + counts[index(TrialState::running)] == 0;
  }

  RunId run;
  const Experiment& experiment;
  const Plan& plan;
  PlannerOptions options;

  std::vector<Progress> known;
  std::unordered_map<std::string_view, TrialIndex> by_name;
  std::unordered_map<TrialIndex, TrialIndex> roots;  // of blocked trials
  schedule::ReadyLines ready;
  std::array<std::size_t, k_trial_state_count> counts{};
  std::size_t in_flight = 0;
  struct Other {
    bool holds = false;
    bool is_over = false;
  };
  std::unordered_map<std::string, Other> others;  // attempts of other runs, by the engine's id
  Slots held;
  Slots held_by_services;
  Slots held_by_others;
  bool others_known = false;            // a listing has come
  std::size_t alive = 0;                // attempts that are no services
  std::optional<TrialIndex> overtaken;  // the first that waits for slots, and how many have started before it
  std::size_t overtakes = 0;
  std::vector<TrialIndex> services;
  std::size_t unfinished_work = 0;  // trials that are not services and not over
  std::uint64_t listings = 0;
  bool interrupted = false;
  bool spreading = false;
  std::vector<TrialIndex> over;  // whose end has not been spread yet
  Step* out = nullptr;           // while step() runs
};

Planner::Planner(RunId run, const Experiment& experiment, const Plan& plan, PlannerOptions options)
    : impl_(std::make_unique<Impl>(std::move(run), experiment, plan, options)) {}
Planner::~Planner() = default;

Step Planner::step(const Event& event) {
  Step step;
  impl_->out = &step;
  std::visit([this](const auto& one) { impl_->on(one); }, event);
  impl_->start_what_fits();
  impl_->out = nullptr;
  return step;
}

bool Planner::done() const {
  return impl_->done();
}
TrialState Planner::state(TrialIndex trial) const {
  return impl_->known[trial].state;
}
const std::array<std::size_t, k_trial_state_count>& Planner::counts() const {
  return impl_->counts;
}
std::size_t Planner::starts_in_flight() const {
  return impl_->in_flight;
}
const Slots& Planner::held() const {
  return impl_->held;
}
const Slots& Planner::held_by_others() const {
  return impl_->held_by_others;
}

std::vector<Error> check_slots(const Experiment& experiment, const Slots& capacity) {
  std::vector<Error> errors;
  for (const Trial& trial : experiment.trials) {
    if (trial.slots.fit(capacity)) continue;
    errors.emplace_back(
        ErrorKind::invalid, trial.name,
        fmt::format("wants {}, but the engine has {} to give", to_string(trial.slots), to_string(capacity)));
  }
  return errors;
}

}  // namespace combu
