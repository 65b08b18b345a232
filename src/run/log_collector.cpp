#include "log_collector.hpp"

#include <chrono>
#include <utility>

namespace combu {
namespace {

constexpr int k_tries_max = 6;  // the tries are 1, 2, 4, … seconds apart

}  // namespace

std::optional<IngestLog> LogCollector::end(TrialIndex trial, int attempt) {
  if (!is_enabled_ || std::exchange(ordered_[trial], attempt) == attempt) return std::nullopt;
  ++pending_;
  storing_[trial] = attempt;
  return IngestLog{.trial = trial, .attempt = attempt};
}

bool LogCollector::holds(const Collected& event) {
  if (hold_next_.erase(event.trial) == 0 || !is_storing(event.trial)) return false;
  held_.insert_or_assign(event.trial, event);
  return true;
}

LogCollector::Stored LogCollector::stored(const LogIngested& answer, bool may_retry, Instant now) {
  IngestLog order = answer.order;
  if (!answer.fault.empty() && ++order.tries < k_tries_max && may_retry) {
    again_.emplace(now + std::chrono::seconds(1U << static_cast<unsigned>(order.tries - 1)), order);
    return {};
  }
  --pending_;
  if (answer.fault.empty()) stored_.emplace(order.trial, order.attempt);
  Stored stored{.is_final = true, .held = std::nullopt};
  const auto storing = storing_.find(order.trial);
  if (storing == storing_.end() || storing->second != order.attempt) return stored;
  storing_.erase(storing);
  stored.is_last = true;
  if (auto held = held_.extract(order.trial)) stored.held = std::move(held.mapped());
  return stored;
}

std::vector<IngestLog> LogCollector::due(Instant now) {
  std::vector<IngestLog> orders;
  while (!again_.empty() && again_.begin()->first <= now)
    orders.push_back(again_.extract(again_.begin()).mapped());
  return orders;
}

}  // namespace combu
