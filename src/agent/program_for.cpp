#include "agent/programs.hpp"
#include "combu/agent.hpp"

namespace combu::agent {

namespace {

#if defined(__x86_64__)
constexpr std::string_view k_own_platform = "linux/amd64";
#elif defined(__aarch64__)
constexpr std::string_view k_own_platform = "linux/arm64";
#else
constexpr std::string_view k_own_platform;
#endif

}  // namespace

std::string_view program_for(std::string_view platform) {
  if (platform.empty()) platform = k_own_platform;
  for (const Program& program : programs()) {
    if (!platform.starts_with(program.platform)) continue;
    const std::string_view variant = platform.substr(program.platform.size());
    if (variant.empty() || variant.front() == '/')
      return {program.begin, static_cast<std::size_t>(program.end - program.begin)};
  }
  return {};
}

}  // namespace combu::agent
