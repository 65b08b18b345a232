#include "schedule/gpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace combu::schedule {
namespace {

bool contains_any_case(std::string_view text, std::string_view part) {
  const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  return part.empty() || std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

}  // namespace

bool is_meant(const GpuWish& wish, const Gpu& gpu) {
  const auto is_it = [&](const std::string& id) { return is_called(gpu, id); };
  return (wish.ids.empty() || std::ranges::any_of(wish.ids, is_it)) && wish.memory <= gpu.memory &&
         contains_any_case(gpu.kind, wish.kind);
}

std::optional<std::vector<std::string>> choose(const GpuWish& wish, std::span<const Gpu> gpus,
                                               const std::vector<std::string>& free, const GpuWish& spared) {
  std::vector<const Gpu*> meant;
  for (const Gpu& gpu : gpus)
    if (is_meant(wish, gpu)) meant.push_back(&gpu);
  const std::size_t count = wish.all ? std::max<std::size_t>(meant.size(), 1) : wish.count;
  std::erase_if(meant, [&](const Gpu* gpu) { return std::ranges::find(free, gpu->id) == free.end(); });
  if (meant.size() < count) return std::nullopt;
  std::ranges::stable_sort(meant, {}, [&](const Gpu* gpu) {
    return std::pair(!spared.empty() && is_meant(spared, *gpu), gpu->memory);
  });
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back(meant[i]->id);
  return ids;
}

std::string gpus_text(std::span<const Gpu> gpus) {
  if (gpus.empty()) return "no GPU that it or combu's config.json knows of";
  std::vector<std::string> texts;
  for (const Gpu& gpu : gpus)
    texts.push_back(fmt::format("{}: {}, {}", gpu.id, gpu.kind.empty() ? "of unknown kind" : gpu.kind,
                                gpu.memory.count > 0 ? to_string(gpu.memory) : "memory unknown"));
  return fmt::format("{} GPU{} ({})", gpus.size(), gpus.size() == 1 ? "" : "s", fmt::join(texts, "; "));
}

}  // namespace combu::schedule
