#include "docker/container_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "combu/json.hpp"
#include "docker/labels.hpp"
#include "docker/provided_program.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;

std::int64_t nanoseconds(Seconds duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

json healthcheck_json(const Healthcheck& check) {
  json value = json::object();
  if (!check.test.empty()) value["Test"] = check.test;
  if (check.interval.count() > 0) value["Interval"] = nanoseconds(check.interval);
  if (check.timeout.count() > 0) value["Timeout"] = nanoseconds(check.timeout);
  if (check.start_period.count() > 0) value["StartPeriod"] = nanoseconds(check.start_period);
  if (check.retries > 0) value["Retries"] = check.retries;
  return value;
}

void add_process(json& body, const Trial& trial) {
  const Process& process = trial.process;
  body["Image"] = trial.image;
  if (process.entrypoint) body["Entrypoint"] = *process.entrypoint;
  if (process.cmd) body["Cmd"] = *process.cmd;
  json env = json::array();
  for (const auto& [name, value] : process.env) env.push_back(fmt::format("{}={}", name, value));
  if (!env.empty()) body["Env"] = std::move(env);
  if (!process.workdir.empty()) body["WorkingDir"] = process.workdir;
  if (!process.user.empty()) body["User"] = process.user;
  if (!process.stop_signal.empty()) body["StopSignal"] = process.stop_signal;
  if (process.stop_grace)
    body["StopTimeout"] = static_cast<std::int64_t>(std::ceil(process.stop_grace->count()));
  if (trial.healthcheck) body["Healthcheck"] = healthcheck_json(*trial.healthcheck);
}

void add_ports(json& body, const Trial& trial) {
  for (const Port& port : trial.container.ports) {
    const std::string inside = fmt::format("{}/{}", port.container, port.protocol);
    body["ExposedPorts"][inside] = json::object();
    body["HostConfig"]["PortBindings"][inside].push_back(
        {{"HostIp", port.host_ip}, {"HostPort", std::to_string(port.host)}});
  }
}

// Uses the field Mounts, not Binds. If the source of a mount is missing, the engine reports an error. For
// Binds, the engine would create a folder that belongs to root.
void add_volumes(json& host, const Trial& trial) {
  for (const Volume& volume : trial.container.volumes) {
    json mount = {{"Type", volume.source_is_path ? "bind" : "volume"},
                  {"Source", volume.source},
                  {"Target", volume.target}};
    if (volume.read_only) mount["ReadOnly"] = true;
    host["Mounts"].push_back(std::move(mount));
  }
}

// The engine creates both volumes with the container. Neither gets files of the image.
void add_provided(json& host, const ProvidedProgram& program) {
  host["Mounts"].push_back(program_mount(program, ProgramAccess::read));
  host["Mounts"].push_back(
      {{"Type", "volume"}, {"Target", program.folder}, {"VolumeOptions", {{"NoCopy", true}}}});
}

void add_networks(json& body, const Trial& trial, NetworksAtCreate at_create) {
  const std::vector<std::string>& networks = trial.container.networks;
  if (networks.empty()) return;
  body["HostConfig"]["NetworkMode"] = networks.front();
  if (networks.size() == 1 && is_engines_own_network(networks.front())) return;
  for (const std::string& network : networks) {
    body["NetworkingConfig"]["EndpointsConfig"][network] = endpoint_json(trial, network);
    if (at_create == NetworksAtCreate::first) return;
  }
}

// Adds one device request for each kind of id: names of CDI devices contain "=", other ids are NVIDIA
// indices. If a request had a number of devices in place of ids, every container would get the first devices.
void add_gpus(json& host, const Trial& trial) {
  json cdi = json::array();
  json nvidia = json::array();
  for (const std::string& id : trial.slots.gpus)
    (id.find('=') == std::string::npos ? nvidia : cdi).push_back(id);
  if (!cdi.empty()) host["DeviceRequests"].push_back({{"Driver", "cdi"}, {"DeviceIDs", std::move(cdi)}});
  if (!nvidia.empty())
    host["DeviceRequests"].push_back({{"DeviceIDs", std::move(nvidia)}, {"Capabilities", {{"gpu"}}}});
}

// Merges the trial's `docker` section into `into`, field by field. If both have a value for a field, the
// section's value is used. For Mounts and Env, the section's entries are appended to the entries of the
// trial's own fields.
void merge(json& into, const json& section) {
  for (const auto& [name, value] : section.items()) {
    json& place = into[name];
    if (place.is_object() && value.is_object()) {
      merge(place, value);
    } else if (place.is_array() && value.is_array() && (name == "Mounts" || name == "Env")) {
      place.insert(place.end(), value.begin(), value.end());
    } else {
      place = value;
    }
  }
}

}  // namespace

bool is_engines_own_network(const std::string& name) {
  return name == "host" || name == "none" || name == "bridge" || name == "default";
}

json endpoint_json(const Trial& trial, const std::string& network) {
  // The engine refuses aliases on its own networks.
  if (is_engines_own_network(network)) return json::object();
  return {{"Aliases", {trial.name}}};
}

json container_json(const Run& run, const Trial& trial, int attempt, NetworksAtCreate networks) {
  const ContainerSettings& settings = trial.container;
  json body = json::object();
  add_process(body, trial);
  json& host = body["HostConfig"];
  host["Init"] = trial.process.init;
  if (trial.slots.cpus.nano > 0) host["NanoCpus"] = trial.slots.cpus.nano;
  if (trial.slots.memory.count > 0) {
    host["Memory"] = trial.slots.memory.count;
    // Without MemorySwap, the container could use swap in addition, up to the size of its memory limit.
    host["MemorySwap"] = trial.slots.memory.count;
  }
  if (settings.shm_size.count > 0) host["ShmSize"] = settings.shm_size.count;
  add_gpus(host, trial);
  add_volumes(host, trial);
  if (settings.provided) add_provided(host, *settings.provided);
  // In memory, so that the engine's host keeps nothing on its disk. Every user of the container may write
  // there.
  for (const std::string& folder : settings.written_folders) host["Tmpfs"][folder] = "mode=1777,size=2m";
  add_ports(body, trial);
  add_networks(body, trial, networks);
  if (!settings.docker.empty()) merge(body, parse_json(settings.docker));
  // After lack of memory, a retry may get more memory than the MemorySwap of the `docker` section. The engine
  // refuses a MemorySwap below the memory limit, so raise MemorySwap.
  json& swap = body["HostConfig"]["MemorySwap"];
  if (swap.is_number_integer() && swap >= 0 && swap < trial.slots.memory.count)
    swap = trial.slots.memory.count;
  if (swap.is_null()) body["HostConfig"].erase("MemorySwap");
  json& labels = body["Labels"];
  for (const auto& [name, value] : settings.labels) labels[name] = value;
  for (const auto& [name, value] : labels_of(run, trial, attempt)) labels[name] = value;
  return body;
}

}  // namespace combu::docker
