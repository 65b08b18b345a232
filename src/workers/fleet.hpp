#pragma once
// The workers that this process knows: finds and creates them, keeps the connections to their agents, and
// collects what the agents report.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "combu/engine.hpp"
#include "combu/workers.hpp"
#include "workers/subscriptions.hpp"
#include "workers/worker.hpp"

namespace combu::workers {

// Thread-safe. `engine` must outlive the fleet.
class Fleet {
 public:
  Fleet(Engine& engine, AgentPrograms programs);
  // Ends this process's workers that have no attempts left, and closes the connections to the others.
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // ---- Runs and images

  // From now on, the workers of the run are known by their attempts (see with_workers()).
  void adopt(const RunId& run);
  [[nodiscard]] bool is_adopted(const RunId& run);
  void set_program(const std::string& image, const std::string& platform, const ImageProgram& program);
  [[nodiscard]] std::optional<ImageProgram> program_of(const Trial& trial);
  [[nodiscard]] bool has_agent_for(std::string_view platform) const { return !programs_(platform).empty(); }

  // ---- Attempts

  // An attempt and its worker.
  struct Found {
    std::shared_ptr<Worker> worker;
    std::shared_ptr<Attempt> attempt;
  };
  [[nodiscard]] std::optional<Found> find(const Key& key);
  // Returns the attempt with Observation::id `id`.
  [[nodiscard]] std::optional<Found> find_by_id(const std::string& id);
  // False if the attempt has ended.
  [[nodiscard]] bool is_alive(const Found& found);
  // Returns a place for an attempt in a worker of its shape, and creates a worker if necessary. Returns
  // TakenByOther if the engine has no slots for a further worker. Repeatable: returns the existing attempt.
  // Throws the errors of Engine::start().
  [[nodiscard]] std::variant<Found, TakenByOther> reserve(const Run& run, const Trial& trial, int attempt,
                                                          const std::stop_token& stop);
  // Starts the reserved attempt. Blocks until it runs or has ended. Returns nullopt if the worker could not
  // be created, so that the caller must reserve another place. Throws the errors of Engine::start().
  [[nodiscard]] std::optional<Observation> start(const Found& place, const Trial& trial,
                                                 const std::stop_token& stop);
  void stop(const Found& found, std::optional<Seconds> grace, const std::stop_token& stop);
  void acknowledge(const std::vector<Key>& keys);
  // Returns a connection to the worker, or nullptr if the worker has ended.
  [[nodiscard]] std::shared_ptr<AgentClient> client_of(const std::shared_ptr<Worker>& worker,
                                                       const std::stop_token& stop);
  // Returns the attempt's log if this process has all of it.
  [[nodiscard]] std::optional<std::vector<agent::LogChunk>> whole_log(const Found& found);

  // ---- Workers

  // Connects to the workers that `containers` lists and that this process does not know yet, and reads the
  // results of those that have ended. Returns an error for each worker that could not be reached, and which
  // stays unknown.
  [[nodiscard]] std::vector<Error> discover(const std::vector<Observation>& containers,
                                            const std::stop_token& stop);
  // Waits until the events are handled that the agents of the run's workers have sent before the call.
  // nullopt: of all runs.
  void sync(const std::optional<RunId>& run, const std::stop_token& stop);
  // Returns the attempts in all known workers.
  [[nodiscard]] std::vector<Observation> attempts();
  // Handles a change of a worker's container that the engine has reported.
  void see(const Observation& container);
  // Ends a worker without attempts, or waits a moment for the end of the worker `holder`. Returns false if no
  // worker has ended.
  [[nodiscard]] bool free_slots(const Observation& holder, const std::stop_token& stop);
  // Forgets a worker whose container was removed, with its attempts.
  void forget_worker(const Key& worker);
  // Kills and forgets attempts.
  void remove_attempts(const std::vector<Key>& keys, const std::stop_token& stop);
  // Returns the workers of these runs that have no attempts.
  [[nodiscard]] std::vector<Key> without_attempts(const std::set<RunId>& runs);

  // ---- Subscriptions

  void subscribe(Subscription& subscription);
  void unsubscribe(Subscription& subscription);

 private:
  struct Image {
    std::string name;
    std::string platform;
    auto operator<=>(const Image&) const = default;
  };
  using WorkerPtr = std::shared_ptr<Worker>;
  // A worker to connect to again, and the moment of the next try.
  struct Reconnection {
    WorkerPtr worker;
    Steady::time_point at;
    Steady::time_point give_up_at;
    Seconds pause{0.05};
  };

  void remove_earlier(const Key& key, const std::stop_token& stop);
  WorkerPtr find_place(const Run& run, const Trial& trial, const Note& note);
  Found add_attempt(const WorkerPtr& worker, const Key& key, const Slots& slots);
  StartResult create(const WorkerPtr& worker, const Run& run, const Trial& trial,
                     const std::stop_token& stop);
  bool end_idle(const std::stop_token& stop);
  bool await_end_of(const Observation& holder, const std::stop_token& stop);
  agent::Start start_message(const Trial& trial, const Key& key);
  void send_start(AgentClient& client, const agent::Start& message, const Trial& trial,
                  std::vector<std::string>& digests, const std::stop_token& stop);
  std::shared_ptr<const ProvidedProgram> provided(const Trial& trial);
  void connect(const WorkerPtr& worker, const std::stop_token& stop);
  AgentEvents events_of(const WorkerPtr& worker);
  void take_welcome(Worker& worker, const agent::Welcome& welcome);
  void take_started(Worker& worker, const agent::Started& started);
  void take_refused(Worker& worker, const agent::Refused& refused);
  void take_ended(Worker& worker, agent::Ended&& ended);
  void take_listed(Worker& worker);
  Attempt* attempt_of(Worker& worker, const std::string& id);
  void lose(Worker& worker, Attempt& attempt, const std::string& why);
  void publish(const Worker& worker, const Attempt& attempt);
  void drop(const Worker& worker, Attempt& attempt);
  void connect_or_end(const WorkerPtr& worker, const std::stop_token& stop);
  bool take_end(const WorkerPtr& worker, const std::stop_token& stop);
  void end_attempts(Worker& worker, const std::string& why);
  void read_results(const WorkerPtr& worker, const std::stop_token& stop);
  bool try_remove(const WorkerPtr& worker, const std::stop_token& stop);
  bool try_remove_container(const Worker& worker, const std::stop_token& stop);

  void keep(const std::stop_token& quit);
  void ping(Worker& worker);
  void forget_again(const std::vector<std::pair<WorkerPtr, std::string>>& stale);
  void reconnect_soon(const WorkerPtr& worker);
  void reconnect(Reconnection& task, const std::stop_token& quit);
  std::vector<WorkerPtr> to_end(Steady::time_point now);

  Engine& engine_;
  AgentPrograms programs_;
  std::mutex mutex_;
  std::condition_variable_any changed_;  // wakes the keeper, and threads that wait for a worker
  std::set<RunId> adopted_;
  std::map<Image, ImageProgram> images_;
  std::map<std::string, std::shared_ptr<const ProvidedProgram>> provided_;  // by platform
  std::map<Key, WorkerPtr> workers_;
  std::map<RunId, std::size_t> last_number_;  // of a worker's name
  std::deque<Reconnection> reconnections_;
  // Attempts that an agent has named although they are forgotten. The keeper repeats the message Forget.
  std::vector<std::pair<WorkerPtr, std::string>> stale_;
  std::vector<Subscription*> subscriptions_;
  std::jthread keeper_;  // the last member: its thread uses all others
};

}  // namespace combu::workers
