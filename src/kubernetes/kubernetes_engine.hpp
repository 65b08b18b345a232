#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "combu/engine.hpp"
#include "kubernetes/api_client.hpp"
#include "kubernetes/create_rate.hpp"
#include "kubernetes/ended_pods.hpp"
#include "kubernetes/images.hpp"
#include "kubernetes/manifest.hpp"
#include "kubernetes/objects.hpp"
#include "kubernetes/pod_metrics.hpp"
#include "kubernetes/pod_report.hpp"

namespace combu::kubernetes {

// include/combu/engine.hpp has the contracts of the public functions. An attempt is one Pod, whose name
// follows from the attempt's Key. The functions are implemented in kubernetes_engine.cpp, check.cpp,
// start.cpp, watch.cpp, logs.cpp, exec.cpp and release.cpp.
class KubernetesEngine final : public Engine {
 public:
  struct Limits {
    ApiLimits api = {};
    // Maximum time without a byte of a watch. The server sends a bookmark each minute.
    Seconds watch_silence_max{150};
    Seconds events_max{5};  // time of a request for Events, during which a watch does nothing else
  };
  // `address`: the engine's canonical name (ClusterPlace::address). `docker_config`: the folder of Docker's
  // config.json, with the user's credentials for registries; empty: none.
  KubernetesEngine(Access access, std::string address, Limits limits, std::string docker_config = {});

  Facts facts(std::stop_token stop) override;
  std::vector<Finding> diagnose(std::stop_token stop) override;
  std::vector<Gpu> gpus(std::stop_token stop) override;
  std::vector<Error> check(const Run& run, std::stop_token stop) override;
  bool copies_files() const override { return false; }
  std::vector<Error> prepare(const Run& run, const std::function<void(const Preparation&)>& on_progress,
                             std::stop_token stop) override;
  // If the trial has a host name, the Pod of the previous attempt is deleted, also with Experiment::keep.
  StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) override;
  // `grace` has no effect: the grace period of a Pod is set when it is created.
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) override;
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override;
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override;
  // `id`: the name of the Pod.
  std::optional<Usage> usage(const std::string& id, std::stop_token stop) override;
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override;
  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override;
  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override;
  void acknowledge(const std::vector<Key>& keys) override;
  Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                   std::stop_token stop) override;

 private:
  friend class PodWatch;

  // Returns the uid of the run's anchor, which the first call creates.
  std::string anchor_of(const Run& run, const std::stop_token& stop);
  void provide_program(const Run& run, const ProvidedProgram& program, const Home& home,
                       const std::stop_token& stop);
  nlohmann::json create_once(const Kind& kind, const nlohmann::json& object, const std::stop_token& stop);
  // Creates or changes the run's Secret, unless this process has done so with the same values.
  void deliver_secrets(const Run& run, const Home& home, const std::stop_token& stop);
  std::vector<Error> check_secrets(const Run& run, const std::stop_token& stop);
  // Stops the Pod of an attempt as it was just read. Throws ApiError with status 409 or 422 if the Pod has
  // changed since.
  void stop_pod(const PodReport& pod, const std::string& version, const std::stop_token& stop);
  std::vector<Error> check_rights(const Run& run, const std::stop_token& stop);
  std::optional<Error> try_shape(const nlohmann::json& pod, const Trial& trial, const std::stop_token& stop);
  StartResult adopt(const Key& key, const std::stop_token& stop);
  // Calls read_pod() with the present by the server's clock, and converts all moments of the report to this
  // machine's clock.
  [[nodiscard]] std::optional<PodReport> report_of(const nlohmann::json& pod, bool is_gone = false) const;
  // Corrects the reports with PodReport::is_deleted: if combu removes the run, the attempt is stopped and not
  // lost. Throws only Error(cancelled).
  void settle_deletions(const std::vector<PodReport*>& pods, const std::stop_token& stop);
  // True if release() removes the run or has removed it, or if the anchor cannot be read.
  [[nodiscard]] bool is_released(const RunId& run, const std::stop_token& stop);
  // Returns the annotation that marks an object as stopped at present.
  [[nodiscard]] nlohmann::json stop_mark() const;
  // Marks an object as stopped, unless the object does not exist.
  void mark_stopped(const Kind& kind, const std::string& name, const std::stop_token& stop);
  // Adds the reasons in the namespace's Events to the pending Pods that lack one. If the Events cannot be
  // read, the reasons stay unknown. Throws only Error(cancelled).
  void add_warnings(const std::vector<PodReport*>& pods, const std::stop_token& stop);

  // The steps of release(). `runs`: if all Pods of these runs are removed.
  void mark_removal(const std::vector<Observation>& selected, const std::vector<Selector>& runs,
                    const std::stop_token& stop);
  void remove_pods(const std::vector<Observation>& selected, const std::vector<Selector>& runs,
                   const ReleaseCallbacks& callbacks, const std::stop_token& stop);
  std::vector<Error> await_removal(const Selector& selector, const std::set<Key>& removed,
                                   const std::vector<Selector>& runs, const std::stop_token& stop);
  std::vector<Error> remaining(const Selector& selector, const std::set<Key>& removed,
                               const std::stop_token& stop);
  struct RunObject {
    Kind kind;
    std::string name;
    std::string run;
  };
  void remove_secret(const RunId& run, const std::stop_token& stop);
  std::vector<RunObject> list_run_objects(const Selector& selector, const std::stop_token& stop);

  const Access access_;
  const std::string address_;
  const Limits limits_;
  ApiClient api_;
  Objects objects_;
  CreateRate rate_;
  PodMetrics metrics_;
  EndedPods ended_;
  Images images_;
  std::mutex mutex_;
  std::map<RunId, std::string> anchors_;  // uids
  // When the ConfigMap of a program was last known to exist. The programs live as long as the process.
  std::map<std::pair<RunId, const ProvidedProgram*>, std::chrono::steady_clock::time_point> programs_;
  std::mutex secrets_mutex_;
  std::map<RunId, std::shared_ptr<const SecretValues>> delivered_;  // the values in the runs' Secrets
  std::set<RunId> released_;     // runs for which is_released() has returned true
  std::set<std::string> notes_;  // about the namespace, from check() for prepare()
};

// Selects the trials that a selector names, or all trials if the selector names none.
class ChosenTrials {
 public:
  explicit ChosenTrials(const Selector& selector) : names_(selector.trials.begin(), selector.trials.end()) {}
  [[nodiscard]] bool contain(const std::string& trial) const {
    return names_.empty() || names_.contains(trial);
  }

 private:
  std::set<std::string> names_;
};

}  // namespace combu::kubernetes
