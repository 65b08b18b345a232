#pragma once
// What a person, or a program beside combu, sees of a command while it works, on standard error.

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
// "auto", "tty", "plain", "json", "quiet". Throws Error(invalid).
[[nodiscard]] ProgressForm parse_progress_form(std::string_view text);

// Progress of one command, on stderr. Methods may be called from several threads.
//  tty:   one block, painted over at most ten times a second, never higher or wider than the terminal; lines
//  that stay
//         (failures, notes) scroll above it
//  plain: one line for each thing worth keeping, and a count every few seconds while something changes
//  json:  one JSON object a line: {"time": …, "event": …, …}
//  quiet: only what failed
class Progress : public ProgressListener {
 public:
  // The phase before a run: "evaluating", "checking". Replaced by the next one.
  virtual void phase(std::string_view text) = 0;
  virtual void preparation(const Preparation& preparation) = 0;
  // `count` of `total` done, for kill and stop.
  virtual void counted(std::string_view verb, std::size_t count, std::size_t total) = 0;
  // A line that stays: a container that made room, a folder that was made, an engine that is away.
  virtual void note(std::string_view line) = 0;
  void remark(const std::string& line) final { note(line); }
  virtual void error(std::string_view line) = 0;
  // The run whose facts and snapshots follow; it outlives this.
  virtual void begin(const Run& run) = 0;
  // Removes the block, so that other output can follow. Called by the destructor, and safe from a signal's
  // thread.
  virtual void end() = 0;
};
// Asks the environment for NO_COLOR and TERM: call it while the program has one thread.
[[nodiscard]] std::unique_ptr<Progress> make_progress(ProgressForm form, std::FILE* stream);

// The same lines as json has, each with its line end, and its event's name. A fact's line also has `end`: the
// parts of its reason.
[[nodiscard]] std::unique_ptr<Progress> make_json_progress(
    std::function<void(std::string_view event, std::string_view line)> write);

// A trial that failed, was stopped or was blocked.
struct Failure {
  std::string_view trial;
  TrialState state = TrialState::failed;
  std::string reason;     // reason_text_beside(), with the log's last line
  std::string kind = {};  // the same without the numbers of attempts; empty: as the reason
  Stopper stopper = Stopper::none;
  std::string_view root = {};  // of a blocked trial: the trial at the head of the chain of causes
};
struct FailureGroup {
  TrialState state = TrialState::failed;
  std::string reason;
  Stopper stopper = Stopper::none;
  std::vector<std::string_view> trials;
};
// Equal failures become one group, however many attempts there were, and so do trials that one root blocks.
// In the order of the first of each, blocked ones last.
[[nodiscard]] std::vector<FailureGroup> group_failures(std::span<const Failure> failures);
// "5 trials (forest-s[0-4])"; of one its name.
[[nodiscard]] std::string trials_text(std::span<const std::string_view> trials);
// "failed: 5 trials (forest-s[0-4]): exit code 1: ValueError: x"
[[nodiscard]] std::string group_line(const FailureGroup& group);
// Of a trial's last attempt. `last_line`: of its log.
[[nodiscard]] Failure failure_of(std::string_view trial, TrialState state, const std::string& reason,
                                 const EndDetails& details, int attempt, std::optional<int> exit_code,
                                 std::string_view last_line);
template <class End>
[[nodiscard]] Failure failure_of(std::string_view trial, const End& end, std::string_view last_line) {
  return failure_of(trial, end.state, end.reason, end.details, end.attempt, end.exit_code, last_line);
}
// The group's reason, where no word for the state precedes it.
[[nodiscard]] std::string reason_of(const FailureGroup& group);
// The reason and what the last line of the log adds to it: "exit code 1: ValueError: x", "exit code 127:
// command not found: pyhton".
[[nodiscard]] std::string with_last_line(std::string_view reason, std::optional<int> exit_code,
                                         std::string_view last_line);
// The last line of `text` that is not blank, for a terminal, at most 200 columns of it; empty: there is none.
[[nodiscard]] std::string last_line_of(std::string_view text);

// The last line of a trial's log; empty: it has none, or it is not known.
using LastLine = std::function<std::string(const std::string& trial, int attempt)>;

struct OutcomeForm {
  Until until = Until::started;
  std::string_view engine = {};  // as for command_line()
  bool keeps_containers = true;  // false: nothing outlives the program (Facts::is_simulated)
  LastLine last_line = {};
};
// Prints the last lines of a run on `progress`: equal failures as one line (at most 20, then a number),
// counts, and what to type next.
void print_outcome(Progress& progress, const Run& run, const Outcome& outcome, const OutcomeForm& form);

// What a person types for `command` ("kill") of this experiment: "combu -f FILE kill", or "combu kill
// --experiment NAME" of one that was read from standard input. `engine`: the address that was given by
// --engine, empty when there was none.
[[nodiscard]] std::string command_line(const Experiment& experiment, std::string_view command,
                                       std::string_view engine);

// What a person types to go on with the run. `engine`: as for command_line().
[[nodiscard]] std::string resume_line(const RunId& run, std::string_view engine);

}  // namespace combu
