#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "combu/json.hpp"
#include "kubernetes/diagnosis.hpp"
#include "kubernetes/kubernetes_engine.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/quota.hpp"
#include "kubernetes/rights.hpp"
#include "kubernetes/secrets.hpp"
#include "kubernetes/trial_fields.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr std::size_t k_tries_in_flight = 8;

// Returns a text that is equal for Pods that an API server accepts or refuses alike. Attempts differ in their
// names, arguments and environments.
std::string shape_of(json pod) {
  pod["metadata"].erase("name");
  for (const char* const texts : {"labels", "annotations"}) {
    json& map = pod["metadata"][texts];
    if (!map.is_object()) continue;
    for (const char* const own : {k_trial, k_attempt}) map.erase(own);
  }
  json& container = pod["spec"]["containers"][0];
  for (const char* const own : {"command", "args", "env"}) container.erase(own);
  pod["spec"].erase("hostname");
  return json_text(pod);
}

// Returns the requests and limits that the server has added to a Pod, such as "limits.cpu 500m". Omits
// requests that the server has copied from limits of the Pod.
std::string added_resources(const json& sent, const json& completed) {
  const json& before = json_at(sent["spec"]["containers"][0], "resources");
  const json& containers = json_at(json_at(completed, "spec"), "containers");
  if (!containers.is_array() || containers.empty()) return "";
  std::vector<std::string> added;
  const json& after = json_at(containers[0], "resources");
  for (const char* const kind : {"requests", "limits"}) {
    const json& amounts = json_at(after, kind);
    if (!amounts.is_object()) continue;
    for (const auto& [name, amount] : amounts.items()) {
      const bool is_copy = !json_at(json_at(before, "limits"), name.c_str()).is_null() &&
                           json_at(json_at(after, "limits"), name.c_str()) == amount;
      if (!is_copy && json_at(json_at(before, kind), name.c_str()).is_null())
        added.push_back(fmt::format("{}.{} {}", kind, name, unquoted_text(amount)));
    }
  }
  return list_text(added, added.size());
}

// Returns the message of a refusal without the name of the Pod, and with a remedy for refusals that users
// often get.
std::string refusal_text(std::string message) {
  const auto has = [&](std::string_view part) { return message.find(part) != std::string::npos; };
  if (constexpr std::string_view k_forbidden = "\" is forbidden: ";
      message.starts_with(fmt::format("pods \"{}", k_check_prefix)) && has(k_forbidden))
    message.replace(0, message.find(k_forbidden) + k_forbidden.size(), "the cluster refuses the Pod: ");
  if (has("violates PodSecurity"))
    message += fmt::format("; write {}, and a `user` other than root", k_restricted_fields);
  else if (has("failed quota: "))
    message += "; set `cpus` and `memory`, for example in `defaults`";
  else if (has("exceeded quota: "))
    message += "; request less, or ask an administrator for a larger quota";
  else if (has(" usage per ") || has(" limit to request ratio per "))  // a LimitRange
    message += "; change `cpus` or `memory` (`kubectl describe limitranges` shows what the namespace allows)";
  return message;
}

}  // namespace

// Asks the server whether it would accept a Pod, without creating the Pod.
std::optional<Error> KubernetesEngine::try_shape(const json& pod, const Trial& trial,
                                                 const std::stop_token& stop) {
  try {
    const auto note = [&](std::string text) {
      const std::scoped_lock lock(mutex_);
      notes_.insert(std::move(text));
    };
    const json completed = objects_.try_create(k_pods, pod, note, stop);
    if (const std::string defaults = added_resources(pod, completed); !defaults.empty())
      note(fmt::format("the namespace's LimitRange adds to trials such as {}: {}", trial.name, defaults));
  } catch (const ApiError& error) {
    if (quota_refusal(error.message()) == QuotaRefusal::used_up) return std::nullopt;
    if (error.kind() == ErrorKind::unavailable) throw;
    if (error.kind() == ErrorKind::not_found)
      return Error(error.kind(), address_,
                   fmt::format("{}; create the namespace with `kubectl create namespace {}`", error.message(),
                               objects_.name_space()));
    return Error(error.kind(), trial.name, refusal_text(error.message()));
  }
  return std::nullopt;
}

// Returns an error for each right that the run needs and the user lacks.
std::vector<Error> KubernetesEngine::check_rights(const Run& run, const std::stop_token& stop) {
  const bool has_volumes = std::ranges::any_of(run.experiment.trials, [](const Trial& trial) {
    return std::ranges::any_of(trial.container.volumes,
                               [](const Volume& one) { return !one.source_is_path; });
  });
  const bool has_agent = std::ranges::any_of(
      run.experiment.trials, [](const Trial& trial) { return trial.container.provided != nullptr; });
  const bool has_secrets = std::ranges::any_of(run.experiment.trials, needs_secret);
  std::vector<Error> errors;
  for (const Right& right : missing_rights(api_, objects_.name_space(), stop)) {
    const bool is_needed =
        right.need == Need::runs || (right.need == Need::isolation && run.experiment.isolates_networks) ||
        (right.need == Need::volumes && has_volumes) || (right.need == Need::agent && has_agent) ||
        (right.need == Need::secrets && has_secrets);
    if (is_needed)
      errors.emplace_back(
          ErrorKind::refused, address_,
          fmt::format("you may not {} {} in the namespace {}; `combu --engine kubernetes doctor` "
                      "prints the Role that an administrator has to grant",
                      right.verb, right.resource_text(), objects_.name_space()));
  }
  return errors;
}

// Returns an error for each secret that Pods cannot have. Asks the server whether it would store the run's
// Secret, but without the values, so that no message of the server can quote them.
std::vector<Error> KubernetesEngine::check_secrets(const Run& run, const std::stop_token& stop) {
  std::vector<Error> errors;
  for (const SecretSource* source : cluster_sources(run.experiment)) {
    try {
      if (!objects_.exists(k_secrets, source->object, stop))
        errors.emplace_back(
            ErrorKind::not_found, source->path,
            fmt::format("the namespace {} has no Secret {}; create it first, or correct the name",
                        objects_.name_space(), source->object));
    } catch (const ApiError& error) {
      if (error.kind() != ErrorKind::refused) throw;  // the user may not read Secrets
    }
  }
  if (std::ranges::none_of(run.experiment.trials, needs_secret)) return errors;
  json object = empty_secret_manifest(run, {.name_space = objects_.name_space(), .anchor_uid = {}});
  // A resumed run has a Secret of this name already.
  object["metadata"].erase("name");
  object["metadata"]["generateName"] = k_check_prefix;
  try {
    (void)objects_.try_create(
        k_secrets, object, [](const std::string&) {}, stop);
  } catch (const ApiError& error) {
    if (error.kind() == ErrorKind::unavailable) throw;
    errors.emplace_back(error.kind(), "secrets", error.message());
  }
  return errors;
}

std::vector<Error> KubernetesEngine::check(const Run& run, std::stop_token stop) {
  std::vector<Error> errors = check_fields(run.experiment);
  if (errors.empty()) errors = check_rights(run, stop);
  if (errors.empty()) errors = check_secrets(run, stop);
  if (!errors.empty()) return errors;
  std::map<std::string, std::pair<json, const Trial*>> shapes;
  std::set<std::string> claims;
  for (const Trial& trial : run.experiment.trials) {
    json pod = pod_manifest(run, trial, 1, {.name_space = objects_.name_space(), .anchor_uid = {}});
    std::string shape = shape_of(pod);
    // A resumed run has a Pod of this name already.
    pod["metadata"].erase("name");
    pod["metadata"]["generateName"] = k_check_prefix;
    shapes.try_emplace(std::move(shape), std::move(pod), &trial);
    for (const Volume& volume : trial.container.volumes) {
      if (volume.source_is_path || !claims.insert(volume.source).second) continue;
      if (!objects_.find(k_claims, volume.source, stop))
        errors.emplace_back(ErrorKind::not_found, volume.path,
                            fmt::format("the namespace {} has no PersistentVolumeClaim {}; create it first",
                                        objects_.name_space(), volume.source));
    }
  }
  std::vector<std::pair<json, const Trial*>> tries;
  tries.reserve(shapes.size());
  for (auto& [shape, one] : shapes) tries.push_back(std::move(one));
  std::vector<std::optional<Error>> results(tries.size());
  in_parallel(tries.size(), k_tries_in_flight,
              [&](std::size_t i) { results[i] = try_shape(tries[i].first, *tries[i].second, stop); });
  for (const auto& result : results)
    if (result) errors.push_back(*result);
  return errors;
}

}  // namespace combu::kubernetes
