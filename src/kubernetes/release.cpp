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

constexpr std::size_t k_removals_in_flight = 8;
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
  std::vector<Observation> selected = list(selector, ListDetail::basic, stop);
  Released released;
  for (const Observation& one : selected) released.experiments.insert(one.experiment);
  const std::set<Key> kept = callbacks.found ? callbacks.found(selected) : std::set<Key>();
  const bool is_everything = kept.empty() && selector.trials.empty();
  std::erase_if(selected, [&](const Observation& one) { return kept.contains(one.key); });
  remove_pods(selector, selected, is_everything, callbacks, stop);
  std::set<Key> removed;
  for (const Observation& one : selected) removed.insert(one.key);
  if (is_everything) await_absence(runs_of(selector, selected), stop);
  released.left = await_removal(selector, removed, stop);
  released.attempts = selected.size() - released.left.size();
  if (!selector.trials.empty()) return released;
  std::set<std::string> kept_runs;
  for (const Key& key : kept) kept_runs.insert(key.run.text());
  released.networks = remove_objects(selector, kept_runs, stop);
  return released;
}

void KubernetesEngine::remove_pods(const Selector& selector, const std::vector<Observation>& selected,
                                   bool is_everything, const ReleaseCallbacks& callbacks,
                                   const std::stop_token& stop) {
  std::mutex mutex;
  std::size_t removed = 0;
  const auto count = [&](std::size_t more) {
    const std::scoped_lock lock(mutex);
    removed = std::min(removed + more, selected.size());
    if (callbacks.removed) callbacks.removed(removed, selected.size());
  };
  if (is_everything) {
    for (const Selector& run : runs_of(selector, selected))
      objects_.remove_pages(k_pods, {.labels = label_selector(run)}, k_grace_seconds, count, stop);
    return;
  }
  in_parallel(selected.size(), k_removals_in_flight, [&](std::size_t i) {
    objects_.remove(k_pods, selected[i].id, k_grace_seconds, {}, stop);
    count(1);
  });
}

// Waits until no Pod of the runs is left. This needs less of the server than a list of the Pods.
void KubernetesEngine::await_absence(const std::vector<Selector>& runs, const std::stop_token& stop) {
  const auto begin = std::chrono::steady_clock::now();
  for (const Selector& run : runs) {
    while (std::chrono::steady_clock::now() - begin < k_removal_max &&
           objects_.is_any(k_pods, {.labels = label_selector(run)}, stop)) {
      real_clock().wait(k_look_pause, stop);
      if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "", "cancelled");
    }
  }
}

// Waits until the Pods are gone, so that their host ports and their quota are free. Returns an error for each
// Pod that stays.
std::vector<Error> KubernetesEngine::await_removal(const Selector& selector, const std::set<Key>& removed,
                                                   const std::stop_token& stop) {
  if (removed.empty()) return {};
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
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
    if (left.empty() || std::chrono::steady_clock::now() - begin > k_removal_max) return left;
    real_clock().wait(k_look_pause, stop);
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "", "cancelled");
  }
}

// Removes the other objects of the runs, and returns the number of removed networks. A user without the right
// to list a kind of objects has created none.
std::size_t KubernetesEngine::remove_objects(const Selector& selector, const std::set<std::string>& kept_runs,
                                             const std::stop_token& stop) {
  std::size_t networks = 0;
  for (const Kind& kind : {k_network_policies, k_services, k_config_maps}) {
    std::vector<std::string> names;
    const auto add = [&](const json& object) {
      const json& metadata = json_at(object, "metadata");
      const json& labels = json_at(metadata, "labels");
      if (!kept_runs.contains(labels.value(k_run, ""))) names.push_back(metadata.value("name", ""));
    };
    try {
      objects_.list(
          kind, {.labels = label_selector(selector)}, add, [&] { names.clear(); }, stop);
    } catch (const ApiError& error) {
      if (error.kind() != ErrorKind::refused) throw;
    }
    for (const std::string& name : names)
      if (objects_.remove(kind, name, std::nullopt, {}, stop) && kind.resource == k_services.resource)
        ++networks;
  }
  return networks;
}

}  // namespace combu::kubernetes
