#pragma once
// Types and functions for every use case: the command line's options (Invocation), the connection to an
// engine (Session), and the selection of runs and trials.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/plan.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/spec.hpp"

namespace combu {

// ---- The result of a use case

// The results are ordered from the best to the worst.
enum class Result {
  succeeded,
  failed,       // a trial was unsuccessful, or an operation was refused or failed
  invalid,      // the experiment file or an option is invalid
  no_engine,    // no engine answers, or the server that answers is not an engine
  interrupted,  // a signal interrupted the use case
};

[[nodiscard]] Result result_of(ErrorKind kind);
// Returns the worst result_of() of all errors. If `errors` is empty, returns Result::succeeded.
[[nodiscard]] Result result_of(const std::vector<Error>& errors);

// ---- The invocation: the options that all commands share

// The kind of engine that --engine names.
enum class NamedEngine {
  none,
  real,           // an engine at an address
  simulated,      // the simulated engine with the options in "simulated:OPTIONS"
  any_simulated,  // "simulated:", which also matches recorded runs on a simulated engine with options
};

struct Invocation {
  std::vector<std::string> arguments;  // the command line, beginning with the program's name
  std::string file;              // the experiment file as given; "-": standard input; empty: no file is given
  bool must_be_regular = false;  // `file` must be a regular file, since the user did not name it
  std::vector<std::string> ext_str;
  std::vector<std::string> ext_code;
  std::vector<std::string> tla_str;
  std::vector<std::string> tla_code;
  std::vector<std::string> import_dirs;
  std::string evaluate_memory = "4GiB";
  std::string evaluate_time = "10m";
  std::string progress = "auto";
  // The value of --engine. If empty, combu uses the engine that DOCKER_HOST names, else the engine of
  // Docker's current context, else the engine at Docker's default socket.
  std::string engine;
  NamedEngine named_engine = NamedEngine::none;  // the kind of engine that `engine` names
  std::string trace;                             // path of the trace file; empty: no trace
  // Returns the errors in the engine-specific sections of an experiment. Checks the sections for every kind
  // of engine that the program supports.
  std::function<std::vector<Error>(const Experiment&)> check_sections;
};

// These functions parse the value of an option. If the value is malformed, the functions throw
// Error(invalid), which names the option.
[[nodiscard]] Seconds duration_option(std::string_view option, const std::string& text);
[[nodiscard]] Cpus cpus_option(std::string_view option, const std::string& text);
[[nodiscard]] Bytes bytes_option(std::string_view option, const std::string& text);

// If `invocation` names no file, sets its file to experiment.jsonnet, or else to docker/experiment.jsonnet,
// in the current folder. If neither of these two files exists, the file stays empty. Returns the invocation.
[[nodiscard]] Invocation with_default_file(Invocation invocation);
// Returns `invocation` with its file set to `file`, the argument of a command. If `file` is empty, returns
// `invocation` unchanged. Throws Error(invalid) if the invocation already has a file.
[[nodiscard]] Invocation with_file(Invocation invocation, const std::string& file);

// ---- The session with an engine

// An engine's address, and where the user gave the address.
struct EngineName {
  std::string address;      // the canonical form of the address, as in the record
  std::string given = {};   // the value of --engine; empty if --engine was not given
  std::string source = {};  // the option or variable that named the address (--engine or DOCKER_HOST); empty
                            // for the simulated engine
};

class Session {
 public:
  // `progress` and `engine` must outlive the session. `stop` requests a stop when the process receives a
  // signal.
  Session(Progress& progress, Engine& engine, EngineName name, std::stop_token stop)
      : progress_(progress), engine_(engine), name_(std::move(name)), stop_(std::move(stop)) {}

  // These functions return the arguments of the constructor.
  [[nodiscard]] Progress& progress() { return progress_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] std::stop_token stop() const { return stop_; }
  [[nodiscard]] const std::string& engine_source() const { return name_.source; }
  [[nodiscard]] const std::string& given_engine() const { return name_.given; }
  [[nodiscard]] const std::string& engine_address() const { return name_.address; }
  // Returns the engine in a decorator that repeats calls while the engine does not answer. For use cases that
  // have already reached the engine. Prints a note about repeated calls at most every five seconds.
  [[nodiscard]] std::unique_ptr<Engine> patient_engine();

 private:
  Progress& progress_;
  Engine& engine_;
  EngineName name_;
  std::stop_token stop_;
};

// Opens a session with the invocation's engine; at most one session is open at a time. The room `cli` passes
// this function to the use cases, since only `cli` knows how to create each kind of engine. Throws Error if
// --engine or --trace is wrong.
using OpenSession = std::function<std::shared_ptr<Session>(const Invocation& invocation)>;

// ---- Calls that may get no answer

// Makes a stop token for calls to an engine that may not answer. The token requests a stop when `stop` does,
// or when the duration `patience` has passed since the construction.
class Patience {
 public:
  Patience(const std::stop_token& stop, Seconds patience)
      : on_stop_(stop, [this] { source_.request_stop(); }),
        timer_([this, patience](const std::stop_token& quit) {
          real_clock().wait(patience, quit);
          if (!quit.stop_requested()) source_.request_stop();
        }) {}
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::stop_callback<std::function<void()>> on_stop_;
  std::jthread timer_;
};

// ---- Runs on record

// Returns the user and the folder of the caller. The invocation need not name a file.
[[nodiscard]] Caller caller_for(const Invocation& invocation);

// Opens the record in the caller's state folder. Throws Error.
[[nodiscard]] Record open_record(const Invocation& invocation, Record::Use use = Record::Use::all);
// Makes `record` print a note on `progress` each time a call waits because another process writes to the
// record. `progress` must outlive the record.
void note_waits(Record& record, Progress& progress);

// Returns the run with this id. If `id` is empty, returns the last run of the invocation's file. If the
// invocation names no file, uses the default file (see with_default_file()). Throws Error(not_found).
[[nodiscard]] RunEntry find_run(Record& record, const Invocation& invocation, const std::string& id);

// Returns a note with the right --engine if the last run of the invocation's file is on another engine than
// `address`. Returns an empty string if it is not, or if the record cannot be read.
[[nodiscard]] std::string note_of_other_engine(const Invocation& invocation, std::string_view address);

// Like find_run(), but if `id` is empty, prefers the file's newest run that has an owner.
[[nodiscard]] RunEntry find_owned_run(Record& record, const Invocation& given, const std::string& id);

// Returns the Error(not_found) of a command that cannot work because no process owns the run. The message
// says that the run has ended, or how to resume the run. `engine`: the address given by --engine; empty if
// not given.
[[nodiscard]] Error no_owner(const RunEntry& entry, std::string_view engine);

// The message of a command that finds only runs on the simulated engine.
inline constexpr std::string_view k_only_simulated =
    "the record has only runs on the simulated engine; `--engine simulated:` selects the last one";

// True if --engine names the simulated engine. Otherwise combu ignores runs on the simulated engine when it
// looks for "the last run".
[[nodiscard]] bool means_simulated(const Invocation& invocation);

// If --engine was not given, or was given as "simulated:" for a run on a simulated engine, sets the
// invocation's engine to the run's engine. Returns the invocation.
[[nodiscard]] Invocation on_its_engine(Invocation invocation, const RunEntry& entry);

// Calls `ask` with a session on the run's engine. If a signal makes `ask` throw Error(cancelled),
// ask_engine() returns normally, and the caller continues without the engine's answer.
void ask_engine(const OpenSession& open_session, const Invocation& invocation, const RunEntry& entry,
                const std::function<void(Session&)>& ask);

// Throws Error(conflict) if the session's engine is not the engine of the run. On another engine, the run's
// containers would seem to be gone.
void expect_its_engine(const Session& session, const RunEntry& entry);

// True if any trial ended in a way that makes the run fail, so that `run --wait` exits with 1.
[[nodiscard]] bool any_unsuccessful(const Experiment& experiment, const std::vector<RestoredTrial>& restored);

// True if any trial has neither ended nor is running: a process must drive the run to finish such trials.
[[nodiscard]] bool any_left(const TrialCounts& counts);

// Returns the number of trials in each state as text, such as "3 waiting, 12 succeeded".
[[nodiscard]] std::string counts_of(const std::vector<RestoredTrial>& restored);

// Returns the index of the trial with this name. Throws Error(not_found).
[[nodiscard]] TrialIndex find_trial(const Experiment& experiment, const std::string& name);

// ---- Trials by name: a name, or a pattern of names as in fnmatch(3) (`solver-a-*`)

// True if `name` is a pattern. Names of trials contain no pattern characters.
[[nodiscard]] bool is_pattern(std::string_view name);

// True if `name` is the trial's name, or a pattern that matches it.
[[nodiscard]] bool names_trial(const std::string& name, const std::string& trial);

// True if any of `names` is the trial's name or matches it, or if `names` is empty.
[[nodiscard]] bool is_chosen(const std::vector<std::string>& names, const std::string& trial);

// Removes from `names` every name and pattern that matches `trial`. After a call for each trial, `names`
// holds the names and patterns that match no trial.
void drop_matching(std::vector<std::string>& names, const std::string& trial);

// If `unmatched` is not empty, throws Error(not_found) with the message that these names are not trials of
// `whose`, for example of "run r1".
void expect_all_matched(const std::vector<std::string>& unmatched, const std::string& whose);

// ---- Runs and trials on an engine, found by labels: combu does not evaluate the file, which may be missing

struct SelectionOptions {
  std::string experiment;
  std::string run;
  std::vector<std::string> trials;  // names of trials, and patterns of such names
};
// If the options name neither an experiment nor a trial, returns with_default_file(invocation). Otherwise
// returns `invocation` unchanged.
[[nodiscard]] Invocation for_selection(const Invocation& invocation, const SelectionOptions& options);

// Returns a filter for the runs that the options choose: the run of --run, else the runs of --experiment,
// else the runs of the file. Without --run, runs on the simulated engine match only if --engine names that
// engine. A command that needs a single run uses the newest run that matches.
[[nodiscard]] RunFilter filter_of(const Invocation& invocation, const SelectionOptions& options);

// True if `name` matches at least one trial of the last run that the options choose, and all trials that
// `name` matches were skipped. Skipped trials have no container.
[[nodiscard]] bool was_skipped(const std::string& name, const Invocation& invocation,
                               const SelectionOptions& options);

// Returns the error for a `name` that matches no container on the engine. The error names the states of the
// matching trials in the last run that the options choose. Returns nullopt if that run has no matching trial.
[[nodiscard]] std::optional<Error> without_container(const std::string& name, const Invocation& invocation,
                                                     const SelectionOptions& options);

// Returns Error(invalid) with the message that several experiments have a trial with this name.
[[nodiscard]] Error of_several_experiments(const std::string& trial,
                                           const std::set<std::string>& experiments);

// Call this function if the selection matches no container on the engine. Throws Error(not_found) if --run
// names a run that is not on record. Also throws Error if the record cannot be read.
void expect_run(const Invocation& invocation, const SelectionOptions& options);

// Returns a selector for all containers that were started from the experiment file.
[[nodiscard]] Selector selector_of_file(const Invocation& invocation, const SelectionOptions& options);

// Returns a selector for the experiment of --experiment. Without --experiment, returns one selector for each
// experiment that has containers started from the file. If the file has no containers, returns one selector
// for the file. If neither --experiment nor a file is given, returns one selector: for the run of --run, or
// else for all containers.
[[nodiscard]] std::vector<Selector> selectors_of(Session& session, const Invocation& invocation,
                                                 const SelectionOptions& options);

// Lists all attempts that the selectors match.
[[nodiscard]] std::vector<Observation> list_all(Session& session, const std::vector<Selector>& selectors,
                                                ListDetail detail);

// Returns the ids of the runs to which the attempts belong.
[[nodiscard]] std::set<RunId> runs_of(const std::vector<Observation>& attempts);

// Returns one line that names the runs or experiments on the engine that the options do not select: a hint
// that -f or --run may be wrong. Returns an empty text if the engine has no other runs or experiments.
[[nodiscard]] std::string others_text(Session& session, const Invocation& invocation,
                                      const SelectionOptions& options);

// Returns `text`. If others_text() is not empty, appends it to `text`.
[[nodiscard]] std::string with_others(const std::string& text, Session& session, const Invocation& invocation,
                                      const SelectionOptions& options);

struct Chosen {
  std::vector<Observation> attempts;
  std::vector<Error> missing;  // one Error(not_found) for each name that matches no container
};
// Returns the attempts of the trials that the options name; if they name no trial, the attempts of all trials
// of the experiment. Throws Error(invalid) if the options name neither trials nor an experiment, or if the
// trials belong to several experiments.
[[nodiscard]] Chosen choose_attempts(Session& session, const Invocation& invocation,
                                     const SelectionOptions& options);

// Like choose_attempts(), but throws the first error of Chosen::missing.
[[nodiscard]] std::vector<Observation> chosen_attempts(Session& session, const Invocation& invocation,
                                                       const SelectionOptions& options);

// ---- Trials of an experiment

// Returns the value of the param `name` as text, which a condition can compare. `params`: the text of a JSON
// object, or empty. If a param has the same name as a field of a trial, conditions use the form
// `params.NAME`. The argument `name` may have this form, too.
[[nodiscard]] std::optional<std::string> param_of(const std::string& params, std::string_view name);

// In a pattern of trial names, combu replaces this word with the run's id, as in an experiment file.
inline constexpr std::string_view k_run_id_word = "UUID";

// Returns the trials that `wanted`, an argument of a command, chooses. `wanted` is a pattern of names, such
// as `solver-a-*` or `solver-UUID`, or a condition on params, such as `lr<0.01 && mode=fast`. If `wanted`
// matches no trial, throws Error(invalid), whose text begins with `subject` (the option or command) and
// `wanted`.
[[nodiscard]] std::vector<TrialIndex> trials_meant(const Experiment& experiment, const RunId& run,
                                                   const std::string& wanted, std::string_view subject);

// Returns the part of an experiment that `run --only` runs: the trials that `wanted` chooses and all their
// dependencies, in the file's order. Throws like trials_meant().
[[nodiscard]] Experiment only(Experiment experiment, const RunId& run, const Plan& plan,
                              const std::vector<std::string>& wanted);

}  // namespace combu
