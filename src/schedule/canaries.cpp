#include "schedule/canaries.hpp"

#include <string>
#include <unordered_map>
#include <utility>

namespace combu::schedule {

Canaries::Canaries(const Experiment& experiment, const std::function<bool(TrialIndex)>& ends) {
  if (!experiment.canary) return;
  std::unordered_map<std::string, std::uint32_t> known;
  shape_of_.reserve(experiment.trials.size());
  for (TrialIndex trial = 0; trial < experiment.trials.size(); ++trial) {
    const bool may_be = ends(trial);
    const auto next = static_cast<std::uint32_t>(shapes_.size());
    const auto [at, is_new] =
        known.try_emplace(may_be ? canary_shape(experiment.trials[trial]) : std::string(), next);
    if (is_new) shapes_.push_back({.verdict = may_be ? Verdict::unknown : Verdict::passed});
    shape_of_.push_back(at->second);
  }
}

bool Canaries::admit(TrialIndex trial) {
  if (shape_of_.empty()) return true;
  Shape& shape = shapes_[shape_of_[trial]];
  if (shape.verdict == Verdict::tried && shape.canary == trial) return true;
  if (shape.verdict == Verdict::unknown || shape.verdict == Verdict::tried) shape.kept.push_back(trial);
  return shape.verdict == Verdict::unknown || shape.verdict == Verdict::passed;
}

std::vector<TrialIndex> Canaries::started(TrialIndex trial) {
  if (shape_of_.empty()) return {};
  Shape& shape = shapes_[shape_of_[trial]];
  if (shape.verdict != Verdict::unknown) return {};
  shape.verdict = Verdict::tried;
  shape.canary = trial;
  return shape.kept;
}

std::optional<TrialIndex> Canaries::awaited_by(TrialIndex trial) const {
  if (shape_of_.empty()) return std::nullopt;
  const Shape& shape = shapes_[shape_of_[trial]];
  const bool waits = shape.verdict == Verdict::tried && shape.canary != trial;
  return waits ? std::optional(shape.canary) : std::nullopt;
}

std::optional<TrialIndex> Canaries::failed_of(TrialIndex trial) const {
  if (shape_of_.empty()) return std::nullopt;
  const Shape& shape = shapes_[shape_of_[trial]];
  return shape.verdict == Verdict::failed ? std::optional(shape.canary) : std::nullopt;
}

std::vector<TrialIndex> Canaries::pass(TrialIndex trial) {
  if (shape_of_.empty()) return {};
  Shape& shape = shapes_[shape_of_[trial]];
  if (shape.verdict == Verdict::failed) return {};
  shape.verdict = Verdict::passed;
  return std::exchange(shape.kept, {});
}

std::vector<TrialIndex> Canaries::passed(TrialIndex trial) {
  return settle(trial, Verdict::passed);
}

std::vector<TrialIndex> Canaries::failed(TrialIndex trial) {
  return settle(trial, Verdict::failed);
}

std::vector<TrialIndex> Canaries::withdrawn(TrialIndex trial) {
  return settle(trial, Verdict::unknown);
}

std::vector<TrialIndex> Canaries::settle(TrialIndex trial, Verdict verdict) {
  if (shape_of_.empty()) return {};
  Shape& shape = shapes_[shape_of_[trial]];
  if (shape.verdict != Verdict::tried || shape.canary != trial) return {};
  shape.verdict = verdict;
  return std::exchange(shape.kept, {});
}

}  // namespace combu::schedule
