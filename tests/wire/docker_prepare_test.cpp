// prepare() and release().

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "wire/docker_fixture.hpp"

namespace combu::wire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Prepare, RemovesTheSecondOfTwoNetworksWithOneName) {
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
  run.experiment.trials[0].container.networks = {"net"};
  EXPECT_THAT(open_at(daemon.address())->prepare(run, [](const Preparation&) {}, {}), IsEmpty());
  std::vector<std::string> removed;
  for (const std::string& line : daemon.lines())
    if (line.starts_with("DELETE")) removed.push_back(line);
  EXPECT_THAT(removed, ElementsAre("DELETE /v1.41/networks/b"));
}

TEST(Prepare, ReportsTheProgramOfAnImage) {
  json image = {{"Os", "linux"},
                {"Architecture", "arm64"},
                {"Config", {{"Entrypoint", {"/bin/run", "-x"}}, {"Cmd", {"a b"}}, {"StopSignal", "SIGINT"}}}};
  std::vector<ImageProgram> programs;
  ScriptedDaemon daemon(after_ping([&](const Asked&) { return whole(200, image.dump()); }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const auto prepare = [&] {
    const auto on_progress = [&](const Preparation& preparation) {
      EXPECT_EQ(preparation.kind, Preparation::Kind::found);
      programs.push_back(preparation.program);
    };
    EXPECT_THAT(engine->prepare(example_run(), on_progress, {}), IsEmpty());
  };
  prepare();
  image = {{"Os", ""}, {"Config", {{"Entrypoint", nullptr}}}};
  prepare();
  image = {{"Config", nullptr}};
  prepare();
  EXPECT_THAT(programs, ElementsAre(ImageProgram{.entrypoint = {"/bin/run", "-x"},
                                                 .cmd = {"a b"},
                                                 .stop_signal = "SIGINT",
                                                 .platform = "linux/arm64"},
                                    ImageProgram{}, ImageProgram{}));
}

TEST(Prepare, AnErrorInThePullStreamIsReportedForTheImage) {
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

TEST(Prepare, ARefusedInspectionIsReportedForTheImage) {
  ScriptedDaemon daemon(after_ping([](const Asked&) { return whole(500, message("broken")); }));
  const std::vector<Error> errors =
      open_at(daemon.address())->prepare(example_run(), [](const Preparation&) {}, {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(std::string(errors[0].what()), "img: broken (needed by a)");
}

TEST(Prepare, ANetworkThatAnotherProcessCreatesMeanwhileIsUsed) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    if (asked.target.ends_with("/images/img/json"))
      return whole(200, R"({"Os":"linux","Architecture":"amd64"})");
    return asked.method == "GET" ? whole(200, "[]")
                                 : whole(409, message("network with name n already exists"));
  }));
  combu::Run run = example_run();
  run.experiment.trials[0].container.networks = {"n"};
  EXPECT_THAT(open_at(daemon.address())->prepare(run, [](const Preparation&) {}, {}), IsEmpty());
}

TEST(Release, WaitsForARemovalThatIsUnderWay) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    if (asked.method == "DELETE") return whole(409, message("removal of container is already in progress"));
    if (asked.method == "POST") return whole(200, R"({"StatusCode":0})");
    if (asked.target.find("/volumes") != std::string::npos) return whole(403, message("forbidden"));
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

TEST(Release, RefusedRemovalsAndNetworksInUseAreReportedSeparately) {
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

TEST(Release, ChangesNothingThatIsKept) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    if (asked.method == "DELETE") return bare(204);
    if (asked.target.find("/networks") != std::string::npos)
      return whole(200, R"([{"Id":"net1","Name":"n"}])");
    json containers = json::parse(listed("exited", "Exited (0) 1 second ago"));
    containers[0]["NetworkSettings"]["Networks"]["n"] = json::object();
    return whole(200, containers.dump());
  }));
  const ReleaseCallbacks keeping{
      .found = [](const std::vector<Observation>& found) { return std::set{found.at(0).key}; }};
  const Released released = open_at(daemon.address())->release({}, keeping, {});
  EXPECT_EQ(released.attempts, 0U);
  EXPECT_EQ(released.networks, 0U);
  ASSERT_EQ(released.in_use.size(), 1U);
  EXPECT_EQ(std::string(released.in_use[0].what()), "n: still used by a");
  EXPECT_THAT(daemon.lines(), testing::Each(testing::StartsWith("GET ")));
}

}  // namespace
}  // namespace combu::wire
