// Parsing of image references, and the search for their registries' credentials.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "docker/credentials.hpp"
#include "docker/image_reference.hpp"
#include "docker_fixture.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ImageReference, FindsRegistryAndTag) {
  struct Case {
    std::string text;
    std::string name;
    std::string tag;
    std::string key;
  };
  const std::string hub = "https://index.docker.io/v1/";
  for (const Case& each : std::vector<Case>{
           {"busybox", "busybox", "latest", hub},
           {"lab/solver:1", "lab/solver", "1", hub},
           {"docker.io/lab/solver", "docker.io/lab/solver", "latest", hub},
           {"localhost/x", "localhost/x", "latest", "localhost"},
           {"127.0.0.1:5000/x:y", "127.0.0.1:5000/x", "y", "127.0.0.1:5000"},
           {"r.example.com:5000/a/b", "r.example.com:5000/a/b", "latest", "r.example.com:5000"},
           {"a:1@sha256:ff", "a", "sha256:ff", hub},
       }) {
    const ImageReference reference = parse_image_reference(each.text);
    EXPECT_EQ(reference.name, each.name);
    EXPECT_EQ(reference.tag, each.tag);
    EXPECT_EQ(reference.credentials_key(), each.key);
  }
}

json header_of(const Credentials& credentials) {
  return json::parse(decode_base64(credentials.header));
}

TEST(Credentials, AreReadFromAuths) {
  const Folder folder;
  folder.write("config.json", R"({"auths": {"https://r.example.com/v2/": {"auth": "dXNlcjpwYTpzcw=="},
                                            "https://index.docker.io/v1/": {"identitytoken": "t"}}})");
  EXPECT_EQ(header_of(find_credentials(folder.path(), "r.example.com", Seconds{5}, {})),
            (json{{"username", "user"}, {"password", "pa:ss"}, {"serveraddress", "r.example.com"}}));
  EXPECT_EQ(header_of(find_credentials(folder.path(), "https://index.docker.io/v1/", Seconds{5}, {})),
            (json{{"identitytoken", "t"}, {"serveraddress", "https://index.docker.io/v1/"}}));
  EXPECT_EQ(find_credentials(folder.path(), "other", Seconds{5}, {}).header, "");
  EXPECT_EQ(find_credentials("/nonexistent", "other", Seconds{5}, {}).header, "");
}

TEST(Credentials, CredentialsThatAreNotUtf8AreReported) {
  const Folder folder;
  // The bytes "us\xffr:pass" and "user:p\xffss".
  for (const std::string auth : {"dXP/cjpwYXNz", "dXNlcjpw/3Nz"}) {
    folder.write("config.json", R"({"auths": {"r.example.com": {"auth": ")" + auth + "\"}}}");
    const Credentials found = find_credentials(folder.path(), "r.example.com", Seconds{5}, {});
    EXPECT_EQ(found.header, "");
    EXPECT_EQ(found.note,
              folder.path() + "/config.json: `auth` of r.example.com must be base64 of UTF-8 text");
  }
}

// Creates docker-credential-NAME programs in a folder on PATH.
class CredentialPrograms : public testing::Test {
 protected:
  // NOLINTBEGIN(concurrency-mt-unsafe): there is one thread between two tests
  CredentialPrograms() {
    if (const char* path = std::getenv("PATH")) path_ = path;
    ::setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
  }
  ~CredentialPrograms() override { ::setenv("PATH", path_.c_str(), 1); }
  // NOLINTEND(concurrency-mt-unsafe)
  void program(const std::string& name, const std::string& script) const {
    folder_.write("docker-credential-" + name, "#!/bin/sh\n" + script);
    std::filesystem::permissions(folder_.path() + "/docker-credential-" + name, std::filesystem::perms::all);
  }
  Credentials find(const std::string& config, Seconds time_max = Seconds{20},
                   const std::stop_token& stop = {}) const {
    folder_.write("config.json", config);
    return find_credentials(folder_.path(), "r.example.com", time_max, stop);
  }

 private:
  Folder folder_;
  std::string path_;
};

TEST_F(CredentialPrograms, AProgramIsAskedForTheRegistry) {
  program("store",
          R"(read -r server; echo "{\"ServerURL\":\"$server\",\"Username\":\"$1\",\"Secret\":\"s\"}")");
  const json wanted = {{"username", "get"}, {"password", "s"}, {"serveraddress", "r.example.com"}};
  EXPECT_EQ(header_of(find(R"({"credsStore": "store"})")), wanted);
  EXPECT_EQ(header_of(find(R"({"credsStore": "absent", "credHelpers": {"r.example.com": "store"}})")),
            wanted);
}

TEST_F(CredentialPrograms, AProgramMayReturnAToken) {
  program("token", R"(echo '{"Username":"<token>","Secret":"t"}')");
  EXPECT_EQ(header_of(find(R"({"credsStore": "token"})")),
            (json{{"identitytoken", "t"}, {"serveraddress", "r.example.com"}}));
}

TEST_F(CredentialPrograms, IfAProgramFailsThereAreNoCredentials) {
  program("none", "echo credentials not found in native keychain; exit 1");
  program("slow", "exec sleep 1000");
  program("odd", "echo hello");
  EXPECT_EQ(find(R"({"credsStore": "none"})").header, "");
  EXPECT_EQ(find(R"({"credsStore": "none"})").note, "");
  EXPECT_EQ(find(R"({"credsStore": "odd"})").note, "docker-credential-odd did not print a JSON object");
  EXPECT_THAT(find(R"({"credsStore": "absent"})").note, HasSubstr("docker-credential-absent cannot be run"));
  EXPECT_THAT(find(R"({"credsStore": "slow"})", Seconds{0.1}).note, HasSubstr("did not end within"));
}

TEST_F(CredentialPrograms, AProgramThatPrintsEndlesslyIsKilled) {
  program("endless", "exec cat /dev/zero");
  EXPECT_EQ(find(R"({"credsStore": "endless"})").note, "docker-credential-endless printed more than 1 MiB");
}

TEST_F(CredentialPrograms, AProgramThatClosesItsOutputAndHangsIsKilled) {
  program("silent", "exec sleep 1000 >&-");
  EXPECT_THAT(find(R"({"credsStore": "silent"})", Seconds{0.1}).note, HasSubstr("did not end within"));
}

TEST_F(CredentialPrograms, AProgramIsKilledWhenTheCallerStops) {
  program("slow", "exec sleep 1000");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(find(R"({"credsStore": "slow"})", Seconds{600}, stop.get_token()).note,
            "docker-credential-slow was stopped");
}

TEST_F(CredentialPrograms, ReportsOutputThatIsNotUtf8) {
  program("odd", R"(printf '{"Username":"u","Secret":"p\377"}')");
  EXPECT_EQ(find(R"({"credsStore": "odd"})").note, "docker-credential-odd did not print a JSON object");
}

TEST_F(CredentialPrograms, ReportsJsonThatIsNestedTooDeep) {
  program("deep", "head -c 900000 /dev/zero | tr '\\0' '['");
  EXPECT_EQ(find(R"({"credsStore": "deep"})").note, "docker-credential-deep did not print a JSON object");
}

}  // namespace
}  // namespace combu::docker
