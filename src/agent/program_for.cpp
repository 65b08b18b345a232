#include "agent/programs.hpp"
#include "combu/agent.hpp"

namespace combu::agent {

std::string_view program_for(std::string_view platform) {
  for (const Program& program : programs()) {
    if (!platform.starts_with(program.platform)) continue;
    const std::string_view variant = platform.substr(program.platform.size());
    if (variant.empty() || variant.front() == '/')
      return {program.begin, static_cast<std::size_t>(program.end - program.begin)};
  }
  return {};
}

}  // namespace combu::agent
