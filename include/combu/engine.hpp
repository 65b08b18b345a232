#pragma once
// The interface Engine. An engine is where containers run. The functions of Engine deal with trials rather
// than containers, so that an engine can be a Docker Engine, a swarm, a cluster or a simulation. Every
// function of Engine blocks and may be called from many threads at once. If the stop token of a call is set,
// the call throws Error(cancelled); watch() returns instead.

#include <exception>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "combu/base.hpp"
#include "combu/spec.hpp"

struct archive;  // of libarchive

namespace combu {

// The value of a secret. It cannot be copied or printed by accident, and its memory is cleared at the end.
class SecretValue {
 public:
  // Clears `bytes`.
  explicit SecretValue(std::string&& bytes);
  SecretValue(SecretValue&&) noexcept = default;
  SecretValue& operator=(SecretValue&&) = delete;
  SecretValue(const SecretValue&) = delete;
  SecretValue& operator=(const SecretValue&) = delete;
  ~SecretValue();
  // Returns the value, only to pass it on to a trial: it must not be part of a message, a label, a hash, the
  // arguments of a process, or a file. Valid as long as this object.
  [[nodiscard]] std::string_view reveal() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::vector<char> bytes_;
};
// The values by SecretSource::name. Values of sources in a cluster are missing.
using SecretValues = std::map<std::string, SecretValue, std::less<>>;

// One execution of an experiment, with the data that an engine needs.
struct Run {
  RunId id;
  Experiment experiment;
  // The moment at which an earlier process began the run; nullopt: this process begins the run.
  std::optional<Instant> began_at = std::nullopt;
  HostPaths host_paths = {};
  // The values of the secrets of all trials that may start. nullptr in a process that starts no trial.
  std::shared_ptr<const SecretValues> secrets = nullptr;
};

// The values of a trial's secrets, without those of sources in a cluster. The views are valid as long as
// Run::secrets.
struct RevealedSecrets {
  std::vector<std::pair<std::string_view, std::string_view>> files;      // Secret::target, and the content
  std::vector<std::pair<std::string_view, std::string_view>> variables;  // Secret::variable, and its value
};
// Throws Error(refused) if the run does not know a value.
[[nodiscard]] RevealedSecrets reveal_secrets(const Run& run, const Trial& trial);

// A GPU of the engine's host that can be assigned to attempts.
struct Gpu {
  // The id by which attempts request the GPU: the name of a CDI device ("nvidia.com/gpu=0"), or the index
  // that NVIDIA's driver uses ("0").
  std::string id;
  std::string uuid;  // empty if unknown
  std::string kind;  // the model ("NVIDIA H100 80GB HBM3"); empty if unknown
  Bytes memory;      // 0 if unknown
  bool operator==(const Gpu&) const = default;
};
// True if `name` is the id or the UUID of this GPU. `name` may lack the CDI device class: for example, "0"
// means "nvidia.com/gpu=0".
[[nodiscard]] bool is_called(const Gpu& gpu, const std::string& name);

// How eagerly combu reads the usage and logs of attempts.
struct ReadingPace {
  // How long an attempt has run when combu first polls its usage and log. Later polls are rarer.
  Seconds polled_after{1};
  // Minimum pause between two polls of a run. With many long attempts, polls are then rarer than planned.
  Seconds poll_pause_min{0};
  std::size_t logs_max = 2;  // maximum number of logs of ended attempts that are read at once
};

struct Facts {
  std::string engine;  // name and version, such as "Docker Engine 20.10.24 (API 1.41)"
  std::string address;
  Slots capacity;  // CPUs and memory of the engine's host; no GPUs
  // When the engine was last started, by the engine's clock; nullopt if unknown.
  // An engine whose restart ends no attempt returns the epoch.
  std::optional<Instant> began_at;
  bool is_remote = false;  // the engine may run on another machine, where paths of this machine are not valid
  // True for the simulated engine: it runs no real containers, and its state is lost when this process ends.
  bool is_simulated = false;
  bool can_exec = false;  // the engine supports exec()
  // True if the engine itself chooses the host, CPUs and GPUs of each attempt, and start() returns Accepted.
  // `capacity` and gpus() are then empty.
  bool places_attempts = false;
  // For an engine that places attempts: the maximum number of attempts that should wait for a place at once.
  // An attempt with a host (Placement::host) has its place. More attempts would only load the engine. 0: no
  // limit.
  std::size_t pending_max = 0;
  ReadingPace reading;
};

enum class Phase {
  pending,  // the engine has accepted the attempt, which begins to run later
  created,  // the container exists, but has not run
  running,
  ended,
  gone,  // the container was removed; only watch() reports this phase
};
[[nodiscard]] std::string_view to_string(Phase phase);
// True if the attempt runs or has run.
[[nodiscard]] constexpr bool has_run(Phase phase) {
  return phase != Phase::pending && phase != Phase::created;
}

enum class Health { none, starting, healthy, unhealthy };
[[nodiscard]] std::string_view to_string(Health health);

// The resource usage of an attempt at one moment.
struct Usage {
  // Memory that the attempt uses at this moment. In TrialEntry::usage, the largest value that combu has
  // observed. Memory that the kernel can drop (the inactive part of the page cache) does not count.
  Bytes memory;
  Seconds cpu{0};  // CPU time since the attempt began
};

// How long an engine took to create a container, and how long it then took to start the container.
struct StartDuration {
  Seconds created{0};
  Seconds started{0};
};

// The place of an attempt on an engine that places attempts. All texts are single lines.
struct Placement {
  std::string host;            // where the attempt runs; empty: unknown
  std::string pending_reason;  // why a pending attempt does not run yet, in the engine's words
  // Set if the attempt has ended because the engine could not start it: the reason.
  std::string start_error;
  // Set if the engine has ended the attempt because it used more of its disk than it may: the reason.
  std::string limit_error;
  // Set if the first process of the container is a program of combu's own, which runs the trial's program
  // (ContainerSettings::written_folders): the text that this process has left at its end, else empty.
  std::optional<std::string> supervisor_report = std::nullopt;
  // ContainerSettings::awaits_delivery: the program may not have begun although the container runs.
  bool awaits_delivery = false;
  // The container has died, and the engine has started it again, or will do so: that process serves the
  // files that were kept (ContainerSettings::kept_folders).
  bool keeps_files = false;
  // The container has died, and the engine has started it again.
  bool is_restarted = false;
};

// The report of an engine about one attempt at one moment.
struct Observation {
  Key key;
  std::string experiment;  // Experiment::name of the attempt's run
  std::string file;        // Experiment::file of the attempt's run
  std::string id;          // the id that the engine gave the attempt, such as a container id
  std::string image;
  Phase phase = Phase::created;
  Placement placement;
  Health health = Health::none;
  std::optional<int> exit_code;  // set if the attempt has ended
  Instant created_at{};          // when the container was created; the epoch if unknown
  std::string status;            // the engine's description for people, such as "Up 3 minutes"
  bool service = false;          // Trial::service of the attempt's trial
  Slots slots;                   // the slots that the attempt holds
  // True if the attempt has ended, and the attempt or a process in it was killed for lack of memory.
  bool oom = false;
  // True if the attempt has ended, and was probably killed for lack of memory. Such an attempt has a memory
  // limit and was killed, but the engine reports no reason, and the engine's events show no signal.
  bool oom_likely = false;
  // True if the attempt has ended after a signal that was sent through the engine or by the engine.
  bool stopped = false;
  bool timed_out = false;  // true if the attempt has ended because the engine enforced Trial::timeout
  // If the attempt was lost because what it ran in has failed: the failure, as text for users. Else empty.
  std::string lost;
  // True if the attempt has ended, or is_supervised(), and the engine keeps its result until acknowledge().
  bool is_unacknowledged = false;
  // When the attempt began and ended, by the engine's clock. With ListDetail::full, ran_at is set if the
  // attempt has begun, and ended_at is set if it has ended.
  std::optional<Instant> ran_at;
  std::optional<Instant> ended_at;
  std::optional<StartDuration> start_took;  // set by start()
  // Set if the attempt has ended, and the engine has measured its usage: the CPU time and the largest memory.
  std::optional<Usage> usage;
  // content_digest() of each element of Trial::inputs, as start() staged the input.
  std::vector<std::string> inputs;
  // Set by start() if the trial has `cache`. An engine that places attempts sets it in reports about attempts
  // that run or have ended. Holds Preparation::digest of the container's image. Empty if the engine did not
  // report the digest.
  std::string digest;
};

// True if the first process of the attempt's container is a program of combu's own, which runs the program of
// the trial.
[[nodiscard]] inline bool is_supervised(const Observation& seen) {
  return seen.placement.supervisor_report.has_value();
}
// True if the trial describes such a container.
[[nodiscard]] inline bool is_supervised(const Trial& trial) {
  return trial.container.provided && !trial.name.starts_with(k_worker_name_prefix);
}

// True if the attempt runs, or is pending and will run. An attempt that was created but not started will not
// end.
[[nodiscard]] inline bool is_alive(const Observation& seen) {
  return seen.phase == Phase::pending || seen.phase == Phase::running;
}

// Selects attempts by their labels. A container without combu's labels is never selected. Empty fields do not
// restrict the selection.
struct Selector {
  std::string experiment;
  std::string file;  // selects every experiment that has been run from this file
  std::optional<RunId> run;
  std::vector<std::string> trials;
};

// The accuracy of a listing.
enum class ListDetail {
  basic,       // one request; the listing may lag behind changes for a moment
  consistent,  // also inspects each attempt that the listing shows as running
  full,        // inspects each attempt
};

// The program of an image, as the image's configuration names it.
struct ImageProgram {
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::string stop_signal;  // empty: SIGTERM
  std::string platform;     // for example "linux/amd64"; empty if unknown
  bool operator==(const ImageProgram&) const = default;
};

// Progress of prepare(). `image`: an image is being pulled. `network`: a network was created. `found`: the
// image `name` was found, and has the digest `digest`. `note`: `name` is a sentence for the user.
struct Preparation {
  enum class Kind { image, network, found, note };
  Kind kind = Kind::image;
  std::string name;
  Bytes done;  // pulled bytes, only for `image`; `total` is 0 while the size of the image is unknown
  Bytes total;
  bool finished = false;
  std::string platform = {};  // only for `found`: Trial::platform
  // Only for `found`: "NAME@sha256:…" of the registry's manifest, or the engine's own id of the image.
  std::string digest = {};
  ImageProgram program = {};  // only for `found`
};

// Returns the part after the `@` of a reference like Preparation::digest, such as "sha256:…". Returns the
// whole text if it has no `@`.
[[nodiscard]] std::string digest_in(const std::string& reference);

struct Released {
  std::size_t attempts = 0;
  std::size_t networks = 0;
  std::set<std::string> experiments;  // the experiments of the selected attempts
  std::vector<Error> left;            // one error for each attempt or network that could not be removed
  // Networks that the engine keeps because containers use them; these networks are not errors.
  std::vector<Error> in_use;
};

// Callbacks of release(); each may be empty.
struct ReleaseCallbacks {
  // Called once with the selected attempts, before release() removes any of them. Returns the attempts to
  // keep. release() changes neither these attempts nor their networks.
  std::function<std::set<Key>(const std::vector<Observation>&)> found = {};
  // Called after each removal with the number of attempts removed so far, and the total number of attempts to
  // remove. The calls come from several threads, but one at a time.
  std::function<void(std::size_t, std::size_t)> removed = {};
};

struct LogOptions {
  bool follow = false;
  std::optional<std::int64_t> tail;  // number of last lines; nullopt: all lines
  std::optional<Instant> since;      // only pieces that were written at this time or later
  // True: each piece has its time, and repeated calls of logs() split the log into the same pieces.
  bool timed = false;
  // Only with Placement::is_restarted: the log of the container that has died.
  bool before_restart = false;
};
enum class LogStream { out, err };
// One piece of a log, as the engine stored it: a line with its line end, or a part of a line. A timed line
// that is too long for one piece is split into several pieces with the same time.
struct LogPiece {
  LogStream stream = LogStream::out;
  std::string_view text;  // valid only during the callback
  Instant at{};           // time of the piece by the engine's clock; set if LogOptions::timed
  // The engine has lost a part of the log before this piece, whose text is empty.
  bool is_after_gap = false;
};
using OnLogPiece = std::function<void(const LogPiece&)>;

// watch() reports Watching when its subscription begins. watch() may have missed changes before this moment.
struct Watching {};
using Change = std::variant<Watching, Observation>;

// A limit of the engine: of these trials, at most `attempts_max` attempts can run at once.
struct StartLimit {
  std::size_t attempts_max = 0;
  // Indices into Experiment::trials. A trial occurs in at most one limit.
  std::vector<std::size_t> trials;
};

// Results of start().
struct Running {
  Observation observation;  // the attempt, which may have ended already if an earlier call started it
};
// Nothing was started, because another attempt holds one of the slots. This attempt may belong to another run
// or user.
struct TakenByOther {
  Observation holder;
};
// The engine starts the attempt as soon as it has a place for it. watch() and list() report the attempt.
struct Accepted {};
// Nothing was started, because a quota of the engine is used up.
struct NoRoom {
  std::string reason;  // one line, equal for all attempts that lack the same room
  Seconds retry_after{0};
};
using StartResult = std::variant<Running, TakenByOther, Accepted, NoRoom>;

// The standard input and output of a program that exec() has started. One thread may call read() while
// another thread calls write(). The destructor closes the stream.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Blocks until bytes of the program's standard output have arrived, and returns their number. Returns 0 if
  // the program has closed its standard output, or after close(). Throws Error(unavailable) if the connection
  // breaks, and Error(corrupt) if the engine's answer is malformed. Throws Error(refused) if the engine
  // reports only now that the program cannot be started.
  [[nodiscard]] virtual std::size_t read(std::span<char> buffer) = 0;
  // Blocks until all bytes are passed on. Throws Error(unavailable) if the program or the engine does not
  // take the bytes, and after close().
  virtual void write(std::string_view bytes) = 0;
  // Ends the connection, and makes a blocked read() or write() return. May be called from any thread.
  virtual void close() = 0;
  // Returns the end of the text that the program has written to its standard error, or the engine's text if
  // the program cannot be started. If there is no such text and the program has ended, may return how the
  // program has ended. The result is one line, in which control characters are escaped.
  [[nodiscard]] virtual std::string errors() = 0;
};

// A result of diagnose().
struct Finding {
  enum class Kind { good, warning, fault };
  Kind kind = Kind::good;
  std::string subject;  // the part that was examined, such as "socket" or "disk"
  std::string text;     // the observation, as one line
  // Says what the user can do. Empty if there is nothing to do. Has several lines if it contains text to
  // copy, and is otherwise one line.
  std::string remedy = {};
  bool is_unreachable = false;  // for a fault: the engine does not answer
};
// Returns "ok", "warning" or "fault".
[[nodiscard]] std::string_view to_string(Finding::Kind kind);
// Returns a fault with the error's subject and message as its text. Sets Finding::is_unreachable if the
// engine has not answered, or if the server that answered is no engine.
[[nodiscard]] Finding fault_of(std::string subject, const Error& error, std::string remedy = {});
// Returns the finding about the disk that contains `folder`. It is a fault below 1 GiB of free space or below
// 2 % (at most 10 GiB), and a warning below 10 % (at most 50 GiB). `remedy`: how to free space; ignored if
// there is enough.
[[nodiscard]] Finding disk_finding(const std::string& folder, Bytes free, Bytes total, std::string remedy);

class Engine {
 public:
  virtual ~Engine() = default;

  // Asks the engine for its version, its capacity and the time of its last start.
  [[nodiscard]] virtual Facts facts(std::stop_token stop) = 0;

  // Examines everything that attempts on this engine need, and returns the findings in the order of the
  // examination. If the engine does not answer, the result has a fault for this. Starts no attempt. Throws
  // only Error(cancelled). The default implementation calls facts().
  [[nodiscard]] virtual std::vector<Finding> diagnose(std::stop_token stop);

  // Returns the GPUs that can be assigned to attempts, in the host's order; empty if the engine knows none.
  [[nodiscard]] virtual std::vector<Gpu> gpus(std::stop_token stop) = 0;

  // Returns an error for each part of `run` that the engine would refuse. Examples are a name or port that a
  // container outside of this experiment uses, and a field that the engine does not support. The subject of
  // each error is the trial or the path of the field. Uses one listing instead of one request for each trial.
  // Changes nothing.
  [[nodiscard]] virtual std::vector<Error> check(const Run& run, std::stop_token stop) = 0;

  // Returns the limits that the engine has for trials of `run`. `capacity`: the slots that the run may use.
  // Does not ask the engine: equal arguments give equal results.
  [[nodiscard]] virtual std::vector<StartLimit> limits(const Run& /*run*/, const Slots& /*capacity*/) {
    return {};
  }

  // True if start() stages the inputs of every container, also of workers, and copy_out() reads the files of
  // ended attempts. Does not ask the engine.
  [[nodiscard]] virtual bool copies_files() const { return true; }

  // True if start() gives a trial with a container of its own its secrets, or ignores them. False if the
  // caller has to give them to the program in the container. Does not ask the engine.
  [[nodiscard]] virtual bool gives_secrets() const { return true; }

  // Looks up each distinct image reference once, and pulls the images that are needed, several at a time.
  // Then creates missing networks, unless there were errors. Returns one error for each image or network that
  // is not available. Repeatable. `on_progress` may be called from several threads at once.
  [[nodiscard]] virtual std::vector<Error> prepare(const Run& run,
                                                   const std::function<void(const Preparation&)>& on_progress,
                                                   std::stop_token stop) = 0;

  // Starts an attempt. An engine that places attempts returns Accepted or NoRoom. Another engine returns
  // Running, or TakenByOther if other attempts hold one of trial.slots.gpus, or leave fewer CPUs or less
  // memory free than trial.slots requires. If the answer to an earlier call was lost, a repeated call adopts
  // the container of that call. If an earlier attempt of the same trial and run has ended, start() removes
  // its container. All trial.inputs must be paths on this machine (see find_inputs()); start() stages them
  // before the attempt runs. Throws Error: refused, conflict, not_found, unavailable, timeout.
  virtual StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) = 0;

  // Sends the attempt's stop signal and, after `grace`, the kill signal. `grace`: nullopt means the attempt's
  // own grace period. If the attempt is absent or has ended, stop() succeeds.
  virtual void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) = 0;

  // Returns the existing attempts, in no particular order. With `consistent` or `full`, the result is the
  // true state at some moment after the call began. The result includes every change before that moment, even
  // if watch() lost the change.
  [[nodiscard]] virtual std::vector<Observation> list(const Selector& selector, ListDetail detail,
                                                      std::stop_token stop) = 0;

  // Reports changes as they happen. Returns if `stop` is set; throws Error(unavailable) if the stream breaks.
  // Changes are hints: they may be lost, repeated or reordered. After each Watching, the caller should call
  // list() to find the changes that watch() missed. Calls of `on_change` do not overlap, but may come from
  // several threads. watch() throws the exceptions of `on_change`.
  virtual void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
                     std::stop_token stop) = 0;

  // Returns the usage of the attempt with this Observation::id; nullopt if the attempt does not run or the
  // engine does not report its usage.
  [[nodiscard]] virtual std::optional<Usage> usage(const std::string& id, std::stop_token stop) = 0;

  // Passes the attempt's log to `on_piece` piece by piece, in the engine's order. If options.follow is set,
  // blocks until the attempt has ended. Throws Error: not_found if there is no such attempt, refused if the
  // engine keeps no log.
  virtual void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
                    std::stop_token stop) = 0;

  // Passes the file or folder at `path` to `on_bytes` as a tar archive, piece by piece. `path` must be an
  // absolute path in the attempt's container. In the archive of a folder, each path begins with the folder's
  // name. If `path` is a symbolic link, the archive contains the target of the link. Returns false if the
  // attempt has no such path. Throws Error(not_found) if there is no such attempt, and Error(invalid) if the
  // attempt itself made the path unreadable, for example by a loop of links. Throws Error(unavailable) if the
  // archive was cut off, and Error(lost) if the attempt's files were lost because its host failed.
  [[nodiscard]] virtual bool copy_out(const Key& key, const std::string& path,
                                      const std::function<void(std::string_view)>& on_bytes,
                                      std::stop_token stop) = 0;

  // Starts a program in the container of a running attempt, as the container's user, and connects to its
  // standard input and output. Does not wait for the program's end. Throws Error: not_found if there is no
  // such attempt, conflict if the attempt does not run or is paused, refused if the program cannot be
  // started. An engine without Facts::can_exec throws Error(refused). The engine must exist longer than the
  // stream.
  [[nodiscard]] virtual std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                                         std::stop_token stop);

  // Tells the engine that these attempts have ended, and that their ends, logs and outputs are stored, so
  // that the engine may forget them. Returns at once. A repeated or unknown key has no effect.
  virtual void acknowledge(const std::vector<Key>& /*keys*/) {}

  // Removes every selected attempt, running or not, unless ReleaseCallbacks::found keeps it. If the selector
  // names no trials, release() also removes the networks that were created for the selected experiments or
  // runs and are empty. It also removes an empty network that the removed attempts used, if the network's
  // experiment has no attempts left. release() removes nothing else. If there is nothing to remove, release()
  // succeeds.
  virtual Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                           std::stop_token stop) = 0;
};

// ---- Decorators

// Settings of with_retry(). A call that failed with `unavailable` or `timeout` is repeated after growing
// pauses, until `give_up` has passed since the first failure of the call. If watch() breaks, with_retry()
// subscribes again, and reports a new Watching each time. Calls of facts(), diagnose(), gpus(), usage(),
// exec(), logs() and copy_out() are not repeated.
struct RetryPolicy {
  Seconds pause{0.2};
  double factor = 2;
  Seconds pause_max{3};
  Seconds give_up{60};
};
// `on_retry` (may be empty) is called before each repeat with the error and the pause.
[[nodiscard]] std::unique_ptr<Engine> with_retry(Engine& engine, RetryPolicy policy, Clock& clock,
                                                 std::function<void(const Error&, Seconds)> on_retry = {});

// Writes one line to `out` when a call ends: seconds since the decorator was created, name of the function,
// subject of the call (such as the trial), duration in seconds, result.
[[nodiscard]] std::unique_ptr<Engine> with_trace(Engine& engine, Clock& clock, std::ostream& out);

// ---- Logs with timestamps

// Maximum size in bytes of a piece of a log with timestamps. A longer text is split into pieces of this size
// and a last, smaller piece, all with the same timestamp. The cuts depend only on the text, so each reading
// of the log returns the same pieces.
inline constexpr std::size_t k_timed_piece_max = std::size_t{64} << 10U;

// Parses messages of the engine's log. Each message is a timestamp, a blank and a text. Buffers at most one
// piece.
class TimedMessage {
 public:
  explicit TimedMessage(OnLogPiece on_piece) : on_piece_(std::move(on_piece)) {}

  // Adds bytes of the message. Throws Error(corrupt) with an empty subject if the timestamp cannot be parsed.
  void feed(LogStream stream, std::string_view bytes);
  // Ends the message and passes on the rest of its text. If the message has no text, passes on one empty
  // piece. The next feed() begins another message. Throws Error(corrupt) with an empty subject if the message
  // has no timestamp.
  void end(LogStream stream);
  [[nodiscard]] bool is_open() const { return at_ || !held_.empty(); }

 private:
  void feed_text(LogStream stream, std::string_view text);

  OnLogPiece on_piece_;
  std::optional<Instant> at_;
  // Before the message's timestamp is complete, its bytes; afterwards, the text that was not passed on yet.
  std::string held_;
  bool has_delivered_ = false;
};

// Splits a log that has only one stream. Each line is one message that begins with a timestamp. An example is
// the log of a container with a terminal.
class TimedLines {
 public:
  explicit TimedLines(OnLogPiece on_piece) : message_(std::move(on_piece)) {}

  // Throws Error(corrupt) with an empty subject if the log's format is invalid.
  void feed(std::string_view bytes);
  // Passes on a last line that has no line end.
  void end();

 private:
  TimedMessage message_;
};

// ---- Archives

struct ArchiveEntry {
  std::string path;  // the path of a folder ends with "/"
  int mode = 0;      // the permission bits
  std::string_view content = {};
};
// Returns a tar archive of these files and folders, which belong to root. Throws Error(invalid) if the
// archive cannot be made.
[[nodiscard]] std::string tar_of(const std::vector<ArchiveEntry>& entries);

// Returns a tar archive of `files`, a map from paths ("combu/params.json") to contents. The files are
// readable by everyone. The archive also contains the parent folders of the files. Throws Error(invalid) if
// the archive cannot be made.
[[nodiscard]] std::string tar_of(const std::map<std::string, std::string>& files);

// Returns the next bytes of a stream, or an empty view at its end. Blocks until bytes are available. The view
// is valid until the next call.
using NextBytes = std::function<std::string_view()>;

// Gives the bytes of a tar archive to libarchive. `next` must outlive this object, and this object the
// reader.
class ArchiveSource {
 public:
  explicit ArchiveSource(const NextBytes& next) : next_(next) {}
  // Opens a reader of libarchive. Returns libarchive's status.
  [[nodiscard]] int open(archive* reader);
  // An exception of `next` cannot pass through libarchive, which reports an error instead. Then throws the
  // exception.
  void rethrow() const {
    if (fault_) std::rethrow_exception(fault_);
  }

 private:
  const NextBytes& next_;
  std::exception_ptr fault_;
};

// Calls engine.copy_out(), and calls `reader` in a second thread, which reads the archive while the engine
// sends it. Blocks until both have ended. If `reader` returns or throws before the end of the archive, at
// most 9 MiB more are requested. Returns false if the attempt has no such path; `reader` is not called then.
// Throws the exception of `reader`. If copy_out() throws, NextBytes throws the same exception after the last
// bytes; a reader that has already returned does not need them.
[[nodiscard]] bool read_archive(Engine& engine, const Key& key, const std::string& path,
                                const std::function<void(const NextBytes& next)>& reader,
                                const std::stop_token& stop);

// Like read_archive(), for the content of a regular file that was last changed at `modified`. Also throws
// Error(invalid) if `path` is no regular file, and Error(corrupt) if the archive is invalid or incomplete;
// NextBytes throws it after the last valid bytes.
[[nodiscard]] bool read_file(Engine& engine, const Key& key, const std::string& path,
                             const std::function<void(const NextBytes& next, Instant modified)>& reader,
                             const std::stop_token& stop);

}  // namespace combu
