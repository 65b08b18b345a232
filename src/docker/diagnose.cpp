// Examines a Docker Engine, and what this machine must have for it.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>

#include "combu/system.hpp"
#include "docker/docker_engine.hpp"
#include "docker/findings.hpp"

namespace combu::docker {
namespace {

std::string own_host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

void append(std::vector<Finding>& findings, std::vector<Finding> more) {
  std::ranges::move(more, std::back_inserter(findings));
}

void append(std::vector<Finding>& findings, std::optional<Finding> more) {
  if (more) findings.push_back(std::move(*more));
}

}  // namespace

std::vector<Finding> DockerEngine::diagnose(std::stop_token stop) {
  std::vector<Finding> findings;
  const auto examine = [&](const char* subject, const std::string& remedy,
                           const std::function<void()>& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      findings.push_back(fault_of(subject, error, remedy));
      return false;
    }
  };
  const Address& address = connections_.address();
  const bool has_socket = address.kind == Address::Kind::unix_socket;
  if (has_socket) {
    const SocketState socket = examine_socket(address.path);
    if (socket.error != 0) return {socket_fault(socket, examine_machine(), source_)};
  }
  SystemFacts system;
  const bool answers = examine("engine", "the engine's log may have the cause (`journalctl -u docker`)", [&] {
    system = get_system(connections_, stop);
    findings.push_back(
        {.subject = "engine",
         .text = fmt::format("{} at {}", engine_name(system, stop), place_text(address.text(), source_))});
  });
  if (!answers) return findings;
  append(findings, limit_findings(system));
  append(findings, restart_finding(system));
  // A socket may lead to an engine on another machine, for example by ssh or in a virtual machine.
  if (has_socket && system.host == own_host_name()) {
    if (const std::optional<DiskSpace> space = disk_space(system.data_folder))
      findings.push_back(
          disk_finding(system.data_folder, space->free, space->total,
                       "remove unused images and containers, for example by `docker system prune`"));
    examine("gpus", "", [&] { append(findings, gpu_finding(gpu_support(system, stop))); });
  }
  examine("configuration", "", [&] { (void)configured_gpus_(); });
  append(findings, credential_findings(config_folder_));
  return findings;
}

}  // namespace combu::docker
