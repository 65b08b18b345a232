#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "combu/run.hpp"
#include "inbox.hpp"

namespace combu {

namespace {

using Steady = std::chrono::steady_clock;
constexpr std::chrono::milliseconds k_repaint{100};
constexpr std::chrono::milliseconds k_heartbeat{1000};  // elapsed time goes on while nothing happens
constexpr std::chrono::minutes k_silence_max{5};   // then the engine is asked: a dead stream is silent, too
constexpr std::size_t k_stops_in_flight_max = 32;  // each takes its grace: they have workers of their own
constexpr std::size_t k_starting_shown_max = 32;

constexpr std::size_t k_over_min = 3;  // before it is guessed how long the others take
constexpr std::size_t k_collectors = 2;
constexpr std::size_t k_tails_max = 20;  // as many failures as a person is shown
constexpr std::int64_t k_tail_lines = 5;
constexpr std::size_t k_tail_line_max = 500;

// Nobody answers any more, although the engine's own retries were spent.
struct EngineLost {
  Error error;
};
// The last lines of a failed attempt's log; none when it had no log that could be read.
struct Tail {
  CollectCommand of;
  std::vector<std::string> lines;
};
using Message = std::variant<Event, EngineLost, Tail>;

struct ListOrder {};
using Order = std::variant<StartCommand, StopCommand, CollectCommand, ListOrder>;

// Orders go to the workers in the order in which they were given.
class OrderQueue {
 public:
  void push(Order order) {
    {
      const std::scoped_lock lock(mutex_);
      orders_.push_back(order);
    }
    filled_.notify_one();
  }

  // nullopt when `stop` was set.
  std::optional<Order> pop(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!filled_.wait(lock, stop, [this] { return !orders_.empty(); })) return std::nullopt;
    const Order order = orders_.front();
    orders_.pop_front();
    return order;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any filled_;
  std::deque<Order> orders_;
};

class Drive {
 public:
  Drive(Engine& engine, const Run& run, const Plan& plan, const PlannerOptions& options, Observer& observer,
        Clock& clock)
      : engine_(engine),
        run_(run),
        // What other runs hold is seen only where it counts.
        selector_(options.capacity ? Selector{} : Selector{.experiment = run.experiment.name, .run = run.id}),
        capacity_(options.capacity),
        observer_(observer),
        clock_(clock),
        planner_(run.id, run.experiment, plan, options),
        until_(options.until),
        start_workers_(std::min(options.starts_in_flight_max, run.experiment.trials.size())),
        stop_workers_(std::min<std::size_t>(
            k_stops_in_flight_max, std::ranges::count_if(run.experiment.trials, [&](const Trial& trial) {
              return trial.service || is_watched(run.experiment, trial) || trial.start_deadline > Seconds(0);
            }))) {
    remember(options.past);
  }

  Outcome run(const std::stop_token& stop) {
    began_ = clock_.now();
    steady_began_ = Steady::now();
    inbox_.post(Event{Begin{}});  // before there is a listing
    std::vector<std::jthread> threads;
    threads.emplace_back([this](const std::stop_token& quit) { watch(quit); });
    const auto add_workers = [&](std::size_t count, OrderQueue& orders) {
      for (std::size_t i = 0; i < count; ++i)
        threads.emplace_back([this, &orders](const std::stop_token& quit) { work(orders, quit); });
    };
    add_workers(start_workers_, orders_);
    add_workers(stop_workers_, stop_orders_);
    add_workers(k_collectors, collect_orders_);
    const std::stop_callback on_stop(stop, [this] { inbox_.post(Event{Interrupt{}}); });
    loop();
    // A command under way when the engine was lost must not hold up the end: the threads' stop tokens end
    // their verbs.
    for (std::jthread& thread : threads) thread.request_stop();
    threads.clear();
    if (lost_) throw Error(lost_->kind(), lost_->subject(), lost_->message());
    return finish(stop.stop_requested());
  }

 private:
  // What an earlier process has left. What was blocked and is not any more shows by its facts.
  void remember(const std::vector<Past>& past) {
    for (TrialIndex trial = 0; trial < past.size(); ++trial) {
      const Past& it = past[trial];
      was_started_[trial] = it.was_started;
      if (it.was_started) ++started_;
      if (it.state != TrialState::failed && it.state != TrialState::blocked) continue;
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
    while (!planner_.done() || !begun_) {
      inbox_.take(messages, patience());
      if (!messages.empty()) {
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
        if (const auto* tail = std::get_if<Tail>(&message)) {
          if (!tail->lines.empty()) observer_.tail(tail->of.trial, tail->lines);
          apply(Collected{tail->of.trial});
        } else {
          apply(std::get<Event>(message));
        }
      }
      if (wake_ && *wake_ <= now()) apply(Tick{});
      const bool shows = planner_.done() || is_time_to_show();
      if (shows || !commands_.empty()) carry_on();
      if (shows) show();
    }
  }

  // Never set back, whatever becomes of the clock on the wall.
  [[nodiscard]] Instant now() const {
    return began_ + std::chrono::duration_cast<Instant::duration>(Steady::now() - steady_began_);
  }

  [[nodiscard]] std::chrono::milliseconds patience() const {
    const std::chrono::milliseconds usual = owed_ ? k_repaint : k_heartbeat;
    if (!wake_) return usual;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake_ - now());
    return std::clamp(left, std::chrono::milliseconds(0), usual);
  }

  void apply(const Event& event) {
    begun_ = true;
    if (std::holds_alternative<Interrupt>(event)) interrupted_ = true;
    if (const auto* answer = std::get_if<StartAnswered>(&event); answer != nullptr && answer->seen)
      tell_times(answer->trial, *answer->seen);
    Step step = planner_.step(event, now());
    if (std::holds_alternative<Begin>(event)) to_finish_ = planner_.unfinished();
    wake_ = step.wake;
    for (Fact& fact : step.facts) note(fact);
    std::ranges::move(step.commands, std::back_inserter(commands_));
  }

  void tell_times(TrialIndex trial, const Sighting& seen) {
    if (seen.created_in && seen.started_in)
      observer_.start_took(trial, seen.key.attempt, *seen.created_in, *seen.started_in);
  }

  // The facts of all that has come are kept before any command that follows from them goes.
  void carry_on() {
    observer_.commit();
    for (const Command& command : commands_) std::visit([this](const auto& one) { give(one); }, command);
    commands_.clear();
  }

  void give(const StartCommand& command) { orders_.push(command); }
  void give(const StopCommand& command) { stop_orders_.push(command); }
  void give(const CollectCommand& command) {
    if (++tails_ <= k_tails_max) {
      collect_orders_.push(command);
    } else {
      inbox_.post(Tail{.of = command, .lines = {}});
    }
  }

  void break_silence() {
    if (Steady::now() - heard_ < k_silence_max) return;
    heard_ = Steady::now();
    apply(ListingBegins{});
    orders_.push(ListOrder{});
  }

  void note(Fact& fact) {
    observer_.fact(fact);
    if (fact.state == TrialState::starting) {
      starting_.push_back(fact.trial);
    } else if (const auto at = std::find(starting_.begin(), starting_.end(), fact.trial);
               at != starting_.end()) {
      starting_.erase(at);
    }
    if (fact.state == TrialState::running && !was_started_[fact.trial]) {
      was_started_[fact.trial] = true;
      ++started_;
    }
    if (fact.state == TrialState::failed || fact.state == TrialState::blocked) {
      unsuccessful_.push_back(std::move(fact));
    }
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
            .started = started_,
            .elapsed = now() - began_,
            .left = time_left(),
            .interrupted = interrupted_,
            .may_start_more = planner_.may_start_more(),
            .held = planner_.held(),
            .held_by_others = planner_.held_by_others(),
            .capacity = capacity_};
  }

  // nullopt while too little has ended to tell, and when nobody waits for the end.
  [[nodiscard]] std::optional<Seconds> time_left() const {
    const std::size_t unfinished = planner_.unfinished();
    const std::size_t over = to_finish_ - std::min(to_finish_, unfinished);
    if (until_ != Until::ended || over < k_over_min) return std::nullopt;
    return Seconds(now() - began_) * (static_cast<double>(unfinished) / static_cast<double>(over));
  }

  Outcome finish(bool stopped) {
    Outcome outcome{.last = snapshot(), .unsuccessful = std::move(unsuccessful_), .interrupted = stopped};
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
    const auto start = [&] {
      std::optional<Trial> grown;
      if (command.slots != trial.slots) grown.emplace(trial).slots = command.slots;
      auto seen = engine_.start(run_, grown ? *grown : trial, command.attempt, quit);
      inbox_.post(Event{StartAnswered{.trial = command.trial, .seen = std::move(seen)}});
    };
    call(start,
         [&](const Error& error) { failed(error, StartFailed{.trial = command.trial, .error = error}); });
  }

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

  // A log that cannot be had is no failure of the run.
  void carry_out(const CollectCommand& command, const std::stop_token& quit) {
    Tail tail{.of = command, .lines = {}};
    std::string text;
    const auto read = [&] {
      const Key key{
          .run = run_.id, .trial = run_.experiment.trials[command.trial].name, .attempt = command.attempt};
      engine_.logs(
          key, {.tail = k_tail_lines}, [&](LogStream, std::string_view piece) { text += piece; }, quit);
    };
    call(read, [](const Error&) {});
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) tail.lines.push_back(line.substr(0, k_tail_line_max));
    inbox_.post(std::move(tail));
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
    const auto tell = [&](const Change& change) {
      if (const auto* sighting = std::get_if<Sighting>(&change)) {
        inbox_.post(Event{Seen{*sighting}});
        return;
      }
      const bool after_break = std::exchange(again, true);
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
  Planner planner_;
  const Until until_;
  std::size_t to_finish_ = 0;  // when this process began
  std::size_t start_workers_;
  std::size_t stop_workers_;
  Inbox<Message> inbox_;
  OrderQueue orders_;
  OrderQueue stop_orders_;
  OrderQueue collect_orders_;
  std::vector<Command> commands_;
  std::size_t tails_ = 0;
  std::vector<TrialIndex> starting_;
  std::vector<Fact> unsuccessful_;
  std::size_t started_ = 0;
  std::vector<bool> was_started_ = std::vector<bool>(run_.experiment.trials.size());
  bool begun_ = false;
  bool interrupted_ = false;
  std::optional<Error> lost_;
  std::optional<Instant> wake_;
  Instant began_{};
  Steady::time_point steady_began_ = Steady::now();
  Steady::time_point heard_ = Steady::now();
  Steady::time_point shown_{};
  bool owed_ = false;  // something has changed since the last snapshot
};

}  // namespace

Outcome drive(Engine& engine, const Run& run, const Plan& plan, const PlannerOptions& options,
              Observer& observer, Clock& clock, const std::stop_token& stop) {
  return Drive(engine, run, plan, options, observer, clock).run(stop);
}

}  // namespace combu
