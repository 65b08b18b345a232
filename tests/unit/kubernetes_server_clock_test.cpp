// The clock of an API server, as its answers show it.

#include <gtest/gtest.h>

#include <chrono>

#include "kubernetes/api_client.hpp"
#include "kubernetes/server_clock.hpp"
#include "kubernetes_fixture.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Instant k_date = *parse_timestamp("2026-01-01T12:00:00Z");

TEST(ServerClockTest, WithoutAnAnswerItIsThisMachinesClock) {
  const ServerClock clock;
  EXPECT_EQ(clock.at(k_date), k_date);
  EXPECT_EQ(clock.lead(), seconds{0});
}

TEST(ServerClockTest, TheAnswerThatArrivesFirstInASecondIsTheBest) {
  ServerClock clock;
  clock.heard(k_date, k_date + milliseconds{-60'000 + 900});
  EXPECT_EQ(clock.lead(), milliseconds{59'100});
  clock.heard(k_date + seconds{1}, k_date + milliseconds{-60'000 + 1'100});
  EXPECT_EQ(clock.lead(), milliseconds{59'900});
  clock.heard(k_date + seconds{1}, k_date + milliseconds{-60'000 + 4'000});  // a slow answer
  EXPECT_EQ(clock.lead(), milliseconds{59'900});
  EXPECT_EQ(clock.at(k_date), k_date + milliseconds{59'900});
}

TEST(ServerClockTest, ASmallDifferenceIsNone) {
  ServerClock clock;
  clock.heard(k_date, k_date + seconds{4});
  EXPECT_EQ(clock.lead(), seconds{0});
  EXPECT_EQ(clock.at(k_date + seconds{4}), k_date);
}

TEST(ServerClockTest, AClockThatIsSetCountsFromThenOn) {
  ServerClock clock;
  clock.heard(k_date, k_date);
  clock.heard(k_date, k_date + seconds{3600});
  EXPECT_EQ(clock.lead(), seconds{-3600});
  clock.heard(k_date, k_date);
  EXPECT_EQ(clock.lead(), seconds{0});
}

// A client with the clock of the test, which says 2026-01-01T12:00:00Z, asks a server that sends `header`.
Instant::duration lead_by(const std::string& header) {
  wire::ScriptedDaemon daemon([&](const wire::Asked&) { return wire::whole(200, "{}", header); },
                              wire::ScriptedDaemon::Kind::tcp);
  StillClock clock;
  ApiClient client(access_to("http" + daemon.address().substr(daemon.address().find(':'))), {}, clock);
  (void)client.send({.target = "/x"}, {});
  return client.server_clock().lead();
}

TEST(ServerClockTest, AnswersNameTheServersTime) {
  EXPECT_EQ(lead_by("Date: Thu, 01 Jan 2026 13:00:00 GMT\r\n"), std::chrono::hours{1});
  EXPECT_EQ(lead_by("date: Thu, 01 Jan 2026 11:00:00 GMT\r\n"), std::chrono::hours{-1});
  for (const std::string header : {"", "Date:\r\n", "Date: yesterday\r\n", "Date: -1\r\n"})
    EXPECT_EQ(lead_by(header), seconds{0}) << header;
}

}  // namespace
}  // namespace combu::kubernetes
