#pragma once
// The fields that say what an attempt holds: cpus, memory, shm_size, gpus, and compose's deploy.resources.

#include <optional>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// Each reports what is wrong at `place`, and then gives nullopt.
[[nodiscard]] std::optional<Cpus> read_cpus(const Json& value, const Place& place, Report& report);
// At least the engine's own least, 6 MiB.
[[nodiscard]] std::optional<Bytes> read_memory(const Json& value, const Place& place, Report& report);
[[nodiscard]] std::optional<Bytes> read_bytes(const Json& value, const Place& place, Report& report);

// A number, "all", names of GPUs, or {count, ids, memory, kind}. Reports what is wrong at `place`.
[[nodiscard]] GpuWish read_gpus(const Json& value, const Place& place, Report& report);

struct Deploy {
  std::optional<Cpus> cpus;
  std::optional<Bytes> memory;
  std::optional<GpuWish> gpus;
};
// Compose's {resources: {limits: {cpus, memory}, reservations: {cpus, memory, devices}}}: what is limited is
// reserved, too.
[[nodiscard]] Deploy read_deploy(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
