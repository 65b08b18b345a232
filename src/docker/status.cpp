#include "docker/status.hpp"

#include <charconv>

namespace combu::docker {
namespace {

std::optional<int> number_in_brackets(std::string_view text) {
  const std::size_t open = text.find('(');
  const std::size_t close = text.find(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  int number = 0;
  const char* const last = text.data() + close;
  const auto [end, failure] = std::from_chars(text.data() + open + 1, last, number);
  if (failure != std::errc() || end != last) return std::nullopt;
  return number;
}

Health health_in_brackets(std::string_view text) {
  const std::size_t open = text.rfind('(');
  if (open == std::string_view::npos || !text.ends_with(')')) return Health::none;
  std::string_view word = text.substr(open + 1, text.size() - open - 2);
  constexpr std::string_view k_prefix = "health: ";
  if (word.starts_with(k_prefix)) word.remove_prefix(k_prefix.size());
  return parse_health(word);
}

}  // namespace

Health parse_health(std::string_view word) {
  if (word == "healthy") return Health::healthy;
  if (word == "unhealthy") return Health::unhealthy;
  if (word == "starting") return Health::starting;
  return Health::none;
}

Status parse_status(std::string_view state, std::string_view text) {
  if (state == "created") return {};
  if (state == "running" || state == "paused" || state == "restarting") {
    return {Phase::running, health_in_brackets(text), std::nullopt};
  }
  // The container is being removed, or an engine died during the removal. Listings of Engine 29 also show
  // "dead" during a removal. The states "removing" and "dead" do not show if the container has ever run.
  if (state == "removing" || state == "dead") return {Phase::gone, Health::none, std::nullopt};
  return {Phase::ended, Health::none, number_in_brackets(text)};
}

}  // namespace combu::docker
