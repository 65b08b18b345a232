#pragma once

#include <map>
#include <string>
#include <vector>

#include "combu/simulated.hpp"

namespace combu {

// The effects of a trial's command.
struct Script {
  Seconds takes{0};
  int exit_code = 0;
  std::vector<World::LogLine> output;
  std::map<std::string, std::string> files;  // contents by path, including the inputs of the trial
  bool cannot_start = false;
  Bytes eats{};  // the memory that the trial uses
};

// `files`: the contents of the trial's inputs, by path. `unknown_takes`: the duration of a command that the
// simulation does not know.
[[nodiscard]] Script read_script(const Trial& trial, Seconds unknown_takes,
                                 std::map<std::string, std::string> files);

}  // namespace combu
