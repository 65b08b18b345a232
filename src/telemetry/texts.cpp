#include <fmt/format.h>
#include <fmt/ranges.h>

#include "combu/telemetry.hpp"

namespace combu {

std::string gaps_text(const StoredLog& log) {
  return fmt::format(
      "{0} of the log {1} missing: the engine removed {2} by log rotation before combu read {2}, or the "
      "agent could not store {2}",
      log.gaps == 1 ? "a part" : fmt::format("{} parts", log.gaps), log.gaps == 1 ? "is" : "are",
      log.gaps == 1 ? "it" : "them");
}

std::string words_of_none(const Metrics& metrics) {
  std::vector<std::string> parts;
  if (metrics.json) parts.emplace_back("no line of the standard output is a JSON object with numbers");
  if (!metrics.pattern.empty()) parts.emplace_back("the pattern finds no number in the standard output");
  if (!metrics.file.empty()) parts.push_back(fmt::format("the file {} has no numbers", metrics.file));
  return fmt::format("{}", fmt::join(parts, ", and "));
}

}  // namespace combu
