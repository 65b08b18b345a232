// Which engine combu finds from the environment and from Docker's own configuration.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "combu/docker.hpp"
#include "docker_fixture.hpp"

namespace combu::docker {
namespace {

using testing::HasSubstr;

using Environment = std::map<std::string, std::string>;

DockerEndpoint find_in(const Environment& environment, const std::string& address = "") {
  return find_docker(
      [&](const std::string& name) {
        const auto at = environment.find(name);
        return at == environment.end() ? std::nullopt : std::optional(at->second);
      },
      address);
}

TEST(FindDocker, FollowsTheRulesOfDockersClient) {
  const Folder folder;
  folder.write("config.json", R"({"currentContext": "lab"})");
  folder.write("contexts/meta/0a/meta.json",
               R"({"Name": "lab", "Endpoints": {"docker": {"Host": "unix:///lab.sock"}}})");
  folder.write("contexts/meta/0b/meta.json",
               R"({"Name": "far", "Endpoints": {"docker": {"Host": "ssh://far"}}})");
  Environment environment = {{"HOME", "/home/x"}};
  EXPECT_EQ(find_in(environment).address.text(), "unix:///var/run/docker.sock");
  EXPECT_EQ(find_in(environment).config_folder, "/home/x/.docker");
  environment["DOCKER_CONFIG"] = folder.path();
  EXPECT_EQ(find_in(environment).address.text(), "unix:///lab.sock");
  EXPECT_EQ(find_in(environment).source, "context lab");
  environment["DOCKER_CONTEXT"] = "default";
  EXPECT_EQ(find_in(environment).address.text(), "unix:///var/run/docker.sock");
  environment["DOCKER_CONTEXT"] = "far";
  EXPECT_THAT(error_of([&] { (void)find_in(environment); })->message(),
              HasSubstr("ssh:// addresses are not supported yet"));
  environment["DOCKER_CONTEXT"] = "gone";
  EXPECT_EQ(error_of([&] { (void)find_in(environment); })->kind(), ErrorKind::invalid);
  environment["DOCKER_HOST"] = "tcp://127.0.0.1:2375";
  EXPECT_EQ(find_in(environment).address.text(), "tcp://127.0.0.1:2375");
  EXPECT_EQ(find_in(environment, "unix:///mine").address.text(), "unix:///mine");
  environment["DOCKER_TLS_VERIFY"] = "1";
  EXPECT_THAT(error_of([&] { (void)find_in(environment); })->message(),
              HasSubstr("TLS is not supported yet"));
}

TEST(FindDocker, PlainTcpIsAllowedOnlyOnThisMachine) {
  for (const char* address : {"tcp://127.0.0.1:2375", "tcp://localhost:1", "tcp://[::1]:2375"})
    EXPECT_EQ(find_in({}, address).address.text(), address);
  const auto error = error_of([&] { (void)find_in({{"DOCKER_HOST", "tcp://10.1.2.3:2375"}}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid);
  EXPECT_THAT(error->what(),
              HasSubstr("tcp://10.1.2.3:2375: DOCKER_HOST must be an address of this machine"));
}

TEST(FindDocker, ABrokenConfigFileIsReported) {
  const Folder folder;
  folder.write("config.json", "{");
  const auto error = error_of([&] { (void)find_in({{"DOCKER_CONFIG", folder.path()}}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid);
  EXPECT_EQ(error->subject(), folder.path() + "/config.json");
}

TEST(FindDocker, AContextWithoutAnEndpointIsReported) {
  for (const char* const endpoints :
       {"[]", "null", "\"x\"", R"({"docker": []})", R"({"docker": {"Host": 1}})"}) {
    const Folder folder;
    folder.write("contexts/meta/0a/meta.json",
                 std::string(R"({"Name": "lab", "Endpoints": )") + endpoints + "}");
    const auto error = error_of([&] {
      (void)find_in({{"DOCKER_CONFIG", folder.path()}, {"DOCKER_CONTEXT", "lab"}});
    });
    ASSERT_TRUE(error) << endpoints;
    EXPECT_EQ(error->subject(), "context lab");
    EXPECT_THAT(error->message(), HasSubstr("meta.json contains no Docker endpoint")) << endpoints;
  }
}

}  // namespace
}  // namespace combu::docker
