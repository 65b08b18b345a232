#include "spec/worker.hpp"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "combu/json.hpp"
#include "spec/fields.hpp"
#include "spec/values.hpp"

namespace combu {

bool Trial::has_secret_variables() const {
  return std::ranges::any_of(*container.secrets,
                             [](const Secret& secret) { return !secret.variable.empty(); });
}

bool is_of_container(const Secret& secret) {
  return !secret.target.empty() || secret.is_in_cluster;
}

std::string worker_shape(const Trial& trial) {
  std::string shape;
  const auto add = [&shape](const auto& value) {
    fmt::format_to(std::back_inserter(shape), "{}", value);
    shape += '\0';
  };
  const WorkerSettings& worker = *trial.worker;
  add(worker.count);
  add(worker.concurrency);
  add(worker.trials_max);
  add(worker.age_max.count());
  add(worker.idle.count());
  add(trial.image);
  add(trial.platform);
  add(trial.process.workdir);
  add(trial.process.user);
  add(trial.container.shm_size.count);
  add(trial.container.docker);
  add(trial.container.kubernetes);
  add(trial.slots.cpus.nano);
  add(trial.slots.memory.count);
  for (const std::string& gpu : trial.slots.gpus) add(gpu);
  add(to_string(*trial.gpus));
  for (const std::string& network : trial.container.networks) add(network);
  for (const Volume& volume : trial.container.volumes) {
    add(volume.source);
    add(volume.target);
    add(volume.read_only);
    add(volume.remote);
  }
  for (const Input& input : trial.inputs) {
    if (input.in_scratch) continue;
    add(input.trial);
    add(input.from);
    add(input.to);
  }
  for (const Secret& secret : *trial.container.secrets) {
    if (!is_of_container(secret)) continue;
    add(secret.source);
    add(secret.target);
    add(secret.variable);
  }
  return shape;
}

namespace spec {
namespace {

constexpr std::array k_worker_fields{Spelling{"count", "count"}, Spelling{"concurrency", "concurrency"},
                                     Spelling{"trials_max", "trials_max"}, Spelling{"age_max", "age_max"},
                                     Spelling{"idle", "idle"}};

bool has_health_check(const Trial& trial) {
  return trial.healthcheck && (trial.healthcheck->test.empty() || trial.healthcheck->test.front() != "NONE");
}

// A setting of a `docker` section that a container with combu's agent cannot have.
struct DockerSetting {
  std::string_view section;  // empty: the section `docker` itself
  std::string_view name;
  std::string_view why;
};
constexpr std::string_view k_agent_is_first = "the first process of the container is combu's agent";
constexpr std::array k_settings_of_agents{DockerSetting{"", "Entrypoint", k_agent_is_first},
                                          DockerSetting{"", "Cmd", k_agent_is_first},
                                          DockerSetting{"HostConfig", "Init", k_agent_is_first},
                                          DockerSetting{"HostConfig", "PidMode", k_agent_is_first}};
constexpr std::array k_settings_of_workers{
    DockerSetting{"", "Healthcheck",
                  "the engine checks the health of a container, which several trials share"},
    DockerSetting{"HostConfig", "PortBindings",
                  "several trials share the container of a worker and its ports"},
    DockerSetting{"HostConfig", "PublishAllPorts",
                  "several trials share the container of a worker and its ports"}};

// Refuses the settings, which the field does not allow.
void check_docker_section(const Trial& trial, std::span<const DockerSetting> settings, std::string_view field,
                          const Place& place, Report& report) {
  if (trial.container.docker.empty()) return;
  const nlohmann::json docker = parse_json(trial.container.docker);
  for (const DockerSetting& setting : settings) {
    const auto section = setting.section.empty() ? docker.cend() : docker.find(setting.section);
    if (!setting.section.empty() && (section == docker.cend() || !section->is_object())) continue;
    if (!(setting.section.empty() ? docker : *section).contains(setting.name)) continue;
    const Place at = setting.section.empty() ? place : place.key(setting.section);
    report.add(at.key(setting.name), fmt::format("is not possible with `{}`: {}; remove it, or remove `{}`",
                                                 field, setting.why, field));
  }
}

}  // namespace

WorkerSettings read_worker(const Json& value, const Place& place, Report& report) {
  WorkerSettings worker{.on = true};
  if (value.is_boolean()) return value.get<bool>() ? worker : WorkerSettings();
  if (!value.is_object()) {
    report.add(place, fmt::format("must be true or {{count, concurrency, trials_max, age_max, idle}}, not {}",
                                  shown(value)));
    return worker;
  }
  const Section section(value, k_worker_fields, place, report);
  const auto count = [&](std::string_view name, std::size_t& target) {
    if (const Json* given = section.find(name))
      target = read_limit_count(*given, place.key(name), report).value_or(1);
  };
  count("count", worker.count);
  count("concurrency", worker.concurrency);
  count("trials_max", worker.trials_max);
  if (const Json* age = section.find("age_max"))
    worker.age_max = read_lifetime(*age, place.key("age_max"), report).value_or(worker.age_max);
  if (const Json* idle = section.find("idle"))
    worker.idle = read_lifetime(*idle, place.key("idle"), report).value_or(worker.idle);
  return worker;
}

void check_worker(const Trial& trial, const Place& place, Report& report) {
  const auto scratch_path = [&](const Place& at, std::string_view path) {
    report.add(at, fmt::format("the path in the container, \"{}\", must begin with `/`: only an attempt of a "
                               "trial with `worker` has a scratch folder, where a relative path begins",
                               shortened(path)));
  };
  const WorkerSettings& worker = *trial.worker;
  if (worker.on || !trial.container.secrets->empty())
    check_docker_section(trial, k_settings_of_agents, worker.on ? "worker" : "secrets", place.key("docker"),
                         report);
  if (!worker.on) {
    for (std::size_t i = 0; i < trial.outputs.size(); ++i)
      if (trial.outputs[i].in_scratch)
        scratch_path(place.key("outputs").index(i), trial.outputs[i].path_in_container());
    for (std::size_t i = 0; i < trial.inputs.size(); ++i)
      if (trial.inputs[i].in_scratch)
        scratch_path(place.key("inputs").index(i), trial.inputs[i].to.substr(1));
    if (!trial.metrics->file.empty() && !trial.metrics->file.starts_with('/'))
      scratch_path(place.key("metrics").key("file"), trial.metrics->file);
    return;
  }
  const auto refuse = [&](std::string_view field, std::string_view why) {
    report.add(place.key("worker"),
               fmt::format("cannot be combined with `{}`: {}; remove `worker` or `{}`", field, why, field));
  };
  if (trial.service)
    refuse("service", "a service needs a container of its own, which other trials can reach");
  if (!trial.container.ports.empty())
    refuse("ports", "several trials share the container of a worker and its ports");
  if (has_health_check(trial))
    refuse("healthcheck", "the engine checks the health of a container, which several trials share");
  if (worker.concurrency > 1 && !trial.gpus->empty())
    report.add(place.key("worker").key("concurrency"),
               "must be 1 for a trial with `gpus`, because a GPU serves only one attempt at a time");
  check_docker_section(trial, k_settings_of_workers, "worker", place.key("docker"), report);
}

void WorkerChecks::take(const Trial& trial, const Place& place, Report& report) {
  if (!trial.worker->on) return;
  if (names_.empty()) {
    first_ = trial.name;
    docker_ = trial.container.docker;
    kubernetes_ = trial.container.kubernetes;
  }
  names_.insert(trial.name);
  const auto expect_equal = [&](std::string_view field, const std::string& section,
                                const std::string& of_first) {
    if (section == of_first) return;
    report.add(
        place.key(field),
        fmt::format("must be the same for all trials with `worker`, because they share containers, but "
                    "it differs from the section of `{}`; remove `worker` or make the sections equal",
                    first_));
  };
  expect_equal("docker", trial.container.docker, docker_);
  expect_equal("kubernetes", trial.container.kubernetes, kubernetes_);
  const std::string shape = worker_shape(trial);
  for (std::size_t i = 0; i < trial.outputs.size(); ++i)
    if (!trial.outputs[i].in_scratch)
      take_path(trial, shape, trial.outputs[i].path, place.key("outputs").index(i), report);
  if (trial.metrics->file.starts_with('/'))
    take_path(trial, shape, trial.metrics->file, place.key("metrics").key("file"), report);
}

void WorkerChecks::take_path(const Trial& trial, const std::string& shape, const std::string& path,
                             const Place& place, Report& report) {
  const std::string* other = nullptr;
  const auto take_writer = [&](const auto& found) {
    if (found != writers_.end() && found->first.shape == shape && holds_path(path, found->first.path) &&
        found->second != trial.name)
      other = &found->second;
  };
  for (std::size_t slash = path.rfind('/'); slash != 0; slash = path.rfind('/', slash - 1))
    if (const auto above = writers_.find({.shape = shape, .path = path.substr(0, slash)});
        above != writers_.end() && above->second != trial.name)
      other = &above->second;
  take_writer(writers_.lower_bound({.shape = shape, .path = path + '/'}));
  take_writer(writers_.try_emplace({.shape = shape, .path = path}, trial.name).first);
  if (other == nullptr) return;
  const std::string name = path.substr(path.rfind('/') + 1);
  report.add(place,
             fmt::format("`{}` writes {} too, in the same containers; use a path in the scratch folder "
                         "of each attempt, such as \"{}\" for $COMBU_SCRATCH/{}",
                         *other, path, name, name));
}

void WorkerChecks::finish(const Experiment& experiment, const Place& trials, Report& report) const {
  if (names_.empty()) return;
  for (std::size_t i = 0; i < experiment.trials.size(); ++i) {
    report.enter(experiment.trials[i].name);
    for (const Depend& depend : experiment.trials[i].depends) {
      const bool is_to_reach =
          depend.condition == Condition::started || depend.condition == Condition::healthy;
      if (!is_to_reach || !names_.contains(depend.trial)) continue;
      report.add(trials.index(i).key("depends"),
                 fmt::format("`{}` has `worker`, so no trial can reach it by its name while it runs; use the "
                             "condition `succeeded` or `finished`, or remove `worker`",
                             depend.trial));
    }
  }
  report.enter("");
}

}  // namespace spec
}  // namespace combu
