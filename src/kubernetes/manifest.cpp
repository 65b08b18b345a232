#include "kubernetes/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "combu/json.hpp"
#include "combu/kubernetes.hpp"
#include "kubernetes/merge.hpp"
#include "kubernetes/metadata.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/networks.hpp"
#include "kubernetes/secrets.hpp"
#include "kubernetes/trial_fields.hpp"
#include "kubernetes/volumes.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

// Kubelets replace $(NAME) in commands, arguments, variables and probes, and turn $$ into $.
// https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) result.append(c == '$' ? 2 : 1, c);
  return result;
}

template <class Words>
json escaped_words(const Words& words) {
  json list = json::array();
  for (const std::string& word : words) list.push_back(escaped(word));
  return list;
}

void add_program(json& container, const Process& process) {
  const bool has_entrypoint = process.entrypoint && !process.entrypoint->empty();
  if (has_entrypoint) container["command"] = escaped_words(*process.entrypoint);
  if (process.cmd && !process.cmd->empty()) {
    // An empty entrypoint removes the image's own. An empty `command` would not.
    const bool replaces_entrypoint = process.entrypoint && !has_entrypoint;
    container[replaces_entrypoint ? "command" : "args"] = escaped_words(*process.cmd);
  }
  for (const auto& [name, value] : process.env)
    container["env"].push_back({{"name", name}, {"value", escaped(value)}});
  if (!process.workdir.empty()) container["workingDir"] = process.workdir;
  if (const auto user = numeric_user(process.user)) {
    container["securityContext"]["runAsUser"] = user->uid;
    if (user->gid) container["securityContext"]["runAsGroup"] = *user->gid;
  }
}

// The API rounds CPUs up to thousandths.
std::string cpu_quantity(Cpus cpus) {
  constexpr std::int64_t k_milli = 1'000'000;
  const std::int64_t milli = (cpus.nano + k_milli - 1) / k_milli;
  return milli % 1000 == 0 ? std::to_string(milli / 1000) : fmt::format("{}m", milli);
}

void add_slots(json& container, const Trial& trial) {
  json amounts = json::object();
  if (trial.slots.cpus.nano > 0) amounts["cpu"] = cpu_quantity(trial.slots.cpus);
  if (trial.slots.memory.count > 0) amounts["memory"] = memory_quantity(trial.slots.memory);
  json& resources = container["resources"];
  if (!amounts.empty()) resources = {{"requests", amounts}, {"limits", amounts}};
  if (is_gpu_count(*trial.gpus)) resources["limits"][k_gpu] = std::to_string(trial.gpus->count);
  if (resources.is_null()) container.erase("resources");
}

// Docker's default values, which docs/experiment.md names: https://docs.docker.com/reference/dockerfile/
json probe_of(const Healthcheck& check) {
  constexpr Seconds k_interval{30};
  constexpr Seconds k_timeout{30};
  constexpr int k_retries = 3;
  const auto seconds = [](Seconds duration, Seconds fallback) {
    return whole_seconds(duration.count() > 0 ? duration : fallback);
  };
  std::vector<std::string> command(check.test.begin() + 1, check.test.end());
  if (check.test.front() == "CMD-SHELL") command.insert(command.begin(), {"/bin/sh", "-c"});
  return {{"exec", {{"command", escaped_words(command)}}},
          {"periodSeconds", seconds(check.interval, k_interval)},
          {"timeoutSeconds", seconds(check.timeout, k_timeout)},
          {"failureThreshold", check.retries > 0 ? check.retries : k_retries}};
}

const char* pull_policy(Pull pull) {
  switch (pull) {
    case Pull::always:
      return "Always";
    case Pull::never:
      return "Never";
    case Pull::missing:
      break;
  }
  return "IfNotPresent";
}

json container_of(const Trial& trial) {
  json container = {
      {"name", k_container}, {"image", trial.image}, {"imagePullPolicy", pull_policy(trial.pull)}};
  add_program(container, trial.process);
  add_slots(container, trial);
  if (has_health_command(trial)) container["readinessProbe"] = probe_of(*trial.healthcheck);
  return container;
}

// Adds the operating system and the architecture of "linux/arm/v7". Nodes have no label for the variant.
void add_platform(json& spec, const std::string& platform) {
  if (platform.empty()) return;
  const std::size_t slash = platform.find('/');
  const std::size_t next = platform.find('/', slash + 1);
  spec["nodeSelector"] = {{"kubernetes.io/os", platform.substr(0, slash)},
                          {"kubernetes.io/arch", platform.substr(slash + 1, next - slash - 1)}};
}

// Returns an empty text if every node may run the trial.
std::string platform_of(const Trial& trial) {
  const auto& program = trial.container.provided;
  if (!trial.platform.empty() || !program) return trial.platform;
  return program->platform.empty() ? k_own_platform : program->platform;
}

json spec_of(const Run& run, const Trial& trial) {
  constexpr Seconds k_stop_grace{10};
  json spec = {
      // The agent in a container that was started again serves the files, and ends with the exit code 0.
      {"restartPolicy", trial.container.kept_folders.empty() ? "Never" : "OnFailure"},
      {"enableServiceLinks", false},
      {"automountServiceAccountToken", false},
      {"terminationGracePeriodSeconds", whole_seconds(trial.process.stop_grace.value_or(k_stop_grace))},
      {"containers", json::array({container_of(trial)})}};
  // The first process of the Pod then reaps zombies. The trial's program has another process id, so that
  // signals have their default action.
  if (trial.process.init) spec["shareProcessNamespace"] = true;
  // A worker ends by itself after its idle time, and may live as long as the run.
  if (run.experiment.ttl.count() > 0 && !is_worker_container(trial))
    spec["activeDeadlineSeconds"] = whole_seconds(run.experiment.ttl);
  add_platform(spec, platform_of(trial));
  return spec;
}

// A node fits only if its GPUs have at least this much memory. The terms of the node affinity are
// alternatives, so each term gets the requirement.
void require_gpu_memory(json& spec, Bytes memory) {
  constexpr std::int64_t k_mib = std::int64_t{1} << 20;
  const std::int64_t mib = (memory.count + k_mib - 1) / k_mib;
  const json requirement = {
      {"key", k_gpu_memory}, {"operator", "Gt"}, {"values", json::array({std::to_string(mib - 1)})}};
  json& terms =
      spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
  if (terms.empty()) terms = json::array({json::object()});
  for (json& term : terms) term["matchExpressions"].push_back(requirement);
}

std::string file_name(const ProvidedProgram& program) {
  return program.path.substr(program.path.rfind('/') + 1);
}

// The program, and the folder that every user may write to.
void add_program_volumes(json& spec, const Run& run, const ProvidedProgram& program) {
  constexpr int k_executable = 0555;
  json& mounts = spec["containers"][0]["volumeMounts"];
  spec["volumes"].push_back(
      {{"name", "combu-program"},
       {"configMap", {{"name", program_name(run.id, program)}, {"defaultMode", k_executable}}}});
  mounts.push_back({{"name", "combu-program"},
                    {"mountPath", program.path.substr(0, program.path.rfind('/'))},
                    {"readOnly", true}});
  spec["volumes"].push_back({{"name", "combu-attempts"}, {"emptyDir", json::object()}});
  mounts.push_back({{"name", "combu-attempts"}, {"mountPath", program.folder + "/w"}});
}

// True if the trial's program may not be able to write to the image's folders.
bool is_image_read_only(const json& section) {
  for (const char* part : {"pod", "container"}) {
    const json& context = member_of(section, {part, "securityContext"});
    const json& user = member_of(context, "runAsUser");
    if (member_of(context, "runAsNonRoot") == true || member_of(context, "readOnlyRootFilesystem") == true ||
        (user.is_number_integer() && user != 0))
      return true;
  }
  return false;
}

// True if the folder is in a volume of the trial.
bool is_in_volume(const Trial& trial, const std::string& folder) {
  return std::ranges::any_of(trial.container.volumes, [&](const Volume& volume) {
    return (folder + "/").starts_with(volume.target + "/");
  });
}

// Mounts an empty volume at each folder that must outlive the container, and at each folder into which the
// agent writes files, if it could not write otherwise. If it can, the files get into the image's own folders,
// as on a Docker Engine.
void add_empty_volumes(json& spec, const Trial& trial, const json& section) {
  const auto user = numeric_user(trial.process.user);
  std::set<std::string> folders(trial.container.kept_folders.begin(), trial.container.kept_folders.end());
  if ((user && user->uid != 0) || is_image_read_only(section))
    folders.insert(trial.container.written_folders.begin(), trial.container.written_folders.end());
  int number = 0;
  for (const std::string& folder : folders) {
    if (mounts_at(section, folder) || is_in_volume(trial, folder)) continue;
    const std::string name = fmt::format("combu-folder-{}", ++number);
    spec["volumes"].push_back({{"name", name}, {"emptyDir", json::object()}});
    spec["containers"][0]["volumeMounts"].push_back({{"name", name}, {"mountPath", folder}});
  }
}

void merge_section(json& pod, const Trial& trial, const json& section) {
  json& spec = pod["spec"];
  if (const json& over = member_of(section, "pod"); !over.is_null()) merge(spec, over);
  if (const json& over = member_of(section, "container"); !over.is_null()) merge(spec["containers"][0], over);
  if (const json& over = member_of(section, "metadata"); !over.is_null()) merge(pod["metadata"], over);
  if (trial.gpus->memory.count > 0) require_gpu_memory(spec, trial.gpus->memory);
  // The API refuses Pods with both.
  if (member_of(spec, "hostPID") == true) spec.erase("shareProcessNamespace");
}

// The user's labels. A value that no label of Kubernetes can have becomes an annotation.
void put_labels(json& metadata, const Pairs& labels) {
  for (const auto& [name, value] : labels)
    metadata[is_label_value(value) ? "labels" : "annotations"][name] = value;
}

void put_own(json& metadata, const Run& run, const Trial& trial, int attempt) {
  put_run_labels(metadata, run);
  put_label(metadata, k_trial, trial.name);
  put_label(metadata, k_attempt, std::to_string(attempt));
  json& notes = metadata["annotations"];
  if (trial.service) notes[k_service] = "true";
  if (is_supervised(trial)) notes[k_supervised] = "true";
  if (trial.container.awaits_delivery) notes[k_awaits_delivery] = "true";
  if (trial.slots.cpus.nano > 0) notes[k_cpus] = to_string(trial.slots.cpus);
  if (trial.slots.memory.count > 0) notes[k_memory] = std::to_string(trial.slots.memory.count);
  if (run.experiment.keep == Keep::ended) notes[k_keep] = "ended";
  if (!trial.container.kept_folders.empty()) notes[k_keep] = "volume";
  if (has_health_command(trial) && trial.healthcheck->start_period.count() > 0)
    notes[k_start_period] = fmt::format("{}", trial.healthcheck->start_period.count());
  if (notes.empty()) metadata.erase("annotations");
}

}  // namespace

json anchor_manifest(const Run& run) {
  return run_object("v1", "ConfigMap", anchor_name(run.id), run, {});
}

json program_manifest(const Run& run, const ProvidedProgram& program, const Home& home) {
  json map = run_object("v1", "ConfigMap", program_name(run.id, program), run, home);
  map["immutable"] = true;
  map["binaryData"] = {{file_name(program), encode_base64(program.content)}};
  return map;
}

json pod_manifest(const Run& run, const Trial& trial, int attempt, const Home& home) {
  const json section = section_of(trial);
  json pod = run_object("v1", "Pod", pod_name({run.id, trial.name, attempt}), run, home);
  pod["spec"] = spec_of(run, trial);
  put_labels(pod["metadata"], trial.container.labels);
  add_networks(pod, run, trial, home);
  add_volumes(pod["spec"], trial, section);
  add_secrets(pod["spec"], run, trial, section);
  if (const auto& program = trial.container.provided) add_program_volumes(pod["spec"], run, *program);
  add_empty_volumes(pod["spec"], trial, section);
  merge_section(pod, trial, section);
  put_own(pod["metadata"], run, trial, attempt);
  return pod;
}

}  // namespace combu::kubernetes

namespace combu {

std::string kubernetes_manifests(const Run& run, const std::string& name_space) {
  const kubernetes::Home home{name_space, ""};
  std::string stream;
  // The stream begins with the separator. Otherwise kubectl would take the stream for a single JSON object.
  const auto add = [&](const nlohmann::json& object) {
    stream += "---\n" + escape_controls(indented_json(object)) + "\n";
  };
  nlohmann::json anchor = kubernetes::anchor_manifest(run);
  anchor["metadata"]["namespace"] = name_space;
  add(anchor);
  for (const nlohmann::json& object : kubernetes::network_manifests(run, home)) add(object);
  if (std::ranges::any_of(run.experiment.trials, kubernetes::needs_secret))
    add(kubernetes::empty_secret_manifest(run, home));
  for (const Trial& trial : run.experiment.trials) add(kubernetes::pod_manifest(run, trial, 1, home));
  return stream;
}

}  // namespace combu
