#include "kubernetes/kubernetes_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "combu/json.hpp"
#include "combu/text.hpp"
#include "kubernetes/diagnosis.hpp"
#include "kubernetes/names.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

// More Pods without a node would only load the scheduler, which looks at all of them again after each change.
constexpr std::size_t k_pending_max = 200;
// The API server forwards each request for a log to the kubelet. Priority and fairness does not limit these
// requests.
constexpr ReadingPace k_reading{.polled_after = Seconds{10}, .poll_pause_min = Seconds{0.2}, .logs_max = 8};
constexpr int k_unprocessable = 422;  // also if a patch has another uid than the object
// A container normally begins to run within this time, so that no Events are needed.
constexpr Seconds k_usual_start{3};
constexpr Seconds k_anchor_answer_max{5};  // a watch does nothing else meanwhile

}  // namespace

KubernetesEngine::KubernetesEngine(Access access, std::string address, Limits limits,
                                   std::string docker_config)
    : access_(std::move(access)),
      address_(std::move(address)),
      limits_(limits),
      api_(access_, limits_.api),
      objects_(api_, access_.name_space),
      metrics_(objects_),
      ended_(objects_),
      images_(objects_, std::move(docker_config)) {}

Facts KubernetesEngine::facts(std::stop_token stop) {
  const json version = parse_json_or_discard(api_.send({.target = "/version"}, stop).body);
  if (!version.is_object() || !version.contains("gitVersion"))
    throw Error(ErrorKind::corrupt, address_, "the server is not an API server of Kubernetes");
  Facts facts;
  facts.engine = fmt::format("Kubernetes {}, context {}, namespace {}", unquoted_text(version["gitVersion"]),
                             access_.context, access_.name_space);
  facts.address = address_;
  facts.began_at = Instant{};  // a restart of the API server ends no Pod
  facts.is_remote = true;
  facts.can_exec = true;
  facts.places_attempts = true;
  facts.pending_max = k_pending_max;
  facts.reading = k_reading;
  return facts;
}

std::vector<Finding> KubernetesEngine::diagnose(std::stop_token stop) {
  return diagnose_cluster(api_, access_, stop);
}

std::vector<Gpu> KubernetesEngine::gpus(std::stop_token /*stop*/) {
  return {};
}

std::optional<PodReport> KubernetesEngine::report_of(const json& pod, bool is_gone) const {
  const ServerClock& clock = api_.server_clock();
  auto report = read_pod(pod, clock.at(real_clock().now()), is_gone);
  if (!report) return report;
  Observation& seen = report->observation;
  seen.digest = images_.digest_of(seen.image, seen.digest);
  const Instant::duration lead = clock.lead();
  if (lead == Instant::duration{}) return report;
  if (seen.created_at != Instant{}) seen.created_at -= lead;
  for (std::optional<Instant>* const moment : {&seen.ran_at, &seen.ended_at, &report->changes_at})
    if (*moment) **moment -= lead;
  return report;
}

std::vector<Observation> KubernetesEngine::list(const Selector& selector, ListDetail /*detail*/,
                                                std::stop_token stop) {
  const ChosenTrials chosen(selector);
  std::vector<PodReport> pods;
  objects_.list(
      k_pods, {.labels = label_selector(selector)},
      [&](const json& object) {
        auto pod = report_of(object);
        if (pod && chosen.contain(pod->observation.key.trial)) pods.push_back(*std::move(pod));
      },
      [&] { pods.clear(); }, stop);
  const Instant now = real_clock().now();
  std::vector<PodReport*> unclear;
  std::vector<PodReport*> deleted;
  for (PodReport& pod : pods) {
    if (pod.lacks_reason && now - pod.observation.created_at > k_usual_start) unclear.push_back(&pod);
    if (pod.is_deleted) deleted.push_back(&pod);
  }
  add_warnings(unclear, stop);
  settle_deletions(deleted, stop);
  std::vector<Observation> observations;
  observations.reserve(pods.size());
  for (PodReport& pod : pods) observations.push_back(std::move(pod.observation));
  return observations;
}

void KubernetesEngine::settle_deletions(const std::vector<PodReport*>& pods, const std::stop_token& stop) {
  std::map<RunId, bool> known;
  for (PodReport* const pod : pods) {
    Observation& seen = pod->observation;
    const auto [run, is_new] = known.try_emplace(seen.key.run, false);
    if (is_new) run->second = is_released(seen.key.run, stop);
    if (!run->second) continue;
    if (seen.status == seen.lost) seen.status = "the pod was deleted";
    seen.lost.clear();
    seen.stopped = true;
  }
}

bool KubernetesEngine::is_released(const RunId& run, const std::stop_token& stop) {
  {
    const std::scoped_lock lock(mutex_);
    if (released_.contains(run)) return true;
  }
  try {
    const std::optional<json> anchor =
        objects_.find(k_config_maps, anchor_name(run), stop, k_anchor_answer_max);
    const bool is_leaving = anchor && !text_of(*anchor, {"metadata", "deletionTimestamp"}).empty();
    if (anchor && !is_leaving && text_of(*anchor, {"metadata", "annotations", k_stopped}).empty())
      return false;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
    return true;
  }
  const std::scoped_lock lock(mutex_);
  released_.insert(run);
  return true;
}

json KubernetesEngine::stop_mark() const {
  return {{k_stopped, rfc3339(api_.server_clock().at(real_clock().now()))}};
}

void KubernetesEngine::mark_stopped(const Kind& kind, const std::string& name, const std::stop_token& stop) {
  try {
    objects_.patch(kind, name, {{"metadata", {{"annotations", stop_mark()}}}}, stop);
  } catch (const ApiError& error) {
    if (error.kind() != ErrorKind::not_found) throw;
  }
}

void KubernetesEngine::add_warnings(const std::vector<PodReport*>& pods, const std::stop_token& stop) {
  if (pods.empty()) return;
  std::map<std::string, std::string> reasons;  // by uid of the Pod; the last Event counts
  try {
    objects_.list(
        k_events, {.fields = "type=Warning,involvedObject.kind=Pod"},
        [&](const json& event) {
          std::string uid;
          std::string reason = read_warning(event, uid);
          if (!reason.empty()) reasons.insert_or_assign(uid, std::move(reason));
        },
        [&] { reasons.clear(); }, stop, limits_.events_max);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
  }
  for (PodReport* const pod : pods)
    if (const auto reason = reasons.find(pod->uid); reason != reasons.end())
      pod->observation.placement.pending_reason = reason->second;
}

void KubernetesEngine::stop(const Key& key, std::optional<Seconds> /*grace*/, std::stop_token stop) {
  constexpr int k_looks_max = 5;
  const std::string name = pod_name(key);
  for (int looks = 1;; ++looks) {
    const std::optional<json> object = objects_.find(k_pods, name, stop);
    const auto pod = object ? report_of(*object) : std::nullopt;
    if (!pod || pod->observation.key != key || pod->observation.phase == Phase::ended) return;
    try {
      return stop_pod(*pod, std::string(text_of(*object, {"metadata", "resourceVersion"})), stop);
    } catch (const ApiError& error) {
      if (error.kind() == ErrorKind::not_found) return;
      // The Pod may have changed since it was read, for example because its container began to run. An
      // admission webhook may refuse with the same status.
      const bool may_have_changed = error.kind() == ErrorKind::conflict || error.status() == k_unprocessable;
      if (!may_have_changed || looks == k_looks_max) throw;
    }
  }
}

void KubernetesEngine::stop_pod(const PodReport& pod, const std::string& version,
                                const std::stop_token& stop) {
  const std::string& name = pod.observation.id;
  if (pod.observation.phase == Phase::pending) {
    // With a deadline, a pending Pod would stay pending, and run for a moment later. A grace period of 0
    // would remove the Pod before a container that is being created has ended. If the container runs in the
    // meantime, the deletion would cost its log and its grace period.
    const json marked = objects_.patch(
        k_pods, name,
        {{"metadata", {{"uid", pod.uid}, {"resourceVersion", version}, {"annotations", stop_mark()}}}}, stop);
    objects_.remove(
        k_pods, name, 1,
        {.uid = pod.uid, .version = std::string(text_of(marked, {"metadata", "resourceVersion"}))}, stop);
    return;
  }
  // The kubelet ends the container with its stop signal and grace period. The Pod and its log stay.
  objects_.patch(k_pods, name,
                 {{"metadata", {{"uid", pod.uid}, {"annotations", stop_mark()}}},
                  {"spec", {{"activeDeadlineSeconds", 1}}}},
                 stop);
}

std::optional<Usage> KubernetesEngine::usage(const std::string& id, std::stop_token stop) {
  return metrics_.find(id, stop);
}

bool KubernetesEngine::copy_out(const Key& key, const std::string& /*path*/,
                                const std::function<void(std::string_view)>& /*on_bytes*/,
                                std::stop_token stop) {
  if (!objects_.find(k_pods, pod_name(key), stop))
    throw Error(ErrorKind::not_found, key.trial, "there is no such Pod");
  throw Error(ErrorKind::refused, key.trial,
              "the Pod has no program of combu that could copy files; add the path to `outputs`");
}

void KubernetesEngine::acknowledge(const std::vector<Key>& keys) {
  ended_.remove(keys);
}

}  // namespace combu::kubernetes
