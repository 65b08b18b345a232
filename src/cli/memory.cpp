#include "cli/memory.hpp"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/results.hpp"
#include "cli/run_lock.hpp"
#include "combu/cache.hpp"
#include "combu/inputs.hpp"

namespace combu {
namespace {

// Of equal trials the outputs of some may have been removed.
constexpr std::size_t k_looked_at_max = 8;

bool is_whole(const std::string& place) {
  return std::filesystem::exists(fmt::format("{}/{}", place, k_manifest_name));
}

class RecordMemory final : public Memory {
 public:
  RecordMemory(const Loaded& loaded, Digests digests, Depot& depot, Recall recall)
      : loaded_(loaded), digests_(std::move(digests)), depot_(depot), recall_(recall) {}

  std::vector<Recollection> recall(const std::vector<TrialIndex>& trials,
                                   const std::stop_token& stop) override {
    std::vector<Recollection> found;
    found.reserve(trials.size());
    std::vector<Sharing> wanted;
    std::vector<std::size_t> sharing;  // whose they are, in `found`
    for (const TrialIndex trial : trials) {
      if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "cache", "interrupted");
      found.push_back({.trial = trial});
      try {
        if (const auto from = look_for(found.back(), stop)) {
          wanted.push_back({.trial = trial_of(trial).name, .from = *from});
          sharing.push_back(found.size() - 1);
        }
      } catch (const std::exception&) {
        found.back() = {.trial = trial};  // it is as if it had not been done
      }
    }
    if (wanted.empty()) return found;
    const std::vector<std::string> faults = depot_.share(wanted);
    for (std::size_t i = 0; i < faults.size(); ++i)
      if (!faults[i].empty()) forget_equal(found[sharing[i]]);
    return found;
  }

 private:
  [[nodiscard]] const Trial& trial_of(TrialIndex trial) const { return loaded_.run.experiment.trials[trial]; }

  static void forget_equal(Recollection& of) {
    of.run.clear();
    of.name.clear();
  }

  // What it is known by, and which one is equal; the place of that one's outputs where it has any.
  std::optional<std::string> look_for(Recollection& of, const std::stop_token& stop) {
    const Trial& trial = trial_of(of.trial);
    const std::string digest = digest_of(of.trial);
    if (digest.empty()) return std::nullopt;
    of.inputs = digests_of(trial, stop);
    CacheKey key = cache_key(trial, loaded_.run.id, digest, of.inputs);
    of.hash = std::move(key.hash);
    of.parts = std::move(key.parts);
    if (recall_ == Recall::none) return std::nullopt;
    for (const DoneEntry& done : record().done(of.hash, k_looked_at_max)) {
      if (!trial.outputs.empty() && !is_whole(done.place)) continue;
      of.run = done.run.text();
      of.name = done.trial;
      return trial.outputs.empty() ? std::nullopt : std::optional(done.place);
    }
    return std::nullopt;
  }

  std::vector<std::string> digests_of(Trial trial, const std::stop_token& stop) {
    find_inputs(loaded_.run.experiment, loaded_.run.id, trial);
    std::vector<std::string> digests;
    for (const Input& input : trial.inputs) {
      std::string& digest = inputs_[input.from];
      if (digest.empty()) digest = content_digest(input.from, stop);
      digests.push_back(digest);
    }
    return digests;
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
  std::vector<std::string> recorded_;          // digests, by trial
  std::map<std::string, std::string> inputs_;  // what is at a path, by its digest
};

}  // namespace

std::unique_ptr<Memory> open_memory(const Loaded& loaded, Digests digests, Depot& depot, Recall recall) {
  return std::make_unique<RecordMemory>(loaded, std::move(digests), depot, recall);
}

}  // namespace combu
