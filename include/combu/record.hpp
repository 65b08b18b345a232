#pragma once
// The record: an SQLite database of all runs and of their trials' states and attempts. Several processes can
// use the record at the same time.

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

// Maps the reference (Trial::image) and platform (Trial::platform) of an image to the image's digest
// ("sha256:…").
using Digests = std::map<std::pair<std::string, std::string>, std::string>;

// The text of an experiment file, and its evaluation.
struct FileText {
  std::string source;     // the text of the file
  std::string evaluated;  // the evaluated file as JSON
  // a JSON object that maps the absolute path of each import to its SHA-256; empty: not known
  std::string imports;
  // a JSON object: the variables, arguments and import folders of the evaluation; empty: not known
  std::string values;
};

struct RunEngine {
  std::string address;
  std::string description;    // Facts::engine
  bool is_simulated = false;  // Facts::is_simulated
};

// The parameters and circumstances with which a run began. A RunEntry contains everything that another
// process needs to continue the run later.
struct RunEntry {
  RunId id;
  std::string experiment;  // Experiment::name and ::file
  std::string file;
  std::string folder;                // Caller::folder
  FileText text;                     // `text` and `earlier` are empty in the result of Record::runs()
  std::vector<std::string> earlier;  // evaluated JSON of the earlier versions of the file, oldest first
  std::string arguments;             // a JSON array: the command line
  // a JSON object: the options of `combu run` that still apply when the run is resumed
  std::string options;
  std::string revision;  // commit of the file's folder in version control; empty: none
  bool revision_dirty = false;
  WorkingTree working_tree;  // empty in the result of Record::runs()
  RunEngine engine;
  std::string user;
  std::string machine;
  std::string program;                  // such as "combu 0.1.0 (libjsonnet 0.18.0)"
  std::optional<Seconds> evaluated_in;  // duration of the file's evaluation; nullopt: not known
  // How long combu took to inspect and pull images, and to create networks and folders, before the run began;
  // nullopt: not known.
  std::optional<Seconds> prepared_in;
  Digests digests;       // digests of the images when the run began; empty in an entry read from the record
  Digests references;    // Preparation::digest of each image; empty in the result of Record::runs()
  std::string results;   // folder or bucket path that contains all outputs of the run; empty: not known
  HostPaths host_paths;  // empty in the result of Record::runs()
  Instant began_at{};
  // The moment from which the deadline counts: when the run was last reopened, or began_at if it never was.
  Instant working_since{};
  // Number of failed trials that were not retried when the run was reopened; they do not count towards
  // `max_failures`.
  std::size_t failures_forgiven = 0;
  // nullopt: the run has not ended, its trials were left running, or its owner died.
  std::optional<Instant> ended_at;
};

// The state of a trial in the record, with data of the trial's last attempt.
struct TrialEntry {
  std::string name;
  int revision = 1;  // version of the experiment file that the trial uses; a run begins with version 1
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
  std::string gpus;            // GPUs that the attempt had, such as "0,1"; empty: none
  std::optional<Usage> usage;  // the last usage observed before the attempt's end; nullopt: none observed
  std::optional<CollectionResult> collection;  // outputs collected from the attempt; nullopt: none
};
// With Detail::state, trials() reads only the members that a list of states shows. The members image, digest,
// params, revision, container, gpus and collection keep their defaults.
enum class Detail { state, all };

// A change of a trial's state. EventEntry::state is to_string() of a TrialState, or "healthy", or an
// attempt's "ended" or "collected".
struct EventEntry {
  Instant at{};
  std::string trial;
  std::optional<int> attempt;  // number of the attempt; nullopt: the event concerns the trial as a whole
  std::string state;
  std::optional<int> exit_code;
  std::string cause;                                // empty: none
  std::string reason;                               // result of reason_text()
  std::optional<CollectionResult> collection = {};  // set only for "collected"; its member `left` is empty
};

// The times of an attempt. The trial's dependencies were met at ready_at, and combu commanded the start of
// the attempt at started_at. The attempt ran from ran_at to ended_at, and combu collected the outputs at
// collected_at. A moment that has not come yet is nullopt.
struct AttemptEntry {
  std::string trial;
  int revision = 1;  // as in TrialEntry
  int attempt = 1;
  int first_attempt = 1;  // number of the first attempt since the trial was reopened
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
  // The run and the trial that this entry describes. The logs and metrics are stored under the names
  // telemetry_run and telemetry_trial.
  RunId telemetry_run;
  std::string telemetry_trial;
  int attempt = 0;    // number of the attempt that succeeded; 0: the trial was skipped
  std::string place;  // path of the outputs, RESULTS/TRIAL; empty: not on record
};

// The cache key of a trial, and the equal trial whose outputs the trial uses.
struct KnownEntry {
  RunId run;
  std::string trial;
  std::string hash;
  std::string parts;
  // The run and the trial that were executed; empty unless the trial was skipped.
  RunId equal_run;
  std::string equal_trial;
};

// A started attempt: how long the engine took to create and to start its container (nullopt: not known), and
// digests of its inputs and image.
struct Started {
  TrialIndex trial = 0;
  int attempt = 1;
  std::optional<Seconds> created_in = {};
  std::optional<Seconds> started_in = {};
  std::vector<std::string> inputs;  // content_digest() of each of Trial::inputs
  std::string digest = {};          // digest of the image, as in TrialEntry; empty: not known
};

// The outputs that were collected from an attempt.
struct CollectedOutputs {
  TrialIndex trial = 0;
  int attempt = 1;
  CollectionResult collection;
};

// Pairs of a trial and a flag. If the flag is true, combu executes the trial even if an equal trial has
// succeeded.
using Anew = std::vector<std::pair<TrialIndex, bool>>;

// A new version of a run's experiment file. Record::apply_file() changes the run to this version.
struct FileVersion {
  // The cases in which apply_file() reopens the run. A reopened run counts as not ended, and its deadline
  // counts from `at`.
  enum class Opens { no, if_ended, always };

  // The text of the new version. If `evaluated` is empty, the evaluation of the run's newest version stays
  // valid. In this case combu replaces only the source text, imports and values of the newest version.
  FileText text;
  Digests digests;
  Digests references;
  // trials that use the new version of the file from now on
  std::vector<TrialIndex> updated;
  std::vector<Fact> facts;                                  // result of facts_of_edits()
  std::vector<std::pair<TrialIndex, Departure>> departure;  // trials whose attempts combu must stop
  Opens opens = Opens::no;
  Anew anew;
  Instant at{};
};

// Trials of a run that become waiting again, each for a new attempt.
struct Reopening {
  std::vector<Fact> facts;          // result of facts_of_edits()
  std::vector<TrialIndex> updated;  // trials that use the file's newest version from now on
  Anew anew;
  // Digests of the images of the reopened trials; `references` holds Preparation::digest of the same images.
  Digests digests;
  Digests references;
  Instant at{};
};

struct RunFilter {
  std::optional<RunId> id;
  // An empty `experiment`, `file` or `address` matches every run.
  std::string experiment;
  std::string file;
  std::string address;
  // true: only runs on the simulated engine; false: only runs on other engines; nullopt: all runs.
  std::optional<bool> simulated = {};
};

// Access to the record. Not thread-safe, but several processes may each have a Record of the same file.
//
// The functions of Record throw Error with the path of the file as the error's subject. The kind of the error
// is `refused` if the folder or the file cannot be read or written, or if the disk is full. The kind is
// `invalid` if the file is damaged, was made by a newer combu, or is not a record. An invalid file stays
// unchanged. A call that throws changes nothing and can be repeated.
class Record {
 public:
  // A fingerprint of a run's state on record. The stamp changes if a trial is added, starts or ends, or if
  // its outputs are collected. The stamp also changes if combu must stop an attempt after an edit of the
  // file, or if a process reopens the run.
  using Stamp = std::array<std::int64_t, 4>;

  // True if the folder contains a record.
  [[nodiscard]] static bool exists(const std::string& folder);

  // Use::reading creates no file: a missing file is read as an empty record. With Use::reading, a file that
  // this process cannot write to is read without changes.
  enum class Use { all, reading };

  // Opens FOLDER/record.sqlite. With Use::all, creates a missing folder or file. Upgrades a file that an
  // older combu made, even with Use::reading.
  explicit Record(const std::string& folder, Use use = Use::all);
  ~Record();
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  // Sets a function that Record calls when an operation has waited two seconds for a write of another
  // process. If `sink` is empty, operations wait silently.
  void on_wait(std::function<void()> sink);

  // Adds a run. Throws Error(conflict) if the record already contains a run with the same id.
  void begin(const RunEntry& entry, const Experiment& experiment);
  // Writes all arguments in one transaction. When append() returns, the written data survives a crash of the
  // process. The facts must refer to the trials of the experiment given to begin(), and must be in
  // chronological order.
  void append(const RunId& run, std::span<const Fact> facts, std::span<const Started> started = {},
              std::span<const CollectedOutputs> collected_outputs = {},
              std::span<const CacheResult> cache_results = {});
  enum class RunEnds { no, with_last_trial };
  // Writes facts that happened while no process drove the run. The times of these facts may precede times
  // that are on record for other trials. `started`: the digests of the attempts' images, if the engine has
  // reported them. Returns false and changes nothing if the run's stamp is no longer `stamp`.
  [[nodiscard]] bool append_unwatched(const RunId& run, std::span<const Fact> facts, const Stamp& stamp,
                                      RunEnds ends, std::span<const Started> started = {});
  // Like append_unwatched(), but for facts that follow from a user's command. If the record has a later time
  // for the run than the first fact, append_if_unchanged() moves the times of all facts later, so that none
  // is earlier than this time.
  [[nodiscard]] bool append_if_unchanged(const RunId& run, std::span<const Fact> facts, const Stamp& stamp,
                                         RunEnds ends);
  [[nodiscard]] Stamp stamp(const RunId& run);
  void end(const RunId& run, Instant at);
  // Replaces RunEntry::options.
  void set_options(const RunId& run, const std::string& options);
  // Adds entries to RunEntry::host_paths. A path that is already on record keeps its target.
  void add_host_paths(const RunId& run, const HostPaths& host_paths);
  // Reopens a run, even if the run has ended. From then on, the state and the retries of a reopened trial
  // depend only on its new attempts. `experiment` must contain the trials on record, as the newest version of
  // the file describes them.
  void reopen(const RunId& run, const Reopening& reopening, const Experiment& experiment);
  // Applies a new version of the experiment file. `experiment` must contain the trials on record, in the same
  // order, followed by the new trials. Calls `may` after the transaction has locked the record against other
  // writers. If `may` throws, apply_file() changes nothing.
  void apply_file(
      const RunId& run, const FileVersion& file_version, const Experiment& experiment,
      const std::function<void()>& may = [] {});

  // Removes the runs and all their data from the record. Later runs reuse the free space of the file. If at
  // least a quarter of the file is free, also rewrites the file, which takes as long as writing the remaining
  // data.
  void remove(std::span<const RunId> runs);

  // Returns at most `count_max` runs, newest first, without the texts of their files.
  [[nodiscard]] std::vector<RunEntry> runs(const RunFilter& filter, std::size_t count_max);
  // Returns the run `id`. Throws Error(not_found) if the record has no such run.
  [[nodiscard]] RunEntry run(const RunId& id);
  // Returns the trials of a run in the order of the experiment. If `trial` is not empty, returns only the
  // trial with the name `trial`.
  [[nodiscard]] std::vector<TrialEntry> trials(const RunId& run, const std::string& trial = {});
  // Like the other overload of trials(), but writes into objects of the caller. Calls `next` for each trial,
  // and writes the trial into the TrialEntry that `next` returns, which must equal TrialEntry{}.
  void trials(const RunId& run, const std::string& trial, Detail detail,
              const std::function<TrialEntry&()>& next);
  [[nodiscard]] std::size_t trial_count(const RunId& run);
  [[nodiscard]] TrialCounts counts(const RunId& run);
  // Returns the attempts of a run in the order of the experiment's trials. If `trial` is not empty, returns
  // only the attempts of the trial `trial`.
  [[nodiscard]] std::vector<AttemptEntry> attempts(const RunId& run, const std::string& trial);
  // Calls `sink` for each event of a run in chronological order, until `sink` returns false. If two events
  // have the same time, the event that causes the other event comes first. If `trial` is not empty, reads
  // only the events of the trial `trial`.
  void events(const RunId& run, const std::string& trial, const std::function<bool(const EventEntry&)>& sink);
  // Returns at most `count_max` completed trials with the cache key `hash`, from all runs, newest first.
  [[nodiscard]] std::vector<DoneEntry> done(const std::string& hash, std::size_t count_max);
  // Returns the number of attempts of the run that are running or have run.
  [[nodiscard]] std::size_t begun(const RunId& run);
  // Returns the digest of each input of the trial. The digests were computed by the cache lookup, or when an
  // attempt of the trial was started, whichever happened last. Returns an empty list if no digest is on
  // record.
  [[nodiscard]] std::vector<std::string> inputs(const RunId& run, const std::string& trial);
  // Returns the cache key of a trial. Returns nullopt if the trial has no `cache`, or if combu has made no
  // cache lookup for the trial.
  [[nodiscard]] std::optional<KnownEntry> known(const RunId& run, const std::string& trial);
  // Returns the cache keys of trials that were completed in runs before `run`. The order is: trials of the
  // same experiment before others, then trials named `trial` before others, then newer runs before older
  // runs.
  [[nodiscard]] std::vector<KnownEntry> known_before(const RunId& run, const std::string& trial,
                                                     std::size_t count_max);
  // Returns for each trial the state with which the Planner continues the run.
  [[nodiscard]] std::vector<RestoredTrial> restored_trials(const RunId& run);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
