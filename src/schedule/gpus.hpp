#pragma once
// Which GPUs a trial may have.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu::schedule {

// Whether the trial could do with this one.
[[nodiscard]] bool is_meant(const GpuWish& wish, const Gpu& gpu);

// The ids of those that fulfil the wish out of `free`: the ones with the least memory, so that the larger are
// left for who needs them; among equals the first of `gpus`. Those that `spared` could do with come last.
// Of such choices the first that `suits`. nullopt when there are not enough.
using Suits = std::function<bool(const std::vector<std::string>&)>;
[[nodiscard]] std::optional<std::vector<std::string>> choose(const GpuWish& wish, std::span<const Gpu> gpus,
                                                             const std::vector<std::string>& free,
                                                             const GpuWish& spared, const Suits& suits = {});

// Whether each of the wishes can have its own out of `free`.
[[nodiscard]] bool can_match(const std::vector<const GpuWish*>& wishes, std::span<const Gpu> gpus,
                             const std::vector<std::string>& free);

// "2 GPUs (0: NVIDIA H100, 80 GiB; 1: of unknown kind and memory)", for a message.
[[nodiscard]] std::string gpus_text(std::span<const Gpu> gpus);

}  // namespace combu::schedule
