#pragma once
// A worker, as this process knows it: its container, the connection to its agent, and its attempts.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/agent.hpp"
#include "combu/engine.hpp"
#include "workers/agent_client.hpp"
#include "workers/attempt.hpp"
#include "workers/container.hpp"
#include "workers/registry.hpp"

namespace combu::workers {

using Steady = std::chrono::steady_clock;

// The mutex of the registry guards all members.
struct Worker : std::enable_shared_from_this<Worker> {
  enum class State {
    creating,
    connected,
    broken,  // the connection has ended; it will be opened again
    over,    // the container has ended, or is being removed
  };
  // The creation of the container by this process.
  struct Creation {
    bool is_pending = false;  // the engine has accepted the container, which does not run yet
    bool is_left = false;     // no start waits for the pending container any more: the keeper connects
    std::optional<Observation> last;  // the last change that the engine has reported
    std::optional<Trial> unstaged;    // the container, until stage_inputs() has copied its inputs into it
  };
  // The tries to connect again. `at`: the moment of the next try; k_under_way during a try.
  struct Reconnection {
    static constexpr Steady::time_point k_under_way = Steady::time_point::max();
    Steady::time_point at;
    Steady::time_point give_up_at;
    Seconds pause{0.05};
  };

  // The registry must outlive the worker's connection.
  explicit Worker(Registry& all) : registry(all) {}

  Registry& registry;
  // The container as the engine has reported it when this process created or found it; the key never changes.
  // If this process has created it, `digest` and `inputs` are known.
  Observation container;
  Creation creation;
  Note note;
  combu::WorkerSettings limits;   // trials_max, age_max and idle
  bool has_gpus = false;          // chosen by the engine, and not in `container.slots`
  bool is_own = false;            // this process starts attempts in the worker
  bool is_created_here = false;   // this process has created the container
  State state = State::creating;  // changed by become() only
  bool is_listed = false;         // the agent has listed its attempts since the last connection
  bool is_retiring = false;       // gets no further attempts, and ends after its last attempt
  std::size_t begun = 0;          // number of attempts that were started
  Steady::time_point created_at = Steady::now();
  Steady::time_point idle_since = Steady::now();
  Steady::time_point remove_at{};  // the container could not be removed; the moment of the next try
  Steady::time_point check_at{};   // the moment of the next close_if_silent()
  std::string boot;                // agent::Welcome::boot
  std::string broken_why;          // why the last connection has ended
  std::optional<Reconnection> reconnection;
  std::shared_ptr<AgentClient> client;
  std::map<std::string, std::shared_ptr<Attempt>> attempts;  // by id_of()
  // All attempts that are alive, and some that are not. Many ended attempts may stay in `attempts` until
  // their outputs are collected.
  std::vector<std::shared_ptr<Attempt>> occupants;
  // Ids of attempts that are no longer in `attempts`. The agent may know them until it gets the message
  // Forget, which may be lost. `forgotten_before`: those from before the last ping that the agent answered.
  std::set<std::string> forgotten;
  std::set<std::string> forgotten_before;
  std::vector<std::string> unsent;  // ids for which the keeper must send Forget

  [[nodiscard]] const Key& key() const { return container.key; }

  // ---- The caller holds the mutex of the registry

  // Changes `state`, and notifies `registry.changed`. The state `over` is final.
  void become(State next);
  // True if the container holds something that other attempts may need.
  [[nodiscard]] bool has_claim() const { return has_gpus || !container.slots.empty(); }
  // Returns the number of attempts that are alive, and removes the others from `occupants`.
  [[nodiscard]] std::size_t alive();
  [[nodiscard]] bool has_room();
  // True if no attempt needs the worker, and it has reached one of its limits.
  [[nodiscard]] bool has_to_end(Steady::time_point now);
  std::shared_ptr<Attempt> add_attempt(const Key& attempt, const Slots& attempt_slots);
  // Removes the attempt, which the agent must forget: the caller sends Forget.
  // Returns nullptr if the worker does not have it.
  std::shared_ptr<Attempt> forget(const std::string& attempt);
  [[nodiscard]] bool has_unsent() const { return state == State::connected && !unsent.empty(); }
  // Like forget(), but the keeper sends Forget.
  void forget_later(const std::string& attempt);
  // True if the agent has listed its attempts to this process, or the worker has ended.
  [[nodiscard]] bool is_known() const { return !boot.empty() || state == State::over; }
  // Sends Forget for the attempts in `unsent`, and a ping. Does not block. If the connection breaks, the
  // agent names the attempts after the next connection, and their ids get into `unsent` again.
  void send_messages(bool with_ping);
  // Moves attempts from workers of the same shape that do not run yet to the free places of this worker.
  // Their starts look for a place again.
  void offer_places();
  // Makes at most `count_max` attempts without a started program look for another place. Returns their
  // number.
  std::size_t displace(std::size_t count_max);
  // Reports why the attempts wait that have a place in this worker, whose container does not run yet.
  void publish_pending(const std::string& reason) const;
  // Reports that the attempt was removed.
  void drop(Attempt& attempt) const;
  void reconnect_soon();
  [[nodiscard]] Observation observation_of(const Attempt& attempt) const;

  // ---- The caller does not hold the mutex of the registry

  // Connects to the agent. Throws Error(unavailable), also if the worker ends meanwhile, or Error(cancelled).
  void connect(const std::stop_token& stop);
  // Connects to a worker that has been listed as running. It may have ended since.
  void connect_or_end(const std::stop_token& stop);
  // Makes one try of `reconnection`. If the agent does not answer for a time, removes the container: only
  // then its attempts count as lost.
  void reconnect(const std::stop_token& stop);
  // Returns a connection, or nullptr if the worker has ended. Waits while the connection is broken.
  [[nodiscard]] std::shared_ptr<AgentClient> await_client(const std::stop_token& stop);
  // Breaks the connection if the agent has not answered a ping for a time. Does not block.
  void close_if_silent();
  // Counts the attempts that have not ended as lost.
  void end_attempts(const std::string& why);
  // Handles the end of the container, if it has ended. Returns false if the container runs.
  bool handle_end(const std::stop_token& stop);
  // Passes the log of a result of a worker that has ended to `sink`. Returns false if a part of the log is
  // missing. `result`: Attempt::result. Throws Error(not_found) if the container has no file of results.
  bool read_result_log(std::uint32_t result, const std::function<void(const agent::LogChunk&)>& sink,
                       const std::stop_token& stop) const;
  // Ends the container. `state` must be `over`. Returns false if the container could not be removed: then the
  // keeper tries again.
  bool try_remove(const std::stop_token& stop);
  bool try_remove_container(const std::stop_token& stop);

 private:
  void stage(const std::stop_token& stop);
  AgentEvents events();
  [[nodiscard]] bool try_reconnect(const std::stop_token& stop);
  void await_stream_end(const std::stop_token& stop);
  std::string read_results(const std::stop_token& stop);

  // The caller holds the mutex of the registry.
  [[nodiscard]] bool has_forgotten(const std::string& attempt) const {
    return forgotten.contains(attempt) || forgotten_before.contains(attempt);
  }
  void on_welcome(const agent::Welcome& welcome);
  void on_started(const agent::Started& started);
  void on_refused(const agent::Refused& refused);
  void on_ended(agent::Ended&& ended);
  void on_listed();
  void on_broken(const std::string& why);
  Attempt* attempt_of(const std::string& attempt);
  void lose(Attempt& attempt, const std::string& why);
};

}  // namespace combu::workers
