#include "cli/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
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

// Telemetry of others that is larger is read one after the other: together it would take much memory.
constexpr std::int64_t k_told_at_once_max = 16LL << 20U;

// Notes about objects of a bucket that are refused; there may be one for each trial.
constexpr int k_refusals_shown_max = 10;

// Tells others what has been done, beside the run. What they are not told they do themselves.
class Marking {
 public:
  Marking(Progress& progress, const Loaded& loaded, Markers& markers, Telemetry* telemetry,
          std::stop_token stop)
      : progress_(progress),
        loaded_(loaded),
        markers_(markers),
        telemetry_(telemetry),
        stop_(std::move(stop)) {}
  // Waits until all is told, or nobody listens, or it is to stop.
  ~Marking() {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    const std::size_t count = untold_ + waiting_.size();
    if (count > 0)
      progress_.note(fmt::format("others are not told that {} trial{} succeeded, and may run the like: {}",
                                 count, count == 1 ? " has" : "s have", fault_));
  }
  Marking(const Marking&) = delete;
  Marking& operator=(const Marking&) = delete;

  void add(const Trial& trial) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(&trial);
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    changed_.notify_all();
  }

 private:
  // What is to be told of one.
  struct Success {
    const Trial* trial = nullptr;
    std::string hash;
    int attempt = 0;
  };

  void work() {
    try {
      Record record(state_folder(loaded_.caller), Record::Use::reading);
      for (std::size_t failures = 0; failures < k_failures_max && !stop_.stop_requested();) {
        const std::vector<const Trial*> trials = next();
        if (trials.empty()) return;
        const std::vector<Success> successes = successes_of(record, trials);
        std::atomic<std::size_t> failed = 0;
        in_parallel(successes.size(), k_asked_at_once, [&](std::size_t i) {
          if (!put(successes[i])) ++failed;
        });
        failures = failed < successes.size() ? 0 : failures + failed;
      }
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex_);
      fault_ = error.what();
    }
    if (!stop_.stop_requested()) return;
    const std::scoped_lock lock(mutex_);
    fault_ = "interrupted";
  }

  [[nodiscard]] std::vector<Success> successes_of(Record& record,
                                                  const std::vector<const Trial*>& trials) const {
    std::vector<Success> successes;
    for (const Trial* trial : trials) {
      const auto known = record.known(loaded_.run.id, trial->name);
      const auto entries = record.trials(loaded_.run.id, trial->name);
      if (known && !known->hash.empty() && !entries.empty())
        successes.push_back({.trial = trial, .hash = known->hash, .attempt = entries.front().attempt});
    }
    return successes;
  }

  [[nodiscard]] bool put(const Success& success) {
    const Trial& trial = *success.trial;
    const auto told = [&] {
      std::string packed = telemetry_ == nullptr ? "" : telemetry_->packed(trial.name, success.attempt);
      if (packed.empty() && trial.metrics)
        throw Error(ErrorKind::not_found, trial.name, "what it has told is not kept");
      return packed;
    };
    try {
      markers_.put(success.hash, fmt::format("{}/{}", results_folder(loaded_.run), trial.name), told,
                   static_cast<bool>(trial.metrics), stop_);
      return true;
    } catch (const std::exception& error) {
      const std::scoped_lock lock(mutex_);
      ++untold_;
      fault_ = error.what();
      return false;
    }
  }

  // None: there will be no more.
  std::vector<const Trial*> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
    const auto end =
        waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), k_told_at_once));
    std::vector<const Trial*> trials(waiting_.begin(), end);
    waiting_.erase(waiting_.begin(), end);
    return trials;
  }

  static constexpr std::size_t k_failures_max = 3;  // one after the other: then nobody listens
  static constexpr std::size_t k_told_at_once = 64;

  Progress& progress_;
  const Loaded& loaded_;
  Markers& markers_;
  Telemetry* telemetry_;
  std::stop_token stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const Trial*> waiting_;
  bool ended_ = false;
  std::size_t untold_ = 0;
  std::string fault_;
  std::thread thread_;
};

class RecordMemory final : public Memory {
 public:
  RecordMemory(Session& session, const Loaded& loaded, Digests digests, Depot& depot, Telemetry* telemetry,
               Recall recall)
      : progress_(session.progress()),
        loaded_(loaded),
        digests_(std::move(digests)),
        depot_(depot),
        telemetry_(telemetry),
        recall_(recall) {
    const std::string& home = loaded.run.experiment.collect.to;
    if (!any_cached(loaded.run.experiment) || !home.starts_with("s3://")) return;
    markers_ = open_s3_markers(home, loaded.caller);
    marking_.emplace(session.progress(), loaded, *markers_, telemetry, session.stop());
    mark_earlier();
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
    std::vector<Equal> equals(trials.size());
    std::atomic<bool> is_away = false;
    in_parallel(trials.size(), asked_at_once(), [&](std::size_t i) {
      if (recall_ == Recall::none || found[i].hash.empty() || is_away) return;
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

  void done(TrialIndex trial) override { mark(trial_of(trial)); }

 private:
  // What one has left and told that is equal.
  struct Equal {
    std::string place;             // empty: it leaves nothing
    std::optional<RunId> kept_in;  // whose telemetry has what it has told, and of whom
    std::string kept_as;
    int attempt = 0;
    std::optional<Markers::Mark> mark;  // of somebody else's
  };

  [[nodiscard]] const Trial& trial_of(TrialIndex trial) const { return loaded_.run.experiment.trials[trial]; }
  [[nodiscard]] std::size_t asked_at_once() const { return markers_ ? k_asked_at_once : 1; }

  void mark(const Trial& trial) {
    if (marking_ && trial.cache.on && !trial.outputs.empty()) marking_->add(trial);
  }

  // Of a run that is taken up again: whoever had it may have died before he told.
  void mark_earlier() {
    const std::vector<TrialEntry> entries = record().trials(loaded_.run.id);
    const std::vector<Trial>& trials = loaded_.run.experiment.trials;
    for (std::size_t i = 0; i < std::min(entries.size(), trials.size()); ++i)
      if (entries[i].state == TrialState::succeeded && entries[i].name == trials[i].name) mark(trials[i]);
  }

  // Where what cannot be had is, the trial is run.
  void share(std::vector<Recollection>& found, const std::vector<Equal>& equals) {
    std::vector<Sharing> wanted;
    std::vector<std::size_t> whose;
    for (std::size_t i = 0; i < equals.size(); ++i) {
      if (equals[i].place.empty()) continue;
      wanted.push_back({.trial = trial_of(found[i].trial).name, .from = equals[i].place});
      whose.push_back(i);
    }
    if (wanted.empty()) return;
    const std::vector<std::string> faults = depot_.share(wanted);
    for (std::size_t i = 0; i < faults.size(); ++i)
      if (!faults[i].empty()) forget(found[whose[i]]);
  }

  // Where numbers cannot be had, the trial is run, and what has been shared with it is not its own.
  void adopt(std::vector<Recollection>& found, const std::vector<Equal>& equals,
             const std::stop_token& stop) {
    std::vector<char> is_told(found.size());
    if (telemetry_ != nullptr) {
      adopt_kept(found, equals, is_told);
      in_parallel(found.size(), asked_at_once(), [&](std::size_t i) {
        if (found[i].run.empty() || !equals[i].mark) return;
        is_told[i] = adopt_told(*equals[i].mark, trial_of(found[i].trial), stop) ? 1 : 0;
      });
    }
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Trial& trial = trial_of(found[i].trial);
      if (found[i].run.empty() || !trial.metrics || is_told[i] != 0) continue;
      forget(found[i]);
      if (!trial.outputs.empty()) (void)without_fault([&] { depot_.remove(trial.name); });
    }
  }

  // False: what was told cannot be had, or is refused.
  [[nodiscard]] bool adopt_told(const Markers::Mark& mark, const Trial& trial, const std::stop_token& stop) {
    try {
      const auto size = markers_->size_told(mark, stop);
      if (!size) return false;
      if (std::cmp_greater(size->count, k_packed_max))
        throw Error(ErrorKind::corrupt, mark.told_at,
                    fmt::format("is larger than {}", to_string(Bytes{k_packed_max})));
      std::unique_lock one_at_a_time(large_, std::defer_lock);
      if (size->count > k_told_at_once_max) one_at_a_time.lock();
      const auto told = markers_->told(mark, *size, stop);
      if (told) telemetry_->adopt(*told, trial.name, stop);
      return told.has_value();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::corrupt)
        note_refused(fmt::format("{}: {}", mark.told_at, error.message()),
                     trial.metrics ? fmt::format("combu runs trial `{}`", trial.name)
                                   : fmt::format("trial `{}` is skipped without a log", trial.name));
      return false;
    } catch (const std::exception&) {
      return false;
    }
  }

  // In a bucket that others can write to, somebody may have put anything.
  void note_refused(std::string_view what, std::string_view then) {
    const int count = ++refused_;
    if (count <= k_refusals_shown_max) progress_.note(fmt::format("{}; {}", what, then));
    if (count == k_refusals_shown_max) progress_.note("cache: further refused objects are not shown");
  }

  // By the runs that have it.
  void adopt_kept(const std::vector<Recollection>& found, const std::vector<Equal>& equals,
                  std::vector<char>& is_told) {
    std::map<RunId, std::vector<std::size_t>> kept;
    for (std::size_t i = 0; i < found.size(); ++i)
      if (!found[i].run.empty() && equals[i].kept_in) kept[*equals[i].kept_in].push_back(i);
    for (const auto& one : kept) {
      const Telemetry* other = telemetry_in(one.first);
      if (other == nullptr) continue;
      std::vector<Adoption> wanted;
      wanted.reserve(one.second.size());
      for (const std::size_t i : one.second)
        wanted.push_back({.trial = trial_of(found[i].trial).name,
                          .from = equals[i].kept_as,
                          .attempt = equals[i].attempt});
      (void)without_fault([&] {
        const std::set<std::string> adopted = telemetry_->adopt(*other, wanted);
        for (const std::size_t i : one.second)
          is_told[i] = adopted.contains(trial_of(found[i].trial).name) ? 1 : 0;
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

  static void forget(Recollection& equal) {
    equal.run.clear();
    equal.name.clear();
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

  // Names the one that is equal; gives what that has left and told.
  Equal find_equal(Recollection& of, const std::vector<DoneEntry>& done, const std::stop_token& stop) {
    const bool has_outputs = !trial_of(of.trial).outputs.empty();
    const bool has_metrics = static_cast<bool>(trial_of(of.trial).metrics);
    for (const DoneEntry& one : done) {
      if (has_outputs && !depot_.is_whole(one.place)) continue;
      const int attempt = one.attempt == 0 ? k_adopted : one.attempt;
      if (has_metrics && !has_told(one, attempt)) continue;
      of.run = one.run.text();
      of.name = one.trial;
      return {.place = has_outputs ? one.place : "",
              .kept_in = one.kept_in,
              .kept_as = one.kept_as,
              .attempt = attempt,
              .mark = {}};
    }
    if (!has_outputs || !markers_) return {};
    const auto mark = markers_->find(of.hash, stop);
    if (!mark) return {};
    of.name = mark->trial;
    of.run = mark->run.text();
    return {.place = mark->place, .kept_in = {}, .kept_as = {}, .attempt = 0, .mark = mark};
  }

  [[nodiscard]] bool has_told(const DoneEntry& done, int attempt) {
    Telemetry* telemetry = telemetry_in(done.kept_in);
    if (telemetry == nullptr) return false;
    const auto log = telemetry->log(done.kept_as, attempt);
    return log && log->complete;
  }

  // nullptr: there is none that can be read.
  Telemetry* telemetry_in(const RunId& run) {
    if (run == loaded_.run.id) return telemetry_;
    const std::scoped_lock lock(others_mutex_);
    const auto [known, is_new] = others_.try_emplace(run);
    if (is_new && Telemetry::exists(state_folder(loaded_.caller), run)) {
      try {
        known->second = std::make_unique<Telemetry>(state_folder(loaded_.caller), run);
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): as if it were not there
      }
    }
    return known->second.get();
  }

  // What is in a bucket is asked for at once, and comes here only where its lists do not tell enough.
  std::vector<std::string> digests_of(const Trial& trial, const std::stop_token& stop) {
    std::vector<std::string> digests(trial.inputs.size());
    in_parallel(trial.inputs.size(), asked_at_once(), [&](std::size_t i) {
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
    find_inputs(trial, loaded_.run.host_paths, [&](const std::string& left_by, const std::string& path) {
      return depot_.fetch(left_by, path, stop);
    });
    return content_digest(trial.inputs.front(), stop);
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

  Progress& progress_;
  const Loaded& loaded_;
  Digests digests_;
  Depot& depot_;
  Telemetry* telemetry_;
  Recall recall_;
  std::optional<Record> record_;
  std::vector<std::string> recorded_;  // digests, by trial
  std::unique_ptr<Markers> markers_;   // where others see what has been done
  std::optional<Marking> marking_;
  std::mutex large_;
  std::atomic<int> refused_ = 0;
  std::mutex others_mutex_;
  std::map<RunId, std::unique_ptr<Telemetry>> others_;                 // of other runs
  std::map<std::pair<std::string, std::string>, std::string> inputs_;  // digests, by trial and path
};

}  // namespace

bool any_cached(const Experiment& experiment) {
  return std::ranges::any_of(experiment.trials, [](const Trial& trial) { return trial.cache.on; });
}

std::unique_ptr<Memory> open_memory(Session& session, const Loaded& loaded, Digests digests, Depot& depot,
                                    Telemetry* telemetry, Recall recall) {
  return std::make_unique<RecordMemory>(session, loaded, std::move(digests), depot, telemetry, recall);
}

}  // namespace combu
