#pragma once
// Shows the progress of a running command on standard error, for a person or as JSON for another program.

#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "combu/engine.hpp"
#include "combu/run.hpp"

namespace combu {

enum class ProgressForm { automatic, tty, plain, json, quiet };
// Parses "auto", "tty", "plain", "json" or "quiet". Throws Error(invalid) for other texts.
[[nodiscard]] ProgressForm parse_progress_form(std::string_view text);

// Shows the progress of one command on stderr. Methods may be called from several threads.
//
// The form tty shows a block of lines that is repainted at most ten times a second and fits the terminal.
// Permanent lines (failures, notes) scroll above the block. The form plain prints permanent lines, and a line
// with counts every few seconds while something changes. The form json prints one JSON object per line:
// {"time": …, "event": …, …}. The form quiet prints only errors.
class Progress : public ProgressListener {
 public:
  // Shows what the command does before the run begins, such as "evaluating" or "checking". A new phase
  // replaces the previous phase.
  virtual void phase(std::string_view text) = 0;
  virtual void preparation(const Preparation& preparation) = 0;
  // Shows how far a command such as `combu kill` is, for example "removed 12 of 200" for the verb "removed".
  virtual void counted(std::string_view verb, std::size_t count, std::size_t total) = 0;
  // Prints a permanent line. For example, the line says that combu has made a folder, or that the engine is
  // unreachable.
  virtual void note(std::string_view line) = 0;
  void remark(const std::string& line) final { note(line); }
  virtual void error(std::string_view line) = 0;
  // begin() must be called before facts and snapshots of the run are shown. `run` must outlive the Progress.
  virtual void begin(const Run& run) = 0;
  // Removes the block of lines from the terminal, so that other output can follow. The destructor calls
  // end(). The thread that handles signals may call end(), too.
  virtual void end() = 0;
};
// make_progress() reads NO_COLOR and TERM from the environment, so it must be called while the program has
// only one thread.
[[nodiscard]] std::unique_ptr<Progress> make_progress(ProgressForm form, std::FILE* stream);

// Returns a Progress that calls `write` with the name of each event and the event's line in the form json,
// including the line end. The line of a fact also has the member `end`, with Fact::reason and Fact::details,
// unless the details are empty.
[[nodiscard]] std::unique_ptr<Progress> make_json_progress(
    std::function<void(std::string_view event, std::string_view line)> write);

// A trial that failed, was stopped or was blocked.
struct Failure {
  std::string_view trial;
  TrialState state = TrialState::failed;
  std::string reason;     // result of reason_text_beside(), followed by the last line of the log
  std::string kind = {};  // `reason` without the numbers of attempts; empty: same as `reason`
  Stopper stopper = Stopper::none;
  // set for a blocked trial: the trial whose end began the chain of blocked trials
  std::string_view root = {};
};
struct FailureGroup {
  TrialState state = TrialState::failed;
  std::string reason;
  Stopper stopper = Stopper::none;
  std::vector<std::string_view> trials;
};
// Groups failures that are equal apart from the number of attempts, and blocked trials with the same root.
// Groups are in the order of their first failures; groups of blocked trials come last.
[[nodiscard]] std::vector<FailureGroup> group_failures(std::span<const Failure> failures);
// Returns for example "5 trials (forest-s[0-4])". For a single trial, returns its name.
[[nodiscard]] std::string trials_text(std::span<const std::string_view> trials);
// Returns for example "failed: 5 trials (forest-s[0-4]): exit code 1".
[[nodiscard]] std::string group_line(const FailureGroup& group);
// Describes the failure of a trial's last attempt. `last_line` is the last line of the trial's log.
[[nodiscard]] Failure failure_of(std::string_view trial, TrialState state, const std::string& reason,
                                 const EndDetails& details, int attempt, std::optional<int> exit_code,
                                 std::string_view last_line);
template <class End>
[[nodiscard]] Failure failure_of(std::string_view trial, const End& end, std::string_view last_line) {
  return failure_of(trial, end.state, end.reason, end.details, end.attempt, end.exit_code, last_line);
}
// Returns the reason of a group, for output that does not print the state beside the reason.
[[nodiscard]] std::string reason_of(const FailureGroup& group);
// Returns the reason followed by the last line of the log, such as "exit code 127: command not found:
// pyhton".
[[nodiscard]] std::string with_last_line(std::string_view reason, std::optional<int> exit_code,
                                         std::string_view last_line);
// Returns the last line of `text` that is not blank, cleaned for a terminal and cut to 200 columns. Returns
// "" if all lines are blank.
[[nodiscard]] std::string last_line_of(std::string_view text);

// A function that returns the last line of a trial's log, or "" if the log is empty or unknown.
using LastLine = std::function<std::string(const std::string& trial, int attempt)>;

struct OutcomeForm {
  Until until = Until::started;
  std::string_view engine = {};  // as for command_line()
  // false if no container outlives combu, as on the simulated engine (Facts::is_simulated)
  bool keeps_containers = true;
  LastLine last_line = {};
};
// Prints the outcome of a run. First come at most 20 groups of equal failures, and the number of further
// failures. Then come the number of trials in each state, and commands that the user may need next.
void print_outcome(Progress& progress, const Run& run, const Outcome& outcome, const OutcomeForm& form);

// Returns the shell command that applies `command`, for example "kill", to this experiment: "combu -f FILE
// kill", or "combu kill --experiment NAME" if the experiment was read from standard input. `engine` is the
// address given by --engine, or empty if the option is not given.
[[nodiscard]] std::string command_line(const Experiment& experiment, std::string_view command,
                                       std::string_view engine);

// Returns the shell command that resumes the run. `engine` has the same meaning as for command_line().
[[nodiscard]] std::string resume_line(const RunId& run, std::string_view engine);

}  // namespace combu
