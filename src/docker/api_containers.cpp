#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "docker/api.hpp"
#include "docker/api_json.hpp"
#include "docker/json_pieces.hpp"
#include "docker/log_frames.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;

constexpr int k_exit_lost = 255;
constexpr std::int64_t k_port_max = 65535;
constexpr std::int64_t k_nanoseconds_max = 9'000'000'000'000'000'000;  // 285 years
constexpr std::int64_t k_exit_code_max = std::numeric_limits<int>::max();
// Maximum bytes of a listing, in which each container takes one or two KiB.
constexpr std::size_t k_listing_max = std::size_t{256} << 20U;

std::string without_slash(std::string name) {
  if (name.starts_with('/')) name.erase(0, 1);
  return name;
}

std::vector<PublishedPort> ports_of(const json& container) {
  std::vector<PublishedPort> ports;
  const auto listed = container.find("Ports");
  if (listed == container.end() || listed->is_null()) return ports;
  for (const json& port : *listed) {
    const auto host = port.find("PublicPort");
    if (host == port.end()) continue;
    ports.push_back({text_at(port, "IP"), static_cast<std::uint16_t>(integer_of(*host, 0, k_port_max)),
                     text_at(port, "Type")});
  }
  return ports;
}

ContainerSummary summary_of(const json& container) {
  ContainerSummary summary;
  summary.id = container.at("Id").get<std::string>();
  const auto names = container.find("Names");
  if (names != container.end() && names->is_array() && !names->empty()) {
    summary.name = without_slash(names->front().get<std::string>());
  }
  summary.image = text_at(container, "Image");
  summary.state = container.at("State").get<std::string>();
  summary.status = text_at(container, "Status");
  summary.created = integer_at(container, "Created", -k_epoch_seconds_max, k_epoch_seconds_max);
  summary.labels = labels_at(container, "Labels");
  summary.ports = ports_of(container);
  const json& networks = json_at(json_at(container, "NetworkSettings"), "Networks");
  for (const auto& [name, settings] : networks.items()) summary.networks.push_back(name);
  return summary;
}

ContainerFacts facts_of(const json& body) {
  ContainerFacts facts;
  facts.id = body.at("Id").get<std::string>();
  facts.name = without_slash(text_at(body, "Name"));
  const json& state = body.at("State");
  facts.state = state.at("Status").get<std::string>();
  facts.exit_code = static_cast<int>(integer_at(state, "ExitCode", -k_exit_code_max, k_exit_code_max));
  facts.oom = state.value("OOMKilled", false);
  facts.ran_at = parse_timestamp(text_at(state, "StartedAt"));
  facts.ended_at = parse_timestamp(text_at(state, "FinishedAt"));
  // Engine 20.10 sets StartedAt only after the start. So a container that ended at once may have a StartedAt
  // that is later than its FinishedAt.
  if (facts.state == "exited" && facts.ran_at && facts.ended_at)
    facts.ran_at = std::min(*facts.ran_at, *facts.ended_at);
  if (const auto health = state.find("Health"); health != state.end() && health->is_object()) {
    facts.health = text_at(*health, "Status");
  }
  facts.image_id = text_at(body, "Image");
  const json& config = body.at("Config");
  facts.image = text_at(config, "Image");
  facts.tty = config.value("Tty", false);
  facts.labels = labels_at(config, "Labels");
  return facts;
}

// True if the engine lists at least one process of the container, or cannot list its processes.
bool has_processes(Connections& engine, const std::string& id, const std::stop_token& stop) {
  const HttpResponse response = engine.send(request_of(engine, "GET", "/containers/" + id + "/top"), stop);
  if (response.status != 200) return true;  // assume that the container runs
  return reading(engine, [&] {
    const json body = parse_json(response.body);
    const auto processes = body.find("Processes");
    return processes != body.end() && processes->is_array() && !processes->empty();
  });
}

// Returns the error for a failed archive request. If the engine reports ELOOP, ENOTDIR or ENAMETOOLONG, the
// attempt made the path unreadable. Engines 20.10 and 29 answer such a path with status 500, as they do for
// their own failures. Only the text of the answer shows the difference.
Error archive_error(const HttpResponse& response, const std::string& path) {
  const std::string message = full_message_of(response);
  const auto invalid = [&](const char* why) {
    return Error(ErrorKind::invalid, path, fmt::format("cannot be read: {}", why));
  };
  if (message.starts_with("evalSymlinksInScope: too many links in ") ||
      message.ends_with(": too many levels of symbolic links"))
    return invalid("the path's symbolic links form a loop, or there are too many of them");
  if (message.ends_with(": not a directory")) return invalid("a part of the path is not a folder");
  if (message.ends_with(": file name too long"))
    return invalid("a name in the path, or in the target of a link, is too long");
  return error_of(response, path);
}

}  // namespace

void list_containers(Connections& engine, const ContainerFilters& filters,
                     const std::function<void(ContainerSummary&&)>& take, const std::stop_token& stop) {
  HttpRequest request = request_of(engine, "GET", "/containers/json?all=1");
  json parameter = json::object();
  if (!filters.labels.empty()) parameter["label"] = filters.labels;
  if (!filters.states.empty()) parameter["status"] = filters.states;
  if (!parameter.empty()) request.target += "&" + filters_parameter(parameter);
  JsonPieces containers([&](std::string_view text) { take(summary_of(parse_json(text))); }, k_listing_max);
  request.sink = [&](std::string_view bytes) {
    containers.feed(bytes);
    return true;
  };
  reading(engine, [&] {
    engine.send_checked(request, engine.address().text(), stop);
    containers.finish();
  });
}

std::optional<ContainerFacts> inspect_container(Connections& engine, const std::string& which,
                                                const std::stop_token& stop) {
  const HttpResponse response =
      engine.send(request_of(engine, "GET", "/containers/" + percent_encode(which) + "/json"), stop);
  if (response.status == 404) return std::nullopt;
  if (response.status != 200) throw error_of(response, which);
  ContainerFacts facts = reading(engine, [&] { return facts_of(parse_json(response.body)); });
  // An engine that was killed in the middle of a start may report the container as running for ever, although
  // the container's process has ended (Engine 20.10, in one of a hundred such kills; moby#41768). In other
  // cases in which an engine loses track of a process, the engine itself sets the state "exited" and the exit
  // code 255.
  if (facts.state == "running" && !facts.ran_at && !has_processes(engine, facts.id, stop)) {
    facts.state = "exited";
    facts.exit_code = k_exit_lost;
  }
  return facts;
}

HttpResponse create_container(Connections& engine, const std::string& name, const std::string& platform,
                              const json& body, const std::stop_token& stop) {
  HttpRequest request = request_of(engine, "POST", "/containers/create?name=" + percent_encode(name));
  if (!platform.empty()) request.target += "&platform=" + percent_encode(platform);
  request.body = json_text(body);
  return engine.send(std::move(request), stop);
}

std::string created_id(const HttpResponse& created) {
  return parse_json(created.body).at("Id").get<std::string>();
}

void put_archive(Connections& engine, const std::string& id, const std::string& folder, std::string tar,
                 const std::stop_token& stop) {
  HttpRequest request =
      request_of(engine, "PUT", "/containers/" + id + "/archive?path=" + percent_encode(folder));
  request.content_type = "application/x-tar";
  request.body = std::move(tar);
  engine.send_checked(std::move(request), id, stop);
}

void put_archive(Connections& engine, const std::string& id, const std::string& subject,
                 const std::function<bool(const HttpRequest::Send&)>& pack, const std::stop_token& stop) {
  HttpRequest request = request_of(engine, "PUT", "/containers/" + id + "/archive?path=%2F");
  request.content_type = "application/x-tar";
  bool is_whole = false;
  request.source = [&](const HttpRequest::Send& send) { is_whole = pack(send); };
  engine.send_checked(std::move(request), subject, stop);
  if (!is_whole)
    throw Error(ErrorKind::corrupt, subject,
                "the engine reported success, but received only a part of the inputs");
}

void start_container(Connections& engine, const std::string& id, const std::string& subject,
                     const std::stop_token& stop) {
  const HttpResponse response = engine.send(request_of(engine, "POST", "/containers/" + id + "/start"), stop);
  if (response.status == 204 || response.status == 304) return;
  throw error_of(response, subject);
}

void stop_container(Connections& engine, const std::string& id, std::optional<Seconds> grace,
                    const std::stop_token& stop) {
  HttpRequest request = request_of(engine, "POST", "/containers/" + id + "/stop");
  // The engine answers only when the container has ended, so the request has no limit for silence.
  request.silence_max = std::nullopt;
  if (grace) {
    const double seconds = std::ceil(grace->count());
    request.target += fmt::format("?t={}", static_cast<std::int64_t>(seconds));
    request.silence_max = engine.options().silence_max + Seconds{seconds};
  }
  const HttpResponse response = engine.send(std::move(request), stop);
  if (response.status == 204 || response.status == 304 || response.status == 404) return;
  throw error_of(response, id);
}

bool remove_unstarted_container(Connections& engine, const std::string& id, const std::stop_token& stop) {
  const HttpResponse response = engine.send(request_of(engine, "DELETE", "/containers/" + id + "?v=1"), stop);
  if (response.status == 204 || response.status == 200 || response.status == 404) return true;
  if (response.status == 409) return false;
  throw error_of(response, id);
}

void remove_container(Connections& engine, const std::string& id, const std::string& subject,
                      const std::stop_token& stop) {
  const HttpResponse response =
      engine.send(request_of(engine, "DELETE", "/containers/" + id + "?force=1&v=1"), stop);
  if (response.status == 204 || response.status == 200 || response.status == 404) return;
  if (response.status != 409) throw error_of(response, subject);
  const HttpResponse ended =
      engine.send(request_of(engine, "POST", "/containers/" + id + "/wait?condition=removed"), stop);
  if (ended.status != 200 && ended.status != 404) throw error_of(response, subject);
}

std::optional<Usage> container_usage(Connections& engine, const std::string& id,
                                     const std::stop_token& stop) {
  const HttpResponse response =
      engine.send(request_of(engine, "GET", "/containers/" + id + "/stats?stream=false&one-shot=true"), stop);
  if (response.status == 404) return std::nullopt;
  if (response.status != 200) throw error_of(response, id);
  return reading(engine, [&]() -> std::optional<Usage> {
    const json body = parse_json(response.body);
    const json& memory = json_at(body, "memory_stats");
    if (!memory.contains("usage")) return std::nullopt;
    const json& stats = json_at(memory, "stats");
    // Versions 1 and 2 of control groups have different names for the inactive file cache.
    const char* const name = stats.contains("total_inactive_file") ? "total_inactive_file" : "inactive_file";
    const std::int64_t inactive = integer_at(stats, name, 0, k_bytes_max);
    const std::int64_t used = integer_of(memory.at("usage"), 0, k_bytes_max);
    const std::int64_t nanoseconds =
        integer_of(body.at("cpu_stats").at("cpu_usage").at("total_usage"), 0, k_nanoseconds_max);
    return Usage{.memory = Bytes{used - std::min(used, inactive)},
                 .cpu = std::chrono::nanoseconds(nanoseconds)};
  });
}

void read_logs(Connections& engine, const std::string& id, LogFormat format, const LogOptions& options,
               const OnLogPiece& on_piece, const std::stop_token& stop) {
  HttpRequest request = request_of(engine, "GET", "/containers/" + id + "/logs?stdout=1&stderr=1");
  if (options.follow) {
    request.target += "&follow=1";
    request.silence_max = std::nullopt;
  }
  if (options.tail) request.target += fmt::format("&tail={}", *options.tail);
  if (options.since) request.target += "&since=" + timestamp_parameter(*options.since);
  if (options.timed) request.target += "&timestamps=1";
  request.answer_max = std::nullopt;
  LogFrames frames(on_piece, options.timed);
  TimedLines lines(on_piece);
  request.sink = [&](std::string_view bytes) {
    if (format == LogFormat::frames) {
      frames.feed(bytes);
    } else if (options.timed) {
      lines.feed(bytes);
    } else {
      on_piece({.stream = LogStream::out, .text = bytes});
    }
    return true;
  };
  engine.send_checked(std::move(request), id, stop);
  lines.end();
}

namespace {

HttpRequest archive_request(Connections& engine, const std::string& id, const std::string& path) {
  return request_of(engine, "GET", "/containers/" + id + "/archive?path=" + percent_encode(path));
}

// Returns false if the path does not exist. Requests an archive of the path, and reads only the beginning of
// the archive.
bool can_be_read(Connections& engine, const std::string& id, const std::string& path,
                 const std::stop_token& stop) {
  HttpRequest request = archive_request(engine, id, path);
  bool has_begun = false;
  request.sink = [&](std::string_view) {
    has_begun = true;
    return false;
  };
  try {
    const HttpResponse response = engine.send(std::move(request), stop);
    if (response.status == 404) return false;
    if (response.status != 200) throw archive_error(response, path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled || !has_begun || stop.stop_requested()) throw;
  }
  return true;
}

}  // namespace

// The engine's answer has the result in a header, as base64 of JSON with name, size, mode, mtime and
// linkTarget.
namespace {
json path_stat(Connections& engine, const HttpResponse& response) {
  return reading(engine,
                 [&] { return parse_json(decode_base64(response.header("X-Docker-Container-Path-Stat"))); });
}
}  // namespace

std::optional<std::int64_t> file_size(Connections& engine, const std::string& id, const std::string& path,
                                      const std::stop_token& stop) {
  const HttpResponse response = engine.send(
      request_of(engine, "HEAD", "/containers/" + id + "/archive?path=" + percent_encode(path)), stop);
  if (response.status == 404) return std::nullopt;
  if (response.status != 200) throw error_of(response, path);
  return reading(engine, [&] { return integer_at(path_stat(engine, response), "size", 0, k_bytes_max); });
}

std::optional<std::string> find_path(Connections& engine, const std::string& id, const std::string& path,
                                     const std::stop_token& stop) {
  const HttpResponse response = engine.send(
      request_of(engine, "HEAD", "/containers/" + id + "/archive?path=" + percent_encode(path)), stop);
  if (response.status == 404) return std::nullopt;
  if (response.status != 200) {
    // An answer to HEAD has no body. The answer to GET for the same path has a body with the reason.
    if (!can_be_read(engine, id, path, stop)) return std::nullopt;
    throw Error(
        ErrorKind::unavailable, path,
        fmt::format("the engine answered the request HEAD with status {}, but GET for the same path with 200",
                    response.status));
  }
  const std::string target =
      reading(engine, [&] { return path_stat(engine, response).value("linkTarget", ""); });
  // An archive of the root would contain the whole image, and its entries would have no common folder.
  if (target == "/")
    throw Error(ErrorKind::invalid, path,
                "cannot be read: the path is a link to the root of the file system");
  return target.empty() ? path : target;
}

bool get_archive(Connections& engine, const std::string& id, const std::string& path,
                 const std::function<void(std::string_view)>& on_bytes, const std::stop_token& stop) {
  HttpRequest request = archive_request(engine, id, path);
  request.answer_max = std::nullopt;
  request.sink = [&](std::string_view bytes) {
    on_bytes(bytes);
    return true;
  };
  const HttpResponse response = engine.send(std::move(request), stop);
  if (response.status == 404) return false;
  if (response.status != 200) throw archive_error(response, path);
  return true;
}

}  // namespace combu::docker
