// The Docker room against a daemon that does what it is told: each fault, and what a caller sees of it.

#include "combu/docker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <nlohmann/json.hpp>

#include "wire/scripted_daemon.hpp"

namespace combu::wire {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string k_id = "0123456789abcdef";

Reply ping(const std::string& version = "1.41") {
  return whole(200, "OK", "Api-Version: " + version + "\r\n");
}

std::string message(const std::string& text) {
  return json{{"message", text}}.dump();
}

// Answers /_ping and the question for what has happened before itself, and leaves the rest to the test.
ScriptedDaemon::Handler after_ping(ScriptedDaemon::Handler rest, const std::string& version = "1.41") {
  return [rest = std::move(rest), version](const Asked& asked) {
    if (asked.target.find("&until=") != std::string::npos) return whole(200, "");
    return asked.target == "/_ping" ? ping(version) : rest(asked);
  };
}

std::unique_ptr<Engine> open_at(const std::string& address, Seconds silence_max = Seconds{20}) {
  return open_docker({parse_address(address), "the test", "/nonexistent"}, {silence_max});
}

Run example_run() {
  Run run;
  run.id = RunId("run1");
  run.experiment.name = "exp";
  run.experiment.file = "/f";
  Trial trial;
  trial.name = "a";
  trial.image = "img";
  run.experiment.trials = {trial};
  return run;
}

json example_labels() {
  return {{"combu.experiment", "exp"},
          {"combu.file", "/f"},
          {"combu.run", "run1"},
          {"combu.trial", "a"},
          {"combu.attempt", "1"}};
}

std::string inspected(const std::string& state, const json& labels) {
  return json{{"Id", k_id},
              {"Name", "/a"},
              {"State", {{"Status", state}, {"ExitCode", 5}, {"StartedAt", "2026-01-02T03:04:05Z"}}},
              {"Config", {{"Image", "img"}, {"Tty", false}, {"Labels", labels}}}}
      .dump();
}

std::string listed(const std::string& state, const std::string& status) {
  return json::array({{{"Id", k_id},
                       {"Names", {"/a"}},
                       {"Image", "img"},
                       {"State", state},
                       {"Status", status},
                       {"Created", 1700000000},
                       {"Labels", example_labels()},
                       {"Ports", json::array()}}})
      .dump();
}

std::string event(const std::string& action, const std::string& exit_code = "",
                  const std::string& signal = "") {
  json attributes = example_labels();
  attributes["image"] = "img";
  attributes["name"] = "a";
  if (!exit_code.empty()) attributes["exitCode"] = exit_code;
  if (!signal.empty()) attributes["signal"] = signal;
  return json{
             {"Type", "container"}, {"Action", action}, {"Actor", {{"ID", k_id}, {"Attributes", attributes}}}}
             .dump() +
         "\n";
}

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
      {"list", [](Engine& engine, std::stop_token stop) { (void)engine.list({}, Look::closely, stop); }},
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

std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::optional<Error> start_error(const std::string& address) {
  const std::unique_ptr<Engine> engine = open_at(address);
  const combu::Run run = example_run();
  return error_of([&] { engine->start(run, run.experiment.trials[0], 1, {}); });
}

// ---- Every verb, every fault

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

TEST_P(EveryVerb, WhatIsNotHttpIsCorrupt) {
  ScriptedDaemon daemon([](const Asked&) { return cut("220 mail.example.com ESMTP\r\n"); });
  EXPECT_EQ(kind_at(daemon.address()), ErrorKind::corrupt);
}

TEST_P(EveryVerb, WhatIsNotDockerIsCorrupt) {
  ScriptedDaemon daemon([](const Asked&) { return whole(200, "<html>welcome</html>"); });
  EXPECT_EQ(kind_at(daemon.address()), ErrorKind::corrupt);
}

TEST_P(EveryVerb, AnEngineThatSaysNothingIsATimeout) {
  ScriptedDaemon daemon([](const Asked&) { return stall(); });
  EXPECT_EQ(kind_at(daemon.address(), Seconds{0.05}), ErrorKind::timeout);
}

TEST_P(EveryVerb, AnAnswerCutInTheMiddleIsUnavailable) {
  for (const Reply& reply : {hang_up(), cut("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{\"Id\":"),
                             cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n[{\"Id\r\n")}) {
    ScriptedDaemon daemon(after_ping([&](const Asked&) { return reply; }));
    EXPECT_EQ(kind_at(daemon.address()), ErrorKind::unavailable);
  }
}

TEST_P(EveryVerb, A500IsRefusedInTheDaemonsWords) {
  if (GetParam().name == "prepare") return;  // its refusals are returned: tested below
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

TEST_P(EveryVerb, GarbageForJsonIsCorrupt) {
  for (const std::string body : {"{\"a\":", "[{]}", "[{\"Id\":7}]", "hello"}) {
    ScriptedDaemon daemon(after_ping([&](const Asked&) { return ended(stream({body}, Reply::Then::keep)); }));
    // A stream of events that ends is a break, whatever it held that makes some sense.
    const bool breaks = GetParam().name == "watch" && body.find("\"") != std::string::npos;
    EXPECT_EQ(kind_at(daemon.address()), breaks ? ErrorKind::unavailable : ErrorKind::corrupt) << body;
  }
}

TEST_P(EveryVerb, AnEngineTooOldIsNamedWithBothVersions) {
  ScriptedDaemon daemon([](const Asked&) { return ping("1.38"); });
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const std::optional<Error> error = error_of([&] { GetParam().call(*engine, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
  EXPECT_THAT(error->message(), testing::AllOf(HasSubstr("1.38"), HasSubstr("1.41")));
}

TEST_P(EveryVerb, AStopEndsItWhileTheEngineIsSilent) {
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

// ---- The version

TEST(Version, TheNewestKnownIsSpokenToANewerEngine) {
  ScriptedDaemon daemon(after_ping([](const Asked&) { return whole(200, "[]"); }, "1.60"));
  EXPECT_THAT(open_at(daemon.address())->list({}, Look::closely, {}), IsEmpty());
  EXPECT_THAT(daemon.lines().back(), HasSubstr("GET /v1.51/containers/json"));
}

TEST(Version, AWebServerIsNoEngine) {
  for (const int status : {200, 404, 405}) {
    ScriptedDaemon daemon([&](const Asked&) { return whole(status, "<!DOCTYPE html><p>No such page</p>"); });
    const auto error = error_of([&] { (void)open_at(daemon.address())->list({}, Look::once, {}); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::corrupt) << status;
    EXPECT_EQ(error->message(), "something answers there, but it is not a Docker Engine") << status;
  }
}

TEST(Version, AClientTooOldForTheEngineIsToldInItsWords) {
  const std::string words = "client version 1.51 is too old. Minimum supported API version is 1.60";
  ScriptedDaemon daemon(after_ping([&](const Asked&) { return whole(400, message(words)); }, "1.70"));
  const auto error = error_of([&] { (void)open_at(daemon.address())->list({}, Look::closely, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
  EXPECT_EQ(error->message(), words);
}

// ---- list

TEST(List, WhatALateListingCallsRunningIsLookedAt) {
  json listed = json::array();
  for (int i = 0; i < 40; ++i) {
    json labels = example_labels();
    labels["combu.trial"] = "t" + std::to_string(i);
    listed.push_back({{"Id", "id" + std::to_string(i)},
                      {"Names", {"/t" + std::to_string(i)}},
                      {"Image", "img"},
                      {"State", "running"},
                      {"Status", "Up 1 second"},
                      {"Created", 1},
                      {"Labels", labels}});
  }
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.target.find("/containers/json") != std::string::npos) return whole(200, listed.dump());
    if (asked.target.find("/id7/") != std::string::npos) return whole(404, message("no such container"));
    return whole(200, inspected("exited", example_labels()));
  }));
  const std::vector<Sighting> seen =
      open_at(daemon.address())->list({.experiment = "exp"}, Look::closely, {});
  EXPECT_EQ(seen.size(), 39U) << "one is gone";
  for (const Sighting& one : seen) {
    EXPECT_EQ(one.phase, Phase::ended);
    EXPECT_TRUE(one.exit_code);
  }
}

// ---- prepare

TEST(Prepare, OfANetworkThatOthersMadeAtTheSameInstantOneStays) {
  bool made = false;
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.target.find("/networks/create") != std::string::npos) {
      made = true;
      return whole(201, json{{"Id", "b"}}.dump());
    }
    if (asked.target.find("/networks?") != std::string::npos || asked.target.ends_with("/networks")) {
      json networks = json::array({{{"Id", "z"}, {"Name", "bridge"}}});
      if (made)
        networks.insert(networks.end(), {{{"Id", "b"}, {"Name", "net"}}, {{"Id", "a"}, {"Name", "net"}}});
      return whole(200, networks.dump());
    }
    if (asked.target.find("/images/") != std::string::npos)
      return whole(200, R"({"Os": "linux", "Architecture": "amd64", "Config": {}})");
    return bare(204);
  }));
  combu::Run run = example_run();
  run.experiment.trials[0].networks = {"net"};
  EXPECT_THAT(open_at(daemon.address())->prepare(run, [](const Preparation&) {}, {}), IsEmpty());
  std::vector<std::string> removed;
  for (const std::string& line : daemon.lines())
    if (line.starts_with("DELETE")) removed.push_back(line);
  EXPECT_THAT(removed, ElementsAre("DELETE /v1.41/networks/b"));
}

// ---- start

TEST(Start, TakesTwoRequests) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    return asked.target.find("/create") != std::string::npos ? whole(201, json{{"Id", k_id}}.dump())
                                                             : bare(204);
  }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const combu::Run run = example_run();
  const Sighting sighting =
      std::get<Running>(engine->start(run, run.experiment.trials[0], 1, {})).observation;
  EXPECT_EQ(sighting.phase, Phase::running);
  EXPECT_EQ(sighting.id, k_id);
  EXPECT_THAT(daemon.lines(), ElementsAre("GET /_ping", "POST /v1.41/containers/create?name=a",
                                          "POST /v1.41/containers/" + k_id + "/start"));
  EXPECT_EQ(daemon.connections(), 1U);
}

TEST(Start, ARepeatAfterALostAnswerAdopts) {
  bool made = false;
  std::string state = "created";
  bool lose = true;
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.target.find("/create") != std::string::npos) {
      if (made) return whole(409, message("Conflict. The container name is already in use"));
      made = true;
      return hang_up();
    }
    if (asked.target.ends_with("/start")) {
      const int status = state == "running" ? 304 : 204;
      state = "running";
      return std::exchange(lose, false) ? hang_up() : bare(status);
    }
    return whole(200, inspected(state, example_labels()));
  }));
  EXPECT_EQ(start_error(daemon.address())->kind(), ErrorKind::unavailable);  // made, the answer lost
  EXPECT_EQ(start_error(daemon.address())->kind(), ErrorKind::unavailable);  // started, the answer lost
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const combu::Run run = example_run();
  const Sighting sighting =
      std::get<Running>(engine->start(run, run.experiment.trials[0], 1, {})).observation;
  EXPECT_EQ(sighting.phase, Phase::running);
  EXPECT_EQ(sighting.id, k_id);
}

TEST(Start, WhatHasEndedMeanwhileIsAdoptedWithItsExitCode) {
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    return asked.method == "POST" ? whole(409, message("Conflict."))
                                  : whole(200, inspected("exited", example_labels()));
  }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const combu::Run run = example_run();
  const Sighting sighting =
      std::get<Running>(engine->start(run, run.experiment.trials[0], 1, {})).observation;
  EXPECT_EQ(sighting.phase, Phase::ended);
  EXPECT_EQ(sighting.exit_code, 5);
}

TEST(Start, AnothersNameIsAConflictThatNamesIt) {
  for (const json& labels : {json::object(), json{{"combu.experiment", "exp"}}}) {
    ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
      return asked.method == "POST" ? whole(409, message("Conflict."))
                                    : whole(200, inspected("created", labels));
    }));
    const auto error = start_error(daemon.address());
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::conflict);
    EXPECT_EQ(std::string(error->what()),
              "a: its name is in use by the container a (image img), which combu has not made; remove that "
              "or rename the "
              "trial");
  }
}

TEST(Start, ANameThatIsFreeAgainMayBeTriedAgain) {
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    return asked.method == "POST" ? whole(409, message("Conflict."))
                                  : whole(404, message("No such container"));
  }));
  EXPECT_EQ(start_error(daemon.address())->kind(), ErrorKind::unavailable);
}

TEST(Start, WhatAnEngineThatDiedHasHalfRemovedIsRemovedAndMadeAnew) {
  bool there = true;
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.method == "DELETE") there = false;
    if (asked.method == "DELETE" || asked.target.ends_with("/start")) return bare(204);
    if (asked.method == "GET") return whole(200, inspected("dead", example_labels()));
    return there ? whole(409, message("Conflict.")) : whole(201, json{{"Id", k_id}}.dump());
  }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const combu::Run run = example_run();
  const Sighting sighting =
      std::get<Running>(engine->start(run, run.experiment.trials[0], 1, {})).observation;
  EXPECT_EQ(sighting.phase, Phase::running);
  EXPECT_THAT(daemon.lines(), testing::Contains("DELETE /v1.41/containers/" + k_id + "?force=1&v=1"));
}

// What an engine that was killed in the middle of a start shows when it is back.
std::string running_since_never() {
  json container = json::parse(inspected("running", example_labels()));
  container["State"]["StartedAt"] = "0001-01-01T00:00:00Z";
  return container.dump();
}

ScriptedDaemon::Handler back_from_death(const json& processes) {
  return after_ping([processes](const Asked& asked) {
    if (asked.target.ends_with("/top"))
      return whole(200, json{{"Titles", {"UID", "PID"}}, {"Processes", processes}}.dump());
    if (asked.method == "POST") return whole(409, message("Conflict."));
    return asked.target.find("/containers/json") != std::string::npos
               ? whole(200, listed("running", "Up 292 years"))
               : whole(200, running_since_never());
  });
}

TEST(List, WhatHasNoProcessesHasEndedWithItsEngine) {
  ScriptedDaemon daemon(back_from_death(nullptr));
  const std::vector<Sighting> listed = open_at(daemon.address())->list({}, Look::closely, {});
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].phase, Phase::ended);
  EXPECT_EQ(listed[0].exit_code, 255);
}

TEST(List, WhatHasProcessesRunsSinceWhenever) {
  ScriptedDaemon daemon(back_from_death(json::array({json::array({"root", "27764"})})));
  const std::vector<Sighting> listed = open_at(daemon.address())->list({}, Look::closely, {});
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].phase, Phase::running);
  EXPECT_FALSE(listed[0].ran_at);
}

TEST(Start, WhatRanOnlyForAnEngineThatDiedHasEndedWithIt) {
  ScriptedDaemon daemon(back_from_death(nullptr));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const combu::Run run = example_run();
  const Sighting seen = std::get<Running>(engine->start(run, run.experiment.trials[0], 1, {})).observation;
  EXPECT_EQ(seen.phase, Phase::ended);
  EXPECT_EQ(seen.exit_code, 255);
}

TEST(Start, TheNextAttemptTakesThePlaceOfWhatRanOnlyForAnEngineThatDied) {
  const ScriptedDaemon::Handler back = back_from_death(nullptr);
  bool there = true;
  ScriptedDaemon daemon([&](const Asked& asked) {
    if (asked.method == "DELETE") there = false;
    if (asked.method == "DELETE" || asked.target.ends_with("/start")) return bare(204);
    return !there && asked.method == "POST" ? whole(201, json{{"Id", k_id}}.dump()) : back(asked);
  });
  const combu::Run run = example_run();
  const Sighting seen =
      std::get<Running>(open_at(daemon.address())->start(run, run.experiment.trials[0], 2, {})).observation;
  EXPECT_EQ(seen.phase, Phase::running);
  EXPECT_EQ(seen.key.attempt, 2);
  EXPECT_THAT(daemon.lines(), testing::Contains("DELETE /v1.41/containers/" + k_id + "?force=1&v=1"));
}

// 20.10 says so of what is over at once.
TEST(List, NothingRanAfterItsEnd) {
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.target.find("/containers/json") != std::string::npos)
      return whole(200, listed("exited", "Exited (5) 1 second ago"));
    json container = json::parse(inspected("exited", example_labels()));
    container["State"]["StartedAt"] = "2026-01-02T03:04:05.2Z";
    container["State"]["FinishedAt"] = "2026-01-02T03:04:05.1Z";
    return whole(200, container.dump());
  }));
  const std::vector<Sighting> listed = open_at(daemon.address())->list({}, Look::fully, {});
  ASSERT_EQ(listed.size(), 1U);
  ASSERT_TRUE(listed[0].ended_at);
  EXPECT_EQ(listed[0].ran_at, listed[0].ended_at);
}

TEST(Start, ConnectsFurtherNetworksOneByOneOnAnOldEngine) {
  combu::Run run = example_run();
  run.experiment.trials[0].networks = {"n1", "n2"};
  for (const auto& [version, requests] : {std::pair<std::string, std::size_t>{"1.41", 4}, {"1.44", 3}}) {
    ScriptedDaemon daemon(after_ping(
        [](const Asked& asked) {
          if (asked.target.find("/create") != std::string::npos) return whole(201, json{{"Id", k_id}}.dump());
          return asked.target.ends_with("/connect") ? whole(200, "") : bare(204);
        },
        version));
    open_at(daemon.address())->start(run, run.experiment.trials[0], 1, {});
    EXPECT_EQ(daemon.lines().size(), requests) << version;
    const json body = json::parse(daemon.asked()[1].body);
    EXPECT_EQ(body.at("/NetworkingConfig/EndpointsConfig"_json_pointer).size(), version == "1.41" ? 1U : 2U);
  }
}

// An engine on which the attempt is created, and lists it; what becomes of its start is `started`.
ScriptedDaemon::Handler with_a_gpu(const Reply& started) {
  return after_ping([started](const Asked& asked) {
    if (asked.target.find("/create") != std::string::npos) return whole(201, json{{"Id", k_id}}.dump());
    if (asked.target.find("/containers/json") != std::string::npos) {
      json labels = example_labels();
      labels["combu.gpus"] = "0";
      const json own = {{"Id", k_id},          {"Names", {"/a"}}, {"Image", "img"},  {"State", "created"},
                        {"Status", "Created"}, {"Created", 1},    {"Labels", labels}};
      return whole(200, json::array({own}).dump());
    }
    return asked.target.ends_with("/start") ? started : bare(204);
  });
}

std::optional<Error> start_with_a_gpu(const ScriptedDaemon& daemon) {
  combu::Run run = example_run();
  run.experiment.trials[0].slots.gpus = {"0"};
  return error_of([&] { open_at(daemon.address())->start(run, run.experiment.trials[0], 1, {}); });
}

TEST(Start, AClaimWhoseStartMayHaveBeenCarriedOutStays) {
  ScriptedDaemon daemon(with_a_gpu(hang_up()));
  const auto error = start_with_a_gpu(daemon);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
  EXPECT_THAT(daemon.lines(), Not(Contains(HasSubstr("DELETE"))));
}

TEST(Start, AClaimWhoseStartIsRefusedIsLetGoAndNeverByForce) {
  ScriptedDaemon daemon(with_a_gpu(whole(500, message("no such device"))));
  const auto error = start_with_a_gpu(daemon);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
  EXPECT_THAT(daemon.lines().back(), HasSubstr("DELETE"));
  EXPECT_THAT(daemon.lines(), Not(Contains(HasSubstr("force"))));
}

// ---- watch

TEST(Watch, PutsCutEventsTogetherAndTellsTheBreak) {
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
                    const auto* sighting = std::get_if<Sighting>(&change);
                    if (sighting == nullptr) {
                      seen.emplace_back("watching");
                      return;
                    }
                    EXPECT_EQ(sighting->key, (Key{RunId("run1"), "a", 1}));
                    EXPECT_EQ(sighting->experiment, "exp");
                    EXPECT_EQ(sighting->id, k_id);
                    seen.push_back(std::string(to_string(sighting->phase)) + " " +
                                   std::string(to_string(sighting->health)) + " " +
                                   std::to_string(sighting->exit_code.value_or(-1)));
                  },
                  {});
  });
  EXPECT_THAT(
      seen, ElementsAre("watching", "running none -1", "ended none 3", "gone none -1", "running healthy -1"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
}

TEST(Watch, TellsWhyAnAttemptEnded) {
  struct Case {
    std::string signal;  // that somebody sent; empty: nobody
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
    std::vector<Sighting> ends;
    const auto error = error_of([&] {
      open_at(daemon.address())
          ->watch({},
                  [&](const Change& change) {
                    const auto* sighting = std::get_if<Sighting>(&change);
                    if (sighting != nullptr && sighting->phase == Phase::ended) ends.push_back(*sighting);
                  },
                  {});
    });
    EXPECT_TRUE(error);
    ASSERT_EQ(ends.size(), 1U) << one.exit_code;
    EXPECT_EQ(ends[0].oom, one.oom) << one.exit_code;
    EXPECT_EQ(ends[0].stopped, one.stopped) << one.exit_code;
  }
}

TEST(Watch, OfAContainerThatHasTheLabelsOfAnotherOneNothingIsTold) {
  ScriptedDaemon daemon(after_ping([&](const Asked&) {
    std::string copy = event("start");
    copy.replace(copy.find("\"name\":\"a\""), 10, "\"name\":\"b\"");
    return stream({copy}, Reply::Then::close);
  }));
  std::size_t told = 0;
  const auto error = error_of([&] {
    open_at(daemon.address())
        ->watch({},
                [&](const Change& change) {
                  if (std::holds_alternative<Sighting>(change)) ++told;
                },
                {});
  });
  EXPECT_TRUE(error);
  EXPECT_EQ(told, 0U);
}

TEST(Watch, WhatIsNotThereAnyMoreWasOfAnotherRunOfTheId) {
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
                  if (const auto* sighting = std::get_if<Sighting>(&change)) seen.push_back(sighting->phase);
                },
                {});
  });
  EXPECT_TRUE(error);
  EXPECT_THAT(seen, ElementsAre(Phase::gone));
}

TEST(Watch, ACleanEndIsABreakToo) {
  ScriptedDaemon daemon(
      after_ping([](const Asked&) { return ended(stream({event("start")}, Reply::Then::keep)); }));
  const auto error = error_of([&] { open_at(daemon.address())->watch({}, [](const Change&) {}, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
}

// ---- list, stop, logs

TEST(List, ReadsAnyNumberInPieces) {
  const std::string body = listed("exited", "Exited (137) 2 hours ago");
  std::vector<std::string> letters;
  for (const char letter : body) letters.emplace_back(1, letter);
  ScriptedDaemon daemon(after_ping([&](const Asked&) { return ended(stream(letters, Reply::Then::keep)); }));
  const std::vector<Sighting> sightings = open_at(daemon.address())->list({}, Look::once, {});
  ASSERT_EQ(sightings.size(), 1U);
  EXPECT_EQ(sightings[0].phase, Phase::ended);
  EXPECT_EQ(sightings[0].exit_code, 137);
  EXPECT_EQ(sightings[0].created_at, Instant(std::chrono::seconds(1700000000)));
}

TEST(Stop, WhatEndsOrGoesMeanwhileIsSuccess) {
  for (const int status : {204, 304, 404}) {
    ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
      if (asked.method == "GET") return whole(200, listed("running", "Up 1 second"));
      return status == 404 ? whole(404, message("No such container")) : bare(status);
    }));
    open_at(daemon.address())->stop({RunId("run1"), "a", 1}, Seconds{2.5}, {});
    EXPECT_EQ(daemon.lines().back(), "POST /v1.41/containers/" + k_id + "/stop?t=3");
  }
}

TEST(Logs, FramesCutAnywhereAreReadByTheTerminalFlag) {
  const std::string frames = std::string("\1\0\0\0\0\0\0\3one", 11) + std::string("\2\0\0\0\0\0\0\4oops", 12);
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.target.find("/json?") != std::string::npos) return whole(200, listed("running", "Up 1 second"));
    if (asked.target.ends_with("/json")) return whole(200, inspected("running", example_labels()));
    return ended(stream({frames.substr(0, 5), frames.substr(5, 8), frames.substr(13)}, Reply::Then::keep));
  }));
  std::string out;
  std::string err;
  open_at(daemon.address())
      ->logs({RunId("run1"), "a", 1}, {},
             [&](const LogPiece& piece) { (piece.stream == LogStream::out ? out : err) += piece.text; }, {});
  EXPECT_EQ(out, "one");
  EXPECT_EQ(err, "oops");
}

// ---- prepare and release

TEST(Prepare, AnErrorInThePullsStreamIsTheImagesError) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    if (asked.method == "GET") return whole(404, message("No such image: img"));
    return ended(
        stream({R"({"status":"Pulling from img","id":"latest"})", "\r\n",
                R"({"status":"Downloading","id":"l1","progressDetail":{"current":5,"total":10}})", "\r\n",
                R"({"status":"Downloading","id":"l2","progressDetail":{"current":1,"total":30}})", "\r\n",
                R"({"errorDetail":{"message":"unauthorized"},"error":"unauthorized: log in"})", "\r\n"},
               Reply::Then::keep));
  }));
  combu::Run run = example_run();
  for (const std::string name : {"b", "c", "d", "e"}) {
    run.experiment.trials.push_back(run.experiment.trials[0]);
    run.experiment.trials.back().name = name;
  }
  Preparation last;
  const std::vector<Error> errors =
      open_at(daemon.address())
          ->prepare(run, [&](const Preparation& preparation) { last = preparation; }, {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].kind(), ErrorKind::refused);
  EXPECT_EQ(std::string(errors[0].what()), "img: unauthorized: log in (needed by a, b, c and 2 more)");
  EXPECT_EQ(last.done.count, 6);
  EXPECT_EQ(last.total.count, 40);
  EXPECT_THAT(daemon.lines(), ElementsAre("GET /_ping", "GET /v1.41/images/img/json",
                                          "POST /v1.41/images/create?fromImage=img&tag=latest"));
}

TEST(Prepare, ARefusedLookUpIsTheImagesError) {
  ScriptedDaemon daemon(after_ping([](const Asked&) { return whole(500, message("broken")); }));
  const std::vector<Error> errors =
      open_at(daemon.address())->prepare(example_run(), [](const Preparation&) {}, {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(std::string(errors[0].what()), "img: broken (needed by a)");
}

TEST(Prepare, ANetworkThatAnotherMakesMeanwhileIsFine) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    if (asked.target.ends_with("/images/img/json"))
      return whole(200, R"({"Os":"linux","Architecture":"amd64"})");
    return asked.method == "GET" ? whole(200, "[]")
                                 : whole(409, message("network with name n already exists"));
  }));
  combu::Run run = example_run();
  run.experiment.trials[0].networks = {"n"};
  EXPECT_THAT(open_at(daemon.address())->prepare(run, [](const Preparation&) {}, {}), IsEmpty());
}

TEST(Release, WaitsForARemovalThatIsUnderWay) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    if (asked.method == "DELETE") return whole(409, message("removal of container is already in progress"));
    if (asked.method == "POST") return whole(200, R"({"StatusCode":0})");
    return asked.target.find("/networks") != std::string::npos
               ? whole(200, "[]")
               : whole(200, listed("removing", "Removal In Progress"));
  }));
  const Released released = open_at(daemon.address())->release({}, {}, {});
  EXPECT_EQ(released.attempts, 1U);
  EXPECT_THAT(released.left, IsEmpty());
  EXPECT_THAT(daemon.lines(),
              testing::Contains("POST /v1.41/containers/" + k_id + "/wait?condition=removed"));
}

TEST(Release, WhatIsRefusedIsLeftAndWhatOthersUseIsToldApart) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    if (asked.method == "DELETE" && asked.target.find("/networks") != std::string::npos) {
      return whole(403, message("has active endpoints"));
    }
    if (asked.method == "DELETE") return whole(500, message("device or resource busy"));
    if (asked.target.ends_with("/networks/net1"))
      return whole(200, R"({"Containers":{"x":{"Name":"guest"}}})");
    return asked.target.find("/networks") != std::string::npos ? whole(200, R"([{"Id":"net1","Name":"n"}])")
                                                               : whole(200, listed("running", "Up 1 second"));
  }));
  const Released released = open_at(daemon.address())->release({}, {}, {});
  EXPECT_EQ(released.attempts, 0U);
  ASSERT_EQ(released.left.size(), 1U);
  EXPECT_EQ(std::string(released.left[0].what()), "a: device or resource busy");
  ASSERT_EQ(released.in_use.size(), 1U);
  EXPECT_EQ(std::string(released.in_use[0].what()), "n: still used by guest");
}

TEST(Release, NothingIsAskedOfWhatIsKept) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    if (asked.method == "DELETE") return bare(204);
    if (asked.target.find("/networks") != std::string::npos)
      return whole(200, R"([{"Id":"net1","Name":"n"}])");
    json containers = json::parse(listed("exited", "Exited (0) 1 second ago"));
    containers[0]["NetworkSettings"]["Networks"]["n"] = json::object();
    return whole(200, containers.dump());
  }));
  const Releasing keeping{
      .found = [](const std::vector<Sighting>& found) { return std::set{found.at(0).key}; }};
  const Released released = open_at(daemon.address())->release({}, keeping, {});
  EXPECT_EQ(released.attempts, 0U);
  EXPECT_EQ(released.networks, 0U);
  ASSERT_EQ(released.in_use.size(), 1U);
  EXPECT_EQ(std::string(released.in_use[0].what()), "n: still used by a");
  EXPECT_THAT(daemon.lines(), testing::Each(testing::StartsWith("GET ")));
}

// ---- copy_out

// An answer to HEAD has no body, whatever its Content-Length says.
Reply head_answer(int status) {
  return {{"HTTP/1.1 " + std::to_string(status) + " Word\r\nContent-Length: 165\r\n\r\n"}, Reply::Then::keep};
}

// What copy_out makes of a path that the engine does not describe: it answers HEAD with `head`, and GET with
// `get`.
std::optional<Error> copy_error(int head, const Reply& get, std::optional<bool>* found = nullptr) {
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.method == "HEAD") return head_answer(head);
    if (asked.target.find("/archive?") != std::string::npos) return get;
    return whole(200, inspected("exited", example_labels()));
  }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  return error_of([&] {
    const bool is_there = engine->copy_out({RunId("run1"), "a", 1}, "/out", [](std::string_view) {}, {});
    if (found != nullptr) *found = is_there;
  });
}

struct PathFault {
  std::string name;
  std::string told;  // by the engine
  std::string words;
};
class UnreadablePath : public testing::TestWithParam<PathFault> {};
INSTANTIATE_TEST_SUITE_P(
    , UnreadablePath,
    testing::ValuesIn(std::vector<PathFault>{
        {"ALoop20", "evalSymlinksInScope: too many links in /var/lib/docker/overlay2/0a/merged/out",
         "/out: cannot be read: its symbolic links form a loop, or are too many"},
        {"ALoop29", "evalSymlinksInScope: too many links in /out",
         "/out: cannot be read: its symbolic links form a loop, or are too many"},
        {"ALoopOnTheWay", "lstat /out/sub: too many levels of symbolic links",
         "/out: cannot be read: its symbolic links form a loop, or are too many"},
        {"AFileOnTheWay", "lstat /var/lib/docker/overlay2/0a/merged/f/x: not a directory",
         "/out: cannot be read: a part of the path is not a folder"},
        {"ALongName", "lstat /" + std::string(3000, 'a') + ": file name too long",
         "/out: cannot be read: the path, or the target of its link, has a name that is too long"}}),
    [](const auto& fault) { return fault.param.name; });

TEST_P(UnreadablePath, IsInvalid) {
  const std::optional<Error> error = copy_error(500, whole(500, message(GetParam().told)));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid);
  EXPECT_EQ(std::string(error->what()), GetParam().words);
}

TEST(CopyOut, AFailureOfTheEngineIsNotThePathsFault) {
  for (const char* told :
       {"lstat /out: input/output error", "lstat /out/a: not a directory/x: permission denied", ""}) {
    const std::optional<Error> error = copy_error(500, whole(500, message(told)));
    ASSERT_TRUE(error) << told;
    EXPECT_EQ(error->kind(), ErrorKind::refused) << told;
    EXPECT_THAT(error->what(), HasSubstr(told));
  }
  EXPECT_EQ(copy_error(503, whole(503, message("starting")))->kind(), ErrorKind::unavailable);
  EXPECT_EQ(std::string(copy_error(400, whole(400, message("bad parameter")))->what()),
            "/out: bad parameter");
}

TEST(CopyOut, ALinkToTheRootIsInvalid) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    // {"linkTarget":"/"}
    if (asked.method == "HEAD")
      return Reply{{"HTTP/1.1 200 OK\r\nX-Docker-Container-Path-Stat: eyJsaW5rVGFyZ2V0IjoiLyJ9\r\n\r\n"},
                   Reply::Then::keep};
    return whole(200, inspected("exited", example_labels()));
  }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const std::optional<Error> error = error_of([&] {
    (void)engine->copy_out({RunId("run1"), "a", 1}, "/out", [](std::string_view) {}, {});
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid);
}

TEST(CopyOut, OfAnArchiveThatHeadDeniesOnlyTheBeginningIsRead) {
  for (const std::string& body : {std::string(), std::string("an archive")}) {
    const std::optional<Error> error = copy_error(500, whole(200, body));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::unavailable);
    EXPECT_EQ(std::string(error->what()), "/out: the engine answered HEAD with 500, and GET with 200");
  }
  constexpr std::size_t k_pieces = 1024;
  const std::string piece(std::size_t{1} << 16U, 'a');
  std::atomic<std::size_t> sent = 0;
  Reply large = whole(200, "");
  large.pieces = {"HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(k_pieces * piece.size()) +
                  "\r\n\r\n"};
  large.more = [&] { return sent++ < k_pieces ? piece : std::string(); };
  const std::optional<Error> error = copy_error(500, large);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
  EXPECT_LT(sent, k_pieces);
}

TEST(CopyOut, APathThatIsGoneByTheSecondRequestIsNotThere) {
  std::optional<bool> found;
  EXPECT_FALSE(copy_error(500, whole(404, message("no such path")), &found));
  EXPECT_EQ(found, false);
  found.reset();
  EXPECT_FALSE(copy_error(404, whole(500, message("never asked")), &found));
  EXPECT_EQ(found, false);
}

TEST(Connections, ALostEngineIsAskedOverANewConnectionWhenItIsBack) {
  std::atomic<int> calls = 0;
  ScriptedDaemon daemon(
      after_ping([&](const Asked&) { return ++calls == 1 ? hang_up() : whole(200, "[]"); }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  EXPECT_EQ(error_of([&] { (void)engine->list({}, Look::closely, {}); })->kind(), ErrorKind::unavailable);
  EXPECT_THAT(engine->list({}, Look::closely, {}), IsEmpty());
}

}  // namespace
}  // namespace combu::wire
