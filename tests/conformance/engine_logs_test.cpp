// logs().

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conformance/engine_suite.hpp"

namespace combu::conformance {
namespace {

TEST_P(HostSuite, LogsContainBothStreams) {
  const Run run = ready("logs", {subject().says("logs-a", {"one", "two", "three"}, {"oops"})});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  watcher.wait_for("logs-a", Phase::ended);
  EXPECT_EQ(logs_of(run, "logs-a", {}, LogStream::out), "one\ntwo\nthree\n");
  EXPECT_EQ(logs_of(run, "logs-a", {}, LogStream::err), "oops\n");
  LogOptions follow;
  follow.follow = true;  // ends with the attempt
  EXPECT_EQ(logs_of(run, "logs-a", follow, LogStream::out), "one\ntwo\nthree\n");
}

TEST_P(EngineSuite, LogsCanBeLimitedToTheLastLines) {
  const Run run = ready("tail", {subject().says("tail-a", {"one", "two", "three"}, {})});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  watcher.wait_for("tail-a", Phase::ended);
  LogOptions options;
  options.tail = 2;
  EXPECT_EQ(logs_of(run, "tail-a", options, LogStream::out), "two\nthree\n");
  options.tail = 0;
  EXPECT_EQ(logs_of(run, "tail-a", options, LogStream::out), "");
  LogOptions later;
  later.since = std::chrono::system_clock::now() + std::chrono::hours(24 * 365);
  EXPECT_EQ(logs_of(run, "tail-a", later, LogStream::out), "");
}

TEST_P(EngineSuite, TimedLogsCanBeReadFromAMomentOn) {
  const Run run = ready("timed", {subject().says("timed-a", {"one", "two", "three"}, {})});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  watcher.wait_for("timed-a", Phase::ended);
  std::vector<std::pair<Instant, std::string>> all;
  const auto take = [&](auto& pieces) {
    return [&pieces](const LogPiece& piece) { pieces.emplace_back(piece.at, piece.text); };
  };
  LogOptions options{.timed = true};
  engine().logs(key_of(run, "timed-a"), options, take(all), {});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].second, "one\n");
  EXPECT_GT(all[0].first, Instant{});
  EXPECT_LE(all[0].first, all[2].first);
  // Pieces of exactly that moment are included.
  options.since = all[1].first;
  std::vector<std::pair<Instant, std::string>> later;
  engine().logs(key_of(run, "timed-a"), options, take(later), {});
  ASSERT_GE(later.size(), 2U);
  EXPECT_TRUE(std::ranges::equal(later, std::span(all).last(later.size())));
}

TEST_P(EngineSuite, LogsOfAnAbsentAttemptAreNotFound) {
  const Run run = described("nobody", {});
  EXPECT_EQ(kind_of([&] { logs_of(run, "nobody-a", {}, LogStream::out); }), ErrorKind::not_found);
}

}  // namespace
}  // namespace combu::conformance
