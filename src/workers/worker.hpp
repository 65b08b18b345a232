#pragma once
// The state of workers and of the attempts in them, as this process knows it.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "combu/agent.hpp"
#include "combu/engine.hpp"
#include "workers/agent_client.hpp"
#include "workers/container.hpp"

namespace combu::workers {

using Steady = std::chrono::steady_clock;

// An attempt in a worker. The mutex of the engine guards all members.
struct Attempt {
  enum class State {
    reserved,  // has a place in the worker; its start is not sent, or must be sent again
    sent,      // the start is sent; the agent has not answered
    running,
    ended,  // the agent has reported the end, or the attempt was lost
    refused,
  };
  Key key;
  Slots slots;
  State state = State::reserved;
  bool is_listed = false;  // the agent has named the attempt since the last connection
  Instant began_at{};
  Seconds spawn{0};
  std::optional<agent::Refused> refused;
  std::optional<agent::Ended> ended;
  std::string lost;  // as Observation::lost
  Instant lost_at{};
  std::string scratch;  // path of the scratch folder in the container; empty if unknown
  // For the result of a worker that has ended: the whole log.
  std::vector<agent::LogChunk> log;
  std::condition_variable_any changed;  // notified when `state` changes

  [[nodiscard]] bool is_alive() const {
    return state == State::reserved || state == State::sent || state == State::running;
  }
};

// A worker. The mutex of the engine guards all members.
struct Worker : std::enable_shared_from_this<Worker> {
  enum class State {
    creating,
    connected,
    broken,  // the connection has ended; it will be opened again
    over,    // the container has ended, or is being removed
  };
  Key key;  // of the container
  std::string experiment;
  std::string file;
  std::string image;
  std::string id;  // Observation::id of the container
  Slots slots;     // of the container
  Note note;
  combu::Worker limits;  // trials_max, age_max and idle
  bool is_own = false;   // this process starts attempts in the worker
  State state = State::creating;
  bool is_listed = false;    // the agent has listed its attempts since the last connection
  bool is_retiring = false;  // gets no further attempts, and ends after its last attempt
  std::size_t begun = 0;     // number of attempts that were started
  Steady::time_point created_at = Steady::now();
  Steady::time_point idle_since = Steady::now();
  Steady::time_point remove_at{};  // the container could not be removed; the moment of the next try
  std::string boot;                // agent::Welcome::boot
  std::string broken_why;          // why the last connection has ended
  std::vector<std::string> input_digests;
  std::shared_ptr<AgentClient> client;
  std::map<std::string, std::shared_ptr<Attempt>> attempts;  // by id_of()
  // All attempts that are alive, and some that are not. Many ended attempts may stay in `attempts` until
  // their outputs are collected.
  std::vector<std::shared_ptr<Attempt>> places;
  // Ids of attempts that are no longer in `attempts`. The agent may know them until it gets the message
  // Forget, which may be lost. `forgotten_before`: those from before the last ping that the agent answered.
  std::set<std::string> forgotten;
  std::set<std::string> forgotten_before;

  // Returns the number of attempts that are alive, and removes the others from `places`.
  [[nodiscard]] std::size_t alive();
  [[nodiscard]] bool has_forgotten(const std::string& id) const {
    return forgotten.contains(id) || forgotten_before.contains(id);
  }
  [[nodiscard]] bool has_place() {
    return is_own && (state == State::connected || state == State::creating) && !is_retiring &&
           alive() < note.concurrency && (limits.trials_max == 0 || begun < limits.trials_max);
  }
};

// The id by which the agent knows an attempt.
[[nodiscard]] std::string id_of(const Key& key);
[[nodiscard]] std::optional<Key> key_of(const RunId& run, std::string_view id);

[[nodiscard]] Observation observation_of(const Worker& worker, const Attempt& attempt);

// Returns a text for users: why the agent could not start an attempt.
[[nodiscard]] std::string reason_of(const agent::Refused& refused, const std::vector<std::string>& argv);

// Passes the lines of a chunk to `on_piece`: each line with its line end, and the rest of the chunk.
void split_chunk(const agent::LogChunk& chunk, const OnLogPiece& on_piece);

// Returns the number of a signal, such as "SIGINT", "INT", "2", "SIGRTMIN+3" or "SIGRTMAX-2"; SIGTERM for an
// unknown name.
[[nodiscard]] int signal_number(std::string_view name);

[[nodiscard]] Instant instant_of(std::int64_t nanoseconds);
[[nodiscard]] std::int64_t nanoseconds_of(Instant instant);

}  // namespace combu::workers
