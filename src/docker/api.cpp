#include "docker/api.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "docker/api_json.hpp"

namespace combu::docker {

using nlohmann::json;

HttpRequest request_of(const Connections& engine, const char* method, std::string target) {
  HttpRequest request;
  request.method = method;
  request.target = std::move(target);
  request.silence_max = engine.options().silence_max;
  return request;
}

std::string timestamp_parameter(Instant timestamp) {
  const auto nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(timestamp.time_since_epoch()).count();
  constexpr std::int64_t k_second = 1'000'000'000;
  return fmt::format("{}.{:09}", nanos / k_second, nanos % k_second);
}

std::string filters_parameter(const json& filters) {
  return "filters=" + percent_encode(json_text(filters));
}

std::string text_at(const json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? std::string() : at->get<std::string>();
}

Labels labels_at(const json& object, const char* name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? Labels() : at->get<Labels>();
}

}  // namespace combu::docker
