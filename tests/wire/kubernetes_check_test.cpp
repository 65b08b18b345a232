// KubernetesEngine: check() with a scripted API server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "kubernetes/rights.hpp"
#include "wire/kubernetes_fixture.hpp"

namespace combu::wire {
namespace {

using kubernetes::Right;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

struct Checked {
  std::vector<std::string> errors;
  std::vector<std::string> notes;
};

// Checks a run whose only trial requests `gpus` GPUs. The user has all rights; `answer` answers the creation
// of a Pod on trial, with the Pod as its argument.
Checked check(const std::function<Reply(const json&)>& answer, std::size_t gpus = 0) {
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.target.find("/selfsubjectaccessreviews") != std::string::npos)
      return whole(201, R"({"status": {"allowed": true}})");
    return answer(json::parse(asked.body));
  });
  Run run = cluster_run();
  if (gpus > 0) run.experiment.trials[0].gpus = GpuRequest{.count = gpus};
  Checked checked;
  for (const Error& error : cluster.engine().check(run, {})) checked.errors.emplace_back(error.what());
  const auto take = [&](const Preparation& preparation) {
    if (preparation.kind == Preparation::Kind::note) checked.notes.push_back(preparation.name);
  };
  (void)cluster.engine().prepare(run, take, {});
  return checked;
}

// Checks a run for a user who lacks one right.
std::vector<std::string> errors_without(const Right& missing, bool isolates_networks) {
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.target.find("/selfsubjectaccessreviews") == std::string::npos) return whole(201, asked.body);
    const json asks = json::parse(asked.body)["spec"]["resourceAttributes"];
    const bool is_missing = asks["group"] == missing.group && asks["resource"] == missing.resource &&
                            asks["subresource"] == missing.subresource && asks["verb"] == missing.verb;
    return whole(201, json({{"status", {{"allowed", !is_missing}}}}).dump());
  });
  Run run = cluster_run();
  run.experiment.isolates_networks = isolates_networks;
  std::vector<std::string> errors;
  for (const Error& error : cluster.engine().check(run, {})) errors.emplace_back(error.message());
  return errors;
}

TEST(KubernetesCheck, EachMissingRightIsNamed) {
  for (const Right& right : kubernetes::needed_rights()) {
    const std::string named =
        "you may not " + right.verb + " " + right.resource_text() + " in the namespace ";
    SCOPED_TRACE(named);
    const auto is_named = ElementsAre(testing::StartsWith(named));
    const bool is_of_all_runs = right.need == kubernetes::Need::runs;
    EXPECT_THAT(errors_without(right, false), testing::Conditional(is_of_all_runs, is_named, IsEmpty()));
    const bool is_of_isolation = is_of_all_runs || right.need == kubernetes::Need::isolation;
    EXPECT_THAT(errors_without(right, true), testing::Conditional(is_of_isolation, is_named, IsEmpty()));
  }
}

Reply refusal(const std::string& message) {
  return failure(403, "pods \"combu-check-x7k2p\" is forbidden: " + message);
}

TEST(KubernetesCheck, ARefusalNamesTheTrialAndTheRemedy) {
  const auto error_for = [](const std::string& message) {
    return check([&](const json&) { return refusal(message); }).errors;
  };
  EXPECT_THAT(error_for("failed quota: q: must specify limits.cpu for: main"),
              ElementsAre("a: the cluster refuses the Pod: failed quota: q: must specify limits.cpu for: "
                          "main; set `cpus` and "
                          "`memory`, for example in `defaults`"));
  EXPECT_THAT(
      error_for("exceeded quota: q, requested: pods=2, used: pods=0, limited: pods=1"),
      ElementsAre(
          "a: the cluster refuses the Pod: exceeded quota: q, requested: pods=2, used: pods=0, limited: "
          "pods=1; request less, or ask an administrator for a larger quota"));
  EXPECT_THAT(
      error_for("maximum memory usage per Container is 512Mi, but limit is 734003200"),
      ElementsAre(
          "a: the cluster refuses the Pod: maximum memory usage per Container is 512Mi, but limit is "
          "734003200; change `cpus` or `memory` (`kubectl describe limitranges` shows what the namespace "
          "allows)"));
  EXPECT_THAT(error_for("the policy forbids it"),
              ElementsAre("a: the cluster refuses the Pod: the policy forbids it"));
}

TEST(KubernetesCheck, AUsedUpQuotaIsNoError) {
  EXPECT_THAT(check([](const json&) {
                return refusal("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1");
              }).errors,
              IsEmpty());
}

// Completes a Pod as a server does: an API server copies a request from each limit, and a LimitRange adds
// amounts.
Reply completed(json pod, const json& added) {
  json& resources = pod["spec"]["containers"][0]["resources"];
  if (resources.contains("limits"))
    for (const auto& [name, amount] : resources["limits"].items())
      if (!resources.contains("requests") || !resources["requests"].contains(name))
        resources["requests"][name] = amount;
  if (!added.is_null()) resources.merge_patch(added);
  return whole(201, pod.dump());
}

TEST(KubernetesCheck, ANoteNamesTheAmountsOfALimitRangeOnly) {
  EXPECT_THAT(check([](const json& pod) { return completed(pod, nullptr); }, 2).notes, IsEmpty());
  const json range = {{"limits", {{"memory", "64Mi"}}}, {"requests", {{"memory", "32Mi"}}}};
  EXPECT_THAT(
      check([&](const json& pod) { return completed(pod, range); }, 2).notes,
      ElementsAre(
          "the namespace's LimitRange adds to trials such as a: requests.memory 32Mi, limits.memory 64Mi"));
}

}  // namespace
}  // namespace combu::wire
