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
  // The members `text`, `arguments` and `revision` are written to the record. All three are empty if the run
  // was loaded from the record.
  FileText text;
  std::vector<std::string> arguments;
  GitRevision revision;
  Seconds evaluated_in{0};  // seconds that it took to evaluate, read and plan the file
};

// Evaluates, reads and plans the invocation's file, or the default file. If the file has errors, prints each
// error with its file and path on `progress`, and returns nullopt. Otherwise prints each warning as a note.
// Throws Error(invalid) for malformed options. Forks a process, so call this function before starting
// threads.
[[nodiscard]] std::optional<Loaded> load(const Invocation& given, const RunId& run, Progress& progress);

// Like load(), but throws the first error in the file instead of printing the errors. Calls `slow` once if
// the evaluation takes more than a second.
[[nodiscard]] Loaded load_or_throw(const Invocation& invocation, const RunId& run,
                                   const std::function<void()>& slow);

// Loads a run with its trials from the record, without evaluating a file. In the trials, `pull: missing`
// replaces `pull: always`, so that an image that the engine already has is not pulled again. An `env_file`
// may be missing, see expect_env_files(). `texts` chooses the text of an unsuccessful trial that was edited
// after its last attempt: the text with which the trial ran, or the newest text.
enum class Texts { as_ran, newest };
[[nodiscard]] Loaded load(Record& record, const RunId& run, Texts texts = Texts::as_ran);

// Call this function in a process that starts trials. Throws Error(invalid) if a trial that may start lacks
// its `env_file`. A trial may start if it is in `again`, or if its restored state allows a start.
void expect_env_files(const Experiment& experiment, std::span<const RestoredTrial> restored,
                      std::span<const TrialIndex> again = {});

// Clears the inputs and secrets of trials that will not start, since their files may be missing. Trials in
// `again` keep both.
void forget_files(Experiment& experiment, std::span<const RestoredTrial> restored,
                  std::span<const TrialIndex> again = {});

// Throws Error(invalid) if the file belongs to another experiment than the run. `name`: the file's name in
// the message of the error.
void expect_its_experiment(const Loaded& file, const RunEntry& entry, const std::string& name);

// Raises the limit `failures_max` by the number of failures before the run was reopened, so that these
// failures do not count.
void forgive(Experiment& experiment, const RunEntry& entry);

// Removes the dependencies and ports of a trial that the run's file lacks. The caller needs only the name and
// the restored state of such a trial.
void leave_out(Trial& trial);

}  // namespace combu
