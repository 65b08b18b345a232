#pragma once
// Pod objects for tests, and reports of Pods as text.

#include <chrono>
#include <string>

#include "combu/json.hpp"
#include "kubernetes/pod_report.hpp"

namespace combu::kubernetes {

using nlohmann::json;

inline Instant clock_at(const std::string& time) {
  return parse_timestamp("2026-01-01T" + time + "Z").value();
}

// Returns a Pod on the node n1. `changes`: a merge patch (RFC 7386) of the Pod.
inline json changed_pod(const std::string& changes) {
  json pod = parse_json(R"({
    "metadata": {"name": "a-r1-1", "uid": "u1", "creationTimestamp": "2026-01-01T12:00:00Z",
      "labels": {"combu.run": "r1", "combu.trial": "a", "combu.attempt": "1", "combu.experiment": "exp",
                 "combu.file": "exp.jsonnet"}},
    "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "img:1"}]},
    "status": {"phase": "Running"}})");
  pod.merge_patch(parse_json(changes));
  return pod;
}

// `state`: the state of the container `main`. `changes`: a merge patch of the Pod.
inline json pod_in_state(const std::string& state, const std::string& changes = "{}") {
  json pod = changed_pod(changes);
  json& shown = pod["status"]["containerStatuses"];
  shown = parse_json(R"([{"name": "main", "ready": false}])");
  shown[0]["state"] = parse_json(state);
  return pod;
}

inline PodReport report_of(const json& pod, const std::string& now = "13:00:00") {
  return read_pod(pod, clock_at(now)).value();
}

inline std::string clock_text(Instant at) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at - clock_at("12:00:00")).count();
  return std::to_string(seconds) + " s";
}

// Returns the state of the attempt as one line. Times are seconds since the Pod's creation.
inline std::string state_of(const PodReport& report) {
  const Observation& seen = report.observation;
  std::string text(to_string(seen.phase));
  if (seen.exit_code) text += ", exit code " + std::to_string(*seen.exit_code);
  if (seen.ran_at) text += ", ran at " + clock_text(*seen.ran_at);
  if (seen.ended_at) text += ", ended at " + clock_text(*seen.ended_at);
  if (seen.health != Health::none) text += ", " + std::string(to_string(seen.health));
  if (seen.oom) text += ", oom";
  if (seen.oom_likely) text += ", oom likely";
  if (seen.stopped) text += ", stopped";
  if (report.is_deleted) text += ", deleted";
  if (report.lacks_reason) text += ", lacks its reason";
  if (report.changes_at) text += ", changes at " + clock_text(*report.changes_at);
  if (!seen.placement.start_error.empty()) text += ", not started: " + seen.placement.start_error;
  if (!seen.lost.empty()) text += ", lost: " + seen.lost;
  if (!seen.placement.pending_reason.empty()) text += ", pending: " + seen.placement.pending_reason;
  return text;
}

inline std::string state_of(const json& pod, const std::string& now = "13:00:00") {
  return state_of(report_of(pod, now));
}

// The end of a container that ran from 12:00:01 to 12:00:09.
inline std::string ended_state(int exit_code, const std::string& reason) {
  return R"({"terminated": {"exitCode": )" + std::to_string(exit_code) + R"(, "reason": ")" + reason +
         R"(", "startedAt": "2026-01-01T12:00:01Z", "finishedAt": "2026-01-01T12:00:09Z"}})";
}

inline constexpr const char* k_running = R"({"running": {"startedAt": "2026-01-01T12:00:01Z"}})";
// A Pod that combu has marked before it stopped or deleted the Pod.
inline constexpr const char* k_marked =
    R"({"metadata": {"annotations": {"combu.stopped": "2026-01-01T12:00:05Z"}}})";
inline constexpr const char* k_failed = R"({"status": {"phase": "Failed"}})";

// Returns a patch with a condition DisruptionTarget that began at `at`. `more`: further members of the
// status.
inline std::string disrupted(const std::string& reason, const std::string& message, const std::string& at,
                             const std::string& more = "") {
  return R"({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": ")" + reason +
         R"(", "message": ")" + message + R"(", "lastTransitionTime": "2026-01-01T)" + at + R"(Z"}])" + more +
         "}}";
}

// Adds a deletion at `at` with a grace period of 30 seconds, which ends at `ends`.
inline json deleted_pod(json pod, const std::string& ends) {
  pod["metadata"]["deletionTimestamp"] = "2026-01-01T" + ends + "Z";
  pod["metadata"]["deletionGracePeriodSeconds"] = 30;
  return pod;
}

// The end of a container that the kubelet has not created.
inline constexpr const char* k_never_ran =
    R"({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
  "message": "The container could not be located when the pod was terminated", "startedAt": null,
  "finishedAt": null}})";

}  // namespace combu::kubernetes
