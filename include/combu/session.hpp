#pragma once
// The invocation, the session with an engine, and the selection of runs and trials. Every use case starts
// from these.

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

// From the best to the worst.
enum class Result {
  succeeded,
  failed,       // a trial was unsuccessful, or an operation was refused or failed
  invalid,      // the file or an option is wrong
  no_engine,    // no engine answers, or the server that answers is not an engine
  interrupted,  // a signal interrupted the use case
};

[[nodiscard]] Result result_of(ErrorKind kind);
// Returns the worst result of all errors; succeeded if there are none.
[[nodiscard]] Result result_of(const std::vector<Error>& errors);

// ---- The invocation: the options that all commands share

// The kind of engine that --engine names.
enum class NamedEngine {
  none,
  real,           // a real engine, by its address
  simulated,      // a simulated engine, with its options
  any_simulated,  // the simulated engine without options: means a recorded run's, whatever its options are
};

struct Invocation {
  std::vector<std::string> arguments;  // the command line; the first one is the program's name
  std::string file;                    // as given; "-": standard input; empty: none
  bool must_be_regular = false;        // the file must be a regular file, since the caller did not name it
  std::vector<std::string> ext_str;
  std::vector<std::string> ext_code;
  std::vector<std::string> tla_str;
  std::vector<std::string> tla_code;
  std::vector<std::string> import_dirs;
  std::string evaluate_memory = "4GiB";
  std::string evaluate_time = "10m";
  std::string progress = "auto";
  std::string engine;  // empty: DOCKER_HOST, else Docker's context, else its default socket
  NamedEngine named_engine = NamedEngine::none;  // the kind that `engine` names
  std::string trace;                             // the path of a file; empty: no trace
  // Returns the errors in the sections of an experiment that are meant for one kind of engine. Checks the
  // sections of all kinds that the program knows.
  std::function<std::vector<Error>(const Experiment&)> check_sections;
};

// Parse an option's value. Throw Error(invalid) with the option as subject.
[[nodiscard]] Seconds duration_option(std::string_view option, const std::string& text);
[[nodiscard]] Cpus cpus_option(std::string_view option, const std::string& text);
[[nodiscard]] Bytes bytes_option(std::string_view option, const std::string& text);

// Returns `invocation` with an experiment's file. If it has none, uses experiment.jsonnet, else
// docker/experiment.jsonnet, of the current folder. If neither exists, the file stays empty.
[[nodiscard]] Invocation with_default_file(Invocation invocation);
// Returns `invocation` with the file that a command's argument names; an empty argument names none. Throws
// Error(invalid) if the invocation already has a file.
[[nodiscard]] Invocation with_file(Invocation invocation, const std::string& file);

// ---- The session with an engine

// The names of an engine's address.
struct EngineName {
  std::string address;      // canonical, as in the record
  std::string given = {};   // the value of --engine; empty if it was not given
  std::string source = {};  // the option or variable that named the address: "--engine", "DOCKER_HOST"; empty
                            // for the simulated engine
};

class Session {
 public:
  // `progress` and `engine` must outlive the session. `stop`: set by a signal.
  Session(Progress& progress, Engine& engine, EngineName name, std::stop_token stop)
      : progress_(progress), engine_(engine), name_(std::move(name)), stop_(std::move(stop)) {}

  // The objects that the constructor got.
  [[nodiscard]] Progress& progress() { return progress_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] std::stop_token stop() const { return stop_; }
  [[nodiscard]] const std::string& engine_source() const { return name_.source; }
  [[nodiscard]] const std::string& given_engine() const { return name_.given; }
  [[nodiscard]] const std::string& engine_address() const { return name_.address; }
  // Returns the engine with retries, for use cases that have already reached it. Notes at most one retry in
  // five seconds.
  [[nodiscard]] std::unique_ptr<Engine> patient_engine();

 private:
  Progress& progress_;
  Engine& engine_;
  EngineName name_;
  std::stop_token stop_;
};

// Opens a session with the invocation's engine; at most one session is open at a time. `cli` passes this
// function to the use cases, since `cli` knows the kinds of engines. Throws Error if --engine or --trace is
// wrong.
using OpenSession = std::function<std::shared_ptr<Session>(const Invocation& invocation)>;

// ---- Calls that may get no answer

// A stop token for calls to an engine that may not answer. The token is set when `stop` is set, or when
// `patience` has passed.
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

// Returns the caller (folder, user), also if the invocation names no file.
[[nodiscard]] Caller caller_for(const Invocation& invocation);

// Opens the invocation's record. Throws Error.
[[nodiscard]] Record open_record(const Invocation& invocation, Record::Use use = Record::Use::all);
// Prints a note on `progress` each time a call of the record waits for another process that writes.
// `progress` must outlive the record.
void note_waits(Record& record, Progress& progress);

// Returns the run of this id. If the id is empty, returns the last run of the invocation's file, or of the
// default file. Throws Error(not_found).
[[nodiscard]] RunEntry find_run(Record& record, const Invocation& invocation, const std::string& id);

// Like find_run(). If the id is empty, prefers the newest run of the file that has an owner.
[[nodiscard]] RunEntry find_owned_run(Record& record, const Invocation& given, const std::string& id);

// Returns the error (not_found) that no process drives the run. `engine`: as for command_line().
[[nodiscard]] Error no_owner(const RunEntry& entry, std::string_view engine);

// The advice if every run that a command could mean is on the simulated engine.
inline constexpr std::string_view k_only_simulated =
    "the record has only runs on the simulated engine; `--engine simulated:` selects the last one";

// True if --engine names the simulated engine. Only then does "the last run" mean a run on the simulated
// engine.
[[nodiscard]] bool means_simulated(const Invocation& invocation);

// Returns `invocation` with the engine on which the run began, unless --engine names another one.
[[nodiscard]] Invocation on_its_engine(Invocation invocation, const RunEntry& entry);

// Calls `ask` with a session on the run's engine. If `ask` throws Error(cancelled), ask_engine() returns
// normally, so that the caller continues without the answer after a signal.
void ask_engine(const OpenSession& open_session, const Invocation& invocation, const RunEntry& entry,
                const std::function<void(Session&)>& ask);

// Throws Error(conflict) if the session's engine is not the run's: the run's containers would seem to be
// gone.
void expect_its_engine(const Session& session, const RunEntry& entry);

// True if the end of any trial makes the run fail. Then `run --wait` exits with 1.
[[nodiscard]] bool any_unsuccessful(const Experiment& experiment, const std::vector<RestoredTrial>& restored);

// True if any trial is neither over nor running, so that a process has to drive the run.
[[nodiscard]] bool any_left(const TrialCounts& counts);

// Returns the number of trials in each state: "3 waiting, 12 succeeded".
[[nodiscard]] std::string counts_of(const std::vector<RestoredTrial>& restored);

// Returns the trial of this name. Throws Error(not_found).
[[nodiscard]] TrialIndex find_trial(const Experiment& experiment, const std::string& name);

// ---- Trials by name: a name, or a pattern of names as in fnmatch(3) (`solver-a-*`)

// True if `name` is a pattern. Names of trials contain no pattern characters.
[[nodiscard]] bool is_pattern(std::string_view name);

// True if `name` is the trial's name, or a pattern that matches it.
[[nodiscard]] bool names_trial(const std::string& name, const std::string& trial);

// True if any of `names` names the trial, or if `names` is empty.
[[nodiscard]] bool is_chosen(const std::vector<std::string>& names, const std::string& trial);

// Removes the names that name the trial. If the caller does this for every trial, the names that match no
// trial remain.
void drop_matching(std::vector<std::string>& names, const std::string& trial);

// Throws Error(not_found) that lists `unmatched`, unless it is empty. `whose`: "run r1".
void expect_all_matched(const std::vector<std::string>& unmatched, const std::string& whose);

// ---- Runs and trials on an engine, found by labels: combu does not evaluate the file, which may be missing

struct SelectionOptions {
  std::string experiment;
  std::string run;
  std::vector<std::string> trials;  // names and patterns of names, see "Trials by name" above
};
// Returns `invocation` with the default file if it names no file and the options name neither an experiment
// nor a trial.
[[nodiscard]] Invocation for_selection(const Invocation& invocation, const SelectionOptions& options);

// Returns a filter for the runs that the options mean: the run of --run, else the runs of --experiment or of
// the file. Runs on the simulated engine match only if --engine names that engine. Where one run is needed,
// the newest match is meant.
[[nodiscard]] RunFilter filter_of(const Invocation& invocation, const SelectionOptions& options);

// True if `name` names trials of the last run that the options mean, and that run skipped all of them.
// Skipped trials have no container.
[[nodiscard]] bool was_skipped(const std::string& name, const Invocation& invocation,
                               const SelectionOptions& options);

// Call it if the trials that `name` names have no container on the engine. Returns an error with their states
// in the last run that the options mean, or nullopt if that run has no such trial.
[[nodiscard]] std::optional<Error> without_container(const std::string& name, const Invocation& invocation,
                                                     const SelectionOptions& options);

// Returns Error(invalid): several experiments have a trial of the name `trial`.
[[nodiscard]] Error of_several_experiments(const std::string& trial,
                                           const std::set<std::string>& experiments);

// For a selection without containers: throws Error(not_found) if --run names a run that is not on record
// either. Also throws Error if the record cannot be read.
void expect_run(const Invocation& invocation, const SelectionOptions& options);

// Returns a selector for all containers that were started from the file.
[[nodiscard]] Selector selector_of_file(const Invocation& invocation, const SelectionOptions& options);

// Returns one selector for each experiment that is meant: that of --experiment, else the experiments that
// were run from the file. If there are none, returns one selector for the file. Without an experiment and a
// file, returns one selector that matches everything.
[[nodiscard]] std::vector<Selector> selectors_of(Session& session, const Invocation& invocation,
                                                 const SelectionOptions& options);

// Lists all attempts that the selectors match.
[[nodiscard]] std::vector<Observation> list_all(Session& session, const std::vector<Selector>& selectors,
                                                ListDetail detail);

// Returns the runs of the attempts.
[[nodiscard]] std::set<RunId> runs_of(const std::vector<Observation>& attempts);

// Returns one line that names other runs or experiments on the engine, as a hint that -f or --run may be
// wrong. Empty if there are none.
[[nodiscard]] std::string others_text(Session& session, const Invocation& invocation,
                                      const SelectionOptions& options);

// Returns `text`, followed by others_text() if that is not empty.
[[nodiscard]] std::string with_others(const std::string& text, Session& session, const Invocation& invocation,
                                      const SelectionOptions& options);

struct Chosen {
  std::vector<Observation> attempts;
  std::vector<Error> missing;  // not_found: one for each name without a container
};
// Returns the attempts of the trials that the options name, or of a whole experiment. Throws Error(invalid)
// if the options name neither, or if the trials belong to several experiments.
[[nodiscard]] Chosen choose_attempts(Session& session, const Invocation& invocation,
                                     const SelectionOptions& options);

// Like choose_attempts(), but throws the first error of `missing`.
[[nodiscard]] std::vector<Observation> chosen_attempts(Session& session, const Invocation& invocation,
                                                       const SelectionOptions& options);

// ---- Trials of an experiment

// Returns a param's value as text, for comparison in conditions. `params`: the text of a JSON object, or
// empty. `name` may be `params.NAME`, for a param whose name is also that of another field.
[[nodiscard]] std::optional<std::string> param_of(const std::string& params, std::string_view name);

// A pattern of names may contain this word for the run's id, as in an experiment file.
inline constexpr std::string_view k_run_id_word = "UUID";

// Returns the trials that one argument means. The argument is a pattern of names (`solver-a-*`,
// `solver-UUID`) or a condition on params (`lr<0.01 && mode=fast`). Throws Error(invalid) if it matches no
// trial; `subject` is the option or command.
[[nodiscard]] std::vector<TrialIndex> trials_meant(const Experiment& experiment, const RunId& run,
                                                   const std::string& wanted, std::string_view subject);

// Returns the part of an experiment that `run --only` chooses: the trials that `wanted` means and all that
// they depend on, in the file's order. Throws like trials_meant().
[[nodiscard]] Experiment only(Experiment experiment, const RunId& run, const Plan& plan,
                              const std::vector<std::string>& wanted);

}  // namespace combu
