#pragma once
// The experiment as the program knows it, and the reader that makes it from evaluated JSON.
// docs/experiment.md describes the same fields for the person who writes the file.

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

// What must be so of a trial before one that depends on it starts.
enum class Condition {
  started,    // it has been started
  healthy,    // its health check passes
  succeeded,  // it has ended with exit code 0
  finished,   // it has ended
};
[[nodiscard]] std::string_view to_string(Condition condition);

struct Depend {
  std::string trial;
  Condition condition = Condition::started;
  std::string path;  // of this element in the evaluated file, for messages
  bool operator==(const Depend&) const = default;
};

struct Port {
  std::string host_ip;           // empty: all addresses
  std::uint16_t host = 0;        // 1 to 65535
  std::uint16_t container = 0;   // 1 to 65535
  std::string protocol = "tcp";  // tcp, udp or sctp
  auto operator<=>(const Port&) const = default;
};

struct Volume {
  std::string source;  // an absolute path on the host, or a named volume's name
  bool source_is_path = true;
  std::string target;  // absolute, in the container
  bool read_only = false;
  bool folder_meant = false;  // the file's spelling ended with a slash
  std::string path;           // of this element in the evaluated file, for messages
  bool operator==(const Volume&) const = default;
};

struct Healthcheck {
  std::vector<std::string> test;  // as Docker has it: {"CMD", …}, {"CMD-SHELL", text}, {"NONE"}
  Seconds interval{0};            // 0: the engine's default, for each of these
  Seconds timeout{0};
  Seconds start_period{0};
  int retries = 0;
  bool operator==(const Healthcheck&) const = default;
};

enum class Pull { missing, always, never };

// What an attempt holds while it lives. 0: nothing is asked for, and nothing is limited.
struct Slots {
  Cpus cpus;
  Bytes memory;
  std::vector<std::string> gpus;  // by Gpu::id; of a trial none before it is started
  bool operator==(const Slots&) const = default;
  Slots& operator+=(const Slots& other);
  Slots& operator-=(const Slots& other);
  [[nodiscard]] bool empty() const { return *this == Slots{}; }
  // Whether these could be taken out of `free`. What asks for nothing fits everywhere.
  [[nodiscard]] bool fit(const Slots& free) const;
};
// "1.5 CPUs, 512 MiB of memory, GPU 0"; "nothing" when empty.
[[nodiscard]] std::string to_string(const Slots& slots);
// The same, beside others: memory that differs, and reads alike, is told in bytes.
[[nodiscard]] std::string to_string(const Slots& slots, const Slots& others);

// Which GPUs an attempt is to have, each for itself alone.
struct GpuWish {
  std::size_t count = 0;
  bool all = false;              // of those that are meant, instead of a number
  std::vector<std::string> ids;  // only these are meant: the engine's names or numbers of them, or UUIDs
  Bytes memory;                  // only those that have so much
  std::string kind;              // only those whose model holds this, whatever the case: "a100"
  auto operator<=>(const GpuWish&) const = default;
  [[nodiscard]] bool empty() const { return count == 0 && !all; }
};
// "2 GPUs with 20 GiB or more"
[[nodiscard]] std::string to_string(const GpuWish& wish);

enum class Order { file, random };

// Why an attempt failed.
enum class Cause : std::uint8_t {
  none,
  error,           // it ended with an exit code other than 0
  oom,             // it, or a process in it, was killed for memory
  timeout,         // it took longer than its `timeout`, and was stopped
  start_deadline,  // it did not run within its `start_deadline`
  host_lost,       // its host, or the engine there, went away and took it along
  start,           // the engine would not start it
  stopped,         // somebody stopped it
  outputs,         // it did not leave what it was to leave
};
inline constexpr std::size_t k_cause_count = 9;
// "oom"; "none" for none.
[[nodiscard]] std::string_view to_string(Cause cause);

// When a failed attempt is followed by another.
struct Retries {
  int max = 0;  // attempts after the first; those lost with their host are not counted
  std::bitset<k_cause_count> on;
  Seconds pause{1};  // before the second attempt; each further one is `factor` times as long
  double factor = 2;
  Seconds pause_max{300};
  double grow_memory = 1;  // after oom the next attempt gets so many times the memory
  bool operator==(const Retries&) const = default;
};

// A file or a folder that is taken home when an attempt has ended.
struct Output {
  std::string path;      // absolute, in the container; not "/", and not within another of its trial
  bool required = true;  // else it may be missing
  Bytes size_max;        // 0: any
  bool operator==(const Output&) const = default;
};

enum class CollectOn { always, success };
struct Collect {
  std::string to;  // an absolute path of the person's, or "s3://BUCKET[/PREFIX]"
  CollectOn on = CollectOn::always;
  Seconds every{0};  // of what runs, too, so often; 0: only when it has ended
};

// Where a trial's numbers are found.
struct Metrics {
  bool json = false;          // in lines of its standard output that are JSON objects
  std::string pattern;        // in lines of its standard output: a regular expression (RE2) with named groups
  std::string file;           // absolute, in the container: JSON lines, or CSV where it is called *.csv
  std::string step = "step";  // the name of the number that is the step of the others
  bool operator==(const Metrics&) const = default;
  [[nodiscard]] bool empty() const { return *this == Metrics{}; }
};

// A file or a folder that is put into the container before it starts.
struct Input {
  std::string from;   // an absolute path of the person's; of a trial: one of its outputs, or a path in it
  std::string trial;  // whose output it is; empty: the person's own file
  std::string to;     // absolute, in the container
  std::string path;   // of its `from` in the evaluated file, for messages
  bool operator==(const Input&) const = default;
};

// Paths of this machine by the user's spelling: where each one led when its run began. Symbolic links are
// followed once, since a container may put other links into a mounted folder later.
using HostPaths = std::map<std::string, std::string>;

// Whether a trial that has succeeded before is not run again.
struct Cache {
  bool on = false;
  std::vector<std::string> key;  // only these fields count, but the image always does; none: all that matter
  bool operator==(const Cache&) const = default;
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

// What few of many trials have: the others spend a pointer on it. T() is as good as none, and none reads so.
template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(T value)  // NOLINT(misc-explicit-constructor): a value stands for itself
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

// The program of a container, and how it is stopped: `process` of the OCI runtime specification. An empty
// text stands for the image's own value.
struct Process {
  std::optional<std::vector<std::string>> entrypoint;  // nullopt: the image's own
  std::optional<std::vector<std::string>> cmd;         // nullopt: the image's own
  Pairs env;                                           // in order, no name twice; holds COMBU_PARAM_… too
  std::string workdir;
  std::string user;  // "uid[:gid]" or a name; "caller" has been resolved
  bool init = true;
  std::string stop_signal;
  std::optional<Seconds> stop_grace;  // nullopt: the engine's default
  bool operator==(const Process&) const = default;
};

// The settings of a container that do not belong to its program.
struct ContainerSettings {
  Pairs labels;
  std::vector<Port> ports;
  std::vector<Volume> volumes;
  std::vector<std::string> networks;  // none: the engine's default one
  Bytes shm_size;                     // of /dev/shm; 0: the engine's default
  std::string docker;                 // the `docker` section, a JSON object's text, or empty
  bool operator==(const ContainerSettings&) const = default;
};

struct Trial {
  std::string name;
  std::string image;
  Process process;
  ContainerSettings container;
  std::vector<Depend> depends;
  Rare<Healthcheck> healthcheck;  // none: the image's own
  bool service = false;  // stands beside the trials: its end is not waited for, `run --wait` stops it when
                         // its work is done
  Slots slots;           // reserved and enforced
  Rare<GpuWish> gpus;    // like these
  int priority = 0;      // of those that are ready the highest first
  Retries retries;
  Seconds timeout{0};         // of an attempt, from when it runs; 0: none
  Seconds start_deadline{0};  // from when the engine was asked to start it until it runs; 0: none
  std::vector<Output> outputs;
  std::vector<Input> inputs;
  Rare<Metrics> metrics;
  Bytes log_size_max{64LL << 20U};  // of what is kept of an attempt's log
  Cache cache;
  Pull pull = Pull::missing;
  std::string platform;        // "linux/arm64", or empty
  std::string params;          // a JSON object's text, or empty
  bool params_file = false;    // /combu/params.json is wanted in the container
  std::string env_fault = {};  // why `process.env` is not whole; see Caller::may_lack_env_files
  std::string path = {};       // of this trial in the evaluated file ("[17]", "trials[17]"), for messages
  bool operator==(const Trial&) const = default;
};
// Whether they mean the same, wherever in its file each stands.
[[nodiscard]] bool same(Trial one, Trial other);

struct Experiment {
  std::string name;  // the `experiment` field, else the file's absolute path: what `kill` finds it by
  std::string file;  // absolute path of the file; "FOLDER/-" for standard input
  std::vector<Trial> trials;     // in the file's order
  std::size_t parallel_max = 0;  // attempts alive at once, services not counted; 0: no limit
  Order order = Order::file;     // of trials with the same priority
  std::uint64_t seed = 0;        // of Order::random
  std::size_t failures_max = 0;  // when so many trials have failed, nothing more starts; 0: no limit
  Seconds deadline{0};           // of a run: then all is stopped; 0: none
  Collect collect;               // where outputs come home to, and of which attempts
  bool canary = false;           // one of each shape must succeed before the others start; see canary_shape()
  std::string
      defaults_docker;  // the `docker` section of `defaults`, which the trials' own hold, too; or empty
};

// What reading an experiment needs to know of the person who runs it.
struct Caller {
  std::string file;    // as in Experiment::file
  std::string folder;  // absolute: what relative paths in the file are relative to
  std::string home;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::function<std::optional<std::string>(const std::string&)> env;  // the caller's environment
  // An `env_file` that cannot be read is no error, but told in Trial::env_fault: for who starts nothing.
  bool may_lack_env_files = false;
};

// As far as the file could be read, and every error in it, in the file's order, each with its path as subject
// ("[17].ports[0].host", "trials[17]…", "defaults.env"). The experiment is fit for use only when there are
// none.
struct Reading {
  Experiment experiment;
  std::vector<Error> errors;
  // Each says what is legal but rarely meant, at most one for each kind: "solver-1 and 9 more: cmd: …".
  std::vector<std::string> warnings;
};

// `json` is what evaluate() gave. Reads env_file's files, and nothing else. Never throws for what the file
// holds.
[[nodiscard]] Reading read_experiment(std::string_view json, const Caller& caller);

// What is wrong with a name, for a message; nullopt: an experiment file may have it.
[[nodiscard]] std::optional<std::string> fault_of_trial_name(std::string_view name);
[[nodiscard]] std::optional<std::string> fault_of_experiment_name(std::string_view name);

// Where the engine sees host paths.
enum class EngineHost { this_machine, another };

// What is wrong with the volumes' host paths, with inputs of the person's own, and with where outputs are to
// come home to: one that cannot be read, is a file where a folder is meant, or is absent and, as far as can
// be seen, cannot be made (an input: is absent). On an engine of this machine also a folder that is absent
// and that trials can only read, unless the run itself may fill it. Makes nothing, throws nothing.
[[nodiscard]] std::vector<Error> check_host_paths(const Experiment& experiment, EngineHost host);

// The folders that must be there before the first start: each absent host folder of a volume is made (owned
// by the caller) and returned. Throws nothing; errors as above.
struct HostFolders {
  std::vector<std::string> made;
  std::vector<Error> errors;
};
[[nodiscard]] HostFolders make_host_folders(const Experiment& experiment, const Caller& caller);

// A command line split into words as a POSIX shell splits them: blanks, quotes and backslashes; nothing is
// expanded. Throws Error(invalid) for an unterminated quote.
[[nodiscard]] std::vector<std::string> split_words(std::string_view line);

// The first part of a command line that a shell would act on and split_words() takes as text: && || | < > ;
// outside of quotes, or a variable ($NAME, ${NAME}) outside of single quotes. Empty: there is none. Throws as
// split_words() does.
[[nodiscard]] std::string_view find_shell_syntax(std::string_view line);

// A condition on named values: "lr<0.01 && mode=fast". Each term is NAME = == != < <= > >= VALUE, each in
// quotes of either kind where it holds blanks, quotes or = < > & | (a name: !). Where both sides are numbers
// they are compared as numbers, otherwise as texts, and = and != take the patterns of a shell
// ("trial=solver-*"). A value that there is not fulfils != only.
class Filter {
 public:
  enum class Relation { equal, not_equal, less, at_most, greater, at_least };
  // `wanted`: what it is compared with, for a name that has several kinds of values.
  using Lookup = std::function<std::optional<std::string>(std::string_view name, std::string_view wanted)>;

  // Throws Error(invalid); its message has the text from the first term on that is none.
  explicit Filter(std::string_view text);
  // Throws Error(invalid) where a number is to be less or more than what is none.
  [[nodiscard]] bool matches(const Lookup& lookup) const;

 private:
  struct Term {
    std::string name;
    Relation relation;
    std::string value;
  };
  std::vector<Term> terms_;
};

// Equal for trials that fail for the same reasons: the image, the program, and the names of its options, but
// not their values.
[[nodiscard]] std::string canary_shape(const Trial& trial);

}  // namespace combu
