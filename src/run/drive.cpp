#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>

#include "combu/inputs.hpp"
#include "combu/run.hpp"
#include "inbox.hpp"
#include "look_pause.hpp"
#include "so_far.hpp"
#include "time_left.hpp"

namespace combu {

namespace {

using Steady = std::chrono::steady_clock;
constexpr std::chrono::milliseconds k_repaint{100};
constexpr std::chrono::milliseconds k_heartbeat{1000};  // elapsed time goes on while nothing happens
constexpr std::chrono::minutes k_silence_max{5};   // then the engine is asked: a dead stream is silent, too
constexpr std::size_t k_stops_in_flight_max = 32;  // each takes its grace: they have workers of their own
constexpr std::size_t k_starting_shown_max = 32;
constexpr std::size_t k_recalled_at_once = 1000;  // the first can start while the next are looked for

constexpr std::chrono::seconds k_look_pause_busy{1};
constexpr std::size_t k_lookers = 2;

constexpr int k_log_tries_max = 6;  // 1, 2, 4, … seconds apart

constexpr std::size_t k_collectors = 2;
constexpr std::size_t k_bearers = 4;  // a disk takes what a few bring, and a large output holds up only one
constexpr std::size_t k_remarks_max = 20;
constexpr std::size_t k_tails_max = 20;  // as many failures as a person is shown
constexpr std::int64_t k_tail_lines = 5;
constexpr std::size_t k_tail_line_max = 500;
constexpr std::size_t k_tail_size_max = std::size_t{64} << 10U;  // of these lines: one may have any size

// Nobody answers any more, although the engine's own retries were spent.
struct EngineLost {
  Error error;
};
// The last lines of a failed attempt's log.
struct Tail {
  TrialIndex trial;
  std::vector<std::string> lines;
};
// What an attempt uses; nullopt when it could not be had.
struct LookOrder {
  TrialIndex trial;
  int attempt;
  std::string id;
  Seconds pause;  // before the next look
};
struct Used {
  LookOrder of;
  std::optional<Usage> usage;
  Bytes brought;  // of its log
  Seconds took{0};
};
// All that is left of the log of an attempt that has ended.
struct LogOrder {
  TrialIndex trial;
  int attempt;
  int tries = 0;
};
struct LogTaken {
  LogOrder of;
  std::string fault;  // empty: it is
};
// From here on logs cannot be kept, or can again.
struct LogsKept {
  std::string fault;  // empty: they can
};
struct Note {
  TrialIndex trial;
  std::string text;
};
// What has come home of an attempt that is over.
struct CameHome {
  TrialIndex trial;
  int attempt;
  Taken taken;
};
// What an attempt has left so far has been taken home, but for `fault`.
struct TookSoFar {
  TrialIndex trial;
  std::string fault;
};
// What has been done before of some trials.
struct Recollected {
  std::vector<Recollection> of;
};
using Message = std::variant<Event, EngineLost, Tail, Used, LogTaken, LogsKept, Note, CameHome, TookSoFar,
                             Recollected, Steering::Order>;

struct ListOrder {};
// What has ended, and when.
struct LookBackOrder {
  std::vector<Sighting> ended;
};
using Order = std::variant<StartCommand, StopCommand, CollectCommand, SoFar::Take, ListOrder, LookOrder,
                           LookBackOrder, LogOrder>;

// Orders go to the workers in the order in which they were given.
class OrderQueue {
 public:
  void push(Order order) {
    {
      const std::scoped_lock lock(mutex_);
      orders_.push_back(std::move(order));
    }
    filled_.notify_one();
  }

  // nullopt when `stop` was set.
  std::optional<Order> pop(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!filled_.wait(lock, stop, [this] { return !orders_.empty(); })) return std::nullopt;
    Order order = std::move(orders_.front());
    orders_.pop_front();
    return order;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any filled_;
  std::deque<Order> orders_;
};

// Trials that are to be looked for among what has been done: many at once cost little more than one.
class RecallQueue {
 public:
  void push(TrialIndex trial) {
    {
      const std::scoped_lock lock(mutex_);
      trials_.push_back(trial);
    }
    filled_.notify_one();
  }

  // At least one, and `count_max` at most; none when `stop` was set.
  std::vector<TrialIndex> pop(std::size_t count_max, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    (void)filled_.wait(lock, stop, [this] { return !trials_.empty(); });
    const auto end = trials_.begin() + static_cast<std::ptrdiff_t>(std::min(count_max, trials_.size()));
    std::vector<TrialIndex> first(trials_.begin(), end);
    trials_.erase(trials_.begin(), end);
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any filled_;
  std::deque<TrialIndex> trials_;
};

class Drive {
 public:
  Drive(Engine& engine, const Run& run, const Plan& plan, const PlannerOptions& options, Observer& observer,
        Clock& clock, Depot* depot, Telemetry* telemetry, Memory* memory)
      : engine_(engine),
        run_(run),
        // What other runs hold is seen only where it counts.
        selector_(options.capacity ? Selector{} : Selector{.experiment = run.experiment.name, .run = run.id}),
        capacity_(options.capacity),
        observer_(observer),
        clock_(clock),
        depot_(depot),
        telemetry_(telemetry),
        memory_(memory),
        planner_(run.id, run.experiment, plan, options),
        until_(options.until),
        stop_workers_(std::min<std::size_t>(
            k_stops_in_flight_max, std::ranges::count_if(run.experiment.trials, [&](const Trial& trial) {
                                     return trial.service || is_watched(run.experiment, trial) ||
                                            trial.start_deadline > Seconds(0);
                                   }) + std::ranges::count_if(options.past, [](const Past& past) {
                                     return past.leaving != Leaving::no;
                                   }))) {
    remember(options.past);
  }

  Outcome run(const std::stop_token& stop, Steering* steering) {
    began_ = clock_.now();
    if (run_.began_at) before_ = std::max(Seconds(began_ - *run_.began_at), Seconds(0));
    steady_began_ = Steady::now();
    for (const auto& [trial, attempt] : ran_before_) take_so_far(trial, attempt);
    const Steered steered(steering, inbox_, again_with_);
    inbox_.post(Event{Begin{}});  // before there is a listing
    threads_.emplace_back([this](const std::stop_token& quit) { watch(quit); });
    add_start_workers();
    add_workers(stop_workers_, stop_orders_);
    add_workers(k_collectors, collect_orders_);
    const bool any_outputs = std::ranges::any_of(run_.experiment.trials,
                                                 [](const Trial& trial) { return !trial.outputs.empty(); });
    if (any_outputs) {
      add_workers(k_bearers, bear_orders_);
      if (takes_so_far()) add_workers(SoFar::k_under_way_max, so_far_orders_);
    }
    add_workers(k_lookers, look_orders_);
    if (memory_ != nullptr) threads_.emplace_back([this](const std::stop_token& quit) { recall(quit); });
    const std::stop_callback on_stop(stop, [this] { inbox_.post(Event{Interrupt{}}); });
    loop();
    // A command under way when the engine was lost must not hold up the end: the threads' stop tokens end
    // their verbs.
    for (std::jthread& thread : threads_) thread.request_stop();
    threads_.clear();
    if (lost_) throw Error(lost_->kind(), lost_->subject(), lost_->message());
    if (planner_.done() || stop.stop_requested()) again_with_.reset();
    return finish(stop.stop_requested());
  }

 private:
  // Orders come in as long as it lives.
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

  void add_workers(std::size_t count, OrderQueue& orders) {
    for (std::size_t i = 0; i < count; ++i)
      threads_.emplace_back([this, &orders](const std::stop_token& quit) { work(orders, quit); });
  }

  // As many as there may be starts in flight.
  void add_start_workers() {
    const std::size_t wanted =
        std::min(planner_.settings().starts_in_flight_max, run_.experiment.trials.size());
    if (wanted <= start_workers_) return;
    add_workers(wanted - start_workers_, orders_);
    start_workers_ = wanted;
  }

  // What an earlier process has left. What was blocked and is not any more shows by its facts.
  void remember(const std::vector<Past>& past) {
    for (TrialIndex trial = 0; trial < past.size(); ++trial) {
      const Past& it = past[trial];
      was_started_[trial] = it.was_started;
      if (it.was_started) ++started_;
      if (it.state == TrialState::running) ran_before_.emplace_back(trial, it.attempt);
      const bool is_under_way = is_alive(it.state) || it.state == TrialState::collecting;
      if (is_under_way && planner_.is_waited_for(trial)) {
        const bool runs = it.state == TrialState::running;
        under_way_.emplace(trial, UnderWay{.begun_at = it.ran_at.value_or(clock_.now()),
                                           .ran_at = runs ? it.ran_at : std::nullopt});
      }
      if (!is_unsuccessful(it.state, it.cause)) continue;
      unsuccessful_.push_back({.trial = trial,
                               .state = it.state,
                               .attempt = it.attempt,
                               .cause = it.cause,
                               .ran = it.was_started,
                               .exit_code = it.exit_code,
                               .reason = it.reason,
                               .root = it.root});
    }
  }

  void loop() {
    std::vector<Message> messages;
    while (!is_done() && !is_left()) {
      inbox_.take(messages, patience());
      for (const Message& message : messages) {
        // They say nothing of the stream of events.
        if (std::holds_alternative<Used>(message) || std::holds_alternative<TookSoFar>(message)) continue;
        owed_ = true;
        heard_ = Steady::now();
      }
      break_silence();
      for (Message& message : messages) {
        if (const auto* lost = std::get_if<EngineLost>(&message)) {
          lost_ = lost->error;
          observer_.commit();
          show();
          return;
        }
        std::visit([this](const auto& one) { take(one); }, message);
      }
      if (wake_ && *wake_ <= now()) apply(Tick{});
      look();
      while (const auto take = so_far_.next(now())) so_far_orders_.push(*take);
      const bool shows = is_done() || is_left() || is_time_to_show();
      if (shows || !commands_.empty()) carry_on();
      if (shows) show();
    }
  }

  void take(const Event& event) {
    const auto* collected = std::get_if<Collected>(&event);
    if (collected != nullptr) show_failure(collected->trial, {});  // if its log has no line
    if (collected != nullptr && !collected->fault.empty() && !collected->by_attempt &&
        undelivered_.insert(collected->trial).second)
      remark(fmt::format("{}: its outputs cannot be collected, which is tried again: {}",
                         run_.experiment.trials[collected->trial].name, collected->fault));
    if (collected != nullptr && log_first_.erase(collected->trial) > 0 &&
        logs_under_way_.contains(collected->trial)) {
      held_.insert_or_assign(collected->trial, *collected);
    } else {
      apply(event);
      if (const auto* listed = std::get_if<Listed>(&event)) look_after_earlier(*listed);
    }
  }
  void take(const EngineLost& /*lost*/) {}
  void take(const Tail& tail) { show_failure(tail.trial, tail.lines); }
  void take(const CameHome& home) {
    observer_.taken(home.trial, home.attempt, home.taken);
    for (const std::string& note : notes_of(run_.experiment.trials[home.trial].name, home.taken))
      remark(note);
  }
  void take(const TookSoFar& took) {
    const SoFar::Done done = so_far_.done(took.trial, !took.fault.empty(), now());
    if (done.is_first_fault)
      remark(fmt::format("{}: what it has left so far is not home, and is tried again: {}",
                         run_.experiment.trials[took.trial].name, took.fault));
    if (done.held) give(*done.held);
  }
  void take(const Recollected& recollected) {
    for (const Recollection& one : recollected.of) {
      observer_.recalled(one);
      apply(
          Recalled{.trial = one.trial,
                   .done = one.run.empty() ? "" : fmt::format("equal to `{}` of run {}", one.name, one.run)});
    }
  }
  void take(const Steering::Order& order) {
    if (order.leave) {
      again_with_ = planner_.settings();
      remark("`combu apply` changes the run: nothing starts until it is done");
    }
    if (!order.adjust.interrupter.empty()) interrupter_ = order.adjust.interrupter;
    apply(order.adjust);
    order.answer(planner_.settings());
  }
  void take(const Used& used) {
    const auto at = usage_.find(used.of.trial);
    if (at == usage_.end() || at->second.attempt != used.of.attempt) return;
    if (used.usage) {
      const Bytes before = at->second.usage ? at->second.usage->memory : Bytes{};
      at->second.usage = {.memory = std::max(before, used.usage->memory), .cpu = used.usage->cpu};
    }
    LookOrder next = used.of;
    next.pause = look_pause(used.of.pause, used.brought, used.took);
    look_after(std::move(next));
  }

  // What is not had now is asked for again; later there is `logs`, for as long as there is the container.
  void take(const LogTaken& taken) {
    LogOrder order = taken.of;
    if (!taken.fault.empty() && ++order.tries < k_log_tries_max && !interrupted_) {
      logs_again_.emplace(now() + std::chrono::seconds(1U << static_cast<unsigned>(order.tries - 1)), order);
      return;
    }
    --logs_pending_;
    if (!taken.fault.empty()) take(Note{order.trial, "its log could not be kept: " + taken.fault});
    const auto under_way = logs_under_way_.find(order.trial);
    if (under_way == logs_under_way_.end() || under_way->second != order.attempt) return;
    logs_under_way_.erase(under_way);
    remember();
    if (const auto held = held_.extract(order.trial)) apply(held.mapped());
  }
  void take(const LogsKept& kept) {
    remark(kept.fault.empty()
               ? "logs and metrics are kept again"
               : "logs and metrics are not kept for now, and are taken in later: " + kept.fault);
  }
  void take(const Note& note) { remark(run_.experiment.trials[note.trial].name + ": " + note.text); }

  void remark(const std::string& line) {
    if (++remarks_ <= k_remarks_max) observer_.remark(line);
    if (remarks_ == k_remarks_max + 1) observer_.remark("there is more of this kind, which is not told");
  }

  [[nodiscard]] bool takes_so_far() const {
    return depot_ != nullptr && run_.experiment.collect.every > Seconds(0);
  }

  void take_so_far(TrialIndex trial, int attempt) {
    if (takes_so_far() && !run_.experiment.trials[trial].outputs.empty())
      so_far_.begin(trial, attempt, now());
  }

  void look_after(LookOrder order) {
    const Instant at = now() + std::chrono::duration_cast<Instant::duration>(order.pause);
    looks_.emplace(at, std::move(order));
  }

  // Those that ran before: the first listing has their engine's ids.
  void look_after_earlier(const Listed& listed) {
    if (ran_before_.empty()) return;
    std::unordered_map<std::string_view, const Sighting*> seen;
    for (const Sighting& one : listed.sightings)
      if (one.key.run == run_.id && one.phase == Phase::running) seen.emplace(one.key.trial, &one);
    for (const auto& [trial, attempt] : std::exchange(ran_before_, {})) {
      const auto found = seen.find(run_.experiment.trials[trial].name);
      if (found != seen.end() && found->second->key.attempt == attempt && stays_for(trial))
        look_after_start(trial, attempt, found->second->id);
    }
  }

  void look_after_start(TrialIndex trial, int attempt, const std::string& id) {
    usage_[trial] = {.attempt = attempt, .usage = std::nullopt};
    look_after({.trial = trial, .attempt = attempt, .id = id, .pause = k_look_first});
  }

  // Gives the looks that are due, of what still runs. While starts are in flight it is one a second: as many
  // as are due would slow the starts down, by a tenth on Engine 29.
  void look() {
    while (!logs_again_.empty() && logs_again_.begin()->first <= now())
      collect_orders_.push(logs_again_.extract(logs_again_.begin()).mapped());
    while (!looks_.empty() && looks_.begin()->first <= now()) {
      if (planner_.starts_in_flight() > 0 && now() < looked_ + k_look_pause_busy) return;
      auto due = looks_.extract(looks_.begin());
      const auto at = usage_.find(due.mapped().trial);
      if (at == usage_.end() || at->second.attempt != due.mapped().attempt) continue;
      look_orders_.push(due.mapped());
      looked_ = now();
    }
  }

  [[nodiscard]] bool is_done() const { return planner_.done() && begun_ && logs_pending_ == 0; }
  [[nodiscard]] bool is_left() const { return again_with_ && planner_.starts_in_flight() == 0; }

  // Never set back, whatever becomes of the clock on the wall.
  [[nodiscard]] Instant now() const {
    return began_ + std::chrono::duration_cast<Instant::duration>(Steady::now() - steady_began_);
  }

  [[nodiscard]] std::chrono::milliseconds patience() const {
    const bool looks_soon = !looks_.empty() && looks_.begin()->first < now() + k_heartbeat;
    const std::chrono::milliseconds usual = owed_ || looks_soon ? k_repaint : k_heartbeat;
    if (!wake_) return usual;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake_ - now());
    return std::clamp(left, std::chrono::milliseconds(0), usual);
  }

  void apply(const Event& event) {
    begun_ = true;
    if (std::holds_alternative<Interrupt>(event)) {
      interrupted_ = true;
      fetches_.request_stop();
    }
    if (const auto* answer = std::get_if<StartAnswered>(&event); answer != nullptr && answer->seen)
      observer_.started(answer->trial, *answer->seen);
    Step step = planner_.step(event, now());
    if (std::holds_alternative<Adjust>(event)) add_start_workers();
    note_pause();
    wake_ = step.wake;
    for (Command& command : step.commands)
      if (auto* collect = std::get_if<CollectCommand>(&command)) expect_tail(*collect);
    for (Fact& fact : step.facts) note(fact);
    std::ranges::move(step.commands, std::back_inserter(commands_));
  }

  // The last lines of a log are read for the first failures only.
  void expect_tail(CollectCommand& command) {
    if (command.tail && ++tails_ > k_tails_max) command.tail = false;
    if (command.tail) failures_.insert_or_assign(command.trial, Failure());
  }

  // The last lines of the failed attempt's log have been read, or there are none; of its fact and these
  // lines, the first waits for the other.
  void show_failure(TrialIndex trial, const std::vector<std::string>& tail) {
    const auto at = failures_.find(trial);
    if (at == failures_.end() || at->second.tail) return;
    at->second.tail = tail;
    if (!at->second.fact) return;
    const Failure failure = failures_.extract(at).mapped();
    observer_.failure(*failure.fact, *failure.tail);
  }

  void show_failure(const Fact& fact) {
    const auto at = failures_.find(fact.trial);
    if (at != failures_.end() && !at->second.tail) {
      at->second.fact = fact;
    } else {
      const Failure failure = at == failures_.end() ? Failure() : failures_.extract(at).mapped();
      observer_.failure(fact, failure.tail.value_or(std::vector<std::string>()));
    }
  }

  // Of a pause the time is not taken for work.
  void note_pause() {
    const bool paused = planner_.settings().paused;
    if (paused && !paused_since_) paused_since_ = now();
    if (!paused && paused_since_) paused_for_ += now() - *std::exchange(paused_since_, std::nullopt);
  }

  // The facts of all that has come are kept before any command that follows from them goes.
  void carry_on() {
    observer_.commit();
    for (const Command& command : commands_) std::visit([this](const auto& one) { give(one); }, command);
    commands_.clear();
    for (const LogOrder& order : std::exchange(logs_ended_, {})) take_log_of(order);
    remember();
    if (!to_look_back_.empty()) orders_.push(LookBackOrder{.ended = std::exchange(to_look_back_, {})});
  }

  void give(const StartCommand& command) { orders_.push(command); }
  void give(const StopCommand& command) {
    so_far_.end(command.trial);
    stop_orders_.push(command);
  }
  void give(const GiveUpCommand& command) {
    std::optional<std::stop_source> start;
    {
      const std::scoped_lock lock(starts_mutex_);
      if (const auto found = starts_.find(command.trial); found != starts_.end())
        start.emplace(found->second);
    }
    if (start) start->request_stop();
  }
  void give(const LookCommand& command) { to_look_back_.push_back(command.sighting); }
  void give(const CollectCommand& command) {
    if (command.outputs && so_far_.holds_back(command)) return;
    take_log_of({.trial = command.trial, .attempt = command.attempt});
    if (!command.outputs || command.failed) log_first_.insert(command.trial);
    if (command.outputs) {
      bear_orders_.push(command);
    } else if (command.tail) {
      collect_orders_.push(command);
    } else {
      inbox_.post(Event{Collected{command.trial}});
    }
  }

  void take_log_of(const LogOrder& order) {
    if (telemetry_ == nullptr || std::exchange(log_ordered_[order.trial], order.attempt) == order.attempt)
      return;
    ++logs_pending_;
    logs_under_way_[order.trial] = order.attempt;
    collect_orders_.push(order);
  }

  // Those that have succeeded, when their logs are kept.
  void remember() {
    std::erase_if(to_remember_, [this](TrialIndex trial) {
      if (logs_under_way_.contains(trial)) return false;
      memory_->done(trial);
      return true;
    });
  }

  void give(const RecallCommand& command) {
    if (memory_ != nullptr) {
      recalls_.push(command.trial);
    } else {
      inbox_.post(Event{Recalled{.trial = command.trial}});
    }
  }

  void break_silence() {
    if (Steady::now() - heard_ < k_silence_max) return;
    heard_ = Steady::now();
    apply(ListingBegins{});
    orders_.push(ListOrder{});
  }

  void note(Fact& fact) {
    if (tells_of_stop(fact)) return observer_.fact(fact);
    note_usage(fact);
    note_work(fact);
    observer_.fact(fact);
    if (is_failure(fact)) show_failure(fact);
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
    const bool has_ended =
        is_over(fact.state) || fact.state == TrialState::retrying || fact.state == TrialState::collecting;
    if (has_ended && fact.exit_code && stays_for(fact.trial))
      logs_ended_.push_back({.trial = fact.trial, .attempt = fact.attempt});
    if (fact.state == TrialState::succeeded && memory_ != nullptr &&
        run_.experiment.trials[fact.trial].cache.on)
      to_remember_.insert(fact.trial);
    if (is_unsuccessful(fact.state, fact.cause)) unsuccessful_.push_back(std::move(fact));
  }

  void note_work(const Fact& fact) {
    if (!planner_.is_waited_for(fact.trial)) return;
    const auto at = under_way_.find(fact.trial);
    if (fact.state == TrialState::starting) {
      under_way_[fact.trial] = {.begun_at = now(), .ran_at = std::nullopt};
    } else if (at == under_way_.end()) {
      return;
    } else if (fact.state == TrialState::running) {
      if (!at->second.ran_at) at->second.ran_at = now();
    } else if (fact.state == TrialState::collecting) {
      at->second.ran_at.reset();
    } else {
      if (is_over(fact.state) && ran_here_[fact.trial]) {
        ++ended_here_;
        ended_took_ += now() - at->second.begun_at;
        ended_at_ = now();
        worked_ = worked();
      }
      under_way_.erase(at);
    }
  }

  // Whether the run does not return before its end.
  [[nodiscard]] bool stays_for(TrialIndex trial) const {
    return until_ == Until::ended || is_watched(run_.experiment, run_.experiment.trials[trial]);
  }

  // From when it runs until its attempt is over.
  void note_usage(Fact& fact) {
    if (fact.state == TrialState::running) {
      if (fact.id.empty()) return;  // it has become healthy
      if (!stays_for(fact.trial)) return;
      take_so_far(fact.trial, fact.attempt);
      return look_after_start(fact.trial, fact.attempt, fact.id);
    }
    so_far_.end(fact.trial);
    const auto at = usage_.find(fact.trial);
    if (at == usage_.end()) return;
    fact.usage = at->second.usage;
    usage_.erase(at);
  }

  [[nodiscard]] bool is_time_to_show() const {
    return Steady::now() - shown_ >= (owed_ ? k_repaint : k_heartbeat);
  }

  void show() {
    shown_ = Steady::now();
    owed_ = false;
    observer_.snapshot(snapshot());
  }

  [[nodiscard]] Snapshot snapshot() const {
    const auto shown = static_cast<std::ptrdiff_t>(std::min(starting_.size(), k_starting_shown_max));
    return {.trials = run_.experiment.trials.size(),
            .counts = planner_.counts(),
            .starting = {starting_.begin(), starting_.begin() + shown},
            .running = few_running(),
            .started = started_,
            .elapsed = now() - began_ + before_,
            .left = estimate_left(),
            .interrupted = interrupted_,
            .interrupter = interrupter_,
            .may_start_more = planner_.may_start_more(),
            .settings = again_with_.value_or(planner_.settings()),  // for `apply` it only looks like a pause
            .held = planner_.held(),
            .held_by_others = planner_.held_by_others(),
            .capacity = capacity_};
  }

  [[nodiscard]] Seconds since(Instant moment) const { return std::max(Seconds(now() - moment), Seconds(0)); }

  [[nodiscard]] std::vector<RunningTrial> few_running() const {
    std::vector<RunningTrial> running;
    for (const auto& [trial, it] : under_way_) {
      if (!it.ran_at) continue;
      if (running.size() == Snapshot::k_running_max) return {};
      running.push_back({.trial = trial, .age = since(*it.ran_at)});
    }
    std::ranges::sort(running, {}, [](const RunningTrial& it) { return std::pair(-it.age, it.trial); });
    return running;
  }

  // Since the first command, without pauses.
  [[nodiscard]] Seconds worked() const { return paused_since_.value_or(now()) - began_ - paused_for_; }

  // nullopt also while paused, and when nobody waits for the end.
  [[nodiscard]] std::optional<Seconds> estimate_left() const {
    if (until_ != Until::ended || paused_since_) return std::nullopt;
    WorkDone work{.ended = ended_here_,
                  .ended_took = ended_took_,
                  .worked = worked_,
                  .since_end = since(ended_at_),
                  .ages = {}};
    for (const auto& [trial, it] : under_way_) work.ages.push_back(since(it.begun_at));
    const std::size_t unfinished = planner_.unfinished();
    work.not_begun = unfinished - std::min(unfinished, under_way_.size());
    return time_left(work);
  }

  Outcome finish(bool stopped) {
    for (const auto& [trial, failure] : std::exchange(failures_, {}))
      if (failure.fact) observer_.failure(*failure.fact, {});
    Outcome outcome{.last = snapshot(),
                    .unsuccessful = std::move(unsuccessful_),
                    .interrupted = stopped,
                    .left = again_with_.has_value(),
                    .undelivered = planner_.undelivered()};
    for (TrialIndex trial = 0; trial < run_.experiment.trials.size(); ++trial) {
      if (planner_.state(trial) == TrialState::running) outcome.running.push_back(trial);
    }
    return outcome;
  }

  // ---- Other threads: they post, and touch nothing else.

  void work(OrderQueue& orders, const std::stop_token& quit) {
    while (const std::optional<Order> order = orders.pop(quit)) {
      std::visit([&](const auto& one) { carry_out(one, quit); }, *order);
    }
  }

  void carry_out(const StartCommand& command, const std::stop_token& quit) {
    const Trial& trial = run_.experiment.trials[command.trial];
    const Start under_way(*this, command.trial, quit);
    const auto start = [&] {
      std::optional<Trial> changed;
      if (command.slots != trial.slots || !trial.inputs.empty()) {
        changed.emplace(trial).slots = command.slots;
        find_inputs(*changed, run_.host_paths, [&](const std::string& left_by, const std::string& path) {
          return fetch(left_by, path, under_way.fetch_token());
        });
      }
      const std::stop_token until = trial.inputs.empty() ? under_way.token() : under_way.fetch_token();
      auto seen = engine_.start(run_, changed ? *changed : trial, command.attempt, until);
      inbox_.post(Event{StartAnswered{.trial = command.trial, .seen = std::move(seen)}});
    };
    call(start, [&](const Error& error) {
      const StartFailed event{.trial = command.trial, .error = error};
      const bool is_fetch_given_up =
          error.kind() == ErrorKind::cancelled && under_way.fetch_token().stop_requested();
      if ((under_way.token().stop_requested() || is_fetch_given_up) && !quit.stop_requested()) {
        inbox_.post(Event{event});
      } else {
        failed(error, event);
      }
    });
  }

  // Why a start fails is told by the words alone: where it was is put into them.
  std::string fetch(const std::string& left_by, const std::string& path, const std::stop_token& stop) {
    try {
      return depot_->fetch(left_by, path, stop);
    } catch (const Error& error) {
      throw Error(error.kind(), error.subject(), error.what());
    }
  }

  // A start that can be given up.
  class Start {
   public:
    Start(Drive& drive, TrialIndex trial, const std::stop_token& quit)
        : drive_(drive),
          trial_(trial),
          on_quit_(quit, [this] { source_.request_stop(); }),
          on_stop_(source_.get_token(), [this] { fetch_.request_stop(); }),
          on_interrupt_(drive.fetches_.get_token(), [this] { fetch_.request_stop(); }) {
      const std::scoped_lock lock(drive_.starts_mutex_);
      drive_.starts_.insert_or_assign(trial, source_);
    }
    ~Start() {
      const std::scoped_lock lock(drive_.starts_mutex_);
      drive_.starts_.erase(trial_);
    }
    Start(const Start&) = delete;
    Start& operator=(const Start&) = delete;
    [[nodiscard]] std::stop_token token() const { return source_.get_token(); }
    // For the fetching of inputs, and for the start that packs and sends them. An interrupted run does not
    // wait for these, which may take hours. The attempt stays `starting` on record, and the next process
    // adopts its container.
    [[nodiscard]] std::stop_token fetch_token() const { return fetch_.get_token(); }

   private:
    Drive& drive_;
    TrialIndex trial_;
    std::stop_source source_;
    std::stop_source fetch_;
    std::stop_callback<std::function<void()>> on_quit_;
    std::stop_callback<std::function<void()>> on_stop_;
    std::stop_callback<std::function<void()>> on_interrupt_;
  };

  void carry_out(const StopCommand& command, const std::stop_token& quit) {
    const std::string& name = run_.experiment.trials[command.trial].name;
    const auto stop = [&] {
      engine_.stop({.run = run_.id, .trial = name, .attempt = command.attempt}, std::nullopt, quit);
      inbox_.post(Event{StopAnswered{.trial = command.trial, .attempt = command.attempt}});
    };
    call(stop, [&](const Error& error) {
      failed(error, StopFailed{.trial = command.trial, .error = error, .attempt = command.attempt});
    });
  }

  void carry_out(const CollectCommand& command, const std::stop_token& quit) {
    const Key key{
        .run = run_.id, .trial = run_.experiment.trials[command.trial].name, .attempt = command.attempt};
    if (command.tail) read_tail(command.trial, key, quit);
    TookOutputs took{.collected = {.trial = command.trial}, .taken = std::nullopt};
    if (command.outputs) took = take_outputs(engine_, run_, command, *depot_, quit);
    if (took.taken)
      inbox_.post(CameHome{.trial = command.trial, .attempt = command.attempt, .taken = *took.taken});
    inbox_.post(Event{took.collected});
  }

  void carry_out(const SoFar::Take& take, const std::stop_token& quit) {
    std::stop_source stop = take.stop;
    const std::stop_callback on_quit(quit, [&stop] { stop.request_stop(); });
    inbox_.post(TookSoFar{
        .trial = take.trial,
        .fault = take_outputs_so_far(engine_, run_, take.trial, take.attempt, *depot_, stop.get_token())});
  }

  void recall(const std::stop_token& quit) {
    for (std::vector<TrialIndex> trials; !(trials = recalls_.pop(k_recalled_at_once, quit)).empty();) {
      call([&] { inbox_.post(Recollected{memory_->recall(trials, quit)}); },
           [&](const Error& error) { lost(error); });
    }
  }

  // A log that cannot be had is no failure of the run.
  void read_tail(TrialIndex trial, const Key& key, const std::stop_token& quit) {
    std::string text;
    const auto read = [&] {
      engine_.logs(
          key, {.tail = k_tail_lines},
          [&](const LogPiece& piece) { append_to_tail(text, piece.text, k_tail_size_max); }, quit);
    };
    call(read, [](const Error&) {});
    std::istringstream lines(text);
    Tail tail{.trial = trial, .lines = {}};
    for (std::string line; std::getline(lines, line);) tail.lines.push_back(line.substr(0, k_tail_line_max));
    if (!tail.lines.empty()) inbox_.post(std::move(tail));
  }

  // What cannot be had is no failure of the run.
  void carry_out(const LookOrder& order, const std::stop_token& quit) {
    const Steady::time_point began = Steady::now();
    Used used{.of = order, .usage = std::nullopt};
    call([&] { used.usage = engine_.usage(order.id, quit); }, [](const Error&) {});
    if (telemetry_ != nullptr)
      call(
          [&] {
            const Bytes before = log_size(order);
            keep_log(order.trial, order.attempt, LogEnd::open, quit);
            used.brought.count = log_size(order).count - before.count;
          },
          [](const Error&) {});
    used.took = Steady::now() - began;
    inbox_.post(std::move(used));
  }

  // As far as it was taken.
  [[nodiscard]] Bytes log_size(const LookOrder& order) {
    const auto kept = telemetry_->log(run_.experiment.trials[order.trial].name, order.attempt);
    return kept ? kept->size : Bytes{};
  }

  void carry_out(const LogOrder& order, const std::stop_token& quit) {
    LogTaken taken{.of = order, .fault = {}};
    call([&] { keep_log(order.trial, order.attempt, LogEnd::complete, quit); },
         [&](const Error& error) {
           if (error.kind() != ErrorKind::not_found) taken.fault = error.what();
         });
    inbox_.post(std::move(taken));
  }

  void keep_log(TrialIndex trial, int attempt, LogEnd end, const std::stop_token& quit) {
    const Trial& it = run_.experiment.trials[trial];
    try {
      for (std::string& text : take_logs(engine_, {.run = run_.id, .trial = it.name, .attempt = attempt}, it,
                                         end, *telemetry_, quit))
        inbox_.post(Note{trial, std::move(text)});
    } catch (const Error&) {
      tell_whether_kept();
      throw;
    }
    tell_whether_kept();
  }

  void tell_whether_kept() {
    LogsKept kept{.fault = telemetry_->fault()};
    const bool fails = !kept.fault.empty();
    if (logs_fail_.exchange(fails) != fails) inbox_.post(std::move(kept));
  }

  // In one listing. What is not in it is gone.
  void carry_out(const LookBackOrder& order, const std::stop_token& quit) {
    const auto look = [&] {
      Selector selector{.experiment = run_.experiment.name, .run = run_.id};
      std::map<std::string_view, const Sighting*> found;
      for (const Sighting& ended : order.ended) selector.trials.push_back(ended.key.trial);
      const std::vector<Sighting> listed = engine_.list(selector, Look::fully, quit);
      for (const Sighting& seen : listed) found.emplace(seen.key.trial, &seen);
      for (Sighting ended : order.ended) {
        const auto seen = found.find(ended.key.trial);
        if (seen == found.end() || seen->second->key != ended.key) {
          ended.phase = Phase::gone;
        } else {
          ended.ran_at = seen->second->ran_at;
          ended.ended_at = seen->second->ended_at;
        }
        inbox_.post(Event{Looked{std::move(ended)}});
      }
    };
    call(look, [&](const Error& error) { lost(error); });
  }

  void carry_out(const ListOrder& /*order*/, const std::stop_token& quit) {
    call([&] { inbox_.post(Event{Listed{.sightings = engine_.list(selector_, Look::closely, quit)}}); },
         [&](const Error& error) { lost(error); });
  }

  // An exception that is not the project's would end the process from a thread.
  template <class Verb, class OnError>
  static void call(const Verb& verb, const OnError& on_error) {
    try {
      verb();
    } catch (const Error& error) {
      on_error(error);
    } catch (const std::exception& error) {
      on_error(Error(ErrorKind::corrupt, "", error.what()));
    }
  }

  void lost(const Error& error) {
    if (error.kind() != ErrorKind::cancelled) inbox_.post(EngineLost{error});
  }

  void failed(const Error& error, Event event) {
    if (error.kind() == ErrorKind::cancelled || error.kind() == ErrorKind::unavailable) {
      lost(error);
    } else {
      inbox_.post(std::move(event));
    }
  }

  void watch(const std::stop_token& quit) {
    bool again = false;
    std::optional<Instant> there_since;
    const auto tell = [&](const Change& change) {
      if (const auto* sighting = std::get_if<Sighting>(&change)) {
        inbox_.post(Event{Seen{*sighting}});
        return;
      }
      // A stream may break though the engine was never away.
      const std::optional<Instant> before = std::exchange(there_since, engine_.facts(quit).began_at);
      const bool after_break = std::exchange(again, true) && (!there_since || there_since != before);
      inbox_.post(Event{ListingBegins{.after_break = after_break}});
      inbox_.post(Event{
          Listed{.sightings = engine_.list(selector_, Look::closely, quit), .after_break = after_break}});
    };
    call([&] { engine_.watch(selector_, tell, quit); }, [&](const Error& error) { lost(error); });
  }

  Engine& engine_;
  const Run& run_;
  const Selector selector_;
  const std::optional<Slots> capacity_;
  Observer& observer_;
  Clock& clock_;
  Depot* depot_;
  Telemetry* telemetry_;
  Memory* memory_;
  Planner planner_;
  const Until until_;
  struct UnderWay {
    Instant begun_at;               // when its start was commanded
    std::optional<Instant> ran_at;  // of one that runs now
  };
  std::unordered_map<TrialIndex, UnderWay> under_way_;  // waited for: begun, and not over
  std::size_t ended_here_ = 0;  // of those that have run while this process watched, how many are over
  Seconds ended_took_{0};       // all of these together
  Instant ended_at_{};          // the last of them
  Seconds worked_{0};           // worked() at that moment
  std::optional<Instant> paused_since_;
  Instant::duration paused_for_{0};
  std::size_t start_workers_ = 0;
  std::size_t stop_workers_;
  Inbox<Message> inbox_;
  std::mutex starts_mutex_;
  std::unordered_map<TrialIndex, std::stop_source> starts_;  // under way
  std::stop_source fetches_;                                 // of inputs
  OrderQueue orders_;
  OrderQueue stop_orders_;
  OrderQueue collect_orders_;
  OrderQueue bear_orders_;
  OrderQueue look_orders_;
  OrderQueue so_far_orders_;
  SoFar so_far_{run_.experiment.collect.every};
  std::vector<std::pair<TrialIndex, int>> ran_before_;  // and their attempts; until they are listed
  RecallQueue recalls_;
  std::multimap<Instant, LookOrder> looks_;
  Instant looked_;
  struct Watched {
    int attempt;
    std::optional<Usage> usage;
  };
  std::unordered_map<TrialIndex, Watched> usage_;  // of what runs
  std::vector<Command> commands_;
  std::vector<Sighting> to_look_back_;
  // Of a failed attempt, until both are known.
  struct Failure {
    std::optional<Fact> fact;
    std::optional<std::vector<std::string>> tail;
  };
  std::unordered_map<TrialIndex, Failure> failures_;
  std::size_t tails_ = 0;
  std::set<TrialIndex> to_remember_;                    // succeeded, and memory_ does not know yet
  std::vector<LogOrder> logs_ended_;                    // not ordered yet
  std::multimap<Instant, LogOrder> logs_again_;         // could not be taken
  std::size_t logs_pending_ = 0;                        // ordered, or among those
  std::unordered_map<TrialIndex, int> log_ordered_;     // the last attempt whose log was
  std::unordered_map<TrialIndex, int> logs_under_way_;  // the attempt whose log is being taken
  // Of an attempt that has failed: the next one takes its container's place, and its log goes with it.
  std::unordered_set<TrialIndex> log_first_;
  std::unordered_map<TrialIndex, Collected> held_;  // until its log is taken
  std::atomic<bool> logs_fail_ = false;             // as was told last
  std::size_t remarks_ = 0;
  std::vector<TrialIndex> starting_;
  std::vector<Fact> unsuccessful_;
  std::size_t started_ = 0;
  std::vector<bool> was_started_ = std::vector<bool>(run_.experiment.trials.size());
  std::vector<bool> ran_here_ = std::vector<bool>(run_.experiment.trials.size());
  bool begun_ = false;
  bool interrupted_ = false;
  std::unordered_set<TrialIndex> undelivered_;  // whose outputs could not be taken, and that has been told
  std::string interrupter_;                     // Snapshot::interrupter
  std::optional<Settings> again_with_;          // as they were when it was asked to leave
  std::optional<Error> lost_;
  std::optional<Instant> wake_;
  Instant began_{};
  Seconds before_{0};  // from the run's beginning to this process's
  Steady::time_point steady_began_{};
  Steady::time_point heard_ = Steady::now();
  Steady::time_point shown_{};
  bool owed_ = false;  // something has changed since the last snapshot
  std::vector<std::jthread> threads_;
};

}  // namespace

Outcome drive(Engine& engine, const Run& run, const Plan& plan, const PlannerOptions& options,
              Observer& observer, Clock& clock, const std::stop_token& stop, Steering* steering, Depot* depot,
              Telemetry* telemetry, Memory* memory) {
  return Drive(engine, run, plan, options, observer, clock, depot, telemetry, memory).run(stop, steering);
}

}  // namespace combu
