#include <fmt/core.h>

#include <array>
#include <string>
#include <string_view>

#include "combu/http.hpp"

namespace combu {
namespace {

[[noreturn]] void refuse(std::string_view text, std::string message) {
  throw Error(ErrorKind::invalid, std::string(text), std::move(message));
}

int parse_port(std::string_view whole, std::string_view text) {
  const auto port = parse_number<int>(text);
  if (!port || *port < 1 || *port > 65535) {
    refuse(whole,
           fmt::format("\"{}\" is not a port; give tcp://HOST:PORT with a port from 1 to 65535", text));
  }
  return *port;
}

Address parse_tcp(std::string_view whole, std::string_view rest) {
  while (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find('/') != std::string_view::npos) {
    refuse(whole, "an address with a path is not supported; give tcp://HOST:PORT");
  }
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    refuse(whole, "host or port is missing; give tcp://HOST:PORT");
  }
  Address address;
  address.kind = Address::Kind::tcp;
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  address.host = host;
  address.port = parse_port(whole, rest.substr(colon + 1));
  return address;
}

}  // namespace

std::string Address::text() const {
  if (kind == Kind::unix_socket) return "unix://" + path;
  return host.find(':') == std::string::npos ? fmt::format("tcp://{}:{}", host, port)
                                             : fmt::format("tcp://[{}]:{}", host, port);
}

Address parse_address(std::string_view text) {
  constexpr std::string_view k_unix = "unix://";
  if (text.starts_with(k_unix)) {
    Address address;
    address.path = text.substr(k_unix.size());
    if (!address.path.starts_with('/')) refuse(text, "a unix socket's path must be absolute: unix:///PATH");
    return address;
  }
  for (const std::string_view scheme : {"tcp://", "http://"}) {
    if (text.starts_with(scheme)) return parse_tcp(text, text.substr(scheme.size()));
  }
  for (const std::string_view scheme : {"https://", "ssh://", "npipe://", "fd://"}) {
    if (text.starts_with(scheme)) {
      refuse(text,
             fmt::format("{} addresses are not supported yet; use unix:///PATH or tcp://HOST:PORT", scheme));
    }
  }
  refuse(text, "is not an address; use unix:///PATH or tcp://HOST:PORT");
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view k_digits = "0123456789ABCDEF";
  constexpr std::string_view k_plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char letter : text) {
    if (k_plain.find(letter) != std::string_view::npos) {
      encoded += letter;
      continue;
    }
    const auto byte = static_cast<unsigned char>(letter);
    encoded += '%';
    encoded += k_digits[byte >> 4U];
    encoded += k_digits[byte & 15U];
  }
  return encoded;
}

}  // namespace combu
