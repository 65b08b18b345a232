#pragma once
// What runs on record have left in numbers, for the commands that show, compare and hand it on. Reconciles:
// of a run that no process is at work on it puts on record what has ended (app/reconcile.hpp), and keeps what
// trials have written since.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/reconcile.hpp"
#include "app/runs.hpp"
#include "combu/analysis.hpp"
#include "combu/progress.hpp"
#include "combu/telemetry.hpp"

namespace combu {

// What it gives is good for as long as it lives.
class RunResults {
 public:
  RunResults(const Invocation& invocation, OpenSession open_session);

  // Of the run of this id, or, when it is empty, of the last one of the invocation's file. What the engine
  // has of it is taken in first. Throws Error.
  [[nodiscard]] Results read(const std::string& id);
  // Of each, which are different ones; of none given the last one of the file.
  [[nodiscard]] std::vector<Results> read(const std::vector<std::string>& ids);
  // The same of the trials that choose() keeps.
  [[nodiscard]] Results read_where(const std::string& id, const std::string& where, Progress& progress);
  [[nodiscard]] std::vector<Results> read_where(const std::vector<std::string>& ids, const std::string& where,
                                                Progress& progress);
  [[nodiscard]] Record& record() { return record_; }

 private:
  void reconcile(const RunEntry& entry);
  // nullptr when the run has told nothing.
  [[nodiscard]] Telemetry* telemetry(const RunId& run);

  const Invocation& invocation_;
  OpenSession open_session_;
  std::string folder_;
  Record record_;
  std::map<RunId, std::unique_ptr<Telemetry>> telemetries_;
};

// Takes in what the trials of the run (these; empty: all) have written since it was done last, and, where
// nobody is at work on it, what has ended. That it cannot be had is told.
void refresh_from_engine(const Invocation& invocation, const OpenSession& open_session, Record& record,
                         const RunEntry& entry, const TrialNames& trials = {});

// What the lists name, each "a,b", given to `option`. Throws Error(invalid) for an empty name, or one that is
// named twice.
[[nodiscard]] std::vector<std::string> names_in(const std::vector<std::string>& lists,
                                                std::string_view option);

// Of a name in a condition that no trial has a value of: what is said of it.
[[nodiscard]] std::string valueless_text(const Results& results, const std::string& name);

// Keeps the trials of which the condition is so; an empty one is so of all. Says which names in it no trial
// has a value of.
void choose(Results& results, const std::string& where, Progress& progress);

}  // namespace combu
