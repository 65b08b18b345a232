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

// True if the GPU fulfils the wish.
[[nodiscard]] bool is_meant(const GpuWish& wish, const Gpu& gpu);

// Returns the ids of GPUs out of `free` that fulfil the wish; nullopt if there are too few or `suits` accepts
// no choice. GPUs that `spared` could use come last. Then the least memory comes first, to keep large GPUs
// free; then the order of `gpus`. If `suits` is given, returns the first choice for which it returns true.
using Suits = std::function<bool(const std::vector<std::string>&)>;
[[nodiscard]] std::optional<std::vector<std::string>> choose(const GpuWish& wish, std::span<const Gpu> gpus,
                                                             const std::vector<std::string>& free,
                                                             const GpuWish& spared, const Suits& suits = {});

// True if all wishes can be fulfilled at once out of `free`.
[[nodiscard]] bool can_match(const std::vector<const GpuWish*>& wishes, std::span<const Gpu> gpus,
                             const std::vector<std::string>& free);

// Returns text for a message: "2 GPUs (0: NVIDIA H100, 80 GiB; 1: of unknown kind, memory unknown)".
[[nodiscard]] std::string gpus_text(std::span<const Gpu> gpus);

}  // namespace combu::schedule
