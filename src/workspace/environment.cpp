#include <cstdlib>

#include "combu/workspace.hpp"

namespace combu {

std::optional<std::string> environment(const std::string& name) {
  const char* value =
      std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): combu does not change its environment
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace combu
