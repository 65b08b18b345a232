#pragma once
// The record: what every run was and what became of it, in an SQLite database that several processes share.

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

// Which images they were, by reference and platform as in Trial: "sha256:…".
using Digests = std::map<std::pair<std::string, std::string>, std::string>;

// The text of a run's file, and what it was evaluated with.
struct FileText {
  std::string source;     // the file's text
  std::string evaluated;  // JSON
  std::string imports;    // a JSON object: absolute path, SHA-256; empty: not known
  std::string values;     // a JSON object: what it was evaluated with; empty: not known
};

struct RunEngine {
  std::string address;
  std::string description;    // Facts::engine
  bool is_simulated = false;  // Facts::is_simulated
};

// A run as it began: all that is needed to go on with it elsewhere and later.
struct RunEntry {
  RunId id;
  std::string experiment;  // Experiment::name and ::file
  std::string file;
  std::string folder;                // Caller::folder
  FileText text;                     // empty in a list of runs, like the next one
  std::vector<std::string> earlier;  // what was evaluated before the file was revised, the first one first
  std::string arguments;             // a JSON array: the command line
  std::string options;               // a JSON object: those of `run` that hold when it goes on
  std::string revision;              // version control's commit of the file's folder; empty: none
  bool revision_dirty = false;
  WorkingTree working_tree;  // empty in a list of runs
  RunEngine engine;
  std::string user;
  std::string machine;
  std::string program;                  // "combu 0.1.0 (libjsonnet 0.18.0)"
  std::optional<Seconds> evaluated_in;  // before it began, like the next one; nullopt: not known
  std::optional<Seconds> prepared_in;   // looking at images, pulling them, making networks and folders
  Digests digests;                      // to begin with, like the next one
  Digests references;                   // Preparation::digest; empty in a list of runs
  std::string results;                  // its trials' outputs are below it; empty: not known
  HostPaths host_paths;                 // empty in a list of runs
  Instant began_at{};
  Instant working_since{};            // began_at, or when it was reopened: what its deadline counts from
  std::size_t failures_forgiven = 0;  // trials that had failed when it was reopened, and were left so
  std::optional<Instant> ended_at;    // nullopt: it goes on, was left to run, or its process died
};

// A trial as it stands on the record, with its last attempt.
struct TrialEntry {
  std::string name;
  int revision = 1;  // of the file's text that it ran with, or will run with; the run began with 1
  std::string image;
  std::string digest;  // of the image: what it was when the run began; empty where that is not known
  std::string params;  // a JSON object's text, or empty
  TrialState state = TrialState::waiting;
  int attempt = 1;
  std::string container;
  bool healthy = false;  // its health check has passed
  std::optional<Instant> ran_at;
  std::optional<Instant> ended_at;
  std::optional<int> exit_code;
  Cause cause = Cause::none;
  std::string reason;
  Rare<EndDetails> details = {};
  std::string gpus;                       // "0,1": those that it had; empty: none
  std::optional<Usage> usage;             // as last seen before it ended; nullopt: nobody has looked
  std::optional<CollectionResult> taken;  // what has come home of it; nullopt: nothing has
};
// `state` reads less: no image, digest, params, container, GPUs and collected outputs, which a list of states
// does not show.
enum class Detail { state, all };

// A change of a trial's state: those of TrialState, "healthy", and "ended" and "collected" of an attempt.
struct EventEntry {
  Instant at{};
  std::string trial;
  std::optional<int> attempt;  // nullopt: of the trial as a whole
  std::string state;
  std::optional<int> exit_code;
  std::string cause;                           // empty where there is none
  std::string reason;                          // reason_text()
  std::optional<CollectionResult> taken = {};  // of "collected"; without what was left
};

// An attempt's moments, as far as it got: since when nothing that its trial depends on was missing, when its
// start was commanded, since when and until when it ran, and when its outputs were collected.
struct AttemptEntry {
  std::string trial;
  int revision = 1;  // as in TrialEntry
  int attempt = 1;
  int first_attempt = 1;  // of its trial since it was reopened
  Instant ready_at{};
  Instant started_at{};
  std::optional<Seconds> created_in;  // as in Started
  std::optional<Seconds> started_in;
  std::optional<Instant> ran_at;
  std::optional<Instant> ended_at;
  std::optional<Instant> collected_at;
  std::optional<int> exit_code;
  std::string reason;  // reason_text(): why it failed
  std::string gpus;    // as in TrialEntry
  Slots slots;         // without them
};

// A trial that has succeeded, or was skipped.
struct DoneEntry {
  RunId run;  // who had run it
  std::string trial;
  RunId kept_in;  // the run that it is of, and its name and attempt there: these have what it has told, too
  std::string kept_as;
  int attempt = 0;    // that has succeeded; 0: it was skipped
  std::string place;  // of what it has left, as a run's results and a trial's name; empty: not on record
};

// By what a trial is known, and whose outputs it has.
struct KnownEntry {
  RunId run;
  std::string trial;
  std::string hash;
  std::string parts;
  RunId equal_run;  // of one that was skipped: who had run
  std::string equal_trial;
};

// How long the engine took to create an attempt, and to start it; and what it runs with.
struct Started {
  TrialIndex trial = 0;
  int attempt = 1;
  Seconds created_in{0};
  Seconds started_in{0};
  std::vector<std::string> inputs;  // content_digest() of each of Trial::inputs
  std::string digest = {};          // of its image, as in TrialEntry; empty: not told
};

// What has come home of an attempt.
struct CollectedOutputs {
  TrialIndex trial = 0;
  int attempt = 1;
  CollectionResult taken;
};

// Trials, and whether each is run, whatever has been done before (else an equal trial's success counts).
using Anew = std::vector<std::pair<TrialIndex, bool>>;

// A run's file, edited while it goes on.
struct FileVersion {
  // A run that is opened again has not ended from here on, and its deadline counts from `at`.
  enum class Opens { no, if_ended, always };

  FileText text;  // `evaluated` is empty: as in the run's newest text, whose bytes are these from here on
  Digests digests;
  Digests references;
  std::vector<TrialIndex> taken;                            // the trials that are as it says from here on
  std::vector<Fact> facts;                                  // facts_of_edits()
  std::vector<std::pair<TrialIndex, Departure>> departure;  // whose attempts are to be stopped
  Opens opens = Opens::no;
  Anew anew;
  Instant at{};
};

// Trials of a run that wait again, each for a new attempt.
struct Reopening {
  std::vector<Fact> facts;        // facts_of_edits()
  std::vector<TrialIndex> taken;  // the trials that are as the run's newest text says from here on
  Anew anew;
  Digests digests;  // of their images, like the next one
  Digests references;
  Instant at{};
};

struct RunFilter {
  std::optional<RunId> id;
  std::string experiment;  // empty: all, like the next ones
  std::string file;
  std::string address;
  std::optional<bool> simulated = {};  // only runs on the simulated engine, or none of them; nullopt: both
};

// Belongs to one thread; several processes may have one each. Everything throws Error: `refused` when its
// folder or file cannot be read or written, or the disk is full; `invalid` when it is damaged, was made by a
// newer combu, or is no record at all: then it has not been touched. The subject is its path. A call that
// throws has changed nothing, and may be repeated.
class Record {
 public:
  // Differs if a trial of the run was added, started, ended or collected, or is about to leave, or if another
  // process has gone on with the run.
  using Stamp = std::array<std::int64_t, 4>;

  // Whether there is one in the folder.
  [[nodiscard]] static bool exists(const std::string& folder);

  // `reading`: a missing file is not made, and counts as an empty record; one that cannot be written is read
  // as it is.
  enum class Use { all, reading };

  // Opens FOLDER/record.sqlite, and makes both if they are missing. Brings the file of an older combu up to
  // date, also to read it.
  explicit Record(const std::string& folder, Use use = Use::all);
  ~Record();
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  // Called when a call has waited two seconds for another process that writes; empty: it waits silently.
  void on_wait(std::function<void()> tell);

  // Error(conflict): there is a run of this id.
  void begin(const RunEntry& entry, const Experiment& experiment);
  // All of them or none. When it returns, the process may die and they are not lost. Facts are of the trials
  // of the experiment that begin() was given, in the order in which they came.
  void append(const RunId& run, std::span<const Fact> facts, std::span<const Started> started = {},
              std::span<const CollectedOutputs> collected_outputs = {},
              std::span<const CacheResult> cache_results = {});
  enum class RunEnds { no, with_last_trial };
  // Facts that no process has watched: their times may be before times that are on record of other trials.
  // Returns false, and changes nothing, if the run has changed since `stamp` was taken.
  [[nodiscard]] bool append_unwatched(const RunId& run, std::span<const Fact> facts, const Stamp& stamp,
                                      RunEnds ends);
  // The same for facts of a person's command: their times follow all times on record.
  [[nodiscard]] bool append_if_unchanged(const RunId& run, std::span<const Fact> facts, const Stamp& stamp,
                                         RunEnds ends);
  [[nodiscard]] Stamp stamp(const RunId& run);
  void end(const RunId& run, Instant at);
  // RunEntry::options, from here on.
  void set_options(const RunId& run, const std::string& options);
  // Adds to RunEntry::host_paths. A path that is on record keeps its value.
  void add_host_paths(const RunId& run, const HostPaths& host_paths);
  // Opens a run that may have ended. Its trials' earlier attempts no longer count. `experiment`: the trials
  // on record, as they are from here on.
  void reopen(const RunId& run, const Reopening& reopening, const Experiment& experiment);
  // `experiment`: the trials on record, in their order, and behind them those that join. `may` is called when
  // no other process can write any more; if it throws, nothing has changed.
  void apply_file(
      const RunId& run, const FileVersion& file_version, const Experiment& experiment,
      const std::function<void()>& may = [] {});

  // The runs, and all that is known of them; others are not touched. Their space serves later runs, or is
  // given back where it is much, which takes as long as writing what is left.
  void remove(std::span<const RunId> runs);

  // The newest first; without their texts.
  [[nodiscard]] std::vector<RunEntry> runs(const RunFilter& filter, std::size_t count_max);
  // Throws Error(not_found).
  [[nodiscard]] RunEntry run(const RunId& id);
  // In the experiment's order; the one of this name when `trial` is not empty.
  [[nodiscard]] std::vector<TrialEntry> trials(const RunId& run, const std::string& trial = {});
  // The same, each written where `next` says, as of a TrialEntry{}.
  void trials(const RunId& run, const std::string& trial, Detail detail,
              const std::function<TrialEntry&()>& next);
  [[nodiscard]] std::size_t trial_count(const RunId& run);
  [[nodiscard]] TrialCounts counts(const RunId& run);
  // In the experiment's order; of one trial when `trial` is not empty.
  [[nodiscard]] std::vector<AttemptEntry> attempts(const RunId& run, const std::string& trial);
  // In the order in which they happened, of what happened in the same moment the cause first; of one trial
  // when `trial` is not empty. `tell` returns false to hear no more.
  void events(const RunId& run, const std::string& trial, const std::function<bool(const EventEntry&)>& tell);
  // Those of this hash, whatever run they are of, the newest first.
  [[nodiscard]] std::vector<DoneEntry> done(const std::string& hash, std::size_t count_max);
  // How many attempts have run, or do.
  [[nodiscard]] std::size_t begun(const RunId& run);
  // Of each of its inputs the digest of what was put into its last attempt, or would have been; empty: none.
  [[nodiscard]] std::vector<std::string> inputs(const RunId& run, const std::string& trial);
  // nullopt: it has no `cache`, or has not been looked for.
  [[nodiscard]] std::optional<KnownEntry> known(const RunId& run, const std::string& trial);
  // What had been done when the run began: that of its experiment first, of this name first, the newest
  // first.
  [[nodiscard]] std::vector<KnownEntry> known_before(const RunId& run, const std::string& trial,
                                                     std::size_t count_max);
  // What Planner goes on from, by trial.
  [[nodiscard]] std::vector<RestoredTrial> restored_trials(const RunId& run);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
