#pragma once
// The simulated agent of a worker: speaks the protocol of combu/agent.hpp, and runs attempts as scripts.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "combu/agent.hpp"
#include "combu/simulated.hpp"
#include "script.hpp"

namespace combu {

// The rest of an answer to ReadLog or Collect.
struct AgentAnswer {
  struct Part {
    std::string frame;
    std::size_t size = 0;  // of the log or archive in the frame
  };
  std::uint32_t request = 0;
  std::string log_of;      // id of the attempt; empty if the answer is an archive
  bool is_follow = false;  // the answer ends after the attempt
  std::deque<Part> parts;
  std::int64_t credit = agent::k_window;  // bytes that may be sent before the next More
};

// A connection of a client to a simulated agent. Its members are guarded by the caller's lock.
struct AgentConnection {
  agent::FrameReader received;
  std::string unread;    // bytes of the agent that the client has not read
  bool is_over = false;  // no bytes follow `unread`
  bool is_cut = false;   // the connection broke; it was not closed
  bool is_greeted = false;
  std::vector<AgentAnswer> answers;
};

// Events of an agent: the end of an attempt, the end of the worker by a fault, and the end of the worker
// because it has had no work.
enum class AgentDue { attempt_end, killed, idle };

// The parts of the world that an agent uses.
struct AgentSurroundings {
  const SimulationOptions& options;
  std::function<std::uint64_t()> random;
  // Makes the world call handle() of the agent later.
  std::function<void(Instant at, AgentDue what, std::uint64_t attempt)> schedule;
  std::map<std::string, std::string>& files;  // of the container, by absolute path
  std::vector<World::Execution>& executions;  // the agent adds an element for each attempt that it runs
  Bytes memory;                               // limit of the container; 0: no limit
  Key worker;
};

// Has no threads and no clock, like World.
class SimulatedAgent {
 public:
  // `folder`, `idle` and `note`: the arguments of the agent's program.
  SimulatedAgent(AgentSurroundings surroundings, std::string folder, Seconds idle, std::string note,
                 Instant now);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] std::shared_ptr<AgentConnection> join();
  // The client has sent bytes.
  void receive(AgentConnection& connection, std::string_view bytes, Instant now);
  // The client has closed the connection.
  void close(AgentConnection& connection, Instant now);
  // Breaks all connections; the attempts go on.
  void cut_all(Instant now);
  // A moment that was scheduled has come. Returns true if the container ends now.
  [[nodiscard]] bool handle(AgentDue what, std::uint64_t attempt, Instant now);
  // The agent gets SIGTERM, or is idle: it kills the attempts, and leaves the file of results.
  void finish(Instant now);
  // The container was killed: its attempts and connections end.
  void die(Instant now);

 private:
  struct Attempt {
    enum class State { awaits_inputs, running, ended };
    std::uint64_t number = 0;
    State state = State::running;
    agent::Start start;
    Script script;
    bool is_out_of_memory = false;
    bool is_timed_out = false;
    AgentConnection* asker = nullptr;  // only for comparison
    std::string inputs;                // a tar archive
    Instant began{};
    agent::Started started;
    agent::Ended ended;
    std::vector<agent::LogChunk> log;
    std::size_t execution = 0;  // index into AgentSurroundings::executions
  };

  bool chance(double probability);
  template <class Message>
  void send(AgentConnection& to, const Message& message);
  void send_frame(AgentConnection& to, std::string frame);
  template <class Message>
  void broadcast(const Message& message);
  void send_answers(AgentConnection& to);
  void cut(AgentConnection& connection);
  void sweep(Instant now);
  void take(AgentConnection& from, const agent::Frame& frame, Instant now);
  void handle(AgentConnection& from, agent::Hello& message, Instant now);
  void handle(AgentConnection& from, agent::Start& message, Instant now);
  void handle(AgentConnection& from, agent::Put& message, Instant now);
  void handle(AgentConnection& from, agent::Stop& message, Instant now);
  void handle(AgentConnection& from, agent::Forget& message, Instant now);
  void handle(AgentConnection& from, agent::ReadLog& message, Instant now);
  void handle(AgentConnection& from, agent::Collect& message, Instant now);
  void handle(AgentConnection& from, agent::Cancel& message, Instant now);
  void handle(AgentConnection& from, agent::More& message, Instant now);
  void handle(AgentConnection& from, agent::GetUsage& message, Instant now);
  void handle(AgentConnection& from, agent::Call& message, Instant now);
  void handle(AgentConnection& from, agent::Ping& message, Instant now);
  void begin(Attempt& attempt, Instant now);
  void refuse(Attempt& attempt, agent::Refused refused);
  void end(Attempt& attempt, int exit_code, int signal, std::uint32_t flags, Instant now);
  void forget(const std::string& id, Instant now);
  [[nodiscard]] std::string scratch_of(const Attempt& attempt) const;
  [[nodiscard]] bool is_idle() const;
  void note_idle(Instant now);

  AgentSurroundings around_;
  const std::string folder_;
  const Seconds idle_;
  const std::string note_;
  const std::string boot_;
  std::vector<std::shared_ptr<AgentConnection>> connections_;
  std::map<std::string, Attempt> attempts_;  // by id
  std::uint64_t last_attempt_ = 0;
  Instant idle_since_{};
};

}  // namespace combu
