#pragma once
// The invocation, the session with an engine, and the selection of runs and trials: each use case begins with
// these.

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

// ---- How a use case ended

// From the best to the worst.
enum class Result {
  succeeded,
  failed,       // a trial was unsuccessful, or something was refused or could not be done
  invalid,      // the file or an option is wrong
  no_engine,    // no engine answers, or what answers is none
  interrupted,  // by a signal
};

[[nodiscard]] Result result_of(ErrorKind kind);
// The worst of several; succeeded if there are none.
[[nodiscard]] Result result_of(const std::vector<Error>& errors);

// ---- The invocation: what stands before or after any command

// The kind of engine that --engine names.
enum class NamedEngine {
  none,
  real,           // by its address
  simulated,      // with its options
  any_simulated,  // without options: of a run on record, whatever options it has
};

struct Invocation {
  std::vector<std::string> arguments;  // the command line, the program's name first
  std::string file;                    // as it was given; "-" is standard input, empty: none
  bool must_be_regular = false;        // the file: the caller has not named it
  std::vector<std::string> ext_str;
  std::vector<std::string> ext_code;
  std::vector<std::string> tla_str;
  std::vector<std::string> tla_code;
  std::vector<std::string> import_dirs;
  std::string evaluate_memory = "4GiB";
  std::string evaluate_time = "10m";
  std::string progress = "auto";
  std::string engine;                            // empty: DOCKER_HOST, Docker's context, its default socket
  NamedEngine named_engine = NamedEngine::none;  // by `engine`
  std::string trace;                             // a file, empty: none
  // Returns the faults in the sections of an experiment that are for one kind of engine, of all kinds that
  // the program knows.
  std::function<std::vector<Error>(const Experiment&)> check_sections;
};

// An option's value. Throw Error(invalid) with the option as subject.
[[nodiscard]] Seconds duration_option(std::string_view option, const std::string& text);
[[nodiscard]] Cpus cpus_option(std::string_view option, const std::string& text);
[[nodiscard]] Bytes bytes_option(std::string_view option, const std::string& text);

// `invocation` with an experiment's file: where it has none, experiment.jsonnet, else
// docker/experiment.jsonnet, of the current folder. Without one if neither is there.
[[nodiscard]] Invocation with_default_file(Invocation invocation);
// `invocation` with the file that a command's argument names; an empty one names none. Throws Error(invalid)
// if it has a file already.
[[nodiscard]] Invocation with_file(Invocation invocation, const std::string& file);

// ---- The session with an engine

// The names of an engine's address.
struct EngineName {
  std::string address;     // canonical, as runs have it on record
  std::string given = {};  // what --engine said; empty if it was not given
  std::string source =
      {};  // who named the address: "--engine", "DOCKER_HOST"; empty for the simulated engine
};

class Session {
 public:
  // `progress` and `engine` outlive it. `stop`: set by a signal.
  Session(Progress& progress, Engine& engine, EngineName name, std::stop_token stop)
      : progress_(progress), engine_(engine), name_(std::move(name)), stop_(std::move(stop)) {}

  [[nodiscard]] Progress& progress() { return progress_; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] std::stop_token stop() const { return stop_; }
  [[nodiscard]] const std::string& engine_source() const { return name_.source; }
  [[nodiscard]] const std::string& given_engine() const { return name_.given; }
  [[nodiscard]] const std::string& engine_address() const { return name_.address; }
  // The engine with retries, for use cases that have already reached it. Notes at most one retry in five
  // seconds.
  [[nodiscard]] std::unique_ptr<Engine> patient_engine();

 private:
  Progress& progress_;
  Engine& engine_;
  EngineName name_;
  std::stop_token stop_;
};

// Opens a session with the invocation's engine; one at a time. `cli` passes it to the use cases, since it
// knows the kinds of engines. Throws Error if --engine or --trace is wrong.
using OpenSession = std::function<std::shared_ptr<Session>(const Invocation& invocation)>;

// ---- Calls that may not be answered

// A stop token for calls to an engine that may not answer: it is set when `stop` is, or when `patience` has
// passed.
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

// Who calls, also where no file is named.
[[nodiscard]] Caller caller_for(const Invocation& invocation);

// The invocation's record. Throws Error.
[[nodiscard]] Record open_record(const Invocation& invocation, Record::Use use = Record::Use::all);
// Notes on `progress` each time that a call of the record waits for another process that writes. `progress`
// outlives the record.
void note_waits(Record& record, Progress& progress);

// The run of this id, or, when it is empty, the last one of the invocation's file or the default one. Throws
// Error(not_found).
[[nodiscard]] RunEntry find_run(Record& record, const Invocation& invocation, const std::string& id);

// The same, but when the id is empty the newest one of the file that somebody is at work on, else its last
// one.
[[nodiscard]] RunEntry find_owned_run(Record& record, const Invocation& given, const std::string& id);

// not_found: nobody is at work on it. `engine`: as for command_line().
[[nodiscard]] Error no_owner(const RunEntry& entry, std::string_view engine);

// What to do if all runs that would be meant are on the simulated engine.
inline constexpr std::string_view k_only_simulated =
    "only runs on the simulated engine are on record; `--engine simulated:` chooses the last one";

// True if --engine names the simulated engine. Only then "the last run" is one on it.
[[nodiscard]] bool means_simulated(const Invocation& invocation);

// The same on the engine that the run was begun on, unless --engine names one.
[[nodiscard]] Invocation on_its_engine(Invocation invocation, const RunEntry& entry);

// Calls `ask` with a session on the engine of a run. Error(cancelled) ends `ask` only: after a signal the
// caller goes on without the answer.
void ask_engine(const OpenSession& open_session, const Invocation& invocation, const RunEntry& entry,
                const std::function<void(Session&)>& ask);

// Throws Error(conflict) when the session's engine is another one: what runs elsewhere would seem to be gone.
void expect_its_engine(const Session& session, const RunEntry& entry);

// True if the run fails by one of its trials: then `run --wait` ends with 1.
[[nodiscard]] bool any_unsuccessful(const Experiment& experiment, const std::vector<RestoredTrial>& restored);

// True if trials are left that need a process to drive the run. Running trials do not.
[[nodiscard]] bool any_left(const TrialCounts& counts);

// "3 waiting, 12 succeeded"
[[nodiscard]] std::string counts_of(const std::vector<RestoredTrial>& restored);

// The trial of this name. Throws Error(not_found).
[[nodiscard]] TrialIndex find_trial(const Experiment& experiment, const std::string& name);

// ---- Trials by name: a name, or a pattern of names as in fnmatch(3) (`solver-a-*`)

// True if `name` is a pattern: a trial's name holds none of a pattern's characters.
[[nodiscard]] bool is_pattern(std::string_view name);

// True if `name` is the trial's name, or a pattern that matches it.
[[nodiscard]] bool names_trial(const std::string& name, const std::string& trial);

// True if one of `names` names the trial, or if there are no names.
[[nodiscard]] bool is_chosen(const std::vector<std::string>& names, const std::string& trial);

// Removes the names that name the trial. After a call for each trial the names are left that match none.
void drop_matching(std::vector<std::string>& names, const std::string& trial);

// Throws Error(not_found) that names all of `unmatched`, unless there are none. `whose`: "run r1".
void expect_all_matched(const std::vector<std::string>& unmatched, const std::string& whose);

// ---- Runs and trials on an engine, found by labels: the file is not evaluated, and need not be there

struct SelectionOptions {
  std::string experiment;
  std::string run;
  std::vector<std::string> trials;  // names and patterns of names, as in "Trials by name" above
};
// `invocation` with the default file if it and the options name neither a file, an experiment nor a trial.
[[nodiscard]] Invocation for_selection(const Invocation& invocation, const SelectionOptions& options);

// The runs that the options mean, of which the newest is the last one: the run of --run, else those of
// --experiment or of the file. Those on the simulated engine are meant only if --engine names it.
[[nodiscard]] RunFilter filter_of(const Invocation& invocation, const SelectionOptions& options);

// True if all trials of the last run that is meant which `name` names were skipped, and so have no container.
[[nodiscard]] bool was_skipped(const std::string& name, const Invocation& invocation,
                               const SelectionOptions& options);

// An error that says how the trials stand on record which `name` names and the engine has no container of;
// nullopt: the record has no such trial.
[[nodiscard]] std::optional<Error> without_container(const std::string& name, const Invocation& invocation,
                                                     const SelectionOptions& options);

// invalid: which of these is meant?
[[nodiscard]] Error of_several_experiments(const std::string& trial,
                                           const std::set<std::string>& experiments);

// Where there is no container of it. Throws Error: not_found when --run names one that is not on record
// either; that the record cannot be read.
void expect_run(const Invocation& invocation, const SelectionOptions& options);

// All that has been run from the file.
[[nodiscard]] Selector selector_of_file(const Invocation& invocation, const SelectionOptions& options);

// One selector for each experiment that is meant: --experiment's, or those that have been run from the file,
// or one for the file when there are none. Without either one that selects all.
[[nodiscard]] std::vector<Selector> selectors_of(Session& session, const Invocation& invocation,
                                                 const SelectionOptions& options);

// All that the selectors select.
[[nodiscard]] std::vector<Observation> list_all(Session& session, const std::vector<Selector>& selectors,
                                                ListDetail detail);

// The runs of the attempts.
[[nodiscard]] std::set<RunId> runs_of(const std::vector<Observation>& attempts);

// What else is on the engine, for the person whose -f or --run is not what they think: one line, empty when
// there is nothing.
[[nodiscard]] std::string others_text(Session& session, const Invocation& invocation,
                                      const SelectionOptions& options);

// `text`, and what else is on the engine when there is something.
[[nodiscard]] std::string with_others(const std::string& text, Session& session, const Invocation& invocation,
                                      const SelectionOptions& options);

struct Chosen {
  std::vector<Observation> attempts;
  std::vector<Error> missing;  // not_found, one for each name that names no container
};
// The attempts of the trials that are named, or of a whole experiment. Throws Error: invalid if neither is
// named, or if the trials are of several experiments.
[[nodiscard]] Chosen choose_attempts(Session& session, const Invocation& invocation,
                                     const SelectionOptions& options);

// The same, and throws the first of `missing`.
[[nodiscard]] std::vector<Observation> chosen_attempts(Session& session, const Invocation& invocation,
                                                       const SelectionOptions& options);

// ---- Trials of an experiment

// Of a JSON object's text or an empty one: what conditions compare. `name` may be `params.NAME`, for one that
// is called like something else that there are conditions on.
[[nodiscard]] std::optional<std::string> param_of(const std::string& params, std::string_view name);

// In a pattern of names the run's id, as in a file.
inline constexpr std::string_view k_run_id_word = "UUID";

// The trials of a run that one argument means: a pattern of names (`solver-a-*`, `solver-UUID`) or a
// condition on params (`lr<0.01 && mode=fast`). Throws Error(invalid) when there is none; `subject` is the
// option or command.
[[nodiscard]] std::vector<TrialIndex> trials_meant(const Experiment& experiment, const RunId& run,
                                                   const std::string& wanted, std::string_view subject);

// The part of an experiment that `run --only` means, with all that it depends on, in the file's order. Throws
// as trials_meant().
[[nodiscard]] Experiment only(Experiment experiment, const RunId& run, const Plan& plan,
                              const std::vector<std::string>& wanted);

}  // namespace combu
