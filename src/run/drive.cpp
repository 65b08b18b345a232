#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
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

// Nobody answers any more, although the engine's own retries were spent.
struct EngineLost {
  Error error;
};
using Message = std::variant<Event, EngineLost>;

struct ListOrder {};
using Order = std::variant<StartCommand, StopCommand, ListOrder>;

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
        start_workers_(std::min(options.starts_in_flight_max, run.experiment.trials.size())),
        stop_workers_(std::min<std::size_t>(
            k_stops_in_flight_max,
            std::ranges::count_if(run.experiment.trials, [](const Trial& trial) { return trial.service; }))) {
  }

  Outcome run(const std::stop_token& stop) {
    began_ = clock_.now();
    std::vector<std::jthread> threads;
    threads.emplace_back([this](const std::stop_token& quit) { watch(quit); });
    for (std::size_t i = 0; i < start_workers_ + stop_workers_; ++i) {
      OrderQueue& orders = i < start_workers_ ? orders_ : stop_orders_;
      threads.emplace_back([this, &orders](const std::stop_token& quit) { work(orders, quit); });
    }
    const std::stop_callback on_stop(stop, [this] { inbox_.post(Event{Interrupt{}}); });
    inbox_.post(Event{Begin{}});
    loop();
    // A command under way when the engine was lost must not hold up the end: the threads' stop tokens end
    // their verbs.
    for (std::jthread& thread : threads) thread.request_stop();
    threads.clear();
    if (lost_) throw Error(lost_->kind(), lost_->subject(), lost_->message());
    return finish(stop.stop_requested());
  }

 private:
  void loop() {
    std::vector<Message> messages;
    while (!planner_.done() || !begun_) {
      inbox_.take(messages, owed_ ? k_repaint : k_heartbeat);
      if (!messages.empty()) {
        owed_ = true;
        heard_ = Steady::now();
      }
      break_silence();
      for (Message& message : messages) {
        if (const auto* lost = std::get_if<EngineLost>(&message)) {
          lost_ = lost->error;
          show(true);
          return;
        }
        apply(std::get<Event>(message));
      }
      show(planner_.done());
    }
  }

  void apply(const Event& event) {
    begun_ = true;
    if (std::holds_alternative<Interrupt>(event)) interrupted_ = true;
    Step step = planner_.step(event);
    for (Fact& fact : step.facts) note(fact);
    for (const Command& command : step.commands) {
      if (const auto* start = std::get_if<StartCommand>(&command)) {
        orders_.push(*start);
      } else {
        stop_orders_.push(std::get<StopCommand>(command));
      }
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
    if (fact.state == TrialState::running && !fact.healthy) ++started_;
    if (fact.state == TrialState::failed || fact.state == TrialState::blocked) {
      unsuccessful_.push_back(std::move(fact));
    }
  }

  void show(bool last) {
    const auto now = Steady::now();
    if (!last && now - shown_ < (owed_ ? k_repaint : k_heartbeat)) return;
    shown_ = now;
    owed_ = false;
    observer_.snapshot(snapshot(clock_.now()));
  }

  [[nodiscard]] Snapshot snapshot(Instant now) const {
    const auto shown = static_cast<std::ptrdiff_t>(std::min(starting_.size(), k_starting_shown_max));
    return {.trials = run_.experiment.trials.size(),
            .counts = planner_.counts(),
            .starting = {starting_.begin(), starting_.begin() + shown},
            .started = started_,
            .elapsed = now - began_,
            .interrupted = interrupted_,
            .held = planner_.held(),
            .held_by_others = planner_.held_by_others(),
            .capacity = capacity_};
  }

  Outcome finish(bool stopped) {
    Outcome outcome{
        .last = snapshot(clock_.now()), .unsuccessful = std::move(unsuccessful_), .interrupted = stopped};
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
      auto seen = engine_.start(run_, trial, command.attempt, quit);
      inbox_.post(Event{StartAnswered{.trial = command.trial, .seen = std::move(seen)}});
    };
    call(start,
         [&](const Error& error) { failed(error, StartFailed{.trial = command.trial, .error = error}); });
  }

  void carry_out(const StopCommand& command, const std::stop_token& quit) {
    const std::string& name = run_.experiment.trials[command.trial].name;
    const auto stop = [&] {
      engine_.stop({.run = run_.id, .trial = name, .attempt = command.attempt}, std::nullopt, quit);
    };
    call(stop,
         [&](const Error& error) { failed(error, StopFailed{.trial = command.trial, .error = error}); });
  }

  void carry_out(const ListOrder& /*order*/, const std::stop_token& quit) {
    call([&] { inbox_.post(Event{Listed{engine_.list(selector_, quit)}}); },
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
    const auto tell = [&](const Change& change) {
      if (const auto* sighting = std::get_if<Sighting>(&change)) {
        inbox_.post(Event{Seen{*sighting}});
        return;
      }
      inbox_.post(Event{ListingBegins{}});
      inbox_.post(Event{Listed{engine_.list(selector_, quit)}});
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
  std::size_t start_workers_;
  std::size_t stop_workers_;
  Inbox<Message> inbox_;
  OrderQueue orders_;
  OrderQueue stop_orders_;
  std::vector<TrialIndex> starting_;
  std::vector<Fact> unsuccessful_;
  std::size_t started_ = 0;
  bool begun_ = false;
  bool interrupted_ = false;
  std::optional<Error> lost_;
  Instant began_{};
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
