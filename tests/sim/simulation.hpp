#pragma once
// A run on the simulated engine in simulated time, on one thread. Uses the real planner and the real plan; a
// loop replaces the threads of drive(). The same options and seed give the same run.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "combu/schedule.hpp"
#include "combu/simulated.hpp"

namespace combu::test {

class Simulation {
 public:
  Simulation(const Run& run, const Plan& plan, const PlannerOptions& planner, const SimulationOptions& world)
      : run_(run),
        plan_(plan),
        options_(planner),
        world_(world),
        planner_(std::make_unique<Planner>(run.id, run.experiment, plan, planner)) {}

  // Returns how many of a step's facts are recorded before its commands are given. If this is not all of
  // them, the process dies there, and play() returns.
  using Keep = std::function<std::size_t(const std::vector<Fact>&)>;
  void set_keep(Keep keep) { keep_ = std::move(keep); }
  [[nodiscard]] bool has_died() const { return died_; }

  // Another process continues from the record. Every second one of the starts under way has reached the
  // engine.
  std::vector<std::string> resume(const std::vector<RestoredTrial>& restored) {
    bool reached = false;
    for (const auto& [order, start] : std::exchange(starts_under_way_, {}))
      if ((reached = !reached)) reach(start);
    later_ = {};
    told_.clear();
    world_.unwatch(watch_);
    watched_ = false;
    wake_.reset();
    died_ = false;
    options_.restored = restored;
    for (TrialIndex trial = 0; trial < restored.size(); ++trial) {
      const bool comes_again =
          restored[trial].state == TrialState::starting || restored[trial].state == TrialState::waiting;
      commanded_[trial] = restored[trial].attempt - (comes_again ? 1 : 0);
    }
    planner_ = std::make_unique<Planner>(run_.id, run_.experiment, plan_, options_);
    return play();
  }

  // Plays until the planner is done. Returns the violated invariants; empty if there are none.
  std::vector<std::string> play() {
    (void)prepare();
    at(Seconds(0), [this] { watch(); });
    at(k_silence_max, [this] { break_silence(); });
    apply(Begin{});
    while (!died_ && !planner_->done() && broken_.empty()) {
      if (!step()) {
        broken_.push_back("nothing will happen any more, and the run is not done:" + unfinished());
      }
    }
    return broken_;
  }

  [[nodiscard]] const Planner& planner() const { return *planner_; }
  [[nodiscard]] const std::map<TrialIndex, Fact>& last_facts() const { return last_; }
  [[nodiscard]] std::size_t starts_in_flight_seen_max() const { return in_flight_max_; }
  // Returns the causes of failed attempts.
  [[nodiscard]] const std::map<Cause, std::size_t>& causes() const { return causes_; }
  [[nodiscard]] Seconds elapsed() const { return now_ - Instant{}; }
  World& world() { return world_; }
  [[nodiscard]] Instant now() const { return now_; }

  // Repeats the call until the engine answers despite its faults: returns every attempt that exists.
  std::vector<Observation> truth(const Selector& selector = {}) {
    return persist<std::vector<Observation>>([&] { return world_.list(selector, now_); });
  }
  Released release(const Selector& selector) {
    return persist<Released>([&] { return world_.release(selector, {}, now_); });
  }

 private:
  static constexpr Seconds k_pause{0.3};        // before a repeat
  static constexpr Seconds k_silence_max{300};  // the same as in drive()
  static constexpr Seconds k_life_max{1e7};

  struct Later {
    Instant at;
    std::uint64_t order;
    std::function<void()> action;
    bool operator>(const Later& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  void at(Seconds from_now, std::function<void()> action) {
    later_.push(
        {now_ + std::chrono::duration_cast<Instant::duration>(from_now), ++order_, std::move(action)});
  }

  // Returns the first few trials that are not over.
  [[nodiscard]] std::string unfinished() const {
    std::string text;
    int left = 5;
    for (TrialIndex trial = 0; trial < run_.experiment.trials.size() && left > 0; ++trial) {
      const TrialState state = planner_->state(trial);
      if (is_over(state)) continue;
      text += " " + run_.experiment.trials[trial].name + " " + std::string(to_string(state));
      --left;
    }
    return text;
  }

  bool step() {
    const auto due = world_.next_due();
    if (later_.empty() && !due) return false;
    if (Seconds(now_ - Instant{}) > k_life_max) return false;
    if (due && (later_.empty() || *due < later_.top().at)) {
      now_ = std::max(now_, *due);
      world_.advance(now_);
    } else {
      const Later next = later_.top();
      later_.pop();
      now_ = std::max(now_, next.at);
      next.action();
    }
    drain();
    return true;
  }

  void drain() {
    while (!told_.empty() && !died_) {
      heard_ = now_;
      for (const Observation& observation : std::exchange(told_, {})) apply(Observed{observation});
    }
  }

  template <class Result>
  Result persist(const std::function<Result()>& verb) {
    while (true) {
      try {
        return verb();
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::unavailable) throw;
        now_ += std::chrono::duration_cast<Instant::duration>(k_pause);
      }
    }
  }

  std::vector<Error> prepare() {
    return persist<std::vector<Error>>([&] { return world_.prepare(run_, now_); });
  }

  // The same selection as in drive().
  [[nodiscard]] Selector selector() const {
    return options_.capacity ? Selector{} : Selector{.run = run_.id};
  }

  void watch() {
    try {
      watch_ = world_.watch(
          selector(), [this](const Observation& observation) { told_.push_back(observation); },
          [this] { at(k_pause, [this] { watch(); }); }, now_);
      // A restart of an engine that places attempts ends none (see Facts::began_at).
      list(std::exchange(watched_, true) && !world_.options().places);
    } catch (const Error&) {
      at(k_pause, [this] { watch(); });
    }
  }

  void break_silence() {
    if (now_ - heard_ >= k_silence_max) list(false);
    at(k_silence_max, [this] { break_silence(); });
  }

  void list(bool after_break) {
    apply(ListingBegins{.after_break = after_break});
    finish_list(after_break);
  }

  void finish_list(bool after_break) {
    try {
      std::vector<Observation> listing = world_.list(selector(), now_);
      at(Seconds(0.01), [this, listing, after_break] {
        apply(Listed{.observations = listing, .after_break = after_break});
      });
    } catch (const Error&) {
      at(k_pause, [this, after_break] { finish_list(after_break); });
    }
  }

  void carry_out(const StartCommand& command) {
    try {
      Trial trial = run_.experiment.trials[command.trial];
      trial.slots = command.slots;
      const StartResult result = world_.start(run_, trial, command.attempt, now_);
      starts_under_way_.erase(command.trial);
      if (std::holds_alternative<TakenByOther>(result) || std::holds_alternative<NoRoom>(result))
        commanded_[command.trial] = command.attempt - 1;
      apply(StartAnswered{.trial = command.trial, .result = result});
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::unavailable) {
        at(k_pause, [this, command] { carry_out(command); });
      } else {
        starts_under_way_.erase(command.trial);
        apply(StartFailed{.trial = command.trial, .error = error});
      }
    }
  }

  // Starts an attempt, and ignores the answer.
  void reach(const StartCommand& command) {
    try {
      Trial trial = run_.experiment.trials[command.trial];
      trial.slots = command.slots;
      (void)world_.start(run_, trial, command.attempt, now_);
    } catch (const Error&) {
    }
  }

  void carry_out(const StopCommand& command) {
    try {
      world_.stop(
          {.run = run_.id, .trial = run_.experiment.trials[command.trial].name, .attempt = command.attempt},
          now_);
      apply(StopAnswered{.trial = command.trial, .attempt = command.attempt});
    } catch (const Error&) {
      at(k_pause, [this, command] { carry_out(command); });
    }
  }

  void carry_out(const CollectCommand& command) {
    Collected collected{.trial = command.trial};
    if (command.outputs) collect_trial_outputs(command, collected);
    if (collected.fault.empty()) home_[command.trial] = command.attempt;
    apply(collected);
  }

  // The disk fails as often as the engine.
  void collect_trial_outputs(const CollectCommand& command, Collected& collected) {
    const Trial& trial = run_.experiment.trials[command.trial];
    try {
      for (const Output& output : trial.outputs) {
        const Key key{.run = run_.id, .trial = trial.name, .attempt = command.attempt};
        if (!world_.files(key, output.path, now_).empty() || command.failed) continue;
        collected.fault = "there is no such output";
        collected.by_attempt = true;
      }
    } catch (const Error& error) {
      collected.fault = error.what();
      collected.by_attempt = error.kind() == ErrorKind::not_found;
    }
  }

  void give(const StartCommand& command) {
    check_needs(command);
    starts_under_way_.emplace(command.trial, command);
    at(world_.draw_latency(), [this, command] { carry_out(command); });
  }
  void give(const StopCommand& command) {
    at(Seconds(0.01), [this, command] { carry_out(command); });
  }
  // The start is answered anyway.
  void give(const GiveUpCommand& /*command*/) {}
  void give(const InspectCommand& command) {
    at(Seconds(0.01), [this, command] { apply(Inspected{command.observation}); });
  }
  // Every lookup is a cache miss.
  void give(const CacheLookupCommand& command) {
    at(Seconds(0.01), [this, command] { apply(CacheLookupAnswered{.trial = command.trial}); });
  }
  void give(const CollectCommand& command) {
    at(Seconds(0.01), [this, command] { carry_out(command); });
  }

  void apply(const Event& event) {
    if (died_) return;
    const Step step = planner_->step(event, now_);
    if (step.wake && (!wake_ || *step.wake != *wake_)) {
      at(*step.wake - now_, [this] {
        wake_.reset();
        apply(Tick{});
      });
    }
    wake_ = step.wake;
    const std::size_t kept = keep_ ? keep_(step.facts) : step.facts.size();
    for (std::size_t i = 0; i < kept; ++i) note(step.facts[i]);
    died_ = kept < step.facts.size();
    if (died_) return;
    for (const Command& command : step.commands) std::visit([this](const auto& one) { give(one); }, command);
    in_flight_max_ = std::max(in_flight_max_, planner_->starts_in_flight());
    if (planner_->starts_in_flight() > options_.starts_in_flight_max)
      broken_.emplace_back("too many starts in flight");
  }

  void note(const Fact& fact) {
    if (const auto before = last_.find(fact.trial); before != last_.end() && is_over(before->second.state)) {
      broken_.push_back(run_.experiment.trials[fact.trial].name + " changed after it was over");
    }
    count(fact);
    const Trial& trial = run_.experiment.trials[fact.trial];
    if (fact.state == TrialState::succeeded && !trial.outputs.empty() && home_[fact.trial] != fact.attempt)
      broken_.push_back(trial.name + " has succeeded without its outputs");
    if (fact.cause != Cause::none) ++causes_[fact.cause];
    if (fact.state == TrialState::running) ran_[fact.trial] = true;
    if (fact.healthy) healthy_[fact.trial] = true;
    last_[fact.trial] = fact;
  }

  // Checks that the attempts that are alive, by the reported facts, hold no more slots than there are.
  void count(const Fact& fact) {
    const Trial& trial = run_.experiment.trials[fact.trial];
    const bool lives = fact.state == TrialState::starting || fact.state == TrialState::running;
    if (std::exchange(lives_[fact.trial], lives) == lives) return;
    if (fact.state == TrialState::starting) slots_[fact.trial] = fact.slots;
    if (lives) held_ += slots_[fact.trial];
    if (!lives) held_ -= slots_[fact.trial];
    if (!trial.service) alive_ += lives ? 1 : -1;
    if (options_.capacity && !held_.fit(*options_.capacity)) broken_.emplace_back("slots were given twice");
    std::vector<std::string> gpus = held_.gpus;
    std::ranges::sort(gpus);
    if (std::ranges::adjacent_find(gpus) != gpus.end()) broken_.emplace_back("a GPU was given twice");
    if (options_.capacity && lives && slots_[fact.trial].gpus.size() < trial.gpus->count)
      broken_.emplace_back("a GPU is missing");
    const auto parallel_max = static_cast<std::ptrdiff_t>(run_.experiment.parallel_max);
    if (parallel_max > 0 && alive_ > parallel_max) broken_.emplace_back("too many attempts alive");
  }

  // Checks that a trial's dependencies are met before it starts, by the reported facts.
  void check_needs(const StartCommand& command) {
    const TrialIndex trial = command.trial;
    if (command.attempt <= std::exchange(commanded_[trial], command.attempt))
      broken_.push_back(run_.experiment.trials[trial].name + " was started twice");
    if (world_.is_running(run_.experiment.trials[trial].name) && command.attempt > 1)
      broken_.push_back(run_.experiment.trials[trial].name + " has two attempts alive");
    for (const Edge& need : plan_.nodes[trial].needs) {
      const TrialState state = last_.contains(need.trial) ? last_[need.trial].state : TrialState::waiting;
      const bool met = (need.condition == Condition::started && ran_[need.trial]) ||
                       (need.condition == Condition::healthy && healthy_[need.trial]) ||
                       (need.condition == Condition::succeeded && state == TrialState::succeeded) ||
                       (need.condition == Condition::finished && is_over(state));
      if (!met) broken_.push_back(run_.experiment.trials[trial].name + " was started before what it needs");
    }
  }

  const Run& run_;
  const Plan& plan_;
  PlannerOptions options_;
  World world_;
  World::WatchId watch_ = 0;
  std::unique_ptr<Planner> planner_;
  Keep keep_;
  bool died_ = false;
  std::map<TrialIndex, StartCommand> starts_under_way_;
  std::map<TrialIndex, int> home_;  // the attempt whose outputs are collected
  Instant now_{};
  Instant heard_{};
  bool watched_ = false;
  std::uint64_t order_ = 0;
  std::priority_queue<Later, std::vector<Later>, std::greater<>> later_;
  std::vector<Observation> told_;
  std::map<TrialIndex, Fact> last_;
  std::map<Cause, std::size_t> causes_;
  std::map<TrialIndex, bool> ran_;
  std::map<TrialIndex, bool> healthy_;
  std::map<TrialIndex, int> commanded_;
  std::map<TrialIndex, bool> lives_;
  std::map<TrialIndex, Slots> slots_;
  std::optional<Instant> wake_;
  Slots held_;
  std::ptrdiff_t alive_ = 0;
  std::size_t in_flight_max_ = 0;
  std::vector<std::string> broken_;
};

}  // namespace combu::test
