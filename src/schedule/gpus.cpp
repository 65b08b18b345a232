#include "schedule/gpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <string_view>
#include <utility>

namespace combu::schedule {
namespace {

bool contains_any_case(std::string_view text, std::string_view part) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return part.empty() || !std::ranges::search(text, part, same).empty();
}

bool is_in(const std::vector<std::string>& ids, const Gpu& gpu) {
  return std::ranges::find(ids, gpu.id) != ids.end();
}

std::vector<const Gpu*> all_meant(const GpuRequest& request, std::span<const Gpu> gpus) {
  std::vector<const Gpu*> meant;
  for (const Gpu& gpu : gpus)
    if (is_meant(request, gpu)) meant.push_back(&gpu);
  return meant;
}

std::size_t count_of(const GpuRequest& request, const std::vector<const Gpu*>& meant) {
  return request.all ? std::max<std::size_t>(meant.size(), 1) : request.count;
}

// Advances `places` to the next combination of indices below `size`, in lexicographic order. Returns false
// after the last combination.
bool next_choice(std::vector<std::size_t>& places, std::size_t size) {
  for (std::size_t i = places.size(); i-- > 0;) {
    if (places[i] + places.size() - i == size) continue;
    std::iota(places.begin() + static_cast<std::ptrdiff_t>(i), places.end(), places[i] + 1);
    return true;
  }
  return false;
}

}  // namespace

bool is_meant(const GpuRequest& request, const Gpu& gpu) {
  const auto is_it = [&](const std::string& id) { return is_called(gpu, id); };
  return (request.ids.empty() || std::ranges::any_of(request.ids, is_it)) && request.memory <= gpu.memory &&
         contains_any_case(gpu.kind, request.kind);
}

std::optional<std::vector<std::string>> choose(const GpuRequest& request, std::span<const Gpu> gpus,
                                               const std::vector<std::string>& free, const GpuRequest& spared,
                                               const Suits& suits) {
  std::vector<const Gpu*> meant = all_meant(request, gpus);
  const std::size_t count = count_of(request, meant);
  std::erase_if(meant, [&](const Gpu* gpu) { return !is_in(free, *gpu); });
  if (meant.size() < count) return std::nullopt;
  std::ranges::stable_sort(meant, {},
                           [&](const Gpu* gpu) { return std::pair(is_meant(spared, *gpu), gpu->memory); });
  std::vector<std::size_t> places(count);
  std::iota(places.begin(), places.end(), 0);
  do {
    std::vector<std::string> ids;
    ids.reserve(count);
    for (const std::size_t place : places) ids.push_back(meant[place]->id);
    if (!suits || suits(ids)) return ids;
  } while (next_choice(places, meant.size()));
  return std::nullopt;
}

// Bipartite matching by augmenting paths: a seeker (a requested GPU) may move earlier seekers to other GPUs.
bool can_match(const std::vector<const GpuRequest*>& requests, std::span<const Gpu> gpus,
               const std::vector<std::string>& free) {
  std::vector<const GpuRequest*> seekers;  // one element for each requested GPU
  for (const GpuRequest* request : requests) {
    const std::size_t count = request->empty() ? 0 : count_of(*request, all_meant(*request, gpus));
    if (count + seekers.size() > free.size()) return false;
    seekers.insert(seekers.end(), count, request);
  }
  std::vector<std::optional<std::size_t>> holders(gpus.size());
  std::vector<bool> asked;
  const auto finds = [&](const auto& self, std::size_t seeker) -> bool {
    for (std::size_t place = 0; place < gpus.size(); ++place) {
      if (asked[place] || !is_meant(*seekers[seeker], gpus[place]) || !is_in(free, gpus[place])) continue;
      asked[place] = true;
      if (holders[place] && !self(self, *holders[place])) continue;
      holders[place] = seeker;
      return true;
    }
    return false;
  };
  for (std::size_t seeker = 0; seeker < seekers.size(); ++seeker) {
    asked.assign(gpus.size(), false);
    if (!finds(finds, seeker)) return false;
  }
  return true;
}

std::string gpus_text(std::span<const Gpu> gpus) {
  if (gpus.empty()) return "no GPU: the engine reports none, and combu's config.json lists none";
  std::vector<std::string> texts;
  for (const Gpu& gpu : gpus)
    texts.push_back(fmt::format("{}: {}, {}", gpu.id, gpu.kind.empty() ? "of unknown kind" : gpu.kind,
                                gpu.memory.count > 0 ? to_string(gpu.memory) : "memory unknown"));
  return fmt::format("{} GPU{} ({})", gpus.size(), gpus.size() == 1 ? "" : "s", fmt::join(texts, "; "));
}

}  // namespace combu::schedule
