#pragma once
// The findings of Engine::diagnose() for a Docker Engine, from facts about the engine and this machine.

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/engine.hpp"
#include "docker/api.hpp"

namespace combu::docker {

// A unix socket, and the permissions of this process.
struct SocketState {
  std::string path;
  int error = 0;           // errno of connect(2); 0: a process listens on the socket
  bool is_found = false;   // stat(2) has succeeded; otherwise the members below, except `user`, are unknown
  bool is_socket = false;  // false for a file or folder
  unsigned mode = 0;       // permission bits
  std::string owner;       // name of the owner, or the id of an owner without a name
  std::string group;       // name or id of the group
  bool is_of_root_group = false;
  bool has_group = false;  // this process belongs to the group
  bool is_member = false;  // by the user database, the user of this process belongs to the group
  std::string user;        // name or id of this process's user
};
// Connects to the socket, and closes the connection at once.
[[nodiscard]] SocketState examine_socket(const std::string& path);

// The engines on this machine.
struct Machine {
  bool has_dockerd = false;  // the program dockerd is installed
  bool has_systemd = false;
  std::vector<std::string> sockets;  // usual sockets of engines on which a process listens
};
[[nodiscard]] Machine examine_machine();

// Returns the address or path with DockerEndpoint::source, such as "unix:///x (from DOCKER_HOST)".
[[nodiscard]] std::string place_text(const std::string& place, const std::string& source);

// Returns the fault for a socket with an `error`. `source`: DockerEndpoint::source.
[[nodiscard]] Finding socket_fault(const SocketState& socket, const Machine& machine,
                                   const std::string& source);

// Returns a warning for each limit of trials that the engine does not support.
[[nodiscard]] std::vector<Finding> limit_findings(const SystemFacts& system);

// Returns a warning if a restart of the engine ends the running trials; nullopt for an engine that has no
// such setting.
[[nodiscard]] std::optional<Finding> restart_finding(const SystemFacts& system);

// The NVIDIA GPUs of the engine's machine, and the programs that give containers access to the GPUs.
struct GpuSupport {
  std::size_t gpus = 0;
  bool has_cdi_devices = false;  // the engine lists CDI devices of NVIDIA
  bool has_runtime = false;      // the engine has NVIDIA's runtime, or the hook for it is installed
  bool has_toolkit = false;      // the program nvidia-ctk is installed
};
// `system`: facts about the engine, which must run on this machine. Runs nvidia-smi. Throws Error(cancelled).
[[nodiscard]] GpuSupport gpu_support(const SystemFacts& system, const std::stop_token& stop);
// Returns a warning if containers have no access to the GPUs; nullopt if the machine has no NVIDIA GPU.
[[nodiscard]] std::optional<Finding> gpu_finding(const GpuSupport& support);

// Returns a warning for each credential program of `config_folder`/config.json that is not installed.
[[nodiscard]] std::vector<Finding> credential_findings(const std::string& config_folder);

}  // namespace combu::docker
