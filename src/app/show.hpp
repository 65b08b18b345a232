#pragma once
// Finds trials on record, and all that is known of them. Of running ones it reconciles: what has ended is put
// on record first (app/reconcile.hpp).

#include <functional>
#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/session.hpp"

namespace combu {

enum class ShowWhat {
  trials,        // all that is known of each
  source,        // the run's file as it was
  diff,          // how the file's working tree differed from its commit
  evaluated,     // the run's experiment as it was evaluated, as evaluated_again() has it
  reproduction,  // as reproduction() has it
};

struct ShowOptions {
  std::string run;                  // its id; empty: the last one of the file
  std::vector<std::string> trials;  // names and patterns of names
  ShowWhat what = ShowWhat::trials;
  // The address of the engine that is used if --engine names none. Throws Error.
  std::function<std::string()> default_engine;
  // Called for each trial, in the experiment's order. The trial is valid during the call.
  std::function<void(const ShownTrial&)> tell_trial;
  // Called with the bytes of a file that combu has not made.
  std::function<void(const std::string&)> tell_file;
  // Called with what combu has made.
  std::function<void(const std::string&)> tell_text;
};

// If a trial is alive, its new logs are ingested first, in a session. Throws Error: not_found for
// a run or a trial that is not on record, after the others have been told.
void show(const Invocation& invocation, const ShowOptions& options, const OpenSession& open_session);

}  // namespace combu
