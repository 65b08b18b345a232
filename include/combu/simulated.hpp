#pragma once
// A model of one engine on one host under a clock of its own, with seeded faults. It keeps every promise of
// the engine's door (the conformance suite runs on it as on real ones) and carries the tests of order, faults
// and scale.

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
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"

namespace combu {

// Each fault is the probability, 0 to 1, with which one call or one change meets it.
struct Faults {
  double refused = 0;          // a start is refused for good
  double cut_before = 0;       // a call is cut off and nothing was done
  double answer_lost = 0;      // a call is done and its answer lost
  double change_dropped = 0;   // a change is not told
  double change_repeated = 0;  // it is told twice
  double change_held = 0;      // it is told after the one that follows it
  double out_of_memory = 0;    // an attempt ends with 137 half-way
  double slots_taken = 0;      // somebody else takes a trial's slots just before its start, for a while
  double crash =
      0;  // after a call the engine dies for `crash_for`; what runs is killed unless `live_restore`
  Seconds crash_for{2};
  bool live_restore = false;
};

struct SimulationOptions {
  std::uint64_t seed = 1;
  Seconds start_takes{0.05};  // of one start; each takes 0.5 to 1.5 times as long
  Seconds trial_takes{1};     // of a command that the model does not know
  std::size_t gpus = 0;       // of 16 GiB each, "0", "1", …
  // Seconds of the model for one of ours; 0: as fast as can be, every wait is skipped. Only for
  // open_simulated().
  double speed = 1;
  Faults faults;
};

// "simulated:" or "simulated:?seed=3&speed=0&start=0.01&trial=2&refused=0.1&…" with the names of the fields
// above. Throws Error(invalid) naming the option.
[[nodiscard]] SimulationOptions parse_simulation(std::string_view address);

struct Script;  // what the model reads from a trial's command

// The model itself: deterministic by its options and the calls made on it, no threads, no clock. Time is
// handed in and never goes back. What a trial does is read from its command: `sleep N`, `exit N`, `echo TEXT`
// (also `>&2`, or `> /file`), `cat FILE` (of its inputs, or written before; also `> /file`), `true`, `false`,
// `eat 600m` (killed when its memory is less), several joined by `;` or `&&`, alone or behind `sh -c`; one
// that begins with `/no/` cannot be started; anything else takes options.trial_takes and ends with 0. A
// healthcheck whose test holds "false" or "exit 1" fails, any other passes, after its interval (default 1 s).
// Images with "missing" or "absent" in their name cannot be had.
class World {
 public:
  explicit World(const SimulationOptions& options);

  // How long the next start takes.
  [[nodiscard]] Seconds draw_latency();

  [[nodiscard]] std::vector<Gpu> gpus() const;

  // The engine's verbs, done at `now` at once; errors and promises as in engine.hpp.
  [[nodiscard]] std::vector<Error> check(const Run& run, Instant now);
  [[nodiscard]] std::vector<Error> prepare(const Run& run, Instant now);
  struct StagedInputs {
    std::map<std::string, std::string> files;  // by path; of a large one the beginning
    std::vector<std::string> digests;
  };
  StartResult start(const Run& run, const Trial& trial, int attempt, Instant now, StagedInputs inputs = {});
  // The signal is sent at `now`; the attempt ends by it. False: there is nothing to end.
  bool stop(const Key& key, Instant now);
  [[nodiscard]] std::vector<Observation> list(const Selector& selector, Instant now);
  Released release(const Selector& selector, const std::set<Key>& kept, Instant now);
  // A trial keeps one processor busy, and has what it eats, or a mebibyte.
  [[nodiscard]] std::optional<Usage> usage(const std::string& id, Instant now);
  struct LogLine {
    LogStream stream;
    std::string text;
  };
  struct Log {
    std::vector<LogLine> lines;  // all written when the attempt started
    Instant written{};
    bool complete = false;  // no more will come
  };
  // Throws Error(not_found).
  [[nodiscard]] Log log(const Key& key, Instant now);
  // What it has written at or below `path`, by their paths from the folder that `path` is in. All is written
  // when the attempt starts. Throws Error(not_found).
  [[nodiscard]] std::map<std::string, std::string> files(const Key& key, const std::string& path,
                                                         Instant now);

  // Changes go to `tell` from inside of calls that make time pass. A watch breaks (`broken` is called, and it
  // is forgotten) when the engine dies.
  using WatchId = std::uint64_t;
  WatchId watch(const Selector& selector, std::function<void(Observation)> tell, std::function<void()> broken,
                Instant now);
  void unwatch(WatchId watch);

  // Lets everything happen that is due by `now`.
  void advance(Instant now);
  // When the next thing is due; nullopt: nothing will happen by itself.
  [[nodiscard]] std::optional<Instant> next_due() const;

  // Faults by hand.
  void crash(Instant now);
  [[nodiscard]] bool is_down(Instant now) const { return now < down_until_; }
  // A container, and the host ports it holds, that carry none of our labels.
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
    enum class What { end, health } what;
    bool operator>(const Due& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Watch {
    Selector selector;
    std::function<void(Observation)> tell;
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
  void run_script(Container& container, const Trial& trial, const Script& script, Instant now);
  void due(const Container& container, Instant at, Due::What what);
  void end(Container& container, int exit_code, Instant at);
  void remove(const std::string& name);
  void emit(const Observation& observation);
  void deliver(const Observation& observation);
  [[nodiscard]] const Container* find(const Key& key) const;
  [[nodiscard]] const Belongings& belongings_of(const std::string& name) const;
  [[nodiscard]] const Container* holder_of(const std::vector<std::string>& gpus) const;
  const Container& add_rival(const Slots& slots, Instant now);
  [[nodiscard]] std::optional<Error> port_conflict(const Trial& trial, const std::string& experiment) const;

  SimulationOptions options_;
  std::mt19937_64 random_;
  std::unordered_map<std::string, Container> containers_;   // by name: an engine's names are unique
  std::unordered_map<std::string, Belongings> belongings_;  // by container, of those that have any
  std::map<std::string, Network> networks_;
  std::map<Port, std::string> ports_;  // held by running containers, by name
  std::priority_queue<Due, std::vector<Due>, std::greater<>> dues_;
  std::map<WatchId, Watch> watches_;
  std::vector<Observation> held_;
  Instant down_until_{};
  std::uint64_t counter_ = 0;
};

// The same as an Engine for real threads.
[[nodiscard]] std::unique_ptr<Engine> open_simulated(const SimulationOptions& options);
// For tests that need to reach behind the door; `world` is used under the engine's lock, so call it only
// between verbs.
[[nodiscard]] std::unique_ptr<Engine> open_simulated(World& world, double speed);

}  // namespace combu
