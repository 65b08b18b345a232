#pragma once
// Starts, stops and ends attempts.

#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "attempt.hpp"
#include "combu/agent.hpp"
#include "control_group.hpp"
#include "folder.hpp"
#include "forward.hpp"
#include "loop.hpp"
#include "processes.hpp"
#include "spawn.hpp"

namespace combu::agent {

struct AttemptEvents {
  std::function<void(Attempt&)> started;
  std::function<void(Attempt&)> ended;
  std::function<void(std::uint64_t connection, const Refused&)> refused;
  std::function<void(Attempt&, std::uint64_t number, Returned::Status, std::string bytes)> returned;
};

class Attempts {
 public:
  enum class Kind {
    worker,     // each attempt has a scratch folder and, if possible, a control group
    supervisor  // the only attempt is the program of the container; its output is also that of this process
  };
  Attempts(Loop& loop, Folder& folder, Kind kind, AttemptEvents events);

  // Starts an attempt, or makes it wait for its inputs. The id must be unknown. The inputs of the program of
  // the container are unpacked at the root.
  void start(Start start, std::uint64_t connection);
  // Adds a part of the inputs of an attempt that awaits them.
  void put(Attempt& attempt, const Put& part);
  // Sends the stop signal, and SIGKILL after the grace period.
  void stop(Attempt& attempt, std::uint64_t grace_ms, Ended::Flag flag);
  void forget(Attempt& attempt);
  // Drops the attempts that await inputs from this connection.
  void drop_awaiting(std::uint64_t connection);

  [[nodiscard]] Attempt* find(std::string_view id);
  [[nodiscard]] Attempt* find_number(std::uint64_t number);
  // Returns the attempt after this number, in the order of their starts; null if there is none.
  [[nodiscard]] Attempt* next_after(std::uint64_t number);
  // Returns the number of attempts that start() was called for.
  [[nodiscard]] std::uint64_t begun() const { return last_number_; }
  [[nodiscard]] bool are_active() const { return !active_.empty(); }
  // True if each attempt has a control group of its own.
  [[nodiscard]] bool have_groups() const { return group_.is_divided(); }
  [[nodiscard]] bool are_known() const { return !ids_.empty(); }
  // Memory and CPU time of the attempt's processes.
  [[nodiscard]] UsageAnswer usage(const Attempt& attempt);

  // Takes the ends of child processes.
  void reap();
  // Carries out what is due. Returns the time on the clock of steady_time() at which the next action is due;
  // 0 if none is.
  std::int64_t act(std::int64_t now);
  // Kills all attempts and everything that they left behind, and waits for their end for a short time. Their
  // ends are not reported.
  void kill_all();
  // Adds a process of the agent, which is no attempt's.
  void add_helper(pid_t pid) { helpers_.push_back(pid); }
  // Kills a helper if it has not ended.
  void kill_helper(pid_t pid) const;
  // Sends a signal to the attempt's first process and its group.
  static void pass_signal(const Attempt& attempt, int signal);
  // Blocks until this process has written the output of the program of the container.
  void write_output();
  // True if an attempt has processes that cannot be killed.
  [[nodiscard]] bool is_overrun() const { return is_overrun_; }

 private:
  struct Orphan {
    std::uint64_t owner = 0;  // number of the attempt; 0 if unknown
    std::int64_t started_at = 0;
    bool is_killed = false;
  };

  // attempts.cpp
  void refuse(Attempt& attempt, std::uint8_t stage, int code, std::string text);
  void remove(Attempt& attempt);
  void remove_scratch(const Attempt& attempt);
  bool await_inputs(Attempt& attempt);
  void flush_inputs(Attempt& attempt);
  void run(Attempt& attempt);
  void watch_output(Attempt& attempt, std::size_t index, Descriptor reader);
  bool read_output(Attempt& attempt, std::size_t index);
  void forward(Attempt& attempt, std::size_t index, std::string_view bytes);

  // attempts_end.cpp
  void kill(Attempt& attempt);
  void begin_end(Attempt& attempt);
  void reap_other(pid_t pid);
  bool is_own(pid_t pid) const;
  Orphan& orphan_of(pid_t pid, const ProcessState& state);
  bool has_to_die(const Orphan& orphan);
  [[nodiscard]] std::uint64_t any_ending() const;
  void sweep();
  bool sweep_once();
  void stop_and_kill();
  void finish(Attempt& attempt);

  Loop& loop_;
  Folder& folder_;
  const Kind kind_;
  AttemptEvents events_;
  Spawner spawner_;
  ControlGroup group_;  // the agent's own
  Children children_;
  LogSpace log_space_;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Attempt>> attempts_;
  std::map<std::string, Attempt*, std::less<>> ids_;
  std::map<pid_t, Attempt*> pids_;   // of running attempts
  std::vector<Attempt*> active_;     // attempts that have not ended
  std::array<Forward, 2> forwards_;  // this process's standard output and standard error
  std::vector<pid_t> helpers_;
  std::map<pid_t, Orphan> orphans_;  // children of the agent that it did not start
  bool is_overrun_ = false;
};

}  // namespace combu::agent
