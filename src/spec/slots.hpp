#pragma once
// The fields that set an attempt's slots: cpus, memory, shm_size, gpus, and Compose's deploy.resources.

#include <optional>

#include "combu/spec.hpp"
#include "spec/json.hpp"
#include "spec/report.hpp"

namespace combu::spec {

// If `value` is invalid, each function reports a fault at `place` and returns nullopt.
[[nodiscard]] std::optional<Cpus> read_cpus(const Json& value, const Place& place, Report& report);
// Also reports an amount below the engine's minimum of 6 MiB.
[[nodiscard]] std::optional<Bytes> read_memory(const Json& value, const Place& place, Report& report);
[[nodiscard]] std::optional<Bytes> read_bytes(const Json& value, const Place& place, Report& report);

// Accepts a number, "all", names of GPUs, or {count, ids, memory, kind}. Reports faults at `place`.
[[nodiscard]] GpuRequest read_gpus(const Json& value, const Place& place, Report& report);

struct Deploy {
  std::optional<Cpus> cpus;
  std::optional<Bytes> memory;
  std::optional<GpuRequest> gpus;
};
// Reads Compose's {resources: {limits: {cpus, memory}, reservations: {cpus, memory, devices}}}. A limit also
// counts as a reservation.
[[nodiscard]] Deploy read_deploy(const Json& value, const Place& place, Report& report);

}  // namespace combu::spec
