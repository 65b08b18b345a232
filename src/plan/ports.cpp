#include "plan/ports.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plan/names.hpp"

namespace combu::plan {

namespace {

struct Claim {
  TrialIndex trial;
  const Port* port;
  // The trial of the second claim on the same port; `more` counts further claims.
  std::optional<TrialIndex> second;
  const Port* second_port = nullptr;
  std::size_t more = 0;
};

// The claims on one port number of one protocol. Each member holds the index of a claim in the list of all
// claims, or a map of such indices.
struct Holders {
  std::optional<std::size_t> any;     // the first claim, whatever its address
  std::optional<std::size_t> any_v4;  // the first claim on one or all IPv4 addresses
  std::optional<std::size_t> any_v6;
  std::optional<std::size_t> all;  // the first claim on all addresses of both families
  std::optional<std::size_t> all_v4;
  std::optional<std::size_t> all_v6;
  std::map<std::string_view, std::size_t> by_ip;
};

std::optional<std::size_t> first_of(std::initializer_list<std::optional<std::size_t>> candidates) {
  for (const auto& candidate : candidates) {
    if (candidate) return candidate;
  }
  return std::nullopt;
}

bool is_v6(std::string_view ip) {
  return ip.find(':') != std::string_view::npos;
}

// Returns the index of a claim that conflicts with a claim on the address `ip`. A claim on all addresses of a
// family conflicts with every address of the family.
std::optional<std::size_t> holder(const Holders& holders, std::string_view ip) {
  if (ip.empty()) return holders.any;
  const bool v6 = is_v6(ip);
  if (ip == "0.0.0.0" || ip == "::") return first_of({holders.all, v6 ? holders.any_v6 : holders.any_v4});
  const auto same = holders.by_ip.find(ip);
  return first_of({holders.all, v6 ? holders.all_v6 : holders.all_v4,
                   same == holders.by_ip.end() ? std::nullopt : std::optional(same->second)});
}

void hold(Holders& holders, std::string_view ip, std::size_t claim) {
  const auto set_first = [&](std::optional<std::size_t>& slot) { slot = slot ? slot : claim; };
  set_first(holders.any);
  if (ip.empty()) {
    set_first(holders.all);
    return;
  }
  const bool v6 = is_v6(ip);
  set_first(v6 ? holders.any_v6 : holders.any_v4);
  if (ip == "0.0.0.0" || ip == "::") set_first(v6 ? holders.all_v6 : holders.all_v4);
  holders.by_ip.emplace(ip, claim);
}

std::string port_text(const Port& port) {
  std::string number = fmt::format("{}/{}", port.host, port.protocol);
  if (port.host_ip.empty()) return number;
  return is_v6(port.host_ip) ? fmt::format("[{}]:{}", port.host_ip, number)
                             : fmt::format("{}:{}", port.host_ip, number);
}

Error error_of(const Claim& claim, const Experiment& experiment) {
  const Trial& first = experiment.trials[claim.trial];
  const Trial& second = experiment.trials[*claim.second];
  const std::string more = claim.more == 0 ? "" : fmt::format(" (and {} more like this)", claim.more);
  const std::string subject = path_of(second, *claim.second) + ".ports";
  if (claim.trial == *claim.second) {
    return {ErrorKind::invalid, subject,
            fmt::format("`{}` publishes the host's port {} twice{}", shortened(first.name),
                        port_text(*claim.port), more)};
  }
  return {ErrorKind::invalid, subject,
          fmt::format("`{}` publishes the host's port {}, but `{}` ({}) publishes {}{}; use different ports",
                      shortened(second.name), port_text(*claim.second_port), shortened(first.name),
                      path_of(first, claim.trial), port_text(*claim.port), more)};
}

}  // namespace

void report_shared_ports(const Experiment& experiment, std::vector<Error>& errors) {
  std::vector<Claim> claims;
  std::unordered_map<std::string, Holders> ports;
  for (TrialIndex at = 0; at < experiment.trials.size(); ++at) {
    for (const Port& port : experiment.trials[at].container.ports) {
      Holders& holders = ports[fmt::format("{}/{}", port.host, port.protocol)];
      if (const auto held = holder(holders, port.host_ip)) {
        Claim& claim = claims[*held];
        if (claim.second) {
          ++claim.more;
        } else {
          claim.second = at;
          claim.second_port = &port;
        }
      } else {
        hold(holders, port.host_ip, claims.size());
        claims.push_back({at, &port, std::nullopt});
      }
    }
  }
  for (const Claim& claim : claims) {
    if (claim.second) errors.push_back(error_of(claim, experiment));
  }
}

}  // namespace combu::plan
