#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "docker/docker_engine.hpp"
#include "docker/status.hpp"

namespace combu::docker {
namespace {

// The names and host ports of containers outside this experiment.
class OccupiedNames {
 public:
  void add(const ContainerSummary& container) {
    std::string text = holder_text(container.name, container.image, container.labels);
    if (parse_status(container.state, container.status).phase == Phase::running) {
      for (const PublishedPort& port : container.ports) {
        ports_[{port.host, port.protocol}].push_back({port.ip, text});
      }
    }
    names_.emplace(container.name, std::move(text));
  }

  void check(const Trial& trial, std::vector<Error>& errors) const {
    if (const auto holder = names_.find(trial.name); holder != names_.end()) {
      errors.emplace_back(
          ErrorKind::conflict, trial.name,
          "the container name is in use by " + holder->second + "; remove the container or rename the trial");
    }
    for (const Port& port : trial.container.ports) check_port(trial, port, errors);
  }

 private:
  struct Holder {
    std::string ip;
    std::string text;
  };

  static bool is_any(const std::string& ip) { return ip.empty() || ip == "0.0.0.0" || ip == "::"; }

  void check_port(const Trial& trial, const Port& port, std::vector<Error>& errors) const {
    const auto at = ports_.find({port.host, port.protocol});
    if (at == ports_.end()) return;
    for (const Holder& holder : at->second) {
      if (!is_any(holder.ip) && !is_any(port.host_ip) && holder.ip != port.host_ip) continue;
      errors.emplace_back(
          ErrorKind::conflict, trial.name,
          fmt::format("host port {}/{} is in use by {}; stop the container or choose another port", port.host,
                      port.protocol, holder.text));
      return;
    }
  }

  std::unordered_map<std::string, std::string> names_;
  std::map<std::pair<std::uint16_t, std::string>, std::vector<Holder>> ports_;
};

// Refuses the secrets that the engine cannot pass to containers without a trace on its host. A worker's
// container (see k_worker_name_prefix) has the secrets that its attempts share; see is_of_container().
void check_secrets(const Run& run, std::vector<Error>& errors) {
  const Secret* of_worker = nullptr;
  const Secret* of_cluster = nullptr;
  for (const Trial& trial : run.experiment.trials) {
    if (std::ranges::find(trial.container.written_folders, "/") != trial.container.written_folders.end())
      errors.emplace_back(ErrorKind::refused, trial.name,
                          "a Docker Engine cannot give files of secrets in the folder /; write a `target` in "
                          "a folder of its own, such as /run/secrets");
    for (const Secret& secret : *trial.container.secrets) {
      const Secret*& first = secret.is_in_cluster ? of_cluster : of_worker;
      if (first == nullptr) first = &secret;
    }
  }
  const auto refuse = [&](const Secret* first, std::string_view message) {
    if (first != nullptr) errors.emplace_back(ErrorKind::refused, first->path, std::string(message));
  };
  refuse(
      of_cluster,
      "the source is a Secret of a Kubernetes cluster, which a Docker Engine cannot read; use `file`, `env` "
      "or `command` as source, or run the experiment on the cluster");
  refuse(of_worker,
         "combu cannot give files of secrets to workers of a Docker Engine; write `env` in place of "
         "`target`, remove `worker`, or run the experiment on a Kubernetes cluster");
}

}  // namespace

std::vector<Error> DockerEngine::check(const Run& run, std::stop_token stop) {
  OccupiedNames occupied;
  list_containers(
      connections_, {},
      [&](ContainerSummary&& container) {
        const std::optional<Identity> identity = identity_of(container.labels, container.name);
        if (!identity || identity->experiment != run.experiment.name) occupied.add(container);
      },
      stop);
  std::vector<Error> errors;
  for (const Trial& trial : run.experiment.trials) occupied.check(trial, errors);
  check_secrets(run, errors);
  return errors;
}

}  // namespace combu::docker
