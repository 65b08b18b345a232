// watch().

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "wire/docker_fixture.hpp"

namespace combu::wire {
namespace {

using testing::ElementsAre;

TEST(Watch, JoinsEventsThatArriveInPiecesAndReportsTheBreak) {
  const std::string die = event("die", "3");
  const std::string start = event("start");
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.target.find("/containers/") != std::string::npos)
      return whole(200, inspected("exited", example_labels()));
    return stream({start.substr(0, 10), start.substr(10) + die.substr(0, 30),
                   die.substr(30) + event("destroy"), event("rename"), event("health_status: healthy")},
                  Reply::Then::close);
  }));
  std::vector<std::string> seen;
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const auto error = error_of([&] {
    engine->watch({},
                  [&](const Change& change) {
                    const auto* observation = std::get_if<Observation>(&change);
                    if (observation == nullptr) {
                      seen.emplace_back("watching");
                      return;
                    }
                    EXPECT_EQ(observation->key, (Key{RunId("run1"), "a", 1}));
                    EXPECT_EQ(observation->experiment, "exp");
                    EXPECT_EQ(observation->id, k_id);
                    seen.push_back(std::string(to_string(observation->phase)) + " " +
                                   std::string(to_string(observation->health)) + " " +
                                   std::to_string(observation->exit_code.value_or(-1)));
                  },
                  {});
  });
  EXPECT_THAT(
      seen, ElementsAre("watching", "running none -1", "ended none 3", "gone none -1", "running healthy -1"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
}

TEST(Watch, ReportsWhyAnAttemptEnded) {
  struct Case {
    std::string signal;  // the signal that was sent; empty: none
    std::string exit_code;
    bool oom_killed;
    bool oom;
    bool stopped;
  };
  for (const Case& one : {Case{"", "137", true, true, false}, Case{"15", "143", false, false, true},
                          Case{"15", "137", false, false, true}, Case{"1", "3", false, false, false},
                          Case{"", "137", false, false, false}}) {
    ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
      json facts = json::parse(inspected("exited", example_labels()));
      facts["State"]["OOMKilled"] = one.oom_killed;
      if (asked.target.find("/containers/") != std::string::npos) return whole(200, facts.dump());
      std::string events = event("start");
      if (!one.signal.empty()) events += event("kill", "", one.signal);
      return stream({events + event("die", one.exit_code)}, Reply::Then::close);
    }));
    std::vector<Observation> ends;
    const auto error = error_of([&] {
      open_at(daemon.address())
          ->watch({},
                  [&](const Change& change) {
                    const auto* observation = std::get_if<Observation>(&change);
                    if (observation != nullptr && observation->phase == Phase::ended)
                      ends.push_back(*observation);
                  },
                  {});
    });
    EXPECT_TRUE(error);
    ASSERT_EQ(ends.size(), 1U) << one.exit_code;
    EXPECT_EQ(ends[0].oom, one.oom) << one.exit_code;
    EXPECT_EQ(ends[0].stopped, one.stopped) << one.exit_code;
  }
}

TEST(Watch, IgnoresAContainerWithInheritedLabels) {
  ScriptedDaemon daemon(after_ping([&](const Asked&) {
    std::string copy = event("start");
    copy.replace(copy.find("\"name\":\"a\""), 10, "\"name\":\"b\"");
    return stream({copy}, Reply::Then::close);
  }));
  std::size_t reported = 0;
  const auto error = error_of([&] {
    open_at(daemon.address())
        ->watch({},
                [&](const Change& change) {
                  if (std::holds_alternative<Observation>(change)) ++reported;
                },
                {});
  });
  EXPECT_TRUE(error);
  EXPECT_EQ(reported, 0U);
}

TEST(Watch, IgnoresEarlierEventsOfARemovedContainer) {
  ScriptedDaemon daemon([&](const Asked& asked) {
    if (asked.target == "/_ping") return ping();
    if (asked.target.find("&until=") != std::string::npos) return whole(200, event("destroy"));
    return stream({event("start"), event("die", "3"), event("destroy")}, Reply::Then::close);
  });
  std::vector<Phase> seen;
  const auto error = error_of([&] {
    open_at(daemon.address())
        ->watch({},
                [&](const Change& change) {
                  if (const auto* observation = std::get_if<Observation>(&change))
                    seen.push_back(observation->phase);
                },
                {});
  });
  EXPECT_TRUE(error);
  EXPECT_THAT(seen, ElementsAre(Phase::gone));
}

TEST(Watch, TheEndOfTheStreamIsABreak) {
  ScriptedDaemon daemon(
      after_ping([](const Asked&) { return ended(stream({event("start")}, Reply::Then::keep)); }));
  const auto error = error_of([&] { open_at(daemon.address())->watch({}, [](const Change&) {}, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
}

}  // namespace
}  // namespace combu::wire
