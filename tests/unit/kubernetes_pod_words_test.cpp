// The words of the API about Pods.

#include <gtest/gtest.h>

#include <string>

#include "kubernetes/pod_words.hpp"

namespace combu::kubernetes {
namespace {

TEST(PodWordsTest, ATolerationAllowsTheTaintOfAMessage) {
  // Kubernetes 1.22 to 1.34.
  EXPECT_EQ(
      toleration_for("0/3 nodes are available: 1 node(s) had untolerated taint {gpu: true}, 2 Insufficient "
                     "cpu. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."),
      R"({key: "gpu", operator: "Equal", value: "true"})");
  EXPECT_EQ(toleration_for("0/3 nodes are available: 1 node(s) had untolerated taint "
                           "{node-role.kubernetes.io/control-plane: }, 2 Insufficient cpu."),
            R"({key: "node-role.kubernetes.io/control-plane", operator: "Exists"})");
  // Kubernetes 1.18 to 1.21.
  EXPECT_EQ(
      toleration_for("0/2 nodes are available: 2 node(s) had taint {a: b}, that the pod didn't tolerate."),
      R"({key: "a", operator: "Equal", value: "b"})");
}

TEST(PodWordsTest, ThereIsNoTolerationForTheConditionOfANode) {
  EXPECT_EQ(toleration_for("1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }."), "");
  EXPECT_EQ(
      toleration_for("1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, 1 node(s) had "
                     "untolerated taint {gpu: }."),
      R"({key: "gpu", operator: "Exists"})");
}

TEST(PodWordsTest, AMessageWithoutATaintHasNoToleration) {
  for (const std::string message :
       {"", "3 Insufficient cpu", "had untolerated taint(s)", "had taints that the pod didn't tolerate",
        "taint {gpu", "taint {}", "taint { : x}", "taint {a\": b}", "taint {a: \"b}"})
    EXPECT_EQ(toleration_for(message), "") << message;
}

TEST(PodWordsTest, AStartErrorNamesNoLayers) {
  const auto error = [](const std::string& message) { return start_error_text({"StartError", message}); };
  EXPECT_EQ(
      error(
          "failed to create task for container: failed to create shim task: OCI runtime create failed: runc "
          "create failed: unable to start container process: error during container init: exec: \"/x\": "
          "permission denied: unknown"),
      "exec: \"/x\": permission denied");
  EXPECT_EQ(error("no layer: unknown"), "no layer");
  EXPECT_EQ(error("two\nlines"), "two lines");
  EXPECT_EQ(error(""), "StartError");
}

TEST(PodWordsTest, ALostPodNamesItsNode) {
  EXPECT_EQ(lost_text({"Preempting", ""}, "n1"), "the pod was preempted on the node n1");
  EXPECT_EQ(lost_text({"Evicted", ""}, ""), "the pod was evicted from its node");
  EXPECT_EQ(lost_text({"NodeLost", "no heartbeat."}, "n1"), "the node n1 does not answer: no heartbeat");
  EXPECT_EQ(lost_text({"SpotReclaim", "the price rose"}, "n1"),
            "the pod was ended on the node n1: SpotReclaim: the price rose");
}

}  // namespace
}  // namespace combu::kubernetes
