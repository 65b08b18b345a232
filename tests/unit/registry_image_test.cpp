// Images as registries describe them: digests, platforms, logins, and registries that fail or lie.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>

#include "combu/registry.hpp"
#include "error_of.hpp"
#include "registry_fixture.hpp"

namespace combu::registry {
namespace {

using nlohmann::json;
using test::error_in;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using wire::Asked;
using wire::Reply;
using wire::whole;

Image read(const std::string& image, const std::string& platform = "", const Login& login = {},
           const Limits& limits = {}) {
  return read_image({.image = image, .platform = platform, .own_platform = "linux/amd64", .login = login}, {},
                    limits);
}

// Returns "KIND: MESSAGE".
std::string failure_of(const std::string& image, const std::string& platform = "", const Login& login = {},
                       const Limits& limits = {}) {
  try {
    (void)read(image, platform, login, limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.subject(), image);
    return std::string(to_string(error.kind())) + ": " + error.message();
  }
  return "";
}

json entry(const std::string& digest, const std::string& machine, const std::string& variant = "") {
  json platform = {{"os", "linux"}, {"architecture", machine}};
  if (!variant.empty()) platform["variant"] = variant;
  return {{"digest", digest}, {"platform", platform}};
}

// ---- Content

TEST(ReadImage, TheConfigurationAndTheDigestsAreRead) {
  FakeRegistry registry;
  const std::string manifest = registry.put_image();
  registry.tag(manifest);
  for (const std::string& tag : {std::string(":1"), "@" + manifest, ":other@" + manifest}) {
    const Image image = read(registry.image(tag));
    EXPECT_EQ(image.digest, manifest);
    EXPECT_EQ(image.all_digests.size(), 2U);
    EXPECT_EQ(image.platform, "linux/amd64");
    EXPECT_THAT(image.entrypoint, ElementsAre("/run", "-x"));
    EXPECT_THAT(image.cmd, ElementsAre("arg"));
    EXPECT_EQ(image.stop_signal, "SIGINT");
  }
}

TEST(ReadImage, AnIndexHasImagesForSeveralPlatforms) {
  FakeRegistry registry;
  const std::string amd = registry.put_image("amd64", "/amd");
  const std::string arm = registry.put_image("arm64", "/arm");
  const std::string unknown = registry.put_image("unknown", "/none");
  const std::string index = registry.put_manifest(
      json{{"manifests", {entry(unknown, "unknown"), entry(arm, "arm64", "v8"), entry(amd, "amd64")}}}
          .dump());
  registry.tag(index);
  const auto program = [&](const std::string& platform) {
    const Image image = read(registry.image(), platform);
    EXPECT_EQ(image.digest, index);
    EXPECT_EQ(image.all_digests.size(), 3U) << "index, manifest and configuration";
    return image.entrypoint.front();
  };
  EXPECT_EQ(program(""), "/amd") << "own platform";
  EXPECT_EQ(program("linux/arm64"), "/arm");
  EXPECT_EQ(program("linux/arm64/v8"), "/arm");
  EXPECT_EQ(program("linux/aarch64"), "/arm");
  EXPECT_EQ(failure_of(registry.image(), "linux/arm/v7"),
            "invalid: the image is not for linux/arm/v7, but for linux/arm64, linux/amd64; correct "
            "`platform`, or choose another image");
  EXPECT_EQ(
      read_image({.image = registry.image(), .platform = "", .own_platform = "linux/s390x"}, {}).platform,
      "linux/arm64")
      << "the first one";
}

TEST(ReadImage, AnImageForAnotherPlatformIsRefused) {
  FakeRegistry registry;
  registry.tag(registry.put_image("arm64"));
  EXPECT_EQ(read(registry.image()).platform, "linux/arm64");
  EXPECT_EQ(failure_of(registry.image(), "linux/amd64"),
            "invalid: the image is not for linux/amd64, but for linux/arm64; correct `platform`, or choose "
            "another image");
}

TEST(ReadImage, IndexesMayBeNestedButNotEndlessly) {
  FakeRegistry registry;
  std::string digest = registry.put_image();
  for (int depth = 0; depth < 3; ++depth) {
    digest = registry.put_manifest(json{{"manifests", {{{"digest", digest}}}}}.dump());
    registry.tag(digest, std::to_string(depth));
  }
  EXPECT_EQ(read(registry.image(":2")).digest, digest);
  registry.tag(registry.put_manifest(json{{"manifests", {{{"digest", digest}}}}}.dump()), "3");
  EXPECT_THAT(failure_of(registry.image(":3")), HasSubstr("corrupt: the image in the registry"));
}

TEST(ReadImage, MalformedDocumentsAreRefused) {
  FakeRegistry registry;
  const std::string config = registry.put_blob("[]");
  const std::string artifact = registry.put_blob("{}");
  const std::string odd =
      registry.put_blob(R"({"os": "linux", "architecture": "amd64", "config": {"Cmd": "a string"}})");
  const auto fails = [&](const std::string& manifest) {
    registry.put("manifests/bad", manifest);
    EXPECT_THAT(failure_of(registry.image(":bad")), HasSubstr("corrupt: ")) << manifest;
  };
  for (const std::string manifest :
       {"", "no JSON", "[]", "7", "{}", R"({"schemaVersion": 1, "fsLayers": []})", R"({"manifests": {}})",
        R"({"manifests": [7]})", R"({"manifests": [{"digest": "sha512:00"}]})",
        R"({"manifests": [], "config": {}})", R"({"config": {"digest": 7}})",
        R"({"config": {"digest": "sha256:../../x"}})"})
    fails(manifest);
  for (const std::string& digest : {config, artifact, odd})
    fails(json{{"config", {{"digest", digest}}}}.dump());
  registry.put("manifests/bad", R"({"manifests": []})");
  EXPECT_THAT(failure_of(registry.image(":bad")),
              HasSubstr("invalid: the image is not for Linux, but for no platform"));
}

TEST(ReadImage, NamesThatAreNoNamesAreRefused) {
  for (const std::string name :
       {"", ":", "127.0.0.1:1/", "127.0.0.1:1/a?b", "127.0.0.1:1/../x", "127.0.0.1:1/a:b%2f", "127.0.0.1:x/a",
        "127.0.0.1:1/a@sha256:ff", "127.0.0.1:1/a@md5:ff"})
    EXPECT_THAT(failure_of(name), HasSubstr("invalid: ")) << name;
}

// ---- Registries that lie or fail

TEST(ReadImage, AnAnswerWithAnotherDigestIsRefused) {
  FakeRegistry registry;
  const std::string manifest = registry.put_image();
  registry.tag(manifest);
  registry.put("manifests/" + manifest, R"({"config": {}})");
  EXPECT_THAT(
      failure_of(registry.image("@" + manifest)),
      AllOf(HasSubstr("corrupt: the registry 127.0.0.1:"), HasSubstr("has sent content with the digest"),
            HasSubstr("instead of " + manifest.substr(0, 40))));

  registry.put("manifests/2", json{{"config", {{"digest", "sha256:" + std::string(64, '0')}}}}.dump());
  registry.put("blobs/sha256:" + std::string(64, '0'), "{}");
  EXPECT_THAT(failure_of(registry.image(":2")), HasSubstr("instead of sha256:0000"));
}

TEST(ReadImage, TheDigestInTheHeaderMustBeThatOfTheManifest) {
  FakeRegistry registry([](const Asked& asked) -> std::optional<Reply> {
    if (!asked.target.ends_with("/1")) return std::nullopt;
    return whole(200, R"({"config": {}})", "Docker-Content-Digest: sha256:00\r\n");
  });
  EXPECT_THAT(failure_of(registry.image()), HasSubstr("instead of sha256:00"));
}

TEST(ReadImage, AnEndlessAnswerIsCut) {
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
  FakeRegistry registry([&](const Asked& asked) -> std::optional<Reply> {
    if (asked.target.ends_with("/body")) return wire::endless(head + "\r\n", std::string(65536, ' '));
    if (asked.target.ends_with("/headers"))
      return wire::endless(head, "X: " + std::string(8000, 'x') + "\r\n");
    return std::nullopt;
  });
  EXPECT_THAT(failure_of(registry.image(":body")), HasSubstr("is larger than 4 MiB"));
  EXPECT_THAT(failure_of(registry.image(":headers")), HasSubstr("has more than 256 KiB of headers"));
}

TEST(ReadImage, ASilentRegistryIsGivenUp) {
  FakeRegistry registry([](const Asked&) { return wire::stall(); });
  EXPECT_THAT(failure_of(registry.image(), "", {}, {.total_max = Seconds(0.3)}),
              HasSubstr("has not answered within 300 ms; try again later"));
}

TEST(ReadImage, ARegistryThatFallsSilentWithinAnAnswerIsGivenUp) {
  FakeRegistry registry([](const Asked&) {
    return Reply{{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"}, Reply::Then::stall};
  });
  EXPECT_THAT(failure_of(registry.image(), "", {}, {.total_max = Seconds(0.3)}),
              HasSubstr("has not answered within 300 ms; try again later"));
}

TEST(ReadImage, ARegistryThatIsAwayIsNamed) {
  std::string image;
  {
    const FakeRegistry registry;
    image = registry.image();
  }
  EXPECT_THAT(failure_of(image), AllOf(HasSubstr("unavailable: 127.0.0.1:"), HasSubstr("cannot be reached")));
  FakeRegistry broken([](const Asked&) { return wire::hang_up(); });
  EXPECT_THAT(failure_of(broken.image()), HasSubstr("unavailable: 127.0.0.1:"));
}

TEST(ReadImage, StatusesAreExplained) {
  FakeRegistry registry([](const Asked& asked) -> std::optional<Reply> {
    return whole(std::stoi(asked.target.substr(asked.target.rfind('/') + 1)), "{}");
  });
  EXPECT_THAT(failure_of(registry.image(":404")), HasSubstr("not_found: the registry"));
  EXPECT_THAT(failure_of(registry.image(":429")), HasSubstr("permits no more requests at present"));
  EXPECT_THAT(failure_of(registry.image(":503")),
              HasSubstr("has answered with the status 503; try again later"));
  EXPECT_THAT(failure_of(registry.image(":403")), HasSubstr("refused: "));
}

TEST(ReadImage, ACancelledRequestEnds) {
  FakeRegistry registry([](const Asked&) { return wire::stall(); });
  std::stop_source stop;
  std::jthread caller([&] {
    registry.server().wait_for_requests(1);
    stop.request_stop();
  });
  const Error error =
      error_in([&] { (void)read_image({.image = registry.image(), .platform = ""}, stop.get_token()); });
  EXPECT_EQ(error.kind(), ErrorKind::cancelled);
}

// ---- Redirects

TEST(ReadImage, RedirectsAreFollowedWithoutCredentialsForOtherHosts) {
  FakeRegistry storage;
  storage.put_image();
  FakeRegistry registry([&](const Asked& asked) -> std::optional<Reply> {
    if (asked.head.find("Authorization: Basic") == std::string::npos)
      return whole(401, "{}", "WWW-Authenticate: Basic realm=\"x\"\r\n");
    if (!asked.target.starts_with("/v2/lab/x/blobs/")) return std::nullopt;
    return whole(307, "", "Location: http://" + storage.host() + asked.target + "\r\n");
  });
  registry.tag(registry.put_image());
  EXPECT_EQ(read(registry.image(), "", {.user = "u", .password = "p"}).platform, "linux/amd64");
  ASSERT_EQ(storage.server().asked().size(), 1U);
  EXPECT_THAT(storage.server().asked()[0].head, Not(HasSubstr("Authorization")));
}

TEST(ReadImage, RedirectsEnd) {
  FakeRegistry registry([](const Asked& asked) -> std::optional<Reply> {
    return whole(302, "", "Location: " + asked.target + "\r\n");
  });
  EXPECT_THAT(failure_of(registry.image()), HasSubstr("redirects more than 5 times"));
}

TEST(ReadImage, ARedirectMustBePermitted) {
  for (const std::string location : {"http://registry.example.com/x", "file:///etc/passwd", "http://",
                                     "ftp://x/", "http://u:p@127.0.0.1:1/"}) {
    FakeRegistry registry([&](const Asked&) { return whole(302, "", "Location: " + location + "\r\n"); });
    EXPECT_THAT(failure_of(registry.image()), HasSubstr("redirects to")) << location;
  }
}

// ---- Logins

TEST(ReadImage, BasicCredentialsAreSentIfTheRegistryAsks) {
  FakeRegistry registry([](const Asked& asked) -> std::optional<Reply> {
    if (has_header(asked, "Authorization: Basic dTpwOnE=")) return std::nullopt;  // u:p:q
    return whole(401, "{}", "WWW-Authenticate: Basic realm=\"x\"\r\n");
  });
  registry.tag(registry.put_image());
  EXPECT_EQ(read(registry.image(), "", {.user = "u", .password = "p:q"}).platform, "linux/amd64");
  EXPECT_EQ(
      failure_of(registry.image()),
      "refused: the registry " + registry.host() +
          " requires a login (status 401), or it has no such image; check `image`, and log in with `docker "
          "login " +
          registry.host() + "`");
  EXPECT_THAT(failure_of(registry.image(), "", {.user = "u", .password = "wrong"}),
              AllOf(HasSubstr("refuses the credentials"), Not(HasSubstr("wrong"))));
}

// A registry whose token server is `tokens`.
class TokenTest : public testing::Test {
 protected:
  std::optional<Reply> guard(const Asked& asked) {
    if (has_header(asked, "Authorization: Bearer secret-token")) return std::nullopt;
    return whole(401, "{}",
                 "WWW-Authenticate: Basic realm=\"x\", Bearer realm=\"http://" + tokens_.host() +
                     "/token?x=1\",service=\"the registry\",scope=\"repository:lab/x:pull\"\r\n");
  }

  std::function<Reply(const Asked&)> give_ = [](const Asked&) {
    return whole(200, R"({"token": "secret-token"})");
  };
  FakeRegistry tokens_{[this](const Asked& asked) { return give_(asked); }};
  FakeRegistry registry_{[this](const Asked& asked) { return guard(asked); }};
};

TEST_F(TokenTest, ATokenIsFetchedOnceForAllRequests) {
  registry_.tag(registry_.put_image());
  EXPECT_EQ(read(registry_.image()).platform, "linux/amd64");
  EXPECT_THAT(tokens_.server().lines(),
              ElementsAre("GET /token?x=1&service=the%20registry&scope=repository%3Alab%2Fx%3Apull"));
  EXPECT_THAT(tokens_.server().asked()[0].head, Not(HasSubstr("Authorization")));
}

TEST_F(TokenTest, TheTokenServerReceivesTheCredentials) {
  registry_.tag(registry_.put_image());
  give_ = [](const Asked&) { return whole(200, R"({"access_token": "secret-token"})"); };
  EXPECT_EQ(read(registry_.image(), "", {.user = "u", .password = "p"}).platform, "linux/amd64");
  EXPECT_TRUE(has_header(tokens_.server().asked().at(0), "Authorization: Basic dTpw"));
  for (const Asked& asked : registry_.server().asked()) EXPECT_THAT(asked.head, Not(HasSubstr("Basic")));
}

TEST_F(TokenTest, AnIdentityTokenIsExchanged) {
  registry_.tag(registry_.put_image());
  EXPECT_EQ(read(registry_.image(), "", {.identity_token = "id&entity"}).platform, "linux/amd64");
  const Asked asked = tokens_.server().asked().at(0);
  EXPECT_EQ(asked.method, "POST");
  EXPECT_THAT(asked.body,
              AllOf(HasSubstr("grant_type=refresh_token"), HasSubstr("refresh_token=id%26entity")));
}

TEST_F(TokenTest, FailuresOfTheTokenServerAreExplained) {
  registry_.tag(registry_.put_image());
  const auto failure = [&](const Reply& reply) {
    give_ = [reply](const Asked&) { return reply; };
    return failure_of(registry_.image(), "", {.user = "u", .password = "secret"});
  };
  EXPECT_THAT(failure(whole(401, "{}")), HasSubstr("refused: "));
  EXPECT_THAT(failure(whole(500, "{}")), HasSubstr("unavailable: "));
  EXPECT_THAT(failure(whole(200, R"({"token": "other-token"})")), HasSubstr("refuses the credentials"));
  for (const std::string body :
       {"", "[]", "{}", R"({"token": 7})", R"({"token": "a b"})", R"({"token": "a\r\nX: y"})"})
    EXPECT_THAT(failure(whole(200, body)), HasSubstr("has sent no valid token")) << body;
  EXPECT_THAT(failure(wire::endless("HTTP/1.1 200 OK\r\n\r\n", std::string(65536, ' '))),
              HasSubstr("is larger than 1 MiB"));
}

TEST(ReadImage, CredentialsAreNotSentWithoutEncryption) {
  for (const std::string realm : {"http://tokens.example.com/", "ftp://x/", ""}) {
    FakeRegistry registry([&](const Asked&) {
      return whole(401, "{}", "WWW-Authenticate: Bearer realm=\"" + realm + "\"\r\n");
    });
    EXPECT_THAT(failure_of(registry.image(), "", {.user = "u", .password = "p"}),
                testing::AnyOf(HasSubstr("without encryption"), HasSubstr("names no valid token server")))
        << realm;
  }
}

TEST(ReadImage, OddChallengesCountAsRequiredLogins) {
  for (const std::string challenge : {"", "Negotiate", ",,,=\"", "Basic", "realm=\"x\"", "\"\\",
                                      "Digest realm=\"\\\"\", nonce=", "==,=,"}) {
    FakeRegistry registry(
        [&](const Asked&) { return whole(401, "{}", "WWW-Authenticate: " + challenge + "\r\n"); });
    EXPECT_THAT(failure_of(registry.image()), HasSubstr("refused: ")) << challenge;
  }
}

TEST(Loopback, OnlyAddressesOfThisMachineNeedNoEncryption) {
  for (const char* const host :
       {"localhost", "localhost:5000", "127.0.0.1", "127.0.0.1:5000", "127.1.2.3:1", "[::1]:5000"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* const host : {"", "localhost.example.com", "127.example.com:1", "10.0.0.1", "[::2]:1",
                                 "docker.io", "127.0.0.1.example.com", "[::]", "[::ffff:127.0.0.1"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace combu::registry
