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
  std::map<std::string, std::string> files;  // contents by path, including the files that the trial finds
  bool cannot_start = false;
  Bytes eats{};  // the memory that the trial uses
};

// `files`: the files that the trial finds when it starts.
[[nodiscard]] Script read_script(const Trial& trial, Seconds unknown_takes,
                                 std::map<std::string, std::string> files);

}  // namespace combu
