#include <map>
#include <utility>

#include "combu/run.hpp"

namespace combu {

namespace {

bool is_over(const Observation& observation) {
  return observation.phase == Phase::ended || observation.phase == Phase::gone;
}

// The attempts to wait for, and the newest observation of each.
class Awaited {
 public:
  Awaited(std::vector<Observation> observations, bool with_services,
          const std::function<void(const Observation&)>& on_end)
      : on_end_(on_end) {
    for (Observation& observation : observations) {
      // Services count only if the selector names trials.
      if (observation.service && !with_services) continue;
      Key key = observation.key;
      const auto at = last_.emplace(std::move(key), std::move(observation)).first;
      if (is_over(at->second)) on_end_(at->second);
      if (is_alive(at->second)) ++alive_;
    }
  }

  void see(const Observation& observation) {
    const auto at = last_.find(observation.key);
    if (at == last_.end() || is_over(at->second) || observation.phase == Phase::created) return;
    if (observation.id != at->second.id) return;  // a late observation of an earlier container
    if (at->second.phase == Phase::created) ++alive_;
    at->second = observation;
    if (!is_over(observation)) return;
    --alive_;
    on_end_(observation);
  }

  // Handles a complete listing: an attempt that the listing lacks no longer exists on the engine.
  void see_all(const std::vector<Observation>& listing) {
    std::map<Key, const Observation*> listed;
    for (const Observation& observation : listing) listed.emplace(observation.key, &observation);
    for (auto& [key, observation] : last_) {
      const auto at = listed.find(key);
      if (at != listed.end()) {
        see(*at->second);
      } else if (!is_over(observation)) {
        Observation gone = observation;
        gone.phase = Phase::gone;
        see(gone);
      }
    }
  }

  [[nodiscard]] bool none_is_alive() const { return alive_ == 0; }

  // Reports the attempts that were never started, and returns the last observations.
  [[nodiscard]] std::vector<Observation> finish() const {
    std::vector<Observation> observations;
    observations.reserve(last_.size());
    for (const auto& [key, observation] : last_) {
      if (observation.phase == Phase::created) on_end_(observation);
      observations.push_back(observation);
    }
    return observations;
  }

 private:
  const std::function<void(const Observation&)>& on_end_;
  std::map<Key, Observation> last_;
  std::size_t alive_ = 0;
};

}  // namespace

std::vector<Observation> await_end(Engine& engine, const Selector& selector,
                                   const std::function<void(const Observation&)>& on_end,
                                   std::stop_token stop) {
  Awaited awaited(engine.list(selector, ListDetail::consistent, stop), !selector.trials.empty(), on_end);
  if (awaited.none_is_alive()) return awaited.finish();
  std::stop_source enough;
  const std::stop_callback on_stop(stop, [&enough] { enough.request_stop(); });
  engine.watch(
      selector,
      [&](const Change& change) {
        if (const auto* observation = std::get_if<Observation>(&change)) {
          awaited.see(*observation);
        } else {
          awaited.see_all(engine.list(selector, ListDetail::consistent, stop));
        }
        if (awaited.none_is_alive()) enough.request_stop();
      },
      enough.get_token());
  if (!awaited.none_is_alive()) throw Error(ErrorKind::cancelled, "", "interrupted while waiting");
  return awaited.finish();
}

}  // namespace combu
