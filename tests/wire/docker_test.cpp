// The Docker room with a scripted daemon: every function of Engine, each fault, and how the caller sees the
// fault.

#include "combu/docker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wire/docker_fixture.hpp"

namespace combu::wire {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Verb {
  std::string name;
  std::function<void(Engine&, std::stop_token)> call;
};

std::vector<Verb> all_verbs() {
  return {
      {"facts", [](Engine& engine, std::stop_token stop) { (void)engine.facts(stop); }},
      {"check", [](Engine& engine, std::stop_token stop) { (void)engine.check(example_run(), stop); }},
      {"prepare",
       [](Engine& engine, std::stop_token stop) {
         (void)engine.prepare(
             example_run(), [](const Preparation&) {}, stop);
       }},
      {"start",
       [](Engine& engine, std::stop_token stop) {
         const combu::Run run = example_run();
         engine.start(run, run.experiment.trials[0], 1, stop);
       }},
      {"stop",
       [](Engine& engine, std::stop_token stop) {
         engine.stop({RunId("run1"), "a", 1}, Seconds{0}, stop);
       }},
      {"list",
       [](Engine& engine, std::stop_token stop) { (void)engine.list({}, ListDetail::consistent, stop); }},
      {"watch",
       [](Engine& engine, std::stop_token stop) {
         engine.watch(
             {}, [](const Change&) {}, stop);
       }},
      {"logs",
       [](Engine& engine, std::stop_token stop) {
         engine.logs(
             {RunId("run1"), "a", 1}, {}, [](const LogPiece&) {}, stop);
       }},
      {"release", [](Engine& engine, std::stop_token stop) { engine.release({}, {}, stop); }},
  };
}

class EveryVerb : public testing::TestWithParam<Verb> {
 protected:
  static std::optional<ErrorKind> kind_at(const std::string& address, Seconds silence_max = Seconds{20}) {
    const std::unique_ptr<Engine> engine = open_at(address, silence_max);
    const std::optional<Error> error = error_of([&] { GetParam().call(*engine, {}); });
    return error ? std::optional(error->kind()) : std::nullopt;
  }
};
INSTANTIATE_TEST_SUITE_P(, EveryVerb, testing::ValuesIn(all_verbs()),
                         [](const testing::TestParamInfo<Verb>& verb) { return verb.param.name; });

TEST_P(EveryVerb, AnAbsentSocketIsUnavailable) {
  EXPECT_EQ(kind_at("unix:///nonexistent/docker.sock"), ErrorKind::unavailable);
}

TEST_P(EveryVerb, ARefusedConnectionIsUnavailable) {
  EXPECT_EQ(kind_at("tcp://127.0.0.1:1"), ErrorKind::unavailable);
}

TEST_P(EveryVerb, AnAnswerThatIsNotHttpIsCorrupt) {
  ScriptedDaemon daemon([](const Asked&) { return cut("220 mail.example.com ESMTP\r\n"); });
  EXPECT_EQ(kind_at(daemon.address()), ErrorKind::corrupt);
}

TEST_P(EveryVerb, AnAnswerThatIsNotDockersIsCorrupt) {
  ScriptedDaemon daemon([](const Asked&) { return whole(200, "<html>welcome</html>"); });
  EXPECT_EQ(kind_at(daemon.address()), ErrorKind::corrupt);
}

TEST_P(EveryVerb, ASilentEngineIsATimeout) {
  ScriptedDaemon daemon([](const Asked&) { return stall(); });
  EXPECT_EQ(kind_at(daemon.address(), Seconds{0.05}), ErrorKind::timeout);
}

TEST_P(EveryVerb, AnAnswerThatIsCutOffIsUnavailable) {
  for (const Reply& reply : {hang_up(), cut("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{\"Id\":"),
                             cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[{\"Id\r\n")}) {
    ScriptedDaemon daemon(after_ping([&](const Asked&) { return reply; }));
    EXPECT_EQ(kind_at(daemon.address()), ErrorKind::unavailable);
  }
}

TEST_P(EveryVerb, AStatus500IsRefusedWithTheDaemonsMessage) {
  if (GetParam().name == "prepare") return;  // prepare() returns refusals; other tests cover them
  ScriptedDaemon daemon(after_ping([](const Asked&) { return whole(500, message("the disk\n is full")); }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const std::optional<Error> error = error_of([&] { GetParam().call(*engine, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
  EXPECT_EQ(error->message(), "the disk is full");
}

TEST_P(EveryVerb, ARedirectionIsNotFollowed) {
  ScriptedDaemon daemon(after_ping([](const Asked&) { return whole(301, "", "Location: /elsewhere\r\n"); }));
  EXPECT_EQ(kind_at(daemon.address()), ErrorKind::corrupt);
  EXPECT_EQ(daemon.lines().size(), 2U);
}

TEST_P(EveryVerb, InvalidJsonIsCorrupt) {
  for (const std::string body : {"{\"a\":", "[{]}", "[{\"Id\":7}]", "hello"}) {
    ScriptedDaemon daemon(after_ping([&](const Asked&) { return ended(stream({body}, Reply::Then::keep)); }));
    // If a stream of events begins with valid JSON, its end counts as a break.
    const bool breaks = GetParam().name == "watch" && body.find("\"") != std::string::npos;
    EXPECT_EQ(kind_at(daemon.address()), breaks ? ErrorKind::unavailable : ErrorKind::corrupt) << body;
  }
}

TEST_P(EveryVerb, AnOldEngineIsReportedWithBothVersions) {
  ScriptedDaemon daemon([](const Asked&) { return ping("1.38"); });
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const std::optional<Error> error = error_of([&] { GetParam().call(*engine, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
  EXPECT_THAT(error->message(), testing::AllOf(HasSubstr("1.38"), HasSubstr("1.41")));
}

TEST_P(EveryVerb, AStopCancelsACallWhileTheEngineIsSilent) {
  ScriptedDaemon daemon(after_ping([](const Asked&) { return stall(); }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  std::stop_source stop;
  auto result = std::async(std::launch::async,
                           [&] { return error_of([&] { GetParam().call(*engine, stop.get_token()); }); });
  daemon.wait_for_requests(2);
  stop.request_stop();
  const std::optional<Error> error = result.get();
  if (GetParam().name == "watch") {
    EXPECT_FALSE(error);
  } else {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::cancelled);
  }
}

TEST(Version, ANewerEngineIsUsedWithTheNewestKnownVersion) {
  ScriptedDaemon daemon(after_ping([](const Asked&) { return whole(200, "[]"); }, "1.60"));
  EXPECT_THAT(open_at(daemon.address())->list({}, ListDetail::consistent, {}), IsEmpty());
  EXPECT_THAT(daemon.lines().back(), HasSubstr("GET /v1.51/containers/json"));
}

TEST(Version, AWebServerIsNotAnEngine) {
  for (const int status : {200, 404, 405}) {
    ScriptedDaemon daemon([&](const Asked&) { return whole(status, "<!DOCTYPE html><p>No such page</p>"); });
    const auto error = error_of([&] { (void)open_at(daemon.address())->list({}, ListDetail::basic, {}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::corrupt) << status;
    EXPECT_EQ(error->message(), "the server at this address is not a Docker Engine; correct the address")
        << status;
  }
}

TEST(Version, AnEngineThatRefusesOurVersionIsReportedWithItsMessage) {
  const std::string words = "client version 1.51 is too old. Minimum supported API version is 1.60";
  ScriptedDaemon daemon(after_ping([&](const Asked&) { return whole(400, message(words)); }, "1.70"));
  const auto error = error_of([&] { (void)open_at(daemon.address())->list({}, ListDetail::consistent, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
  EXPECT_EQ(error->message(), words);
}

TEST(Connections, ALostEngineIsCalledOverANewConnection) {
  std::atomic<int> calls = 0;
  ScriptedDaemon daemon(
      after_ping([&](const Asked&) { return ++calls == 1 ? hang_up() : whole(200, "[]"); }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  EXPECT_EQ(error_of([&] { (void)engine->list({}, ListDetail::consistent, {}); })->kind(),
            ErrorKind::unavailable);
  EXPECT_THAT(engine->list({}, ListDetail::consistent, {}), IsEmpty());
}

}  // namespace
}  // namespace combu::wire
