#pragma once
// A Kubernetes engine that talks to a scripted API server, and objects as an API server describes them.

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "combu/engine.hpp"
#include "error_of.hpp"
#include "kubernetes/kubernetes_engine.hpp"
#include "kubernetes/manifest.hpp"
#include "kubernetes/names.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::wire {

inline Run cluster_run(std::vector<std::string> names = {"a"}) {
  Run run;
  run.id = RunId("run1");
  run.experiment.name = "exp";
  run.experiment.file = "/f";
  for (std::string& name : names) {
    Trial trial;
    trial.name = std::move(name);
    trial.image = "img";
    run.experiment.trials.push_back(std::move(trial));
  }
  return run;
}

inline Key cluster_key(const std::string& trial = "a", int attempt = 1) {
  return {RunId("run1"), trial, attempt};
}

// Returns the Pod of an attempt with this status.
inline nlohmann::json stored_pod(const nlohmann::json& status, const std::string& trial = "a",
                                 const std::string& version = "7") {
  const Run run = cluster_run({trial});
  nlohmann::json pod = kubernetes::pod_manifest(run, run.experiment.trials[0], 1, {"ns", "anchor-uid"});
  pod["metadata"]["uid"] = "uid-" + trial;
  pod["metadata"]["resourceVersion"] = version;
  pod["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z";
  pod["spec"]["nodeName"] = "n1";
  pod["status"] = status;
  return pod;
}
inline nlohmann::json container_status(const std::string& state, const nlohmann::json& detail,
                                       const std::string& phase) {
  return {{"phase", phase},
          {"containerStatuses", nlohmann::json::array({{{"name", "main"}, {"state", {{state, detail}}}}})}};
}
inline nlohmann::json running_status() {
  return container_status("running", {{"startedAt", "2026-01-02T03:04:06Z"}}, "Running");
}
inline nlohmann::json ended_status(int code) {
  return container_status("terminated",
                          {{"exitCode", code},
                           {"reason", code == 0 ? "Completed" : "Error"},
                           {"startedAt", "2026-01-02T03:04:06Z"},
                           {"finishedAt", "2026-01-02T03:04:07Z"}},
                          code == 0 ? "Succeeded" : "Failed");
}
inline nlohmann::json pending_status() {
  return {{"phase", "Pending"}};
}

inline std::string pod_list(const std::vector<nlohmann::json>& pods, const std::string& next = "") {
  nlohmann::json list = {{"kind", "PodList"}, {"metadata", {{"resourceVersion", "100"}}}, {"items", pods}};
  if (!next.empty()) list["metadata"]["continue"] = next;
  return list.dump();
}

inline Reply failure(int status, const std::string& message, const std::string& headers = {}) {
  return whole(status, nlohmann::json{{"kind", "Status"}, {"code", status}, {"message", message}}.dump(),
               headers);
}

inline std::string watch_event(const std::string& type, const nlohmann::json& object) {
  return nlohmann::json{{"type", type}, {"object", object}}.dump() + "\n";
}

inline constexpr const char* k_anchor = R"({"metadata": {"name": "combu-run1", "uid": "anchor-uid"}})";

// A scripted API server with a client. The server answers the creation of the run's anchor with `anchor`;
// `rest` answers all other requests. `change`: changes the settings of the client. `docker_config`: the
// folder of Docker's config.json.
class ScriptedCluster {
 public:
  explicit ScriptedCluster(ScriptedDaemon::Handler rest, kubernetes::KubernetesEngine::Limits limits = {},
                           const std::string& anchor = k_anchor,
                           const std::function<void(kubernetes::Access&)>& change = {},
                           const std::string& docker_config = {})
      : server_(
            [rest = std::move(rest), anchor](const Asked& asked) {
              if (asked.target.starts_with("/api/v1/namespaces/ns/configmaps") && asked.method == "POST")
                return whole(201, anchor);
              return rest(asked);
            },
            ScriptedDaemon::Kind::tcp, ScriptedDaemon::Bodies::whole) {
    const std::string url = "http" + server_.address().substr(3);
    kubernetes::Access access{.context = "lab",
                              .name_space = "ns",
                              .cluster = {.server = url, .address = *kubernetes::parse_server_address(url)},
                              .account = {.source = "the test"}};
    if (change) change(access);
    engine_ = std::make_unique<kubernetes::KubernetesEngine>(std::move(access), "kubernetes:" + url + "/ns",
                                                             limits, docker_config);
  }

  Engine& engine() { return *engine_; }
  ScriptedDaemon& server() { return server_; }
  void close_engine() { engine_.reset(); }

  // Starts the only trial of cluster_run().
  StartResult start(int attempt = 1) {
    const Run run = cluster_run();
    return engine_->start(run, run.experiment.trials[0], attempt, {});
  }

 private:
  ScriptedDaemon server_;
  std::unique_ptr<kubernetes::KubernetesEngine> engine_;
};

}  // namespace combu::wire
