#pragma once
// A simulation of one engine on one host, with its own clock and seeded faults. The simulation fulfils the
// contracts of Engine: the conformance tests run on the simulated engine as on real engines. The simulated
// engine also serves the tests of the start order, of faults and of large experiments.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"

namespace combu {

// CPUs and memory of the simulated host.
inline constexpr Slots k_simulated_capacity{Cpus{8'000'000'000}, Bytes{std::int64_t{16} << 30}};

// Of a simulation that places attempts.
inline constexpr std::size_t k_simulated_pending_max = 10;

// The probability of each fault, 0 to 1, for one call, one change or one attempt.
struct Faults {
  double refused = 0;          // the engine refuses a start and each repeat of this start
  double cut_before = 0;       // a call fails before the engine has done anything
  double answer_lost = 0;      // the engine carries out a call, but the answer is lost
  double change_dropped = 0;   // a change is not reported
  double change_repeated = 0;  // a change is reported twice
  double change_held = 0;      // a change is reported after the change that follows it
  double out_of_memory = 0;    // an attempt ends after half of its duration, with exit code 137
  // An attempt of another run takes the slots of a trial just before the trial starts, and holds these slots
  // for a while.
  double slots_taken = 0;
  // After a call, the engine is down for `crash_for`. Running attempts are killed unless `live_restore` is
  // set.
  double crash = 0;
  Seconds crash_for{2};
  bool live_restore = false;
  // Of workers (see combu/workers.hpp): the connection to the agent breaks at a frame, or in it; a frame of
  // the agent is corrupt; the container of a worker is killed while an attempt runs.
  double agent_stream_cut = 0;
  double agent_garbage = 0;
  double agent_killed = 0;
};

struct SimulationOptions {
  std::uint64_t seed = 1;
  Seconds start_takes{0.05};  // mean duration of a start; each start takes 0.5 to 1.5 times this mean
  Seconds trial_takes{1};     // duration of a command that the simulation does not know
  std::size_t gpus = 0;       // number of GPUs "0", "1", …, each with 16 GiB
  // True: like a cluster, the engine places attempts (Facts::places_attempts). An attempt is pending for
  // `start_takes`, and then until CPUs and memory are free. `attempts_max`: quota of pending and
  // running attempts; 0: no quota.
  bool places = false;
  std::size_t attempts_max = 0;
  // Number of simulated seconds in one real second; 0: the simulation skips every wait. Only open_simulated()
  // uses this option.
  double speed = 1;
  Faults faults;
};

// Parses "simulated:" or "simulated:?seed=3&speed=0&start=0.01&trial=2&refused=0.1&…". Options have the names
// of members of SimulationOptions or Faults, except `start` (start_takes) and `trial` (trial_takes). Throws
// Error(invalid), which names the option, if an option is unknown or its value is malformed.
[[nodiscard]] SimulationOptions parse_simulation(std::string_view address);

struct Script;           // the effects of a trial's command
struct AgentConnection;  // a connection to the agent of a worker
enum class AgentDue;
class SimulatedAgent;

// The simulated engine. The behaviour of World depends only on the options and on the calls. World has no
// threads and no clock: callers pass the time, which must never go back.
//
// A trial's command determines what the trial does:
// - `sleep N`, `exit N`, `true`, `false`
// - `echo TEXT`, also with `>&2` or `> /file`
// - `cat FILE`, also with `> /file`; the file is an input, or was written earlier
// - `eat 600m`: uses 600 MiB of memory; the attempt is killed if the trial has less memory
// - several of the commands above, joined by `;` or `&&`; they may follow `sh -c`
// - a command that begins with `/no/` cannot be started
// - any other command takes options.trial_takes and exits with 0
//
// A healthcheck fails if its test contains "false" or "exit 1", and passes otherwise. The result of a
// healthcheck is known after its interval (default 1 s). Images with "missing" or "absent" in their name are
// not available.
//
// A container that runs combu's agent (see Trial::container) is a worker: it runs until it is stopped, and
// runs attempts as combu/agent.hpp says. Each attempt does what its program says, as above.
class World {
 public:
  explicit World(const SimulationOptions& options);

  [[nodiscard]] const SimulationOptions& options() const { return options_; }
  // Returns a random duration for the next start.
  [[nodiscard]] Seconds draw_latency();

  [[nodiscard]] std::vector<Gpu> gpus() const;

  // The functions of Engine, with the contracts in engine.hpp. These functions take effect at once, at the
  // time `now`.
  [[nodiscard]] std::vector<Error> check(const Run& run, Instant now);
  [[nodiscard]] std::vector<Error> prepare(const Run& run, Instant now);
  struct StagedInputs {
    std::map<std::string, std::string> files;  // contents by path; only the beginning of a large file
    std::vector<std::string> digests;
  };
  StartResult start(const Run& run, const Trial& trial, int attempt, Instant now, StagedInputs inputs = {});
  // Sends the stop signal at the time `now`, which ends the attempt. Returns false if the attempt does not
  // run.
  bool stop(const Key& key, Instant now);
  [[nodiscard]] std::vector<Observation> list(const Selector& selector, Instant now);
  Released release(const Selector& selector, const std::set<Key>& kept, Instant now);
  // Returns the usage of an attempt. Each attempt keeps one CPU busy, and uses the memory of its command
  // `eat`, at least one MiB.
  [[nodiscard]] std::optional<Usage> usage(const std::string& id, Instant now);
  struct LogLine {
    LogStream stream;
    std::string text;
  };
  struct Log {
    std::vector<LogLine> lines;  // all lines; the attempt writes them when it starts
    Instant written{};
    bool complete = false;  // true if the attempt will write no more lines
  };
  // Throws Error(not_found) if there is no such attempt.
  [[nodiscard]] Log log(const Key& key, Instant now);
  // Returns the contents of the files that the attempt has written at or below `path`. The keys are paths
  // relative to the folder that contains `path`. All files are written when the attempt starts. Throws
  // Error(not_found) if there is no such attempt.
  [[nodiscard]] std::map<std::string, std::string> files(const Key& key, const std::string& path,
                                                         Instant now);

  // Connects to the agent of a worker, if `argv` is the agent's program with the arguments `join` and the
  // agent's folder. Throws Error(refused) for any other program.
  [[nodiscard]] std::shared_ptr<AgentConnection> exec(const Key& key, const std::vector<std::string>& argv,
                                                      Instant now);
  // Passes bytes to the agent. Throws Error(unavailable) if the connection has ended.
  void write(AgentConnection& connection, const Key& key, std::string_view bytes, Instant now);
  void close(AgentConnection& connection, const Key& key, Instant now);
  // An attempt that an agent has run.
  struct Execution {
    Key worker;      // key of the worker's container
    std::string id;  // the id that the client gave the attempt
    Instant began_at{};
    std::optional<Instant> ended_at = std::nullopt;
    bool is_lost = false;  // the attempt ended with its worker
  };
  // Returns every attempt that agents have run, in the order of their starts.
  [[nodiscard]] const std::vector<Execution>& executions() const { return executions_; }

  // Calls that advance the simulated time pass the changes to `on_change`. If the simulated engine goes down,
  // the watch ends and `broken` is called.
  using WatchId = std::uint64_t;
  WatchId watch(const Selector& selector, std::function<void(Observation)> on_change,
                std::function<void()> broken, Instant now);
  void unwatch(WatchId watch);

  // Processes every event that is due at `now` or earlier.
  void advance(Instant now);
  // Returns the moment of the next event; nullopt if no event is scheduled.
  [[nodiscard]] std::optional<Instant> next_due() const;

  // Faults on request.
  void crash(Instant now);
  [[nodiscard]] bool is_down(Instant now) const { return now < down_until_; }
  // Adds a container without combu's labels that holds the given host ports.
  void add_stranger(const std::string& name, const std::vector<Port>& ports = {});
  void add_strange_network(const std::string& name);
  [[nodiscard]] bool has_container(const std::string& name) const { return containers_.contains(name); }
  [[nodiscard]] bool is_running(const std::string& name) const {
    const auto at = containers_.find(name);
    return at != containers_.end() && at->second.seen.phase == Phase::running;
  }
  [[nodiscard]] bool has_network(const std::string& name) const { return networks_.contains(name); }

 private:
  struct Container {
    Observation seen;
    bool stranger = false;
    int exits_with = 0;
    bool ends_by_oom = false;
    bool healthy_in_time = false;
    Bytes eats{};
  };
  struct Belongings {
    std::vector<Port> ports;
    std::vector<std::string> networks;
    std::vector<LogLine> log;
    std::map<std::string, std::string> files;
  };
  struct Due {
    Instant at;
    std::uint64_t order;
    std::string name;
    std::string id;
    enum class What { place, end, health, agent } what;
    AgentDue agent{};
    std::uint64_t attempt = 0;  // the agent's number of the attempt
    bool operator>(const Due& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Watch {
    Selector selector;
    std::function<void(Observation)> on_change;
    std::function<void()> broken;
  };
  struct Network {
    std::string experiment;
    std::string file;
    RunId run;
  };

  bool chance(double probability);
  void enter(Instant now);
  void leave(Instant now);
  // Runs the agent in a container whose program is combu's agent. Returns false for any other container.
  bool run_agent(const Container& container, const Trial& trial, const Script& script, Instant now);
  SimulatedAgent* agent_of(const Key& key);
  void run_script(Container& container, const Trial& trial, const Script& script, Instant now);
  void begin_to_run(Container& container, const Trial& trial, const Script& script, Instant now);
  void place(Container& container, Instant now);
  [[nodiscard]] std::size_t count_alive() const;
  void due(const Container& container, Instant at, Due::What what);
  void end(Container& container, int exit_code, Instant at);
  void free_ports(const Container& container);
  void remove(const std::string& name);
  void emit(const Observation& observation);
  void deliver(const Observation& observation);
  [[nodiscard]] const Container* find(const Key& key) const;
  [[nodiscard]] const Belongings& belongings_of(const std::string& name) const;
  [[nodiscard]] const Container* holder_of(const Slots& slots) const;
  void hold(const Slots& slots, int sign);
  const Container& add_rival(const Slots& slots, Instant now);
  [[nodiscard]] std::optional<Error> port_conflict(const Trial& trial, const std::string& experiment) const;

  SimulationOptions options_;
  std::mt19937_64 random_;
  std::unordered_map<std::string, Container> containers_;  // by name, which is unique on an engine
  // By container name. A container without ports, networks, logs and files has no entry.
  std::unordered_map<std::string, Belongings> belongings_;
  // The trials and scripts of pending attempts, by name.
  std::map<std::string, std::pair<Trial, std::shared_ptr<const Script>>> pending_;
  std::map<std::string, std::shared_ptr<SimulatedAgent>> agents_;  // by name of the running container
  std::vector<Execution> executions_;
  std::map<std::string, Network> networks_;
  std::map<Port, std::string> ports_;  // by host port: the name of the running container that holds the port
  std::priority_queue<Due, std::vector<Due>, std::greater<>> dues_;
  std::map<WatchId, Watch> watches_;
  std::vector<Observation> held_;
  Slots held_slots_;  // CPUs and memory that running containers hold
  Instant down_until_{};
  std::uint64_t counter_ = 0;
};

// Returns a simulated engine that threads can call like a real engine.
[[nodiscard]] std::unique_ptr<Engine> open_simulated(const SimulationOptions& options);
// For tests that access the simulation directly. The engine uses `world` under its own lock, so the test must
// not call `world` during a call of the engine.
[[nodiscard]] std::unique_ptr<Engine> open_simulated(World& world, double speed);

}  // namespace combu
