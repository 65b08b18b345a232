#pragma once

#include <string>

#include "combu/base.hpp"

namespace combu::docker {

struct ProgramEnd {
  int exit_code = 0;
  std::string output;
  std::string problem;  // why there is no exit code: not there, too slow, killed
};

// Runs `program get` from PATH, `input` on its standard input, and reads its standard output. Its standard
// error is dropped: it may hold secrets. Killed after `time_max`.
[[nodiscard]] ProgramEnd run_credential_program(const std::string& program, const std::string& input,
                                                Seconds time_max);

}  // namespace combu::docker
