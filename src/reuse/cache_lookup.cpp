#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "combu/cache.hpp"
#include "combu/inputs.hpp"
#include "combu/reuse.hpp"
#include "combu/telemetry.hpp"
#include "reuse/publisher.hpp"

namespace combu {
namespace {

// Maximum number of equal trials that one lookup tries. A lookup tries several, because the outputs of some
// equal trials may have been removed.
constexpr std::size_t k_looked_at_max = 8;

// Maximum number of concurrent requests to the bucket's server.
constexpr std::size_t k_asked_at_once = 16;

// Maximum size in bytes of a trial's telemetry that combu reads in parallel with other telemetry. combu reads
// larger telemetry one trial at a time, to limit memory.
constexpr std::int64_t k_parallel_telemetry_max = 16LL << 20U;

// Maximum number of notes about objects of a bucket that combu refuses; each trial may have such an object.
constexpr int k_refusals_shown_max = 10;

class RecordCacheLookup final : public CacheLookup {
 public:
  RecordCacheLookup(ReuseContext context, Digests digests, CacheUse look_up)
      : context_(std::move(context)), digests_(std::move(digests)), cache_use_(look_up) {
    const Experiment& experiment = context_.run.experiment;
    const std::string& home = experiment.collect.to;
    if (!any_cached(experiment) || !home.starts_with("s3://")) return;
    cache_index_ = open_s3_cache_index(home, context_.caller);
    publisher_.emplace(context_, *cache_index_);
    publish_earlier();
  }

  std::vector<CacheResult> look_up(const std::vector<TrialIndex>& trials,
                                   const std::stop_token& stop) override {
    std::vector<CacheResult> found(trials.size());
    std::vector<std::vector<DoneEntry>> done(trials.size());
    for (std::size_t i = 0; i < trials.size(); ++i) {
      if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "cache", "interrupted");
      found[i].trial = trials[i];
      try {
        name_by_content(found[i], stop);
        if (cache_use_ == CacheUse::done && !found[i].hash.empty())
          done[i] = record().done(found[i].hash, k_looked_at_max);
      } catch (const std::exception&) {
        found[i] = {.trial = trials[i]};  // counts as a cache miss
      }
    }
    std::vector<Equal> equals(trials.size());
    std::atomic<bool> is_away = false;
    in_parallel(trials.size(), asked_at_once(), [&](std::size_t i) {
      if (cache_use_ == CacheUse::none || found[i].hash.empty() || is_away) return;
      try {
        equals[i] = find_equal(found[i], done[i], stop);
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::cancelled) throw;
        if (error.kind() == ErrorKind::unavailable) is_away = true;
        if (error.kind() == ErrorKind::corrupt)
          note_refused(error.what(), fmt::format("combu runs trial `{}`", trial_of(found[i].trial).name));
      }
    });
    share(found, equals);
    adopt(found, equals, stop);
    others_.clear();
    return found;
  }

  void done(TrialIndex trial) override { publish(trial_of(trial)); }

 private:
  // The stored results of an equal trial.
  struct Equal {
    std::string place;  // the folder of the equal trial's outputs; empty: no outputs
    // The run whose telemetry database has the logs of trial `telemetry_trial`.
    std::optional<RunId> telemetry_run;
    std::string telemetry_trial;
    int attempt = 0;
    std::optional<SharedCacheIndex::Mark> mark;  // set if the equal trial was found in the bucket
  };

  [[nodiscard]] const Trial& trial_of(TrialIndex trial) const {
    return context_.run.experiment.trials[trial];
  }
  [[nodiscard]] std::size_t asked_at_once() const { return cache_index_ ? k_asked_at_once : 1; }

  void publish(const Trial& trial) {
    if (publisher_ && trial.cache.on && !trial.outputs.empty()) publisher_->add(trial);
  }

  // Publishes the succeeded trials of a resumed run, because the run's earlier owner may have died before it
  // published them.
  void publish_earlier() {
    const std::vector<TrialEntry> entries = record().trials(context_.run.id);
    const std::vector<Trial>& trials = context_.run.experiment.trials;
    for (std::size_t i = 0; i < std::min(entries.size(), trials.size()); ++i)
      if (entries[i].state == TrialState::succeeded && entries[i].name == trials[i].name) publish(trials[i]);
  }

  // If the outputs of an equal trial cannot be shared, the trial is a cache miss.
  void share(std::vector<CacheResult>& found, const std::vector<Equal>& equals) {
    std::vector<Sharing> wanted;
    std::vector<std::size_t> whose;
    for (std::size_t i = 0; i < equals.size(); ++i) {
      if (equals[i].place.empty()) continue;
      wanted.push_back({.trial = trial_of(found[i].trial).name, .from = equals[i].place});
      whose.push_back(i);
    }
    if (wanted.empty()) return;
    const std::vector<std::string> faults = context_.output_store.share(wanted);
    for (std::size_t i = 0; i < faults.size(); ++i)
      if (!faults[i].empty()) forget(found[whose[i]]);
  }

  // Copies logs and metrics of equal trials. If required metrics are missing, the trial is a cache miss, and
  // its shared outputs are removed.
  void adopt(std::vector<CacheResult>& found, const std::vector<Equal>& equals, const std::stop_token& stop) {
    std::vector<char> has_data(found.size());
    if (context_.telemetry != nullptr) {
      adopt_local(found, equals, has_data);
      in_parallel(found.size(), asked_at_once(), [&](std::size_t i) {
        if (found[i].run.empty() || !equals[i].mark) return;
        has_data[i] = adopt_shared(*equals[i].mark, trial_of(found[i].trial), stop) ? 1 : 0;
      });
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Trial& trial = trial_of(found[i].trial);
      if (found[i].run.empty() || !trial.metrics || has_data[i] != 0) continue;
      forget(found[i]);
      if (!trial.outputs.empty()) (void)without_fault([&] { context_.output_store.remove(trial.name); });
    }
  }

  // Copies published telemetry. Returns false if the telemetry is missing or invalid.
  [[nodiscard]] bool adopt_shared(const SharedCacheIndex::Mark& mark, const Trial& trial,
                                  const std::stop_token& stop) {
    try {
      const auto size = cache_index_->telemetry_size(mark, stop);
      if (!size) return false;
      if (std::cmp_greater(size->count, k_packed_max))
        throw Error(ErrorKind::corrupt, mark.telemetry_at,
                    fmt::format("is larger than {}", to_string(Bytes{k_packed_max})));
      std::unique_lock one_at_a_time(large_, std::defer_lock);
      if (size->count > k_parallel_telemetry_max) one_at_a_time.lock();
      const auto telemetry = cache_index_->telemetry(mark, *size, stop);
      if (telemetry) context_.telemetry->adopt(*telemetry, trial.name, stop);
      return telemetry.has_value();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::corrupt)
        note_refused(fmt::format("{}: {}", mark.telemetry_at, error.message()),
                     trial.metrics ? fmt::format("combu runs trial `{}`", trial.name)
                                   : fmt::format("trial `{}` is skipped without a log", trial.name));
      return false;
    } catch (const std::exception&) {
      return false;
    }
  }

  // Shows a note about an object of the bucket that combu refused. Other users can write to the bucket, so
  // the bucket's objects may be invalid.
  void note_refused(std::string_view what, std::string_view then) {
    const int count = ++refused_;
    if (count <= k_refusals_shown_max) context_.progress.remark(fmt::format("{}; {}", what, then));
    if (count == k_refusals_shown_max)
      context_.progress.remark("cache: further refused objects are not shown");
  }

  // Copies telemetry from other local runs, grouped by run.
  void adopt_local(const std::vector<CacheResult>& found, const std::vector<Equal>& equals,
                   std::vector<char>& has_data) {
    std::map<RunId, std::vector<std::size_t>> kept;
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!found[i].run.empty() && equals[i].telemetry_run) kept[*equals[i].telemetry_run].push_back(i);
    for (const auto& one : kept) {
      const Telemetry* other = telemetry_in(one.first);
      if (other == nullptr) continue;
      std::vector<Adoption> wanted;
      wanted.reserve(one.second.size());
      for (const std::size_t i : one.second)
        wanted.push_back({.trial = trial_of(found[i].trial).name,
                          .from = equals[i].telemetry_trial,
                          .attempt = equals[i].attempt});
      (void)without_fault([&] {
        const std::set<std::string> adopted = context_.telemetry->adopt(*other, wanted);
        for (const std::size_t i : one.second)
          has_data[i] = adopted.contains(trial_of(found[i].trial).name) ? 1 : 0;
      });
    }
  }

  template <class Body>
  [[nodiscard]] static bool without_fault(const Body& body) {
    try {
      body();
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  static void forget(CacheResult& equal) {
    equal.run.clear();
    equal.name.clear();
  }

  // Computes the cache key of the trial.
  void name_by_content(CacheResult& of, const std::stop_token& stop) {
    const Trial& trial = trial_of(of.trial);
    const std::string digest = digest_of(of.trial);
    if (digest.empty()) return;
    of.inputs = digests_of(trial, stop);
    CacheKey key = cache_key(trial, context_.run.id, digest, of.inputs);
    of.hash = std::move(key.hash);
    of.parts = std::move(key.parts);
  }

  // Looks for an equal trial, and sets the run and name of the equal trial in `of`. Returns the stored
  // results of the equal trial.
  Equal find_equal(CacheResult& of, const std::vector<DoneEntry>& done, const std::stop_token& stop) {
    const bool has_outputs = !trial_of(of.trial).outputs.empty();
    const bool has_metrics = static_cast<bool>(trial_of(of.trial).metrics);
    for (const DoneEntry& one : done) {
      if (has_outputs && !context_.output_store.is_whole(one.place)) continue;
      const int attempt = one.attempt == 0 ? k_adopted : one.attempt;
      if (has_metrics && !has_telemetry(one, attempt)) continue;
      of.run = one.run.text();
      of.name = one.trial;
      return {.place = has_outputs ? one.place : "",
              .telemetry_run = one.telemetry_run,
              .telemetry_trial = one.telemetry_trial,
              .attempt = attempt,
              .mark = {}};
    }
    if (!has_outputs || !cache_index_) return {};
    const auto mark = cache_index_->find(of.hash, stop);
    if (!mark) return {};
    of.name = mark->trial;
    of.run = mark->run.text();
    return {.place = mark->place, .telemetry_run = {}, .telemetry_trial = {}, .attempt = 0, .mark = mark};
  }

  [[nodiscard]] bool has_telemetry(const DoneEntry& done, int attempt) {
    Telemetry* telemetry = telemetry_in(done.telemetry_run);
    if (telemetry == nullptr) return false;
    const auto log = telemetry->log(done.telemetry_trial, attempt);
    return log && log->complete;
  }

  // Returns nullptr if the run has no readable telemetry.
  Telemetry* telemetry_in(const RunId& run) {
    if (run == context_.run.id) return context_.telemetry;
    const std::scoped_lock lock(others_mutex_);
    const auto [known, is_new] = others_.try_emplace(run);
    if (is_new && Telemetry::exists(context_.state_folder, run)) {
      try {
        known->second = std::make_unique<Telemetry>(context_.state_folder, run);
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): counts as missing
      }
    }
    return known->second.get();
  }

  // Digests of outputs in a bucket are requested concurrently. Outputs are downloaded only if
  // OutputStore::digest() cannot compute the digest without a download.
  std::vector<std::string> digests_of(const Trial& trial, const std::stop_token& stop) {
    std::vector<std::string> digests(trial.inputs.size());
    in_parallel(trial.inputs.size(), asked_at_once(), [&](std::size_t i) {
      const Input& input = trial.inputs[i];
      if (const auto found = inputs_.find({input.trial, input.from}); found != inputs_.end()) {
        digests[i] = found->second;
      } else if (!input.trial.empty()) {
        digests[i] = context_.output_store.digest(input.trial, input.from, stop).value_or("");
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
    find_inputs(trial, context_.run.host_paths, [&](const std::string& left_by, const std::string& path) {
      return context_.output_store.fetch(left_by, path, stop);
    });
    return content_digest(trial.inputs.front(), stop);
  }

  std::string digest_of(TrialIndex trial) {
    const auto found = digests_.find({trial_of(trial).image, trial_of(trial).platform});
    if (found != digests_.end()) return found->second;
    if (recorded_.empty())
      for (TrialEntry& entry : record().trials(context_.run.id)) recorded_.push_back(std::move(entry.digest));
    return trial < recorded_.size() ? recorded_[trial] : "";
  }

  Record& record() {
    if (!record_) record_.emplace(context_.state_folder, Record::Use::reading);
    return *record_;
  }

  const ReuseContext context_;
  Digests digests_;
  CacheUse cache_use_;
  std::optional<Record> record_;
  std::vector<std::string> recorded_;              // image digests, by trial
  std::unique_ptr<SharedCacheIndex> cache_index_;  // published trials of all users of the bucket
  std::optional<Publisher> publisher_;
  std::mutex large_;
  std::atomic<int> refused_ = 0;
  std::mutex others_mutex_;
  std::map<RunId, std::unique_ptr<Telemetry>> others_;                 // telemetry of other runs
  std::map<std::pair<std::string, std::string>, std::string> inputs_;  // content digests, by trial and path
};

}  // namespace

bool any_cached(const Experiment& experiment) {
  return std::ranges::any_of(experiment.trials, [](const Trial& trial) { return trial.cache.on; });
}

std::unique_ptr<CacheLookup> open_cache_lookup(ReuseContext context, Digests digests, CacheUse look_up) {
  return std::make_unique<RecordCacheLookup>(std::move(context), std::move(digests), look_up);
}

}  // namespace combu
