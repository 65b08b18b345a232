#pragma once
// A record in its own folder, a run of three trials, and facts for this run.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "combu/record.hpp"
#include "error_of.hpp"
#include "record_folder.hpp"

namespace combu::test {

class RecordTest : public testing::Test {
 protected:
  RecordTest() { run.experiment = experiment({"one", "two", "three"}); }
  void TearDown() override { expect_one_state(); }

  // Expects that all functions of Record return the same state for a trial.
  void expect_one_state() {
    if (!Record::exists(folder.path())) return;
    Record record(folder.path(), Record::Use::reading);
    for (const RunEntry& entry : record.runs({}, 100)) {
      const std::vector<TrialEntry> trials = record.trials(entry.id);
      const std::vector<RestoredTrial> restored = record.restored_trials(entry.id);
      TrialCounts counts{};
      ASSERT_EQ(restored.size(), trials.size());
      for (std::size_t i = 0; i < trials.size(); ++i) {
        EXPECT_EQ(restored[i].state, trials[i].state) << trials[i].name;
        EXPECT_EQ(restored[i].attempt, trials[i].attempt) << trials[i].name;
        EXPECT_EQ(reason_text(restored[i]), reason_text(trials[i])) << trials[i].name;
        ++counts.at(static_cast<std::size_t>(trials[i].state));
      }
      EXPECT_EQ(record.counts(entry.id), counts);
    }
  }

  static Experiment experiment(const std::vector<std::string>& names) {
    Experiment experiment{.name = "lab", .file = "/lab/experiment.jsonnet"};
    for (const std::string& name : names) {
      Trial trial;
      trial.name = name;
      experiment.trials.push_back(std::move(trial));
    }
    return experiment;
  }

  [[nodiscard]] std::string path() const { return folder.path() + "/record.sqlite"; }

  [[nodiscard]] std::string bytes() const {
    std::ostringstream text;
    text << std::ifstream(path(), std::ios::binary).rdbuf();
    return text.str();
  }

  void write(const std::string& text) const {
    std::filesystem::create_directories(folder.path());
    std::ofstream(path(), std::ios::binary) << text;
  }

  static Fact fact(TrialIndex trial, TrialState state, int attempt = 1) {
    Fact fact{.trial = trial, .state = state, .attempt = attempt};
    fact.at = Instant(std::chrono::seconds(1'800'000'000 + attempt));
    return fact;
  }

  static Fact failure(TrialIndex trial, TrialState state, int attempt, Cause cause, int exit_code) {
    Fact one = fact(trial, state, attempt);
    one.cause = cause;
    one.exit_code = exit_code;
    one.reason = "exit code " + std::to_string(exit_code);
    return one;
  }

  // Writes the same facts as `combu kill`. The containers of the trials `kept` are not removed.
  void kill(Record& record, Instant at, const std::vector<std::string>& kept = {}) const {
    std::vector<std::string> names;
    for (const TrialEntry& trial : record.trials(run.id)) names.push_back(trial.name);
    const auto stamp = record.stamp(run.id);
    const std::vector<RestoredTrial> restored = record.restored_trials(run.id);
    const std::vector<Fact> facts = facts_of_kill(run.id, names, restored, kept, at);
    const auto ends = are_all_over(restored, facts) ? Record::RunEnds::with_last_trial : Record::RunEnds::no;
    EXPECT_TRUE(record.append_if_unchanged(run.id, facts, stamp, ends));
  }

  Folder folder{"combu-record"};
  combu::Run run{.id = RunId("run1"), .experiment = {}};
};

}  // namespace combu::test
