#pragma once

#include <map>
#include <string>
#include <vector>

#include "combu/simulated.hpp"

namespace combu {

[[nodiscard]] inline Instant later(Instant from, Seconds by) {
  return from + std::chrono::duration_cast<Instant::duration>(by);
}

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

// Returns the files at or below `path`. The keys of the result are relative to the folder that contains
// `path`.
[[nodiscard]] std::map<std::string, std::string> files_below(const std::map<std::string, std::string>& files,
                                                             const std::string& path);

}  // namespace combu
