#pragma once
// The threads that carry out a run's commands, and one thread that watches the engine.

#include <atomic>
#include <cstddef>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "combu/run.hpp"
#include "inbox.hpp"
#include "messages.hpp"
#include "partial_collection.hpp"
#include "work_queue.hpp"

namespace combu {

// Carries out the commands of a run. All methods must be called from one thread and return at once; the
// executor's threads post the answers to `inbox`. The referenced objects must outlive the executor.
class Executor {
 public:
  // `selector`: the attempts that are watched and listed. `stops_max`: maximum number of concurrent stops. If
  // a pointer of `context` is null, the caller must not give orders that need the object.
  Executor(const DriveContext& context, const Run& run, Selector selector, std::size_t stops_max,
           Inbox<Message>& inbox);
  // Cancels everything under way and joins the threads. Without the cancellation, a command could delay the
  // end of a run whose engine is lost.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Starts the threads, which watch the engine and carry out orders.
  void begin(std::size_t starts_max);
  // Raises the maximum number of concurrent starts to `starts_max`. Never lowers this maximum.
  void allow_starts(std::size_t starts_max);

  void start(const std::vector<StartCommand>& commands) {
    start_orders_.push_all({commands.begin(), commands.end()});
  }
  void give_up_start(TrialIndex trial);
  // Cancels the starts that may take hours: those that fetch or send inputs, or wait for a shared container.
  void interrupt_starts() { interruption_.request_stop(); }
  void stop(const StopCommand& command) { stop_orders_.push(command); }
  void collect_outputs(const CollectCommand& command) { output_orders_.push(command); }
  void collect_part(const PartialCollection::Take& part) { part_orders_.push(part); }
  void read_tail(const CollectCommand& command) { log_orders_.push(command); }
  void ingest_log(const IngestLog& order) { log_orders_.push(order); }
  void poll_usage(const PollUsage& order) { poll_orders_.push(order); }
  // Asks the engine when the attempts in `ended` began and ended. Attempts that no longer exist are reported
  // with Phase::gone.
  void inspect(std::vector<Observation> ended) { start_orders_.push(InspectMany{std::move(ended)}); }
  void list() { start_orders_.push(ListAttempts{}); }
  void look_up(TrialIndex trial) { lookups_.push(trial); }

 private:
  struct ListAttempts {};
  struct InspectMany {
    std::vector<Observation> ended;
  };
  using Order = std::variant<StartCommand, StopCommand, CollectCommand, PartialCollection::Take, ListAttempts,
                             InspectMany, PollUsage, IngestLog>;
  class Start;

  void add_threads(std::size_t count, WorkQueue<Order>& orders);
  void carry_out(const StartCommand& command, const std::stop_token& quit);
  void carry_out(const StopCommand& command, const std::stop_token& quit);
  void carry_out(const CollectCommand& command, const std::stop_token& quit);
  void carry_out(const PartialCollection::Take& part, const std::stop_token& quit);
  void carry_out(const ListAttempts& order, const std::stop_token& quit);
  void carry_out(const InspectMany& order, const std::stop_token& quit);
  void carry_out(const PollUsage& order, const std::stop_token& quit);
  void carry_out(const IngestLog& order, const std::stop_token& quit);
  void look_up_all(const std::stop_token& quit);
  void watch(const std::stop_token& quit);

  [[nodiscard]] const Trial& trial_of(TrialIndex trial) const { return run_.experiment.trials[trial]; }
  [[nodiscard]] std::string fetch(const std::string& from, const std::string& path,
                                  const std::stop_token& stop);
  void post_tail(TrialIndex trial, const Key& key, const std::stop_token& quit);
  [[nodiscard]] Bytes log_size(const PollUsage& order);
  void store_log(TrialIndex trial, int attempt, LogEnd end, const std::stop_token& quit);
  void post_log_storage();
  void lose_engine(const Error& error);
  void fail(const Error& error, Event event);

  Engine& engine_;
  const Run& run_;
  const Selector selector_;
  const std::size_t stops_max_;
  const std::size_t logs_max_;
  Inbox<Message>& inbox_;
  OutputStore* output_store_;
  Telemetry* telemetry_;
  CacheLookup* cache_lookup_;
  std::size_t start_threads_ = 0;
  std::mutex starts_mutex_;
  std::unordered_map<TrialIndex, std::stop_source> starts_;  // starts under way
  std::stop_source interruption_;                            // cancels the starts that may take hours
  std::atomic<bool> is_log_storage_failing_ = false;  // true if the last LogStorageChanged reported a fault
  WorkQueue<Order> start_orders_;
  WorkQueue<Order> stop_orders_;
  WorkQueue<Order> log_orders_;
  WorkQueue<Order> output_orders_;
  WorkQueue<Order> part_orders_;
  WorkQueue<Order> poll_orders_;
  WorkQueue<TrialIndex> lookups_;
  std::vector<std::jthread> threads_;
};

}  // namespace combu
