#include "combu/engine.hpp"

namespace combu {

bool is_called(const Gpu& gpu, const std::string& name) {
  return !name.empty() && (gpu.id == name || gpu.uuid == name || gpu.id.ends_with("=" + name));
}

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::created:
      return "created";
    case Phase::running:
      return "running";
    case Phase::ended:
      return "ended";
    case Phase::gone:
      return "gone";
  }
  return "unknown";
}

std::string_view to_string(Health health) {
  switch (health) {
    case Health::none:
      return "none";
    case Health::starting:
      return "starting";
    case Health::healthy:
      return "healthy";
    case Health::unhealthy:
      return "unhealthy";
  }
  return "unknown";
}

}  // namespace combu
