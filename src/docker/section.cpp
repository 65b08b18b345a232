#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "combu/docker.hpp"
#include "combu/json.hpp"
#include "docker/labels.hpp"

namespace combu {
namespace {

using nlohmann::json;

enum class Shape : std::uint8_t { text, number, truth, list, object, words };

struct ApiField {
  std::string_view name;
  Shape shape;
};

// The fields of ContainerConfig and HostConfig of the Docker Engine API, v1.41 to v1.51 (moby:
// api/swagger.yaml).
constexpr ApiField k_config[] = {
    {"ArgsEscaped", Shape::truth},
    {"AttachStderr", Shape::truth},
    {"AttachStdin", Shape::truth},
    {"AttachStdout", Shape::truth},
    {"Cmd", Shape::words},
    {"Domainname", Shape::text},
    {"Entrypoint", Shape::words},
    {"Env", Shape::list},
    {"ExposedPorts", Shape::object},
    {"Healthcheck", Shape::object},
    {"HostConfig", Shape::object},
    {"Hostname", Shape::text},
    {"Labels", Shape::object},
    {"MacAddress", Shape::text},
    {"NetworkDisabled", Shape::truth},
    {"OnBuild", Shape::list},
    {"NetworkingConfig", Shape::object},
    {"OpenStdin", Shape::truth},
    {"Shell", Shape::list},
    {"StdinOnce", Shape::truth},
    {"StopSignal", Shape::text},
    {"StopTimeout", Shape::number},
    {"Tty", Shape::truth},
    {"User", Shape::text},
    {"Volumes", Shape::object},
    {"WorkingDir", Shape::text},
};
constexpr ApiField k_host_config[] = {
    {"Annotations", Shape::object},
    {"AutoRemove", Shape::truth},
    {"Binds", Shape::list},
    {"BlkioDeviceReadBps", Shape::list},
    {"BlkioDeviceReadIOps", Shape::list},
    {"BlkioDeviceWriteBps", Shape::list},
    {"BlkioDeviceWriteIOps", Shape::list},
    {"BlkioWeight", Shape::number},
    {"BlkioWeightDevice", Shape::list},
    {"CapAdd", Shape::list},
    {"CapDrop", Shape::list},
    {"Cgroup", Shape::text},
    {"CgroupParent", Shape::text},
    {"CgroupnsMode", Shape::text},
    {"ConsoleSize", Shape::list},
    {"ContainerIDFile", Shape::text},
    {"CpuCount", Shape::number},
    {"CpuPercent", Shape::number},
    {"CpuPeriod", Shape::number},
    {"CpuQuota", Shape::number},
    {"CpuRealtimePeriod", Shape::number},
    {"CpuRealtimeRuntime", Shape::number},
    {"CpuShares", Shape::number},
    {"CpusetCpus", Shape::text},
    {"CpusetMems", Shape::text},
    {"DeviceCgroupRules", Shape::list},
    {"DeviceRequests", Shape::list},
    {"Devices", Shape::list},
    {"Dns", Shape::list},
    {"DnsOptions", Shape::list},
    {"DnsSearch", Shape::list},
    {"ExtraHosts", Shape::list},
    {"GroupAdd", Shape::list},
    {"IOMaximumBandwidth", Shape::number},
    {"IOMaximumIOps", Shape::number},
    {"Init", Shape::truth},
    {"IpcMode", Shape::text},
    {"Isolation", Shape::text},
    {"KernelMemory", Shape::number},
    {"KernelMemoryTCP", Shape::number},
    {"Links", Shape::list},
    {"LogConfig", Shape::object},
    {"MaskedPaths", Shape::list},
    {"Memory", Shape::number},
    {"MemoryReservation", Shape::number},
    {"MemorySwap", Shape::number},
    {"MemorySwappiness", Shape::number},
    {"Mounts", Shape::list},
    {"NanoCpus", Shape::number},
    {"NetworkMode", Shape::text},
    {"OomKillDisable", Shape::truth},
    {"OomScoreAdj", Shape::number},
    {"PidMode", Shape::text},
    {"PidsLimit", Shape::number},
    {"PortBindings", Shape::object},
    {"Privileged", Shape::truth},
    {"PublishAllPorts", Shape::truth},
    {"ReadonlyPaths", Shape::list},
    {"ReadonlyRootfs", Shape::truth},
    {"RestartPolicy", Shape::object},
    {"Runtime", Shape::text},
    {"SecurityOpt", Shape::list},
    {"ShmSize", Shape::number},
    {"StorageOpt", Shape::object},
    {"Sysctls", Shape::object},
    {"Tmpfs", Shape::object},
    {"UTSMode", Shape::text},
    {"Ulimits", Shape::list},
    {"UsernsMode", Shape::text},
    {"VolumeDriver", Shape::text},
    {"VolumesFrom", Shape::list},
};

// Returns an empty text if `value` has the type `shape`, otherwise the error message.
std::string_view lacks_shape(const json& value, Shape shape) {
  switch (shape) {
    case Shape::text:
      return value.is_string() ? "" : "must be a string";
    case Shape::number:
      return value.is_number_integer() ? "" : "must be a whole number, in the Docker API's unit";
    case Shape::truth:
      return value.is_boolean() ? "" : "must be true or false";
    case Shape::list:
      return value.is_array() ? "" : "must be an array";
    case Shape::object:
      return value.is_object() ? "" : "must be an object";
    case Shape::words:
      return value.is_array() || value.is_string() ? "" : "must be an array of strings";
  }
  return "";
}

struct Found {
  std::vector<Error> errors;
  std::unordered_set<std::string> in_defaults;  // the errors in the section `docker` of `defaults`
};

class SectionCheck {
 public:
  // `owner`: the path of the trial that has the section, or "defaults".
  SectionCheck(std::string_view owner, const Trial* trial, Found& found)
      : owner_(owner), trial_(trial), found_(found) {}

  // Makes the checks whose results are the same for all trials that share the section.
  void check(const json& section) {
    check_fields(section, "", k_config);
    if (const json& host = member_of(section, "HostConfig"); host.is_object()) check_host(host);
    const json& labels = member_of(section, "Labels");
    if (!labels.is_object()) return;
    for (const auto& [name, value] : labels.items()) {
      if (!value.is_string()) add("Labels." + name, "must be a string");
      if (name.starts_with(docker::k_label_prefix))
        add("Labels." + name,
            "names that begin with `combu.` are reserved for combu's own labels; use another name");
    }
  }

  // Checks that the section does not set API fields that other fields of the trial already set.
  void check_reserved(const json& section) {
    const json& host = member_of(section, "HostConfig");
    const auto check = [&](const char* name, bool reserved, const char* field) {
      if (reserved && host.contains(name))
        add(fmt::format("HostConfig.{}", name),
            fmt::format("the trial's field `{}` already sets this value; remove one of the two fields",
                        field));
    };
    check("NanoCpus", trial_->slots.cpus.nano > 0, "cpus");
    check("CpuQuota", trial_->slots.cpus.nano > 0, "cpus");
    check("Memory", trial_->slots.memory.count > 0, "memory");
    check("ShmSize", trial_->container.shm_size.count > 0, "shm_size");
    check("DeviceRequests", static_cast<bool>(trial_->gpus), "gpus");
  }

 private:
  void check_host(const json& host) {
    check_fields(host, "HostConfig.", k_host_config);
    if (host.contains("RestartPolicy"))
      add("HostConfig.RestartPolicy",
          "must not be set, because Docker would restart containers whose attempts combu has recorded as "
          "ended; use `retries`");
    if (host.contains("AutoRemove") && host.at("AutoRemove") == true)
      add("HostConfig.AutoRemove",
          "must not be true: the exit code would be lost with the container; remove containers with `combu "
          "kill`");
  }

  void check_fields(const json& object, const std::string& prefix, std::span<const ApiField> known) {
    for (const auto& [name, value] : object.items()) {
      const auto field = std::ranges::find(known, std::string_view(name), &ApiField::name);
      if (field == known.end()) {
        add(prefix + shortened(name), unknown(name, prefix.empty()));
      } else if (const auto fault = lacks_shape(value, field->shape); !fault.empty() && !value.is_null()) {
        add(prefix + name, std::string(fault));
      }
    }
  }

  static std::optional<std::string_view> meant(std::string_view name, std::span<const ApiField> fields) {
    std::vector<std::string_view> names;
    names.reserve(fields.size());
    for (const ApiField& field : fields) names.push_back(field.name);
    return nearest(name, names);
  }

  static std::string unknown(const std::string& name, bool outer) {
    if (const auto near = meant(name, outer ? std::span<const ApiField>(k_config) : k_host_config))
      return fmt::format("the Docker API has no such field; did you mean {}?", *near);
    if (!outer) return "the Docker API's HostConfig has no such field";
    const auto inside = std::ranges::find(k_host_config, std::string_view(name), &ApiField::name);
    if (inside != std::end(k_host_config))
      return fmt::format("must be inside HostConfig: docker: {{HostConfig: {{{}: …}}}}", name);
    return "the Docker API has no such field for a container, or combu sets the field itself";
  }

  void add(const std::string& field, const std::string& message) {
    const bool is_known = found_.in_defaults.contains(field + message);
    if (trial_ == nullptr) found_.in_defaults.insert(field + message);
    if (is_known) return;
    found_.errors.emplace_back(
        ErrorKind::invalid, fmt::format("{}.docker.{}", owner_, field),
        trial_ == nullptr ? message : fmt::format("{} (trial `{}`)", message, shortened(trial_->name)));
  }

  std::string_view owner_;
  const Trial* trial_;  // nullptr: the defaults
  Found& found_;
};

}  // namespace

std::vector<Error> check_docker_sections(const Experiment& experiment) {
  Found found;
  if (!experiment.defaults_docker.empty())
    SectionCheck("defaults", nullptr, found).check(parse_json(experiment.defaults_docker));
  std::unordered_set<std::string_view> checked;
  for (const Trial& trial : experiment.trials) {
    const std::string& docker = trial.container.docker;
    if (docker.empty()) continue;
    const bool is_new = checked.insert(docker).second;
    const bool reserves = !trial.slots.empty() || trial.gpus || trial.container.shm_size.count > 0;
    if (!is_new && !reserves) continue;
    const json section = parse_json(docker);
    SectionCheck check(trial.path, &trial, found);
    if (is_new) check.check(section);
    check.check_reserved(section);
  }
  return std::move(found.errors);
}

}  // namespace combu
