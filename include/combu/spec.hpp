#pragma once
// The experiment as combu's data types, and the reader that creates it from evaluated JSON.
// docs/experiment.md describes the same fields for users.

#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/base.hpp"

namespace combu {

// A condition that a trial must meet before a dependent trial starts.
enum class Condition {
  started,    // the process of the trial runs or has run
  healthy,    // the trial's health check has passed once
  succeeded,  // the trial has ended with exit code 0
  finished,   // the trial has ended with any exit code
};
[[nodiscard]] std::string_view to_string(Condition condition);

struct Depend {
  std::string trial;
  Condition condition = Condition::started;
  std::string path;  // location of this element in the evaluated file, for messages
  bool operator==(const Depend&) const = default;
};

struct Port {
  std::string host_ip;           // empty: all addresses of the host
  std::uint16_t host = 0;        // 1 to 65535
  std::uint16_t container = 0;   // 1 to 65535
  std::string protocol = "tcp";  // tcp, udp or sctp
  auto operator<=>(const Port&) const = default;
};

struct Volume {
  std::string source;  // absolute path on the host, or the name of a named volume
  bool source_is_path = true;
  std::string target;  // absolute path in the container
  bool read_only = false;
  bool folder_meant = false;  // true: `source` ends with a `/` in the experiment file
  bool remote = false;        // true: `source` is a path on the host where the attempt runs
  std::string path;           // location of this element in the evaluated file, for messages
  bool operator==(const Volume&) const = default;
};

struct Healthcheck {
  // the command of the check in Docker's form: {"CMD", …}, {"CMD-SHELL", text} or {"NONE"}
  std::vector<std::string> test;
  Seconds interval{0};  // for this and the next three members, 0 means the engine's default
  Seconds timeout{0};
  Seconds start_period{0};
  int retries = 0;
  bool operator==(const Healthcheck&) const = default;
};

enum class Pull { missing, always, never };

// CPUs, memory and GPUs that an attempt reserves while it runs. An amount of 0 reserves nothing and sets no
// limit.
struct Slots {
  Cpus cpus;
  Bytes memory;
  std::vector<std::string> gpus;  // values of Gpu::id; empty in a trial that has not started
  bool operator==(const Slots&) const = default;
  Slots& operator+=(const Slots& other);
  Slots& operator-=(const Slots& other);
  [[nodiscard]] bool empty() const { return *this == Slots{}; }
  // True if `free` has enough left for these slots. An amount of 0 always fits.
  [[nodiscard]] bool fit(const Slots& free) const;
};
// Returns for example "1.5 CPUs, 512 MiB of memory, GPU 0", or "nothing" if `slots` is empty.
[[nodiscard]] std::string to_string(const Slots& slots);
// Like to_string(slots), for a message that shows `others` as well. If the two amounts of memory differ but
// would be printed alike, prints `slots.memory` in bytes.
[[nodiscard]] std::string to_string(const Slots& slots, const Slots& others);

// The GPUs that a trial requests. A GPU serves only one attempt at a time.
struct GpuRequest {
  std::size_t count = 0;
  bool all = false;              // true: the trial requests all GPUs that match, and `count` is not used
  std::vector<std::string> ids;  // names, numbers or UUIDs of the only GPUs that match; empty: all GPUs match
  Bytes memory;                  // only GPUs with at least this much memory match
  // Only GPUs with this text in their model name match, such as "a100"; case is ignored.
  std::string kind;
  auto operator<=>(const GpuRequest&) const = default;
  [[nodiscard]] bool empty() const { return count == 0 && !all; }
};
// Returns for example "2 GPUs with 20 GiB or more".
[[nodiscard]] std::string to_string(const GpuRequest& request);

enum class Order { file, random };

// Why an attempt failed.
enum class Cause : std::uint8_t {
  none,
  error,           // the attempt's exit code is not 0
  oom,             // a process of the attempt was killed because memory ran out
  timeout,         // the attempt ran longer than its `timeout`, and combu stopped it
  start_deadline,  // the attempt did not run within its `start_deadline`
  host_lost,       // the attempt was lost because its host or the host's engine failed
  start,           // the engine refused to start the attempt
  stopped,         // a user stopped the attempt, or the run's `deadline` passed
  outputs,         // a required output is missing, or an output cannot be collected
};
inline constexpr std::size_t k_cause_count = 9;
// Returns the enumerator's name, for example "oom" or "none".
[[nodiscard]] std::string_view to_string(Cause cause);

// When combu retries a failed attempt.
struct Retries {
  int max = 0;  // maximum number of retries; retries after the loss of a host do not count
  std::bitset<k_cause_count> on;
  Seconds pause{1};  // pause before the second attempt; each later pause is `factor` times the previous one
  double factor = 2;
  Seconds pause_max{300};
  double grow_memory = 1;  // after the cause `oom`, combu multiplies the trial's memory by this factor
  bool operator==(const Retries&) const = default;
};

// A file or folder that combu collects when an attempt has ended.
struct Output {
  // Absolute path in the container; not "/", and not inside another output of the trial. If `in_scratch` is
  // set, the path begins at the attempt's scratch folder.
  std::string path;
  bool required = true;  // false: the output may be missing
  Bytes size_max;        // 0: no limit
  bool in_scratch = false;
  bool operator==(const Output&) const = default;
  // Returns the path as Engine::copy_out() expects it: absolute, or relative to the scratch folder.
  [[nodiscard]] std::string path_in_container() const { return in_scratch ? path.substr(1) : path; }
};

enum class CollectOn { always, success };
struct Collect {
  std::string to;  // an absolute path on this machine, or "s3://BUCKET[/PREFIX]"
  CollectOn on = CollectOn::always;
  // interval at which combu also collects from running attempts; 0: combu collects only from ended attempts
  Seconds every{0};
};

// The places where combu finds a trial's metrics.
struct Metrics {
  bool json = false;    // true: lines of standard output that are JSON objects hold metrics
  std::string pattern;  // regular expression (RE2) for lines of standard output; each named group is a metric
  // Path of a file of metrics in the container: absolute, or relative to the attempt's scratch folder. The
  // format of the file is CSV if the name ends with ".csv", else JSON lines.
  std::string file;
  // Name of the metric that is the step of the other metrics in the same line.
  std::string step = "step";
  bool operator==(const Metrics&) const = default;
  [[nodiscard]] bool empty() const { return *this == Metrics{}; }
  [[nodiscard]] bool are_in_output() const { return json || !pattern.empty(); }
};

// A file or folder that combu stages into the container before the container starts.
struct Input {
  std::string from;   // absolute path: on this machine, or in the container of `trial` (an output or a path
                      // inside one)
  std::string trial;  // the trial that writes the output; empty: `from` is on this machine
  std::string to;     // absolute path in the container; see `in_scratch`
  std::string path;   // location of the input's `from` in the evaluated file, for messages
  bool in_scratch = false;  // true: `to` begins at the attempt's scratch folder
  bool operator==(const Input&) const = default;
  // Returns `to` as an absolute path, or as a path relative to the scratch folder.
  [[nodiscard]] std::string path_in_container() const { return in_scratch ? to.substr(1) : to; }
};

// Maps each path on this machine from the experiment file to its form without symbolic links, as resolved at
// the beginning of the run. combu resolves the links only once, because a container may later replace links
// in a mounted folder.
using HostPaths = std::map<std::string, std::string>;

// Where combu finds the value of a secret. Exactly one of `file`, `variable`, `command` and `object` is set.
struct SecretSource {
  std::string name;
  std::string file;                  // absolute path on this machine
  std::string variable;              // of the environment of the process that starts trials
  std::vector<std::string> command;  // a program and its arguments; the value is its standard output
  // The Secret of the cluster that has the value, and the key in it. combu does not read this value.
  std::string object;
  std::string key;
  std::string path;  // location of the source in the evaluated file, for messages
  bool operator==(const SecretSource&) const = default;
};

// A secret that a trial gets, as a file or as an environment variable.
struct Secret {
  std::string source;          // SecretSource::name
  std::string target;          // absolute path of the file in the container; empty: `variable` is set
  std::string variable;        // name of the environment variable; empty: `target` is set
  bool is_in_cluster = false;  // SecretSource::object is set
  std::string path;            // location of this element in the evaluated file, for messages
  bool operator==(const Secret&) const = default;
};

// If `on`, combu skips a trial for which an equal trial has already succeeded.
struct Cache {
  bool on = false;
  // fields that, like the image, must be equal for a cache hit; empty: all fields that affect the result
  std::vector<std::string> key;
  bool operator==(const Cache&) const = default;
};

// The warm containers ("workers") in which the attempts of a trial run, instead of a container for each
// attempt.
struct WorkerSettings {
  bool on = false;
  std::size_t count = 0;        // maximum number of workers; 0: as many as the slots allow
  std::size_t concurrency = 1;  // maximum number of attempts at once in one worker
  // Another worker replaces a worker after this number of attempts, or at this age; 0: no limit.
  std::size_t trials_max = 0;
  Seconds age_max{0};
  Seconds idle{600};  // a worker without slots ends after this time without attempts
  bool operator==(const WorkerSettings&) const = default;
};
// The names of the containers of workers begin with this text, and the names of trials do not.
inline constexpr std::string_view k_worker_name_prefix = "combu-worker-";

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Optional member that few trials set. An unset Rare uses the memory of one pointer. An unset Rare has the
// value T(), and a value equal to T() is stored as unset.
template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(T value)  // NOLINT(misc-explicit-constructor): a T converts to its Rare
      : value_(value == T() ? nullptr : std::make_unique<T>(std::move(value))) {}
  Rare(const Rare& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Rare(Rare&&) noexcept = default;
  Rare& operator=(Rare other) noexcept {
    value_ = std::move(other.value_);
    return *this;
  }
  ~Rare() = default;

  explicit operator bool() const { return value_ != nullptr; }
  const T& operator*() const {
    static const T k_none;
    return value_ ? *value_ : k_none;
  }
  const T* operator->() const { return &**this; }
  operator const T&() const { return **this; }  // NOLINT(misc-explicit-constructor): as above
  bool operator==(const Rare& other) const { return **this == *other; }

 private:
  std::unique_ptr<T> value_;
};

// The program of a container, and how to stop it (`process` of the OCI runtime specification). An empty
// string means the image's own value.
struct Process {
  std::optional<std::vector<std::string>> entrypoint;  // nullopt: the image's own entrypoint
  std::optional<std::vector<std::string>> cmd;         // nullopt: the image's own command
  Pairs env;  // environment variables in order, each name once, including COMBU_PARAM_…
  std::string workdir;
  // "uid[:gid]" or a user's name; the reader has replaced the value "caller" by the caller's ids
  std::string user;
  bool init = true;
  std::string stop_signal;
  std::optional<Seconds> stop_grace;  // nullopt: the engine's default
  bool operator==(const Process&) const = default;
};

// A program of combu's own that the engine puts into a container. The experiment file has no such field.
struct ProvidedProgram {
  std::string path;  // absolute path in the container; the program is alone in its folder
  // The bytes of the program. It must be a binary: every user may execute it, but only root may read it.
  std::string content;
  std::string platform = {};  // for which the program is built; empty: that of this machine
  // Absolute path of a folder on the host's disk. The folder contains only the empty folder `w`, which every
  // user may write to.
  std::string folder;
};

// The settings of a container other than its program.
struct ContainerSettings {
  Pairs labels;
  std::vector<Port> ports;
  std::vector<Volume> volumes;
  std::vector<std::string> networks;  // empty: the engine's default network
  Bytes shm_size;                     // size of /dev/shm; 0: the engine's default
  std::string docker;                 // the `docker` section as JSON text of an object, or empty
  std::string kubernetes;             // the `kubernetes` section as JSON text of an object, or empty
  Rare<std::vector<Secret>> secrets = {};
  std::shared_ptr<const ProvidedProgram> provided = nullptr;  // nullptr: none
  // `provided` is the first process, and runs the program of the trial when combu has sent it files or
  // secrets.
  bool awaits_delivery = false;
  // If `provided` is the first process and runs the program of the trial: the folders into which it writes
  // files before. Else empty.
  std::vector<std::string> written_folders = {};
  // The folders of the trial's outputs, if they must stay when the container dies, until they are collected.
  // Only with `provided` as the first process, which serves them when the engine has started the container
  // again. Else empty.
  std::vector<std::string> kept_folders = {};
  bool operator==(const ContainerSettings&) const = default;
};

struct Trial {
  std::string name;
  std::string image;
  Process process;
  ContainerSettings container;
  std::vector<Depend> depends;
  Rare<Healthcheck> healthcheck;  // unset: the image's own health check
  // true: the run does not wait for the end of this trial, and `run --wait` stops it once no trial needs it
  bool service = false;
  Slots slots;            // amounts that an attempt reserves, and that the engine enforces as limits
  Rare<GpuRequest> gpus;  // request for GPUs that an attempt reserves
  int priority = 0;       // ready trials with the highest priority start first
  Retries retries;
  // maximum time from the moment when an attempt begins to run until its end; 0: no limit
  Seconds timeout{0};
  // maximum time from the start request to the engine until the attempt runs; 0: no limit
  Seconds start_deadline{0};
  std::vector<Output> outputs;
  std::vector<Input> inputs;
  Rare<Metrics> metrics;
  // maximum number of bytes that combu stores of an attempt's log; 0: combu stores no log
  Bytes log_size_max{64LL << 20U};
  Cache cache;
  Rare<WorkerSettings> worker;  // unset: each attempt has a container of its own
  Pull pull = Pull::missing;
  std::string platform;  // for example "linux/arm64"; empty: the engine's default
  std::string params;    // JSON text of an object, or empty
  // True: combu puts the params into the container as /combu/params.json, or with `worker` as params.json in
  // the attempt's scratch folder.
  bool params_file = false;
  // why `process.env` is incomplete (see Caller::may_lack_env_files); empty: complete
  std::string env_fault = {};
  std::string path = {};  // location of this trial in the evaluated file, such as "trials[17]", for messages
  bool operator==(const Trial&) const = default;
  // True if combu stores the logs, or the metrics, of the trial's attempts.
  [[nodiscard]] bool has_telemetry() const { return log_size_max.count > 0 || metrics; }
  // True if files go into the container or come out of it.
  [[nodiscard]] bool moves_files() const {
    return !inputs.empty() || !outputs.empty() || params_file || !metrics->file.empty();
  }
  // True if a secret is an environment variable.
  [[nodiscard]] bool has_secret_variables() const;
  // True if each attempt has a container of its own, which keeps the attempt's log and files. If false, only
  // the run's owner stores them.
  [[nodiscard]] bool has_own_container() const { return !worker->on; }
};
// True if a worker gets the secret when it starts, so that all its attempts have the secret. The other
// secrets are environment variables, which an attempt gets when it starts.
[[nodiscard]] bool is_of_container(const Secret& secret);
// Returns a text that is equal for trials whose attempts can share workers: the settings of the workers, and
// everything that a container is made of except the program, its environment and labels.
[[nodiscard]] std::string worker_shape(const Trial& trial);
// True if both trials are equal apart from their locations in the evaluated file and their `env_fault`.
[[nodiscard]] bool same(Trial one, Trial other);

// Says what stays on the engine after the end of an attempt. `ended`: the ended attempt, after combu has
// stored it. `volume`: the folders of the outputs if the container dies before combu has collected them.
enum class Keep { none, ended, volume };

struct Experiment {
  // the `experiment` field or, if the field is absent, the absolute path of the file; `combu kill
  // --experiment` accepts it
  std::string name;
  std::string file;              // absolute path of the file; "FOLDER/-" for standard input
  std::vector<Trial> trials;     // all trials in the order of the file
  std::size_t parallel_max = 0;  // maximum number of simultaneous attempts, without services; 0: no limit
  Order order = Order::file;     // start order of trials with the same priority
  std::uint64_t seed = 0;        // for Order::random
  std::size_t failures_max = 0;  // once this many trials have failed, no further trial starts; 0: no limit
  Seconds deadline{0};           // maximum time of the run, after which combu stops all trials; 0: no limit
  Collect collect;               // where combu stores outputs, and from which attempts
  // One trial of each shape (see canary_shape()) must succeed before other trials of the shape start.
  bool canary = false;
  // The next four members concern only Kubernetes.
  Keep keep = Keep::none;
  // how long a container stays after the end of its attempt, if combu has not collected the files yet
  Seconds hold{3600};
  Seconds ttl{0};                  // maximum time that an attempt may run if no process stops it; 0: no limit
  bool isolates_networks = false;  // trials accept connections only from trials on the same networks
  std::vector<SecretSource> secrets;  // in the order of the file
  std::string defaults_kubernetes;    // the `kubernetes` section of `defaults` as JSON text, or empty
  std::string defaults_docker;  // the `docker` section of `defaults` as JSON text, or empty; each trial's
                                // section includes it
};

// Facts about the caller and the file that read_experiment() needs.
struct Caller {
  std::string file;    // see Experiment::file
  std::string folder;  // absolute path of the base folder for relative paths in the file
  std::string home;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  // Returns the value of a variable of the caller's environment.
  std::function<std::optional<std::string>(const std::string&)> env;
  // If true, the reader does not report an unreadable `env_file` as an error, but sets Trial::env_fault.
  // Commands that start no trial set this member.
  bool may_lack_env_files = false;
};

// Result of reading an experiment file. `errors` holds every error in the order of the file. The subject of
// an error (see Error::subject()) is the location of the fault in the evaluated file, for example
// "[17].ports[0].host" or "defaults.env". If `errors` is not empty, `experiment` is incomplete and must not
// be used.
struct Reading {
  Experiment experiment;
  std::vector<Error> errors;
  // Warnings about legal values that are probably mistakes, at most one for each kind. Each begins with the
  // trials and the field, for example "solver-1 and 9 more: cmd: …".
  std::vector<std::string> warnings;
};

// Reads the JSON that evaluate() returned. Opens no files except those that `env_file` names. Reports every
// fault of the input in Reading::errors instead of throwing.
[[nodiscard]] Reading read_experiment(std::string_view json, const Caller& caller);

// Returns the fault of a name as text for a message, or nullopt if the name is valid.
[[nodiscard]] std::optional<std::string> fault_of_trial_name(std::string_view name);
[[nodiscard]] std::optional<std::string> fault_of_experiment_name(std::string_view name);

// The machine on which the engine finds the host paths of volumes.
enum class EngineHost { this_machine, another };

// Checks the host paths of an experiment and returns an error for each fault. Ignores remote volumes. Creates
// nothing and does not throw. The host path of a volume must be readable. If the path ends with `/`, it must
// be a folder. If the host path is absent, its nearest existing parent folder must allow combu to create the
// path. If `host` is this_machine, the folder of a read-only volume may be absent only if a writable volume
// or the collected outputs can fill it. Each input file or folder of this machine must exist and be readable.
// `collect.to` must be a writable folder, or an absent folder that combu can create.
[[nodiscard]] std::vector<Error> check_host_paths(const Experiment& experiment, EngineHost host);

// make_host_folders() creates each absent host folder of the volumes, except remote ones, owned by the
// caller, and lists it in `made`. `errors` holds the faults in the form that check_host_paths() returns. The
// function does not throw.
struct HostFolders {
  std::vector<std::string> made;
  std::vector<Error> errors;
};
[[nodiscard]] HostFolders make_host_folders(const Experiment& experiment, const Caller& caller);

// Returns the words of a command line, split as a POSIX shell does: at blanks, with quotes and backslashes.
// Expands nothing. Throws Error(invalid) if a quote is not closed.
[[nodiscard]] std::vector<std::string> split_words(std::string_view line);

// Returns the first part of a command line that a shell would interpret but split_words() treats as text. A
// shell would interpret && || | < > ; outside quotes, and $NAME or ${NAME} outside single quotes. Returns an
// empty view if the line has no such part. Throws like split_words().
[[nodiscard]] std::string_view find_shell_syntax(std::string_view line);

// A condition on named values, for example "lr<0.01 && mode=fast". Each term has the form NAME OPERATOR
// VALUE. The operators are = == != < <= > >=. A name or value must be in single or double quotes if it
// contains blanks, quotes or any of = < > & |. A name must also be in quotes if it contains !. If both sides
// are numbers, they are compared as numbers, otherwise as text. For text, = and != accept shell patterns, for
// example "trial=solver-*". If a name has no value, its term holds only for the operator !=.
class Filter {
 public:
  enum class Relation { equal, not_equal, less, at_most, greater, at_least };
  // Returns the value of `name`, or nullopt if the name has no value. The term compares this value with
  // `wanted`. If `name` has several values, such as the ids of several GPUs, the function can return the
  // value that fits `wanted`.
  using Lookup = std::function<std::optional<std::string>(std::string_view name, std::string_view wanted)>;

  // Throws Error(invalid) if `text` is not a condition. The message quotes `text` from the first invalid term
  // on.
  explicit Filter(std::string_view text);
  // Calls `lookup` once for each term. Throws Error(invalid) if <, <=, > or >= compares a number with text
  // that is not a number.
  [[nodiscard]] bool matches(const Lookup& lookup) const;

 private:
  struct Term {
    std::string name;
    Relation relation;
    std::string value;
  };
  std::vector<Term> terms_;
};

// Returns a text that is equal for trials that probably fail for the same reasons. The text contains the
// image, the program and the names of its options, but not the options' values.
[[nodiscard]] std::string canary_shape(const Trial& trial);

}  // namespace combu
