#pragma once
// One attempt, as the agent knows it until the client forgets it.

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attempt_log.hpp"
#include "combu/agent.hpp"
#include "control_group.hpp"
#include "forked_work.hpp"
#include "loop.hpp"
#include "resident.hpp"
#include "system.hpp"

namespace combu::agent {

enum class Phase {
  awaiting_inputs,  // Put frames are still to come, or are being unpacked
  running,
  ending,  // the first process has ended; the agent kills the processes that it left behind
  ended,
};

struct Output {
  Descriptor pipe;
  Watch watch;
};

// The inputs of an attempt that awaits them.
struct Inputs {
  Helper helper;
  std::string queue;  // bytes that the helper has not taken
  bool is_last = false;
  Watch write_watch;
  Watch report_watch;
};

struct Attempt {
  Attempt(LogSpace& space, std::uint64_t attempt_number, Start request, bool is_container_program)
      : number(attempt_number),
        start(std::move(request)),
        is_supervised(is_container_program),
        log(space, start.log_max) {}

  std::uint64_t number;
  std::uint64_t scratch = 0;   // number of its scratch folder; 0: none
  Start start;                 // without argv, env and files once it runs
  bool is_supervised = false;  // is the program of the container: has no scratch folder
  std::uint64_t asker = 0;     // number of the connection that sent Start
  Phase phase = Phase::awaiting_inputs;
  bool is_forgotten = false;  // is removed at its end
  pid_t pid = -1;             // also the number of its process group and its session
  Started started;
  std::int64_t started_steady = 0;  // this and the following times: on the clock of steady_time()
  std::int64_t timeout_at = 0;      // 0: none
  std::int64_t kill_at = 0;         // 0: none
  std::int64_t ended_steady = 0;
  bool is_killed = false;               // the agent has sent SIGKILL
  std::uint64_t oom_kills_before = 0;   // of the agent's control group at the start
  std::unique_ptr<AttemptGroup> group;  // nullptr if the agent may not make control groups
  std::uint32_t leftovers = 0;          // number of its processes at the last count
  Ended end;                            // without the log
  std::array<Output, 2> outputs;        // standard output, standard error

  AttemptLog log;
  std::unique_ptr<Inputs> inputs;
  std::unique_ptr<Resident> resident;
};

// Returns the frame of an ended attempt; if the attempt has no output, with the flag log_is_whole.
Ended end_without_log(const Attempt& attempt);
// Returns the frame of an ended attempt, with its log if that is small.
Ended ended_message(Attempt& attempt);

}  // namespace combu::agent
