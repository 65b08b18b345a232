// Pods whose hosts are lost, as observations. kubernetes_pod_report_test.cpp says where the statuses come
// from.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "combu/json.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/pod_report.hpp"
#include "kubernetes_pod_states.hpp"

namespace combu::kubernetes {
namespace {

TEST(LostHostTest, AnEvictionByTheKubeletIsALostHost) {
  // The kubelet's condition is newer than the end of the container.
  const std::string message =
      "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. ";
  const json pod =
      pod_in_state(ended_state(137, "Error"),
                   disrupted("TerminationByKubelet", message, "12:00:10",
                             R"(, "phase": "Failed", "reason": "Evicted", "message": ")" + message + "\""));
  const PodReport report = report_of(pod);
  EXPECT_EQ(
      state_of(report),
      "ended, exit code 137, ran at 1 s, ended at 9 s, stopped, lost: the pod was evicted from the node n1: "
      "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi");
  EXPECT_EQ(report.observation.status, report.observation.lost);
}

// Another try would end in the same way.
TEST(LostHostTest, AnEvictionBecauseOfThePodsOwnLimitIsNoLostHost) {
  for (const std::string message :
       {"Usage of EmptyDir volume \"out\" exceeds the limit \"10Mi\". ",
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
        "Container main exceeded its local ephemeral storage limit \"1Gi\". "}) {
    const json status = {{"phase", "Failed"}, {"reason", "Evicted"}, {"message", message}};
    const std::string changes = json{{"status", status}}.dump();
    for (const json& pod : {pod_in_state(ended_state(137, "Error"), changes), changed_pod(changes)}) {
      const Observation seen = report_of(pod).observation;
      EXPECT_EQ(seen.phase, Phase::ended);
      EXPECT_EQ(seen.lost, "");
      EXPECT_FALSE(seen.stopped);
      EXPECT_EQ(seen.placement.limit_error + ". ", "the pod was evicted from the node n1: " + message);
    }
  }
}

TEST(LostHostTest, AnEvictionThroughTheApiIsALostHost) {
  const std::string eviction = disrupted("EvictionByEvictionAPI", "Eviction API: evicting", "12:00:05");
  EXPECT_EQ(state_of(deleted_pod(pod_in_state(k_running, eviction), "12:00:35"), "12:00:06"),
            "running, ran at 1 s, changes at 65 s");
  for (const auto& [exit_code, text] :
       std::vector<std::pair<int, std::string>>{{0, "0"}, {1, "1"}, {143, "143"}})
    EXPECT_EQ(state_of(deleted_pod(pod_in_state(ended_state(exit_code, "Error"), eviction), "12:00:35")),
              "ended, exit code " + text +
                  ", ran at 1 s, ended at 9 s, stopped, lost: the pod was evicted from the node n1: "
                  "Eviction API: evicting");
}

// A drain also evicts Pods that have just ended.
TEST(LostHostTest, APodThatEndedBeforeItsEvictionKeepsItsResult) {
  const std::string eviction = disrupted("EvictionByEvictionAPI", "Eviction API: evicting", "12:00:11");
  EXPECT_EQ(state_of(deleted_pod(pod_in_state(ended_state(3, "Error"), eviction), "12:00:41")),
            "ended, exit code 3, ran at 1 s, ended at 9 s");
  // The eviction may not have deleted the Pod yet.
  EXPECT_EQ(state_of(pod_in_state(ended_state(0, "Completed"), eviction)),
            "ended, exit code 0, ran at 1 s, ended at 9 s");
  // The clock of the node may be wrong, but SIGTERM shows.
  EXPECT_EQ(
      state_of(pod_in_state(ended_state(143, "Error"), eviction)),
      "ended, exit code 143, ran at 1 s, ended at 9 s, stopped, lost: the pod was evicted from the node n1: "
      "Eviction API: evicting");
}

TEST(LostHostTest, APreemptionIsALostHost) {
  const std::string preemption =
      disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod",
                "12:00:05");
  EXPECT_EQ(state_of(deleted_pod(pod_in_state(ended_state(143, "Error"), preemption), "12:00:35")),
            "ended, exit code 143, ran at 1 s, ended at 9 s, stopped, lost: the pod was preempted on the "
            "node n1: default-scheduler: preempting to accommodate a higher priority pod");
}

TEST(LostHostTest, ADeletedNodeIsALostHost) {
  const std::string lost =
      disrupted("DeletionByPodGC", "PodGC: node no longer exists", "12:00:50", R"(, "phase": "Failed")");
  EXPECT_EQ(state_of(pod_in_state(k_running, lost)),
            "ended, ran at 1 s, ended at 50 s, lost: the pod was lost with the node n1: PodGC: node no "
            "longer exists");
}

TEST(LostHostTest, AShutdownOfTheNodeIsALostHost) {
  const std::string message = "Pod was terminated in response to imminent node shutdown.";
  const json pod = pod_in_state(
      ended_state(143, "Error"),
      disrupted("TerminationByKubelet", message, "12:00:10",
                R"(, "phase": "Failed", "reason": "Terminated", "message": ")" + message + "\""));
  EXPECT_EQ(
      state_of(pod),
      "ended, exit code 143, ran at 1 s, ended at 9 s, stopped, lost: the node n1 was shut down: Pod was "
      "terminated in response to imminent node shutdown");
}

TEST(LostHostTest, AKubeletThatRejectsThePodIsALostHost) {
  EXPECT_EQ(
      state_of(changed_pod(R"({"status": {"phase": "Failed", "reason": "OutOfcpu",
      "startTime": "2026-01-01T12:00:01Z", "message": "Pod was rejected: Node didn't have enough resource: cpu, requested: 5000, used: 0, capacity: 2000"}})")),
      "ended, ended at 1 s, lost: the node n1 rejected the pod: OutOfcpu: Node didn't have enough resource: "
      "cpu, requested: 5000, used: 0, capacity: 2000");
}

TEST(LostHostTest, AContainerThatTheNodeHasLostHasNoExitCode) {
  // The kubelet after the node lost its power, and its data.
  EXPECT_EQ(state_of(pod_in_state(k_never_ran,
                                  R"({"status": {"phase": "Failed", "startTime": "2026-01-01T12:00:01Z",
      "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T12:00:01Z"},
        {"type": "Ready", "status": "False", "reason": "PodFailed", "lastTransitionTime": "2026-01-01T12:00:20Z"}]}})")),
            "ended, ended at 20 s, lost: the node n1 lost the container: The container could not be located "
            "when the "
            "pod was terminated");
  // containerd after a restart of the node.
  EXPECT_EQ(state_of(pod_in_state(ended_state(255, "Unknown"))),
            "ended, ran at 1 s, ended at 9 s, lost: the node n1 lost the container");
  EXPECT_EQ(state_of(pod_in_state(ended_state(255, "Error"))),
            "ended, exit code 255, ran at 1 s, ended at 9 s");
}

TEST(LostHostTest, ASilentNodeIsLostAfterTheGracePeriod) {
  const json pod = deleted_pod(
      pod_in_state(k_running, disrupted("DeletionByTaintManager",
                                        "Taint manager: deleting due to NoExecute taint", "12:00:05")),
      "12:00:35");
  const std::string lost =
      "lost: the pod was evicted from the node n1: Taint manager: deleting due to NoExecute taint";
  EXPECT_EQ(state_of(pod, "12:01:04"), "running, ran at 1 s, changes at 65 s");
  EXPECT_EQ(state_of(pod, "12:01:05"),
            "ended, ran at 1 s, ended at 65 s, lost: the node n1 does not answer; the pod was "
            "evicted from "
            "the node n1: Taint manager: deleting due to NoExecute taint");
}

TEST(LostHostTest, AStoppedPodOnASilentNodeIsStopped) {
  const json pod = deleted_pod(pod_in_state(k_running, k_marked), "12:00:35");
  EXPECT_EQ(state_of(pod, "12:01:04"), "running, ran at 1 s, changes at 65 s");
  const PodReport report = report_of(pod, "12:01:05");
  EXPECT_EQ(state_of(report), "ended, ran at 1 s, ended at 65 s, stopped");
  EXPECT_EQ(report.observation.status, "the node n1 does not answer");
}

// ---- Deletions by persons and by other programs

const std::string k_not_by_combu = ", lost: the pod was deleted, but not by combu";

TEST(LostHostTest, APodThatSomebodyDeletesIsALostHost) {
  // `kubectl delete pod` at 12:00:05.
  const json running = deleted_pod(pod_in_state(k_running), "12:00:35");
  EXPECT_EQ(state_of(running, "12:00:06"), "running, ran at 1 s, changes at 65 s");
  EXPECT_EQ(state_of(running, "12:01:05"),
            "ended, ran at 1 s, ended at 65 s, deleted, lost: the node n1 does not answer; the pod was "
            "deleted, but not by combu");
  for (const std::string exit_code : {"0", "1", "137", "143"})
    EXPECT_EQ(
        state_of(deleted_pod(pod_in_state(ended_state(std::stoi(exit_code), "Error")), "12:00:35")),
        "ended, exit code " + exit_code + ", ran at 1 s, ended at 9 s, stopped, deleted" + k_not_by_combu);
  EXPECT_EQ(state_of(deleted_pod(
                pod_in_state(k_never_ran,
                             R"({"status": {"phase": "Failed", "startTime": "2026-01-01T12:00:02Z"}})"),
                "12:00:35")),
            "ended, ended at 2 s, deleted" + k_not_by_combu);
}

TEST(LostHostTest, APodThatCombuDeletesIsStopped) {
  EXPECT_EQ(state_of(deleted_pod(pod_in_state(k_running, k_marked), "12:00:35"), "12:00:06"),
            "running, ran at 1 s, changes at 65 s");
  EXPECT_EQ(state_of(deleted_pod(pod_in_state(ended_state(143, "Error"), k_marked), "12:00:35")),
            "ended, exit code 143, ran at 1 s, ended at 9 s, stopped");
}

// The stop or deletion that should follow the mark may have failed.
TEST(LostHostTest, AMarkAloneChangesNothing) {
  EXPECT_EQ(state_of(pod_in_state(ended_state(0, "Completed"), k_marked)),
            "ended, exit code 0, ran at 1 s, ended at 9 s");
  EXPECT_EQ(state_of(pod_in_state(ended_state(137, "Error"), k_marked)),
            "ended, exit code 137, ran at 1 s, ended at 9 s");
}

// The kubelet sets a grace period of 0 when the container has ended.
TEST(LostHostTest, ADeletedPodThatAFinalizerKeepsIsStopped) {
  json pod = deleted_pod(pod_in_state(ended_state(143, "Error")), "12:00:11");
  pod["metadata"]["deletionGracePeriodSeconds"] = 0;
  EXPECT_EQ(state_of(pod), "ended, exit code 143, ran at 1 s, ended at 9 s, stopped");
}

// An evicted Pod is deleted, too.
TEST(LostHostTest, AnEvictionExplainsTheDeletion) {
  const json pod = deleted_pod(
      pod_in_state(ended_state(143, "Error"), disrupted("EvictionByEvictionAPI", "evicting", "12:00:05")),
      "12:00:35");
  EXPECT_FALSE(report_of(pod).is_deleted);
}

TEST(LostHostTest, APodThatIsGoneBeforeItsEndIsALostHost) {
  const auto last_state = [](const json& pod) {
    return state_of(read_pod(pod, clock_at("12:00:06"), true).value());
  };
  // A deletion without a grace period leaves no timestamp of the deletion.
  EXPECT_EQ(last_state(pod_in_state(k_running)), "ended, ran at 1 s, ended at 6 s, deleted" + k_not_by_combu);
  EXPECT_EQ(last_state(deleted_pod(pod_in_state(k_running), "12:00:35")),
            "ended, ran at 1 s, ended at 6 s, deleted" + k_not_by_combu);
  EXPECT_EQ(last_state(changed_pod(R"({"status": {"phase": "Pending"}})")),
            "ended, ended at 6 s, deleted" + k_not_by_combu);
  EXPECT_EQ(last_state(pod_in_state(k_running, k_marked)), "running, ran at 1 s");
  // combu deletes ended Pods, and does not mark them.
  EXPECT_EQ(last_state(pod_in_state(ended_state(137, "Error"), k_failed)),
            "ended, exit code 137, ran at 1 s, ended at 9 s");
  EXPECT_EQ(last_state(pod_in_state(k_running, disrupted("EvictionByEvictionAPI", "evicting", "12:00:05"))),
            "ended, ran at 1 s, ended at 6 s, lost: the pod was evicted from the node n1: evicting");
}

TEST(LostHostTest, AnUnknownPhaseIsALostHost) {
  EXPECT_EQ(
      state_of(pod_in_state(k_running, R"({"status": {"phase": "Unknown", "reason": "NodeLost",
      "message": "Node n1 which was running pod a-r1-1 is unresponsive"}})")),
      "ended, ran at 1 s, ended at 1 s, lost: the node n1 does not answer: Node n1 which was running pod "
      "a-r1-1 is unresponsive");
}

TEST(LostHostTest, APodThatFailedWithoutASignHasNoExitCode) {
  EXPECT_EQ(state_of(pod_in_state(k_running, k_failed)), "ended, ran at 1 s, ended at 1 s");
}

}  // namespace
}  // namespace combu::kubernetes
