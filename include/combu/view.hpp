#pragma once
// What a person, or a program beside combu, sees: progress on one stream, tables and JSON lines on the other.

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/plan.hpp"
#include "combu/record.hpp"
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
class Progress : public Observer {
 public:
  // The phase before a run: "evaluating", "checking". Replaced by the next one.
  virtual void phase(std::string_view text) = 0;
  virtual void preparation(const Preparation& preparation) = 0;
  // `count` of `total` done, for kill and stop.
  virtual void counted(std::string_view verb, std::size_t count, std::size_t total) = 0;
  // A line that stays: a container that made room, a folder that was made, an engine that is away.
  virtual void note(std::string_view line) = 0;
  virtual void error(std::string_view line) = 0;
  // The run whose facts and snapshots follow; it outlives this.
  virtual void begin(const Run& run) = 0;
  // Removes the block, so that other output can follow. Called by the destructor, and safe from a signal's
  // thread.
  virtual void end() = 0;
};
// Asks the environment for NO_COLOR and TERM: call it while the program has one thread.
[[nodiscard]] std::unique_ptr<Progress> make_progress(ProgressForm form, std::FILE* stream);

// The same lines as json has, each with its line end, and its event's name.
[[nodiscard]] std::unique_ptr<Progress> make_json_progress(
    std::function<void(std::string_view event, std::string_view line)> write);

// Waves and counts of a plan, for people; long waves are shortened to fit a screen.
void print_plan(std::ostream& out, const Experiment& experiment, const Plan& plan);
// The same, whole, as one JSON object: {"experiment", "file", "trials", "edges", "images":
// [{"image","trials"}], "networks": […], "waves": [[name, …], …], "needs": {name: [{"trial", "condition"}]}}.
void print_plan_json(std::ostream& out, const Experiment& experiment, const Plan& plan);

// A table with aligned columns: EXPERIMENT RUN TRIAL STATE IMAGE. Sorted by experiment, run, trial (numbers
// in names by value).
void print_sightings(std::ostream& out, std::span<const Sighting> sightings);
// One JSON object a line:
// {"experiment","run","trial","attempt","state","health","exit_code","image","id","created_at"}.
void print_sightings_json(std::ostream& out, std::span<const Sighting> sightings);

// A run, and how many of its trials are in which state.
struct RunRow {
  RunEntry entry;
  std::string state;  // "running", "left running", "interrupted", "ended"; "not on record"
  TrialCounts counts{};
};
// A table: RUN EXPERIMENT BEGAN ENDED STATE TRIALS ENGINE; times are local.
void print_runs(std::ostream& out, std::span<const RunRow> runs);
// One JSON object a line.
void print_runs_json(std::ostream& out, std::span<const RunRow> runs);
// "3 waiting, 12 succeeded"
[[nodiscard]] std::string counts_text(const TrialCounts& counts);

// A trial by the record, and by the engine where that knows more.
struct TrialRow {
  TrialEntry entry;
  Health health = Health::none;
  Instant created_at{};  // the epoch when not told
};
// What the run is (its state and counts where it has a state), and a table: TRIAL STATE ATTEMPT RAN REASON.
// `now`: until when those have run that run.
void print_trials(std::ostream& out, const RunRow& run, std::span<const TrialRow> trials, Instant now);
// One JSON object a line.
void print_trials_json(std::ostream& out, const RunRow& run, std::span<const TrialRow> trials, Instant now);

// "2026-01-31 12:00:00.250 solver-a-1 #1 running", in local time; and the same as a JSON object: {"time",
// "trial", "attempt", "state", "exit_code", "cause", "reason"}.
[[nodiscard]] std::string event_line(const EventEntry& event);
[[nodiscard]] std::string event_json(const EventEntry& event);

// The last lines of a run on `progress`: counts, what could not be started or failed and why (at most 20,
// then a number), and what to type next.
// `engine`: as for command_line().
void print_outcome(Progress& progress, const Run& run, const Outcome& outcome, Until until,
                   std::string_view engine);

// "2026-01-31 12:00:00", in local time; and for programs "2026-01-31T12:00:00.250Z".
[[nodiscard]] std::string local_time(Instant instant);
[[nodiscard]] std::string rfc3339(Instant instant);

// As one word of a POSIX shell: quoted where it has to be.
[[nodiscard]] std::string shell_word(std::string_view text);

// What a person types for `command` ("kill") of this experiment: "combu -f FILE kill", or "combu kill
// --experiment NAME" of one that was read from standard input. `engine`: the address that was given by
// --engine, empty when there was none.
[[nodiscard]] std::string command_line(const Experiment& experiment, std::string_view command,
                                       std::string_view engine);

// What a person types to go on with the run. `engine`: as for command_line().
[[nodiscard]] std::string resume_line(const RunId& run, std::string_view engine);

}  // namespace combu
