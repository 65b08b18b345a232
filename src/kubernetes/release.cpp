#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "combu/json.hpp"
#include "kubernetes/kubernetes_engine.hpp"
#include "kubernetes/names.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr std::size_t k_requests_in_flight = 8;
// With a grace period of 0, the API server would forget a Pod before its container has ended.
constexpr int k_grace_seconds = 1;
constexpr Seconds k_look_pause{0.3};
constexpr Seconds k_removal_max{60};  // the kubelet of a working node removes a Pod within seconds

// Restricts a selector to each run of the observed attempts. A run that begins after the observation must not
// be deleted with them.
std::vector<Selector> runs_of(const Selector& selector, const std::vector<Observation>& observed) {
  std::set<RunId> ids;
  for (const Observation& one : observed) ids.insert(one.key.run);
  std::vector<Selector> runs;
  for (const RunId& id : ids) runs.emplace_back(selector).run = id;
  return runs;
}

}  // namespace

Released KubernetesEngine::release(const Selector& selector, const ReleaseCallbacks& callbacks,
                                   std::stop_token stop) {
  // Listed before the Pods: a run that another process begins from now on keeps its objects.
  const std::vector<RunObject> objects =
      selector.trials.empty() ? list_run_objects(selector, stop) : std::vector<RunObject>();
  std::vector<Observation> selected = list(selector, ListDetail::basic, stop);
  Released released;
  for (const Observation& one : selected) released.experiments.insert(one.experiment);
  const std::set<Key> kept = callbacks.found ? callbacks.found(selected) : std::set<Key>();
  const bool is_everything = kept.empty() && selector.trials.empty();
  std::erase_if(selected, [&](const Observation& one) { return kept.contains(one.key); });
  const std::vector<Selector> runs = is_everything ? runs_of(selector, selected) : std::vector<Selector>();
  mark_removal(selected, runs, stop);
  remove_pods(selected, runs, callbacks, stop);
  std::set<Key> removed;
  for (const Observation& one : selected) removed.insert(one.key);
  released.left = await_removal(selector, removed, runs, stop);
  released.attempts = selected.size() - released.left.size();
  std::set<std::string> kept_runs;
  for (const Key& key : kept) kept_runs.insert(key.run.text());
  for (const auto& [kind, name, run] : objects) {
    const bool is_removed = !kept_runs.contains(run) && objects_.remove(kind, name, std::nullopt, {}, stop);
    if (is_removed && kind.resource == k_services.resource) ++released.networks;
    if (is_removed && kind.resource == k_config_maps.resource && name == anchor_name(RunId(run)))
      remove_secret(RunId(run), stop);
  }
  return released;
}

// Marks the anchors of `runs`, or each selected Pod that has not ended.
void KubernetesEngine::mark_removal(const std::vector<Observation>& selected,
                                    const std::vector<Selector>& runs, const std::stop_token& stop) {
  try {
    for (const Selector& run : runs) mark_stopped(k_config_maps, anchor_name(*run.run), stop);
    if (!runs.empty()) return;
  } catch (const ApiError& error) {
    // Earlier versions of combu did not need the right to patch ConfigMaps.
    if (error.kind() != ErrorKind::refused) throw;
  }
  in_parallel(selected.size(), k_requests_in_flight, [&](std::size_t i) {
    if (selected[i].phase != Phase::ended) mark_stopped(k_pods, selected[i].id, stop);
  });
}

void KubernetesEngine::remove_pods(const std::vector<Observation>& selected,
                                   const std::vector<Selector>& runs, const ReleaseCallbacks& callbacks,
                                   const std::stop_token& stop) {
  std::mutex mutex;
  std::size_t removed = 0;
  const auto count = [&](std::size_t more) {
    const std::scoped_lock lock(mutex);
    removed = std::min(removed + more, selected.size());
    if (callbacks.removed) callbacks.removed(removed, selected.size());
  };
  for (const Selector& run : runs)
    objects_.remove_pages(k_pods, {.labels = label_selector(run)}, k_grace_seconds, count, stop);
  if (!runs.empty()) return;
  in_parallel(selected.size(), k_requests_in_flight, [&](std::size_t i) {
    objects_.remove(k_pods, selected[i].id, k_grace_seconds, {}, stop);
    count(1);
  });
}

// Waits until the Pods are gone, so that their host ports and their quota are free. Returns an error for each
// Pod that stays. `runs`: if all Pods of these runs are removed; a request for any Pod needs less of the
// server than a list.
std::vector<Error> KubernetesEngine::await_removal(const Selector& selector, const std::set<Key>& removed,
                                                   const std::vector<Selector>& runs,
                                                   const std::stop_token& stop) {
  const auto is_any = [&](const Selector& run) {
    return objects_.is_any(k_pods, {.labels = label_selector(run)}, stop);
  };
  const auto begin = std::chrono::steady_clock::now();
  while (!removed.empty()) {
    const bool is_over = std::chrono::steady_clock::now() - begin > k_removal_max;
    if (is_over || std::ranges::none_of(runs, is_any)) {
      std::vector<Error> left = remaining(selector, removed, stop);
      if (is_over || left.empty()) return left;
    }
    real_clock().wait(k_look_pause, stop);
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "", "cancelled");
  }
  return {};
}

// Returns an error for each of the removed Pods that the server still lists.
std::vector<Error> KubernetesEngine::remaining(const Selector& selector, const std::set<Key>& removed,
                                               const std::stop_token& stop) {
  std::vector<Error> left;
  objects_.list(
      k_pods, {.labels = label_selector(selector)},
      [&](const json& object) {
        const auto pod = report_of(object);
        if (!pod || !removed.contains(pod->observation.key)) return;
        left.emplace_back(
            ErrorKind::unavailable, pod->observation.key.trial,
            pod->observation.placement.host.empty()
                ? "the Pod is not removed yet"
                : fmt::format("the node {} has not removed the Pod yet", pod->observation.placement.host));
      },
      [&] { left.clear(); }, stop);
  return left;
}

// Removes the run's Secret, if there is one. The cluster also removes it some time after its owner, the
// anchor.
void KubernetesEngine::remove_secret(const RunId& run, const std::stop_token& stop) {
  {
    const std::scoped_lock lock(secrets_mutex_);
    delivered_.erase(run);
  }
  try {
    objects_.remove(k_secrets, secret_name(run), std::nullopt, {}, stop);
  } catch (const ApiError& error) {
    if (error.kind() != ErrorKind::refused) throw;
  }
}

// Returns the objects of the runs other than Pods. A user without the right to list a kind of objects has
// created none.
std::vector<KubernetesEngine::RunObject> KubernetesEngine::list_run_objects(const Selector& selector,
                                                                            const std::stop_token& stop) {
  std::vector<RunObject> found;
  for (const Kind& kind : {k_network_policies, k_services, k_config_maps}) {
    std::vector<RunObject> of_kind;
    const auto add = [&](const json& object) {
      of_kind.push_back({.kind = kind,
                         .name = std::string(text_of(object, {"metadata", "name"})),
                         .run = std::string(text_of(object, {"metadata", "labels", k_run}))});
    };
    try {
      objects_.list(
          kind, {.labels = label_selector(selector)}, add, [&] { of_kind.clear(); }, stop);
    } catch (const ApiError& error) {
      if (error.kind() != ErrorKind::refused) throw;
    }
    found.insert(found.end(), of_kind.begin(), of_kind.end());
  }
  return found;
}

}  // namespace combu::kubernetes
