#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "combu/plan.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {

struct Loaded {
  Run run;
  Plan plan;
  Caller caller;
  FileText text;  // for the record, like the next ones; empty of a run that is on it
  std::vector<std::string> arguments;
  GitRevision revision;
  Seconds evaluated_in{0};  // read and planned, too
};

// Evaluates, reads and plans the invocation's file, or the default one. Prints each error in it on
// `progress`, as "FILE: PATH: what is wrong"; then it returns nothing. Without an error it prints each
// warning as a note. Throws Error(invalid) for options that make no sense. Forks: call it before there are
// threads.
[[nodiscard]] std::optional<Loaded> load(const Invocation& given, const RunId& run, Progress& progress);

// The same without a progress: throws the first error in the file. `slow` is called once if the evaluation
// takes more than a second.
[[nodiscard]] Loaded load_or_throw(const Invocation& invocation, const RunId& run,
                                   const std::function<void()>& slow);

// The same from what is on record, of the trials that are there, without evaluating anything. An image that
// the engine has is not pulled again. An `env_file` may be missing by now: see expect_env_files().
// `texts`: which text a trial has that was unsuccessful and has changed since.
enum class Texts { as_ran, newest };
[[nodiscard]] Loaded load(Record& record, const RunId& run, Texts texts = Texts::as_ran);

// For who starts trials: throws Error(invalid) when one that may still be started from where it stands, or is
// to be started once more, lacks an `env_file`.
void expect_env_files(const Experiment& experiment, std::span<const RestoredTrial> restored,
                      std::span<const TrialIndex> again = {});

// What will not be started, or is not to be once more, needs its inputs no more: they may be gone by now.
void forget_inputs(Experiment& experiment, std::span<const RestoredTrial> restored,
                   std::span<const TrialIndex> again = {});

// Throws Error(invalid) if the file, which the person calls `name`, is of another experiment than the run.
void expect_its_experiment(const Loaded& file, const RunEntry& entry, const std::string& name);

// As many trials may fail as if the run had begun when it was reopened.
void forgive(Experiment& experiment, const RunEntry& entry);

// Of a trial that is not in its run's file any more only its name and its past count.
void leave_out(Trial& trial);

}  // namespace combu
