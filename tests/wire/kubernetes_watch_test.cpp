// KubernetesEngine: list(), watch(), logs() and release() with a scripted API server.

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "combu/text.hpp"
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
    const json too_old = {{"kind", "Status"}, {"code", 410}, {"message", "too old"}};
    if (number == 1)  // one form: an event in a stream with status 200
      return ended(stream({watch_event("ERROR", too_old)}, Reply::Then::keep));
    if (number == 2)
      return ended(stream({watch_event("ADDED", stored_pod(running_status()))}, Reply::Then::keep));
    if (number == 3) return failure(410, "too old resource version");  // the other form
    return stream({watch_event("MODIFIED", stored_pod(ended_status(0)))}, Reply::Then::stall);
  });
  EXPECT_THAT(watch(cluster.engine(), 5).changes,
              ElementsAre("watching", "watching", "a running", "watching", "a ended"));
}

// Without an error, combu would ask again without a pause.
TEST(KubernetesWatch, AServerThatEndsEachStreamAtOnceIsUnavailable) {
  const std::vector<Reply> replies{ended(stream({}, Reply::Then::keep)), failure(410, "too old")};
  for (const Reply& reply : replies) {
    std::atomic<int> streams = 0;
    ScriptedCluster cluster([&](const Asked& asked) {
      if (!is_watch(asked)) return whole(200, pod_list({}));
      return ++streams > 9 ? hang_up() : reply;
    });
    const Watched watched = watch(cluster.engine(), 99);
    ASSERT_TRUE(watched.error);
    EXPECT_EQ(watched.error->kind(), ErrorKind::unavailable);
    EXPECT_LE(streams, 2);
  }
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

// Returns the Pod of a running attempt that the taint manager has deleted. `until`: the end of the grace
// period.
json evicted_pod(const std::string& trial, Instant until) {
  json status = running_status();
  status["conditions"] = json::array({{{"type", "DisruptionTarget"},
                                       {"status", "True"},
                                       {"reason", "DeletionByTaintManager"},
                                       {"message", "Taint manager: deleting due to NoExecute taint"}}});
  json pod = stored_pod(status, trial);
  pod["metadata"]["deletionTimestamp"] = rfc3339(until);
  return pod;
}

TEST(KubernetesWatch, ADisruptedPodThatVanishesIsLost) {
  ScriptedCluster cluster([&](const Asked& asked) {
    if (!is_watch(asked)) return whole(200, pod_list({}));
    const Instant later = real_clock().now() + std::chrono::hours{1};
    return stream({watch_event("DELETED", evicted_pod("a", later))}, Reply::Then::stall);
  });
  EXPECT_THAT(watch(cluster.engine(), 3).changes, ElementsAre("watching", "a ended", "a gone"));
}

// ---- Deletions

// A cluster whose watch reports that the Pod of a running attempt is removed. `anchor`: the answer to a
// request for the run's anchor.
ScriptedDaemon::Handler removal(const Reply& anchor) {
  return [anchor](const Asked& asked) {
    if (asked.target.find("/configmaps/combu-run1") != std::string::npos) return anchor;
    if (!is_watch(asked)) return whole(200, pod_list({}));
    return stream({watch_event("DELETED", stored_pod(running_status()))}, Reply::Then::stall);
  };
}

// Returns the observation of the attempt's end.
Observation end_of(Engine& engine) {
  std::stop_source stop;
  Observation end;
  engine.watch(
      {.run = RunId("run1")},
      [&](const Change& change) {
        const auto* seen = std::get_if<Observation>(&change);
        if (seen == nullptr || seen->phase != Phase::ended) return;
        end = *seen;
        stop.request_stop();
      },
      stop.get_token());
  return end;
}

TEST(KubernetesWatch, APodThatSomebodyDeletesIsLost) {
  ScriptedCluster cluster(removal(whole(200, R"({"metadata": {"name": "combu-run1"}})")));
  const Observation end = end_of(cluster.engine());
  EXPECT_EQ(end.lost, "the pod was deleted, but not by combu");
}

// `kill` of another process marks the anchor first, and deletes it last.
TEST(KubernetesWatch, APodOfARunThatKillRemovesIsStopped) {
  const std::vector<Reply> anchors{
      whole(200, R"({"metadata": {"annotations": {"combu.stopped": "2026-01-01T12:00:05Z"}}})"),
      whole(200, R"({"metadata": {"deletionTimestamp": "2026-01-01T12:00:05Z"}})"), failure(404, "not found"),
      failure(503, "the server cannot tell")};
  for (const Reply& anchor : anchors) {
    ScriptedCluster cluster(removal(anchor));
    const Observation end = end_of(cluster.engine());
    EXPECT_EQ(end.lost, "");
    EXPECT_TRUE(end.stopped);
    EXPECT_EQ(end.status, "the pod was deleted");
  }
}

// ---- Clocks

std::string http_date(Instant at) {
  return fmt::format("Date: {:%a, %d %b %Y %H:%M:%S} GMT\r\n",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(at)));
}

// Returns the Pod of an attempt that ran from 40 to 10 minutes before `now`, and was created 50 minutes
// before `now`.
json pod_of_half_an_hour(Instant now) {
  using std::chrono::minutes;
  json status = ended_status(0);
  json& terminated = status["containerStatuses"][0]["state"]["terminated"];
  terminated["startedAt"] = rfc3339(now - minutes{40});
  terminated["finishedAt"] = rfc3339(now - minutes{10});
  json pod = stored_pod(status);
  pod["metadata"]["creationTimestamp"] = rfc3339(now - minutes{50});
  return pod;
}

TEST(KubernetesClock, TimesOfAServerWithAnotherClockBecomeTimesOfThisMachine) {
  using std::chrono::minutes;
  using std::chrono::seconds;
  for (const minutes ahead : {minutes{-60}, minutes{0}, minutes{60}}) {
    const Instant now = real_clock().now();
    ScriptedCluster cluster([&](const Asked&) {
      return whole(200, pod_list({pod_of_half_an_hour(now + ahead)}), http_date(real_clock().now() + ahead));
    });
    const auto listed = cluster.engine().list({}, ListDetail::basic, {});
    ASSERT_EQ(listed.size(), 1U);
    const auto is_near = [](Instant moment, Instant expected) {
      return std::chrono::abs(moment - expected) < seconds{60};
    };
    EXPECT_TRUE(is_near(listed[0].created_at, now - minutes{50})) << ahead;
    EXPECT_TRUE(is_near(listed[0].ran_at.value(), now - minutes{40})) << ahead;
    EXPECT_TRUE(is_near(listed[0].ended_at.value(), now - minutes{10})) << ahead;
    EXPECT_EQ(*listed[0].ended_at - *listed[0].ran_at, minutes{30}) << ahead;
  }
}

// Otherwise the trial would be started again while the container still runs.
TEST(KubernetesClock, ANodeIsNotSilentBecauseClocksDiffer) {
  using std::chrono::seconds;
  for (const seconds ahead : {seconds{-3600}, seconds{0}, seconds{3600}}) {
    ScriptedCluster cluster([&](const Asked&) {
      const Instant now = real_clock().now() + ahead;
      json evicted = evicted_pod("evicted", now + seconds{20});
      json silent = evicted_pod("silent", now - seconds{40});
      return whole(200, pod_list({evicted, silent}), http_date(now));
    });
    const auto listed = cluster.engine().list({}, ListDetail::basic, {});
    ASSERT_EQ(listed.size(), 2U);
    EXPECT_EQ(listed[0].phase, Phase::running) << ahead;
    EXPECT_EQ(listed[1].phase, Phase::ended) << ahead;
    EXPECT_THAT(listed[1].lost, HasSubstr("the node n1 does not answer")) << ahead;
  }
}

// ---- Silent nodes

// The objects are those that a control plane sends: the node controller taints the node, and the taint
// manager deletes the Pod. No kubelet ends the Pod.
TEST(KubernetesWatch, APodOnASilentNodeIsLostHalfAMinuteAfterItsDeletion) {
  json unready = running_status();
  unready["conditions"] = json::array({{{"type", "Ready"}, {"status", "False"}}});
  const Instant deleted_at = real_clock().now() - std::chrono::seconds{29};
  ScriptedCluster cluster([&](const Asked& asked) {
    if (!is_watch(asked)) return whole(200, pod_list({}));
    return stream(
        {watch_event("ADDED", stored_pod(running_status())), watch_event("MODIFIED", stored_pod(unready)),
         watch_event("MODIFIED", evicted_pod("a", deleted_at))},
        Reply::Then::stall);
  });
  std::vector<std::string> seen;
  std::stop_source stop;
  cluster.engine().watch(
      {},
      [&](const Change& change) {
        const auto* pod = std::get_if<Observation>(&change);
        if (pod == nullptr) return;
        seen.push_back(std::string(to_string(pod->phase)) + (pod->lost.empty() ? "" : ", lost"));
        if (pod->phase == Phase::ended) stop.request_stop();
      },
      stop.get_token());
  EXPECT_THAT(seen, ElementsAre("running", "running", "running", "ended, lost"));
}

// Each subscription begins with a list. Of the trial `b`, no change arrives.
TEST(KubernetesWatch, ANewSubscriptionKnowsThePodsOnSilentNodesAndNoOthers) {
  const Instant deleted_at = real_clock().now() - std::chrono::seconds{29};
  std::atomic<int> streams = 0;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (!is_watch(asked)) return whole(200, pod_list({evicted_pod(streams == 0 ? "a" : "b", deleted_at)}));
    return ++streams == 1 ? failure(410, "too old") : stream({}, Reply::Then::stall);
  });
  EXPECT_THAT(watch(cluster.engine(), 3).changes, ElementsAre("watching", "watching", "b ended"));
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

// Each way in which Events cannot be read.
std::vector<Reply> failed_events() {
  return {failure(403, "events is forbidden"), failure(500, "etcdserver: request timed out"), stall(),
          whole(200, "no JSON")};
}

TEST(KubernetesList, EventsThatCannotBeReadOnlyLeaveTheReasonUnknown) {
  for (const Reply& events : failed_events()) {
    ScriptedCluster cluster(
        [&](const Asked& asked) {
          return asked.target.find("/events") != std::string::npos
                     ? events
                     : whole(200, pod_list({stored_pod(pending_status())}));
        },
        {.events_max = Seconds{0.1}});
    EXPECT_THAT(names_of(cluster.engine().list({}, ListDetail::basic, {})), ElementsAre("a"));
  }
}

TEST(KubernetesWatch, EventsThatCannotBeReadDoNotEndTheWatch) {
  for (const Reply& events : failed_events()) {
    std::atomic<bool> is_asked = false;
    ScriptedCluster cluster(
        [&](const Asked& asked) {
          if (asked.target.find("/events") != std::string::npos) {
            is_asked = true;
            is_asked.notify_all();
            return events;
          }
          if (!is_watch(asked)) return whole(200, pod_list({}));
          Reply reply = stream({watch_event("ADDED", stored_pod(pending_status()))}, Reply::Then::stall);
          reply.more = [&, is_sent = false]() mutable -> std::string {
            if (std::exchange(is_sent, true)) return "";
            is_asked.wait(false);
            return chunk(watch_event("MODIFIED", stored_pod(running_status())));
          };
          return reply;
        },
        {.events_max = Seconds{0.1}});
    const Watched watched = watch(cluster.engine(), 3);
    is_asked = true;  // so that the server can end
    is_asked.notify_all();
    EXPECT_FALSE(watched.error);
    EXPECT_THAT(watched.changes, ElementsAre("watching", "a pending", "a running"));
  }
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

TEST(KubernetesLogs, AContainerThatHasNotRunHasNoLog) {
  for (const std::string state : {"waiting to start: ContainerCreating", "waiting to start - no logs yet",
                                  "terminated", "not available"}) {
    ScriptedCluster cluster(
        [&](const Asked&) { return failure(400, "container \"main\" in pod \"a-run1-1\" is " + state); });
    EXPECT_EQ(log_of(cluster.engine(), {}), "");
  }
}

// Otherwise the log would count as read, and the Pod would be deleted.
TEST(KubernetesLogs, ALogThatTheNodeCannotReadIsUnavailable) {
  ScriptedCluster cluster([](const Asked&) {
    return failure(400, "failed to try resolving symlinks in path \"/var/log/pods/a/main/0.log\"");
  });
  const auto error = test::error_of([&] { (void)log_of(cluster.engine(), {.timed = true}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
  EXPECT_THAT(error->message(), HasSubstr("symlinks"));
}

constexpr const char* k_lost_log = "unable to retrieve container logs for containerd://1234";

TEST(KubernetesLogs, OnlyTheFirstBytesCanSayThatTheNodeHasLostTheLog) {
  ScriptedCluster cluster([](const Asked&) {
    return ended(stream({"unable", " to say\n", k_lost_log}, Reply::Then::keep));
  });
  EXPECT_EQ(log_of(cluster.engine(), {}), "unable to say\n" + std::string(k_lost_log));
  ScriptedCluster brief([](const Asked&) { return whole(200, "unable"); });
  EXPECT_EQ(log_of(brief.engine(), {}), "unable");
  ScriptedCluster split([](const Asked&) {
    return ended(stream({"unable to ret", "rieve container logs for containerd://1234"}, Reply::Then::keep));
  });
  const auto error = test::error_of([&] { (void)log_of(split.engine(), {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
}

TEST(KubernetesLogs, ALogThatTheNodeHasLostIsAnError) {
  ScriptedCluster cluster([](const Asked&) { return whole(200, k_lost_log); });
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

bool concerns_pods(const Asked& asked) {
  return asked.target.find("/pods") != std::string::npos;
}

// Returns the requests that change objects.
std::vector<std::string> changes_of(const ScriptedDaemon& server) {
  std::vector<std::string> lines = server.lines();
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("GET "); });
  return lines;
}

// The first page of Pods is on silent nodes, for example, so that these Pods are deleted, but do not go.
TEST(KubernetesRelease, AWholeRunIsDeletedInPagesAndThenItsOtherObjects) {
  std::atomic<int> deletions = 0;
  std::atomic<bool> is_forgotten = true;  // the server forgets the second page once
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.method == "DELETE" && concerns_pods(asked)) {
      const bool is_first_page = asked.target.find("continue=next") == std::string::npos;
      if (!is_first_page && is_forgotten.exchange(false)) return failure(410, "too old");
      return whole(200, ++deletions < 9 && is_first_page ? R"({"metadata": {"continue": "next"}})" : "{}");
    }
    if (asked.method == "DELETE") return whole(200, "{}");
    if (concerns_pods(asked))
      return whole(200, deletions == 0 ? pod_list({stored_pod(running_status())}) : pod_list({}));
    const bool is_anchor = asked.target.find("/configmaps") != std::string::npos;
    return whole(200,
                 is_anchor
                     ? R"({"items": [{"metadata": {"name": "combu-run1", "labels": {"combu.run": "run1"}}}]})"
                     : R"({"items": []})");
  });
  const Released released = cluster.engine().release({.run = RunId("run1")}, {}, {});
  EXPECT_EQ(released.attempts, 1U);
  EXPECT_EQ(deletions, 3);  // the first page, the first page again, the second page
  EXPECT_THAT(cluster.server().lines(),
              testing::Contains("DELETE /api/v1/namespaces/ns/configmaps/combu-run1"));
  // The mark tells a process that watches the run who deletes the Pods.
  EXPECT_EQ(changes_of(cluster.server()).front(), "PATCH /api/v1/namespaces/ns/configmaps/combu-run1");
}

// Earlier versions did not need the right to patch ConfigMaps.
TEST(KubernetesRelease, WithoutTheRightToPatchTheAnchorEachPodIsMarked) {
  std::atomic<bool> is_deleted = false;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.method == "DELETE") is_deleted = true;
    if (asked.method == "PATCH" && !concerns_pods(asked)) return failure(403, "configmaps is forbidden");
    if (asked.method != "GET") return whole(200, "{}");
    if (!concerns_pods(asked)) return whole(200, R"({"items": []})");
    return whole(200, is_deleted ? pod_list({}) : pod_list({stored_pod(running_status())}));
  });
  EXPECT_EQ(cluster.engine().release({.run = RunId("run1")}, {}, {}).attempts, 1U);
  EXPECT_THAT(cluster.server().lines(), testing::Contains("PATCH /api/v1/namespaces/ns/pods/a-run1-1"));
}

TEST(KubernetesRelease, EachPodOfChosenTrialsIsMarkedBeforeItsDeletion) {
  std::atomic<bool> is_deleted = false;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.method == "DELETE") is_deleted = true;
    if (asked.method != "GET") return whole(200, "{}");
    return whole(200, is_deleted ? pod_list({}) : pod_list({stored_pod(running_status())}));
  });
  EXPECT_EQ(cluster.engine().release({.run = RunId("run1"), .trials = {"a"}}, {}, {}).attempts, 1U);
  EXPECT_THAT(changes_of(cluster.server()), ElementsAre("PATCH /api/v1/namespaces/ns/pods/a-run1-1",
                                                        "DELETE /api/v1/namespaces/ns/pods/a-run1-1"));
}

// Another run of the experiment may begin after the listing.
TEST(KubernetesRelease, OnlyObjectsOfTheRunsThatWereListedAreDeleted) {
  std::atomic<bool> is_deleted = false;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.method == "DELETE") is_deleted = true;
    if (asked.method != "DELETE" && !concerns_pods(asked) && is_deleted)
      return whole(200,
                   R"({"items": [{"metadata": {"name": "combu-run2", "labels": {"combu.run": "run2"}}}]})");
    if (asked.method == "DELETE" || !concerns_pods(asked)) return whole(200, R"({"items": []})");
    return whole(200, is_deleted ? pod_list({}) : pod_list({stored_pod(running_status())}));
  });
  EXPECT_EQ(cluster.engine().release({.experiment = "exp"}, {}, {}).attempts, 1U);
  for (const Asked& asked : cluster.server().asked()) {
    if (asked.method != "DELETE") continue;
    EXPECT_THAT(asked.target, HasSubstr("combu.run%3Drun1"));
  }
  EXPECT_TRUE(is_deleted);
}

TEST(KubernetesRelease, KeptAttemptsKeepTheirRun) {
  std::atomic<bool> is_deleted = false;
  ScriptedCluster cluster([&](const Asked& asked) {
    if (asked.method == "DELETE") {
      is_deleted = true;
      return whole(200, "{}");
    }
    if (!concerns_pods(asked))
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
