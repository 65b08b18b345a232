#include "schedule/ready.hpp"

#include <numeric>
#include <random>
#include <utility>

namespace combu::schedule {
namespace {

// Fisher-Yates shuffle. std::shuffle is not used because its result differs between standard libraries, and a
// seed must give the same order everywhere.
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

void ReadyLines::push(TrialIndex trial, const Slots& slots, std::size_t limit) {
  const Trial& it = experiment_.trials[trial];
  const auto [at, is_new] =
      line_of_.try_emplace({slots.cpus, slots.memory, *it.gpus, it.service, limit}, lines_.size());
  if (is_new)
    lines_.push_back(
        {.slots = slots, .gpus = *it.gpus, .service = it.service, .limit = limit, .positions = {}});
  Line& line = lines_[at->second];
  const Position position = position_of(trial);
  const bool is_first = line.positions.empty() || position.is_before(line.positions.top());
  if (is_first && !line.positions.empty()) order_.erase({line.positions.top(), at->second});
  line.positions.push(position);
  if (is_first) order_.insert({position, at->second});
}

ReadyLines::Position ReadyLines::position_of(TrialIndex trial) const {
  return {.priority = experiment_.trials[trial].priority,
          .rank = ranks_.empty() ? trial : ranks_[trial],
          .trial = trial};
}

ReadyLines::Cursor ReadyLines::drop_head(Cursor cursor) {
  const Position head = cursor->first;
  (void)pop(lines_[cursor->second]);
  return order_.lower_bound({head, 0});
}

TrialIndex ReadyLines::pop(Line& line) {
  const auto number = static_cast<std::size_t>(&line - lines_.data());
  const Position head = line.positions.top();
  line.positions.pop();
  order_.erase({head, number});
  if (!line.positions.empty()) order_.insert({line.positions.top(), number});
  return head.trial;
}

}  // namespace combu::schedule
