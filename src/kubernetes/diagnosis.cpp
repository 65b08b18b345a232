#include "kubernetes/diagnosis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "combu/json.hpp"
#include "combu/text.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/objects.hpp"
#include "kubernetes/quota.hpp"
#include "kubernetes/rights.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr int k_status_forbidden = 403;
constexpr int k_status_absent = 404;
constexpr std::string_view k_enforced_label = "pod-security.kubernetes.io/enforce";
// An answer of the API server. `status` is 200 to 299, or the status of an ApiError.
struct Examined {
  int status = 0;
  json body = nullptr;  // an object if the status is 200 to 299
};

class ClusterDiagnosis {
 public:
  ClusterDiagnosis(ApiClient& client, const Access& access, std::stop_token stop)
      : client_(client), access_(access), stop_(std::move(stop)) {}

  std::vector<Finding> run() && {
    try {
      if (examine_server() && examine_namespace()) {
        examine_rights();
        if (hides_namespace_) try_plain_pod();
        examine_quotas();
        examine_metrics();
        examine_clock();
      }
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      add_error(error);
    }
    return std::move(findings_);
  }

 private:
  using Kind = Finding::Kind;

  void add(Kind kind, std::string subject, std::string text, std::string remedy = {}) {
    findings_.push_back(
        {.kind = kind, .subject = std::move(subject), .text = std::move(text), .remedy = std::move(remedy)});
  }

  void add_error(const Error& error) {
    findings_.push_back(fault_of("cluster", error));
    Finding& fault = findings_.back();
    if (fault.is_unreachable)
      fault.remedy = fmt::format(
          "check that the cluster runs, and your network or VPN; `kubectl --context {} version` "
          "asks the same server",
          shell_word(access_.context));
  }

  // Throws Error, except for an error status that is in `expected`.
  Examined get(const std::string& target, std::initializer_list<int> expected) {
    try {
      json body = parse_json_or_discard(client_.send({.target = target}, stop_).body);
      if (!body.is_object())
        throw Error(
            ErrorKind::corrupt, access_.cluster.server,
            "the server's answer is no JSON object, so that the server seems to be no API server; correct "
            "`server` in the kubeconfig file");
      return {.status = 200, .body = std::move(body)};
    } catch (const ApiError& error) {
      if (std::ranges::find(expected, error.status()) == expected.end()) throw;
      return {.status = error.status()};
    }
  }

  // Returns false if the server does not answer as an API server.
  bool examine_server() {
    const Examined version = get("/version", {k_status_forbidden});
    const std::string number(text_of(version.body, "gitVersion"));
    if (version.status == 200 && number.empty()) {
      add_error(Error(ErrorKind::corrupt, access_.cluster.server,
                      "the server is no API server of Kubernetes; correct `server` in the kubeconfig file"));
      return false;
    }
    add(Kind::good, "cluster",
        fmt::format("Kubernetes {} at {} (context {}, namespace {}, {})",
                    number.empty() ? "of unknown version" : number, access_.cluster.server, access_.context,
                    access_.name_space, access_.account.source));
    return true;
  }

  // Returns false if the namespace cannot be used.
  bool examine_namespace() {
    const std::string& name = access_.name_space;
    if (name.empty() ||
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos) {
      add(Kind::fault, "namespace", fmt::format("\"{}\" is not a valid name of a namespace", shortened(name)),
          "name another namespace with --engine kubernetes:CONTEXT/NAMESPACE");
      return false;
    }
    const Examined found = get("/api/v1/namespaces/" + name, {k_status_forbidden, k_status_absent});
    hides_namespace_ = found.status == k_status_forbidden;
    if (found.status == k_status_absent) {
      add(Kind::fault, "namespace", fmt::format("the cluster has no namespace {}", name),
          fmt::format("run `kubectl create namespace {}`, or name another namespace with --engine "
                      "kubernetes:CONTEXT/NAMESPACE",
                      name));
      return false;
    }
    if (text_of(found.body, {"status", "phase"}) == "Terminating") {
      add(Kind::fault, "namespace", fmt::format("the namespace {} is being deleted", name),
          "wait until it is gone and create it again, or name another namespace with --engine "
          "kubernetes:CONTEXT/NAMESPACE");
      return false;
    }
    examine_pod_security(text_of(found.body, {"metadata", "labels", k_enforced_label}));
    return true;
  }

  void examine_pod_security(std::string_view level) {
    if (level == "restricted")
      add(Kind::warning, "pod security",
          "the namespace enforces the level `restricted`, so that the server refuses pods without these "
          "settings",
          fmt::format(
              "write {} and a `user` other than root into `defaults`, and use neither `ports` nor host "
              "paths",
              k_restricted_fields));
    if (level == "baseline")
      add(Kind::good, "pod security",
          "the namespace enforces the level `baseline`, so that trials can use neither `ports` nor host "
          "paths");
  }

  // Examines pod security by the creation of a plain Pod on trial, because the user may not read the labels
  // of the namespace.
  void try_plain_pod() {
    const json pod = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata", {{"generateName", k_check_prefix}}},
        {"spec", {{"containers", json::array({{{"name", k_container}, {"image", "busybox"}}})}}}};
    try {
      (void)Objects(client_, access_.name_space)
          .try_create(
              k_pods, pod, [](const std::string&) {}, stop_);
    } catch (const ApiError& error) {
      // Other refusals depend on the trial; a run reports them before its first start.
      if (error.message().find("violates PodSecurity \"restricted") != std::string::npos)
        examine_pod_security("restricted");
    }
  }

  void examine_rights() {
    std::vector<Right> missing = missing_rights(client_, access_.name_space, stop_);
    if (missing.empty()) {
      add(Kind::good, "rights", "the user has all rights that combu needs");
      return;
    }
    for (auto first = missing.begin(); first != missing.end();) {
      const auto last = std::find_if(first, missing.end(), [&](const Right& right) {
        return right.resource_text() != first->resource_text();
      });
      std::vector<std::string> verbs;
      std::ranges::transform(first, last, std::back_inserter(verbs), &Right::verb);
      add(first->need == Need::runs ? Kind::fault : Kind::warning, "rights",
          fmt::format("the user may not {} {} in the namespace {}{}", fmt::join(verbs, ", "),
                      first->resource_text(), access_.name_space, consequence(first->need)));
      first = last;
    }
    findings_.back().remedy =
        "an administrator can grant all rights that combu needs with these commands:\n" +
        grant_commands(access_.name_space, user_name_of(client_, stop_));
  }

  static std::string_view consequence(Need need) {
    switch (need) {
      case Need::runs:
        return "";
      case Need::reasons:
        return ", so that `ps` and `why` may lack the reason why a trial is pending";
      case Need::isolation:
        return ", so that experiments with `isolate` fail";
      case Need::volumes:
        return ", so that trials with named volumes fail";
      case Need::agent:
        return ", so that trials with `worker`, `outputs`, `inputs`, `params_file` or `metrics.file` fail";
      case Need::secrets:
        return ", so that trials with `secrets` fail";
      case Need::usage:
        return ", so that `ps` shows neither memory nor CPU of running trials";
    }
    return "";
  }

  void examine_quotas() {
    const Examined found =
        get(fmt::format("/api/v1/namespaces/{}/resourcequotas?limit=100", access_.name_space),
            {k_status_forbidden, k_status_absent});
    if (found.status != 200) return;
    const json& quotas = json_at(found.body, "items");
    if (!quotas.is_array()) return;
    for (const json& quota : quotas) add_quota(quota);
  }

  void add_quota(const json& quota) {
    const json::json_pointer hard("/status/hard");
    if (!quota.is_object() || !quota.contains(hard) || !quota.at(hard).is_object()) return;
    std::vector<std::string> used_up;
    std::vector<std::string> all;
    for (const auto& [resource, limit] : quota.at(hard).items()) {
      const std::string used(text_of(quota, {"status", "used", resource}));
      if (!limit.is_string() || used.empty()) continue;
      const std::string most = limit.get<std::string>();
      std::string text = fmt::format("{} of {} {}", shortened(used), shortened(most), shortened(resource));
      const std::optional<double> used_number = parse_quantity(used);
      const std::optional<double> most_number = parse_quantity(most);
      if (used_number && most_number && *used_number >= *most_number) used_up.push_back(text);
      all.push_back(std::move(text));
    }
    constexpr std::size_t k_named_max = 6;
    const std::string name = shortened(text_of(quota, {"metadata", "name"}));
    if (!used_up.empty()) {
      add(Kind::warning, "quota",
          fmt::format("the quota {} is used up: {}", name, list_text(used_up, k_named_max)),
          "trials wait until other pods of the namespace have ended; an administrator can raise the quota");
    } else if (!all.empty()) {
      add(Kind::good, "quota", fmt::format("the quota {}: {} are used", name, list_text(all, k_named_max)));
    }
  }

  void examine_metrics() {
    try {
      (void)client_.send({.target = "/apis/metrics.k8s.io/v1beta1"}, stop_);
      add(Kind::good, "metrics", "the cluster measures memory and CPU of running trials");
    } catch (const ApiError& error) {
      if (error.status() == k_status_forbidden) return;  // a missing right is reported already
      const bool is_absent = error.status() == k_status_absent;
      add(Kind::warning, "metrics",
          is_absent ? "the cluster does not measure memory and CPU of running trials (metrics.k8s.io)"
                    : fmt::format("the cluster does not answer how much memory and CPU trials use: {}",
                                  error.message()),
          is_absent ? "an administrator can install metrics-server" : "");
    }
  }

  // The more answers have arrived, the better is the clock known.
  void examine_clock() {
    const Seconds lead = client_.server_clock().lead();
    if (lead == Seconds(0)) return;
    add(Kind::warning, "clock",
        fmt::format("the API server's clock is {} {} this machine's clock",
                    to_string(Seconds(std::abs(lead.count()))), lead > Seconds(0) ? "ahead of" : "behind"),
        "correct this machine's clock, or ask an administrator to correct the cluster's clock");
  }

  ApiClient& client_;
  const Access& access_;
  const std::stop_token stop_;
  std::vector<Finding> findings_;
  bool hides_namespace_ = false;  // the user may not read the namespace
};

}  // namespace

std::vector<Finding> diagnose_cluster(ApiClient& client, const Access& access, const std::stop_token& stop) {
  return ClusterDiagnosis(client, access, stop).run();
}

}  // namespace combu::kubernetes
