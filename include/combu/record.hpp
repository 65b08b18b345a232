#pragma once
// The record: an SQLite database of all runs and of their trials' states and attempts. Several processes
// share it.

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "combu/base.hpp"
#include "combu/outputs.hpp"
#include "combu/schedule.hpp"
#include "combu/spec.hpp"
#include "combu/workspace.hpp"

namespace combu {

// Digests of images ("sha256:…"), by reference and platform as in Trial.
using Digests = std::map<std::pair<std::string, std::string>, std::string>;

// The text of an experiment file, and its evaluation.
struct FileText {
  std::string source;     // the text of the file
  std::string evaluated;  // the evaluated file as JSON
  std::string imports;    // a JSON object from absolute path to SHA-256; empty: not known
  std::string values;     // a JSON object: the values given to the evaluation; empty: not known
};

struct RunEngine {
  std::string address;
  std::string description;    // Facts::engine
  bool is_simulated = false;  // Facts::is_simulated
};

// A run as it began. Contains everything that another process needs to continue the run later.
struct RunEntry {
  RunId id;
  std::string experiment;  // Experiment::name and ::file
  std::string file;
  std::string folder;                // Caller::folder
  FileText text;                     // empty in a list of runs, like `earlier`
  std::vector<std::string> earlier;  // evaluated JSON of the earlier versions of the file, oldest first
  std::string arguments;             // a JSON array: the command line
  std::string options;   // a JSON object: the options of `run` that also hold when the run continues
  std::string revision;  // commit of the file's folder in version control; empty: none
  bool revision_dirty = false;
  WorkingTree working_tree;  // empty in a list of runs
  RunEngine engine;
  std::string user;
  std::string machine;
  std::string program;                  // "combu 0.1.0 (libjsonnet 0.18.0)"
  std::optional<Seconds> evaluated_in;  // time to evaluate the file; nullopt: not known
  // Time before the run began for inspecting and pulling images, and for creating networks and folders;
  // nullopt: not known.
  std::optional<Seconds> prepared_in;
  Digests digests;       // of the images when the run began; empty in an entry that is read back
  Digests references;    // Preparation::digest of the images; empty in a list of runs
  std::string results;   // folder or bucket path above all outputs of the run; empty: not known
  HostPaths host_paths;  // empty in a list of runs
  Instant began_at{};
  Instant working_since{};            // began_at, or the time of reopening; the deadline counts from here
  std::size_t failures_forgiven = 0;  // trials that failed before the reopening and are not retried
  // nullopt: the run goes on, its trials were left running, or its process died.
  std::optional<Instant> ended_at;
};

// The state of a trial in the record, with its last attempt.
struct TrialEntry {
  std::string name;
  int revision = 1;  // version of the file that the trial uses; the run began with 1
  std::string image;
  std::string digest;  // digest of the image; empty: not known
  std::string params;  // the text of a JSON object, or empty
  TrialState state = TrialState::waiting;
  int attempt = 1;
  std::string container;
  bool healthy = false;  // the health check has passed
  std::optional<Instant> ran_at;
  std::optional<Instant> ended_at;
  std::optional<int> exit_code;
  Cause cause = Cause::none;
  std::string reason;
  Rare<EndDetails> details = {};
  std::string gpus;                       // GPUs that the attempt had, such as "0,1"; empty: none
  std::optional<Usage> usage;             // last observation before the end; nullopt: no observation
  std::optional<CollectionResult> taken;  // outputs collected from the attempt; nullopt: none
};
// `state` reads only the members that a list of states shows. Image, digest, params, revision, container,
// GPUs and collected outputs keep their defaults.
enum class Detail { state, all };

// A change of a trial's state. `state` is a name of TrialState, "healthy", or "ended" or "collected" for an
// attempt.
struct EventEntry {
  Instant at{};
  std::string trial;
  std::optional<int> attempt;  // nullopt: the event concerns the trial as a whole
  std::string state;
  std::optional<int> exit_code;
  std::string cause;                           // empty: none
  std::string reason;                          // result of reason_text()
  std::optional<CollectionResult> taken = {};  // only of "collected"; `left` is empty
};

// The times of an attempt. Its trial's dependencies were met at ready_at, and its start was commanded at
// started_at. It ran from ran_at to ended_at, and its outputs were collected at collected_at. A time that the
// attempt has not reached is nullopt.
struct AttemptEntry {
  std::string trial;
  int revision = 1;  // as in TrialEntry
  int attempt = 1;
  int first_attempt = 1;  // number of the trial's first attempt since it was reopened
  Instant ready_at{};
  Instant started_at{};
  std::optional<Seconds> created_in;  // as in Started
  std::optional<Seconds> started_in;
  std::optional<Instant> ran_at;
  std::optional<Instant> ended_at;
  std::optional<Instant> collected_at;
  std::optional<int> exit_code;
  std::string reason;  // result of reason_text(): why the attempt failed
  std::string gpus;    // as in TrialEntry
  Slots slots;         // without the GPUs
};

// A trial that succeeded, or that was skipped because an equal trial had succeeded.
struct DoneEntry {
  // The run and the trial that were executed.
  RunId run;
  std::string trial;
  // The run and the trial of this entry itself. Their logs and metrics are stored under these names.
  RunId kept_in;
  std::string kept_as;
  int attempt = 0;    // the attempt that succeeded; 0: the trial was skipped
  std::string place;  // location of the outputs: RESULTS/TRIAL; empty: not on record
};

// The cache key of a trial, and the equal trial whose outputs it uses.
struct KnownEntry {
  RunId run;
  std::string trial;
  std::string hash;
  std::string parts;
  // The run and the trial that were executed; empty unless the trial was skipped.
  RunId equal_run;
  std::string equal_trial;
};

// The durations of creating and starting an attempt in the engine, its inputs and its image.
struct Started {
  TrialIndex trial = 0;
  int attempt = 1;
  Seconds created_in{0};
  Seconds started_in{0};
  std::vector<std::string> inputs;  // content_digest() of each of Trial::inputs
  std::string digest = {};          // digest of the image, as in TrialEntry; empty: not known
};

// The outputs that were collected from an attempt.
struct CollectedOutputs {
  TrialIndex trial = 0;
  int attempt = 1;
  CollectionResult taken;
};

// Pairs of a trial and a flag. If the flag is set, the trial is executed even if an equal trial has
// succeeded.
using Anew = std::vector<std::pair<TrialIndex, bool>>;

// A new version of a run's file, applied while the run goes on.
struct FileVersion {
  // Determines if the run is reopened. A reopened run has not ended, and its deadline counts from `at`.
  enum class Opens { no, if_ended, always };

  // The new text. If `evaluated` is empty, the evaluation of the run's newest version is still valid, and
  // only that version's source text, imports and values are replaced.
  FileText text;
  Digests digests;
  Digests references;
  std::vector<TrialIndex> taken;                            // trials that use this version from now on
  std::vector<Fact> facts;                                  // result of facts_of_edits()
  std::vector<std::pair<TrialIndex, Departure>> departure;  // trials whose attempts must be stopped
  Opens opens = Opens::no;
  Anew anew;
  Instant at{};
};

// Trials of a run that return to waiting, each for a new attempt.
struct Reopening {
  std::vector<Fact> facts;        // result of facts_of_edits()
  std::vector<TrialIndex> taken;  // trials that use the run's newest version from now on
  Anew anew;
  Digests digests;  // of the images, like `references`
  Digests references;
  Instant at{};
};

struct RunFilter {
  std::optional<RunId> id;
  std::string experiment;  // empty: any, like the following members
  std::string file;
  std::string address;
  // true: only runs on the simulated engine; false: only other runs; nullopt: both.
  std::optional<bool> simulated = {};
};

// Access to the record. Not thread-safe, but several processes may each have a Record of the same file.
//
// All functions throw Error with the path of the file as its subject. The kind is `refused` if the folder or
// the file cannot be read or written, or if the disk is full. The kind is `invalid` if the file is damaged,
// was made by a newer combu, or is not a record. Such a file stays unchanged. A call that throws changes
// nothing and can be repeated.
class Record {
 public:
  // A fingerprint of a run. Differs if a trial of the run was added, started, ended, collected, or marked for
  // departure, or if another process has reopened the run.
  using Stamp = std::array<std::int64_t, 4>;

  // True if the folder contains a record.
  [[nodiscard]] static bool exists(const std::string& folder);

  // `reading` creates no file: a missing file is read as an empty record. If this process cannot write to the
  // file, the file is read without changes.
  enum class Use { all, reading };

  // Opens FOLDER/record.sqlite. With Use::all, creates the folder and the file if they are missing. If an
  // older combu made the file, upgrades the file, even for Use::reading.
  explicit Record(const std::string& folder, Use use = Use::all);
  ~Record();
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  // Sets a function that is called when an operation has waited two seconds for another process that writes.
  // If the function is empty, operations wait silently.
  void on_wait(std::function<void()> tell);

  // Adds a run. Throws Error(conflict) if a run with this id exists.
  void begin(const RunEntry& entry, const Experiment& experiment);
  // Writes all arguments in one transaction. After the return, the data survives the end of the process. The
  // facts must refer to the trials of the experiment given to begin(), and must be in chronological order.
  void append(const RunId& run, std::span<const Fact> facts, std::span<const Started> started = {},
              std::span<const CollectedOutputs> collected_outputs = {},
              std::span<const CacheResult> cache_results = {});
  enum class RunEnds { no, with_last_trial };
  // Writes facts that no process has watched. Their times may precede times that are on record for other
  // trials. Returns false and changes nothing if the run has changed since `stamp` was taken.
  [[nodiscard]] bool append_unwatched(const RunId& run, std::span<const Fact> facts, const Stamp& stamp,
                                      RunEnds ends);
  // Does the same for facts of a user's command. If the facts are not later than all times on record, moves
  // them behind these times.
  [[nodiscard]] bool append_if_unchanged(const RunId& run, std::span<const Fact> facts, const Stamp& stamp,
                                         RunEnds ends);
  [[nodiscard]] Stamp stamp(const RunId& run);
  void end(const RunId& run, Instant at);
  // Replaces RunEntry::options.
  void set_options(const RunId& run, const std::string& options);
  // Adds to RunEntry::host_paths. A path that is on record keeps its target.
  void add_host_paths(const RunId& run, const HostPaths& host_paths);
  // Reopens a run, which may have ended. The earlier attempts of the reopened trials no longer count.
  // `experiment` contains the trials on record, in their new form.
  void reopen(const RunId& run, const Reopening& reopening, const Experiment& experiment);
  // Applies a new version of the file. `experiment` contains the trials on record, in their order, followed
  // by the new trials. Calls `may` once other processes can no longer write. If `may` throws, nothing
  // changes.
  void apply_file(
      const RunId& run, const FileVersion& file_version, const Experiment& experiment,
      const std::function<void()>& may = [] {});

  // Removes the runs and all their data from the record. The free space serves later runs. If at least a
  // quarter of the file is free, the file is also rewritten, which takes as long as writing the remaining
  // data.
  void remove(std::span<const RunId> runs);

  // Returns the runs, newest first, without their texts.
  [[nodiscard]] std::vector<RunEntry> runs(const RunFilter& filter, std::size_t count_max);
  // Throws Error(not_found) if there is no such run.
  [[nodiscard]] RunEntry run(const RunId& id);
  // Returns the trials in the order of the experiment. If `trial` is not empty, returns only the trial of
  // this name.
  [[nodiscard]] std::vector<TrialEntry> trials(const RunId& run, const std::string& trial = {});
  // Reads the same trials. Writes each into the entry that `next` returns, which must be in the state of
  // TrialEntry{}.
  void trials(const RunId& run, const std::string& trial, Detail detail,
              const std::function<TrialEntry&()>& next);
  [[nodiscard]] std::size_t trial_count(const RunId& run);
  [[nodiscard]] TrialCounts counts(const RunId& run);
  // Returns the attempts in the order of the experiment. If `trial` is not empty, returns only the attempts
  // of this trial.
  [[nodiscard]] std::vector<AttemptEntry> attempts(const RunId& run, const std::string& trial);
  // Calls `tell` for each event in chronological order, until `tell` returns false. Of events at the same
  // time, the cause comes before its effect. If `trial` is not empty, reads only the events of this trial.
  void events(const RunId& run, const std::string& trial, const std::function<bool(const EventEntry&)>& tell);
  // Returns the completed trials with this cache key, of any run, newest first.
  [[nodiscard]] std::vector<DoneEntry> done(const std::string& hash, std::size_t count_max);
  // Returns the number of attempts that run or have run.
  [[nodiscard]] std::size_t begun(const RunId& run);
  // Returns the digest of each input of the trial, as used by its last attempt or found by the cache lookup.
  // Empty if there are none.
  [[nodiscard]] std::vector<std::string> inputs(const RunId& run, const std::string& trial);
  // Returns nullopt if the trial has no `cache`, or if no cache lookup has been made.
  [[nodiscard]] std::optional<KnownEntry> known(const RunId& run, const std::string& trial);
  // Returns the cache keys of trials that were completed in earlier runs. Trials of the same experiment come
  // first, then trials of the same name, then newer runs.
  [[nodiscard]] std::vector<KnownEntry> known_before(const RunId& run, const std::string& trial,
                                                     std::size_t count_max);
  // Returns the state from which Planner continues the run, by trial.
  [[nodiscard]] std::vector<RestoredTrial> restored_trials(const RunId& run);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
