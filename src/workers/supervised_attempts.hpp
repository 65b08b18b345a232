#pragma once
// The attempts in containers whose first process is the agent, and the connections to these agents.

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "combu/agent.hpp"
#include "combu/engine.hpp"
#include "combu/workers.hpp"
#include "workers/agent_client.hpp"
#include "workers/delivery.hpp"
#include "workers/subscriptions.hpp"

namespace combu::workers {

// The mutex of SupervisedAttempts guards all members.
struct SupervisedAttempt {
  explicit SupervisedAttempt(Observation seen) : key(seen.key), container(std::move(seen)) {}

  const Key key;
  Observation container;  // as the engine below has reported it last
  // The agent waits until this process sends this. nullopt: the program begins by itself, or another process
  // had to send it.
  std::optional<Delivery> delivery;
  std::vector<std::string> inputs;      // the digests of its inputs, once they are sent
  std::shared_ptr<AgentClient> client;  // nullptr: not connected
  bool is_queued = false;               // a thread connects to the agent, or will do so
  bool is_listed = false;               // the agent has listed what it knows since the last connection
  bool is_broken = false;               // the last connection has ended
  bool is_sent = false;                 // `delivery` was sent over the last connection, at least in part
  std::string broken_why;
  bool is_exec_refused = false;  // by the engine, in the last try to connect
  // The agent runs in a container that the engine has started again after its death. It does not know the
  // program any more.
  bool is_restarted = false;
  bool is_acknowledged = false;
  Seconds pause{0};  // before the next try to connect
  std::optional<agent::Started> started;
  std::optional<agent::Refused> refused;
  std::optional<agent::Ended> ended;
  bool is_adopted = false;          // this process owns the run
  bool is_health_of_agent = false;  // the health was reported before the program began
  // The program cannot begin any more, and the engine below has to stop the container.
  bool must_stop = false;

  [[nodiscard]] bool is_over() const {
    return container.phase == Phase::ended || container.phase == Phase::gone;
  }
  // True if there is a connection over which the agent has listed what it knows.
  [[nodiscard]] bool is_joined() const { return client && !is_broken && is_listed; }
  [[nodiscard]] bool has_begun() const { return started || ended; }
  // True if the agent has listed what it knows, and its program has not begun.
  [[nodiscard]] bool awaits_delivery() const {
    return container.placement.awaits_delivery && is_listed && !has_begun() && !refused && !is_restarted;
  }
  // True if the agent waits for what this process has to send over the connection.
  [[nodiscard]] bool needs_delivery() const {
    return is_joined() && awaits_delivery() && delivery && !is_sent;
  }
  // True if the agent waits until the owner of the run repeats the start.
  [[nodiscard]] bool lacks_delivery() const {
    return is_adopted && awaits_delivery() && !delivery && container.phase == Phase::running;
  }
  // Returns the attempt as combu reports it: its program may have ended although the container still runs.
  [[nodiscard]] Observation shown() const;
};
using SupervisedPtr = std::shared_ptr<SupervisedAttempt>;

// Thread-safe. `engine` must outlive the object. The threads of the object connect to the agents, and connect
// again after a connection has ended, as long as the container runs and its result is not acknowledged. On an
// engine that copies files, a connection is needed only until the program has begun.
class SupervisedAttempts {
 public:
  SupervisedAttempts(Engine& engine, const SupervisionLimits& limits) : engine_(engine), limits_(limits) {}
  ~SupervisedAttempts();
  SupervisedAttempts(const SupervisedAttempts&) = delete;
  SupervisedAttempts& operator=(const SupervisedAttempts&) = delete;

  // This process owns the run: it connects to the agents of the run's attempts. If one of them waits for what
  // an earlier owner had to send, the attempt counts as created, so that its start is repeated.
  void adopt(const RunId& run);
  [[nodiscard]] bool is_adopted(const RunId& run);
  // This process is about to start the attempt. `delivery`: what its agent waits for.
  void expect(const Key& key, std::optional<Delivery> delivery);
  // The start has failed, and there is no container.
  void give_up(const Key& key);
  // Handles the report of the engine below about a container, and returns the report about its attempt.
  Observation take(const Observation& container);

  [[nodiscard]] SupervisedPtr find(const Key& key);
  [[nodiscard]] SupervisedPtr find_by_id(const std::string& id);
  // Connects to the agent in a running container if this process has not. `container` is the last report of
  // the engine below.
  SupervisedPtr connect_to(const Observation& container);
  // Returns a connection, or nullptr if the container has ended. Waits while the connection is broken. Throws
  // Error(cancelled).
  [[nodiscard]] std::shared_ptr<AgentClient> await_client(const SupervisedPtr& attempt,
                                                          const std::stop_token& stop);
  // Waits until there is a connection and the agent has reported what it knows, at most until `until`.
  // Returns at once if no connection is needed, or the engine refuses it.
  void await_joined(const SupervisedPtr& attempt, std::chrono::steady_clock::time_point until,
                    const std::stop_token& stop);
  [[nodiscard]] bool has_begun(const SupervisedPtr& attempt);
  // Waits until the program has begun, at most until `until`. Returns false if it has not. Throws
  // Error(cancelled).
  bool await_begun(const SupervisedPtr& attempt, std::optional<std::chrono::steady_clock::time_point> until,
                   const std::stop_token& stop);
  // Like await_client(), but returns nullptr if there is no such connection now.
  [[nodiscard]] std::shared_ptr<AgentClient> client_of(const SupervisedPtr& attempt);
  [[nodiscard]] Observation shown(const SupervisedPtr& attempt);
  // Returns why there is no connection; empty: no connection has failed.
  [[nodiscard]] std::string fault_of(const SupervisedPtr& attempt);
  // Returns the last report of the engine below.
  [[nodiscard]] Observation container_of(const SupervisedPtr& attempt);
  // Returns the end that the agent has reported; nullopt if it has reported none.
  [[nodiscard]] std::optional<agent::Ended> end_of(const SupervisedPtr& attempt);
  // True if the program has begun, and its end is not known.
  [[nodiscard]] bool runs(const SupervisedPtr& attempt);
  // Lets the agents end. Returns the attempts that the engine below must forget.
  [[nodiscard]] std::vector<Key> acknowledge(const std::vector<Key>& keys);

  // Closes the connection if its agent does not answer for SupervisionLimits::silence_max.
  void guard(const std::shared_ptr<AgentClient>& client);

  void subscribe(Subscription& subscription);
  void unsubscribe(Subscription& subscription);

 private:
  using Steady = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  SupervisedPtr entry_of(const Observation& container);
  void drop(const SupervisedPtr& attempt);
  [[nodiscard]] bool needs_client(const SupervisedAttempt& attempt) const;
  // True if no connection is needed any more.
  [[nodiscard]] bool is_done(const SupervisedAttempt& attempt) const;
  // True if attend() has something to do.
  [[nodiscard]] bool needs_attention(const SupervisedAttempt& attempt) const;
  void queue_if_needed(const SupervisedPtr& attempt);
  void queue(const SupervisedPtr& attempt, Seconds pause);
  void begin_threads();
  void work(const std::stop_token& quit);
  void ping_all(const std::stop_token& quit);
  void attend(const SupervisedPtr& attempt, const std::stop_token& quit);
  void open_client(const SupervisedPtr& attempt, const std::stop_token& quit);
  void inspect(const SupervisedPtr& attempt, const std::stop_token& quit);
  void stop_if_needed(const SupervisedPtr& attempt, const std::stop_token& quit);
  void deliver_if_needed(const SupervisedPtr& attempt, const std::stop_token& quit);
  AgentEvents events_of(const SupervisedPtr& attempt);
  void publish(const SupervisedAttempt& attempt);

  Engine& engine_;
  const SupervisionLimits limits_;
  std::mutex mutex_;
  std::condition_variable_any changed_;  // an attempt has changed, or the queue
  std::set<RunId> adopted_;
  std::map<Key, SupervisedPtr> attempts_;
  std::map<Key, std::optional<Delivery>> expected_;  // of attempts whose containers are not reported yet
  std::multimap<Steady::time_point, SupervisedPtr> queue_;
  std::vector<std::weak_ptr<AgentClient>> guarded_;
  std::vector<Subscription*> subscriptions_;
  bool is_ending_ = false;  // the destructor has begun: no attempt is queued any more
  std::vector<std::jthread> threads_;
};

}  // namespace combu::workers
