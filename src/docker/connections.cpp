#include "docker/connections.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "combu/json.hpp"

namespace combu::docker {
namespace {

// How long combu waits for the answer to a ping, which any engine sends at once. If no answer comes, the
// engine hangs, or the address is not that of an engine.
constexpr Seconds k_ping_silence_max{15};

ErrorKind kind_of(int status) {
  switch (status) {
    case 404:
      return ErrorKind::not_found;
    case 409:
      return ErrorKind::conflict;
    case 408:
    case 429:
    case 502:
    case 503:
    case 504:
      return ErrorKind::unavailable;
    default:
      // Status 500 is also `refused`: the engine sends this status if, for example, a port is in use or a
      // user is unknown. A repetition of the request would get the same answer.
      return status >= 400 && status < 600 ? ErrorKind::refused : ErrorKind::corrupt;
  }
}

std::optional<std::string> engine_message(const HttpResponse& response) {
  const nlohmann::json body = parse_json_or_discard(response.body);
  if (!body.is_object() || !body.contains("message") || !body["message"].is_string()) return std::nullopt;
  return body["message"].get<std::string>();
}

}  // namespace

std::string ApiVersion::text() const {
  return fmt::format("{}.{}", major, minor);
}

ApiVersion parse_api_version(std::string_view text) {
  ApiVersion version;
  const char* const last = text.data() + text.size();
  const auto [dot, bad_major] = std::from_chars(text.data(), last, version.major);
  if (bad_major == std::errc() && dot != last && *dot == '.') {
    const auto [end, bad_minor] = std::from_chars(dot + 1, last, version.minor);
    if (bad_minor == std::errc() && end == last) return version;
  }
  throw Error(ErrorKind::corrupt, "", fmt::format("\"{}\" is not a version of the Docker API", text));
}

std::string full_message_of(const HttpResponse& response) {
  return engine_message(response).value_or(response.body);
}

std::string message_of(const HttpResponse& response) {
  if (const auto message = engine_message(response)) return one_line(*message);
  const std::string text = one_line(response.body);
  return text.empty() ? fmt::format("status {} without a message", response.status)
                      : fmt::format("status {}: {}", response.status, text);
}

Error error_of(const HttpResponse& response, const std::string& subject) {
  if (response.status >= 300 && response.status < 400) {
    return {ErrorKind::corrupt, subject,
            fmt::format("the engine answered with a redirection (status {}); check if the engine's address "
                        "belongs to a proxy",
                        response.status)};
  }
  return {kind_of(response.status), subject, message_of(response)};
}

Connections::Connections(Address address, DockerOptions options)
    : address_(std::move(address)), options_(std::move(options)) {}

std::unique_ptr<Channel> Connections::take() {
  const std::scoped_lock lock(mutex_);
  if (idle_.empty()) return std::make_unique<Channel>(address_);
  std::unique_ptr<Channel> channel = std::move(idle_.back());
  idle_.pop_back();
  return channel;
}

void Connections::give_back(std::unique_ptr<Channel> channel) {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(std::move(channel));
}

HttpResponse Connections::send_over_one(const HttpRequest& request, const std::stop_token& stop) {
  // If send() throws, the connection is closed and not given back. So calls after a restart of the engine use
  // up the broken idle connections, and then open new connections.
  std::unique_ptr<Channel> channel = take();
  HttpResponse response = channel->send(request, stop);
  give_back(std::move(channel));
  return response;
}

ApiVersion Connections::version(const std::stop_token& stop) {
  {
    const std::scoped_lock lock(mutex_);
    if (version_) return *version_;
  }
  HttpRequest ping;
  ping.target = "/_ping";
  ping.silence_max = std::min(options_.silence_max, k_ping_silence_max);
  const HttpResponse response = send_over_one(ping, stop);
  // An engine sends its API version with every answer.
  const std::string api_version = response.header("Api-Version");
  if (response.status != 200 && (!api_version.empty() || response.status >= 500)) {
    const Error error = error_of(response, address_.text());
    throw Error(
        error.kind(), error.subject(),
        fmt::format("the engine answered the request /_ping with {}; see the engine's log", error.message()));
  }
  if (api_version.empty()) {
    throw Error(ErrorKind::corrupt, address_.text(),
                "the server at this address is not a Docker Engine; correct the address");
  }
  const ApiVersion highest = parse_api_version(api_version);
  if (highest < k_api_oldest) {
    throw Error(ErrorKind::refused, address_.text(),
                fmt::format("the engine supports the Docker API up to version {}, but combu needs version {} "
                            "or newer (Docker Engine 20.10); upgrade the engine",
                            api_version, k_api_oldest.text()));
  }
  const std::scoped_lock lock(mutex_);
  version_ = std::min(highest, k_api_newest);
  return *version_;
}

HttpResponse Connections::send(HttpRequest request, const std::stop_token& stop) {
  request.target = fmt::format("/v{}{}", version(stop).text(), request.target);
  return send_over_one(request, stop);
}

HttpResponse Connections::send_checked(HttpRequest request, const std::string& subject,
                                       const std::stop_token& stop) {
  HttpResponse response = send(std::move(request), stop);
  if (response.status < 200 || response.status >= 300) throw error_of(response, subject);
  return response;
}

Upgraded Connections::upgrade(HttpRequest request, const std::stop_token& stop) {
  request.target = fmt::format("/v{}{}", version(stop).text(), request.target);
  request.headers.emplace_back("Connection", "Upgrade");
  request.headers.emplace_back("Upgrade", "tcp");
  return Channel(address_).upgrade(request, stop);
}

}  // namespace combu::docker
