#include "spec/ports.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "spec/fields.hpp"
#include "spec/values.hpp"

namespace combu::spec {

namespace {

constexpr std::array k_port_fields{Spelling{"host", "host"},         Spelling{"container", "container"},
                                   Spelling{"published", "host"},    Spelling{"target", "container"},
                                   Spelling{"protocol", "protocol"}, Spelling{"host_ip", "host_ip"}};

// One end of a port mapping. The address and the protocol may be absent.
struct PortEnd {
  std::string ip;
  std::uint16_t number = 0;
  std::string protocol;
};

bool valid_ip(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

// Parses the text of one port. If the text is invalid, each function reports a fault and returns nullopt.
class PortText {
 public:
  PortText(const Json& value, const Place& place, Report& report)
      : value_(value), place_(place), report_(report) {}

  // Parses the complete text in the form of `docker run -p`: [IP:][HOST:]CONTAINER[/PROTOCOL]
  std::optional<Port> pair(std::string_view text) {
    const auto ends = split(text);
    if (!ends) return std::nullopt;
    const auto& [ip, rest, protocol] = *ends;
    const std::size_t colon = rest.find(':');
    const auto host = number(rest.substr(0, colon));
    const auto container = colon == std::string_view::npos ? host : number(rest.substr(colon + 1));
    if (!host || !container) return std::nullopt;
    return Port{ip, *host, *container, protocol.empty() ? "tcp" : protocol};
  }

  // Parses one end of a port mapping: [IP:]NUMBER[/PROTOCOL]
  std::optional<PortEnd> end(std::string_view text) {
    const auto ends = split(text);
    if (!ends) return std::nullopt;
    const auto& [ip, rest, protocol] = *ends;
    const auto value = number(rest);
    return value ? std::optional(PortEnd{ip, *value, protocol}) : std::nullopt;
  }

 private:
  struct Split {
    std::string ip;
    std::string_view rest;
    std::string protocol;
  };

  std::optional<Split> split(std::string_view text) {
    Split result;
    if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
      for (const char c : text.substr(slash + 1)) {
        result.protocol += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
      if (result.protocol != "tcp" && result.protocol != "udp" && result.protocol != "sctp") {
        wrong("the protocol must be tcp, udp or sctp");
        return std::nullopt;
      }
      text = text.substr(0, slash);
    }
    const std::size_t ip_end = end_of_ip(text);
    if (ip_end != std::string_view::npos) {
      result.ip = text.substr(0, ip_end);
      if (result.ip.starts_with('[') && result.ip.ends_with(']')) result.ip = result.ip.substr(1, ip_end - 2);
      if (!valid_ip(result.ip)) {
        wrong("the part before the port must be an IP address, such as 127.0.0.1 or [::1]");
        return std::nullopt;
      }
      text = text.substr(ip_end + 1);
    }
    result.rest = text;
    return result;
  }
  // Returns the position of the colon after an IP address, or npos if the text has no address.
  static std::size_t end_of_ip(std::string_view text) {
    if (text.starts_with('[')) {
      const std::size_t bracket = text.find("]:");
      return bracket == std::string_view::npos ? bracket : bracket + 1;
    }
    const std::size_t colon = text.find(':');
    const bool number = std::ranges::all_of(text.substr(0, colon),
                                            [](unsigned char c) { return std::isdigit(c) != 0 || c == '-'; });
    return number ? std::string_view::npos : colon;
  }
  std::optional<std::uint16_t> number(std::string_view text) {
    constexpr unsigned k_port_max = 65535;
    constexpr std::size_t k_digits_max = 5;
    const auto value = parse_number<unsigned>(text);
    if (value && text.size() <= k_digits_max && *value >= 1 && *value <= k_port_max)
      return static_cast<std::uint16_t>(*value);
    const bool range = text.find('-') != std::string_view::npos && !text.starts_with('-');
    wrong(range ? "ranges are not supported; write each port separately"
                : "a port must be a number from 1 to 65535");
    return std::nullopt;
  }
  void wrong(std::string_view why) {
    report_.add(place_, fmt::format("{} is not a port: {}", shown(value_), why));
  }

  const Json& value_;
  const Place& place_;
  Report& report_;
};

std::optional<PortEnd> read_end(const Json& value, const Place& place, Report& report) {
  const auto text = value.is_boolean() ? std::nullopt : scalar_text(value);
  if (!text) {
    report.add(place, fmt::format("must be a port's number or a string such as \"127.0.0.1:8080\", not {}",
                                  shown(value)));
    return std::nullopt;
  }
  return PortText(value, place, report).end(*text);
}

// Reads the fields `protocol` and `host_ip` of Compose's long form. combu's own form contains both in the
// text of the port.
bool read_apart(const Section& section, PortEnd& host, const Place& place, Report& report) {
  if (const Json* protocol = section.find("protocol")) {
    const auto choice = read_choice(*protocol, {"tcp", "udp", "sctp"}, place.key("protocol"), report);
    if (!choice) return false;
    host.protocol = protocol->get<std::string>();
  }
  if (const Json* ip = section.find("host_ip")) {
    const auto text = read_string(*ip, place.key("host_ip"), report);
    if (!text) return false;
    if (!valid_ip(*text)) {
      report.add(place.key("host_ip"), fmt::format("\"{}\" is not an IP address", shortened(*text)));
      return false;
    }
    host.ip = *text;
  }
  return true;
}

std::optional<Port> read_port_object(const Json& value, const Place& place, Report& report) {
  const Section section(value, k_port_fields, place, report);
  const auto end = [&](std::string_view name) -> std::optional<PortEnd> {
    if (const Json* given = section.find(name))
      return read_end(*given, place.key(section.spelling(name)), report);
    if (section.lacks(name)) report.add(place.key(name), "missing: a port needs `host` and `container`");
    return std::nullopt;
  };
  auto host = end("host");
  const auto container = end("container");
  if (!host || !container || !read_apart(section, *host, place, report)) return std::nullopt;
  if (!container->ip.empty()) {
    report.add(place.key(section.spelling("container")),
               "an address belongs to the host's port, not the container's");
    return std::nullopt;
  }
  if (!host->protocol.empty() && !container->protocol.empty() && host->protocol != container->protocol) {
    report.add(
        place,
        fmt::format(
            "the protocol of the host's port is {}, but that of the container's port is {}; use one protocol",
            host->protocol, container->protocol));
    return std::nullopt;
  }
  const std::string& protocol = host->protocol.empty() ? container->protocol : host->protocol;
  return Port{host->ip, host->number, container->number, protocol.empty() ? "tcp" : protocol};
}

std::optional<Port> read_port(const Json& value, const Place& place, Report& report) {
  if (value.is_object()) return read_port_object(value, place, report);
  const auto text = value.is_boolean() ? std::nullopt : scalar_text(value);
  if (!text) {
    report.add(place,
               fmt::format("must be a number, a string such as \"8080:80\" or {{host, container}}, not {}",
                           shown(value)));
    return std::nullopt;
  }
  return PortText(value, place, report).pair(*text);
}

}  // namespace

std::vector<Port> read_ports(const Json& value, const Place& place, Report& report) {
  std::vector<Port> ports;
  if (!value.is_array()) {
    report.add(place,
               fmt::format("must be an array of ports, such as [\"8080:80\"], not {}", kind_of(value)));
    return ports;
  }
  std::size_t index = 0;
  for (const Json& element : value) {
    if (auto port = read_port(element, place.index(index++), report)) ports.push_back(std::move(*port));
  }
  return ports;
}

}  // namespace combu::spec
