#pragma once
// Shows recorded trials with all data about them. Reconciles the run first if a shown trial runs
// (app/reconcile.hpp).

#include <functional>
#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "combu/session.hpp"

namespace combu {

enum class ShowWhat {
  trials,  // all data about each trial
  source,  // the run's file, as recorded
  // the recorded diff from the commit to the working tree that contains the file
  diff,
  evaluated,     // the run's evaluated experiment, see evaluated_again()
  reproduction,  // see reproduction()
};

struct ShowOptions {
  std::string run;                  // the run's id; empty: the last run of the file
  std::vector<std::string> trials;  // names and patterns of names
  ShowWhat what = ShowWhat::trials;
  // Returns the address of the engine that combu uses without --engine. Throws Error.
  std::function<std::string()> default_engine;
  // show() calls this function for each trial, in the experiment's order. The trial is valid only during the
  // call.
  std::function<void(const ShownTrial&)> on_trial;
  // show() passes the recorded file or diff to this function: content that does not come from combu itself.
  std::function<void(const std::string&)> on_file;
  // show() calls this function with text that combu itself has generated.
  std::function<void(const std::string&)> on_text;
};

// Shows the data that the options choose. If a chosen trial runs, first opens a session to ingest its new
// logs. Throws Error(not_found) if the run or a trial is not on record; the other trials are shown first.
void show(const Invocation& invocation, const ShowOptions& options, const OpenSession& open_session);

}  // namespace combu
