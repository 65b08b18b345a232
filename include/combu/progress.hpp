#pragma once
// Progress of a command while it works, on standard error: for a person, or as JSON for another program.

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
// Accepts "auto", "tty", "plain", "json" and "quiet". Throws Error(invalid) for other texts.
[[nodiscard]] ProgressForm parse_progress_form(std::string_view text);

// Shows the progress of one command on stderr. Methods may be called from several threads.
//  tty:   a block of lines that is repainted at most ten times a second and fits the terminal;
//         permanent lines (failures, notes) scroll above the block
//  plain: permanent lines, and a line with counts every few seconds while something changes
//  json:  one JSON object a line: {"time": …, "event": …, …}
//  quiet: errors only
class Progress : public ProgressListener {
 public:
  // Sets the phase before a run: "evaluating", "checking". It replaces the previous phase.
  virtual void phase(std::string_view text) = 0;
  virtual void preparation(const Preparation& preparation) = 0;
  // Used by kill and stop: `count` of `total` are done.
  virtual void counted(std::string_view verb, std::size_t count, std::size_t total) = 0;
  // Prints a permanent line, for example if a folder was made or the engine is unreachable.
  virtual void note(std::string_view line) = 0;
  void remark(const std::string& line) final { note(line); }
  virtual void error(std::string_view line) = 0;
  // Must be called before facts and snapshots of the run. `run` must outlive this object.
  virtual void begin(const Run& run) = 0;
  // Removes the block, so that other output can follow. The destructor calls it. May also be called from the
  // thread that handles signals.
  virtual void end() = 0;
};
// Reads NO_COLOR and TERM from the environment, so it must be called while the program has only one thread.
[[nodiscard]] std::unique_ptr<Progress> make_progress(ProgressForm form, std::FILE* stream);

// Calls `write` with the name of each event and its line in the json form, including the line end. Lines of
// facts have the additional member `end`, with the parts of the reason.
[[nodiscard]] std::unique_ptr<Progress> make_json_progress(
    std::function<void(std::string_view event, std::string_view line)> write);

// A trial that failed, was stopped or was blocked.
struct Failure {
  std::string_view trial;
  TrialState state = TrialState::failed;
  std::string reason;     // reason_text_beside() with the last line of the log
  std::string kind = {};  // the reason without numbers of attempts; empty: same as `reason`
  Stopper stopper = Stopper::none;
  std::string_view root = {};  // of a blocked trial: the first trial in the chain of causes
};
struct FailureGroup {
  TrialState state = TrialState::failed;
  std::string reason;
  Stopper stopper = Stopper::none;
  std::vector<std::string_view> trials;
};
// Groups equal failures, regardless of the number of attempts, and trials that are blocked by the same root.
// Groups are in the order of their first failures; groups of blocked trials come last.
[[nodiscard]] std::vector<FailureGroup> group_failures(std::span<const Failure> failures);
// Returns "5 trials (forest-s[0-4])", or the name of a single trial.
[[nodiscard]] std::string trials_text(std::span<const std::string_view> trials);
// Returns "failed: 5 trials (forest-s[0-4]): exit code 1: ValueError: x"
[[nodiscard]] std::string group_line(const FailureGroup& group);
// Describes the failure of a trial's last attempt. `last_line`: last line of its log.
[[nodiscard]] Failure failure_of(std::string_view trial, TrialState state, const std::string& reason,
                                 const EndDetails& details, int attempt, std::optional<int> exit_code,
                                 std::string_view last_line);
template <class End>
[[nodiscard]] Failure failure_of(std::string_view trial, const End& end, std::string_view last_line) {
  return failure_of(trial, end.state, end.reason, end.details, end.attempt, end.exit_code, last_line);
}
// Returns the group's reason as it is printed without the state before it.
[[nodiscard]] std::string reason_of(const FailureGroup& group);
// Returns the reason with the last line of the log: "exit code 1: ValueError: x", "exit code 127: command not
// found: pyhton".
[[nodiscard]] std::string with_last_line(std::string_view reason, std::optional<int> exit_code,
                                         std::string_view last_line);
// Returns the last line of `text` that is not blank, cleaned for a terminal and cut to 200 columns; "" if
// there is none.
[[nodiscard]] std::string last_line_of(std::string_view text);

// Returns the last line of a trial's log; "" if there is none or it is unknown.
using LastLine = std::function<std::string(const std::string& trial, int attempt)>;

struct OutcomeForm {
  Until until = Until::started;
  std::string_view engine = {};  // as for command_line()
  bool keeps_containers = true;  // false: no container outlives the program (Facts::is_simulated)
  LastLine last_line = {};
};
// Prints the last lines of a run. These are at most 20 groups of equal failures, the number of further
// failures, the counts, and commands that the user may need next.
void print_outcome(Progress& progress, const Run& run, const Outcome& outcome, const OutcomeForm& form);

// Returns the shell command that applies `command` ("kill") to this experiment: "combu -f FILE kill", or
// "combu kill --experiment NAME" if the experiment was read from standard input. `engine`: the address given
// by --engine; empty if not given.
[[nodiscard]] std::string command_line(const Experiment& experiment, std::string_view command,
                                       std::string_view engine);

// Returns the shell command that resumes the run. `engine` is as for command_line().
[[nodiscard]] std::string resume_line(const RunId& run, std::string_view engine);

}  // namespace combu
