#include "combu/engine.hpp"

namespace combu {

bool is_called(const Gpu& gpu, const std::string& name) {
  if (name.empty()) return false;
  if (gpu.id == name || gpu.uuid == name || gpu.id.ends_with("=" + name)) return true;
  // An engine may have several names for one device; each name begins with the device class.
  const std::string kind = gpu.id.substr(0, gpu.id.find('=') + 1);
  return !kind.empty() && !gpu.uuid.empty() && name == kind + gpu.uuid;
}

std::string digest_in(const std::string& reference) {
  return reference.substr(reference.find('@') + 1);  // if the text has no `@`, npos + 1 is 0
}

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::pending:
      return "pending";
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
