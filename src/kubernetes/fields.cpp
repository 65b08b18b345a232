#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "combu/json.hpp"
#include "combu/kubernetes.hpp"
#include "kubernetes/findings.hpp"
#include "kubernetes/manifest.hpp"
#include "kubernetes/merge.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/networks.hpp"
#include "kubernetes/secrets.hpp"
#include "kubernetes/trial_fields.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr std::string_view k_fields_of_agents =
    "`worker`, `outputs`, `inputs`, `params_file`, `metrics.file` and `secrets` as variables";

// True if `name` is the name of a variable that API servers accept: printable ASCII characters except '='.
bool is_variable(std::string_view name) {
  return std::ranges::all_of(name, [](char c) { return c >= ' ' && c <= '~' && c != '='; });
}

// Checks the fields of one trial. All checks are independent of each other.
class TrialCheck {
 public:
  TrialCheck(const Trial& trial, json section, Findings& findings)
      : trial_(trial), section_(std::move(section)), findings_(findings) {}

  void check() {
    check_program();
    check_user();
    check_stop_signal();
    check_labels();
    check_gpus();
    check_networks();
    check_volumes();
    check_health();
    check_agent();
  }

 private:
  void add(const std::string& field, const std::string& message) { findings_.add(trial_, field, message); }

  [[nodiscard]] bool section_has(std::initializer_list<std::string_view> names) const {
    return !member_of(section_, names).is_null();
  }

  void check_program() {
    const Process& process = trial_.process;
    if (process.entrypoint && process.entrypoint->empty() && (!process.cmd || process.cmd->empty()) &&
        !section_has({"container", "command"}))
      add("entrypoint",
          "must not be empty without `cmd`: Kubernetes cannot run the command of an image without its "
          "entrypoint; write the program in `cmd`");
    for (const auto& [name, value] : process.env) {
      if (!is_variable(name))
        add("env",
            fmt::format("the variable `{}` must have a name of printable ASCII characters on Kubernetes; "
                        "rename the variable",
                        shortened(name)));
      else if (!is_utf8(value))
        add("env",
            fmt::format("the value of the variable `{}` must be UTF-8 text on Kubernetes; encode the value, "
                        "for example as Base64",
                        shortened(name)));
    }
  }

  void check_user() {
    const std::string& user = trial_.process.user;
    if (user.empty() || numeric_user(user) || section_has({"container", "securityContext", "runAsUser"}) ||
        section_has({"pod", "securityContext", "runAsUser"}))
      return;
    add("user",
        fmt::format("\"{}\" must be a number on Kubernetes, which does not read the names of users in "
                    "an image; write the user id, such as \"1000\" or \"1000:1000\", or \"caller\"",
                    shortened(user)));
  }

  void check_stop_signal() {
    const std::string& signal = trial_.process.stop_signal;
    if (needs_agent(trial_)) return;  // the agent sends the signal
    if (signal.empty() || is_default_stop_signal(signal) ||
        section_has({"container", "lifecycle", "stopSignal"}))
      return;
    add("stop_signal",
        fmt::format("Kubernetes does not send {}, but the STOPSIGNAL of the image, or else SIGTERM; set "
                    "STOPSIGNAL in the image, or on a cluster with the feature gate ContainerStopSignals add "
                    "`kubernetes: {{pod: {{os: {{name: \"linux\"}}}}, container: {{lifecycle: {{stopSignal: "
                    "\"SIG…\"}}}}}}`",
                    shortened(signal)));
  }

  void check_labels() {
    for (const auto& [name, value] : trial_.container.labels)
      if (!is_label_key(name))
        add("labels", fmt::format("`{}` must be at most 63 letters, digits, `-`, `_` and `.` on Kubernetes, "
                                  "optionally after a domain and `/`; rename the label",
                                  shortened(name)));
  }

  void check_gpus() {
    const GpuRequest& gpus = *trial_.gpus;
    const bool has_amount = section_has({"container", "resources", "limits", k_gpu});
    if (!gpus.ids.empty() && !has_amount)
      add("gpus.ids",
          "Kubernetes itself chooses the GPUs of a Pod; write a number of GPUs, such as `gpus: 2`");
    if (gpus.all && !has_amount)
      add("gpus",
          "\"all\" has no meaning on Kubernetes, where a node is chosen for a known number of GPUs; "
          "write the number, such as `gpus: 8`");
    if (!gpus.kind.empty() && !section_has({"pod", "nodeSelector", k_gpu_product}))
      add("gpus.kind",
          fmt::format("Kubernetes cannot search for \"{}\" in the names of GPUs; select the nodes by their "
                      "label: `kubernetes: {{pod: {{nodeSelector: {{\"{}\": …}}}}}}`",
                      shortened(gpus.kind), k_gpu_product));
  }

  void check_networks() {
    if (std::ranges::find(trial_.container.networks, "none") == trial_.container.networks.end()) return;
    add("networks",
        "every Pod has a network, so `none` is not possible; remove the field, and forbid connections by "
        "`isolate` with a named network, or by a NetworkPolicy of the namespace");
  }

  void check_volumes() {
    for (const Volume& volume : trial_.container.volumes) {
      if (mounts_at(section_, volume.target)) continue;
      const std::string source = shortened(volume.source);
      if (volume.source_is_path && !volume.remote)
        findings_.add_at(trial_, volume.path, "volumes",
                         fmt::format("Pods run on other machines, so the path {} of this machine cannot be "
                                     "mounted; add `remote: true` if the path exists on the nodes, or name a "
                                     "PersistentVolumeClaim instead of the path",
                                     source));
      else if (!volume.source_is_path && !is_dns_subdomain(volume.source))
        findings_.add_at(
            trial_, volume.path, "volumes",
            fmt::format("\"{}\" cannot be a PersistentVolumeClaim, whose name must be lower-case "
                        "letters, digits, `-` and `.`; write the name of a claim",
                        source));
    }
  }

  void check_health() {
    if (trial_.healthcheck && trial_.healthcheck->test.empty() &&
        !section_has({"container", "readinessProbe"}))
      add("healthcheck",
          "must have a `test`, because Kubernetes ignores the HEALTHCHECK of an image; add the command of "
          "the "
          "check as `test`");
  }

  // Fields that need a program of combu's own inside the Pod.
  void check_agent() {
    if (is_worker_container(trial_) || is_supervised(trial_) || !needs_agent(trial_)) return;
    if (member_of(section_, {"pod", "shareProcessNamespace"}) == true ||
        member_of(section_, {"pod", "hostPID"}) == true)
      add("kubernetes.pod",
          fmt::format(
              "cannot have `shareProcessNamespace` or `hostPID` with {}, for which combu's agent must "
              "be the first process of the container; remove them",
              k_fields_of_agents));
    if (section_has({"container", "command"}) || section_has({"container", "args"}))
      add("kubernetes.container.command",
          fmt::format("is not possible with {}, for which combu starts the program itself; write the program "
                      "as `entrypoint` and `cmd`",
                      k_fields_of_agents));
  }

  const Trial& trial_;
  json section_;
  Findings& findings_;
};

// Checks what several trials have to do with each other.
class TrialsCheck {
 public:
  TrialsCheck(const Experiment& experiment, Findings& findings)
      : experiment_(experiment), findings_(findings) {
    for (const Trial& trial : experiment.trials) trials_.emplace(trial.name, &trial);
  }

  void check() {
    for (const Trial& trial : experiment_.trials) {
      check_host_name(trial);
      for (const Depend& depend : trial.depends) check_depend(trial, depend);
      if (trial.service) check_reached(trial);
    }
  }

 private:
  void check_host_name(const Trial& trial) {
    const auto name = host_name(trial);
    if (!name) return;
    const auto [first, is_new] = host_names_.emplace(*name, &trial);
    if (!is_new)
      findings_.add(trial, "name",
                    fmt::format("has the same host name as the trial `{}`, because host names ignore case; "
                                "rename one of the two trials",
                                shortened(first->second->name)));
  }

  void check_depend(const Trial& trial, const Depend& depend) {
    const auto found = trials_.find(depend.trial);
    if (found == trials_.end()) return;
    const Trial& needed = *found->second;
    if (shares_network(trial, needed)) check_reached(needed);
    if (depend.condition != Condition::healthy || has_health_command(needed) ||
        !member_of(section_of(needed), {"container", "readinessProbe"}).is_null())
      return;
    findings_.add_at(
        trial, depend.path, "depends",
        fmt::format("`{0}` never becomes healthy, because Kubernetes ignores the HEALTHCHECK of "
                    "an image; add `healthcheck: {{test: …}}` to `{0}`, or use another condition",
                    shortened(needed.name)));
  }

  static bool shares_network(const Trial& one, const Trial& other) {
    const std::vector<std::string> networks = named_networks(one);
    return std::ranges::any_of(named_networks(other), [&](const std::string& network) {
      return std::ranges::find(networks, network) != networks.end();
    });
  }

  // Other trials reach `trial` by its name.
  void check_reached(const Trial& trial) {
    if (named_networks(trial).empty() || host_name(trial) || !nameless_.insert(&trial).second) return;
    findings_.add(trial, "name",
                  "must be letters, digits and `-`, at most 63 of them, so that other trials on the network "
                  "can reach the trial by this name; rename the trial");
  }

  const Experiment& experiment_;
  Findings& findings_;
  std::unordered_map<std::string_view, const Trial*> trials_;
  std::unordered_map<std::string, const Trial*> host_names_;
  std::unordered_set<const Trial*> nameless_;
};

}  // namespace

std::vector<Error> check_fields(const Experiment& experiment) {
  Findings findings(ErrorKind::refused);
  for (const Trial& trial : experiment.trials) TrialCheck(trial, section_of(trial), findings).check();
  TrialsCheck(experiment, findings).check();
  std::vector<Error> errors = findings.errors();
  std::ranges::move(check_secret_names(experiment), std::back_inserter(errors));
  return errors;
}

}  // namespace combu::kubernetes

namespace combu {

std::vector<Error> check_kubernetes_fields(const Experiment& experiment) {
  return kubernetes::check_fields(experiment);
}

}  // namespace combu
