// Pod objects as observations. Most statuses are those of a cluster of Kubernetes 1.36 with containerd,
// without the members that combu does not read. The kubelet's evictions and rejections, and words of other
// versions, follow the source code of Kubernetes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "combu/json.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/pod_report.hpp"
#include "kubernetes_pod_states.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// ---- Identity

TEST(PodReportTest, LabelsNameTheAttempt) {
  const PodReport report = report_of(pod_in_state(k_running, R"({
    "metadata": {"annotations": {"combu.service": "true", "combu.cpus": "1.5", "combu.memory": "1048576"}}})"));
  const Observation& seen = report.observation;
  EXPECT_EQ(seen.key, (Key{RunId("r1"), "a", 1}));
  EXPECT_EQ(seen.experiment, "exp");
  EXPECT_EQ(seen.file, "exp.jsonnet");
  EXPECT_EQ(seen.id, "a-r1-1");
  EXPECT_EQ(report.uid, "u1");
  EXPECT_EQ(report.observation.placement.host, "n1");
  EXPECT_EQ(seen.image, "img:1");
  EXPECT_EQ(seen.created_at, clock_at("12:00:00"));
  EXPECT_TRUE(seen.service);
  EXPECT_EQ(seen.slots.cpus.nano, 1'500'000'000);
  EXPECT_EQ(seen.slots.memory.count, 1048576);
  EXPECT_TRUE(seen.slots.gpus.empty());
}

TEST(PodReportTest, AnnotationsHaveTheWholeTextsOfHashedLabels) {
  const PodReport report = report_of(changed_pod(R"({"metadata": {
    "labels": {"combu.trial": "lr-0.1-f00d", "combu.file": "exp.jsonnet-beef", "combu.experiment": "e-1"},
    "annotations": {"combu.trial": "lr=0.1 / big", "combu.file": "/home/me/exp.jsonnet",
                    "combu.experiment": "my exp"}}})"));
  EXPECT_EQ(report.observation.key.trial, "lr=0.1 / big");
  EXPECT_EQ(report.observation.file, "/home/me/exp.jsonnet");
  EXPECT_EQ(report.observation.experiment, "my exp");
}

TEST(PodReportTest, PodsThatCombuDidNotCreateAreIgnored) {
  EXPECT_TRUE(read_pod(changed_pod("{}"), Instant{}));
  for (const std::string labels :
       {"null", "[]", R"({"combu.run": null})", R"({"combu.run": "a b"})", R"({"combu.trial": ""})",
        R"({"combu.attempt": "0"})", R"({"combu.attempt": "1x"})", R"({"combu.experiment": 7})"})
    EXPECT_FALSE(read_pod(changed_pod(R"({"metadata": {"labels": )" + labels + "}}"), Instant{})) << labels;
  // Annotations alone do not identify a Pod: they cannot be selected.
  EXPECT_FALSE(read_pod(changed_pod(R"({"metadata": {"labels": {"combu.run": null},
                                                  "annotations": {"combu.run": "r1"}}})"),
                        Instant{}));
}

TEST(PodReportTest, TheDigestIsTheImageThatRuns) {
  const auto digest = [](const std::string& image_id) {
    json pod = pod_in_state(k_running);
    pod["status"]["containerStatuses"][0]["imageID"] = image_id;
    return report_of(pod).observation.digest;
  };
  EXPECT_EQ(digest("docker.io/library/alpine@sha256:ab12"), "docker.io/library/alpine@sha256:ab12");
  EXPECT_EQ(digest("docker-pullable://alpine@sha256:ab12"), "alpine@sha256:ab12");
  EXPECT_EQ(digest("docker://sha256:ab12"), "sha256:ab12");
  EXPECT_EQ(digest("sha256:ab12"), "sha256:ab12");
  EXPECT_EQ(digest(""), "");
}

// ---- Ends

TEST(PodReportTest, ARunningContainerRuns) {
  const PodReport report = report_of(pod_in_state(k_running));
  EXPECT_EQ(state_of(report), "running, ran at 1 s");
  EXPECT_EQ(report.observation.status, "running on n1");
  EXPECT_FALSE(report.observation.is_unacknowledged);
}

TEST(PodReportTest, AnEndedContainerHasItsExitCode) {
  const PodReport succeeded =
      report_of(pod_in_state(ended_state(0, "Completed"), R"({"status": {"phase": "Succeeded"}})"));
  EXPECT_EQ(state_of(succeeded), "ended, exit code 0, ran at 1 s, ended at 9 s");
  EXPECT_TRUE(succeeded.observation.is_unacknowledged);
  const PodReport failed = report_of(pod_in_state(ended_state(3, "Error"), k_failed));
  EXPECT_EQ(state_of(failed), "ended, exit code 3, ran at 1 s, ended at 9 s");
  EXPECT_EQ(failed.observation.status, "exited with 3 on n1");
}

TEST(PodReportTest, AKeptPodNeedsNoAcknowledgement) {
  const PodReport report = report_of(
      pod_in_state(ended_state(0, "Completed"), R"({"metadata": {"annotations": {"combu.keep": "ended"}}})"));
  EXPECT_EQ(report.observation.phase, Phase::ended);
  EXPECT_TRUE(report.is_kept);
  EXPECT_FALSE(report.observation.is_unacknowledged);
}

// The kubelet starts the container again, whose agent then serves the files.
TEST(PodReportTest, ARestartedContainerWithKeptFilesHasEnded) {
  const auto report_of_states = [](const std::string& keep, const std::string& now,
                                   const std::string& changes = "{}") {
    json pod = pod_in_state(now, R"({"metadata": {"annotations": {"combu.keep": ")" + keep + R"("}}})");
    pod["status"]["containerStatuses"][0]["lastState"] = parse_json(ended_state(137, "OOMKilled"));
    pod.merge_patch(parse_json(changes));
    return report_of(pod);
  };
  const std::string running = R"({"running": {"startedAt": "2026-01-01T12:00:10Z"}})";
  const PodReport restarted = report_of_states("volume", running);
  EXPECT_EQ(state_of(restarted), "ended, exit code 137, ran at 1 s, ended at 9 s, oom");
  EXPECT_TRUE(restarted.observation.placement.keeps_files);
  EXPECT_TRUE(restarted.observation.placement.is_restarted);
  EXPECT_TRUE(restarted.observation.is_unacknowledged);
  EXPECT_FALSE(report_of_states("volume", running, k_failed).observation.placement.keeps_files);
  EXPECT_EQ(report_of_states("ended", running).observation.phase, Phase::running);

  const PodReport ended = report_of(
      pod_in_state(ended_state(137, "Error"), R"({"metadata": {"annotations": {"combu.keep": "volume"}}})"));
  EXPECT_TRUE(ended.observation.placement.keeps_files);
}

// The kubelet would repeat the start until the Pod is deleted.
TEST(PodReportTest, AKeptPodWhoseStartIsRepeatedNeedsAnAcknowledgement) {
  const std::string kept = R"({"metadata": {"annotations": {"combu.keep": "ended"}}})";
  const auto is_unacknowledged = [&](const std::string& state) {
    const PodReport report = report_of(pod_in_state(state, kept));
    EXPECT_FALSE(report.observation.placement.start_error.empty());
    return report.observation.is_unacknowledged;
  };
  EXPECT_TRUE(is_unacknowledged(R"({"waiting": {"reason": "ErrImageNeverPull", "message": "not present"}})"));
  EXPECT_FALSE(is_unacknowledged(
      R"({"terminated": {"exitCode": 128, "reason": "StartError", "message": "no such file"}})"));
}

// If a container ends by itself, the kubelet reports the end 1 to 2 seconds before the phase of the Pod.
TEST(PodReportTest, AnEndNeedsNoPhase) {
  EXPECT_EQ(state_of(pod_in_state(ended_state(0, "Completed")), "12:00:09"),
            "ended, exit code 0, ran at 1 s, ended at 9 s");
  EXPECT_EQ(state_of(pod_in_state(ended_state(3, "Error")), "12:00:09"),
            "ended, exit code 3, ran at 1 s, ended at 9 s");
}

TEST(PodReportTest, LackOfMemoryShows) {
  const PodReport report = report_of(pod_in_state(ended_state(137, "OOMKilled"), k_failed));
  EXPECT_EQ(state_of(report), "ended, exit code 137, ran at 1 s, ended at 9 s, oom");
  EXPECT_EQ(report.observation.status, "out of memory on n1");
}

// With version 1 of control groups, the node may not see that the kernel killed a process.
TEST(PodReportTest, AKilledContainerWithALimitIsProbablyOutOfMemory) {
  const std::string limit = R"({"spec": {"containers": [{"name": "main", "resources":
      {"limits": {"memory": "20Mi"}}}]}, "status": {"phase": "Failed"}})";
  EXPECT_EQ(state_of(pod_in_state(ended_state(137, "Error"), limit)),
            "ended, exit code 137, ran at 1 s, ended at 9 s, oom likely");
  EXPECT_EQ(state_of(pod_in_state(ended_state(137, "Error"), R"({"status": {"phase": "Failed"},
                                   "metadata": {"annotations": {"combu.memory": "20971520"}}})")),
            "ended, exit code 137, ran at 1 s, ended at 9 s, oom likely");
  EXPECT_EQ(state_of(pod_in_state(ended_state(1, "Error"), limit)),
            "ended, exit code 1, ran at 1 s, ended at 9 s");
  json stopped = pod_in_state(ended_state(137, "Error"), limit);
  stopped["metadata"]["annotations"]["combu.stopped"] = "true";
  stopped["spec"]["activeDeadlineSeconds"] = 1;
  EXPECT_EQ(state_of(stopped), "ended, exit code 137, ran at 1 s, ended at 9 s, stopped");
}

// ---- Stops

TEST(PodReportTest, AStoppedAttemptKeepsItsExitCode) {
  const std::string stopped = R"({"metadata": {"annotations": {"combu.stopped": "true"}},
    "status": {"phase": "Failed", "reason": "DeadlineExceeded",
               "message": "Pod was active on the node longer than the specified deadline"}})";
  EXPECT_EQ(state_of(pod_in_state(ended_state(0, "Completed"), stopped)),
            "ended, exit code 0, ran at 1 s, ended at 9 s, stopped");
  EXPECT_EQ(state_of(pod_in_state(ended_state(143, "Error"), stopped)),
            "ended, exit code 143, ran at 1 s, ended at 9 s, stopped");
}

// Returns the state of a container that ended at 12:00:09, and whose Pod combu stopped at `at`. The kubelet
// has checked the deadline after the end. `accepted_at`: when the kubelet accepted the Pod, by its own clock.
std::string stopped_at(const std::string& at, int exit_code, const std::string& accepted_at = "12:00:00") {
  return state_of(
      pod_in_state(ended_state(exit_code, "Error"),
                   R"({"metadata": {"annotations": {"combu.stopped": "2026-01-01T)" + at +
                       R"(Z"}}, "status": {"phase": "Failed", "reason": "DeadlineExceeded", "conditions": [
      {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T12:00:00Z"}],
      "startTime": "2026-01-01T)" +
                       accepted_at + R"(Z"}})"));
}

TEST(PodReportTest, AnAttemptThatEndedBeforeItsStopKeepsItsResult) {
  EXPECT_EQ(stopped_at("12:00:10.000", 0), "ended, exit code 0, ran at 1 s, ended at 9 s");
  EXPECT_EQ(stopped_at("12:00:10.000", 3), "ended, exit code 3, ran at 1 s, ended at 9 s");
  // The container may have ended at 12:00:09.999.
  EXPECT_EQ(stopped_at("12:00:09.800", 0), "ended, exit code 0, ran at 1 s, ended at 9 s, stopped");
  EXPECT_EQ(stopped_at("12:00:07.000", 0), "ended, exit code 0, ran at 1 s, ended at 9 s, stopped");
}

// The clocks of the node and of the API server may differ.
TEST(PodReportTest, AnAttemptThatMayHaveEndedByItsStopIsStopped) {
  EXPECT_EQ(stopped_at("12:00:10.000", 143), "ended, exit code 143, ran at 1 s, ended at 9 s, stopped");
  EXPECT_EQ(stopped_at("12:00:10.000", 137), "ended, exit code 137, ran at 1 s, ended at 9 s, stopped");
  EXPECT_EQ(stopped_at("12:00:10.000", 0, "11:59:58"),
            "ended, exit code 0, ran at 1 s, ended at 9 s, stopped");
}

TEST(PodReportTest, TheEndOfItsTtlStopsAPod) {
  const std::string deadline = R"({"status": {"phase": "Failed", "reason": "DeadlineExceeded",
      "message": "Pod was active on the node longer than the specified deadline"}})";
  EXPECT_EQ(state_of(pod_in_state(ended_state(143, "Error"), deadline)),
            "ended, exit code 143, ran at 1 s, ended at 9 s, stopped");
}

TEST(PodReportTest, APodThatIsStoppedBeforeItRanHasNoExitCode) {
  EXPECT_EQ(state_of(changed_pod(R"({"status": {"phase": "Failed", "reason": "DeadlineExceeded",
      "startTime": "2026-01-01T12:00:02Z",
      "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T12:00:05Z"}]}})")),
            "ended, ended at 5 s, stopped");
}

// The API server deletes Pods that have ended without a grace period, for example when combu deletes them.
TEST(PodReportTest, APodThatIsDeletedAfterItsEndKeepsItsResult) {
  for (const std::string at : {"12:00:09", "12:00:20"})
    EXPECT_EQ(state_of(pod_in_state(ended_state(3, "Error"), R"({"status": {"phase": "Failed"}, "metadata": {
        "deletionGracePeriodSeconds": 0, "deletionTimestamp": "2026-01-01T)" +
                                                                 at + R"(Z"}})")),
              "ended, exit code 3, ran at 1 s, ended at 9 s");
  EXPECT_EQ(state_of(deleted_pod(pod_in_state(ended_state(3, "Error")), "12:00:40")),
            "ended, exit code 3, ran at 1 s, ended at 9 s");
}

// The timestamps are whole seconds.
TEST(PodReportTest, APodThatEndsInTheSecondOfItsDeletionIsDeleted) {
  EXPECT_TRUE(report_of(deleted_pod(pod_in_state(ended_state(0, "Completed")), "12:00:39")).is_deleted);
}

TEST(PodReportTest, APodThatIsStoppedWhileItsImageIsPulledHasNoExitCode) {
  EXPECT_EQ(state_of(pod_in_state(k_never_ran, R"({"status": {"phase": "Failed", "reason": "DeadlineExceeded",
      "startTime": "2026-01-01T12:00:02Z"}})")),
            "ended, ended at 2 s, stopped");
}

TEST(PodReportTest, ADeletedPodThatWaitsIsPending) {
  const json pod = deleted_pod(pod_in_state(R"({"waiting": {"reason": "ContainerCreating"}})"), "12:00:35");
  EXPECT_EQ(state_of(pod, "12:00:06"),
            "pending, changes at 65 s, pending: "
            "the pod is being deleted");
}

// ---- Failed starts

std::string waiting_state(const std::string& reason, const std::string& message) {
  const json state = {{"waiting", {{"reason", reason}, {"message", message}}}};
  return json_text(state);
}

TEST(PodReportTest, AnImageThatCannotBeUsedFailsTheStart) {
  EXPECT_EQ(
      state_of(pod_in_state(
          waiting_state(
              "InvalidImageName",
              R"(Failed to apply default image tag "Bad//Name": couldn't parse image name "Bad//Name": invalid reference format)"),
          R"({"status": {"phase": "Pending", "startTime": "2026-01-01T12:00:01Z"}})")),
      "ended, ended at 1 s, not started: InvalidImageName: Failed to apply default image tag \"Bad//Name\": "
      "couldn't parse image name \"Bad//Name\": invalid reference format");
  EXPECT_EQ(
      state_of(pod_in_state(waiting_state(
          "ErrImageNeverPull", R"(Container image "nosuch:1" is not present with pull policy of Never)"))),
      "ended, ended at 0 s, not started: ErrImageNeverPull: Container image \"nosuch:1\" is not present with "
      "pull policy of Never");
}

TEST(PodReportTest, AMissingConfigMapFailsTheStart) {
  const PodReport report =
      report_of(pod_in_state(waiting_state("CreateContainerConfigError", R"(configmap "nosuch" not found)")));
  EXPECT_EQ(state_of(report),
            "ended, ended at 0 s, not started: CreateContainerConfigError: configmap \"nosuch\" not found");
  EXPECT_EQ(report.observation.status,
            "could not be started: CreateContainerConfigError: configmap \"nosuch\" not found");
}

TEST(PodReportTest, AMissingProgramFailsTheStart) {
  const std::string state = R"({"terminated": {"exitCode": 128, "reason": "StartError",
    "startedAt": "1970-01-01T00:00:00Z", "finishedAt": "2026-01-01T12:00:02Z", "message": "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: \"nosuch\": executable file not found in $PATH: unknown"}})";
  EXPECT_EQ(state_of(pod_in_state(state, k_failed)),
            "ended, ended at 2 s, not started: exec: \"nosuch\": executable file not found in $PATH");
  EXPECT_EQ(state_of(pod_in_state(state)), state_of(pod_in_state(state, k_failed)));
}

TEST(PodReportTest, AFailureThatEndsByItselfDoesNotFailTheStart) {
  EXPECT_EQ(state_of(pod_in_state(
                waiting_state("CreateContainerConfigError",
                              "failed to sync configmap cache: timed out waiting for the condition"))),
            "pending, pending: CreateContainerConfigError: failed to sync configmap cache: timed out waiting "
            "for the "
            "condition");
  EXPECT_EQ(state_of(pod_in_state(waiting_state("CreateContainerError", "context deadline exceeded"))),
            "pending, pending: CreateContainerError: context deadline exceeded");
}

TEST(PodReportTest, AFailedInitContainerFailsTheStart) {
  EXPECT_EQ(state_of(pod_in_state(R"({"waiting": {"reason": "PodInitializing"}})", R"({"status": {
      "phase": "Failed", "initContainerStatuses": [{"name": "setup", "state": {"terminated": {"exitCode": 4}}}]}})")),
            "ended, ended at 0 s, not started: the init container setup ended with exit code 4");
}

// ---- Pending Pods

TEST(PodReportTest, APodThatWaitsForItsImageHasAHost) {
  const PodReport report = report_of(changed_pod(R"({"status": {"phase": "Pending"}})"));
  EXPECT_EQ(report.observation.phase, Phase::pending);
  EXPECT_EQ(report.observation.placement.host, "n1");
}

// Returns the state of a Pod that has no node, by its condition PodScheduled.
std::string unscheduled(const std::string& reason, const std::string& message) {
  json pod = changed_pod(R"({"spec": {"nodeName": null}, "status": {"phase": "Pending"}})");
  pod["status"]["conditions"] = {
      {{"type", "PodScheduled"}, {"status", "False"}, {"reason", reason}, {"message", message}}};
  return state_of(pod);
}

TEST(PodReportTest, APodWithoutANodeHasTheSchedulersReason) {
  EXPECT_EQ(
      unscheduled(
          "Unschedulable",
          "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient nvidia.com/gpu. no new claims to "
          "deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for "
          "scheduling."),
      "pending, pending: 0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient nvidia.com/gpu");
  EXPECT_EQ(unscheduled("Unschedulable",
                        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 "
                        "No preemption victims found for incoming pod."),
            "pending, pending: 0/1 nodes are available: 1 Insufficient cpu");
  EXPECT_EQ(unscheduled("Unschedulable", ""), "pending, pending: Unschedulable");
  EXPECT_EQ(state_of(changed_pod(R"({"spec": {"nodeName": null}, "status": {"phase": "Pending"}})")),
            "pending, pending: no node is chosen yet");
}

TEST(PodReportTest, ATaintNamesTheTolerationToWrite) {
  EXPECT_THAT(
      unscheduled("Unschedulable", "0/3 nodes are available: 3 node(s) had untolerated taint {gpu: true}."),
      HasSubstr("taint {gpu: true}; to allow it, write kubernetes: {pod: {tolerations: [{key: \"gpu\", "
                "operator: \"Equal\", value: \"true\"}]}}"));
  // Kubernetes 1.35 and later name no taint.
  EXPECT_THAT(
      unscheduled("Unschedulable", "0/3 nodes are available: 3 node(s) had untolerated taint(s)."),
      HasSubstr("untolerated taint(s); to allow a taint, write kubernetes: {pod: {tolerations: [{key: "
                "\"KEY\", operator: \"Exists\"}]}} (`kubectl describe nodes` shows the taints)"));
  EXPECT_THAT(unscheduled("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu."),
              Not(HasSubstr("toleration")));
}

TEST(PodReportTest, AGatedPodNamesItsGates) {
  json pod = changed_pod(
      R"({"spec": {"nodeName": null, "schedulingGates": [{"name": "example.com/queue"}, {"name": "b"}]},
    "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
      "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates"}]}})");
  EXPECT_EQ(state_of(pod),
            "pending, pending: SchedulingGated: Scheduling is blocked due to non-empty scheduling gates "
            "(example.com/queue, b)");
}

TEST(PodReportTest, AnImageThatCannotBePulledHasTheRegistrysWords) {
  EXPECT_EQ(
      state_of(pod_in_state(waiting_state(
          "ImagePullBackOff",
          R"(Back-off pulling image "img:1": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/img:1": docker.io/library/img:1: not found)"))),
      "pending, pending: ImagePullBackOff: Back-off pulling image \"img:1\": ErrImagePull: failed to pull "
      "and unpack "
      "image \"docker.io/library/img:1\": docker.io/library/img:1: not found");
  EXPECT_EQ(state_of(pod_in_state(
                waiting_state("ErrImagePull", "rpc error: code = Unknown desc = access denied: x"))),
            "pending, pending: ErrImagePull: img:1: access denied: x");
  // Kubelets before 1.32 have the registry's words only in Events.
  EXPECT_EQ(state_of(pod_in_state(waiting_state("ImagePullBackOff", R"(Back-off pulling image "img:1")"))),
            "pending, lacks its reason, pending: ImagePullBackOff: Back-off pulling image \"img:1\"");
}

TEST(PodReportTest, AKubeletAtWorkHasNoReason) {
  for (const std::string reason : {"ContainerCreating", "PodInitializing"})
    EXPECT_EQ(state_of(pod_in_state(R"({"waiting": {"reason": ")" + reason + R"("}})")),
              "pending, lacks its reason");
  EXPECT_EQ(state_of(pod_in_state(R"({"waiting": {}})")), "pending, lacks its reason");
  // The kubelet has not reported the container yet.
  const PodReport report = report_of(changed_pod(R"({"status": {"phase": "Pending"}})"));
  EXPECT_EQ(state_of(report), "pending, lacks its reason");
  EXPECT_EQ(report.observation.status, "pending on n1");
}

TEST(PodReportTest, AnInitContainerThatWaitsIsTheReason) {
  EXPECT_EQ(state_of(pod_in_state(R"({"waiting": {"reason": "PodInitializing"}})", R"({"status": {
      "initContainerStatuses": [{"name": "one", "state": {"terminated": {"exitCode": 0}}},
        {"name": "two", "state": {"waiting": {"reason": "ErrImagePull", "message": "img:1: denied"}}}]}})")),
            "pending, pending: ErrImagePull: img:1: denied");
}

TEST(PodReportTest, AReasonIsOneLine) {
  EXPECT_EQ(unscheduled("Unschedulable", "a\nb\x1b[1m\t c"), "pending, pending: a b [1m c");
}

// ---- Health

// Returns the state of a container with a readiness probe that fails after 2 × 5 seconds.
std::string probed(const std::string& ready, const std::string& conditions, const std::string& now,
                   const std::string& start_period = "null") {
  json pod =
      pod_in_state(k_running, R"({"metadata": {"annotations": {"combu.start-period": )" + start_period +
                                  R"(}}, "spec": {"containers": [{"name": "main", "readinessProbe":
      {"exec": {"command": ["true"]}, "periodSeconds": 5, "failureThreshold": 2}}]},
      "status": {"conditions": )" +
                                  conditions + "}}");
  pod["status"]["containerStatuses"][0]["ready"] = parse_json(ready);
  return state_of(pod, now);
}

std::string containers_ready(const std::string& status, const std::string& at) {
  return R"([{"type": "ContainersReady", "status": ")" + status + R"(", "lastTransitionTime": "2026-01-01T)" +
         at + R"(Z"}])";
}

TEST(PodReportTest, AReadyContainerIsHealthy) {
  EXPECT_EQ(probed("true", containers_ready("True", "12:00:03"), "12:00:04"), "running, ran at 1 s, healthy");
  // The control plane marks Pods on silent nodes as not ready.
  EXPECT_EQ(probed("true",
                   R"([{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T12:05:00Z"}])",
                   "12:06:00"),
            "running, ran at 1 s, healthy");
}

TEST(PodReportTest, AContainerThatWasNeverReadyBecomesUnhealthy) {
  const std::string never = containers_ready("False", "12:00:01");
  EXPECT_EQ(probed("false", never, "12:00:10"), "running, ran at 1 s, starting, changes at 11 s");
  EXPECT_EQ(probed("false", never, "12:00:11"), "running, ran at 1 s, unhealthy");
  EXPECT_EQ(probed("false", never, "12:00:11", R"("20.5")"),
            "running, ran at 1 s, starting, changes at 31 s");
  EXPECT_EQ(probed("false", never, "12:00:32", R"("20.5")"), "running, ran at 1 s, unhealthy");
  for (const std::string wrong : {R"("x")", R"("nan")", R"("-9")", "7"})
    EXPECT_EQ(probed("false", never, "12:00:11", wrong), "running, ran at 1 s, unhealthy") << wrong;
}

// The kubelet has then counted `failureThreshold` failed probes.
TEST(PodReportTest, AContainerThatIsNotReadyAnyMoreIsUnhealthy) {
  EXPECT_EQ(probed("false", containers_ready("False", "12:00:05"), "12:00:05"),
            "running, ran at 1 s, unhealthy");
}

TEST(PodReportTest, WithoutAProbeThereIsNoHealth) {
  json pod = pod_in_state(k_running);
  pod["status"]["containerStatuses"][0]["ready"] = true;
  EXPECT_EQ(state_of(pod), "running, ran at 1 s");
}

// ---- Malformed objects

TEST(PodReportTest, MembersOfOtherTypesCountAsNotSet) {
  EXPECT_FALSE(read_pod(json(), Instant{}));
  EXPECT_FALSE(read_pod(json::array({1}), Instant{}));
  const json whole = deleted_pod(
      pod_in_state(ended_state(143, "Error"),
                   disrupted("EvictionByEvictionAPI", "Eviction API: evicting", "12:00:05",
                             R"(, "reason": "", "initContainerStatuses": [{"name": "x", "state": {}}])")),
      "12:00:35");
  const json flat = whole.flatten();
  for (const auto& [path, value] : flat.items()) {
    for (json::json_pointer at(path); !at.empty(); at.pop_back()) {
      for (const json& other :
           std::vector<json>{nullptr, 7, -1.5e300, "x", true, json::array({{}, 1}), json::object()}) {
        json changed = whole;
        changed[at] = other;
        EXPECT_NO_THROW((void)read_pod(changed, clock_at("13:00:00"))) << at.to_string();
      }
    }
  }
}

TEST(PodReportTest, LongTimesDoNotOverflow) {
  const json pod = pod_in_state(k_running, R"({"spec": {"containers": [{"name": "main",
    "readinessProbe": {"periodSeconds": 1e300, "failureThreshold": 1e300}}]}})");
  EXPECT_EQ(report_of(pod).changes_at, Instant::max());
  json deleted = pod_in_state(k_running, R"({"metadata": {"deletionTimestamp": "1970-01-02T00:00:00Z"}})");
  deleted["metadata"]["deletionGracePeriodSeconds"] = 1e300;
  EXPECT_EQ(report_of(deleted).observation.phase, Phase::ended);
}

}  // namespace
}  // namespace combu::kubernetes
