#include <fmt/core.h>

#include <chrono>

#include "combu/inputs.hpp"
#include "combu/json.hpp"
#include "docker/api_json.hpp"
#include "docker/container_json.hpp"
#include "docker/docker_engine.hpp"
#include "docker/duplicate_networks.hpp"
#include "docker/status.hpp"

namespace combu::docker {
namespace {

constexpr ApiVersion k_several_networks_at_create{1, 44};

NetworksAtCreate networks_at_create(ApiVersion version) {
  return version < k_several_networks_at_create ? NetworksAtCreate::first : NetworksAtCreate::all;
}

Observation observation_of(const Run& run, const Trial& trial, int attempt, std::string id) {
  Observation observation;
  observation.key = {run.id, trial.name, attempt};
  observation.experiment = run.experiment.name;
  observation.file = run.experiment.file;
  observation.id = std::move(id);
  observation.image = trial.image;
  observation.phase = Phase::running;
  observation.status = "started";
  observation.service = trial.service;
  observation.slots = trial.slots;
  return observation;
}

Observation observation_of(const Run& run, const Trial& trial, int attempt, const ContainerFacts& container) {
  Observation observation = observation_of(run, trial, attempt, container.id);
  const Status status = parse_status(container.state, "");
  observation.phase = status.phase;
  observation.health = parse_health(container.health);
  if (status.phase == Phase::ended) {
    observation.exit_code = container.exit_code;
    observation.oom = container.oom;
    observation.ended_at = container.ended_at;
  }
  observation.ran_at = container.ran_at;
  observation.status = container.state;
  if (const auto identity = identity_of(container.labels, trial.name)) observation.slots = identity->slots;
  return observation;
}

// True if the container belongs to an earlier attempt of the same trial and run, and does not run. The
// container of an earlier attempt can be removed.
bool is_earlier_attempt(const ContainerFacts& container, const Run& run, const Trial& trial, int attempt) {
  const std::optional<Identity> identity = identity_of(container.labels, trial.name);
  return identity && identity->key.run == run.id && identity->key.trial == trial.name &&
         identity->key.attempt < attempt && parse_status(container.state, "").phase != Phase::running;
}

// Each try of a start creates or adopts one container. A second try is needed if the container of an earlier
// attempt must be removed first, or if the engine, or another process with a claim on the slots, died.
constexpr int k_tries_max = 5;

enum class AfterFailure {
  rethrow,             // the created container stays, so listings show it and release() can remove it
  remove_and_rethrow,  // the container is removed, which gives up its claim on slots
  begin_again,
};

// The container of a start that failed.
struct Failed {
  bool existed = false;  // an earlier call created the container
  bool claims = false;   // the container holds slots
  // Another process that needed the slots removed the container, because its claim was too old.
  bool is_gone = false;
};

// Decides what combu does with the container if the start fails after the creation.
AfterFailure after_failure(const Error& error, const Failed& container) {
  // If an engine dies in the middle of a start, the engine may never be able to start that container again
  // (Engine 20.10: "task …: already exists").
  const bool is_useless = container.existed && error.kind() == ErrorKind::refused;
  if (is_useless || container.is_gone) return AfterFailure::begin_again;
  // If is_definite(error) is false, the container may run, and a repeated call adopts the container.
  return container.claims && is_definite(error) ? AfterFailure::remove_and_rethrow : AfterFailure::rethrow;
}

Error refusal_of_create(const HttpResponse& response, const Trial& trial) {
  Error error = error_of(response, trial.name);
  if (error.kind() != ErrorKind::not_found) return error;
  return {ErrorKind::not_found, trial.name, fmt::format("image {}: {}", trial.image, error.message())};
}

}  // namespace

StartResult DockerEngine::start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) {
  const std::vector<std::string>& networks = trial.container.networks;
  try {
    return start_repeatedly(run, trial, attempt, stop);
  } catch (const Error& error) {
    const bool may_have_duplicates =
        !networks.empty() && connections_.version(stop) < k_several_networks_at_create;
    if (!may_have_duplicates || error.kind() != ErrorKind::refused) throw;
  }
  remove_duplicate_networks(connections_, {networks.begin(), networks.end()}, stop);
  return start_repeatedly(run, trial, attempt, stop);
}

StartResult DockerEngine::start_repeatedly(const Run& run, const Trial& trial, int attempt,
                                           const std::stop_token& stop) {
  for (int tries = 0; tries < k_tries_max; ++tries)
    if (auto result = try_start(run, trial, attempt, stop)) return *std::move(result);
  throw Error(ErrorKind::unavailable, trial.name,
              fmt::format("the container disappeared during each of {} starts; try again", k_tries_max));
}

std::optional<StartResult> DockerEngine::try_start(const Run& run, const Trial& trial, int attempt,
                                                   const std::stop_token& stop) {
  const auto asked = std::chrono::steady_clock::now();
  auto found = create_or_adopt(run, trial, attempt, stop);
  if (!found) return std::nullopt;
  Claimed claimed = *std::move(found);
  if (claimed.running) return Running{*std::move(claimed.running)};
  const bool claims = !trial.slots.empty();
  if (claims) {
    if (auto rival = rival_of(claimed.id, trial.slots, stop)) {
      if (remove_unstarted_container(connections_, claimed.id, stop)) return TakenByOther{*std::move(rival)};
      return std::nullopt;  // the container runs, because an earlier call has started it
    }
  }
  auto created = asked;
  std::vector<std::string> inputs;
  try {
    inputs = add_to_created(claimed.id, trial, stop);
    created = std::chrono::steady_clock::now();
    start_container(connections_, claimed.id, trial.name, stop);
  } catch (const Error& error) {
    const bool is_gone =
        claims && error.kind() == ErrorKind::not_found && !inspect_container(connections_, claimed.id, stop);
    const AfterFailure next =
        after_failure(error, {.existed = claimed.existed, .claims = claims, .is_gone = is_gone});
    if (next != AfterFailure::rethrow && !is_gone)
      (void)remove_unstarted_container(connections_, claimed.id, stop);
    if (next != AfterFailure::begin_again) throw;
    return std::nullopt;
  }
  Running started{observation_of(run, trial, attempt, claimed.id)};
  started.observation.inputs = std::move(inputs);
  started.observation.start_took =
      StartDuration{.created = created - asked, .started = std::chrono::steady_clock::now() - created};
  if (trial.cache.on) started.observation.digest = digest_of(claimed.id, trial.image, stop);
  return started;
}

// Inspects the image again, because the image's name may mean another image now than in prepare().
std::string DockerEngine::digest_of(const std::string& id, const std::string& image,
                                    const std::stop_token& stop) {
  try {
    const std::optional<ContainerFacts> container = inspect_container(connections_, id, stop);
    if (!container) return "";
    const std::optional<ImageFacts> named = inspect_image(connections_, image, stop);
    return named && named->id == container->image_id ? named->digest : container->image_id;
  } catch (const Error&) {
    return "";  // the start has succeeded even without a digest
  }
}

// Creates the container of the attempt, or adopts an existing one. If another container with the trial's name
// had to be removed first, returns nullopt. The caller must then call the function again.
std::optional<DockerEngine::Claimed> DockerEngine::create_or_adopt(const Run& run, const Trial& trial,
                                                                   int attempt, const std::stop_token& stop) {
  const nlohmann::json body =
      container_json(run, trial, attempt, networks_at_create(connections_.version(stop)));
  const HttpResponse created = create_container(connections_, trial.name, trial.platform, body, stop);
  if (created.status == 201) return Claimed{.id = reading(connections_, [&] { return created_id(created); })};
  if (created.status != 409) throw refusal_of_create(created, trial);
  const ContainerFacts holder = holder_of_name(run, trial, attempt, stop);
  if (is_earlier_attempt(holder, run, trial, attempt)) {
    remove_container(connections_, holder.id, trial.name, stop);
    return std::nullopt;
  }
  const std::optional<Identity> identity = identity_of(holder.labels, trial.name);
  const bool has_other_gpus =
      holder.state == "created" && identity && identity->slots.gpus != trial.slots.gpus;
  if (has_other_gpus || parse_status(holder.state, "").phase == Phase::gone) {
    remove_container(connections_, holder.id, trial.name, stop);
    return std::nullopt;
  }
  Claimed claimed{.id = holder.id, .existed = true};
  if (holder.state != "created") {
    claimed.running = observation_of(run, trial, attempt, holder);
    if (holder.state != "running" && !holder.oom)
      claimed.running->stopped = signals_.ended(holder.id, holder.exit_code);
  }
  return claimed;
}

// Returns the container that has the trial's name. The container must belong to this attempt or to an earlier
// one. A container of this attempt exists if an earlier call created it, and the engine's answer was lost.
// Throws Error: conflict if any other container has the name, unavailable if the name is being freed.
ContainerFacts DockerEngine::holder_of_name(const Run& run, const Trial& trial, int attempt,
                                            const std::stop_token& stop) {
  std::optional<ContainerFacts> holder = inspect_container(connections_, trial.name, stop);
  if (!holder) {
    throw Error(ErrorKind::unavailable, trial.name,
                "the container name was in use a moment ago and is free now; try again");
  }
  if (holder->state == "removing")
    throw Error(ErrorKind::unavailable, trial.name,
                "the engine is removing a container of this name; try again");
  if (are_labels_of(holder->labels, run, trial.name, attempt)) return std::move(*holder);
  if (is_earlier_attempt(*holder, run, trial, attempt)) return std::move(*holder);
  throw Error(ErrorKind::conflict, trial.name,
              "the container name is in use by " + holder_text(holder->name, holder->image, holder->labels) +
                  "; remove the container or rename the trial");
}

// Adds networks, the parameters file, the provided program and inputs to a created container. Each step of
// the function can be repeated.
std::vector<std::string> DockerEngine::add_to_created(const std::string& id, const Trial& trial,
                                                      const std::stop_token& stop) {
  if (networks_at_create(connections_.version(stop)) == NetworksAtCreate::first) {
    const std::vector<std::string>& networks = trial.container.networks;
    for (std::size_t i = 1; i < networks.size(); ++i) {
      connect_network(connections_, networks[i], id, endpoint_json(trial, networks[i]), stop);
    }
  }
  if (trial.params_file) {
    put_archive(connections_, id, "/",
                tar_of({{"combu/params.json", trial.params.empty() ? "{}" : trial.params}}), stop);
  }
  if (trial.container.provided) provider_.provide(connections_, id, trial, stop);
  if (trial.inputs.empty()) return {};
  const InputOwner owner = input_owner(trial);
  std::optional<std::vector<std::string>> digests;
  const auto pack = [&](const HttpRequest::Send& send) {
    digests = pack_inputs(trial.inputs, owner, send);
    return digests.has_value();
  };
  put_archive(connections_, id, trial.name, pack, stop);
  return digests.value_or(std::vector<std::string>());
}

}  // namespace combu::docker
