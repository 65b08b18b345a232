// Finds the engine's GPUs, and the containers that hold GPUs, CPUs and memory of the host. No server assigns
// these slots. A created container claims the slots that its labels name. combu starts the container only if
// a listing shows no other container with one of its GPUs, and enough CPUs and memory. Of two competing
// containers, the start of the later one gives up.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include "combu/system.hpp"
#include "docker/docker_engine.hpp"
#include "docker/findings.hpp"
#include "docker/status.hpp"

namespace combu::docker {
namespace {

constexpr std::string_view k_nvidia = "nvidia.com/gpu=";
// Maximum duration of nvidia-smi, which takes several seconds while the driver is loading.
constexpr Seconds k_nvidia_time_max{30};
constexpr std::size_t k_nvidia_output_max = std::size_t{1} << 20U;

// If a container claims slots and is not started within this time, combu takes the process that created it
// for dead. The claim of a dead process must not block other containers.
constexpr std::int64_t k_claim_seconds_max = 30;
// Pause before the next listing. During the pause, processes with later claims give up their claims.
constexpr Seconds k_look_again{0.05};
constexpr int k_looks_max = 100;

// True for the index of a GPU, and for the name of a part of a partitioned GPU, such as "0:1".
bool is_number(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789:") == std::string_view::npos;
}

// Returns one id for each GPU. A GPU may have several CDI names: its index, its UUID, and "all" for all GPUs.
std::vector<Gpu> gpus_of_cdi(const std::vector<std::string>& devices) {
  const auto class_of = [](const std::string& id) { return id.substr(0, id.find('=') + 1); };
  const auto name_of = [](const std::string& id) { return id.substr(id.find('=') + 1); };
  std::vector<Gpu> gpus;
  for (const std::string& id : devices) {
    if (!class_of(id).ends_with("/gpu=") || name_of(id) == "all") continue;
    const bool has_numbers = std::ranges::any_of(devices, [&](const std::string& other) {
      return class_of(other) == class_of(id) && is_number(name_of(other));
    });
    if (is_number(name_of(id)) || !has_numbers)
      gpus.push_back({.id = id, .uuid = {}, .kind = {}, .memory = {}});
  }
  std::ranges::sort(gpus, {}, [](const Gpu& gpu) { return std::tuple(gpu.id.size(), gpu.id); });
  return gpus;
}

// Returns the GPUs that NVIDIA's driver lists; empty if nvidia-smi is not installed. Throws Error(cancelled)
// if `stop` is set.
std::vector<Gpu> gpus_of_nvidia(const std::stop_token& stop) {
  const ProgramEnd end = run_program({.arguments = {"nvidia-smi", "--query-gpu=index,uuid,memory.total,name",
                                                    "--format=csv,noheader,nounits"},
                                      .environment = own_environment(),
                                      .output_max = k_nvidia_output_max,
                                      .time_max = k_nvidia_time_max,
                                      .stop = stop});
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "nvidia-smi", "cancelled");
  std::vector<Gpu> gpus;
  std::istringstream lines(end.output);
  for (std::string line; std::getline(lines, line);) {
    char id[32];
    char uuid[128];
    char kind[256];
    char size[32];
    std::int64_t mebibytes = 0;
    // A line of nvidia-smi is, for example, "0, GPU-5d1f…, 81559, NVIDIA H100 80GB HBM3".
    if (std::sscanf(line.c_str(), " %31[^,], %127[^,], %31[^,], %255[^\n]", id, uuid, size, kind) == 4 &&
        std::from_chars(size, size + std::strlen(size), mebibytes).ec == std::errc())
      gpus.push_back({.id = id, .uuid = uuid, .kind = kind, .memory = Bytes{mebibytes << 20U}});
  }
  return gpus;
}

// Fills missing fields from entries of the same GPU in `known`.
void add_what_is_known(std::vector<Gpu>& gpus, const std::vector<Gpu>& known) {
  for (Gpu& gpu : gpus) {
    const auto same = std::ranges::find_if(known, [&](const Gpu& other) {
      return other.id == gpu.id || gpu.id == std::string(k_nvidia) + other.id ||
             (!other.uuid.empty() && (gpu.uuid == other.uuid || gpu.id.ends_with("=" + other.uuid)));
    });
    if (same == known.end()) continue;
    if (gpu.uuid.empty()) gpu.uuid = same->uuid;
    if (gpu.kind.empty()) gpu.kind = same->kind;
    if (gpu.memory.count == 0) gpu.memory = same->memory;
  }
}

// Returns the index of an NVIDIA GPU, the same for a CDI name and for an id of NVIDIA's driver.
std::string_view device_of(std::string_view id) {
  return id.starts_with(k_nvidia) ? id.substr(k_nvidia.size()) : id;
}

bool overlap(const std::vector<std::string>& some, const std::vector<std::string>& others) {
  return std::ranges::find_first_of(some, others, {}, device_of, device_of) != some.end();
}

}  // namespace

std::vector<Gpu> DockerEngine::gpus(std::stop_token stop) {
  std::vector<Gpu> gpus = gpus_of_cdi(get_system(connections_, stop).cdi_devices);
  const bool is_here = connections_.address().kind == Address::Kind::unix_socket;
  const std::vector<Gpu> of_nvidia = is_here ? gpus_of_nvidia(stop) : std::vector<Gpu>();
  if (gpus.empty()) gpus = of_nvidia;
  const std::vector<Gpu> configured = configured_gpus_();
  if (gpus.empty()) gpus = configured;
  add_what_is_known(gpus, of_nvidia);
  add_what_is_known(gpus, configured);
  return gpus;
}

GpuSupport gpu_support(const SystemFacts& system, const std::stop_token& stop) {
  GpuSupport support{.gpus = gpus_of_nvidia(stop).size()};
  std::error_code ignored;
  if (support.gpus == 0) {
    // The driver has a folder for each GPU here, also if nvidia-smi is not installed.
    for (std::filesystem::directory_iterator entry("/proc/driver/nvidia/gpus", ignored), end;
         !ignored && entry != end; entry.increment(ignored))
      ++support.gpus;
  }
  support.has_cdi_devices =
      std::ranges::any_of(system.cdi_devices, [](const std::string& id) { return id.starts_with(k_nvidia); });
  support.has_runtime = system.has_nvidia_runtime || !find_program("nvidia-container-runtime-hook").empty();
  support.has_toolkit = !find_program("nvidia-ctk").empty();
  return support;
}

Slots DockerEngine::capacity(const std::stop_token& stop) {
  const std::scoped_lock lock(capacity_mutex_);
  if (!capacity_) capacity_ = get_system(connections_, stop).capacity;
  return *capacity_;
}

// Lists the containers that may hold slots and have not ended.
std::shared_ptr<const SharedListing::Containers> DockerEngine::list_claims(const std::stop_token& stop) {
  return claims_.after_now([&] {
    SharedListing::Containers containers;
    list_containers(
        connections_, {.labels = {k_label_gpus}, .states = {"created", "running", "paused", "restarting"}},
        [&](ContainerSummary&& container) { containers.push_back(std::move(container)); }, stop);
    return containers;
  });
}

// Returns another attempt that holds slots claimed by the container `id`, or whose claim on these slots is
// older. Returns nullopt if no other container holds or claims them. If two starts check at the same time,
// each sees the other's container, so at most one of the containers starts. The start of the container that
// was created later gives up. The other start checks again until that container is gone.
std::optional<Observation> DockerEngine::rival_of(const std::string& id, const Slots& slots,
                                                  const std::stop_token& stop) {
  const auto seen = [](ContainerSummary&& rival) {
    Identity identity = *identity_of(rival.labels, rival.name);
    return observation_of(std::move(rival), std::move(identity));
  };
  for (int look = 1;; ++look) {
    std::optional<std::int64_t> own_created;
    std::vector<ContainerSummary> rivals;
    std::vector<ContainerSummary> others;  // other containers that hold CPUs or memory
    const auto claims = list_claims(stop);
    for (const ContainerSummary& container : *claims) {
      const auto identity = identity_of(container.labels, container.name);
      if (container.id == id) {
        own_created = container.created;
      } else if (identity && overlap(identity->slots.gpus, slots.gpus)) {
        rivals.push_back(container);
      } else if (identity && !identity->slots.empty()) {
        others.push_back(container);
      }
    }
    // Another process removed the container because its claim was too old, so the container cannot be
    // started.
    if (!own_created && !inspect_container(connections_, id, stop)) return std::nullopt;
    std::erase_if(rivals, [&](const ContainerSummary& rival) {
      if (rival.state != "created") return !lives(rival.id, stop);
      return own_created && *own_created - rival.created > k_claim_seconds_max &&
             remove_unstarted_container(connections_, rival.id, stop);
    });
    if (rivals.empty() && own_created) {
      Room room = room_for(id, *own_created, slots, std::move(others), stop);
      if (room.holder) return seen(std::move(*room.holder));
      if (!room.is_contested || look == k_looks_max) return std::nullopt;
    }
    for (ContainerSummary& rival : rivals)
      if (rival.state != "created" || look == k_looks_max ||
          (own_created && std::tie(rival.created, rival.id) < std::tie(*own_created, id)))
        return seen(std::move(rival));
    if (look == k_looks_max)
      throw Error(ErrorKind::unavailable, id,
                  "the engine does not list the container that it has just created");
    real_clock().wait(k_look_again, stop);
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, id, "cancelled");
  }
}

// Finds out if `others` leave enough CPUs and memory for the container `id`, which was created at `created`.
// Counts running containers, and recently created containers, which may be about to start.
DockerEngine::Room DockerEngine::room_for(const std::string& id, std::int64_t created, const Slots& slots,
                                          std::vector<ContainerSummary> others, const std::stop_token& stop) {
  if (slots.cpus.nano == 0 && slots.memory.count == 0) return {};
  const Slots all = capacity(stop);
  const auto is_there = [&](const auto& counts) {
    Slots held = slots;
    for (const ContainerSummary& other : others)
      if (counts(other)) held += identity_of(other.labels, other.name)->slots;
    return (slots.cpus.nano == 0 || held.cpus <= all.cpus) &&
           (slots.memory.count == 0 || held.memory <= all.memory);
  };
  if (is_there([](const ContainerSummary&) { return true; })) return {};
  std::erase_if(others, [&](const ContainerSummary& other) {
    return other.state == "created" ? created - other.created > k_claim_seconds_max : !lives(other.id, stop);
  });
  if (is_there([](const ContainerSummary&) { return true; })) return {};
  const auto is_before = [&](const ContainerSummary& other) {
    return other.state != "created" || std::tie(other.created, other.id) < std::tie(created, id);
  };
  if (is_there(is_before)) return {.is_contested = true};
  std::erase_if(others, [&](const ContainerSummary& other) { return !is_before(other); });
  // Return the newest container, because the caller is more likely to know the older ones already.
  const auto last = std::ranges::max_element(others, {}, &ContainerSummary::created);
  return {.is_contested = true, .holder = std::move(*last)};
}

// True if the container runs. Inspects the container, because a listing may still show the container as
// running shortly after its end.
bool DockerEngine::lives(const std::string& id, const std::stop_token& stop) {
  const std::optional<ContainerFacts> container = inspect_container(connections_, id, stop);
  return container && parse_status(container->state, "").phase == Phase::running;
}

}  // namespace combu::docker
