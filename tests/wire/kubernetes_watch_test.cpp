// KubernetesEngine: list(), watch(), logs() and release() with a scripted API server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "wire/kubernetes_fixture.hpp"

namespace combu::wire {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

bool is_watch(const Asked& asked) {
  return asked.target.find("watch=1") != std::string::npos;
}

std::vector<std::string> names_of(const std::vector<Observation>& observations) {
  std::vector<std::string> names;
  for (const Observation& one : observations) names.push_back(one.key.trial);
  return names;
}

TEST(KubernetesList, PagesAreReadToTheEnd) {
  ScriptedCluster cluster([](const Asked& asked) {
    return asked.target.find("continue=next") == std::string::npos
               ? whole(200, pod_list({stored_pod(running_status(), "a")}, "next"))
               : whole(200, pod_list({stored_pod(running_status(), "b")}));
  });
  EXPECT_THAT(names_of(cluster.engine().list({.run = RunId("run1")}, ListDetail::basic, {})),
              ElementsAre("a", "b"));
}

TEST(KubernetesList, AnExpiredPageBeginsTheListAgain) {
  std::atomic<int> lists = 0;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.target.find("continue=") != std::string::npos) {
      return lists == 1 ? failure(410, "the provided continue parameter is too old")
                        : whole(200, pod_list({stored_pod(running_status(), "b")}));
    }
    ++lists;
    return whole(200, pod_list({stored_pod(running_status(), "a")}, "next"));
  });
  EXPECT_THAT(names_of(cluster.engine().list({}, ListDetail::basic, {})), ElementsAre("a", "b"));
}

TEST(KubernetesList, AnEmptyListMayHaveNoItems) {
  ScriptedCluster cluster([](const Asked&) { return whole(200, R"({"metadata": {}, "items": null})"); });
  EXPECT_THAT(cluster.engine().list({}, ListDetail::basic, {}), testing::IsEmpty());
}

// ---- watch

// The changes that a watch reports, until `enough` of them have arrived or the watch fails.
struct Watched {
  std::vector<std::string> changes;  // "watching", or "TRIAL PHASE"
  std::optional<Error> error;
};
Watched watch(Engine& engine, std::size_t enough) {
  Watched watched;
  std::stop_source stop;
  watched.error = test::error_of([&] {
    engine.watch(
        {.run = RunId("run1")},
        [&](const Change& change) {
          const auto* seen = std::get_if<Observation>(&change);
          watched.changes.push_back(
              seen == nullptr ? "watching" : seen->key.trial + " " + std::string(to_string(seen->phase)));
          if (watched.changes.size() == enough) stop.request_stop();
        },
        stop.get_token());
  });
  return watched;
}

TEST(KubernetesWatch, ContinuesAfterARegularEndWithoutANewSubscription) {
  std::atomic<int> streams = 0;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (!is_watch(asked)) return whole(200, pod_list({}));
    if (++streams == 1)
      return ended(stream({watch_event("ADDED", stored_pod(running_status(), "a", "101")),
                           watch_event("BOOKMARK", {{"metadata", {{"resourceVersion", "150"}}}})},
                          Reply::Then::keep));
    return stream({watch_event("MODIFIED", stored_pod(ended_status(0), "a", "151"))}, Reply::Then::stall);
  });
  EXPECT_THAT(watch(cluster.engine(), 3).changes, ElementsAre("watching", "a running", "a ended"));
  EXPECT_THAT(cluster.server().lines().at(1), HasSubstr("resourceVersion=100"));
  EXPECT_THAT(cluster.server().lines().at(2), HasSubstr("resourceVersion=150"));
}

TEST(KubernetesWatch, AVersionThatIsTooOldMakesANewSubscription) {
  std::atomic<int> streams = 0;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (!is_watch(asked)) return whole(200, pod_list({}));
    const int number = ++streams;
    if (number == 1)  // one form: an event in a stream with status 200
      return ended(stream({watch_event("ERROR", {{"kind", "Status"}, {"code", 410}, {"message", "too old"}})},
                          Reply::Then::keep));
    if (number == 2) return failure(410, "too old resource version");  // the other form
    return stream({watch_event("ADDED", stored_pod(running_status()))}, Reply::Then::stall);
  });
  EXPECT_THAT(watch(cluster.engine(), 4).changes,
              ElementsAre("watching", "watching", "watching", "a running"));
}

TEST(KubernetesWatch, OtherErrorsAreUnavailable) {
  ScriptedCluster cluster([&](const Asked& asked) {
    if (!is_watch(asked)) return whole(200, pod_list({}));
    return ended(stream({watch_event("ERROR", {{"code", 500}, {"message", "etcdserver: leader changed"}})},
                        Reply::Then::keep));
  });
  const Watched watched = watch(cluster.engine(), 9);
  ASSERT_TRUE(watched.error);
  EXPECT_EQ(watched.error->kind(), ErrorKind::unavailable);
  EXPECT_THAT(watched.error->message(), HasSubstr("leader changed"));
}

TEST(KubernetesWatch, ASilentServerIsUnavailable) {
  ScriptedCluster cluster(
      [&](const Asked& asked) {
        return is_watch(asked) ? stream({}, Reply::Then::stall) : whole(200, pod_list({}));
      },
      {.watch_silence_max = Seconds{0.3}});
  const Watched watched = watch(cluster.engine(), 9);
  ASSERT_TRUE(watched.error);
  EXPECT_EQ(watched.error->kind(), ErrorKind::unavailable);
}

TEST(KubernetesWatch, TheEndOfAPodMayComeWithItsDeletion) {
  ScriptedCluster cluster([&](const Asked& asked) {
    if (!is_watch(asked)) return whole(200, pod_list({}));
    return stream({watch_event("DELETED", stored_pod(ended_status(0)))}, Reply::Then::stall);
  });
  EXPECT_THAT(watch(cluster.engine(), 3).changes, ElementsAre("watching", "a ended", "a gone"));
}

TEST(KubernetesWatch, ADisruptedPodThatVanishesIsLost) {
  json status = running_status();
  status["conditions"] = json::array({{{"type", "DisruptionTarget"},
                                       {"status", "True"},
                                       {"reason", "EvictionByEvictionAPI"},
                                       {"message", "Eviction API: evicting"}}});
  ScriptedCluster cluster([&](const Asked& asked) {
    if (!is_watch(asked)) return whole(200, pod_list({}));
    json pod = stored_pod(status);
    pod["metadata"]["deletionTimestamp"] = "2100-01-01T00:00:00Z";
    return stream({watch_event("DELETED", pod)}, Reply::Then::stall);
  });
  EXPECT_THAT(watch(cluster.engine(), 3).changes, ElementsAre("watching", "a ended", "a gone"));
}

TEST(KubernetesWatch, WarningsExplainAPodThatWaitsWithoutAReason) {
  const json creating = container_status("waiting", {{"reason", "ContainerCreating"}}, "Pending");
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.target.find("/events") != std::string::npos)
      return whole(200,
                   json{{"items", json::array({{{"type", "Warning"},
                                                {"reason", "FailedMount"},
                                                {"message", "configmap \"x\" not found"},
                                                {"involvedObject", {{"kind", "Pod"}, {"uid", "uid-a"}}}}})}}
                       .dump());
    if (!is_watch(asked)) return whole(200, pod_list({stored_pod(creating)}));
    return stream({watch_event("ADDED", stored_pod(creating))}, Reply::Then::stall);
  });
  std::vector<std::string> reasons;
  std::stop_source stop;
  cluster.engine().watch(
      {},
      [&](const Change& change) {
        if (const auto* seen = std::get_if<Observation>(&change))
          reasons.push_back(seen->placement.pending_reason);
        if (reasons.size() == 2) stop.request_stop();
      },
      stop.get_token());
  EXPECT_THAT(reasons.back(), HasSubstr("configmap \"x\" not found"));
  const auto listed = cluster.engine().list({}, ListDetail::basic, {});
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_THAT(listed[0].placement.pending_reason, HasSubstr("configmap \"x\" not found"));
}

// ---- logs

std::string log_of(Engine& engine, const LogOptions& options) {
  std::string text;
  engine.logs(cluster_key(), options, [&](const LogPiece& piece) { text += piece.text; }, {});
  return text;
}

TEST(KubernetesLogs, EarlierPiecesOfTheSameSecondAreLeftOut) {
  ScriptedCluster cluster([](const Asked&) {
    return whole(200, "2026-01-02T03:04:05.1Z one\n2026-01-02T03:04:05.6Z two\n2026-01-02T03:04:06Z three");
  });
  EXPECT_EQ(log_of(cluster.engine(), {.since = parse_timestamp("2026-01-02T03:04:05.5Z"), .timed = true}),
            "two\nthree");
  EXPECT_THAT(cluster.server().lines().at(0), HasSubstr("sinceTime=2026-01-02T03%3A04%3A05Z"));
}

TEST(KubernetesLogs, AContainerThatDoesNotRunYetHasNoLog) {
  ScriptedCluster cluster([](const Asked&) {
    return failure(400, "container \"main\" in pod \"a-run1-1\" is waiting to start: ContainerCreating");
  });
  EXPECT_EQ(log_of(cluster.engine(), {}), "");
}

TEST(KubernetesLogs, ALogThatTheNodeHasLostIsAnError) {
  ScriptedCluster cluster(
      [](const Asked&) { return whole(200, "unable to retrieve container logs for containerd://1234"); });
  const auto error = test::error_of([&] { (void)log_of(cluster.engine(), {.timed = true}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
}

TEST(KubernetesLogs, AnAbsentAttemptIsNotFound) {
  ScriptedCluster cluster([](const Asked&) { return failure(404, "pods \"a-run1-1\" not found"); });
  const auto error = test::error_of([&] { (void)log_of(cluster.engine(), {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::not_found);
  EXPECT_EQ(error->subject(), "a");
}

// ---- release

TEST(KubernetesRelease, AWholeRunIsDeletedInPagesAndThenItsOtherObjects) {
  std::atomic<int> deletions = 0;
  ScriptedCluster cluster([&](const Asked& asked) {
    const bool concerns_pods = asked.target.find("/pods") != std::string::npos;
    if (asked.method == "DELETE" && concerns_pods)
      return whole(200, ++deletions == 1 ? R"({"metadata": {"continue": "x"}})" : "{}");
    if (asked.method == "DELETE") return whole(200, "{}");
    if (concerns_pods)
      return whole(200, deletions == 0 ? pod_list({stored_pod(running_status())}) : pod_list({}));
    const bool is_anchor = asked.target.find("/configmaps") != std::string::npos;
    return whole(200,
                 is_anchor
                     ? R"({"items": [{"metadata": {"name": "combu-run1", "labels": {"combu.run": "run1"}}}]})"
                     : R"({"items": []})");
  });
  const Released released = cluster.engine().release({.run = RunId("run1")}, {}, {});
  EXPECT_EQ(released.attempts, 1U);
  EXPECT_EQ(deletions, 2);
  EXPECT_THAT(cluster.server().lines(),
              testing::Contains("DELETE /api/v1/namespaces/ns/configmaps/combu-run1"));
}

TEST(KubernetesRelease, KeptAttemptsKeepTheirRun) {
  std::atomic<bool> is_deleted = false;
  ScriptedCluster cluster([&](const Asked& asked) {
    const bool concerns_pods = asked.target.find("/pods") != std::string::npos;
    if (asked.method == "DELETE") {
      is_deleted = true;
      return whole(200, "{}");
    }
    if (!concerns_pods)
      return whole(200,
                   R"({"items": [{"metadata": {"name": "combu-run1", "labels": {"combu.run": "run1"}}}]})");
    std::vector<json> pods{stored_pod(ended_status(0), "kept")};
    if (!is_deleted) pods.push_back(stored_pod(running_status(), "a"));
    return whole(200, pod_list(pods));
  });
  const ReleaseCallbacks keeping{
      .found = [](const std::vector<Observation>&) { return std::set<Key>{cluster_key("kept")}; }};
  EXPECT_EQ(cluster.engine().release({.run = RunId("run1")}, keeping, {}).attempts, 1U);
  std::vector<std::string> deleted;
  for (const std::string& line : cluster.server().lines())
    if (line.starts_with("DELETE")) deleted.push_back(line);
  EXPECT_THAT(deleted, ElementsAre("DELETE /api/v1/namespaces/ns/pods/a-run1-1"));
}

}  // namespace
}  // namespace combu::wire
