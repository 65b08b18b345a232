#include "kubernetes/trial_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

namespace combu::kubernetes {
namespace {

constexpr std::int64_t k_int32_max = std::numeric_limits<std::int32_t>::max();

std::optional<std::int64_t> parse_id(std::string_view text) {
  const auto id = parse_number<std::int64_t>(text);
  return id && *id >= 0 && *id <= k_int32_max ? id : std::nullopt;
}

}  // namespace

std::optional<NumericUser> numeric_user(const std::string& user) {
  const std::string_view text = user;
  const std::size_t colon = text.find(':');
  const auto uid = parse_id(text.substr(0, colon));
  if (!uid) return std::nullopt;
  if (colon == std::string_view::npos) return NumericUser{*uid, std::nullopt};
  const auto gid = parse_id(text.substr(colon + 1));
  return gid ? std::optional(NumericUser{*uid, gid}) : std::nullopt;
}

bool has_health_command(const Trial& trial) {
  const std::vector<std::string>& test = trial.healthcheck->test;
  return !test.empty() && test.front() != "NONE";
}

bool is_default_stop_signal(const std::string& signal) {
  return signal == "TERM" || signal == "SIGTERM" || signal == "15";
}

std::string memory_quantity(Bytes bytes) {
  std::int64_t count = bytes.count;
  std::string_view unit;
  for (const std::string_view larger : {"Ki", "Mi", "Gi"}) {
    if (count == 0 || count % 1024 != 0) break;
    count /= 1024;
    unit = larger;
  }
  return fmt::format("{}{}", count, unit);
}

std::int64_t whole_seconds(Seconds duration) {
  return static_cast<std::int64_t>(std::min(std::ceil(duration.count()), static_cast<double>(k_int32_max)));
}

bool is_worker_container(const Trial& trial) {
  return trial.name.starts_with(k_worker_name_prefix);
}

bool needs_agent(const Trial& trial) {
  return trial.worker->on || trial.moves_files() || trial.has_secret_variables();
}

bool is_gpu_count(const GpuRequest& request) {
  return !request.all && request.ids.empty() && request.count > 0;
}

}  // namespace combu::kubernetes
