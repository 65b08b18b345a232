#include "spec/foreign_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace combu::spec {

namespace {

struct ForeignField {
  std::string_view spelling;
  std::string_view instead;
};

// Fields of Compose that combu lacks, each with an example of the equivalent field of HostConfig. The names
// are those of a service's fields in the Compose specification. The examples are for ContainerCreate in the
// Docker Engine API v1.51.
constexpr auto k_of_host_config = std::to_array<ForeignField>({
    {"add_host", R"(ExtraHosts: ["registry.lab:10.0.0.2"])"},
    {"annotations", R"(Annotations: { "com.example.note": "text" })"},
    {"blkio_config", "BlkioWeight: 300"},
    {"blkio_weight", "BlkioWeight: 300"},
    {"cap_add", R"(CapAdd: ["SYS_PTRACE"])"},
    {"cap_drop", R"(CapDrop: ["ALL"])"},
    {"cgroup", R"(CgroupnsMode: "host")"},
    {"cgroup_parent", R"(CgroupParent: "lab.slice")"},
    {"cgroupns", R"(CgroupnsMode: "host")"},
    {"cpu_rt_period", "CpuRealtimePeriod: 1000000"},
    {"cpu_rt_runtime", "CpuRealtimeRuntime: 950000"},
    {"cpu_shares", "CpuShares: 512"},
    {"cpuset", R"(CpusetCpus: "0-3")"},
    {"cpuset_cpus", R"(CpusetCpus: "0-3")"},
    {"cpuset_mems", R"(CpusetMems: "0")"},
    {"device",
     R"(Devices: [{ PathOnHost: "/dev/fuse", PathInContainer: "/dev/fuse", CgroupPermissions: "rwm" }])"},
    {"device_cgroup_rules", R"(DeviceCgroupRules: ["c 10:229 rwm"])"},
    {"devices",
     R"(Devices: [{ PathOnHost: "/dev/fuse", PathInContainer: "/dev/fuse", CgroupPermissions: "rwm" }])"},
    {"dns", R"(Dns: ["10.0.0.53"])"},
    {"dns_opt", R"(DnsOptions: ["ndots:2"])"},
    {"dns_option", R"(DnsOptions: ["ndots:2"])"},
    {"dns_search", R"(DnsSearch: ["lab.example.com"])"},
    {"extra_hosts", R"(ExtraHosts: ["registry.lab:10.0.0.2"])"},
    {"group_add", R"(GroupAdd: ["video"])"},
    {"ipc", R"(IpcMode: "host")"},
    {"log_driver", R"(LogConfig: { Type: "local", Config: { "max-size": "100m" } })"},
    {"logging", R"(LogConfig: { Type: "local", Config: { "max-size": "100m" } })"},
    {"mem_reservation", "MemoryReservation: 1073741824"},
    {"mem_swappiness", "MemorySwappiness: 0"},
    {"memory_reservation", "MemoryReservation: 1073741824"},
    {"memory_swap", "MemorySwap: 2147483648"},
    {"memory_swappiness", "MemorySwappiness: 0"},
    {"memswap_limit", "MemorySwap: 2147483648"},
    {"oom_kill_disable", "OomKillDisable: true"},
    {"oom_score_adj", "OomScoreAdj: 500"},
    {"pid", R"(PidMode: "host")"},
    {"pids_limit", "PidsLimit: 1000"},
    {"privileged", "Privileged: true"},
    {"read_only", "ReadonlyRootfs: true"},
    {"runtime", R"(Runtime: "runsc")"},
    {"security_opt", R"(SecurityOpt: ["seccomp=unconfined"])"},
    {"storage_opt", R"(StorageOpt: { size: "20G" })"},
    {"sysctl", R"(Sysctls: { "net.core.somaxconn": "1024" })"},
    {"sysctls", R"(Sysctls: { "net.core.somaxconn": "1024" })"},
    {"tmpfs", R"(Tmpfs: { "/tmp": "size=64m" })"},
    {"ulimit", R"(Ulimits: [{ Name: "nofile", Soft: 1024, Hard: 2048 }])"},
    {"ulimits", R"(Ulimits: [{ Name: "nofile", Soft: 1024, Hard: 2048 }])"},
    {"userns", R"(UsernsMode: "host")"},
    {"userns_mode", R"(UsernsMode: "host")"},
    {"uts", R"(UTSMode: "host")"},
    {"volumes_from", R"(VolumesFrom: ["loader"])"},
});

// Names whose equivalent field is in the request body of ContainerCreate, outside HostConfig.
constexpr auto k_of_container = std::to_array<ForeignField>({
    {"domainname", R"(Domainname: "lab.example.com")"},
    {"hostname", R"(Hostname: "solver")"},
    {"mac_address", R"(MacAddress: "02:42:ac:11:00:02")"},
    {"stdin_open", "OpenStdin: true"},
    {"tty", "Tty: true"},
});

// Fields of a Pod's `spec` that combu lacks, each with an example.
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
constexpr auto k_of_pod = std::to_array<ForeignField>({
    {"affinity", "affinity: { nodeAffinity: {} }"},
    {"dnsConfig", R"(dnsConfig: { nameservers: ["10.0.0.53"] })"},
    {"hostAliases", R"(hostAliases: [{ ip: "10.0.0.2", hostnames: ["registry.lab"] }])"},
    {"imagePullSecrets", R"(imagePullSecrets: [{ name: "registry" }])"},
    {"initContainers", R"(initContainers: [{ name: "prepare", image: "debian:12" }])"},
    {"nodeSelector", R"(nodeSelector: { "kubernetes.io/arch": "amd64" })"},
    {"priorityClassName", R"(priorityClassName: "batch")"},
    {"runtimeClassName", R"(runtimeClassName: "gvisor")"},
    {"schedulerName", R"(schedulerName: "volcano")"},
    {"securityContext", "securityContext: { runAsNonRoot: true }"},
    {"serviceAccountName", R"(serviceAccountName: "trainer")"},
    {"tolerations", R"(tolerations: [{ key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }])"},
    {"topologySpreadConstraints",
     R"(topologySpreadConstraints: [{ maxSkew: 1, topologyKey: "kubernetes.io/hostname", )"
     R"(whenUnsatisfiable: "ScheduleAnyway" }])"},
});

constexpr auto k_of_combu = std::to_array<ForeignField>({
    {"HostConfig", "write docker: { HostConfig: { ... } }"},
    {"activeDeadlineSeconds", "use `timeout`"},
    {"args", "use `cmd`"},
    {"configs", "use `inputs`"},
    {"cpu_count", "use `cpus`"},
    {"cpu_period", "use `cpus`"},
    {"cpu_quota", "use `cpus`"},
    {"envFrom", R"(write kubernetes: { container: { envFrom: [{ configMapRef: { name: "settings" } }] } })"},
    {"expose", "leave the field out: trials on one network reach every port of each other"},
    {"extends", "use `base + { ... }` of Jsonnet"},
    {"external_links", "use `networks`: trials on one network reach each other by name"},
    {"imagePullPolicy", "use `pull`"},
    {"links", "use `networks`: trials on one network reach each other by name"},
    {"metadata", R"(write kubernetes: { metadata: { annotations: { "example.com/note": "text" } } })"},
    {"mount", "use `volumes`"},
    {"mounts", "use `volumes`"},
    {"profiles", "leave the field out: `combu run --only` chooses trials"},
    {"readinessProbe", "use `healthcheck`"},
    {"resources", "use `cpus`, `memory` and `gpus`"},
    {"restart", "use `retries`"},
    {"restartPolicy", "use `retries`"},
    {"restart_policy", "use `retries`"},
    {"terminationGracePeriodSeconds", "use `stop_grace`"},
    {"volumeMounts", "use `volumes`"},
});

// Finds a field by its spelling, or by the name in the engine's API, which is the first word of the example.
std::string_view find_foreign(std::span<const ForeignField> fields, std::string_view spelling) {
  const auto found = std::ranges::find_if(fields, [&](const ForeignField& field) {
    return field.spelling == spelling || field.instead.substr(0, field.instead.find(':')) == spelling;
  });
  return found == fields.end() ? std::string_view() : found->instead;
}

}  // namespace

std::string written_instead(std::string_view spelling) {
  if (const auto example = find_foreign(k_of_host_config, spelling); !example.empty())
    return fmt::format("write docker: {{ HostConfig: {{ {} }} }}", example);
  if (const auto example = find_foreign(k_of_container, spelling); !example.empty())
    return fmt::format("write docker: {{ {} }}", example);
  if (const auto example = find_foreign(k_of_pod, spelling); !example.empty())
    return fmt::format("write kubernetes: {{ pod: {{ {} }} }}", example);
  const auto own = std::ranges::find(k_of_combu, spelling, &ForeignField::spelling);
  return own == k_of_combu.end() ? std::string() : std::string(own->instead);
}

}  // namespace combu::spec
