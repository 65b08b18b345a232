#include "executor.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "combu/inputs.hpp"

namespace combu {
namespace {

using Steady = std::chrono::steady_clock;

// Number of threads that collect outputs. With more threads, concurrent writes would slow a disk down; with a
// single thread, a large output would delay all others.
constexpr std::size_t k_output_threads = 4;
constexpr std::size_t k_poll_threads = 2;
// Maximum number of trials in one batch of cache lookups. Trials of a batch can start while combu looks up
// the next batch.
constexpr std::size_t k_lookups_at_once = 1000;

// The tail of a failed attempt's log: the maximum number of lines, and the maximum size of a line in bytes.
constexpr std::int64_t k_tail_lines = 5;
constexpr std::size_t k_tail_line_max = 500;
// Limit for the total size of the tail's lines, because a line may have any size.
constexpr std::size_t k_tail_size_max = std::size_t{64} << 10U;

// Calls `verb`, and passes every std::exception to `on_error` as an Error, because an uncaught exception of a
// thread would end the process.
template <class Verb, class OnError>
void call(const Verb& verb, const OnError& on_error) {
  try {
    verb();
  } catch (const Error& error) {
    on_error(error);
  } catch (const std::exception& error) {
    on_error(Error(ErrorKind::corrupt, "", error.what()));
  }
}

}  // namespace

Executor::Executor(const DriveContext& context, const Run& run, Selector selector, std::size_t stops_max,
                   Inbox<Message>& inbox)
    : engine_(context.engine),
      run_(run),
      selector_(std::move(selector)),
      stops_max_(stops_max),
      logs_max_(context.reading.logs_max),
      inbox_(inbox),
      output_store_(context.output_store),
      telemetry_(context.telemetry),
      cache_lookup_(context.cache_lookup) {}

Executor::~Executor() {
  for (std::jthread& thread : threads_) thread.request_stop();
  for (WorkQueue<Order>* orders :
       {&start_orders_, &stop_orders_, &log_orders_, &output_orders_, &part_orders_, &poll_orders_})
    orders->close();
  lookups_.close();
}

void Executor::begin(std::size_t starts_max) {
  threads_.emplace_back([this](const std::stop_token& quit) { watch(quit); });
  allow_starts(starts_max);
  add_threads(stops_max_, stop_orders_);
  add_threads(logs_max_, log_orders_);
  add_threads(k_poll_threads, poll_orders_);
  const bool has_outputs =
      std::ranges::any_of(run_.experiment.trials, [](const Trial& trial) { return !trial.outputs.empty(); });
  if (has_outputs) add_threads(k_output_threads, output_orders_);
  if (has_outputs && run_.experiment.collect.every > Seconds(0))
    add_threads(PartialCollection::k_under_way_max, part_orders_);
  if (cache_lookup_ != nullptr)
    threads_.emplace_back([this](const std::stop_token& quit) { look_up_all(quit); });
}

void Executor::allow_starts(std::size_t starts_max) {
  const std::size_t wanted = std::min(starts_max, run_.experiment.trials.size());
  if (wanted <= start_threads_) return;
  add_threads(wanted - start_threads_, start_orders_);
  start_threads_ = wanted;
}

void Executor::add_threads(std::size_t count, WorkQueue<Order>& orders) {
  for (std::size_t i = 0; i < count; ++i)
    threads_.emplace_back([this, &orders](const std::stop_token& quit) {
      while (const std::optional<Order> order = orders.pop())
        std::visit([&](const auto& one) { carry_out(one, quit); }, *order);
    });
}

void Executor::give_up_start(TrialIndex trial) {
  std::optional<std::stop_source> start;
  {
    const std::scoped_lock lock(starts_mutex_);
    if (const auto found = starts_.find(trial); found != starts_.end()) start.emplace(found->second);
  }
  if (start) start->request_stop();
}

// A start under way, which can be cancelled.
class Executor::Start {
 public:
  Start(Executor& executor, TrialIndex trial, const std::stop_token& quit)
      : executor_(executor),
        trial_(trial),
        on_quit_(quit, [this] { source_.request_stop(); }),
        on_stop_(source_.get_token(), [this] { interruptible_.request_stop(); }),
        on_interrupt_(executor.interruption_.get_token(), [this] { interruptible_.request_stop(); }) {
    const std::scoped_lock lock(executor_.starts_mutex_);
    executor_.starts_.insert_or_assign(trial, source_);
  }
  ~Start() {
    const std::scoped_lock lock(executor_.starts_mutex_);
    executor_.starts_.erase(trial_);
  }
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }
  // Returns a token that is also stopped if the run is interrupted, for steps that may take hours: fetching
  // and sending inputs, and waiting for a shared container for which the engine has no room yet. The attempt
  // stays `starting` in the record. A process that resumes the run adopts the attempt, if it was started.
  [[nodiscard]] std::stop_token interruptible_token() const { return interruptible_.get_token(); }

 private:
  Executor& executor_;
  TrialIndex trial_;
  std::stop_source source_;
  std::stop_source interruptible_;
  std::stop_callback<std::function<void()>> on_quit_;
  std::stop_callback<std::function<void()>> on_stop_;
  std::stop_callback<std::function<void()>> on_interrupt_;
};

// ---- Called in the threads of the queues: these functions post their results, and change only the map of
// starts

void Executor::carry_out(const StartCommand& command, const std::stop_token& quit) {
  const Trial& trial = trial_of(command.trial);
  const Start under_way(*this, command.trial, quit);
  const auto start = [&] {
    std::optional<Trial> changed;
    if (command.slots != trial.slots || !trial.inputs.empty()) {
      changed.emplace(trial).slots = command.slots;
      find_inputs(*changed, run_.host_paths, [&](const std::string& from, const std::string& path) {
        return fetch(from, path, under_way.interruptible_token());
      });
    }
    const bool may_take_hours =
        !trial.inputs.empty() || !trial.has_own_container() || !trial.container.secrets->empty();
    const std::stop_token until = may_take_hours ? under_way.interruptible_token() : under_way.token();
    StartResult result = engine_.start(run_, changed ? *changed : trial, command.attempt, until);
    inbox_.post(Event{StartAnswered{.trial = command.trial, .result = std::move(result)}});
  };
  call(start, [&](const Error& error) {
    const StartFailed event{.trial = command.trial, .error = error};
    const bool is_interrupted =
        error.kind() == ErrorKind::cancelled && under_way.interruptible_token().stop_requested();
    if ((under_way.token().stop_requested() || is_interrupted) && !quit.stop_requested()) {
      inbox_.post(Event{event});
    } else {
      fail(error, event);
    }
  });
}

// A message about a failed start shows Error::message() without Error::subject(), so fetch() adds the subject
// to the message.
std::string Executor::fetch(const std::string& from, const std::string& path, const std::stop_token& stop) {
  try {
    return output_store_->fetch(from, path, stop);
  } catch (const Error& error) {
    throw Error(error.kind(), error.subject(), error.what());
  }
}

void Executor::carry_out(const StopCommand& command, const std::stop_token& quit) {
  const std::string& name = trial_of(command.trial).name;
  const auto stop = [&] {
    engine_.stop({.run = run_.id, .trial = name, .attempt = command.attempt}, std::nullopt, quit);
    inbox_.post(Event{StopAnswered{.trial = command.trial, .attempt = command.attempt}});
  };
  call(stop, [&](const Error& error) {
    fail(error, StopFailed{.trial = command.trial, .error = error, .attempt = command.attempt});
  });
}

void Executor::carry_out(const CollectCommand& command, const std::stop_token& quit) {
  const Key key{.run = run_.id, .trial = trial_of(command.trial).name, .attempt = command.attempt};
  if (command.tail) post_tail(command.trial, key, quit);
  OutputsResult took{.collected = {.trial = command.trial}, .collection = std::nullopt};
  if (command.outputs) took = collect_trial_outputs(engine_, run_, command, *output_store_, quit);
  if (took.collection)
    inbox_.post(
        OutputsCollected{.trial = command.trial, .attempt = command.attempt, .collection = *took.collection});
  inbox_.post(Event{took.collected});
}

void Executor::carry_out(const PartialCollection::Take& part, const std::stop_token& quit) {
  std::stop_source stop = part.stop;
  const std::stop_callback on_quit(quit, [&stop] { stop.request_stop(); });
  inbox_.post(PartCollected{.trial = part.trial,
                            .fault = collect_partial_outputs(engine_, run_, part.trial, part.attempt,
                                                             *output_store_, stop.get_token())});
}

void Executor::look_up_all(const std::stop_token& quit) {
  for (std::vector<TrialIndex> trials; !(trials = lookups_.pop_up_to(k_lookups_at_once)).empty();) {
    call([&] { inbox_.post(CacheLookedUp{cache_lookup_->look_up(trials, quit)}); },
         [&](const Error& error) { lose_engine(error); });
  }
}

// If the log cannot be read, the run continues.
void Executor::post_tail(TrialIndex trial, const Key& key, const std::stop_token& quit) {
  std::string text;
  const auto read = [&] {
    engine_.logs(
        key, {.tail = k_tail_lines},
        [&](const LogPiece& piece) { append_to_tail(text, piece.text, k_tail_size_max); }, quit);
  };
  call(read, [](const Error&) {});
  std::istringstream lines(text);
  LogTail tail{.trial = trial, .lines = {}};
  for (std::string line; std::getline(lines, line);) tail.lines.push_back(line.substr(0, k_tail_line_max));
  if (!tail.lines.empty()) inbox_.post(std::move(tail));
}

// If usage or logs cannot be read, the run continues.
void Executor::carry_out(const PollUsage& order, const std::stop_token& quit) {
  const Steady::time_point began = Steady::now();
  UsagePolled polled{.poll = order, .usage = std::nullopt, .log_growth = {}};
  call([&] { polled.usage = engine_.usage(order.id, quit); }, [](const Error&) {});
  if (telemetry_ != nullptr)
    call(
        [&] {
          const Bytes before = log_size(order);
          store_log(order.trial, order.attempt, LogEnd::open, quit);
          polled.log_growth.count = log_size(order).count - before.count;
        },
        [](const Error&) {});
  polled.took = Steady::now() - began;
  inbox_.post(std::move(polled));
}

// Returns the size of the stored log.
Bytes Executor::log_size(const PollUsage& order) {
  const auto kept = telemetry_->log(trial_of(order.trial).name, order.attempt);
  return kept ? kept->size : Bytes{};
}

void Executor::carry_out(const IngestLog& order, const std::stop_token& quit) {
  LogIngested ingested{.order = order, .fault = {}};
  call([&] { store_log(order.trial, order.attempt, LogEnd::complete, quit); },
       [&](const Error& error) {
         if (error.kind() != ErrorKind::not_found) ingested.fault = error.what();
       });
  inbox_.post(std::move(ingested));
}

void Executor::store_log(TrialIndex trial, int attempt, LogEnd end, const std::stop_token& quit) {
  const Trial& it = trial_of(trial);
  try {
    for (std::string& text : ingest_logs(engine_, {.run = run_.id, .trial = it.name, .attempt = attempt}, it,
                                         end, *telemetry_, quit))
      inbox_.post(TrialNote{trial, std::move(text)});
  } catch (const Error&) {
    post_log_storage();
    throw;
  }
  post_log_storage();
}

void Executor::post_log_storage() {
  LogStorageChanged changed{.fault = telemetry_->fault()};
  const bool fails = !changed.fault.empty();
  if (is_log_storage_failing_.exchange(fails) != fails) inbox_.post(std::move(changed));
}

// Inspects all attempts of the order with one listing. Attempts that the listing lacks no longer exist on the
// engine.
void Executor::carry_out(const InspectMany& order, const std::stop_token& quit) {
  const auto look = [&] {
    Selector selector{.experiment = run_.experiment.name, .run = run_.id};
    std::map<std::string_view, const Observation*> found;
    for (const Observation& ended : order.ended) selector.trials.push_back(ended.key.trial);
    const std::vector<Observation> listed = engine_.list(selector, ListDetail::full, quit);
    for (const Observation& seen : listed) found.emplace(seen.key.trial, &seen);
    for (Observation ended : order.ended) {
      const auto seen = found.find(ended.key.trial);
      if (seen == found.end() || seen->second->key != ended.key) {
        ended.phase = Phase::gone;
      } else {
        ended.ran_at = seen->second->ran_at;
        ended.ended_at = seen->second->ended_at;
      }
      inbox_.post(Event{Inspected{std::move(ended)}});
    }
  };
  call(look, [&](const Error& error) { lose_engine(error); });
}

void Executor::carry_out(const ListAttempts& /*order*/, const std::stop_token& quit) {
  call(
      [&] {
        inbox_.post(Event{Listed{.observations = engine_.list(selector_, ListDetail::consistent, quit)}});
      },
      [&](const Error& error) { lose_engine(error); });
}

void Executor::lose_engine(const Error& error) {
  if (error.kind() != ErrorKind::cancelled) inbox_.post(EngineLost{error});
}

void Executor::fail(const Error& error, Event event) {
  if (error.kind() == ErrorKind::cancelled || error.kind() == ErrorKind::unavailable) {
    lose_engine(error);
  } else {
    inbox_.post(std::move(event));
  }
}

void Executor::watch(const std::stop_token& quit) {
  bool again = false;
  std::optional<Instant> there_since;
  const auto on_change = [&](const Change& change) {
    if (const auto* observation = std::get_if<Observation>(&change)) {
      inbox_.post(Event{Observed{*observation}});
      return;
    }
    // A stream may break although the engine was reachable all the time.
    const std::optional<Instant> before = std::exchange(there_since, engine_.facts(quit).began_at);
    const bool after_break = std::exchange(again, true) && (!there_since || there_since != before);
    inbox_.post(Event{ListingBegins{.after_break = after_break}});
    inbox_.post(Event{Listed{.observations = engine_.list(selector_, ListDetail::consistent, quit),
                             .after_break = after_break}});
  };
  call([&] { engine_.watch(selector_, on_change, quit); }, [&](const Error& error) { lose_engine(error); });
}

}  // namespace combu
