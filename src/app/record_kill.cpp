#include "app/record_kill.hpp"

#include <utility>

namespace combu {
namespace {

constexpr int k_tries_max = 5;

}  // namespace

// Tries again if another process changed the run between the reading and the writing of the record.
void record_kill(Record& record, const RunId& run, const std::vector<std::string>& kept) {
  for (int tries = 0; tries < k_tries_max; ++tries) {
    const Record::Stamp stamp = record.stamp(run);
    std::vector<TrialEntry> trials;
    record.trials(run, "", Detail::state, [&]() -> TrialEntry& { return trials.emplace_back(); });
    std::vector<std::string> names;
    names.reserve(trials.size());
    for (TrialEntry& trial : trials) names.push_back(std::move(trial.name));
    const std::vector<RestoredTrial> restored = record.restored_trials(run);
    const std::vector<Fact> facts = facts_of_kill(run, names, restored, kept, real_clock().now());
    const auto ends = are_all_over(restored, facts) ? Record::RunEnds::with_last_trial : Record::RunEnds::no;
    if (record.append_if_unchanged(run, facts, stamp, ends)) return;
  }
  throw Error(ErrorKind::conflict, "run " + run.text(), "another process drives the run");
}

}  // namespace combu
