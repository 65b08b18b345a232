#pragma once
// Shows recorded trials and everything that is known about them. Reconciles the run first if a shown trial
// runs (app/reconcile.hpp).

#include <functional>
#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/session.hpp"

namespace combu {

enum class ShowWhat {
  trials,        // everything that is known about each trial
  source,        // the run's file, as recorded
  diff,          // how the file's working tree differed from its commit
  evaluated,     // the run's evaluated experiment, see evaluated_again()
  reproduction,  // see reproduction()
};

struct ShowOptions {
  std::string run;                  // the run's id; empty: the last run of the file
  std::vector<std::string> trials;  // names and patterns of names
  ShowWhat what = ShowWhat::trials;
  // Returns the address of the engine that is used if --engine names none. Throws Error.
  std::function<std::string()> default_engine;
  // Called for each trial, in the experiment's order. The trial is valid during the call.
  std::function<void(const ShownTrial&)> tell_trial;
  // Called with the bytes of a file that combu did not make.
  std::function<void(const std::string&)> tell_file;
  // Called with text that combu made.
  std::function<void(const std::string&)> tell_text;
};

// Shows what the options choose. If a trial is alive, ingests its new logs first, in a session. Throws
// Error(not_found) if the run or a trial is not on record, after the other trials have been shown.
void show(const Invocation& invocation, const ShowOptions& options, const OpenSession& open_session);

}  // namespace combu
