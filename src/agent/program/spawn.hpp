#pragma once
// Starts the program of an attempt.

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "combu/agent.hpp"
#include "system.hpp"

namespace combu::agent {

// The ends of the pipes that the program gets.
struct Streams {
  int output = -1;
  int errors = -1;
  int calls = -1;    // descriptor 3 of a resident program; -1 for other programs
  int returns = -1;  // descriptor 4
};

struct Spawned {
  pid_t pid = -1;
  std::uint8_t stage = Refused::other;  // if it failed: Refused::process or Refused::program
  int error = 0;
};

class Spawner {
 public:
  // Remembers the environment, the limits and the ignored signals of this process, which the attempts get,
  // and sets this process's own ones.
  Spawner();
  // Runs the program in a session of its own. `scratch`: path of the attempt's scratch folder; empty if it
  // has none, and is not one of many attempts. `group_file`: the file by which a process enters the attempt's
  // control group; -1 if there is none.
  [[nodiscard]] Spawned spawn(const Start& start, const std::string& scratch, const Streams& streams,
                              int group_file);

 private:
  [[nodiscard]] std::vector<std::string> environment(const Start& start, const std::string& scratch) const;
  void set_oom_score(std::string_view score) const;

  std::vector<std::string_view> inherited_;
  std::vector<int> ignored_signals_;
  rlimit descriptors_{};
  Descriptor null_;
  Descriptor oom_score_file_;
  std::string own_oom_score_;
  std::string attempt_oom_score_;
};

}  // namespace combu::agent
