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
      // What was never started has no end to wait for, and nobody waits for a service that was not named.
      if (sighting.phase == Phase::created || (sighting.service && !with_services)) continue;
      Key key = sighting.key;
      const bool over = is_over(sighting);
      const auto at = last_.emplace(std::move(key), std::move(sighting)).first;
      if (over) {
        tell_(at->second);
      } else {
        ++open_;
      }
    }
  }

  void see(const Sighting& sighting) {
    const auto at = last_.find(sighting.key);
    if (at == last_.end() || is_over(at->second)) return;
    at->second = sighting;
    if (!is_over(sighting)) return;
    --open_;
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

  [[nodiscard]] bool all_over() const { return open_ == 0; }

  [[nodiscard]] std::vector<Sighting> last() const {
    std::vector<Sighting> sightings;
    sightings.reserve(last_.size());
    for (const auto& [key, sighting] : last_) sightings.push_back(sighting);
    return sightings;
  }

 private:
  const std::function<void(const Sighting&)>& tell_;
  std::map<Key, Sighting> last_;
  std::size_t open_ = 0;
};

}  // namespace

std::vector<Sighting> await_end(Engine& engine, const Selector& selector,
                                const std::function<void(const Sighting&)>& tell, std::stop_token stop) {
  Awaited awaited(engine.list(selector, stop), !selector.trials.empty(), tell);
  if (awaited.all_over()) return awaited.last();
  std::stop_source enough;
  const std::stop_callback on_stop(stop, [&enough] { enough.request_stop(); });
  engine.watch(
      selector,
      [&](const Change& change) {
        if (const auto* sighting = std::get_if<Sighting>(&change)) {
          awaited.see(*sighting);
        } else {
          awaited.see_all(engine.list(selector, stop));
        }
        if (awaited.all_over()) enough.request_stop();
      },
      enough.get_token());
  if (!awaited.all_over()) throw Error(ErrorKind::cancelled, "", "interrupted while waiting");
  return awaited.last();
}

}  // namespace combu
