#include "cli/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/results.hpp"
#include "cli/run_lock.hpp"
#include "combu/cache.hpp"
#include "combu/inputs.hpp"
#include "combu/telemetry.hpp"

namespace combu {
namespace {

// Of equal trials the outputs of some may have been removed.
constexpr std::size_t k_looked_at_max = 8;

// What is asked of a server at the same time.
constexpr std::size_t k_asked_at_once = 16;

// Tells others what has been done, beside the run. What they are not told they do themselves.
class Marking {
 public:
  Marking(const Loaded& loaded, Markers& markers) : loaded_(loaded), markers_(markers) {}
  // Waits until all is told, or nobody listens.
  ~Marking() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  Marking(const Marking&) = delete;
  Marking& operator=(const Marking&) = delete;

  void add(const std::string& trial) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(trial);
    if (!thread_.joinable()) thread_ = std::jthread([this] { work(); });
    changed_.notify_all();
  }

 private:
  void work() {
    const std::string results = results_folder(loaded_.run);
    try {
      Record record(state_folder(loaded_.caller), Record::Use::reading);
      for (int failures = 0; failures < k_failures_max;) {
        const auto trial = next();
        if (!trial) return;
        const auto known = record.known(loaded_.run.id, *trial);
        if (!known || known->hash.empty()) continue;
        failures = put(known->hash, fmt::format("{}/{}", results, *trial)) ? 0 : failures + 1;
      }
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): nobody is told any more, see above
    }
  }

  [[nodiscard]] bool put(const std::string& hash, const std::string& place) {
    try {
      markers_.put(hash, place, {});
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  std::optional<std::string> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
    if (waiting_.empty()) return std::nullopt;
    std::string trial = std::move(waiting_.front());
    waiting_.pop_front();
    return trial;
  }

  static constexpr int k_failures_max = 3;  // one after the other: then nobody listens

  const Loaded& loaded_;
  Markers& markers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> waiting_;
  bool ended_ = false;
  std::jthread thread_;  // last: it ends before what it uses goes
};

class RecordMemory final : public Memory {
 public:
  RecordMemory(const Loaded& loaded, Digests digests, Depot& depot, Recall recall)
      : loaded_(loaded), digests_(std::move(digests)), depot_(depot), recall_(recall) {
    const std::string& home = loaded.run.experiment.collect.to;
    const bool any_cache =
        std::ranges::any_of(loaded.run.experiment.trials, [](const Trial& trial) { return trial.cache.on; });
    if (!any_cache || !home.starts_with("s3://")) return;
    markers_ = open_s3_markers(home, loaded.caller);
    marking_.emplace(loaded, *markers_);
  }

  std::vector<Recollection> recall(const std::vector<TrialIndex>& trials,
                                   const std::stop_token& stop) override {
    std::vector<Recollection> found(trials.size());
    std::vector<std::vector<DoneEntry>> done(trials.size());
    for (std::size_t i = 0; i < trials.size(); ++i) {
      if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "cache", "interrupted");
      found[i].trial = trials[i];
      try {
        name_by_content(found[i], stop);
        if (recall_ == Recall::done && !found[i].hash.empty())
          done[i] = record().done(found[i].hash, k_looked_at_max);
      } catch (const std::exception&) {
        found[i] = {.trial = trials[i]};  // it is as if it had not been done
      }
    }
    std::vector<std::string> places(trials.size());
    std::atomic<bool> is_away = false;
    in_parallel(trials.size(), markers_ ? k_asked_at_once : 1, [&](std::size_t i) {
      if (recall_ == Recall::none || found[i].hash.empty() || is_away) return;
      try {
        places[i] = find_equal(found[i], done[i], stop);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::cancelled) throw;
        if (error.kind() == ErrorKind::unavailable) is_away = true;
      }
    });
    share(found, places);
    return found;
  }

  void done(TrialIndex trial) override {
    if (marking_ && !trial_of(trial).outputs.empty()) marking_->add(trial_of(trial).name);
  }

 private:
  [[nodiscard]] const Trial& trial_of(TrialIndex trial) const { return loaded_.run.experiment.trials[trial]; }

  void share(std::vector<Recollection>& found, const std::vector<std::string>& places) {
    std::vector<Sharing> wanted;
    std::vector<std::size_t> whose;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].empty()) continue;
      wanted.push_back({.trial = trial_of(found[i].trial).name, .from = places[i]});
      whose.push_back(i);
    }
    if (wanted.empty()) return;
    const std::vector<std::string> faults = depot_.share(wanted);
    for (std::size_t i = 0; i < faults.size(); ++i) {
      if (faults[i].empty()) continue;
      found[whose[i]].run.clear();
      found[whose[i]].name.clear();
    }
  }

  // What it is known by.
  void name_by_content(Recollection& of, const std::stop_token& stop) {
    const Trial& trial = trial_of(of.trial);
    const std::string digest = digest_of(of.trial);
    if (digest.empty()) return;
    of.inputs = digests_of(trial, stop);
    CacheKey key = cache_key(trial, loaded_.run.id, digest, of.inputs);
    of.hash = std::move(key.hash);
    of.parts = std::move(key.parts);
  }

  // Names the one that is equal; gives the place of what that has left, where it has any.
  std::string find_equal(Recollection& of, const std::vector<DoneEntry>& done, const std::stop_token& stop) {
    const bool has_outputs = !trial_of(of.trial).outputs.empty();
    const bool has_metrics = static_cast<bool>(trial_of(of.trial).metrics);
    for (const DoneEntry& one : done) {
      if (has_outputs && !depot_.is_whole(one.place)) continue;
      if (has_metrics && !Telemetry::exists(state_folder(loaded_.caller), one.run)) continue;
      of.run = one.run.text();
      of.name = one.trial;
      return has_outputs ? one.place : "";
    }
    if (!has_outputs || !markers_) return "";
    const auto place = markers_->find(of.hash, stop);
    if (!place) return "";
    const std::filesystem::path path(*place);
    of.name = path.filename();
    of.run = path.parent_path().filename();
    return *place;
  }

  // What is in a bucket is asked for at once, and comes here only where its lists do not tell enough.
  std::vector<std::string> digests_of(const Trial& trial, const std::stop_token& stop) {
    std::vector<std::string> digests(trial.inputs.size());
    in_parallel(trial.inputs.size(), markers_ ? k_asked_at_once : 1, [&](std::size_t i) {
      const Input& input = trial.inputs[i];
      if (const auto found = inputs_.find({input.trial, input.from}); found != inputs_.end()) {
        digests[i] = found->second;
      } else if (!input.trial.empty()) {
        digests[i] = depot_.digest(input.trial, input.from, stop).value_or("");
      }
    });
    for (std::size_t i = 0; i < digests.size(); ++i) {
      if (digests[i].empty()) digests[i] = digest_here(trial.inputs[i], stop);
      inputs_.try_emplace({trial.inputs[i].trial, trial.inputs[i].from}, digests[i]);
    }
    return digests;
  }

  std::string digest_here(const Input& input, const std::stop_token& stop) {
    Trial trial{.inputs = {input}};
    find_inputs(trial, [&](const std::string& left_by, const std::string& path) {
      return depot_.fetch(left_by, path, stop);
    });
    return content_digest(trial.inputs.front().from, stop);
  }

  std::string digest_of(TrialIndex trial) {
    const auto found = digests_.find({trial_of(trial).image, trial_of(trial).platform});
    if (found != digests_.end()) return found->second;
    if (recorded_.empty())
      for (TrialEntry& entry : record().trials(loaded_.run.id)) recorded_.push_back(std::move(entry.digest));
    return trial < recorded_.size() ? recorded_[trial] : "";
  }

  Record& record() {
    if (!record_) record_.emplace(state_folder(loaded_.caller), Record::Use::reading);
    return *record_;
  }

  const Loaded& loaded_;
  Digests digests_;
  Depot& depot_;
  Recall recall_;
  std::optional<Record> record_;
  std::vector<std::string> recorded_;  // digests, by trial
  std::unique_ptr<Markers> markers_;   // where others see what has been done
  std::optional<Marking> marking_;
  std::map<std::pair<std::string, std::string>, std::string> inputs_;  // digests, by trial and path
};

}  // namespace

std::unique_ptr<Memory> open_memory(const Loaded& loaded, Digests digests, Depot& depot, Recall recall) {
  return std::make_unique<RecordMemory>(loaded, std::move(digests), depot, recall);
}

}  // namespace combu
