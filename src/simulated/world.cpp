#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "agent.hpp"
#include "combu/simulated.hpp"
#include "script.hpp"

namespace combu {

namespace {

constexpr int k_killed = 137;  // exit code of a container that was killed

bool selects(const Selector& selector, const Observation& observation) {
  if (!selector.experiment.empty() && selector.experiment != observation.experiment) return false;
  if (!selector.file.empty() && selector.file != observation.file) return false;
  if (selector.run && *selector.run != observation.key.run) return false;
  return selector.trials.empty() ||
         std::ranges::find(selector.trials, observation.key.trial) != selector.trials.end();
}

bool cannot_be_had(const std::string& image) {
  return image.find("missing") != std::string::npos || image.find("absent") != std::string::npos;
}

bool is_engines_own(const std::string& network) {
  return network == "host" || network == "none" || network == "bridge";
}

// Adds an error if a trial waits for the health of a trial without a healthcheck, because the wait would
// never end.
void append_unmet_health(const Run& run, std::vector<Error>& errors) {
  std::set<std::string> without;
  for (const Trial& trial : run.experiment.trials) {
    if (!trial.healthcheck) without.insert(trial.name);
  }
  for (const Trial& trial : run.experiment.trials) {
    for (const Depend& depend : trial.depends) {
      if (depend.condition != Condition::healthy || !without.contains(depend.trial)) continue;
      errors.emplace_back(
          ErrorKind::invalid, depend.path,
          fmt::format("{} depends on the health of {}, which has no healthcheck", trial.name, depend.trial));
    }
  }
}

}  // namespace

World::World(const SimulationOptions& options) : options_(options), random_(options.seed) {}

std::vector<Gpu> World::gpus() const {
  std::vector<Gpu> gpus;
  gpus.reserve(options_.gpus);
  for (std::size_t i = 0; i < options_.gpus; ++i)
    gpus.push_back({.id = std::to_string(i),
                    .uuid = {},
                    .kind = "Simulated 16 GiB",
                    .memory = Bytes{std::int64_t{16} << 30U}});
  return gpus;
}

// Does not use std::bernoulli_distribution, because a seed must give the same results with every standard
// library.
bool World::chance(double probability) {
  return probability > 0 && static_cast<double>(random_() >> 11U) * 0x1p-53 < probability;
}

Seconds World::draw_latency() {
  return options_.start_takes * (0.5 + static_cast<double>(random_() >> 11U) * 0x1p-53);
}

// Simulates the beginning of a call to the engine. Every function that simulates a call first calls enter().
void World::enter(Instant now) {
  advance(now);
  if (is_down(now)) throw Error(ErrorKind::unavailable, "simulated", "connection refused");
  if (chance(options_.faults.cut_before)) {
    throw Error(ErrorKind::unavailable, "simulated", "the connection was cut");
  }
}

// Simulates the answer to a call, which may be lost. Most functions that simulate a call end with leave().
void World::leave(Instant now) {
  if (chance(options_.faults.crash)) crash(now);
  if (is_down(now) || chance(options_.faults.answer_lost)) {
    throw Error(ErrorKind::unavailable, "simulated", "the answer was lost");
  }
}

std::optional<Error> World::port_conflict(const Trial& trial, const std::string& experiment) const {
  for (const Port& port : trial.container.ports) {
    Port host_side = port;
    host_side.container = 0;
    const auto holder = ports_.find(host_side);
    if (holder == ports_.end()) continue;
    if (!experiment.empty() && containers_.at(holder->second).seen.experiment == experiment) continue;
    return Error(ErrorKind::conflict, trial.name,
                 fmt::format("host port {} is published by container `{}`", port.host, holder->second));
  }
  return std::nullopt;
}

std::vector<Error> World::check(const Run& run, Instant now) {
  enter(now);
  std::vector<Error> errors;
  for (const Trial& trial : run.experiment.trials) {
    const auto holder = containers_.find(trial.name);
    if (holder != containers_.end() && holder->second.seen.experiment != run.experiment.name) {
      errors.emplace_back(
          ErrorKind::conflict, trial.name,
          fmt::format("the name is taken by a container of {}",
                      holder->second.stranger ? "another program" : holder->second.seen.experiment));
    }
    if (auto conflict = port_conflict(trial, run.experiment.name)) errors.push_back(std::move(*conflict));
  }
  return errors;
}

std::vector<Error> World::prepare(const Run& run, Instant now) {
  enter(now);
  std::vector<Error> errors;
  std::map<std::string, std::vector<std::string>> users;
  for (const Trial& trial : run.experiment.trials) {
    if (cannot_be_had(trial.image)) users[trial.image].push_back(trial.name);
    for (const std::string& network : trial.container.networks) {
      if (!is_engines_own(network))
        networks_.try_emplace(network, Network{run.experiment.name, run.experiment.file, run.id});
    }
  }
  errors.reserve(users.size());
  for (const auto& [image, trials] : users) {
    errors.emplace_back(ErrorKind::not_found, image,
                        fmt::format("no such image; needed by {}", fmt::join(trials, ", ")));
  }
  append_unmet_health(run, errors);
  leave(now);
  return errors;
}

StartResult World::start(const Run& run, const Trial& trial, int attempt, Instant now, StagedInputs inputs) {
  enter(now);
  const Key key{.run = run.id, .trial = trial.name, .attempt = attempt};
  const auto holder = containers_.find(trial.name);
  if (holder != containers_.end()) {
    const Observation& held = holder->second.seen;
    const bool is_before = held.key.run == run.id && held.key.attempt < attempt && held.phase == Phase::ended;
    if (holder->second.stranger || (held.key != key && !is_before)) {
      throw Error(ErrorKind::conflict, trial.name, "the name is taken by another container");
    }
    if (!is_before) {
      leave(now);
      if (held.phase == Phase::pending) return Accepted{};
      return Running{held};
    }
    remove(trial.name);
  }
  if (cannot_be_had(trial.image))
    throw Error(ErrorKind::not_found, trial.name, "no such image: " + trial.image);
  if (auto conflict = port_conflict(trial, "")) throw Error(*conflict);
  auto script =
      std::make_shared<const Script>(read_script(trial, options_.trial_takes, std::move(inputs.files)));
  if (script->cannot_start && !options_.places)
    throw Error(ErrorKind::refused, trial.name, "no such command: " + trial.process.cmd->front());
  if (chance(options_.faults.refused))
    throw Error(ErrorKind::refused, trial.name, "the simulated engine refused the start");

  if (options_.attempts_max > 0 && count_alive() >= options_.attempts_max)
    return NoRoom{.reason = fmt::format("the quota of {} attempts is used up", options_.attempts_max),
                  .retry_after = Seconds(0.5)};
  if (const Container* rival = options_.places ? nullptr : holder_of(trial.slots))
    return TakenByOther{rival->seen};
  if (!options_.places && !trial.slots.empty() && chance(options_.faults.slots_taken)) {
    TakenByOther collection{add_rival(trial.slots, now).seen};
    leave(now);
    return collection;
  }
  Container& container = containers_[trial.name];
  container.seen = {.key = key,
                    .experiment = run.experiment.name,
                    .file = run.experiment.file,
                    .id = fmt::format("sim{:09}", ++counter_),
                    .image = trial.image,
                    .phase = Phase::pending,
                    .created_at = now,
                    .service = trial.service,
                    .slots = trial.slots};
  if (!trial.container.networks.empty()) belongings_[trial.name].networks = trial.container.networks;
  for (Port port : trial.container.ports) {
    port.container = 0;
    belongings_[trial.name].ports.push_back(port);
    ports_.emplace(port, trial.name);
  }
  if (options_.places) {
    container.seen.placement.pending_reason = "no host is chosen yet";
    pending_.insert_or_assign(trial.name, std::pair(trial, std::move(script)));
    due(container, later(now, draw_latency()), Due::What::place);
    emit(container.seen);
    leave(now);
    return Accepted{};
  }
  begin_to_run(container, trial, *script, now);
  Running running{container.seen};
  running.observation.inputs = std::move(inputs.digests);
  leave(now);
  return running;
}

std::size_t World::count_alive() const {
  return static_cast<std::size_t>(std::ranges::count_if(containers_, [](const auto& one) {
    const Phase phase = one.second.seen.phase;
    return phase == Phase::pending || phase == Phase::running;
  }));
}

// The attempt begins to run.
void World::begin_to_run(Container& container, const Trial& trial, const Script& script, Instant now) {
  container.seen.phase = Phase::running;
  container.seen.placement.pending_reason.clear();
  container.seen.status = "Up";
  container.seen.ran_at = now;
  hold(trial.slots, 1);
  if (!run_agent(container, trial, script, now)) run_script(container, trial, script, now);
  emit(container.seen);
}

// Runs a pending attempt if its slots are free.
void World::place(Container& container, Instant now) {
  constexpr Seconds k_place_again{0.1};
  const bool fits = container.seen.slots.fit(k_simulated_capacity);
  if (!fits || holder_of(container.seen.slots) != nullptr) {
    const std::string reason = "no host has enough free CPUs and memory";
    if (std::exchange(container.seen.placement.pending_reason, reason) != reason) emit(container.seen);
    return due(container, later(now, k_place_again), Due::What::place);
  }
  const auto placed = pending_.extract(container.seen.key.trial);
  const auto& [trial, script] = placed.mapped();
  if (!script->cannot_start) return begin_to_run(container, trial, *script, now);
  container.seen.placement.start_error = "no such command: " + trial.process.cmd->front();
  free_ports(container);
  container.seen.phase = Phase::ended;
  container.seen.ended_at = now;
  emit(container.seen);
}

// Returns a running container that holds one of these GPUs, or CPUs or memory that are needed.
const World::Container* World::holder_of(const Slots& slots) const {
  const bool has_cpus = held_slots_.cpus.nano + slots.cpus.nano <= k_simulated_capacity.cpus.nano;
  const bool has_memory = held_slots_.memory.count + slots.memory.count <= k_simulated_capacity.memory.count;
  const bool lacks_cpus = slots.cpus.nano > 0 && held_slots_.cpus.nano > 0 && !has_cpus;
  const bool lacks_memory = slots.memory.count > 0 && held_slots_.memory.count > 0 && !has_memory;
  // most starts find free slots, and a loop over 100,000 containers would be slow
  if (slots.gpus.empty() && !lacks_cpus && !lacks_memory) return nullptr;
  for (const auto& [name, container] : containers_) {
    if (container.seen.phase != Phase::running) continue;
    const Slots& held = container.seen.slots;
    if ((lacks_cpus && held.cpus.nano > 0) || (lacks_memory && held.memory.count > 0)) return &container;
    for (const std::string& gpu : held.gpus)
      if (std::ranges::find(slots.gpus, gpu) != slots.gpus.end()) return &container;
  }
  return nullptr;
}

void World::hold(const Slots& slots, int sign) {
  held_slots_.cpus.nano += sign * slots.cpus.nano;
  held_slots_.memory.count += sign * slots.memory.count;
}

// Adds an attempt that belongs to another run and holds `slots`.
const World::Container& World::add_rival(const Slots& slots, Instant now) {
  const std::string name = fmt::format("rival-{}", ++counter_);
  Container& container = containers_[name];
  container.seen = {.key = {.run = RunId("rival"), .trial = name},
                    .experiment = "rival",
                    .file = "/rival",
                    .id = fmt::format("sim{:09}", counter_),
                    .phase = Phase::running,
                    .created_at = now,
                    .status = "Up",
                    .slots = slots};
  hold(slots, 1);
  due(container, later(now, options_.trial_takes), Due::What::end);
  emit(container.seen);
  return container;
}

void World::run_script(Container& container, const Trial& trial, const Script& script, Instant now) {
  if (!script.output.empty()) belongings_[trial.name].log = script.output;
  if (!script.files.empty()) belongings_[trial.name].files = script.files;
  container.exits_with = script.exit_code;
  container.eats = script.eats;
  Seconds takes = script.takes;
  const bool too_large = trial.slots.memory.count > 0 && script.eats > trial.slots.memory;
  if (chance(options_.faults.out_of_memory) || too_large) {
    container.exits_with = 137;
    container.ends_by_oom = true;
    takes /= 2;
  }
  due(container, later(now, takes), Due::What::end);
  if (!trial.healthcheck || trial.healthcheck->test.empty() || trial.healthcheck->test[0] == "NONE") return;
  container.seen.health = Health::starting;
  container.healthy_in_time = std::none_of(
      trial.healthcheck->test.begin(), trial.healthcheck->test.end(), [](const std::string& word) {
        return word.find("false") != std::string::npos || word.find("exit 1") != std::string::npos;
      });
  const Seconds interval = trial.healthcheck->interval.count() > 0 ? trial.healthcheck->interval : Seconds(1);
  due(container, later(now, interval), Due::What::health);
}

void World::due(const Container& container, Instant at, Due::What what) {
  dues_.push({.at = at,
              .order = ++counter_,
              .name = container.seen.key.trial,
              .id = container.seen.id,
              .what = what});
}

bool World::stop(const Key& key, Instant now) {
  enter(now);
  const Container* found = find(key);
  const bool runs = found != nullptr && found->seen.phase == Phase::running;
  if (runs) {
    Container& container = containers_.at(key.trial);
    container.ends_by_oom = false;
    container.seen.stopped = true;
    SimulatedAgent* agent = agent_of(key);
    if (agent != nullptr) agent->finish(now);
    end(container, agent != nullptr ? 0 : 143, now);
  } else if (found != nullptr && found->seen.phase == Phase::pending) {
    remove(key.trial);
  }
  leave(now);
  return runs;
}

std::vector<Observation> World::list(const Selector& selector, Instant now) {
  enter(now);
  std::vector<Observation> observations;
  for (const auto& [name, container] : containers_) {
    if (!container.stranger && selects(selector, container.seen)) observations.push_back(container.seen);
  }
  leave(now);
  return observations;
}

Released World::release(const Selector& selector, const std::set<Key>& kept, Instant now) {
  enter(now);
  Released released;
  std::vector<std::string> names;
  for (const auto& [name, container] : containers_) {
    if (container.stranger || !selects(selector, container.seen)) continue;
    released.experiments.insert(container.seen.experiment);
    if (!kept.contains(container.seen.key)) names.push_back(name);
  }
  std::set<std::string> left_by_them;
  for (const std::string& name : names) {
    Container& container = containers_.at(name);
    const std::vector<std::string>& networks = belongings_of(name).networks;
    left_by_them.insert(networks.begin(), networks.end());
    if (container.seen.phase == Phase::running) end(container, 137, now);
    remove(name);
    ++released.attempts;
  }
  if (selector.trials.empty()) {
    std::set<std::string> used;
    std::set<std::string> experiments;
    for (const auto& [name, container] : containers_) {
      const std::vector<std::string>& networks = belongings_of(name).networks;
      used.insert(networks.begin(), networks.end());
      experiments.insert(container.seen.experiment);
    }
    std::erase_if(networks_, [&](const auto& network) {
      Observation owner;
      owner.experiment = network.second.experiment;
      owner.key.run = network.second.run;
      owner.file = network.second.file;
      const bool is_orphan = left_by_them.contains(network.first) && !experiments.contains(owner.experiment);
      if (owner.experiment.empty() || !(selects(selector, owner) || is_orphan)) return false;
      if (used.contains(network.first)) {
        released.in_use.emplace_back(ErrorKind::conflict, network.first, "still used by other containers");
        return false;
      }
      ++released.networks;
      return true;
    });
  }
  leave(now);
  return released;
}

void World::remove(const std::string& name) {
  Container& container = containers_.at(name);
  if (container.seen.phase == Phase::pending) free_ports(container);
  container.seen.phase = Phase::gone;
  emit(container.seen);
  containers_.erase(name);
  belongings_.erase(name);
  pending_.erase(name);
}

std::optional<Usage> World::usage(const std::string& id, Instant now) {
  enter(now);
  for (const auto& [name, container] : containers_) {
    if (container.seen.id != id || container.seen.phase != Phase::running) continue;
    constexpr Bytes k_mebibyte{std::int64_t{1} << 20U};
    return Usage{.memory = std::max(container.eats, k_mebibyte), .cpu = now - container.seen.created_at};
  }
  return std::nullopt;
}

World::Log World::log(const Key& key, Instant now) {
  enter(now);
  const Container* found = find(key);
  if (found == nullptr) throw Error(ErrorKind::not_found, key.trial, "no such trial on the engine");
  return {.lines = belongings_of(key.trial).log,
          .written = found->seen.created_at,
          .complete = found->seen.phase != Phase::running};
}

std::map<std::string, std::string> World::files(const Key& key, const std::string& path, Instant now) {
  enter(now);
  const Container* found = find(key);
  if (found == nullptr) throw Error(ErrorKind::not_found, key.trial, "no such trial on the engine");
  std::map<std::string, std::string> files = files_below(belongings_of(key.trial).files, path);
  leave(now);
  return files;
}

const World::Container* World::find(const Key& key) const {
  const auto at = containers_.find(key.trial);
  if (at == containers_.end() || at->second.stranger || at->second.seen.key != key) return nullptr;
  return &at->second;
}

const World::Belongings& World::belongings_of(const std::string& name) const {
  static const Belongings k_none;
  const auto at = belongings_.find(name);
  return at == belongings_.end() ? k_none : at->second;
}

// ---- Time

void World::advance(Instant now) {
  while (!dues_.empty() && dues_.top().at <= now) {
    const Due due = dues_.top();
    dues_.pop();
    const auto at = containers_.find(due.name);
    if (at == containers_.end() || at->second.seen.id != due.id) continue;
    Container& container = at->second;
    if (container.seen.phase != (due.what == Due::What::place ? Phase::pending : Phase::running)) continue;
    if (due.what == Due::What::place) {
      place(container, due.at);
    } else if (due.what == Due::What::end) {
      end(container, container.exits_with, due.at);
    } else if (due.what == Due::What::agent) {
      const std::shared_ptr<SimulatedAgent> agent = agents_.at(due.name);
      if (agent->handle(due.agent, due.attempt, due.at))
        end(container, due.agent == AgentDue::killed ? k_killed : 0, due.at);
    } else {
      container.seen.health = container.healthy_in_time ? Health::healthy : Health::unhealthy;
      emit(container.seen);
    }
  }
}

std::optional<Instant> World::next_due() const {
  if (dues_.empty()) return std::nullopt;
  return dues_.top().at;
}

void World::end(Container& container, int exit_code, Instant at) {
  if (const auto agent = agents_.extract(container.seen.key.trial)) agent.mapped()->die(at);
  if (container.seen.phase == Phase::running) hold(container.seen.slots, -1);
  container.seen.phase = Phase::ended;
  container.seen.ended_at = at;
  container.seen.exit_code = exit_code;
  container.seen.oom = container.ends_by_oom;
  container.seen.status = fmt::format("Exited ({})", exit_code);
  free_ports(container);
  emit(container.seen);
}

void World::free_ports(const Container& container) {
  for (const Port& port : belongings_of(container.seen.key.trial).ports) ports_.erase(port);
}

void World::emit(const Observation& observation) {
  const Faults& faults = options_.faults;
  if (chance(faults.change_dropped)) return;
  if (chance(faults.change_held)) {
    held_.push_back(observation);
    return;
  }
  deliver(observation);
  if (chance(faults.change_repeated)) deliver(observation);
  for (const Observation& late : std::exchange(held_, {})) deliver(late);
}

void World::deliver(const Observation& observation) {
  for (const auto& [id, watch] : watches_) {
    if (selects(watch.selector, observation)) watch.on_change(observation);
  }
}

World::WatchId World::watch(const Selector& selector, std::function<void(Observation)> on_change,
                            std::function<void()> broken, Instant now) {
  enter(now);
  watches_.emplace(++counter_, Watch{selector, std::move(on_change), std::move(broken)});
  return counter_;
}

void World::unwatch(WatchId watch) {
  watches_.erase(watch);
}

// Attempts that are killed by the crash end without a report, because crash() breaks the watches.
void World::crash(Instant now) {
  down_until_ = later(now, options_.faults.crash_for);
  held_.clear();
  for (auto& [id, watch] : std::exchange(watches_, {})) watch.broken();
  for (const auto& [name, agent] : agents_) agent->cut_all(now);
  if (options_.faults.live_restore || options_.places) return;
  for (auto& [name, container] : containers_) {
    if (container.stranger || container.seen.phase != Phase::running) continue;
    container.ends_by_oom = false;
    end(container, 255, now);
  }
}

void World::add_strange_network(const std::string& name) {
  networks_.try_emplace(name);
}

void World::add_stranger(const std::string& name, const std::vector<Port>& ports) {
  Container& container = containers_[name];
  container.stranger = true;
  container.seen.phase = Phase::running;
  for (Port port : ports) {
    port.container = 0;
    belongings_[name].ports.push_back(port);
    ports_.emplace(port, name);
  }
}

}  // namespace combu
