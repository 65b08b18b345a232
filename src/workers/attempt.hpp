#pragma once
// An attempt in a worker, as this process knows it, and what its agent's messages mean for users.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/agent.hpp"
#include "combu/engine.hpp"

namespace combu::workers {

// The mutex of the Registry guards all members.
struct Attempt {
  enum class State {
    reserved,  // has a place in the worker; its start is not sent, or must be sent again
    sent,      // the start is sent; the agent has not answered
    running,
    ended,      // the agent has reported the end, or the attempt was lost
    refused,    // the agent could not start it; `refused` says why
    displaced,  // was removed, or its worker ended before the start: a start needs another worker
  };
  Key key;
  Slots slots;
  State state = State::reserved;
  bool is_start_sent = false;  // a start was sent at least once: an agent may begin the attempt
  bool is_listed = false;      // the agent has named the attempt since the last connection
  Instant began_at{};
  Seconds spawn{0};
  std::optional<agent::Refused> refused;
  std::optional<agent::Ended> ended;
  std::string lost;  // as Observation::lost
  Instant lost_at{};
  std::string scratch;  // path of the scratch folder in the container; empty if unknown
  // If the file of results of its worker, which has ended, contains the attempt: its Result::number; else 0.
  std::uint32_t result = 0;
  std::condition_variable_any changed;  // notified when `state` changes

  [[nodiscard]] bool is_alive() const {
    return state == State::reserved || state == State::sent || state == State::running;
  }
};

// The id by which the agent knows an attempt.
[[nodiscard]] std::string id_of(const Key& key);
[[nodiscard]] std::optional<Key> key_of(const RunId& run, std::string_view id);

// Throws Error(refused, `subject`) if the message is too large for a frame.
void check_size(const agent::Start& start, const std::string& subject);

// Adds the end of an attempt, as the agent reports it: exit code, time, cause and usage.
void add_end(Observation& seen, const agent::Ended& ended);
// Adds the causes that the flags of agent::Ended name.
void add_flags(Observation& seen, std::uint32_t flags);

// Returns a text for users: why the agent could not start an attempt.
[[nodiscard]] std::string reason_of(const agent::Refused& refused, const std::vector<std::string>& argv);

// Passes the lines of a chunk to `on_piece`: each line with its line end, and the rest of the chunk.
void split_chunk(const agent::LogChunk& chunk, const OnLogPiece& on_piece);

// Returns a function that passes the lines of each chunk at `since` or later to `on_piece`.
[[nodiscard]] std::function<void(const agent::LogChunk&)> split_chunks_since(std::optional<Instant> since,
                                                                             OnLogPiece on_piece);

// Implements LogOptions::tail for a log that can only be read from its beginning: calls `read` without
// `tail`.
void read_tail_first(const LogOptions& options, const OnLogPiece& on_piece,
                     const std::function<void(const LogOptions&, const OnLogPiece&)>& read);

// The last lines of a log that is read from its beginning. Drops earlier pieces while more are added.
class LastLines {
 public:
  explicit LastLines(std::int64_t lines) : lines_(lines) {}
  // A piece contains at most one line end, which is its last character.
  void add(const LogPiece& piece);
  void pass_to(const OnLogPiece& on_piece) const;
  [[nodiscard]] std::size_t pieces() const { return pieces_.size(); }
  // The time of the last piece that was added.
  [[nodiscard]] std::optional<Instant> last_at() const { return last_at_; }

 private:
  struct Piece {
    LogStream stream;
    std::string text;
    Instant at;
  };
  const std::int64_t lines_;
  std::deque<Piece> pieces_;
  std::int64_t ends_ = 0;  // number of line ends in pieces_, without that of the last piece
  std::optional<Instant> last_at_;
};

// Throws Error(cancelled) if a stop is requested.
void throw_if_cancelled(const Key& key, const std::stop_token& stop);

// Returns the number of a signal, such as "SIGINT", "INT", "2", "SIGRTMIN+3" or "SIGRTMAX-2"; SIGTERM for an
// unknown name.
[[nodiscard]] int signal_number(std::string_view name);

[[nodiscard]] Instant instant_of(std::int64_t nanoseconds);
[[nodiscard]] std::int64_t nanoseconds_of(Instant instant);

}  // namespace combu::workers
