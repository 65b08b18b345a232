#pragma once

#include <map>
#include <string>
#include <vector>

#include "combu/simulated.hpp"

namespace combu {

// What the model reads from a trial's command.
struct Script {
  Seconds takes{0};
  int exit_code = 0;
  std::vector<World::LogLine> output;
  std::map<std::string, std::string> files;  // by path, those that it has found, too
  bool cannot_start = false;
  Bytes eats{};  // the memory that it needs
};

// `files`: those that the trial finds there.
[[nodiscard]] Script read_script(const Trial& trial, Seconds unknown_takes,
                                 std::map<std::string, std::string> files);

}  // namespace combu
