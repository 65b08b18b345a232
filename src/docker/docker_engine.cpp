#include "docker/docker_engine.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <utility>

#include "docker/labels.hpp"
#include "docker/status.hpp"

namespace combu {

std::unique_ptr<Engine> open_docker(const DockerEndpoint& place, const DockerOptions& options) {
  return std::make_unique<docker::DockerEngine>(place, options);
}

}  // namespace combu

namespace combu::docker {
namespace {

constexpr std::size_t k_looks_in_flight = 8;
constexpr Seconds k_past{300};
// An event that arrives this long after the change counts as late; engines usually report changes at once.
constexpr Seconds k_late{2};

Observation observation_of(Identity&& identity) {
  Observation observation;
  observation.key = std::move(identity.key);
  observation.experiment = std::move(identity.experiment);
  observation.file = std::move(identity.file);
  observation.service = identity.service;
  observation.slots = std::move(identity.slots);
  if (identity.supervised) {
    observation.placement.supervisor_report.emplace();
    observation.placement.awaits_delivery = true;
  }
  return observation;
}

}  // namespace

Observation observation_of(ContainerSummary&& container, Identity&& identity) {
  const Status status = parse_status(container.state, container.status);
  Observation observation = observation_of(std::move(identity));
  observation.id = std::move(container.id);
  observation.image = std::move(container.image);
  observation.phase = status.phase;
  observation.health = status.health;
  observation.exit_code = status.exit_code;
  observation.created_at = Instant(std::chrono::seconds(container.created));
  observation.status = std::move(container.status);
  return observation;
}

namespace {

std::string attribute(const ContainerEvent& event, const char* name) {
  const auto at = event.attributes.find(name);
  return at == event.attributes.end() ? "" : at->second;
}

std::optional<int> number_at(const ContainerEvent& event, const char* name) {
  return parse_number<int>(attribute(event, name));
}

// Changes `observation` as the event says. Returns false if the event changes neither phase nor health.
bool apply_action(const ContainerEvent& event, Observation& observation) {
  constexpr std::string_view k_health = "health_status: ";
  observation.status = event.action;
  if (event.action == "start") {
    observation.phase = Phase::running;
  } else if (event.action == "die") {
    observation.phase = Phase::ended;
    observation.exit_code = number_at(event, "exitCode");
  } else if (event.action == "destroy") {
    observation.phase = Phase::gone;
  } else if (event.action.starts_with(k_health)) {
    observation.phase = Phase::running;
    observation.health = parse_health(std::string_view(event.action).substr(k_health.size()));
  } else {
    return false;
  }
  return true;
}

// True if lack of memory probably ended the attempt. An attempt that fills its memory at once may be killed
// before the engine listens for memory kills (Engine 20.10: a quarter of 60 such attempts ended with
// OOMKilled false).
bool is_oom_likely(const Observation& ended) {
  return !ended.oom && !ended.stopped && ended.exit_code == 128 + SIGKILL && ended.slots.memory.count > 0;
}

}  // namespace

void Signals::sent(const std::string& id, int signal) {
  const std::scoped_lock lock(mutex_);
  last_[id] = signal;
}

void Signals::forget(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  last_.erase(id);
}

bool Signals::ended(const std::string& id, std::optional<int> exit_code) const {
  const std::scoped_lock lock(mutex_);
  const auto last = last_.find(id);
  if (last == last_.end()) return false;
  const int signal = last->second;
  return signal == SIGTERM || signal == SIGKILL || signal == SIGINT || signal == SIGQUIT ||
         exit_code == 128 + signal || exit_code == 128 + SIGKILL;
}

TrialFilter::TrialFilter(const Selector& selector) : sorted_(selector.trials) {
  std::ranges::sort(sorted_);
}

bool TrialFilter::selects(const std::string& trial) const {
  return sorted_.empty() || std::ranges::binary_search(sorted_, trial);
}

std::string holder_text(const std::string& name, const std::string& image, const Labels& labels) {
  const std::optional<Identity> identity = identity_of(labels, name);
  if (!identity) return fmt::format("the container {} (image {}), which combu did not create", name, image);
  return fmt::format("the container {} (image {}) of the experiment {}, run {}", name, image,
                     identity->experiment, identity->key.run.text());
}

DockerEngine::DockerEngine(const DockerEndpoint& place, DockerOptions options)
    : connections_(place.address, options),
      source_(place.source),
      config_folder_(place.config_folder),
      configured_gpus_(std::move(options.gpus)) {}

std::string DockerEngine::engine_name(const SystemFacts& system, const std::stop_token& stop) {
  return fmt::format("{} {} (API {})", system.product, system.version, connections_.version(stop).text());
}

Facts DockerEngine::facts(std::stop_token stop) {
  const SystemFacts system = get_system(connections_, stop);
  Facts facts;
  facts.engine = engine_name(system, stop);
  facts.address = connections_.address().text();
  facts.capacity = system.capacity;
  facts.can_exec = true;
  facts.is_remote = connections_.address().kind == Address::Kind::tcp;
  // The engine recreates its bridge network whenever the engine starts (moby: daemon/daemon_unix.go,
  // initBridgeDriver).
  facts.began_at = network_created_at(connections_, "bridge", stop);
  return facts;
}

std::vector<Observation> DockerEngine::list(const Selector& selector, ListDetail detail,
                                            std::stop_token stop) {
  std::vector<std::vector<std::string>> networks;
  std::vector<Observation> observations = list_once(selector, networks, stop);
  std::erase_if(observations, [](const Observation& seen) { return seen.phase == Phase::gone; });
  if (detail != ListDetail::basic) look_again(observations, detail, stop);
  return observations;
}

std::vector<Observation> DockerEngine::list_once(const Selector& selector,
                                                 std::vector<std::vector<std::string>>& networks,
                                                 const std::stop_token& stop) {
  const TrialFilter filter(selector);
  std::vector<Observation> observations;
  list_containers(
      connections_, {.labels = label_filters(selector)},
      [&](ContainerSummary&& container) {
        std::optional<Identity> identity = identity_of(container.labels, container.name);
        if (!identity || !filter.selects(identity->key.trial)) return;
        networks.push_back(std::move(container.networks));
        observations.push_back(observation_of(std::move(container), std::move(*identity)));
      },
      stop);
  return observations;
}

// Inspects attempts whose state in the listing may be wrong. An engine makes a listing from a copy of its
// data, which may be up to a tenth of a second old (Engine 20.10). So a listing may show an attempt as
// running after the event that reports its end. The inspection of a container shows its true state, and why
// it was killed.
void DockerEngine::look_again(std::vector<Observation>& observations, ListDetail detail,
                              const std::stop_token& stop) {
  std::vector<Observation*> unclear;
  for (Observation& observation : observations) {
    const bool killed = observation.phase == Phase::ended && observation.exit_code == 128 + SIGKILL;
    if (observation.phase == Phase::running || killed || detail == ListDetail::full)
      unclear.push_back(&observation);
  }
  in_parallel(unclear.size(), k_looks_in_flight, [&](std::size_t i) {
    Observation& observation = *unclear[i];
    const std::optional<ContainerFacts> container = inspect_container(connections_, observation.id, stop);
    observation.phase = container ? parse_status(container->state, "").phase : Phase::gone;
    if (observation.phase != Phase::running && observation.phase != Phase::ended) return;
    observation.ran_at = container->ran_at;
    if (observation.phase != Phase::ended) return;
    observation.ended_at = container->ended_at;
    observation.exit_code = container->exit_code;
    observation.oom = container->oom;
    observation.status = container->state;
  });
  for (Observation& observation : observations)
    if (observation.phase == Phase::ended && !observation.oom)
      observation.stopped = signals_.ended(observation.id, observation.exit_code);
  std::erase_if(observations,
                [](const Observation& observation) { return observation.phase == Phase::gone; });
}

void DockerEngine::watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
                         std::stop_token stop) {
  const TrialFilter filter(selector);
  std::set<std::string> gone;
  const auto take = [&](const ContainerEvent& event) {
    // The stream also contains events of the last seconds before the connection. Skip the events of removed
    // containers, because these containers may belong to an earlier run with the same id.
    if (event.action != "destroy" && gone.contains(event.id)) return;
    std::optional<Identity> identity = identity_of(event.attributes, attribute(event, "name"));
    if (!identity || !filter.selects(identity->key.trial)) return;
    if (event.action == "kill") signals_.sent(event.id, number_at(event, "signal").value_or(0));
    if (event.action == "destroy") signals_.forget(event.id);
    Observation observation = observation_of(std::move(*identity));
    observation.id = event.id;
    observation.image = attribute(event, "image");
    if (!apply_action(event, observation)) return;
    const bool is_late = std::chrono::system_clock::now() - event.at > k_late;
    if (observation.phase == Phase::ended && (observation.exit_code != 0 || is_late))
      look_at_end(observation, stop);
    if (observation.phase == Phase::ended) {
      observation.stopped = !observation.oom && signals_.ended(event.id, observation.exit_code);
      observation.oom_likely = is_oom_likely(observation);
    }
    on_change(observation);
  };
  const auto on_open = [&] {
    // An engine that restarts stops its containers before it answers requests (unless live-restore is on). So
    // the events of the containers' stops are in the past when combu connects.
    for (const ContainerEvent& event :
         past_events(connections_, label_filters(selector), {"kill", "destroy"}, k_past, stop)) {
      if (event.action == "destroy") {
        gone.insert(event.id);
      } else {
        signals_.sent(event.id, number_at(event, "signal").value_or(0));
      }
    }
    on_change(Watching{});
  };
  try {
    read_events(connections_, label_filters(selector), on_open, take, stop);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled && stop.stop_requested()) return;
    throw;
  }
  if (stop.stop_requested()) return;
  throw Error(ErrorKind::unavailable, connections_.address().text(), "the engine closed the event stream");
}

// Inspects the container of an ended attempt, because the event does not show if lack of memory was the
// cause. A late event does not show the moment of the end either.
void DockerEngine::look_at_end(Observation& observation, const std::stop_token& stop) {
  try {
    const std::optional<ContainerFacts> container = inspect_container(connections_, observation.id, stop);
    if (!container || parse_status(container->state, "").phase != Phase::ended) return;
    observation.oom = container->oom;
    observation.ran_at = container->ran_at;
    observation.ended_at = container->ended_at;
  } catch (const Error& error) {
    // The engine may refuse to inspect a container that is being removed. combu reports the end of the
    // attempt nevertheless.
    if (error.kind() != ErrorKind::refused && error.kind() != ErrorKind::conflict) throw;
  }
}

std::vector<std::string> DockerEngine::ids_of(const Key& key, const std::stop_token& stop) {
  std::vector<std::string> ids;
  list_containers(
      connections_, {.labels = label_filters(key)},
      [&](ContainerSummary&& container) {
        if (identity_of(container.labels, container.name)) ids.push_back(std::move(container.id));
      },
      stop);
  return ids;
}

void DockerEngine::stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) {
  for (const std::string& id : ids_of(key, stop)) stop_container(connections_, id, grace, stop);
}

std::optional<Usage> DockerEngine::usage(const std::string& id, std::stop_token stop) {
  return container_usage(connections_, id, stop);
}

// Returns the container of the attempt `key`. Inspects the container with the trial's name first, because a
// listing is then usually unnecessary.
ContainerFacts DockerEngine::container_of(const Key& key, const std::stop_token& stop) {
  std::optional<ContainerFacts> container = inspect_container(connections_, key.trial, stop);
  const std::optional<Identity> identity =
      container ? identity_of(container->labels, container->name) : std::nullopt;
  if (identity && identity->key == key) return std::move(*container);
  const std::vector<std::string> ids = ids_of(key, stop);
  if (!ids.empty()) container = inspect_container(connections_, ids.front(), stop);
  if (ids.empty() || !container)
    throw Error(ErrorKind::not_found, key.trial,
                fmt::format("no container of attempt {} in run {}", key.attempt, key.run.text()));
  return std::move(*container);
}

void DockerEngine::logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
                        std::stop_token stop) {
  const ContainerFacts container = container_of(key, stop);
  // Do not derive the log's format from the answer's content type, which differs between engines.
  read_logs(connections_, container.id, container.tty ? LogFormat::raw : LogFormat::frames, options, on_piece,
            stop);
}

bool DockerEngine::copy_out(const Key& key, const std::string& path,
                            const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) {
  const std::string id = container_of(key, stop).id;
  const std::optional<std::string> found = find_path(connections_, id, path, stop);
  if (found && get_archive(connections_, id, *found, on_bytes, stop)) return true;
  // The engine also answers that the path does not exist if the container has been removed meanwhile. A
  // container that is being removed may have lost its files.
  const std::string state = container_of(key, stop).state;
  if (state == "removing" || state == "dead")
    throw Error(ErrorKind::not_found, key.trial,
                fmt::format("the container of attempt {} is being removed", key.attempt));
  return false;
}

}  // namespace combu::docker
