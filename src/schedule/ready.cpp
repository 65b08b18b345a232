#include "schedule/ready.hpp"

#include <map>
#include <numeric>
#include <random>
#include <tuple>
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
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, std::uint32_t> known;
  line_of_.reserve(experiment.trials.size());
  for (const Trial& trial : experiment.trials) {
    const auto [at, is_new] =
        known.try_emplace({trial.slots.cpus.nano, trial.slots.memory.count, trial.service},
                          static_cast<std::uint32_t>(lines_.size()));
    if (is_new) lines_.push_back({.slots = trial.slots, .service = trial.service, .places = {}});
    line_of_.push_back(at->second);
  }
}

void ReadyLines::push(TrialIndex trial) {
  lines_[line_of_[trial]].places.push({.priority = experiment_.trials[trial].priority,
                                       .rank = ranks_.empty() ? trial : ranks_[trial],
                                       .trial = trial});
}

}  // namespace combu::schedule
