// Parsing of image references, and the search for their registries' credentials.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "combu/registry.hpp"
#include "docker_fixture.hpp"

namespace combu::registry {
namespace {

using docker::Folder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ImageReference, FindsRegistryAndTag) {
  struct Case {
    std::string text;
    std::string name;
    std::string tag;
    std::string key;
    std::string repository;
  };
  const std::string hub = "https://index.docker.io/v1/";
  for (const Case& each : std::vector<Case>{
           {"busybox", "busybox", "latest", hub, "library/busybox"},
           {"lab/solver:1", "lab/solver", "1", hub, "lab/solver"},
           {"docker.io/lab/solver", "docker.io/lab/solver", "latest", hub, "lab/solver"},
           {"index.docker.io/busybox", "index.docker.io/busybox", "latest", hub, "library/busybox"},
           {"localhost/x", "localhost/x", "latest", "localhost", "x"},
           {"127.0.0.1:5000/x:y", "127.0.0.1:5000/x", "y", "127.0.0.1:5000", "x"},
           {"r.example.com:5000/a/b", "r.example.com:5000/a/b", "latest", "r.example.com:5000", "a/b"},
           {"a:1@sha256:ff", "a", "sha256:ff", hub, "library/a"},
       }) {
    const ImageReference reference = parse_image_reference(each.text);
    EXPECT_EQ(reference.name, each.name);
    EXPECT_EQ(reference.tag, each.tag);
    EXPECT_EQ(reference.credentials_key(), each.key);
    EXPECT_EQ(reference.repository(), each.repository);
  }
}

TEST(Credentials, AreReadFromAuths) {
  const Folder folder;
  folder.write("config.json", R"({"auths": {"https://r.example.com/v2/": {"auth": "dXNlcjpwYTpzcw=="},
                                            "plain": {"username": "u", "password": "p"},
                                            "https://index.docker.io/v1/": {"identitytoken": "t"}}})");
  const auto find = [&](const std::string& key) {
    return find_login(folder.path(), key, Seconds{5}, {}).login;
  };
  EXPECT_EQ(find("r.example.com"), (Login{.user = "user", .password = "pa:ss"}));
  EXPECT_EQ(find("plain"), (Login{.user = "u", .password = "p"}));
  EXPECT_EQ(find("https://index.docker.io/v1/"), (Login{.identity_token = "t"}));
  EXPECT_TRUE(find("other").is_anonymous());
  EXPECT_TRUE(find_login("/nonexistent", "other", Seconds{5}, {}).login.is_anonymous());
}

TEST(Credentials, CredentialsThatAreNotUtf8AreReported) {
  const Folder folder;
  // The bytes "us\xffr:pass" and "user:p\xffss".
  for (const std::string auth : {"dXP/cjpwYXNz", "dXNlcjpw/3Nz"}) {
    folder.write("config.json", R"({"auths": {"r.example.com": {"auth": ")" + auth + "\"}}}");
    const FoundLogin found = find_login(folder.path(), "r.example.com", Seconds{5}, {});
    EXPECT_TRUE(found.login.is_anonymous());
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
  FoundLogin find(const std::string& config, Seconds time_max = Seconds{20},
                  const std::stop_token& stop = {}) const {
    folder_.write("config.json", config);
    return find_login(folder_.path(), "r.example.com", time_max, stop);
  }

 private:
  Folder folder_;
  std::string path_;
};

TEST_F(CredentialPrograms, AProgramIsAskedForTheRegistry) {
  program("store",
          R"(read -r server; echo "{\"ServerURL\":\"$server\",\"Username\":\"$1\",\"Secret\":\"s\"}")");
  const Login wanted{.user = "get", .password = "s"};
  EXPECT_EQ(find(R"({"credsStore": "store"})").login, wanted);
  EXPECT_EQ(find(R"({"credsStore": "absent", "credHelpers": {"r.example.com": "store"}})").login, wanted);
}

TEST_F(CredentialPrograms, AProgramMayReturnAToken) {
  program("token", R"(echo '{"Username":"<token>","Secret":"t"}')");
  EXPECT_EQ(find(R"({"credsStore": "token"})").login, (Login{.identity_token = "t"}));
}

TEST_F(CredentialPrograms, IfAProgramFailsThereAreNoCredentials) {
  program("none", "echo credentials not found in native keychain; exit 1");
  program("slow", "exec sleep 1000");
  program("odd", "echo hello");
  EXPECT_TRUE(find(R"({"credsStore": "none"})").login.is_anonymous());
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

// ---- Secrets of Kubernetes

std::vector<std::string> users_in(const std::string& text, const std::string& image) {
  std::vector<std::string> users;
  for (const Login& login : logins_in(text, parse_image_reference(image))) users.push_back(login.user);
  return users;
}

TEST(LoginsOfSecrets, TheLongestPathComesFirst) {
  const std::string text = R"({"auths": {
      "r.example.com": {"username": "host", "password": "p"},
      "https://r.example.com/lab/solver": {"username": "image", "password": "p"},
      "r.example.com/lab": {"username": "folder", "password": "p"},
      "r.example.com/la": {"username": "other", "password": "p"},
      "*.example.com/lab/": {"username": "pattern", "password": "p"},
      "*.com": {"username": "two parts", "password": "p"}}})";
  EXPECT_THAT(users_in(text, "r.example.com/lab/solver:1"),
              ElementsAre("image", "pattern", "folder", "host"));
  EXPECT_THAT(users_in(text, "r.example.com/other"), ElementsAre("host"));
  EXPECT_THAT(users_in(text, "busybox"), IsEmpty());
}

TEST(LoginsOfSecrets, TheOlderTypeHasNoAuths) {
  EXPECT_THAT(users_in(R"({"https://index.docker.io/v1/": {"auth": "dXNlcjpwYTpzcw=="}})", "busybox"),
              ElementsAre("user"));
}

TEST(LoginsOfSecrets, MalformedSecretsHaveNone) {
  for (const std::string text : {"", "[]", "7", "{", R"({"auths": 7})", R"({"auths": {"docker.io": 7}})",
                                 R"({"auths": {"docker.io": {"username": 7}}})"})
    EXPECT_THAT(users_in(text, "busybox"), IsEmpty()) << text;
}

}  // namespace
}  // namespace combu::registry
