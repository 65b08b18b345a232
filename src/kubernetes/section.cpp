#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/json.hpp"
#include "combu/kubernetes.hpp"
#include "kubernetes/findings.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/networks.hpp"
#include "kubernetes/trial_fields.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

enum class Type : std::uint8_t { text, number, truth, list, object, words, texts };

struct ApiField {
  std::string_view name;
  Type type;
};

// The fields of PodSpec and Container of the Kubernetes API, v1.25 to v1.36
// (https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.36/).
constexpr ApiField k_pod_fields[] = {
    {"activeDeadlineSeconds", Type::number},
    {"affinity", Type::object},
    {"automountServiceAccountToken", Type::truth},
    {"containers", Type::list},
    {"dnsConfig", Type::object},
    {"dnsPolicy", Type::text},
    {"enableServiceLinks", Type::truth},
    {"ephemeralContainers", Type::list},
    {"hostAliases", Type::list},
    {"hostIPC", Type::truth},
    {"hostNetwork", Type::truth},
    {"hostPID", Type::truth},
    {"hostUsers", Type::truth},
    {"hostname", Type::text},
    {"hostnameOverride", Type::text},
    {"imagePullSecrets", Type::list},
    {"initContainers", Type::list},
    {"nodeName", Type::text},
    {"nodeSelector", Type::texts},
    {"os", Type::object},
    {"overhead", Type::object},
    {"preemptionPolicy", Type::text},
    {"priority", Type::number},
    {"priorityClassName", Type::text},
    {"readinessGates", Type::list},
    {"resourceClaims", Type::list},
    {"resources", Type::object},
    {"restartPolicy", Type::text},
    {"runtimeClassName", Type::text},
    {"schedulerName", Type::text},
    {"schedulingGates", Type::list},
    {"schedulingGroup", Type::object},
    {"securityContext", Type::object},
    {"serviceAccount", Type::text},
    {"serviceAccountName", Type::text},
    {"setHostnameAsFQDN", Type::truth},
    {"shareProcessNamespace", Type::truth},
    {"subdomain", Type::text},
    {"terminationGracePeriodSeconds", Type::number},
    {"tolerations", Type::list},
    {"topologySpreadConstraints", Type::list},
    {"volumes", Type::list},
};
constexpr ApiField k_container_fields[] = {
    {"args", Type::words},
    {"command", Type::words},
    {"env", Type::list},
    {"envFrom", Type::list},
    {"image", Type::text},
    {"imagePullPolicy", Type::text},
    {"lifecycle", Type::object},
    {"livenessProbe", Type::object},
    {"name", Type::text},
    {"ports", Type::list},
    {"readinessProbe", Type::object},
    {"resizePolicy", Type::list},
    {"resources", Type::object},
    {"restartPolicy", Type::text},
    {"restartPolicyRules", Type::list},
    {"securityContext", Type::object},
    {"startupProbe", Type::object},
    {"stdin", Type::truth},
    {"stdinOnce", Type::truth},
    {"terminationMessagePath", Type::text},
    {"terminationMessagePolicy", Type::text},
    {"tty", Type::truth},
    {"volumeDevices", Type::list},
    {"volumeMounts", Type::list},
    {"workingDir", Type::text},
};
constexpr ApiField k_metadata_fields[] = {{"annotations", Type::texts}, {"labels", Type::texts}};
constexpr ApiField k_section_fields[] = {
    {"container", Type::object}, {"metadata", Type::object}, {"pod", Type::object}};

// Fields that combu always sets itself.
struct Forbidden {
  std::string_view part;
  std::string_view name;
  std::string_view message;
};
constexpr std::string_view k_no_restart =
    "must not be set, because Kubernetes would restart attempts whose ends combu has recorded; use `retries`";
constexpr Forbidden k_forbidden[] = {
    {"pod", "containers",
     "must not be set: combu makes the Pod's only container, because a Pod with more containers would not "
     "end "
     "with its trial; write the fields of this container in `kubernetes: {container: {…}}`"},
    {"pod", "ephemeralContainers", "must not be set: the API refuses new Pods with this field"},
    {"pod", "restartPolicy", k_no_restart},
    {"container", "image", "must not be set; use the trial's field `image`"},
    {"container", "name", "must not be set: combu names the container `main`"},
    {"container", "restartPolicy", k_no_restart},
    {"container", "restartPolicyRules", k_no_restart},
};

bool is_list_of_strings(const json& value) {
  return value.is_array() && std::ranges::all_of(value, [](const json& word) { return word.is_string(); });
}

// Returns an empty text if `value` has the type, otherwise the error message. Members of an object of the
// type `texts` are checked by lacks_text().
std::string_view lacks_type(const json& value, Type type) {
  switch (type) {
    case Type::text:
      return value.is_string() ? "" : "must be a string";
    case Type::number:
      return value.is_number_integer() ? "" : "must be a whole number";
    case Type::truth:
      return value.is_boolean() ? "" : "must be true or false";
    case Type::list:
      return value.is_array() ? "" : "must be an array";
    case Type::object:
    case Type::texts:
      return value.is_object() ? "" : "must be an object";
    case Type::words:
      return is_list_of_strings(value) ? "" : "must be an array of strings";
  }
  return "";
}

bool has(std::span<const ApiField> fields, std::string_view name) {
  return std::ranges::find(fields, name, &ApiField::name) != fields.end();
}

std::optional<std::string_view> meant(std::string_view name, std::span<const ApiField> fields) {
  std::vector<std::string_view> names;
  names.reserve(fields.size());
  for (const ApiField& field : fields) names.push_back(field.name);
  return nearest(name, names);
}

// A part of the section: `pod`, `container` or `metadata`; or the section itself, whose name is empty.
struct Part {
  std::string_view name;
  std::span<const ApiField> fields;
};
constexpr Part k_section{"", k_section_fields};
constexpr Part k_parts[] = {
    {"pod", k_pod_fields}, {"container", k_container_fields}, {"metadata", k_metadata_fields}};

std::string unknown(std::string_view name, const Part& part) {
  std::vector<std::string> owners;
  for (const Part& other : k_parts)
    if (other.name != part.name && has(other.fields, name)) owners.push_back(fmt::format("`{}`", other.name));
  if (!owners.empty()) return fmt::format("must be inside {}", fmt::join(owners, " or "));
  if (const auto near = meant(name, part.fields))
    return fmt::format("there is no such field; did you mean {}?", *near);
  if (part.name.empty()) return "must be one of the fields `pod`, `container` and `metadata`";
  if (part.name == "metadata")
    return "combu sets the field itself; only `labels` and `annotations` can be set";
  return fmt::format("the Kubernetes API has no such field for a {}",
                     part.name == "pod" ? "Pod" : "container");
}

// Checks one section. The results are the same for all trials that share the section.
class SectionCheck {
 public:
  using Add = std::function<void(const std::string& field, const std::string& message)>;
  explicit SectionCheck(Add add) : add_(std::move(add)) {}

  void check(const json& section) {
    check_part(section, k_section);
    for (const Part& part : k_parts)
      if (const json* value = object_in(section, part.name)) check_part(*value, part);
    if (const json* metadata = object_in(section, "metadata")) check_metadata(*metadata);
    if (const json* pod = object_in(section, "pod")) check_node_affinity(*pod);
  }

 private:
  static const json* object_in(const json& value, std::string_view name) {
    const json& member = member_of(value, name);
    return member.is_object() ? &member : nullptr;
  }

  void check_part(const json& value, const Part& part) {
    const std::string head = part.name.empty() ? "" : fmt::format("{}.", part.name);
    for (const auto& [name, member] : value.items()) {
      const std::string field = head + shortened(name);
      const auto known = std::ranges::find(part.fields, std::string_view(name), &ApiField::name);
      if (known == part.fields.end()) {
        add_(field, unknown(name, part));
        continue;
      }
      if (const auto* rule = std::ranges::find_if(
              k_forbidden, [&](const Forbidden& one) { return one.part == part.name && one.name == name; });
          rule != std::end(k_forbidden)) {
        add_(field, std::string(rule->message));
      } else if (!member.is_null()) {
        check_type(field, member, known->type);
      }
    }
  }

  void check_type(const std::string& field, const json& value, Type type) {
    if (const auto fault = lacks_type(value, type); !fault.empty()) return add_(field, std::string(fault));
    if (type != Type::texts) return;
    for (const auto& [name, member] : value.items())
      if (!member.is_string())
        add_(fmt::format("{}.{}", field, shortened(name)),
             member.is_primitive() ? fmt::format("must be a string; write \"{}\"", json_text(member))
                                   : std::string("must be a string"));
  }

  void check_metadata(const json& metadata) {
    for (const std::string_view kind : {"labels", "annotations"}) {
      const json* pairs = object_in(metadata, kind);
      if (pairs == nullptr) continue;
      for (const auto& [name, value] : pairs->items()) {
        const std::string field = fmt::format("metadata.{}.{}", kind, shortened(name));
        if (name.starts_with(k_prefix))
          add_(field, "names that begin with `combu.` are reserved for combu; use another name");
        else if (!is_label_key(name))
          add_(field,
               "the name must be at most 63 letters, digits, `-`, `_` and `.`, optionally after a domain "
               "and `/`");
        else if (kind == "labels" && value.is_string() &&
                 !is_label_value(value.get_ref<const std::string&>()))
          add_(field,
               "must be at most 63 letters, digits, `-`, `_` and `.`; write a longer text into "
               "`annotations`");
      }
    }
  }

  // combu adds the trial's `gpus.memory` to each term of the required node affinity.
  void check_node_affinity(const json& pod) {
    const std::string_view path[] = {"affinity", "nodeAffinity",
                                     "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"};
    std::string field = "pod";
    const json* value = &pod;
    for (const std::string_view name : path) {
      if (!value->is_object()) return add_(field, "must be an object");
      value = &member_of(*value, name);
      if (value->is_null()) return;
      field += fmt::format(".{}", name);
    }
    const bool is_valid = value->is_array() && std::ranges::all_of(*value, [](const json& term) {
                            const json& expressions = member_of(term, "matchExpressions");
                            return term.is_object() && (expressions.is_null() || expressions.is_array());
                          });
    if (!is_valid) add_(field, "must be an array of objects, such as [{matchExpressions: […]}]");
  }

  Add add_;
};

// Checks that the section does not set values that the trial's own fields set.
class ReservedCheck {
 public:
  ReservedCheck(const Experiment& experiment, const Trial& trial, const json& section, Findings& findings)
      : experiment_(experiment), trial_(trial), section_(section), findings_(findings) {}

  void check() {
    check_process();
    check_pod();
    check_resources();
    check_pairs();
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  // `field`: the trial's field that sets the value.
  void refuse(bool is_reserved, std::string_view field, Names names) {
    if (!is_reserved || member_of(section_, names).is_null()) return;
    findings_.add(trial_, fmt::format("kubernetes.{}", fmt::join(names, ".")),
                  fmt::format("the field `{}` already sets this value; remove one of the two fields", field));
  }

  void check_process() {
    const Process& process = trial_.process;
    const bool has_command = process.entrypoint.has_value();
    const auto user = numeric_user(process.user);
    refuse(has_command, "entrypoint", {"container", "command"});
    refuse(process.cmd.has_value(), "cmd", {"container", "args"});
    refuse(!process.workdir.empty(), "workdir", {"container", "workingDir"});
    refuse(user.has_value(), "user", {"container", "securityContext", "runAsUser"});
    refuse(user && user->gid, "user", {"container", "securityContext", "runAsGroup"});
    refuse(process.stop_grace.has_value(), "stop_grace", {"pod", "terminationGracePeriodSeconds"});
    refuse(trial_.pull != Pull::missing, "pull", {"container", "imagePullPolicy"});
    refuse(has_health_command(trial_), "healthcheck", {"container", "readinessProbe"});
  }

  void check_pod() {
    const bool has_name = host_name(trial_).has_value();
    refuse(experiment_.ttl.count() > 0, "ttl", {"pod", "activeDeadlineSeconds"});
    refuse(!trial_.platform.empty(), "platform", {"pod", "nodeSelector", "kubernetes.io/os"});
    refuse(!trial_.platform.empty(), "platform", {"pod", "nodeSelector", "kubernetes.io/arch"});
    refuse(has_name, "name", {"pod", "hostname"});
    refuse(has_name, "networks", {"pod", "subdomain"});
    refuse(is_on_host(trial_), "networks", {"pod", "hostNetwork"});
    refuse(is_on_host(trial_), "networks", {"pod", "dnsPolicy"});
  }

  void check_resources() {
    for (const std::string_view kind : {"limits", "requests"}) {
      refuse(trial_.slots.cpus.nano > 0, "cpus", {"container", "resources", kind, "cpu"});
      refuse(trial_.slots.memory.count > 0, "memory", {"container", "resources", kind, "memory"});
      refuse(is_gpu_count(*trial_.gpus), "gpus", {"container", "resources", kind, k_gpu});
    }
  }

  void check_pairs() {
    for (const auto& [name, value] : trial_.container.labels) {
      refuse(is_label_value(value), "labels", {"metadata", "labels", name});
      refuse(!is_label_value(value), "labels", {"metadata", "annotations", name});
    }
    const json& variables = member_of(section_, {"container", "env"});
    if (!variables.is_array()) return;
    for (const json& variable : variables) {
      const std::string_view name = text_of(variable, "name");
      const Pairs& env = trial_.process.env;
      if (std::ranges::none_of(env, [&](const auto& pair) { return name == pair.first; })) continue;
      findings_.add(trial_, "kubernetes.container.env",
                    fmt::format("the field `env` already sets the variable {}; remove one of the two",
                                shortened(name)));
    }
  }

  const Experiment& experiment_;
  const Trial& trial_;
  const json& section_;
  Findings& findings_;
};

}  // namespace
}  // namespace combu::kubernetes

namespace combu {

std::vector<Error> check_kubernetes_sections(const Experiment& experiment) {
  using kubernetes::SectionCheck;
  kubernetes::Findings findings(ErrorKind::invalid);
  if (!experiment.defaults_kubernetes.empty())
    SectionCheck([&](const std::string& field, const std::string& message) {
      findings.add_to_defaults("kubernetes." + field, message);
    }).check(parse_json(experiment.defaults_kubernetes));
  for (const Trial& trial : experiment.trials) {
    if (trial.container.kubernetes.empty()) continue;
    const nlohmann::json section = parse_json(trial.container.kubernetes);
    SectionCheck([&](const std::string& field, const std::string& message) {
      findings.add(trial, "kubernetes." + field, message);
    }).check(section);
    kubernetes::ReservedCheck(experiment, trial, section, findings).check();
  }
  return findings.errors();
}

}  // namespace combu
