#include <map>
#include <utility>

#include "combu/run.hpp"

namespace combu {

namespace {

bool is_over(const Sighting& sighting) {
  return sighting.phase == Phase::ended || sighting.phase == Phase::gone;
}

// The attempts that are waited for, and the newest of what was told of each.
class Awaited {
 public:
  Awaited(std::vector<Sighting> sightings, bool with_services,
          const std::function<void(const Sighting&)>& tell)
      : tell_(tell) {
    for (Sighting& sighting : sightings) {
      if (sighting.service && !with_services) continue;  // nobody waits for one that was not named
      Key key = sighting.key;
      const auto at = last_.emplace(std::move(key), std::move(sighting)).first;
      if (is_over(at->second)) tell_(at->second);
      if (at->second.phase == Phase::running) ++running_;
    }
  }

  void see(const Sighting& sighting) {
    const auto at = last_.find(sighting.key);
    if (at == last_.end() || is_over(at->second) || sighting.phase == Phase::created) return;
    if (sighting.id != at->second.id) return;  // told late, of a container before this one
    if (at->second.phase == Phase::created) ++running_;
    at->second = sighting;
    if (!is_over(sighting)) return;
    --running_;
    tell_(sighting);
  }

  // What a complete listing does not hold is gone.
  void see_all(const std::vector<Sighting>& listing) {
    std::map<Key, const Sighting*> listed;
    for (const Sighting& sighting : listing) listed.emplace(sighting.key, &sighting);
    for (auto& [key, sighting] : last_) {
      const auto at = listed.find(key);
      if (at != listed.end()) {
        see(*at->second);
      } else if (!is_over(sighting)) {
        Sighting gone = sighting;
        gone.phase = Phase::gone;
        see(gone);
      }
    }
  }

  // What has not been started has no end to wait for.
  [[nodiscard]] bool none_runs() const { return running_ == 0; }

  // Tells of those that were never started.
  [[nodiscard]] std::vector<Sighting> finish() const {
    std::vector<Sighting> sightings;
    sightings.reserve(last_.size());
    for (const auto& [key, sighting] : last_) {
      if (sighting.phase == Phase::created) tell_(sighting);
      sightings.push_back(sighting);
    }
    return sightings;
  }

 private:
  const std::function<void(const Sighting&)>& tell_;
  std::map<Key, Sighting> last_;
  std::size_t running_ = 0;
};

}  // namespace

std::vector<Sighting> await_end(Engine& engine, const Selector& selector,
                                const std::function<void(const Sighting&)>& tell, std::stop_token stop) {
  Awaited awaited(engine.list(selector, Look::closely, stop), !selector.trials.empty(), tell);
  if (awaited.none_runs()) return awaited.finish();
  std::stop_source enough;
  const std::stop_callback on_stop(stop, [&enough] { enough.request_stop(); });
  engine.watch(
      selector,
      [&](const Change& change) {
        if (const auto* sighting = std::get_if<Sighting>(&change)) {
          awaited.see(*sighting);
        } else {
          awaited.see_all(engine.list(selector, Look::closely, stop));
        }
        if (awaited.none_runs()) enough.request_stop();
      },
      enough.get_token());
  if (!awaited.none_runs()) throw Error(ErrorKind::cancelled, "", "interrupted while waiting");
  return awaited.finish();
}

}  // namespace combu
