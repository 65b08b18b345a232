#pragma once
// Fields of a trial as Pods need them.

#include <cstdint>
#include <optional>
#include <string>

#include "combu/spec.hpp"

namespace combu::kubernetes {

// The label of a node with the model of its GPUs, and the label with the memory of each GPU in MiB.
// https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md
inline constexpr const char* k_gpu_product = "nvidia.com/gpu.product";
inline constexpr const char* k_gpu_memory = "nvidia.com/gpu.memory";
// The resource of NVIDIA's device plugin.
inline constexpr const char* k_gpu = "nvidia.com/gpu";

// The platform of a Pod with a program of combu's own, if neither its trial nor its image names one.
#if defined(__aarch64__)
inline constexpr const char* k_own_platform = "linux/arm64";
#else
inline constexpr const char* k_own_platform = "linux/amd64";
#endif

struct NumericUser {
  std::int64_t uid = 0;
  std::optional<std::int64_t> gid;
};
// Returns nullopt if `user` contains a name, or a number above the limit of the API (2^31 - 1).
[[nodiscard]] std::optional<NumericUser> numeric_user(const std::string& user);

// True if the trial itself has the command of a health check. The HEALTHCHECK of an image does not count,
// because Kubernetes ignores it.
[[nodiscard]] bool has_health_command(const Trial& trial);

// True if `signal` is the signal that Kubernetes sends unless the image names another: SIGTERM.
[[nodiscard]] bool is_default_stop_signal(const std::string& signal);

// Returns the quantity of the API, in the largest unit of which `bytes` is a multiple: "512Mi".
[[nodiscard]] std::string memory_quantity(Bytes bytes);

// Returns the duration in whole seconds, rounded up, within the API's limit (2^31 - 1).
[[nodiscard]] std::int64_t whole_seconds(Seconds duration);

// True if the trial describes the container of a worker.
[[nodiscard]] bool is_worker_container(const Trial& trial);

// True if the Pods of the trial need the agent.
[[nodiscard]] bool needs_agent(const Trial& trial);

// True if the request is for a number of GPUs of no particular ids.
[[nodiscard]] bool is_gpu_count(const GpuRequest& request);

}  // namespace combu::kubernetes
