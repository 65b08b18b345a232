#pragma once
#include <string_view>
#include <vector>

namespace combu::agent {

struct Program {
  std::string_view platform;  // such as "linux/amd64"
  const char* begin;
  const char* end;
};

// Returns the agent's programs that this build contains.
std::vector<Program> programs();

}  // namespace combu::agent
