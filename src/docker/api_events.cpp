#include <fmt/format.h>

#include <chrono>

#include "docker/api.hpp"
#include "docker/json_pieces.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds k_looked_back{10};

ContainerEvent event_of(const json& event) {
  ContainerEvent result;
  result.action = text_at(event, "Action");
  const json actor = event.value("Actor", json::object());
  result.id = text_at(actor, "ID");
  result.attributes = labels_at(actor, "Attributes");
  result.at = Instant(std::chrono::seconds(event.value("time", std::int64_t{0})));
  return result;
}

}  // namespace

std::vector<ContainerEvent> past_events(Connections& engine, const std::vector<std::string>& label_filters,
                                        const std::string& action, Seconds back,
                                        const std::stop_token& stop) {
  const Instant now = std::chrono::system_clock::now();
  const auto seconds = [](Instant instant) {
    return std::chrono::duration_cast<std::chrono::seconds>(instant.time_since_epoch()).count();
  };
  const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  constexpr std::int64_t k_second = 1'000'000'000;
  HttpRequest request;
  request.target = fmt::format("/events?since={}&until={}.{:09}&",
                               seconds(now - std::chrono::ceil<std::chrono::seconds>(back)), nanos / k_second,
                               nanos % k_second);
  request.target +=
      filters_parameter({{"type", {"container"}}, {"event", {action}}, {"label", label_filters}});
  std::vector<ContainerEvent> found;
  JsonPieces events([&](std::string_view text) { found.push_back(event_of(json::parse(text))); });
  request.sink = [&](std::string_view bytes) {
    events.feed(bytes);
    return true;
  };
  reading(engine, [&] { engine.send_checked(std::move(request), engine.address().text(), stop); });
  return found;
}

void read_events(Connections& engine, const std::vector<std::string>& label_filters,
                 const std::function<void()>& on_open, const std::function<void(const ContainerEvent&)>& take,
                 const std::stop_token& stop) {
  HttpRequest request;
  // Health checks make three more events each time; the names asked for here are prefixes (moby:
  // daemon/events/filter.go).
  // 20.10 sends the head of its answer before it subscribes: what happens in between is told by asking for
  // the last seconds, too (engines keep some hundred events). Where the clocks differ nothing but this is
  // lost.
  const auto since = std::chrono::system_clock::now() - k_looked_back;
  request.target =
      fmt::format("/events?since={}&",
                  std::chrono::duration_cast<std::chrono::seconds>(since.time_since_epoch()).count());
  request.target += filters_parameter({{"type", {"container"}},
                                       {"event", {"start", "die", "kill", "health_status", "destroy"}},
                                       {"label", label_filters}});
  request.silence_max = std::nullopt;
  request.on_open = on_open;
  JsonPieces events([&](std::string_view text) { take(event_of(json::parse(text))); });
  request.sink = [&](std::string_view bytes) {
    events.feed(bytes);
    return true;
  };
  reading(engine, [&] { engine.send_checked(std::move(request), engine.address().text(), stop); });
}

}  // namespace combu::docker
