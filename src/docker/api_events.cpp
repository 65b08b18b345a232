#include <fmt/format.h>

#include <chrono>
#include <limits>

#include "docker/api.hpp"
#include "docker/api_json.hpp"
#include "docker/json_pieces.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds k_looked_back{10};
// Maximum bytes of the answer with past events. An engine stores the last few hundred events, each with the
// labels of a container.
constexpr std::size_t k_past_max = std::size_t{64} << 20U;

ContainerEvent event_of(const json& event) {
  ContainerEvent result;
  result.action = text_at(event, "Action");
  const json& actor = json_at(event, "Actor");
  result.id = text_at(actor, "ID");
  result.attributes = labels_at(actor, "Attributes");
  result.at = Instant(std::chrono::seconds(integer_at(event, "time", 0, k_epoch_seconds_max)));
  return result;
}

std::int64_t whole_seconds(Instant instant) {
  return std::chrono::duration_cast<std::chrono::seconds>(instant.time_since_epoch()).count();
}

void stream_events(Connections& engine, HttpRequest request,
                   const std::function<void(const ContainerEvent&)>& take, const std::stop_token& stop,
                   std::size_t bytes_max = std::numeric_limits<std::size_t>::max()) {
  JsonPieces events([&](std::string_view text) { take(event_of(parse_json(text))); }, bytes_max);
  request.sink = [&](std::string_view bytes) {
    events.feed(bytes);
    return true;
  };
  reading(engine, [&] { engine.send_checked(std::move(request), engine.address().text(), stop); });
}

}  // namespace

std::vector<ContainerEvent> past_events(Connections& engine, const std::vector<std::string>& label_filters,
                                        const std::vector<std::string>& actions, Seconds back,
                                        const std::stop_token& stop) {
  const Instant now = std::chrono::system_clock::now();
  HttpRequest request;
  request.target = fmt::format("/events?since={}&until={}&",
                               whole_seconds(now - std::chrono::ceil<std::chrono::seconds>(back)),
                               timestamp_parameter(now));
  request.target +=
      filters_parameter({{"type", {"container"}}, {"event", actions}, {"label", label_filters}});
  std::vector<ContainerEvent> found;
  stream_events(
      engine, std::move(request), [&](const ContainerEvent& event) { found.push_back(event); }, stop,
      k_past_max);
  return found;
}

void read_events(Connections& engine, const std::vector<std::string>& label_filters,
                 const std::function<void()>& on_open, const std::function<void(const ContainerEvent&)>& take,
                 const std::stop_token& stop) {
  HttpRequest request;
  // Request only the events that are needed, because each health check causes three other events. The engine
  // takes the names of events as prefixes (moby: daemon/events/filter.go). Engine 20.10 sends the HTTP
  // headers of its answer before it begins to watch for events. So combu also requests the events of the last
  // few seconds. If the engine's clock differs from combu's, only these past events may be missing.
  request.target =
      fmt::format("/events?since={}&", whole_seconds(std::chrono::system_clock::now() - k_looked_back));
  request.target += filters_parameter({{"type", {"container"}},
                                       {"event", {"start", "die", "kill", "health_status", "destroy"}},
                                       {"label", label_filters}});
  request.silence_max = std::nullopt;
  request.answer_max = std::nullopt;
  request.on_open = on_open;
  stream_events(engine, std::move(request), take, stop);
}

}  // namespace combu::docker
