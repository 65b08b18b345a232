#include "docker/findings.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "combu/registry.hpp"
#include "combu/system.hpp"

namespace combu::docker {
namespace {

constexpr const char* k_default_socket = "/var/run/docker.sock";

std::string name_or_id(std::string name, std::uint32_t id) {
  return name.empty() ? std::to_string(id) : std::move(name);
}

// Returns the errno of connect(2), or 0.
int connect_error(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return ENAMETOOLONG;
  std::ranges::copy(path, std::begin(address.sun_path));
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return errno;
  if (::connect(socket.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return 0;
  // EAGAIN: too many connections wait for the process that listens.
  return errno == EAGAIN ? 0 : errno;
}

std::vector<std::uint32_t> own_groups() {
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  groups.resize(
      static_cast<std::size_t>(std::max(::getgroups(static_cast<int>(groups.size()), groups.data()), 0)));
  groups.push_back(::getegid());
  return {groups.begin(), groups.end()};
}

std::string own_variable(std::string_view name) {
  for (const std::string& variable : own_environment())
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('='))
      return variable.substr(name.size() + 1);
  return "";
}

// True if the socket is at a usual place of an engine that a user runs without root.
bool is_users_own(const std::string& path) {
  const std::string runtime_folder = own_variable("XDG_RUNTIME_DIR");
  return path.starts_with("/run/user/") || (!runtime_folder.empty() && holds_path(runtime_folder, path));
}

// ---- The socket

// Returns what the user can do if no process listens on the socket.
std::string start_remedy(const SocketState& socket, const Machine& machine) {
  for (const std::string& other : machine.sockets) {
    if (other != socket.path)
      return fmt::format(
          "an engine listens at unix://{0}: use --engine unix://{0}, or set DOCKER_HOST=unix://{0}", other);
  }
  constexpr std::string_view k_other = "or name the address of another engine with --engine or DOCKER_HOST";
  if (!machine.has_dockerd)
    return fmt::format("install Docker Engine (https://docs.docker.com/engine/install), {}", k_other);
  if (is_users_own(socket.path)) return fmt::format("run `systemctl --user start docker`, {}", k_other);
  return fmt::format("run `{}`, {}", machine.has_systemd ? "sudo systemctl start docker" : "sudo dockerd",
                     k_other);
}

// The case that the user has no permission to connect to the socket.
Finding permission_fault(const SocketState& socket, const std::string& place) {
  Finding fault{.kind = Finding::Kind::fault, .subject = "socket", .is_unreachable = true};
  if (!socket.is_found) {
    fault.text = fmt::format("permission denied for {}: {} may not enter its folder", place, socket.user);
    fault.remedy = "name the address of your own engine with --engine or DOCKER_HOST";
    return fault;
  }
  const std::string rights =
      fmt::format("permission denied for {}, which belongs to {}:{} and has the mode {:04o}", place,
                  socket.owner, socket.group, socket.mode);
  if ((socket.mode & S_IWGRP) == 0 || socket.is_of_root_group) {
    fault.text = rights;
    fault.remedy = fmt::format(
        "run `sudo groupadd -f docker`, `sudo usermod -aG docker {}` and `sudo systemctl "
        "restart docker`, and log in again",
        socket.user);
  } else if (socket.has_group) {
    fault.text = fmt::format("{}, although {} belongs to the group {}", rights, socket.user, socket.group);
    fault.remedy = "a security module such as AppArmor or SELinux denies the access; see `sudo dmesg`";
  } else if (socket.is_member) {
    fault.text = fmt::format("{}: {} belongs to the group {}, but this session is older", rights, socket.user,
                             socket.group);
    fault.remedy = fmt::format("log in again, or run `newgrp {}`", socket.group);
  } else {
    fault.text = fmt::format("{}: {} does not belong to the group {}", rights, socket.user, socket.group);
    fault.remedy = fmt::format("run `sudo usermod -aG {} {}`, and log in again", socket.group, socket.user);
  }
  return fault;
}

}  // namespace

SocketState examine_socket(const std::string& path) {
  SocketState state{.path = path, .error = connect_error(path)};
  state.user = name_or_id(name_of_user(::geteuid()), ::geteuid());
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return state;
  constexpr unsigned k_permissions = 07777;
  state.is_found = true;
  state.is_socket = S_ISSOCK(status.st_mode);
  state.mode = status.st_mode & k_permissions;
  state.owner = name_or_id(name_of_user(status.st_uid), status.st_uid);
  state.group = name_or_id(name_of_group(status.st_gid), status.st_gid);
  state.is_of_root_group = status.st_gid == 0;
  const auto has = [&](const std::vector<std::uint32_t>& groups) {
    return std::ranges::find(groups, status.st_gid) != groups.end();
  };
  state.has_group = has(own_groups());
  state.is_member = has(groups_of_user(::geteuid()));
  return state;
}

Machine examine_machine() {
  std::error_code ignored;
  Machine machine{.has_dockerd = !find_program("dockerd").empty() ||
                                 std::filesystem::exists("/usr/sbin/dockerd", ignored),
                  .has_systemd = std::filesystem::exists("/run/systemd/system", ignored),
                  .sockets = {k_default_socket}};
  if (const std::string folder = own_variable("XDG_RUNTIME_DIR"); !folder.empty())
    machine.sockets.push_back(folder + "/docker.sock");
  if (const std::string folder = own_variable("HOME"); !folder.empty())
    machine.sockets.push_back(folder + "/.docker/desktop/docker.sock");
  std::erase_if(machine.sockets, [](const std::string& path) { return connect_error(path) != 0; });
  return machine;
}

std::string place_text(const std::string& place, const std::string& source) {
  return fmt::format("{} ({}{})", place, source == "the default" ? "" : "from ", source);
}

Finding socket_fault(const SocketState& socket, const Machine& machine, const std::string& source) {
  const std::string place = place_text(socket.path, source);
  Finding fault{.kind = Finding::Kind::fault, .subject = "socket", .is_unreachable = true};
  if (socket.error == EACCES || socket.error == EPERM) {
    fault = permission_fault(socket, place);
  } else if (socket.error == ENOENT) {
    fault.text = fmt::format("{} does not exist: no engine runs there", place);
    fault.remedy = start_remedy(socket, machine);
  } else if (socket.error == ECONNREFUSED && socket.is_socket) {
    fault.text = fmt::format("no process listens on {}: the engine does not run", place);
    fault.remedy = start_remedy(socket, machine);
  } else if (socket.is_found && !socket.is_socket) {
    fault.text = fmt::format("{} must be a socket, not a file or folder", place);
    fault.remedy =
        "correct the address; if a mount of a container has created a folder there, remove the folder "
        "and start the engine again";
  } else {
    fault.text =
        fmt::format("cannot connect to {}: {}", place, std::generic_category().message(socket.error));
    fault.remedy = "correct the address";
  }
  return fault;
}

// ---- The engine

std::vector<Finding> limit_findings(const SystemFacts& system) {
  std::vector<Finding> findings;
  const auto warn = [&](const std::string& text, const std::string& remedy) {
    findings.push_back({.kind = Finding::Kind::warning, .subject = "limits", .text = text, .remedy = remedy});
  };
  if (system.cgroup_driver == "none") {
    warn(
        "the engine runs without control groups (cgroup driver none), and so cannot limit the CPUs and "
        "memory of trials",
        "use cgroup v2 with systemd, and delegate the controllers cpu, memory and pids to your user "
        "(https://docs.docker.com/engine/security/rootless)");
    return findings;
  }
  const auto remedy = [&](const char* controller, const char* parameter) {
    return system.is_rootless
               ? fmt::format(
                     "delegate the control group controller {} to your user "
                     "(https://docs.docker.com/engine/security/rootless)",
                     controller)
               : fmt::format("add `{}` to the kernel's command line, and restart the machine", parameter);
  };
  if (!system.limits.memory)
    warn("the engine cannot limit the memory of trials, so that a trial may use more than its `memory`",
         remedy("memory", "cgroup_enable=memory swapaccount=1"));
  if (system.limits.memory && !system.limits.swap)
    warn("the engine cannot limit the swap space of trials, so that a trial may use more than its `memory`",
         remedy("memory", "swapaccount=1"));
  if (!system.limits.cpus)
    warn("the engine cannot limit the CPUs of trials, and so refuses trials with `cpus`",
         system.is_rootless ? remedy("cpu", "") : "use a kernel with the option CONFIG_CFS_BANDWIDTH");
  if (!system.limits.processes)
    warn("the engine cannot limit the number of a trial's processes, and so ignores PidsLimit in `docker`",
         system.is_rootless ? remedy("pids", "") : "use a kernel with the option CONFIG_CGROUP_PIDS");
  return findings;
}

std::optional<Finding> restart_finding(const SystemFacts& system) {
  if (system.product != "Docker Engine" || system.is_in_swarm) return std::nullopt;
  if (system.keeps_running)
    return Finding{.subject = "restart", .text = "trials continue while the engine restarts (live-restore)"};
  return Finding{.kind = Finding::Kind::warning,
                 .subject = "restart",
                 .text = "a restart of the engine ends all running trials (live-restore is off)",
                 .remedy = system.is_rootless
                               ? "write `\"live-restore\": true` into ~/.config/docker/daemon.json, and run "
                                 "`systemctl --user reload docker`"
                               : "write `\"live-restore\": true` into /etc/docker/daemon.json, and run `sudo "
                                 "systemctl reload docker`"};
}

std::optional<Finding> gpu_finding(const GpuSupport& support) {
  if (support.gpus == 0) return std::nullopt;
  const std::string gpus = fmt::format("{} NVIDIA GPU{}", support.gpus, support.gpus == 1 ? "" : "s");
  if (support.has_cdi_devices)
    return Finding{.subject = "gpus", .text = fmt::format("the engine offers {} as CDI devices", gpus)};
  if (support.has_runtime)
    return Finding{.subject = "gpus", .text = fmt::format("the engine offers {} by NVIDIA's runtime", gpus)};
  return Finding{.kind = Finding::Kind::warning,
                 .subject = "gpus",
                 .text = fmt::format("this machine has {}, but containers have no access to {}", gpus,
                                     support.gpus == 1 ? "the GPU" : "the GPUs"),
                 .remedy = fmt::format(
                     "{}run `sudo nvidia-ctk runtime configure --runtime=docker` and `sudo systemctl restart "
                     "docker` or, for Docker Engine 28.2 and newer, `sudo nvidia-ctk cdi generate "
                     "--output=/etc/cdi/nvidia.yaml`",
                     support.has_toolkit ? "" : "install the package nvidia-container-toolkit, and ")};
}

std::vector<Finding> credential_findings(const std::string& config_folder) {
  std::vector<Finding> findings;
  try {
    for (const std::string& program : registry::credential_programs(config_folder)) {
      if (!find_program(program).empty()) continue;
      findings.push_back(
          {.kind = Finding::Kind::warning,
           .subject = "credentials",
           .text = fmt::format(
               "{}/config.json names the program {}, which is not in PATH, so that combu cannot use the "
               "credentials of registries",
               config_folder, shortened(program)),
           .remedy = "install the program, or remove its name from the file and run `docker login`"});
    }
  } catch (const Error& error) {
    findings.push_back(
        {.kind = Finding::Kind::warning, .subject = "credentials", .text = error.what(), .remedy = {}});
  }
  return findings;
}

}  // namespace combu::docker
