#include <cstdlib>

#include "combu/workspace.hpp"

namespace combu {

std::optional<std::string> environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nothing here changes it
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace combu
