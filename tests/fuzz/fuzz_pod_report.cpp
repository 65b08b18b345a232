// Reads the input as a Pod object and as an Event object. The readers must not throw.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "combu/json.hpp"
#include "kubernetes/pod_report.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const nlohmann::json object = combu::parse_json_or_discard(text);
  const combu::Instant now{std::chrono::hours{24 * 365 * 56}};
  (void)combu::kubernetes::read_pod(object, now);
  std::string uid;
  (void)combu::kubernetes::read_warning(object, uid);
  return 0;
}
