#pragma once
// The threads that carry a run's commands out, and one that watches the engine.

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

// Orders return at once; their answers are posted to `inbox`. All methods belong to one thread. The
// references outlive it.
class Executor {
 public:
  // `selector`: the attempts that are watched and listed. `stops_max`: stops at a time. A null pointer:
  // orders that need it are not given.
  Executor(Engine& engine, const Run& run, Selector selector, std::size_t stops_max, Inbox<Message>& inbox,
           OutputStore* output_store, Telemetry* telemetry, CacheLookup* cache_lookup);
  // Stops what is under way, and joins the threads: a command must not hold up the end of a run whose engine
  // is lost.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Begins to watch the engine, and to carry out orders.
  void begin(std::size_t starts_max);
  // From here on so many starts are carried out at a time, or as many as before if these were more.
  void allow_starts(std::size_t starts_max);

  void start(const std::vector<StartCommand>& commands) {
    start_orders_.push_all({commands.begin(), commands.end()});
  }
  void give_up_start(TrialIndex trial);
  // Inputs that are being fetched are given up: their attempts are not started.
  void give_up_fetches() { fetches_.request_stop(); }
  void stop(const StopCommand& command) { stop_orders_.push(command); }
  void collect_outputs(const CollectCommand& command) { output_orders_.push(command); }
  void collect_part(const PartialCollection::Take& part) { part_orders_.push(part); }
  void read_tail(const CollectCommand& command) { log_orders_.push(command); }
  void ingest_log(const IngestLog& order) { log_orders_.push(order); }
  void poll_usage(const PollUsage& order) { poll_orders_.push(order); }
  // Asks when these have begun and ended. Those that are gone are reported as such.
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

  void add_workers(std::size_t count, WorkQueue<Order>& orders);
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
  Inbox<Message>& inbox_;
  OutputStore* output_store_;
  Telemetry* telemetry_;
  CacheLookup* cache_lookup_;
  std::size_t start_workers_ = 0;
  std::mutex starts_mutex_;
  std::unordered_map<TrialIndex, std::stop_source> starts_;  // under way
  std::stop_source fetches_;                                 // of inputs
  std::atomic<bool> is_log_storage_failing_ = false;         // as was posted last
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
