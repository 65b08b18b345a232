#pragma once
// The door to every engine: where containers run. Trial-level verbs, so that an engine can be a Docker
// Engine, a swarm, a cluster or a model of one. Every verb blocks, ends with Error(cancelled) when its stop
// token is set, and may be called from many threads at once.

#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "combu/base.hpp"
#include "combu/spec.hpp"

namespace combu {

// One execution of an experiment, as the engine needs to know it.
struct Run {
  RunId id;
  Experiment experiment;
  std::optional<Instant> began_at = std::nullopt;  // of a run that an earlier process began
  HostPaths host_paths = {};
};

// A device of the engine's host that attempts can be given.
struct Gpu {
  std::string id;  // as attempts hold it: a CDI device's name ("nvidia.com/gpu=0"), or NVIDIA's number ("0")
  std::string uuid;  // this and what follows as far as it is known
  std::string kind;  // its model: "NVIDIA H100 80GB HBM3"
  Bytes memory;
  bool operator==(const Gpu&) const = default;
};
// Whether a person means it by this name: its id or UUID, each with the kind of device or without ("0").
[[nodiscard]] bool is_called(const Gpu& gpu, const std::string& name);

struct Facts {
  std::string engine;  // "Docker Engine 20.10.24 (API 1.41)"
  std::string address;
  Slots capacity;  // what its host has, but for GPUs
  // Since when it has been there without a break, by its own clock; nullopt: not known.
  std::optional<Instant> began_at;
  bool is_remote = false;     // its host may be another machine: paths of this one mean nothing there
  bool is_simulated = false;  // no container exists, and nothing outlives this process
};

enum class Phase {
  created,  // exists, has not run
  running,
  ended,
  gone,  // removed; told by watch only
};
[[nodiscard]] std::string_view to_string(Phase phase);

enum class Health { none, starting, healthy, unhealthy };
[[nodiscard]] std::string_view to_string(Health health);

// What an engine tells of one attempt at one moment.
struct Observation {
  Key key;
  std::string experiment;  // Experiment::name and ::file of its run
  std::string file;
  std::string id;  // the engine's own id of it
  std::string image;
  Phase phase = Phase::created;
  Health health = Health::none;
  std::optional<int> exit_code;  // of an ended one
  Instant created_at{};          // the epoch when not told
  std::string status;            // the engine's words for people: "Up 3 minutes"
  bool service = false;          // Trial::service of it
  Slots slots;                   // what it holds
  bool oom = false;              // of an ended one: it, or a process in it, was killed for memory
  bool oom_likely = false;       // of an ended one with a limit of memory: it was killed, not by the engine
                                 // as far as its events tell, and the engine does not know for what
  bool stopped = false;          // of an ended one: a signal was sent to it, through the engine or by it
  // When it began and ended, by the engine's clock; ListDetail::full tells it.
  std::optional<Instant> ran_at;
  std::optional<Instant> ended_at;
  // Of what start() returns, how long the engine took: until it was there, and from then until it ran.
  std::optional<Seconds> created_in;
  std::optional<Seconds> started_in;
  std::vector<std::string> inputs;  // content_digest() of each of Trial::inputs, as start() has sent it
  std::string digest;  // of what start() returns of a trial with `cache`: Preparation::digest of the image
                       // that it has; empty: the engine did not tell
};

// What an attempt has taken of its host by some moment.
struct Usage {
  Bytes memory;  // at that moment, or the most of several, without what the kernel can drop (the page cache's
                 // inactive part)
  Seconds cpu{0};  // processor time since it began
};

// Selects by labels; what carries none of ours is never selected. Empty fields do not restrict.
struct Selector {
  std::string experiment;
  std::string file;  // selects every experiment that has been run from this file
  std::optional<RunId> run;
  std::vector<std::string> trials;
};

// How well a listing is looked at.
enum class ListDetail {
  basic,       // in one request: what it tells of a change may be a moment late
  consistent,  // what seems to run is asked for one by one
  full,        // each is
};

// Progress of prepare(): one image pulled or one network made; and of each image which one it is.
struct Preparation {
  enum class Kind { image, network, found };
  Kind kind = Kind::image;
  std::string name;
  Bytes done;  // images only; total is 0 while unknown
  Bytes total;
  bool finished = false;
  std::string platform = {};  // of found, as in Trial, like the next one
  std::string digest = {};    // "NAME@sha256:…" of the registry's manifest, else of the engine's own image
};

// Returns the part behind the `@` of a reference like Preparation::digest: "sha256:…". Returns all of a text
// without `@`.
[[nodiscard]] std::string digest_in(const std::string& reference);

struct Released {
  std::size_t attempts = 0;
  std::size_t networks = 0;
  std::set<std::string> experiments;  // whose attempts were selected
  std::vector<Error> left;            // what could not be removed, and why; subjects are names
  std::vector<Error> in_use;          // networks that the engine keeps because they are in use: no failure
};

// Callbacks of release(); each may be empty.
struct Releasing {
  // Called once with the selected attempts, before any of them is removed. Returns the attempts to keep:
  // release() changes neither these nor the networks that they are on.
  std::function<std::set<Key>(const std::vector<Observation>&)> found = {};
  // How many attempts have been removed, and how many will be; from several threads but one at a time.
  std::function<void(std::size_t, std::size_t)> removed = {};
};

struct LogOptions {
  bool follow = false;
  std::optional<std::int64_t> tail;  // last lines; nullopt: all
  std::optional<Instant> since;      // what came then is told, too
  bool timed = false;                // each piece has its time, and every reading has the same pieces
};
enum class LogStream { out, err };
// One piece of a log: a line with its end, or a part of a line, as the engine has stored it. A timed line
// that is too long for one piece comes as several pieces with the same time.
struct LogPiece {
  LogStream stream = LogStream::out;
  std::string_view text;  // valid while it is told
  Instant at{};           // by the engine's clock; where it was asked for
};
using LogTell = std::function<void(const LogPiece&)>;

// The subscription is made: what happens from here on is told (until watch returns). What happened before may
// have been missed.
struct Watching {};
using Change = std::variant<Watching, Observation>;

// Results of start().
struct Running {
  Observation observation;  // an attempt that an earlier call has started may have ended already
};
// Nothing was started: another attempt, of whatever run and user, holds one of the slots.
struct TakenByOther {
  Observation holder;
};
using StartResult = std::variant<Running, TakenByOther>;

class Engine {
 public:
  virtual ~Engine() = default;

  [[nodiscard]] virtual Facts facts(std::stop_token stop) = 0;

  // Those that can be given to attempts, in the host's order; none when it knows of none.
  [[nodiscard]] virtual std::vector<Gpu> gpus(std::stop_token stop) = 0;

  // All that it would refuse of `run`, with the trial or the field's path as subject: a name or a port in use
  // by what is not this experiment's, a field it cannot honour. One listing, not one request a trial. Changes
  // nothing.
  [[nodiscard]] virtual std::vector<Error> check(const Run& run, std::stop_token stop) = 0;

  // Images looked up once and pulled once for each distinct reference, several at a time; networks made when
  // missing, unless an image is. Returns what could not be had, each named once. `tell` may be called from
  // several threads at once. Repeatable.
  [[nodiscard]] virtual std::vector<Error> prepare(const Run& run,
                                                   const std::function<void(const Preparation&)>& tell,
                                                   std::stop_token stop) = 0;

  // Starts an attempt, unless other attempts hold one of trial.slots.gpus, or leave less CPUs or memory than
  // trial.slots says. A repeat after a lost answer adopts the container of the earlier call. The container of
  // an earlier attempt of the same trial and run that is over is removed. Inputs, all paths on this machine
  // by now (find_inputs), are in their places before the attempt runs. Throws Error: refused, conflict,
  // not_found, unavailable, timeout.
  virtual StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) = 0;

  // Its stop signal, and after `grace` (nullopt: the attempt's own) the kill signal. An absent or ended
  // attempt is success.
  virtual void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) = 0;

  // What exists, in no particular order. Looked at closely it is the truth at some moment after the call, so
  // that a change before it is in it, whatever watch has told or lost.
  [[nodiscard]] virtual std::vector<Observation> list(const Selector& selector, ListDetail detail,
                                                      std::stop_token stop) = 0;

  // Tells changes as they happen, until `stop` is set (returns) or the stream breaks (throws unavailable). A
  // hint: it may lose, repeat and reorder; after each Watching, list and compare. `tell` is called from the
  // calling thread only.
  virtual void watch(const Selector& selector, const std::function<void(const Change&)>& tell,
                     std::stop_token stop) = 0;

  // Of what runs, by Observation::id; nullopt when it does not run, or the engine does not tell.
  [[nodiscard]] virtual std::optional<Usage> usage(const std::string& id, std::stop_token stop) = 0;

  // The attempt's log, piece by piece, in the engine's order. Throws not_found when there is no such attempt,
  // refused when the engine keeps none.
  virtual void logs(const Key& key, const LogOptions& options, const LogTell& tell, std::stop_token stop) = 0;

  // What is at `path`, absolute in the attempt, as a tar archive, piece by piece: a file, or a folder and all
  // that is in it, whose entries begin with its name. A path that is a symbolic link stands for what it leads
  // to. False: there is no such path. Throws not_found when there is no such attempt, invalid when the
  // attempt itself has made the path unreadable (a loop of links); an archive that was cut off throws
  // unavailable.
  [[nodiscard]] virtual bool copy_out(const Key& key, const std::string& path,
                                      const std::function<void(std::string_view)>& tell,
                                      std::stop_token stop) = 0;

  // Removes every attempt that the labels select, running or not, unless `tell` keeps it, and when whole
  // experiments or runs are selected (no trials named) the networks that were made for them and are empty,
  // with those that they used of experiments of which nothing else is left. Nothing else, ever. Nothing to
  // remove is success.
  virtual Released release(const Selector& selector, const Releasing& tell, std::stop_token stop) = 0;
};

// ---- Decorators

// Repeats a verb that failed with `unavailable` (or `timeout`, where a repeat is harmless) after growing
// pauses, until `give_up` has passed since its first failure. watch is started again, with a Watching each
// time; logs, copy_out, usage and facts are not repeated.
struct RetryPolicy {
  Seconds pause{0.2};
  double factor = 2;
  Seconds pause_max{3};
  Seconds give_up{60};
};
// `told` (may be empty) hears of each repeat: the error, and the pause before it.
[[nodiscard]] std::unique_ptr<Engine> with_retry(Engine& engine, RetryPolicy policy, Clock& clock,
                                                 std::function<void(const Error&, Seconds)> told = {});

// Writes one line for each call of a verb when it ends: seconds since the decorator was made, verb, subject,
// duration, result.
[[nodiscard]] std::unique_ptr<Engine> with_trace(Engine& engine, Clock& clock, std::ostream& out);

// ---- What goes into attempts and comes out of them

// A tar archive of files that all may read, by their path ("combu/params.json"), and the folders above them.
// Throws Error(invalid).
[[nodiscard]] std::string tar_of(const std::map<std::string, std::string>& files);

}  // namespace combu
