#pragma once
// The workers of this process: finds and creates them, and chooses the worker for each attempt.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "combu/engine.hpp"
#include "workers/assigned_attempt.hpp"
#include "workers/images.hpp"
#include "workers/keeper.hpp"
#include "workers/registry.hpp"
#include "workers/subscriptions.hpp"
#include "workers/worker.hpp"

namespace combu::workers {

// Thread-safe. `engine` and `images` must outlive the fleet.
class Fleet {
 public:
  Fleet(Engine& engine, Images& images);
  // Ends this process's workers that have no attempts left, and closes the connections to the others.
  ~Fleet();
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // From now on, the workers of the run are known by their attempts (see with_workers()).
  void adopt(const RunId& run);
  [[nodiscard]] bool is_adopted(const RunId& run);

  // ---- Attempts

  [[nodiscard]] std::optional<AssignedAttempt> find(const Key& key);
  // Returns the attempt with Observation::id `id`.
  [[nodiscard]] std::optional<AssignedAttempt> find_by_id(const std::string& id);
  // Returns the attempts in all known workers.
  [[nodiscard]] std::vector<Observation> attempts();
  using Place = std::variant<AssignedAttempt, TakenByOther, NoRoom>;
  // Returns a place for an attempt in a worker of its shape, and creates a worker if necessary. Returns
  // TakenByOther or NoRoom if the engine has no slots, or no quota, for a further worker. Repeatable: returns
  // the existing attempt. Throws the errors of Engine::start().
  [[nodiscard]] Place reserve(const Run& run, const Trial& trial, int attempt, const std::stop_token& stop);
  void acknowledge(const std::vector<Key>& keys);
  // Kills and forgets attempts. Returns the errors of agents that did not answer, by worker, one for each
  // attempt. Such an agent forgets the attempts when it answers.
  [[nodiscard]] std::map<Key, std::vector<Error>> remove_attempts(const std::vector<Key>& keys,
                                                                  const std::stop_token& stop);

  // ---- Workers

  // Connects to the workers that `containers` lists and that this process does not know yet, and reads the
  // results of those that have ended. Returns an error for each running worker that could not be reached, so
  // that its attempts are unknown, and for each ended worker whose results could not be read.
  [[nodiscard]] std::vector<Error> discover(const std::vector<Observation>& containers,
                                            const std::stop_token& stop);
  // Waits until the events are handled that the agents of the run's workers have sent before the call.
  // nullopt: of all runs.
  void sync(const std::optional<RunId>& run, const std::stop_token& stop);
  // Handles a change of a worker's container that the engine has reported.
  void see(const Observation& container);
  // Ends a worker without attempts, or waits a moment for the end of the worker `holder`. Returns false if no
  // worker has ended.
  [[nodiscard]] bool free_slots(const Observation& holder, const std::stop_token& stop);
  // Ends a worker without attempts, because the engine has no room for more containers. Returns false if no
  // worker has ended.
  [[nodiscard]] bool free_room(const std::stop_token& stop) { return end_idle(Idle::any, stop); }
  // Forgets a worker whose container was removed, with its attempts.
  void forget_worker(const Key& worker);
  // Returns the workers of these runs that have no attempts.
  [[nodiscard]] std::vector<Key> without_attempts(const std::set<RunId>& runs);

  // ---- Subscriptions

  void subscribe(Subscription& subscription);
  void unsubscribe(Subscription& subscription);

 private:
  // A worker that this process did not know, and the state of its container.
  struct Found {
    WorkerPtr worker;
    Phase phase;
  };

  std::vector<Found> add_workers(const std::vector<Observation>& containers);
  std::optional<Error> get_to_know(const Found& found, const std::stop_token& stop);
  void remove_earlier(const Key& key, const std::stop_token& stop);
  void begin_keeping();
  WorkerPtr find_free_worker(const Run& run, const Trial& trial, const Note& note);
  WorkerPtr add_worker(const Run& run, const Trial& trial, const Note& note);
  void displace_attempts(Worker& worker);
  Place create_for(const AssignedAttempt& first, const Run& run, const Trial& trial,
                   const std::stop_token& stop);
  StartResult create(const AssignedAttempt& first, const Run& run, const Trial& trial,
                     const std::stop_token& stop);
  std::optional<Observation> await_container(const WorkerPtr& worker, const Attempt& attempt,
                                             const std::stop_token& stop);
  void look_at(const Key& key, const std::stop_token& stop);
  bool has_free_place(const Run& run, const Trial& trial, const Note& note);
  enum class Idle { with_claim, any };
  bool end_idle(Idle which, const std::stop_token& stop);
  bool await_end_of(const Observation& holder, const std::stop_token& stop);

  Images& images_;
  Registry all_;
  std::once_flag begun_keeping_;
  std::optional<Keeper> keeper_;
  // The mutex of `all_` guards these members, too.
  std::set<RunId> adopted_;
  std::map<RunId, std::size_t> last_number_;  // of a worker's name
};

}  // namespace combu::workers
