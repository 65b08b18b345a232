#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "combu/engine.hpp"

namespace combu {

std::string_view to_string(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::good:
      return "ok";
    case Finding::Kind::warning:
      return "warning";
    case Finding::Kind::fault:
      return "fault";
  }
  return "unknown";
}

Finding fault_of(std::string subject, const Error& error, std::string remedy) {
  const bool is_unreachable = error.kind() == ErrorKind::unavailable || error.kind() == ErrorKind::timeout ||
                              error.kind() == ErrorKind::corrupt;
  return {.kind = Finding::Kind::fault,
          .subject = std::move(subject),
          .text = error.what(),
          .remedy = std::move(remedy),
          .is_unreachable = is_unreachable};
}

Finding disk_finding(const std::string& folder, Bytes free, Bytes total, std::string remedy) {
  constexpr std::int64_t k_gibibyte = std::int64_t{1} << 30U;
  const std::int64_t fault_below = std::max(k_gibibyte, std::min(total.count / 50, 10 * k_gibibyte));
  const std::int64_t warning_below = std::min(total.count / 10, 50 * k_gibibyte);
  Finding finding{
      .subject = "disk",
      .text = fmt::format("{} of {} are free on the disk of {}", to_string(free), to_string(total), folder)};
  if (free.count < fault_below) {
    finding.kind = Finding::Kind::fault;
  } else if (free.count < warning_below) {
    finding.kind = Finding::Kind::warning;
  }
  if (finding.kind != Finding::Kind::good) finding.remedy = std::move(remedy);
  return finding;
}

std::vector<Finding> Engine::diagnose(std::stop_token stop) {
  try {
    const Facts facts = this->facts(std::move(stop));
    return {{.subject = "engine", .text = fmt::format("{} at {}", facts.engine, facts.address)}};
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    return {fault_of("engine", error)};
  }
}

}  // namespace combu
