#include "app/capacity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "combu/session.hpp"

namespace combu {
namespace {

Error bad_reserve(const std::string& why) {
  return {ErrorKind::invalid, "--reserve", why};
}

// Adds `part`, one of the comma-separated parts of the value of --reserve, to `reserve`.
void add_reserved(Slots& reserve, const std::string& part) {
  if (part.starts_with("gpu=")) {
    const std::string id = part.substr(4);
    if (id.empty()) throw bad_reserve("gpu= must name a GPU, for example gpu=0");
    if (std::ranges::find(reserve.gpus, id) != reserve.gpus.end())
      throw bad_reserve(fmt::format("the GPU {} is given twice", shortened(id)));
    reserve.gpus.push_back(id);
  } else if (part.find_first_not_of("0123456789.") == std::string::npos && !part.empty()) {
    if (reserve.cpus.nano != 0)
      throw bad_reserve(fmt::format("CPUs are given twice; for memory, add a unit, for example {}GiB", part));
    reserve.cpus = cpus_option("--reserve", part);
  } else {
    if (part.empty() || part.find_first_of("0123456789") != 0)
      throw bad_reserve(
          fmt::format("\"{}\" must be CPUs, memory or a GPU, such as 2, 4GiB or gpu=0", shortened(part)));
    if (reserve.memory.count != 0) throw bad_reserve("memory is given twice");
    reserve.memory = bytes_option("--reserve", part);
  }
}

// Parses the value of --reserve, such as "2,4GiB,gpu=0". CPUs, memory and GPUs are each optional.
Slots reserve_option(const std::string& text) {
  Slots reserve;
  for (std::size_t at = 0; at <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    add_reserved(reserve, text.substr(at, end - at));
    at = end + 1;
  }
  return reserve;
}

// Returns `capacity` minus `reserve`. Throws Error(invalid) if `reserve` has more CPUs or memory than
// `capacity`.
Slots without_reserved(const Slots& capacity, const Slots& reserve, const std::string& option) {
  const auto refuse = [&](const std::string& there) {
    return Error(ErrorKind::invalid, "--reserve " + option, fmt::format("the engine has only {}", there));
  };
  if (reserve.cpus > capacity.cpus)
    throw refuse(to_string(Slots{.cpus = capacity.cpus, .memory = {}, .gpus = {}}));
  if (reserve.memory > capacity.memory)
    throw refuse(to_string(Slots{.cpus = {}, .memory = capacity.memory, .gpus = {}}));
  Slots left = capacity;
  left -= reserve;
  return left;
}

// Returns the engine's GPUs without the reserved ones. Throws Error(invalid) if the engine lacks a reserved
// GPU.
std::vector<Gpu> gpus_for(Session& session, const std::vector<std::string>& reserved) {
  const std::vector<Gpu> there = session.engine().gpus(session.stop());
  std::vector<Gpu> gpus = there;
  for (const std::string& id : reserved) {
    const auto is_it = [&](const Gpu& gpu) { return is_called(gpu, id); };
    if (std::erase_if(gpus, is_it) > 0) continue;
    if (std::ranges::any_of(there, is_it))
      throw bad_reserve(fmt::format("the GPU {} is given twice", shortened(id)));
    std::vector<std::string> ids;
    ids.reserve(there.size());
    for (const Gpu& gpu : there) ids.push_back(gpu.id);
    const bool any_uuid = std::ranges::any_of(there, [](const Gpu& gpu) { return !gpu.uuid.empty(); });
    throw bad_reserve(fmt::format("the engine has no GPU {}{}{}", shortened(id),
                                  ids.empty() ? "" : fmt::format("; it has {}", fmt::join(ids, ", ")),
                                  ids.empty() || any_uuid ? "" : ", whose UUIDs are not known"));
  }
  return gpus;
}

}  // namespace

std::optional<Capacity> capacity_for(Session& session, const Facts& facts, const Experiment& experiment,
                                     const RunOptions& options) {
  const Slots reserve = reserve_option(options.reserve);
  if (facts.places_attempts) {
    if (!reserve.empty())
      throw Error(ErrorKind::invalid, "--reserve",
                  "this engine chooses the hosts itself, so combu cannot reserve slots; remove --reserve");
    return std::nullopt;
  }
  const bool gpus_asked = std::ranges::any_of(
      experiment.trials, [](const Trial& trial) { return static_cast<bool>(trial.gpus); });
  const bool asked = gpus_asked || std::ranges::any_of(experiment.trials, [](const Trial& trial) {
                       return !trial.slots.empty();
                     });
  if (!asked) return std::nullopt;
  Capacity capacity{.slots = without_reserved(facts.capacity, reserve, options.reserve), .gpus = {}};
  if (gpus_asked) capacity.gpus = gpus_for(session, reserve.gpus);
  for (const Gpu& gpu : capacity.gpus) capacity.slots.gpus.push_back(gpu.id);
  return capacity;
}

}  // namespace combu
