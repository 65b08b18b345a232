#pragma once
// The agent serves the clients that are connected to it: in a worker it runs attempts for them, and as a
// supervisor it runs the program of the container.

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attempts.hpp"
#include "combu/agent.hpp"
#include "connection.hpp"
#include "folder.hpp"
#include "loop.hpp"
#include "supervision.hpp"

namespace combu::agent {

class Server {
 public:
  explicit Server(Attempts::Kind kind);
  // Serves clients until SIGTERM comes, or until no client has been connected and no attempt has run for
  // `idle_max` nanoseconds. Returns the exit code of the program.
  int run(const std::string& folder, std::int64_t idle_max, std::string note);
  // Runs the program of the container, and serves clients until one of them forgets its result. Without
  // clients, ends `supervision.hold` nanoseconds after the program. Returns the exit code of the program.
  int supervise(const std::string& folder, Supervision supervision);

 private:
  // A process that wants to pass its standard input and output.
  struct Visitor {
    Descriptor socket;
    Watch watch;
    std::int64_t since = 0;
    bool is_over = false;
  };
  // The caller of a call of a resident program.
  struct Caller {
    std::uint64_t attempt;
    std::uint64_t number;  // of the call, between the agent and the program
    std::uint64_t connection;
    std::uint64_t call;
  };

  // server_supervision.cpp
  void end_supervision(int exit_code, const std::string& report);
  bool is_supervision_over();
  [[nodiscard]] bool is_restarted() const { return supervision_ && supervision_->is_restarted; }
  void pass_signal(int signal);
  bool begin_supervised(Start& message, std::uint64_t connection);

  // server.cpp
  bool begin(const std::string& folder, const std::vector<int>& signals);
  bool watch_listener();
  void accept();
  void admit(Visitor& visitor);
  void take_signals();
  bool is_signal_valid(std::int32_t sender) const;
  void turn();
  int timeout_ms(std::int64_t now) const;
  void tick(std::int64_t now);
  bool pump(Connection& connection);
  void remove_closed();
  Connection* find_connection(std::uint64_t number);
  template <class Message>
  void broadcast(const Message& message) {
    for (const auto& connection : connections_)
      if (connection->is_greeted) connection->send(message);
  }
  AttemptEvents events();

  // requests.cpp
  void serve(Connection& connection);
  void handle(Connection& connection, const Frame& frame);
  template <class Message>
  void decode_and_handle(Connection& connection, const Frame& frame);
  static void refuse(Connection& connection, const char* text);
  void handle(Connection& connection, Hello& message);
  void handle(Connection& connection, Start& message);
  void handle(Connection& connection, Put& message);
  void handle(Connection& connection, Stop& message);
  void handle(Connection& connection, Forget& message);
  static bool has_room(Connection& connection, std::uint32_t request);
  const Attempt* attempt_for(Connection& connection, std::uint32_t request, const std::string& id);
  void handle(Connection& connection, ReadLog& message);
  void handle(Connection& connection, Collect& message);
  void handle(Connection& connection, CollectRest& message);
  void handle(Connection& connection, Cancel& message);
  static void handle(Connection& connection, More& message);
  void handle(Connection& connection, GetUsage& message);
  void handle(Connection& connection, Call& message);
  static void handle(Connection& connection, Ping& message);
  void take_value(Attempt& attempt, std::uint64_t number, Returned::Status status, std::string bytes);

  Loop loop_;
  Folder folder_;
  Attempts attempts_;
  std::string boot_;
  std::string note_;
  std::optional<Supervision> supervision_;
  Descriptor signals_;
  Watch signal_watch_;
  Watch listen_watch_;
  std::list<Visitor> visitors_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Caller> callers_;
  std::uint64_t last_connection_ = 0;
  std::uint64_t last_call_ = 0;
  std::int64_t next_tick_ = 0;
  std::int64_t next_act_ = 0;       // 0: none
  std::int64_t busy_at_ = 0;        // the last time at which a client was connected or an attempt ran
  std::int64_t terminated_at_ = 0;  // the time of SIGTERM; 0: none
  bool has_more_ = false;           // an answer can go on at once
  bool has_child_ended_ = false;
};

}  // namespace combu::agent
