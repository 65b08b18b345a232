// KubernetesEngine: start() and stop() with a scripted API server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <variant>
#include <vector>

#include "combu/http.hpp"
#include "wire/kubernetes_fixture.hpp"

namespace combu::wire {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

const std::string k_pod_path = "/api/v1/namespaces/ns/pods/a-run1-1";

TEST(KubernetesStart, ACreatedPodIsAccepted) {
  ScriptedCluster cluster([](const Asked&) { return whole(201, stored_pod(pending_status()).dump()); });
  EXPECT_TRUE(std::holds_alternative<Accepted>(cluster.start()));
  const json sent = json::parse(cluster.server().asked().back().body);
  EXPECT_EQ(sent.at("/metadata/name"_json_pointer), "a-run1-1");
  EXPECT_EQ(sent.at("/metadata/ownerReferences/0/uid"_json_pointer), "anchor-uid");
}

TEST(KubernetesStart, TheAnchorIsCreatedOnce) {
  ScriptedCluster cluster([](const Asked&) { return whole(201, "{}"); });
  (void)cluster.start(1);
  (void)cluster.start(2);
  EXPECT_THAT(cluster.server().lines(),
              testing::ElementsAre("POST /api/v1/namespaces/ns/configmaps?fieldValidation=Ignore",
                                   "POST /api/v1/namespaces/ns/pods?fieldValidation=Ignore",
                                   "POST /api/v1/namespaces/ns/pods?fieldValidation=Ignore"));
}

// An interrupted `kill` leaves the mark, and `run --resume` continues the run.
TEST(KubernetesStart, TheMarkOfAnInterruptedKillIsRemoved) {
  ScriptedCluster cluster(
      [](const Asked&) { return whole(200, "{}"); }, {},
      R"({"metadata": {"uid": "anchor-uid", "annotations": {"combu.stopped": "2026-01-01T12:00:05Z"}}})");
  (void)cluster.start();
  const Asked patch = cluster.server().asked().at(1);
  EXPECT_EQ(patch.method + " " + patch.target, "PATCH /api/v1/namespaces/ns/configmaps/combu-run1");
  EXPECT_EQ(json::parse(patch.body),
            json::parse(R"({"metadata": {"annotations": {"combu.stopped": null}}})"));
}

// Returns a Pod that was deleted in the second in which its container ended, and has no mark.
json deleted_pod() {
  json pod = stored_pod(ended_status(143));
  pod["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:37Z";
  pod["metadata"]["deletionGracePeriodSeconds"] = 30;
  return pod;
}

// The interrupted `kill` may have removed Pods that the engine has seen.
TEST(KubernetesStart, AResumedRunIsNoLongerReleased) {
  std::atomic<bool> is_marked = true;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.method == "POST") return whole(201, "{}");
    if (asked.target.find("/configmaps/") != std::string::npos)
      return whole(200, is_marked
                            ? R"({"metadata": {"annotations": {"combu.stopped": "2026-01-01T12:00:05Z"}}})"
                            : R"({"metadata": {}})");
    return whole(200, pod_list({deleted_pod()}));
  });
  EXPECT_EQ(cluster.engine().list({}, ListDetail::basic, {}).at(0).lost, "");
  is_marked = false;
  (void)cluster.start();
  EXPECT_NE(cluster.engine().list({}, ListDetail::basic, {}).at(0).lost, "");
}

// Answers the creation of a Pod with 409, and returns the existing Pod.
ScriptedDaemon::Handler conflict_with(const json& existing) {
  return [existing](const Asked& asked) {
    return asked.method == "POST" ? failure(409, "pods \"a-run1-1\" already exists")
                                  : whole(200, existing.dump());
  };
}

TEST(KubernetesStart, AnExistingPodOfTheAttemptIsAdopted) {
  ScriptedCluster pending(conflict_with(stored_pod(pending_status())));
  EXPECT_TRUE(std::holds_alternative<Accepted>(pending.start()));
  ScriptedCluster ended(conflict_with(stored_pod(ended_status(3))));
  const StartResult result = ended.start();
  ASSERT_TRUE(std::holds_alternative<Running>(result));
  EXPECT_EQ(std::get<Running>(result).observation.phase, Phase::ended);
  EXPECT_EQ(std::get<Running>(result).observation.exit_code, 3);
}

// `kill` of another machine may have deleted the Pod whose creation had no answer.
TEST(KubernetesStart, AnExistingPodOfARunThatKillRemovesIsStopped) {
  ScriptedCluster cluster([](const Asked& asked) {
    if (asked.method == "POST") return failure(409, "pods \"a-run1-1\" already exists");
    if (asked.target.find("/configmaps/") != std::string::npos) return failure(404, "not found");
    return whole(200, deleted_pod().dump());
  });
  const StartResult result = cluster.start();
  ASSERT_TRUE(std::holds_alternative<Running>(result));
  EXPECT_TRUE(std::get<Running>(result).observation.stopped);
  EXPECT_EQ(std::get<Running>(result).observation.lost, "");
}

// For example, the answer to the first creation was lost, and the Pod was deleted after its end.
TEST(KubernetesStart, APodThatExistedAndIsGoneIsNotCreatedAgain) {
  ScriptedCluster cluster([](const Asked& asked) {
    return asked.method == "POST" ? failure(409, "pods \"a-run1-1\" already exists") : failure(404, "no");
  });
  const StartResult result = cluster.start();
  ASSERT_TRUE(std::holds_alternative<Running>(result));
  const Observation& seen = std::get<Running>(result).observation;
  EXPECT_EQ(seen.key, cluster_key());
  EXPECT_EQ(seen.phase, Phase::ended);
  EXPECT_TRUE(seen.stopped);
  EXPECT_EQ(seen.exit_code, std::nullopt);
}

TEST(KubernetesStart, AConflictOfAQuotaHasCreatedNothing) {
  ScriptedCluster cluster([](const Asked& asked) {
    return asked.method == "POST"
               ? failure(
                     409,
                     "Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified")
               : failure(404, "no");
  });
  const auto error = test::error_of([&] { (void)cluster.start(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
}

TEST(KubernetesStart, APodThatCombuDidNotCreateIsAConflict) {
  json stranger = stored_pod(running_status());
  stranger["metadata"]["labels"].erase("combu.run");
  ScriptedCluster cluster(conflict_with(stranger));
  const auto error = test::error_of([&] { (void)cluster.start(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::conflict);
  EXPECT_EQ(error->subject(), "a");
}

TEST(KubernetesStart, AUsedUpQuotaMeansNoRoom) {
  ScriptedCluster cluster([](const Asked&) {
    return failure(403,
                   "pods \"a-run1-1\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=10, "
                   "limited: pods=10");
  });
  const StartResult result = cluster.start();
  ASSERT_TRUE(std::holds_alternative<NoRoom>(result));
  EXPECT_EQ(std::get<NoRoom>(result).reason, "exceeded quota: small, limited: pods=10")
      << "the same text for every Pod, because combu prints each text once";
  EXPECT_GT(std::get<NoRoom>(result).retry_after.count(), 0);
}

TEST(KubernetesStart, ATrialAboveTheQuotasLimitIsRefused) {
  ScriptedCluster cluster([](const Asked&) {
    return failure(403,
                   "pods \"a-run1-1\" is forbidden: exceeded quota: small, requested: requests.cpu=8, used: "
                   "requests.cpu=0, limited: requests.cpu=1500m");
  });
  const auto error = test::error_of([&] { (void)cluster.start(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
  EXPECT_THAT(error->message(), HasSubstr("limited: requests.cpu=1500m"));
}

TEST(KubernetesStart, AnOverloadedServerIsUnavailable) {
  ScriptedCluster cluster(
      [](const Asked&) { return failure(429, "too many requests", "Retry-After: 1\r\n"); });
  const auto error = test::error_of([&] { (void)cluster.start(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
}

constexpr const char* k_denied =
    "admission webhook \"policy.example.com\" denied the request: images must come from registry.example.com";

TEST(KubernetesStart, AWebhookThatRefusesIsARefusalInItsOwnWords) {
  for (const int status : {400, 403, 422}) {  // the webhook chooses the status; by default, it is 400
    ScriptedCluster cluster([status](const Asked&) { return failure(status, k_denied); });
    const auto error = test::error_of([&] { (void)cluster.start(); });
    ASSERT_TRUE(error) << status;
    EXPECT_EQ(error->kind(), ErrorKind::refused) << status;
    EXPECT_EQ(error->subject(), "a");
    EXPECT_EQ(error->message(), k_denied);
  }
}

TEST(KubernetesCheck, AWebhookThatRefusesIsFoundBeforeTheFirstStart) {
  ScriptedCluster cluster([](const Asked& asked) {
    if (asked.target.find("dryRun=All") != std::string::npos) return failure(403, k_denied);
    return whole(201, R"({"status": {"allowed": true}})");
  });
  const std::vector<Error> errors = cluster.engine().check(cluster_run(), {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].subject(), "a");
  EXPECT_THAT(errors[0].message(), HasSubstr(k_denied));
}

TEST(KubernetesStart, AWebhookThatDoesNotAnswerIsARefusal) {
  ScriptedCluster cluster([](const Asked&) {
    return failure(500,
                   "Internal error occurred: failed calling webhook \"policy.example.com\": context deadline "
                   "exceeded");
  });
  const auto error = test::error_of([&] { (void)cluster.start(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
  EXPECT_THAT(error->message(), HasSubstr("policy.example.com"));
}

// ---- stop

// Stops the attempt whose Pod has this status, and returns the last request. The server's clock says 2030.
Asked stop_request(const json& status) {
  ScriptedCluster cluster([status](const Asked&) {
    return whole(200, stored_pod(status).dump(), "Date: Wed, 02 Jan 2030 03:04:05 GMT\r\n");
  });
  cluster.engine().stop(cluster_key(), std::nullopt, {});
  return cluster.server().asked().back();
}

TEST(KubernetesStop, ARunningPodGetsADeadlineAndStays) {
  const Asked asked = stop_request(running_status());
  EXPECT_EQ(asked.method + " " + asked.target, "PATCH " + k_pod_path);
  json patch = json::parse(asked.body);
  EXPECT_THAT(patch["metadata"]["annotations"]["combu.stopped"], StartsWith("2030-01-02T03:"));
  patch["metadata"].erase("annotations");
  EXPECT_EQ(patch, (json{{"metadata", {{"uid", "uid-a"}}}, {"spec", {{"activeDeadlineSeconds", 1}}}}));
}

TEST(KubernetesStop, APendingPodIsMarkedAndDeletedIfItHasNotChanged) {
  ScriptedCluster cluster([](const Asked& asked) {
    return whole(200, stored_pod(pending_status(), "a", asked.method == "PATCH" ? "8" : "7").dump());
  });
  cluster.engine().stop(cluster_key(), std::nullopt, {});
  const std::vector<Asked> asked = cluster.server().asked();
  ASSERT_EQ(asked.size(), 3U);
  EXPECT_EQ(asked[1].method + " " + asked[1].target, "PATCH " + k_pod_path);
  const json metadata = json::parse(asked[1].body).at("metadata");
  EXPECT_EQ(metadata.at("uid"), "uid-a");
  EXPECT_EQ(metadata.at("resourceVersion"), "7");
  EXPECT_TRUE(metadata.at("annotations").contains("combu.stopped"));
  EXPECT_EQ(asked[2].method + " " + asked[2].target, "DELETE " + k_pod_path);
  EXPECT_EQ(json::parse(asked[2].body).at("preconditions"),
            (json{{"uid", "uid-a"}, {"resourceVersion", "8"}}));
}

// A container that runs has a log and a grace period.
TEST(KubernetesStop, APendingPodThatBeginsToRunGetsADeadline) {
  std::atomic<bool> runs = false;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.method == "DELETE") {
      runs = true;
      return json::parse(asked.body).at("preconditions").contains("resourceVersion")
                 ? failure(409, "Precondition failed: ResourceVersion in precondition: 7")
                 : whole(200, "{}");
    }
    return whole(200, (runs ? stored_pod(running_status(), "a", "8") : stored_pod(pending_status())).dump());
  });
  cluster.engine().stop(cluster_key(), std::nullopt, {});
  EXPECT_EQ(cluster.server().lines().back(), "PATCH " + k_pod_path);
}

TEST(KubernetesStop, AWebhookThatRefusesIsAnError) {
  for (const int status : {409, 422}) {  // also the status for a Pod with another uid
    ScriptedCluster cluster([&](const Asked& asked) {
      return asked.method == "PATCH" ? failure(status, k_denied)
                                     : whole(200, stored_pod(running_status()).dump());
    });
    const auto error = test::error_of([&] { cluster.engine().stop(cluster_key(), std::nullopt, {}); });
    ASSERT_TRUE(error) << status;
    EXPECT_EQ(error->message(), k_denied);
  }
}

TEST(KubernetesStop, APodThatEndsMeanwhileIsSuccess) {
  std::atomic<bool> has_ended = false;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.method == "PATCH") {
      has_ended = true;
      return failure(422, "metadata.uid: field is immutable");
    }
    return whole(200, stored_pod(has_ended ? ended_status(0) : running_status()).dump());
  });
  cluster.engine().stop(cluster_key(), std::nullopt, {});
  EXPECT_EQ(cluster.server().lines().back(), "GET " + k_pod_path);
}

TEST(KubernetesStop, AnEndedPodIsLeftAlone) {
  EXPECT_EQ(stop_request(ended_status(0)).method, "GET");
}

TEST(KubernetesStop, AnAbsentPodIsSuccess) {
  ScriptedCluster cluster([](const Asked&) { return failure(404, "not found"); });
  cluster.engine().stop(cluster_key(), std::nullopt, {});
}

// ---- acknowledge

TEST(KubernetesAcknowledge, ThePodsAreDeletedBeforeTheEngineIsClosed) {
  std::atomic<bool> is_starting = true;
  ScriptedCluster cluster([&](const Asked&) {
    return is_starting.exchange(false) ? failure(503, "starting") : whole(200, "{}");
  });
  cluster.engine().acknowledge({cluster_key("a"), cluster_key("b"), cluster_key("c", 2)});
  cluster.close_engine();
  const std::string pods = "DELETE /api/v1/namespaces/ns/pods?labelSelector=";
  const std::string first = pods + percent_encode("combu.run=run1,combu.attempt=1,combu.trial in (a,b)");
  const std::string second = pods + percent_encode("combu.run=run1,combu.attempt=2,combu.trial in (c)");
  EXPECT_THAT(cluster.server().lines(), ElementsAre(first, first, second));
}

TEST(KubernetesAcknowledge, ARefusalIsNotRepeated) {
  ScriptedCluster cluster([](const Asked&) { return failure(403, "cannot deletecollection"); });
  cluster.engine().acknowledge({cluster_key("a")});
  cluster.close_engine();
  EXPECT_THAT(cluster.server().lines(), SizeIs(1));
}

TEST(KubernetesAcknowledge, ARequestDeletesAtMostAHundredPods) {
  ScriptedCluster cluster([](const Asked&) { return whole(200, "{}"); });
  std::vector<Key> keys;
  for (int i = 0; i < 250; ++i) keys.push_back(cluster_key("t" + std::to_string(i)));
  cluster.engine().acknowledge(keys);
  cluster.close_engine();
  EXPECT_THAT(cluster.server().lines(), SizeIs(3));
}

}  // namespace
}  // namespace combu::wire
