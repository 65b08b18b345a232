#include "spec/slots.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>

#include "spec/fields.hpp"
#include "spec/values.hpp"

namespace combu {

Slots& Slots::operator+=(const Slots& other) {
  cpus.nano += other.cpus.nano;
  memory.count += other.memory.count;
  gpus.insert(gpus.end(), other.gpus.begin(), other.gpus.end());
  return *this;
}

Slots& Slots::operator-=(const Slots& other) {
  cpus.nano -= other.cpus.nano;
  memory.count -= other.memory.count;
  for (const std::string& gpu : other.gpus)
    if (const auto at = std::ranges::find(gpus, gpu); at != gpus.end()) gpus.erase(at);
  return *this;
}

bool Slots::fit(const Slots& free) const {
  const auto is_free = [&](const std::string& gpu) {
    return std::ranges::find(free.gpus, gpu) != free.gpus.end();
  };
  return (cpus.nano == 0 || cpus <= free.cpus) && (memory.count == 0 || memory <= free.memory) &&
         std::ranges::all_of(gpus, is_free);
}

std::string to_string(const Slots& slots) {
  return to_string(slots, slots);
}

std::string to_string(const Slots& slots, const Slots& others) {
  const bool reads_alike =
      slots.memory != others.memory && to_string(slots.memory) == to_string(others.memory);
  std::string text;
  if (slots.cpus.nano != 0)
    text = fmt::format("{} CPU{}", to_string(slots.cpus), slots.cpus == Cpus{1'000'000'000} ? "" : "s");
  if (slots.memory.count != 0)
    text += fmt::format("{}{} of memory", text.empty() ? "" : ", ",
                        reads_alike ? fmt::format("{} B", slots.memory.count) : to_string(slots.memory));
  if (!slots.gpus.empty())
    text += fmt::format("{}GPU {}", text.empty() ? "" : ", ", fmt::join(slots.gpus, ", "));
  return text.empty() ? "nothing" : text;
}

std::string to_string(const GpuRequest& request) {
  std::string text;
  if (request.all) {
    text = request.ids.empty() ? "all GPUs" : "all GPUs of";
  } else {
    text = fmt::format("{} GPU{}{}", request.count, request.count == 1 ? "" : "s",
                       request.ids.empty() ? "" : " of");
  }
  if (!request.ids.empty()) text += fmt::format(" {}", fmt::join(request.ids, ", "));
  if (!request.kind.empty()) text += fmt::format(" of kind {}", request.kind);
  if (request.memory.count > 0) text += fmt::format(" with {} or more", to_string(request.memory));
  return text;
}

namespace spec {
namespace {

// The minimum of `cpus` is 0.01. Docker limits CPUs by a quota for each period of 100 ms (moby:
// daemon/daemon_unix.go, getCPUResources). The kernel accepts no quota below 1 ms (kernel/sched/core.c,
// min_cfs_quota_period).
constexpr Cpus k_cpus_least{10'000'000};
constexpr Bytes k_memory_least{std::int64_t{6} << 20};  // moby: daemon/daemon_unix.go, linuxMinMemory

constexpr std::array k_deploy_fields{Spelling{"resources", "resources"}};
constexpr std::array k_resources_fields{Spelling{"limits", "limits"},
                                        Spelling{"reservations", "reservations"}};
constexpr std::array k_limits_fields{Spelling{"cpus", "cpus"}, Spelling{"memory", "memory"}};
constexpr std::array k_reservations_fields{Spelling{"cpus", "cpus"}, Spelling{"memory", "memory"},
                                           Spelling{"devices", "devices"}};
constexpr std::array k_device_fields{Spelling{"driver", "driver"}, Spelling{"count", "count"},
                                     Spelling{"device_ids", "device_ids"},
                                     Spelling{"capabilities", "capabilities"}};
constexpr std::array k_gpus_fields{Spelling{"count", "count"}, Spelling{"ids", "ids"},
                                   Spelling{"memory", "memory"}, Spelling{"kind", "kind"}};

// Maximum number of requested GPUs, more than any machine has.
constexpr std::uint32_t k_gpus_max = 1024;

// True if the value in the file is zero. A positive value that is too small also becomes 0, but is an error.
bool is_zero(const Json& value) {
  if (value.is_number()) return value == 0;
  return value.get_ref<const std::string&>().find_first_of("123456789") == std::string::npos;
}

void read_gpu_count(const Json& value, const Place& place, Report& report, GpuRequest& request) {
  request.all = value == "all";
  if (request.all) return;
  if (value.is_string()) {
    report.add(place, fmt::format("must be a number of GPUs or \"all\", not {}", shown(value)));
  } else if (const auto count = read_count(value, place, report); count > k_gpus_max) {
    report.add(place, fmt::format("must be at most {}, not {}", k_gpus_max, *count));
  } else {
    request.count = count.value_or(0);
  }
}

void read_gpu_ids(const Json& value, const Place& place, Report& report, GpuRequest& request) {
  read_list(value, "GPUs' names", place, report, [&](const Json& element, const Place& here) {
    const auto id =
        element.is_number_unsigned() ? std::optional(json_text(element)) : read_string(element, here, report);
    if (!id) return;
    if (id->empty() || id->find(',') != std::string::npos) {
      report.add(here, "must be the name, the number or the UUID of one GPU");
    } else if (std::ranges::find(request.ids, *id) != request.ids.end()) {
      report.add(here, fmt::format("the GPU {} is named twice", shortened(*id)));
    } else {
      request.ids.push_back(*id);
    }
  });
}

// Sets the number of GPUs from `count`. If `count` is nullptr, the trial requests all named GPUs, or one GPU
// if the file names none.
void settle_gpu_count(const Json* count, const Place& place, Report& report, GpuRequest& request) {
  if (count == nullptr) {
    request.count = request.ids.empty() ? 1 : request.ids.size();
  } else {
    read_gpu_count(*count, place, report, request);
  }
  if (!request.ids.empty() && request.count > request.ids.size())
    report.add(place, fmt::format("must be at most {}, the number of named GPUs, not {}", request.ids.size(),
                                  request.count));
  if (request.empty()) request = {};  // a request for no GPU equals an absent request
}

// Reads Compose's list of devices. GPUs are the only supported kind.
GpuRequest read_devices(const Json& value, const Place& place, Report& report) {
  GpuRequest request;
  if (!value.is_array() || value.size() != 1 || !value[0].is_object()) {
    report.add(place, fmt::format("must be an array of one object, not {}", shown(value)));
    return request;
  }
  const Place here = place.index(0);
  const Section device(value[0], k_device_fields, here, report);
  const Json* capabilities = device.find("capabilities");
  bool is_gpu = false;
  if (capabilities != nullptr && capabilities->is_array())
    is_gpu = std::ranges::find(*capabilities, Json("gpu")) != capabilities->end();
  if (!is_gpu && !device.lacks("capabilities"))
    report.add(here.key("capabilities"), "must be [\"gpu\"]: other devices are not supported");
  if (!is_gpu && device.lacks("capabilities"))
    report.add(here, "`capabilities: [\"gpu\"]` is missing: other devices are not supported");
  if (const Json* ids = device.find("device_ids"))
    read_gpu_ids(*ids, here.key("device_ids"), report, request);
  // If the file gives neither a count nor ids, Compose requests all GPUs.
  const Json all = "all";
  const Json* count = device.find("count");
  settle_gpu_count(count == nullptr && request.ids.empty() ? &all : count, here.key("count"), report,
                   request);
  return request;
}

}  // namespace

std::optional<Cpus> read_cpus(const Json& value, const Place& place, Report& report) {
  const auto cpus = read_unit<Cpus>(value, "a number of CPUs", parse_cpus, place, report);
  if (!cpus || *cpus >= k_cpus_least || is_zero(value)) return cpus;
  report.add(place, fmt::format("must be at least {} CPUs, the minimum of an engine, not {}",
                                to_string(k_cpus_least), shown(value)));
  return std::nullopt;
}

std::optional<Bytes> read_bytes(const Json& value, const Place& place, Report& report) {
  const auto bytes =
      read_unit<Bytes>(value, "a size such as \"512m\" or a number of bytes", parse_bytes, place, report);
  if (!bytes || bytes->count > 0 || is_zero(value)) return bytes;
  report.add(place, fmt::format("must be at least one byte, not {}", shown(value)));
  return std::nullopt;
}

std::optional<Bytes> read_memory(const Json& value, const Place& place, Report& report) {
  const auto memory = read_bytes(value, place, report);
  if (!memory || memory->count == 0 || *memory >= k_memory_least) return memory;
  report.add(place, fmt::format("must be at least {}, the minimum of an engine, not {}",
                                to_string(k_memory_least), to_string(*memory)));
  return std::nullopt;
}

GpuRequest read_gpus(const Json& value, const Place& place, Report& report) {
  GpuRequest request;
  if (value.is_array()) {
    read_gpu_ids(value, place, report, request);
    request.count = request.ids.size();
  } else if (value.is_object()) {
    const Section section(value, k_gpus_fields, place, report);
    if (const Json* ids = section.find("ids")) read_gpu_ids(*ids, place.key("ids"), report, request);
    if (const Json* memory = section.find("memory"))
      request.memory = read_bytes(*memory, place.key("memory"), report).value_or(Bytes{});
    if (const Json* kind = section.find("kind"))
      request.kind = read_string(*kind, place.key("kind"), report).value_or("");
    settle_gpu_count(section.find("count"), place.key("count"), report, request);
  } else if (value.is_string() || value.is_number()) {
    read_gpu_count(value, place, report, request);
  } else {
    report.add(
        place,
        fmt::format("must be a number, \"all\", an array of GPUs or {{count, ids, memory, kind}}, not {}",
                    shown(value)));
  }
  return request;
}

Deploy read_deploy(const Json& value, const Place& place, Report& report) {
  Deploy deploy;
  // Returns `inner`, which may be nullptr. If `inner` is not an object, reports an error and returns nullptr.
  const auto object = [&](const Json* inner, const Place& here) -> const Json* {
    if (inner == nullptr || inner->is_object()) return inner;
    report.add(here, fmt::format("must be an object, not {}", shown(*inner)));
    return nullptr;
  };
  if (object(&value, place) == nullptr) return deploy;
  const Place inside = place.key("resources");
  const Json* resources = object(Section(value, k_deploy_fields, place, report).find("resources"), inside);
  if (resources == nullptr) return deploy;
  const Section section(*resources, k_resources_fields, inside, report);
  // Read the limits last, so that they replace the reservations: the engine enforces only limits.
  for (const char* kind : {"reservations", "limits"}) {
    const Place here = inside.key(kind);
    const Json* given = object(section.find(kind), here);
    if (given == nullptr) continue;
    const bool is_limit = kind == std::string_view("limits");
    const Section amounts(
        *given, is_limit ? std::span<const Spelling>(k_limits_fields) : k_reservations_fields, here, report);
    if (const Json* devices = amounts.find("devices"))
      deploy.gpus = read_devices(*devices, here.key("devices"), report);
    if (const Json* cpus = amounts.find("cpus")) deploy.cpus = read_cpus(*cpus, here.key("cpus"), report);
    if (const Json* memory = amounts.find("memory"))
      deploy.memory = read_memory(*memory, here.key("memory"), report);
  }
  return deploy;
}

}  // namespace spec
}  // namespace combu
