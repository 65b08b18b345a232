#include "kubernetes/server_address.hpp"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <memory>
#include <vector>

#include "combu/base.hpp"

namespace combu::kubernetes {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return lower;
}

// Returns the bytes of an IP address (4 or 16), or an empty vector if `text` is not an IP address.
std::vector<unsigned char> ip_bytes(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1)
    return {bytes.begin(), bytes.begin() + sizeof(in_addr)};
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return {bytes.begin(), bytes.end()};
  return {};
}

// Returns true if `ip` is in `network`, which has the form ADDRESS/BITS.
bool is_in_network(const std::vector<unsigned char>& ip, std::string_view network) {
  constexpr unsigned k_bits = 8;
  const std::size_t slash = network.find('/');
  const auto base = ip_bytes(std::string(network.substr(0, slash)));
  const auto bits = parse_number<unsigned>(network.substr(slash + 1));
  if (!bits || base.size() != ip.size() || *bits > base.size() * k_bits) return false;
  for (unsigned i = 0; i < *bits; ++i) {
    const auto mask = static_cast<unsigned char>(1U << (k_bits - 1 - i % k_bits));
    if ((base.at(i / k_bits) & mask) != (ip.at(i / k_bits) & mask)) return false;
  }
  return true;
}

bool is_this_machine(const std::string& host, const std::vector<unsigned char>& ip) {
  return host == "localhost" || is_in_network(ip, "127.0.0.0/8") || is_in_network(ip, "::1/128");
}

// Splits "HOST:PORT", "[HOST]:PORT" or "HOST" into host and port. The port may be empty.
std::pair<std::string, std::string> split_port(std::string_view entry) {
  if (entry.starts_with('[')) {
    const std::size_t end = std::min(entry.find(']'), entry.size());
    const std::string_view rest = entry.substr(std::min(end + 1, entry.size()));
    return {std::string(entry.substr(1, end - 1)),
            std::string(rest.starts_with(':') ? rest.substr(1) : std::string_view())};
  }
  const std::size_t colon = entry.find(':');
  if (colon == std::string_view::npos || entry.find(':', colon + 1) != std::string_view::npos)
    return {std::string(entry), ""};
  return {std::string(entry.substr(0, colon)), std::string(entry.substr(colon + 1))};
}

// Returns true if an entry of NO_PROXY contains the server.
bool contains(std::string_view entry, const ServerAddress& server, const std::vector<unsigned char>& ip) {
  if (entry == "*") return true;
  if (entry.find('/') != std::string_view::npos) return is_in_network(ip, entry);
  auto [name, port] = split_port(entry);
  if (name.empty() || (!port.empty() && port != std::to_string(server.port))) return false;
  if (const auto bytes = ip_bytes(name); !bytes.empty()) return bytes == ip;
  if (name.starts_with("*.")) name.erase(0, 1);
  if (name.starts_with('.')) return server.host.ends_with(name);
  return server.host == name || server.host.ends_with("." + name);
}

}  // namespace

std::string ServerAddress::authority() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::optional<ServerAddress> parse_server_address(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parts(curl_url(), &curl_url_cleanup);
  if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return std::nullopt;
  const auto part = [&](CURLUPart which) {
    char* text = nullptr;
    if (curl_url_get(parts.get(), which, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return std::string();
    const std::unique_ptr<char, decltype(&curl_free)> freed(text, &curl_free);
    return std::string(text);
  };
  for (const CURLUPart unwanted : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    if (!part(unwanted).empty()) return std::nullopt;
  }
  ServerAddress address{.scheme = part(CURLUPART_SCHEME),
                        .host = lower_case(part(CURLUPART_HOST)),
                        .port = parse_number<int>(part(CURLUPART_PORT)).value_or(0),
                        .path = part(CURLUPART_PATH)};
  if ((address.scheme != "https" && address.scheme != "http") || address.host.empty()) return std::nullopt;
  if (address.host.starts_with('[')) address.host = address.host.substr(1, address.host.size() - 2);
  while (address.path.ends_with('/')) address.path.pop_back();
  return address;
}

std::string proxy_for(const ServerAddress& server, const Environment& env) {
  const auto variable = [&](const std::string& name) {
    const std::string value = env(name).value_or("");
    return value.empty() ? env(lower_case(name)).value_or("") : value;
  };
  std::string proxy = variable(server.scheme == "https" ? "HTTPS_PROXY" : "HTTP_PROXY");
  const auto ip = ip_bytes(server.host);
  if (is_this_machine(server.host, ip)) return "";
  const std::string excluded = lower_case(variable("NO_PROXY"));
  for (std::string_view rest = excluded; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (contains(trimmed(rest.substr(0, comma)), server, ip)) return "";
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return proxy;
}

}  // namespace combu::kubernetes
