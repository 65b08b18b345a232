// start(), and containers that are half started after an engine was killed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wire/docker_fixture.hpp"

namespace combu::wire {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Start, TakesTwoRequests) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    return asked.target.find("/create") != std::string::npos ? whole(201, json{{"Id", k_id}}.dump())
                                                             : bare(204);
  }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const combu::Run run = example_run();
  const Observation observation =
      std::get<Running>(engine->start(run, run.experiment.trials[0], 1, {})).observation;
  EXPECT_EQ(observation.phase, Phase::running);
  EXPECT_EQ(observation.id, k_id);
  EXPECT_THAT(daemon.lines(), ElementsAre("GET /_ping", "POST /v1.41/containers/create?name=a",
                                          "POST /v1.41/containers/" + k_id + "/start"));
  EXPECT_EQ(daemon.connections(), 1U);
}

TEST(Start, ARepeatAfterALostAnswerAdoptsTheContainer) {
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
  // The container is created, but the answer is lost.
  EXPECT_EQ(start_error(daemon.address())->kind(), ErrorKind::unavailable);
  // The container is started, but the answer is lost.
  EXPECT_EQ(start_error(daemon.address())->kind(), ErrorKind::unavailable);
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const combu::Run run = example_run();
  const Observation observation =
      std::get<Running>(engine->start(run, run.experiment.trials[0], 1, {})).observation;
  EXPECT_EQ(observation.phase, Phase::running);
  EXPECT_EQ(observation.id, k_id);
}

TEST(Start, AContainerThatHasEndedMeanwhileIsAdoptedWithItsExitCode) {
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    return asked.method == "POST" ? whole(409, message("Conflict."))
                                  : whole(200, inspected("exited", example_labels()));
  }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const combu::Run run = example_run();
  const Observation observation =
      std::get<Running>(engine->start(run, run.experiment.trials[0], 1, {})).observation;
  EXPECT_EQ(observation.phase, Phase::ended);
  EXPECT_EQ(observation.exit_code, 5);
}

TEST(Start, ANameOfAnotherContainerIsAConflict) {
  for (const json& labels : {json::object(), json{{"combu.experiment", "exp"}}}) {
    ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
      return asked.method == "POST" ? whole(409, message("Conflict."))
                                    : whole(200, inspected("created", labels));
    }));
    const auto error = start_error(daemon.address());
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::conflict);
    EXPECT_EQ(std::string(error->what()),
              "a: the container name is in use by the container a (image img), which combu did not create; "
              "remove the "
              "container or rename the trial");
  }
}

TEST(Start, ANameThatIsFreeAgainCanBeRetried) {
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    return asked.method == "POST" ? whole(409, message("Conflict."))
                                  : whole(404, message("No such container"));
  }));
  EXPECT_EQ(start_error(daemon.address())->kind(), ErrorKind::unavailable);
}

TEST(Start, AHalfRemovedContainerIsRemovedAndCreatedAgain) {
  bool there = true;
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.method == "DELETE") there = false;
    if (asked.method == "DELETE" || asked.target.ends_with("/start")) return bare(204);
    if (asked.method == "GET") return whole(200, inspected("dead", example_labels()));
    return there ? whole(409, message("Conflict.")) : whole(201, json{{"Id", k_id}}.dump());
  }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const combu::Run run = example_run();
  const Observation observation =
      std::get<Running>(engine->start(run, run.experiment.trials[0], 1, {})).observation;
  EXPECT_EQ(observation.phase, Phase::running);
  EXPECT_THAT(daemon.lines(), testing::Contains("DELETE /v1.41/containers/" + k_id + "?force=1&v=1"));
}

// The container as an engine shows it after being killed in the middle of a start.
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

TEST(List, AContainerWithoutProcessesHasEndedWithItsEngine) {
  ScriptedDaemon daemon(back_from_death(nullptr));
  const std::vector<Observation> listed = open_at(daemon.address())->list({}, ListDetail::consistent, {});
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].phase, Phase::ended);
  EXPECT_EQ(listed[0].exit_code, 255);
}

TEST(List, AContainerWithProcessesRunsWithAnUnknownStartTime) {
  ScriptedDaemon daemon(back_from_death(json::array({json::array({"root", "27764"})})));
  const std::vector<Observation> listed = open_at(daemon.address())->list({}, ListDetail::consistent, {});
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].phase, Phase::running);
  EXPECT_FALSE(listed[0].ran_at);
}

TEST(Start, AContainerWithoutProcessesIsAdoptedAsEnded) {
  ScriptedDaemon daemon(back_from_death(nullptr));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const combu::Run run = example_run();
  const Observation seen = std::get<Running>(engine->start(run, run.experiment.trials[0], 1, {})).observation;
  EXPECT_EQ(seen.phase, Phase::ended);
  EXPECT_EQ(seen.exit_code, 255);
}

TEST(Start, TheNextAttemptReplacesAContainerWithoutProcesses) {
  const ScriptedDaemon::Handler back = back_from_death(nullptr);
  bool there = true;
  ScriptedDaemon daemon([&](const Asked& asked) {
    if (asked.method == "DELETE") there = false;
    if (asked.method == "DELETE" || asked.target.ends_with("/start")) return bare(204);
    return !there && asked.method == "POST" ? whole(201, json{{"Id", k_id}}.dump()) : back(asked);
  });
  const combu::Run run = example_run();
  const Observation seen =
      std::get<Running>(open_at(daemon.address())->start(run, run.experiment.trials[0], 2, {})).observation;
  EXPECT_EQ(seen.phase, Phase::running);
  EXPECT_EQ(seen.key.attempt, 2);
  EXPECT_THAT(daemon.lines(), testing::Contains("DELETE /v1.41/containers/" + k_id + "?force=1&v=1"));
}

// Engine 20.10 reports this for containers that end at once.
TEST(List, AStartTimeIsNeverAfterTheEndTime) {
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.target.find("/containers/json") != std::string::npos)
      return whole(200, listed("exited", "Exited (5) 1 second ago"));
    json container = json::parse(inspected("exited", example_labels()));
    container["State"]["StartedAt"] = "2026-01-02T03:04:05.2Z";
    container["State"]["FinishedAt"] = "2026-01-02T03:04:05.1Z";
    return whole(200, container.dump());
  }));
  const std::vector<Observation> listed = open_at(daemon.address())->list({}, ListDetail::full, {});
  ASSERT_EQ(listed.size(), 1U);
  ASSERT_TRUE(listed[0].ended_at);
  EXPECT_EQ(listed[0].ran_at, listed[0].ended_at);
}

TEST(Start, ConnectsFurtherNetworksOneByOneOnAnOldEngine) {
  combu::Run run = example_run();
  run.experiment.trials[0].container.networks = {"n1", "n2"};
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

// An engine that creates the attempt and lists it. `started`: its answer to the start.
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

TEST(Start, AClaimIsKeptIfItsContainerMayHaveStarted) {
  ScriptedDaemon daemon(with_a_gpu(hang_up()));
  const auto error = start_with_a_gpu(daemon);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
  EXPECT_THAT(daemon.lines(), Not(Contains(HasSubstr("DELETE"))));
}

TEST(Start, AClaimIsRemovedWithoutForceIfItsStartIsRefused) {
  ScriptedDaemon daemon(with_a_gpu(whole(500, message("no such device"))));
  const auto error = start_with_a_gpu(daemon);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::refused);
  EXPECT_THAT(daemon.lines().back(), HasSubstr("DELETE"));
  EXPECT_THAT(daemon.lines(), Not(Contains(HasSubstr("force"))));
}

// Returns the answer to HEAD for a file of this size; nullopt: the file does not exist.
Reply stat_of(std::optional<std::size_t> size) {
  if (!size) return {{"HTTP/1.1 404 Word\r\n\r\n"}, Reply::Then::keep};
  const std::string stat = encode_base64url(json{{"name", "agent"}, {"size", *size}}.dump());
  return {{"HTTP/1.1 200 OK\r\nX-Docker-Container-Path-Stat: " + stat + "\r\n\r\n"}, Reply::Then::keep};
}

// Starts a trial with a provided program, and returns the requests after the creation of the container.
// `sizes`: the sizes of the program's file that the engine reports one after another.
std::vector<std::string> provide(std::vector<std::optional<std::size_t>> sizes, int filler_status = 201) {
  std::size_t looks = 0;
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.method == "HEAD") return stat_of(sizes.at(std::min(looks++, sizes.size() - 1)));
    if (asked.target.find("name=combu-agent-fill-") != std::string::npos)
      return filler_status == 201 ? whole(201, json{{"Id", "f"}}.dump())
                                  : whole(filler_status, message("in use"));
    if (asked.target.find("/create") != std::string::npos) return whole(201, json{{"Id", k_id}}.dump());
    return asked.method == "PUT" ? whole(200, "") : bare(204);
  }));
  combu::Run run = example_run();
  run.experiment.trials[0].container.provided = std::make_shared<const ProvidedProgram>(
      ProvidedProgram{.path = "/bin of combu/agent", .content = "#!prog", .folder = "/work"});
  (void)open_at(daemon.address())->start(run, run.experiment.trials[0], 1, {});
  const json mounts = json::parse(daemon.asked().at(1).body).at("HostConfig").at("Mounts");
  EXPECT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts.at(0).at("ReadOnly"), true);
  EXPECT_EQ(mounts.at(0).at("Target"), "/bin of combu");
  EXPECT_EQ(mounts.at(0).at("Source"), "combu-agent-" + sha256_of("#!prog").substr(0, 12));
  EXPECT_EQ(mounts.at(1).at("Target"), "/work");
  EXPECT_FALSE(mounts.at(1).contains("Source"));
  std::vector<std::string> lines = daemon.lines();
  lines.erase(lines.begin(), lines.begin() + 2);
  for (std::string& line : lines) line.erase(line.find('/'), std::string("/v1.41").size());
  return lines;
}

TEST(Provided, ACompleteProgramIsNotSentAgain) {
  const std::string one = "/containers/" + k_id;
  EXPECT_THAT(provide({6}), testing::ElementsAre("PUT " + one + "/archive?path=%2Fwork",
                                                 "HEAD " + one + "/archive?path=%2Fbin%20of%20combu%2Fagent",
                                                 "POST " + one + "/start"));
}

TEST(Provided, AMissingOrIncompleteProgramIsSentThroughAnotherContainer) {
  const std::string filler = "/containers/combu-agent-fill-" + sha256_of("#!prog").substr(0, 12);
  for (const std::optional<std::size_t> size :
       {std::optional<std::size_t>(), std::optional<std::size_t>(5)}) {
    std::vector<std::string> lines = provide({size});
    ASSERT_EQ(lines.size(), 7U);
    EXPECT_THAT(lines[3], testing::StartsWith("POST /containers/create?name=combu-agent-fill-"));
    EXPECT_EQ(lines[4], "PUT " + filler + "/archive?path=%2Fbin%20of%20combu");
    EXPECT_EQ(lines[5], "DELETE " + filler + "?force=1&v=1");
  }
}

TEST(Provided, WaitsForAnotherProcessThatSendsTheProgram) {
  const std::vector<std::string> lines = provide({std::nullopt, std::nullopt, 3, 6}, 409);
  EXPECT_THAT(lines, testing::Each(testing::Not(testing::StartsWith("DELETE"))));
  EXPECT_EQ(std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("HEAD"); }),
            4);
}

}  // namespace
}  // namespace combu::wire
