#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "combu/json.hpp"
#include "kubernetes/kubernetes_engine.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/quota.hpp"
#include "kubernetes/secrets.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr Seconds k_quota_pause{2};  // until a start is tried again
constexpr int k_too_many_requests = 429;
constexpr std::chrono::seconds k_program_known_for{10};

// True if an object of that name exists. A status 409 can also mean that the server's accounting for a quota
// was changed by another request, and that it has created nothing.
bool is_existing(const ApiError& error) {
  return error.kind() == ErrorKind::conflict && error.message().find("already exists") != std::string::npos;
}

// True if the API server could not ask an admission webhook. A repeat would only wait again.
bool is_webhook_failure(const ApiError& error) {
  return error.message().find("failed calling webhook") != std::string::npos;
}

}  // namespace

// Creates an object, or returns the existing object of that name, which an earlier call has created.
json KubernetesEngine::create_once(const Kind& kind, const json& object, const std::stop_token& stop) {
  const std::string name = object.at("metadata").at("name");
  while (true) {
    try {
      return objects_.create(kind, object, stop);
    } catch (const ApiError& error) {
      if (error.kind() != ErrorKind::conflict) throw;
    }
    if (auto existing = objects_.find(kind, name, stop)) return *std::move(existing);
  }
}

std::string KubernetesEngine::anchor_of(const Run& run, const std::stop_token& stop) {
  {
    const std::scoped_lock lock(mutex_);
    if (const auto known = anchors_.find(run.id); known != anchors_.end()) return known->second;
  }
  const json anchor = create_once(k_config_maps, anchor_manifest(run), stop);
  // After an interrupted `kill`, `run --resume` continues the run.
  if (!text_of(anchor, {"metadata", "annotations", k_stopped}).empty())
    objects_.patch(k_config_maps, anchor_name(run.id),
                   {{"metadata", {{"annotations", {{k_stopped, nullptr}}}}}}, stop);
  const std::scoped_lock lock(mutex_);
  released_.erase(run.id);
  return anchors_.try_emplace(run.id, text_of(anchor, {"metadata", "uid"})).first->second;
}

void KubernetesEngine::deliver_secrets(const Run& run, const Home& home, const std::stop_token& stop) {
  const std::scoped_lock lock(secrets_mutex_);
  std::shared_ptr<const SecretValues>& delivered = delivered_[run.id];
  if (delivered == run.secrets) return;
  const json object = secret_manifest(run, home);
  const std::string name = object.at("metadata").at("name");
  try {
    try {
      objects_.create(k_secrets, object, stop);
    } catch (const ApiError& error) {
      if (!is_existing(error)) throw;
      // A merge patch keeps values that only Pods of other trials need.
      objects_.patch(k_secrets, name, object, stop);
    }
  } catch (const ApiError& error) {
    // The server's message may quote the request, which has the values.
    throw ApiError(error.kind(), "secrets",
                   fmt::format("the API server has answered status {} to the request to store the Secret {}",
                               error.status(), name),
                   error.status(), error.retry_after());
  }
  delivered = run.secrets;
}

std::vector<Error> KubernetesEngine::prepare(const Run& run,
                                             const std::function<void(const Preparation&)>& on_progress,
                                             std::stop_token stop) {
  if (stop.stop_requested()) throw Error(ErrorKind::cancelled, address_, "cancelled");
  if (on_progress) {
    const std::scoped_lock lock(mutex_);
    for (const std::string& note : std::exchange(notes_, {}))
      on_progress({.kind = Preparation::Kind::note, .name = note, .finished = true});
  }
  const auto report = on_progress ? on_progress : [](const Preparation&) {};
  std::vector<Error> errors = images_.prepare(run.experiment, report, stop);
  if (!errors.empty()) return errors;
  try {
    const Home home{.name_space = objects_.name_space(), .anchor_uid = anchor_of(run, stop)};
    if (run.secrets && std::ranges::any_of(run.experiment.trials, needs_secret))
      deliver_secrets(run, home, stop);
    for (const json& object : network_manifests(run, home)) {
      const bool is_service = object.at("kind") == "Service";
      create_once(is_service ? k_services : k_network_policies, object, stop);
      if (on_progress)
        on_progress(
            {.kind = Preparation::Kind::network, .name = object.at("metadata").at("name"), .finished = true});
    }
  } catch (const ApiError& error) {
    if (error.kind() == ErrorKind::unavailable) throw;
    errors.emplace_back(error.kind(), address_, error.message());
  }
  return errors;
}

// Creates the ConfigMap with the program. It is large, so it is not sent for each attempt; it is sent again
// after some time, because a user may have deleted it.
void KubernetesEngine::provide_program(const Run& run, const ProvidedProgram& program, const Home& home,
                                       const std::stop_token& stop) {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::scoped_lock lock(mutex_);
    const auto known = programs_.find({run.id, &program});
    if (known != programs_.end() && now - known->second < k_program_known_for) return;
  }
  try {
    objects_.create(k_config_maps, program_manifest(run, program, home), stop);
  } catch (const ApiError& error) {
    if (!is_existing(error)) throw;
  }
  const std::scoped_lock lock(mutex_);
  programs_.insert_or_assign({run.id, &program}, now);
}

StartResult KubernetesEngine::start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) {
  const Key key{run.id, trial.name, attempt};
  const Home home{.name_space = objects_.name_space(), .anchor_uid = anchor_of(run, stop)};
  const json pod = pod_manifest(run, trial, attempt, home);
  if (trial.container.provided) provide_program(run, *trial.container.provided, home, stop);
  if (needs_secret(trial)) {
    (void)reveal_secrets(run, trial);  // throws if a value is unknown
    deliver_secrets(run, home, stop);
  }
  // Names of ended Pods stay in DNS, so that the name of the trial would have two addresses.
  if (attempt > 1 && pod.at("spec").contains("hostname"))
    objects_.remove(k_pods, pod_name({run.id, trial.name, attempt - 1}), std::nullopt, {}, stop);
  rate_.wait(stop);
  const auto begin = std::chrono::steady_clock::now();
  try {
    objects_.create_pod(pod, stop);
    const auto end = std::chrono::steady_clock::now();
    rate_.answered(end - begin, end);
    return Accepted{};
  } catch (const ApiError& error) {
    if (is_existing(error)) return adopt(key, stop);
    if (error.status() == k_too_many_requests)
      rate_.overloaded(error.retry_after(), std::chrono::steady_clock::now());
    const QuotaRefusal quota = quota_refusal(error.message());
    if (quota == QuotaRefusal::used_up)
      return NoRoom{.reason = exceeded_quota(error.message()), .retry_after = k_quota_pause};
    if (error.kind() == ErrorKind::conflict)
      throw Error(ErrorKind::unavailable, trial.name, error.message() + "; try again");
    const bool may_help = error.kind() == ErrorKind::unavailable && !is_webhook_failure(error);
    if (may_help) throw;
    throw Error(ErrorKind::refused, trial.name, error.message());
  }
}

// Returns the state of an attempt whose Pod existed already when combu created it. If the Pod is gone, it is
// unknown who has deleted the Pod and whether it had ended: the attempt counts as stopped, because another
// Pod might run it twice.
StartResult KubernetesEngine::adopt(const Key& key, const std::stop_token& stop) {
  const std::string name = pod_name(key);
  const std::optional<json> object = objects_.find(k_pods, name, stop);
  if (!object) return Running{{.key = key, .id = name, .phase = Phase::ended, .stopped = true}};
  auto pod = report_of(*object);
  if (!pod || pod->observation.key != key)
    throw Error(ErrorKind::conflict, key.trial,
                fmt::format("the name is in use by the Pod {}, which combu did not create for this attempt; "
                            "delete the Pod",
                            name));
  if (pod->observation.phase == Phase::pending) return Accepted{};
  if (pod->is_deleted) settle_deletions({&*pod}, stop);
  return Running{std::move(pod->observation)};
}

}  // namespace combu::kubernetes
