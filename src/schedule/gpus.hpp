#pragma once
// Chooses the GPUs of a trial.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

// True if the GPU has the id, kind and memory that the request asks for.
[[nodiscard]] bool is_meant(const GpuRequest& request, const Gpu& gpu);

// Returns the ids of GPUs out of `free` that fulfil the request. Returns nullopt if too few GPUs are free, or
// if `suits` accepts no choice. GPUs that fit the request `spared` are chosen last. Among the other GPUs,
// those with little memory are chosen first, to keep large GPUs free; then the order of `gpus` decides. If
// `suits` is given, returns the first choice for which `suits` returns true.
using Suits = std::function<bool(const std::vector<std::string>&)>;
[[nodiscard]] std::optional<std::vector<std::string>> choose(const GpuRequest& request,
                                                             std::span<const Gpu> gpus,
                                                             const std::vector<std::string>& free,
                                                             const GpuRequest& spared,
                                                             const Suits& suits = {});

// True if the GPUs in `free` can fulfil all requests in `requests` at the same time.
[[nodiscard]] bool can_match(const std::vector<const GpuRequest*>& requests, std::span<const Gpu> gpus,
                             const std::vector<std::string>& free);

// Returns text for a message, with the number of the GPUs, and the id, kind and memory of each GPU.
[[nodiscard]] std::string gpus_text(std::span<const Gpu> gpus);

}  // namespace combu::schedule
