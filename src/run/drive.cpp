// The thread that drives a run: this thread owns the planner, and passes the planner's commands to the
// executor.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

#include "combu/run.hpp"
#include "executor.hpp"
#include "failure_reports.hpp"
#include "inbox.hpp"
#include "log_collector.hpp"
#include "messages.hpp"
#include "partial_collection.hpp"
#include "run_clock.hpp"
#include "run_progress.hpp"
#include "usage_poller.hpp"

namespace combu {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::milliseconds k_repaint{100};
// The shown elapsed time must advance even if nothing happens.
constexpr std::chrono::milliseconds k_heartbeat{1000};
// After this time without a message from the engine, combu lists the attempts, because the silence may mean
// that the stream is broken.
constexpr std::chrono::minutes k_silence_max{5};
constexpr std::size_t k_stops_in_flight_max = 32;  // a stop may take the trial's whole grace period
constexpr std::size_t k_remarks_max = 20;
constexpr std::size_t k_no_room_remarks_max = 5;

// Returns the number of attempts that the run may have to stop.
std::size_t stoppable(const Run& run, const PlannerOptions& options) {
  const auto may_be_stopped = [&](const Trial& trial) {
    return trial.service || is_monitored(run.experiment, trial) || trial.start_deadline > Seconds(0);
  };
  const auto leaves = [](const RestoredTrial& restored) { return restored.departure != Departure::no; };
  return static_cast<std::size_t>(std::ranges::count_if(run.experiment.trials, may_be_stopped) +
                                  std::ranges::count_if(options.restored, leaves));
}

// While a Steered object exists, the orders of the run's Steering go to the inbox.
class Steered {
 public:
  Steered(Steering* steering, Inbox<Message>& inbox, const std::optional<Settings>& again_with)
      : steering_(steering), again_with_(again_with) {
    if (steering_ != nullptr)
      steering_->connect([&inbox](Steering::Order order) { inbox.post(std::move(order)); });
  }
  ~Steered() {
    if (steering_ != nullptr) steering_->disconnect(again_with_);
  }
  Steered(const Steered&) = delete;
  Steered& operator=(const Steered&) = delete;

 private:
  Steering* steering_;
  const std::optional<Settings>& again_with_;
};

// Passes notes for the user on to the listener, but only the first k_remarks_max notes, and the first
// k_no_room_remarks_max notes about a lack of room.
class Remarks {
 public:
  explicit Remarks(ProgressListener& listener) : listener_(listener) {}
  void add(const std::string& line) {
    if (++count_ <= k_remarks_max) listener_.remark(line);
    if (count_ == k_remarks_max + 1) listener_.remark("further notes of this kind are not shown");
  }
  // Adds a note that collecting the trial's outputs failed and will be retried. Adds at most one note for
  // each trial.
  void add_undelivered(const Trial& trial, TrialIndex index, const std::string& fault) {
    if (undelivered_.insert(index).second)
      add(fmt::format("{}: collecting the outputs failed: {}; combu tries again", trial.name, fault));
  }
  // Adds a note that trials wait for a quota of the engine. Adds one note for each reason.
  void add_no_room(const std::string& reason) {
    if (no_room_.size() < k_no_room_remarks_max && no_room_.insert(reason).second)
      listener_.remark(
          fmt::format("the engine has no room for more trials now: {}; combu tries again", reason));
  }

 private:
  ProgressListener& listener_;
  std::size_t count_ = 0;
  std::unordered_set<TrialIndex> undelivered_;
  std::unordered_set<std::string> no_room_;
};

class Drive {
 public:
  Drive(const Run& run, const Plan& plan, const PlannerOptions& options, const DriveContext& context)
      : run_(run),
        engine_(context.engine),
        journal_(context.journal),
        listener_(context.progress),
        cache_lookup_(context.cache_lookup),
        until_(options.until),
        clock_(context.clock.now()),
        planner_(run.id, run.experiment, plan, options),
        collects_parts_(context.output_store != nullptr && run.experiment.collect.every > Seconds(0)),
        partial_(run.experiment.collect.every),
        logs_(context.telemetry != nullptr),
        usage_(context.reading),
        progress_(run, options.until, options.capacity),
        remarks_(context.progress),
        // Observations of other runs' attempts are needed only if slots are limited.
        executor_(context, run,
                  options.capacity ? Selector{} : Selector{.experiment = run.experiment.name, .run = run.id},
                  std::min(k_stops_in_flight_max, stoppable(run, options)), inbox_) {
    progress_.begin(now());
    restore(options.restored);
  }

  Outcome run(const std::stop_token& stop, Steering* steering) {
    // From here on, users can change the settings of the run. So a change can precede the planner's first
    // command.
    const Steered steered(steering, inbox_, ending_.again_with);
    inbox_.post(Event{Begin{}});  // Begin must come before the first listing
    executor_.begin(planner_.settings().starts_in_flight_max);
    const std::stop_callback on_stop(stop, [this] { inbox_.post(Event{Interrupt{}}); });
    loop();
    if (const auto& lost = ending_.lost) throw Error(lost->kind(), lost->subject(), lost->message());
    if (planner_.done() || stop.stop_requested()) ending_.again_with.reset();
    return finish(stop.stop_requested());
  }

 private:
  // Effects of the planner's steps that must wait until the journal has committed the facts.
  struct Pending {
    std::vector<Command> commands;
    std::vector<StartCommand> starts;
    std::vector<std::pair<TrialIndex, int>> ended;  // ended attempts whose logs must be stored
    std::vector<Observation> inspected;
  };
  // The result of an ended attempt, as far as the engine keeps or measures it.
  struct EngineResult {
    std::optional<Usage> usage;
    bool is_unacknowledged = false;
    bool has_log = false;       // the attempt's program has run
    bool is_concluded = false;  // the planner has reported the end, and collects nothing more of the attempt
  };
  // Reports of the engine about attempts.
  struct Reported {
    std::map<std::pair<TrialIndex, int>, EngineResult> results;  // by trial and attempt
    std::unordered_map<TrialIndex, int> digests;                 // the attempts whose digests are journaled
  };
  // Reasons why the run ends early.
  struct Ending {
    bool interrupted = false;
    std::string interrupter;             // Snapshot::interrupter
    std::optional<Settings> again_with;  // settings at the moment of Steering::leave()
    std::optional<Error> lost;           // the error after which combu gave up the engine (EngineLost)
  };
  // The moments of the last shown snapshot and of the last message from the engine.
  struct Pace {
    Steady::time_point shown{};
    bool has_changed = false;  // true if messages arrived since the last snapshot
    Steady::time_point heard = Steady::now();
  };

  [[nodiscard]] Instant now() const { return clock_.now(); }
  [[nodiscard]] const Trial& trial_of(TrialIndex trial) const { return run_.experiment.trials[trial]; }

  void restore(const std::vector<RestoredTrial>& restored) {
    for (TrialIndex trial = 0; trial < restored.size(); ++trial) {
      progress_.restore(trial, restored[trial], planner_.is_waited_for(trial), now());
      if (restored[trial].state != TrialState::running) continue;
      ran_before_.emplace_back(trial, restored[trial].attempt);
      collect_parts_of(trial, restored[trial].attempt);
    }
  }

  // ---- The loop

  void loop() {
    std::vector<Message> messages;
    while (!is_done() && !is_left()) {
      inbox_.take(messages, patience());
      for (const Message& message : messages) {
        // UsagePolled and PartCollected do not show that the engine's stream of events works.
        if (std::holds_alternative<UsagePolled>(message) || std::holds_alternative<PartCollected>(message))
          continue;
        pace_.has_changed = true;
        pace_.heard = Steady::now();
      }
      break_silence();
      for (Message& message : messages) {
        if (const auto* lost = std::get_if<EngineLost>(&message)) {
          ending_.lost = lost->error;
          journal_.commit();
          show();
          return;
        }
        std::visit([this](const auto& one) { take(one); }, message);
      }
      if (wake_ && *wake_ <= now()) apply(Tick{});
      give_due_orders();
      const bool shows = is_done() || is_left() || is_time_to_show();
      if (shows || !pending_.commands.empty()) carry_on();
      if (shows) show();
    }
  }

  [[nodiscard]] bool is_done() const { return planner_.done() && has_begun_ && logs_.pending() == 0; }
  [[nodiscard]] bool is_left() const { return ending_.again_with && planner_.starts_in_flight() == 0; }

  [[nodiscard]] std::chrono::milliseconds patience() const {
    const bool polls_soon = usage_.is_due_before(now() + k_heartbeat);
    const std::chrono::milliseconds usual = pace_.has_changed || polls_soon ? k_repaint : k_heartbeat;
    if (!wake_) return usual;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake_ - now());
    return std::clamp(left, std::chrono::milliseconds(0), usual);
  }

  void break_silence() {
    if (Steady::now() - pace_.heard < k_silence_max) return;
    pace_.heard = Steady::now();
    apply(ListingBegins{});
    executor_.list();
  }

  void give_due_orders() {
    for (const IngestLog& order : logs_.due(now())) executor_.ingest_log(order);
    const bool is_busy = planner_.starts_in_flight() > 0 || logs_.pending() > 0;
    while (const auto poll = usage_.next(now(), is_busy)) executor_.poll_usage(*poll);
    while (const auto part = partial_.next(now())) executor_.collect_part(*part);
  }

  // ---- Messages

  void take(const Event& event) {
    if (const auto* collected = std::get_if<Collected>(&event)) {
      report(failures_.add_tail(collected->trial, {}));  // if the log is empty, no LogTail arrives
      if (!collected->fault.empty() && !collected->by_attempt && !collected->is_lost)
        remarks_.add_undelivered(trial_of(collected->trial), collected->trial, collected->fault);
      if (logs_.holds(*collected)) return;
    }
    apply(event);
    if (const auto* listed = std::get_if<Listed>(&event)) poll_restored(*listed);
  }
  void take(const EngineLost& /*lost*/) {}
  void take(const LogTail& tail) { report(failures_.add_tail(tail.trial, tail.lines)); }
  void take(const OutputsCollected& collected) {
    journal_.outputs_collected(collected.trial, collected.attempt, collected.collection);
    for (const std::string& note : notes_of(trial_of(collected.trial).name, collected.collection))
      remarks_.add(note);
  }
  void take(const PartCollected& part) {
    const PartialCollection::Done done = partial_.done(part.trial, !part.fault.empty(), now());
    if (done.is_first_fault)
      remarks_.add(
          fmt::format("{}: collecting partial outputs failed: {}; combu tries again at the next interval",
                      trial_of(part.trial).name, part.fault));
    if (done.held) give(*done.held);
  }
  void take(const CacheLookedUp& looked_up) {
    for (const CacheResult& one : looked_up.results) {
      journal_.cache_result(one);
      apply(CacheLookupAnswered{
          .trial = one.trial,
          .done = one.run.empty() ? "" : fmt::format("equal to `{}` of run {}", one.name, one.run)});
    }
  }
  void take(const Steering::Order& order) {
    if (order.leave) {
      ending_.again_with = planner_.settings();
      remarks_.add("`combu apply` is changing the run: no trial starts until `apply` has finished");
    }
    if (!order.adjust.interrupter.empty()) ending_.interrupter = order.adjust.interrupter;
    apply(order.adjust);
    order.answer(planner_.settings());
  }
  void take(const UsagePolled& polled) { usage_.answer(polled, now()); }
  void take(const LogIngested& ingested) {
    const auto stored = logs_.stored(ingested, !ending_.interrupted, now());
    if (stored.is_final && !ingested.fault.empty())
      take(TrialNote{
          ingested.order.trial,
          fmt::format(
              "storing the trial's log failed: {}; `combu logs` can read the log while the container exists",
              ingested.fault)});
    if (stored.is_last) publish_succeeded();
    if (stored.held) apply(*stored.held);
  }
  void take(const LogStorageChanged& storage) {
    remarks_.add(storage.fault.empty()
                     ? "storing logs and metrics works again"
                     : fmt::format("storing logs and metrics failed: {}; combu tries again", storage.fault));
  }
  void take(const TrialNote& note) { remarks_.add(trial_of(note.trial).name + ": " + note.text); }

  void report(const std::optional<FailureReports::Report>& failure) {
    if (failure) listener_.failure(failure->fact, failure->tail);
  }

  // Begins to poll the usage of attempts that an earlier process started. The engine ids of these attempts
  // are in the first listing.
  void poll_restored(const Listed& listed) {
    if (ran_before_.empty()) return;
    std::unordered_map<std::string_view, const Observation*> seen;
    for (const Observation& one : listed.observations)
      if (one.key.run == run_.id && one.phase == Phase::running) seen.emplace(one.key.trial, &one);
    for (const auto& [trial, attempt] : std::exchange(ran_before_, {})) {
      const auto found = seen.find(trial_of(trial).name);
      if (found != seen.end() && found->second->key.attempt == attempt && stays_for(trial))
        usage_.begin(trial, attempt, found->second->id, now());
    }
  }

  // ---- Steps of the planner

  void apply(const Event& event) {
    has_begun_ = true;
    if (std::holds_alternative<Interrupt>(event)) {
      ending_.interrupted = true;
      executor_.interrupt_starts();
    }
    if (const auto* answer = std::get_if<StartAnswered>(&event)) {
      if (const auto* running = std::get_if<Running>(&answer->result)) {
        journal_.started(answer->trial, running->observation);
        if (trial_of(answer->trial).cache.on)
          reported_.digests[answer->trial] = running->observation.key.attempt;
      }
      if (const auto* no_room = std::get_if<NoRoom>(&answer->result)) remarks_.add_no_room(no_room->reason);
    }
    note_results(event);
    Step step = planner_.step(event, now());
    if (std::holds_alternative<Adjust>(event))
      executor_.allow_starts(planner_.settings().starts_in_flight_max);
    progress_.set_paused(planner_.settings().paused, now());
    wake_ = step.wake;
    for (Command& command : step.commands)
      if (auto* collect = std::get_if<CollectCommand>(&command)) failures_.expect_tail(*collect);
    for (Fact& fact : step.facts) note(fact);
    std::ranges::move(step.commands, std::back_inserter(pending_.commands));
  }

  // Notes the starts that the engine had accepted before, the results that the engine keeps until the run has
  // stored them, the usage that it has measured, and why attempts are pending.
  void note_results(const Event& event) {
    if (const auto* observed = std::get_if<Observed>(&event)) {
      note_result(observed->observation, true);
    } else if (const auto* inspected = std::get_if<Inspected>(&event)) {
      note_result(inspected->observation);
    } else if (const auto* answer = std::get_if<StartAnswered>(&event)) {
      if (const auto* running = std::get_if<Running>(&answer->result)) note_result(running->observation);
    } else if (const auto* listed = std::get_if<Listed>(&event)) {
      for (const Observation& one : listed->observations) note_result(one);
    }
  }
  void note_result(const Observation& seen, bool is_observed = false) {
    if (seen.key.run != run_.id) return;
    if (seen.phase == Phase::pending) note_pending(seen);
    // The engine had accepted the start before it could begin.
    if (seen.phase == Phase::running && seen.start_took && is_observed)
      if (const auto trial = planner_.find(seen.key.trial)) journal_.started(*trial, seen);
    note_digest(seen);
    if (seen.phase != Phase::ended) return;
    if (!seen.usage && !seen.is_unacknowledged) return;
    const auto trial = planner_.find(seen.key.trial);
    if (!trial) return;
    const bool is_recorded =
        is_over(planner_.state(*trial));  // by an earlier process, or the result is repeated
    const auto [result, is_new] = reported_.results.try_emplace(
        {*trial, seen.key.attempt},
        EngineResult{.usage = seen.usage,
                     .is_unacknowledged = seen.is_unacknowledged,
                     .has_log = seen.exit_code && seen.placement.start_error.empty(),
                     .is_concluded = is_recorded});
    if (is_new && is_recorded) pending_.ended.emplace_back(*trial, seen.key.attempt);
  }

  // Journals the digest of an attempt's image, once for each attempt of a trial with `cache`. An engine that
  // answers a start with Accepted reports the digest later. The digest must be journaled before the success
  // of the trial, which another trial would reuse.
  void note_digest(const Observation& seen) {
    if (seen.digest.empty()) return;
    const auto trial = planner_.find(seen.key.trial);
    if (!trial || !trial_of(*trial).cache.on || is_over(planner_.state(*trial))) return;
    int& attempt = reported_.digests[*trial];
    if (std::exchange(attempt, seen.key.attempt) != seen.key.attempt) journal_.started(*trial, seen);
  }

  void note_pending(const Observation& seen) {
    const auto trial = planner_.find(seen.key.trial);
    if (trial) progress_.set_pending_reason(*trial, seen.placement.pending_reason);
  }

  // Lets the engine forget the attempts whose ends, logs and outputs are stored. While a start is in flight,
  // it may be repeated, and the repeated start must find the ended attempt.
  void acknowledge_results() {
    std::vector<Key> keys;
    std::erase_if(reported_.results, [&](const auto& one) {
      const auto& [trial, attempt] = one.first;
      const EngineResult& result = one.second;
      if (!result.is_concluded || planner_.is_start_in_flight(trial)) return false;
      if (!result.is_unacknowledged) return true;
      if (result.has_log && !is_log_safe(trial, attempt)) return false;
      keys.push_back({.run = run_.id, .trial = trial_of(trial).name, .attempt = attempt});
      return true;
    });
    if (!keys.empty()) engine_.acknowledge(keys);
  }

  // True if the engine may remove the ended attempt without the loss of its log. A log that is not stored
  // stays with its container, and `combu logs` reads it there.
  [[nodiscard]] bool is_log_safe(TrialIndex trial, int attempt) const {
    if (failures_.awaits_tail(trial)) return false;
    if (!trial_of(trial).has_telemetry()) return true;
    return logs_.is_enabled() ? logs_.is_stored(trial, attempt) : !trial_of(trial).has_own_container();
  }

  void note(Fact& fact) {
    if (reports_stop(fact)) return publish(fact);
    follow_attempt(fact);
    progress_.observe(fact, planner_.is_waited_for(fact.trial), now());
    publish(fact);
    if (is_failure(fact)) report(failures_.add(fact));
    const bool has_ended =
        is_over(fact.state) || fact.state == TrialState::retrying || fact.state == TrialState::collecting;
    if (has_ended && fact.exit_code && stays_for(fact.trial))
      pending_.ended.emplace_back(fact.trial, fact.attempt);
    if (fact.state == TrialState::succeeded && cache_lookup_ != nullptr && trial_of(fact.trial).cache.on)
      succeeded_.insert(fact.trial);
  }

  void publish(const Fact& fact) {
    journal_.fact(fact);
    listener_.fact(fact);
  }

  // Begins or ends the polling of an attempt's usage and partial outputs.
  void follow_attempt(Fact& fact) {
    if (fact.state == TrialState::running) {
      const bool has_become_healthy = fact.id.empty();
      if (has_become_healthy || !stays_for(fact.trial)) return;
      collect_parts_of(fact.trial, fact.attempt);
      usage_.begin(fact.trial, fact.attempt, fact.id, now());
    } else {
      partial_.end(fact.trial);
      if (const auto usage = usage_.end(fact.trial)) fact.usage = usage;
      const auto result = reported_.results.find({fact.trial, fact.attempt});
      if (result == reported_.results.end()) return;
      if (result->second.usage) fact.usage = result->second.usage;
      result->second.is_concluded = !is_alive(fact.state) && fact.state != TrialState::collecting;
    }
  }

  // True if drive() does not return before the trial has ended.
  [[nodiscard]] bool stays_for(TrialIndex trial) const {
    return until_ == Until::ended || is_monitored(run_.experiment, trial_of(trial));
  }

  void collect_parts_of(TrialIndex trial, int attempt) {
    if (collects_parts_ && !trial_of(trial).outputs.empty()) partial_.begin(trial, attempt, now());
  }

  // ---- Commands

  // Commits the facts, and then passes on the commands that follow from these facts.
  void carry_on() {
    journal_.commit();
    Pending pending = std::exchange(pending_, {});
    for (const Command& command : pending.commands)
      std::visit([this](const auto& one) { give(one); }, command);
    send_starts();
    for (const auto& [trial, attempt] : pending.ended) ingest_log(trial, attempt);
    publish_succeeded();
    std::ranges::move(pending_.inspected, std::back_inserter(pending.inspected));
    pending_.inspected.clear();
    if (!pending.inspected.empty()) executor_.inspect(std::move(pending.inspected));
    acknowledge_results();
  }

  void give(const StartCommand& command) { pending_.starts.push_back(command); }
  void give(const StopCommand& command) {
    partial_.end(command.trial);
    executor_.stop(command);
  }
  void give(const GiveUpCommand& command) {
    send_starts();
    executor_.give_up_start(command.trial);
  }
  void give(const InspectCommand& command) { pending_.inspected.push_back(command.observation); }
  void give(const CollectCommand& command) {
    if (command.outputs && partial_.holds_back(command)) return;
    ingest_log(command.trial, command.attempt);
    if (!command.outputs || command.failed) logs_.hold_next(command.trial);
    if (command.outputs) {
      executor_.collect_outputs(command);
    } else if (command.tail) {
      executor_.read_tail(command);
    } else {
      inbox_.post(Event{Collected{command.trial}});
    }
  }
  void give(const CacheLookupCommand& command) {
    if (cache_lookup_ != nullptr) {
      executor_.look_up(command.trial);
    } else {
      inbox_.post(Event{CacheLookupAnswered{.trial = command.trial}});
    }
  }

  // Sends all pending starts to the executor as one batch. A start must be sent before it can be given up.
  void send_starts() {
    if (!pending_.starts.empty()) executor_.start(std::exchange(pending_.starts, {}));
  }

  void ingest_log(TrialIndex trial, int attempt) {
    if (!trial_of(trial).has_telemetry()) return;
    if (const auto order = logs_.end(trial, attempt)) executor_.ingest_log(*order);
  }

  // Publishes succeeded trials whose logs are stored, so that later cache lookups find these trials.
  void publish_succeeded() {
    std::erase_if(succeeded_, [this](TrialIndex trial) {
      if (logs_.is_storing(trial)) return false;
      cache_lookup_->done(trial);
      return true;
    });
  }

  // ---- Display

  [[nodiscard]] bool is_time_to_show() const {
    return Steady::now() - pace_.shown >= (pace_.has_changed ? k_repaint : k_heartbeat);
  }

  void show() {
    pace_.shown = Steady::now();
    pace_.has_changed = false;
    listener_.snapshot(snapshot());
  }

  [[nodiscard]] Snapshot snapshot() const {
    Snapshot snapshot = progress_.snapshot(planner_.unfinished(), now());
    snapshot.counts = planner_.counts();
    snapshot.starts_in_flight = planner_.starts_in_flight();
    snapshot.interrupted = ending_.interrupted;
    snapshot.interrupter = ending_.interrupter;
    snapshot.may_start_more = planner_.may_start_more();
    snapshot.settings =
        // While `combu apply` changes the run, starts are paused. The snapshot does not show this pause.
        ending_.again_with.value_or(planner_.settings());
    snapshot.held = planner_.held();
    snapshot.held_by_others = planner_.held_by_others();
    return snapshot;
  }

  Outcome finish(bool stopped) {
    for (const FailureReports::Report& failure : failures_.rest())
      listener_.failure(failure.fact, failure.tail);
    Outcome outcome{.last = snapshot(),
                    .unsuccessful = progress_.take_unsuccessful(),
                    .interrupted = stopped,
                    .left = ending_.again_with.has_value(),
                    .undelivered = planner_.undelivered()};
    for (TrialIndex trial = 0; trial < run_.experiment.trials.size(); ++trial) {
      if (planner_.state(trial) == TrialState::running) outcome.running.push_back(trial);
      if (planner_.is_pending(trial)) ++outcome.pending;
    }
    return outcome;
  }

  const Run& run_;
  Engine& engine_;
  Journal& journal_;
  ProgressListener& listener_;
  CacheLookup* cache_lookup_;
  const Until until_;
  RunClock clock_;
  Planner planner_;
  bool collects_parts_;  // true if outputs are also collected while attempts run
  PartialCollection partial_;
  LogCollector logs_;
  UsagePoller usage_;
  RunProgress progress_;
  FailureReports failures_;
  // Attempts that an earlier process left running; empty after the first listing.
  std::vector<std::pair<TrialIndex, int>> ran_before_;
  Pending pending_;
  Reported reported_;
  std::set<TrialIndex> succeeded_;  // succeeded trials with `cache` that are not published yet
  Remarks remarks_;
  bool has_begun_ = false;
  Ending ending_;
  std::optional<Instant> wake_;
  Pace pace_;
  Inbox<Message> inbox_;
  Executor executor_;
};

}  // namespace

Outcome drive(const Run& run, const Plan& plan, const PlannerOptions& options, const DriveContext& context) {
  return Drive(run, plan, options, context).run(context.stop, context.steering);
}

}  // namespace combu
