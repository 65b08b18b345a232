#include "app/changes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "app/load.hpp"
#include "app/retry_selection.hpp"
#include "combu/session.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

bool has_begun(TrialState state) {
  return is_alive(state) || state == TrialState::collecting ||
         (is_over(state) && state != TrialState::blocked && state != TrialState::skipped);
}

TrialNameSet trial_names_in(const std::string& evaluated, const Caller& caller) {
  TrialNameSet names;
  for (const Trial& trial : read_experiment(evaluated, caller).experiment.trials) names.insert(trial.name);
  return names;
}

// True if the two trials are equal. Treats `pull: always` as `pull: missing`, as load() does for trials on
// record.
bool is_same_but_for_pull(Trial one, Trial other) {
  for (Trial* trial : {&one, &other})
    if (trial->pull == Pull::always) trial->pull = Pull::missing;
  return same(std::move(one), std::move(other));
}

class Comparison {
 public:
  Comparison(const RunId& run, const Experiment& before, const std::vector<RestoredTrial>& restored,
             const Named& named, const Experiment& file, const RestartRequest& restart)
      : run_(run), restored_(restored), named_(named), restart_(restart), is_replaced_(restored.size()) {
    for (const Trial& trial : file.trials) in_file_.emplace(trial.name, &trial);
    changes_.experiment = file;
    changes_.experiment.trials = before.trials;
  }

  Changes changes(const Experiment& file) && {
    mark_replaced();
    TrialNameSet on_record;
    for (TrialIndex trial = 0; trial < restored_.size(); ++trial) {
      on_record.insert(changes_.experiment.trials[trial].name);
      compare(trial);
    }
    add_named();
    // Add no trial that `run --only` left out: such a trial is in a recorded text of the file, but is not
    // recorded as a trial of the run.
    for (const Trial& trial : file.trials) {
      if (on_record.contains(trial.name) || named_.ever.contains(trial.name)) continue;
      changes_.experiment.trials.push_back(trial);
      ++changes_.joined;
    }
    do add_needed();
    while (changes_.errors.empty() && update_restarted());
    return std::move(changes_);
  }

 private:
  void mark_replaced() {
    for (const std::string& wanted : restart_.replace)
      for (const TrialIndex trial : trials_meant(changes_.experiment, run_, wanted, "--replace"))
        is_replaced_[trial] = true;
  }

  void compare(TrialIndex trial) {
    Trial& it = changes_.experiment.trials[trial];
    const RestoredTrial& restored = restored_[trial];
    const auto found = in_file_.find(it.name);
    if (found == in_file_.end()) {
      leave_out(it);
      if (named_.latest.contains(it.name)) ++changes_.gone;
      const bool is_ending =
          restored.state == TrialState::collecting || restored.departure == Departure::removed;
      if (!is_over(restored.state) && !is_ending) changes_.removed.push_back(trial);
      return;
    }
    const bool was_removed =
        restored.state == TrialState::stopped || restored.departure == Departure::removed;
    const bool returns = was_removed && !named_.latest.contains(it.name);
    const bool is_collecting = restored.state == TrialState::collecting;
    if ((!returns || is_collecting) && is_same_but_for_pull(it, *found->second)) return;
    // The attempt has ended, and its outputs are being collected according to the trial's recorded text, so
    // the trial keeps this text.
    if (is_collecting) return changes_.running.push_back(trial);
    const bool has_begun = combu::has_begun(restored.state) && restored.departure != Departure::replaced;
    if (returns || !has_begun || is_replaced_[trial]) {
      it = *found->second;
      changes_.updated.push_back(trial);
      if (returns || has_begun || is_over(restored.state)) started_.push_back(trial);
    } else if (ended_unsuccessfully(it, restored.state)) {
      it = *found->second;
      changes_.unsuccessful.push_back(trial);
    } else if (is_over(restored.state)) {
      changes_.succeeded.push_back(trial);
    } else {
      changes_.running.push_back(trial);
    }
  }

  void add_named() {
    for (const std::string& wanted : restart_.again) {
      for (const TrialIndex trial : trials_meant(changes_.experiment, run_, wanted, "retry")) {
        const std::string& name = changes_.experiment.trials[trial].name;
        if (restored_[trial].state == TrialState::collecting)
          throw Error(
              ErrorKind::conflict, name,
              "has ended, but its outputs are not collected yet; `run --resume` collects the outputs");
        if (is_alive(restored_[trial].state))
          throw Error(ErrorKind::conflict, name, "still runs; stop the trial first");
        changes_.named.push_back(trial);
      }
    }
  }

  // Chooses the trials that are started again: the requested trials, ended services that a chosen trial
  // needs, and trials that a chosen trial blocked.
  void add_needed() {
    Planning planning = make_plan(changes_.experiment);
    changes_.plan = std::move(planning.plan);
    changes_.errors = std::move(planning.errors);
    if (!changes_.errors.empty()) return;
    RetrySelection again(changes_.experiment, changes_.plan, restored_);
    for (const TrialIndex trial : changes_.named) again.add(trial, Needs::all);
    const auto add_if = [&](const auto& is_wanted, Needs needs) {
      for (TrialIndex trial = 0; trial < restored_.size(); ++trial)
        if (is_in_file(trial) && is_wanted(trial)) again.add(trial, needs);
    };
    if (restart_.failed)
      add_if(
          [&](TrialIndex trial) {
            return ended_unsuccessfully(changes_.experiment.trials[trial], restored_[trial].state);
          },
          Needs::all);
    changes_.retried = again.trials().size();
    if (restart_.failed)
      add_if([&](TrialIndex trial) { return restored_[trial].state == TrialState::blocked; },
             Needs::services);
    for (const TrialIndex trial : started_) again.add(trial, Needs::services);
    for (const TrialIndex trial : changes_.updated) again.add_needs_of(trial, Needs::services);
    for (std::size_t trial = restored_.size(); trial < changes_.experiment.trials.size(); ++trial)
      again.add_needs_of(static_cast<TrialIndex>(trial), Needs::services);
    again.add_blocked();
    changes_.again = again.trials();
  }

  [[nodiscard]] bool is_in_file(TrialIndex trial) const {
    return in_file_.contains(changes_.experiment.trials[trial].name);
  }

  // For each changed trial that is started again, replaces the recorded text with the text in the file.
  // Returns true if any text was replaced: the new text may name other dependencies.
  bool update_restarted() {
    const std::unordered_set<TrialIndex> again(changes_.again.begin(), changes_.again.end());
    std::size_t count = 0;
    for (std::vector<TrialIndex>* some : {&changes_.unsuccessful, &changes_.succeeded, &changes_.running})
      count += std::erase_if(*some, [&](TrialIndex trial) {
        if (!again.contains(trial)) return false;
        Trial& it = changes_.experiment.trials[trial];
        it = *in_file_.at(it.name);
        changes_.updated.push_back(trial);
        return true;
      });
    return count > 0;
  }

  const RunId& run_;
  const std::vector<RestoredTrial>& restored_;
  const Named& named_;
  const RestartRequest& restart_;
  std::vector<bool> is_replaced_;
  std::unordered_map<std::string, const Trial*> in_file_;
  std::vector<TrialIndex> started_;  // trials that are started again because their text changed
  Changes changes_;
};

std::string names_of(const Experiment& experiment, const std::vector<TrialIndex>& trials) {
  constexpr std::size_t k_names_max = 5;
  std::vector<std::string> names;
  names.reserve(trials.size());
  for (const TrialIndex trial : trials) names.push_back(experiment.trials[trial].name);
  return list_text(names, k_names_max);
}

// Prints the names of the changed trials that keep their earlier text.
void note_unchanged(Progress& progress, const RunId& run, const Changes& changes,
                    const RestartRequest& restart) {
  const auto keep = [&](const std::vector<TrialIndex>& trials, std::string_view what) {
    if (!trials.empty())
      progress.note(fmt::format("run {}: {}: {}", run.text(), what, names_of(changes.experiment, trials)));
  };
  keep(changes.running,
       "these trials changed, but still run with the earlier definition; `apply --replace` restarts these "
       "trials");
  keep(changes.succeeded,
       "these trials changed, but succeeded with the earlier definition; `apply --replace` runs these trials "
       "again");
  if (!restart.failed)
    keep(changes.unsuccessful,
         "these trials changed, but failed or were stopped with the earlier definition; "
         "`apply --failed` starts these trials again");
}

}  // namespace

Anew anew_of(const std::vector<TrialIndex>& trials, const std::vector<RestoredTrial>& restored) {
  Anew anew;
  for (const TrialIndex trial : trials)
    anew.emplace_back(trial, trial >= restored.size() || restored[trial].state != TrialState::blocked);
  return anew;
}

Named named_until_now(const RunEntry& entry, const Caller& caller) {
  Named named{.latest = trial_names_in(entry.text.evaluated, caller), .ever = {}};
  named.ever = named.latest;
  for (const std::string& earlier : entry.earlier) named.ever.merge(trial_names_in(earlier, caller));
  return named;
}

Changes compare_with_file(const RunId& run, const Experiment& before,
                          const std::vector<RestoredTrial>& restored, const Named& named,
                          const Experiment& file, const RestartRequest& restart) {
  return Comparison(run, before, restored, named, file, restart).changes(file);
}

void print_changes(Progress& progress, const RunId& run, const Changes& changes,
                   const RestartRequest& restart) {
  std::vector<std::string> parts;
  const auto add = [&](std::size_t count, std::string_view one, std::string_view many) {
    if (count > 0) parts.push_back(number_of(count, one, many));
  };
  add(changes.changed(), "trial changed", "trials changed");
  add(changes.joined, "trial is new", "trials are new");
  add(changes.gone, "trial was removed", "trials were removed");
  add(changes.retried, "trial is retried", "trials are retried");
  progress.note(fmt::format("run {}: {}", run.text(),
                            parts.empty() ? "no trial changed" : fmt::format("{}", fmt::join(parts, ", "))));
  note_unchanged(progress, run, changes, restart);
}

}  // namespace combu
