#include "schedule/ready.hpp"

#include <numeric>
#include <random>
#include <utility>

namespace combu::schedule {
namespace {

// Fisher and Yates's, by hand: the library's shuffle may differ from one library to the next, and a seed is a
// promise.
std::vector<std::uint32_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  std::mt19937_64 random(seed);
  for (std::size_t left = count; left > 1; --left) std::swap(ranks[left - 1], ranks[random() % left]);
  return ranks;
}

}  // namespace

ReadyLines::ReadyLines(const Experiment& experiment) : experiment_(experiment) {
  if (experiment.order == Order::random) ranks_ = shuffled(experiment.trials.size(), experiment.seed);
}

void ReadyLines::push(TrialIndex trial, const Slots& slots) {
  const Trial& it = experiment_.trials[trial];
  const auto [at, is_new] =
      line_of_.try_emplace({slots.cpus, slots.memory, it.gpus, it.service}, lines_.size());
  if (is_new) lines_.push_back({.slots = slots, .gpus = it.gpus, .service = it.service, .places = {}});
  lines_[at->second].places.push(
      {.priority = it.priority, .rank = ranks_.empty() ? trial : ranks_[trial], .trial = trial});
}

}  // namespace combu::schedule
