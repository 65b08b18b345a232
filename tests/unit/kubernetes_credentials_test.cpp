// Credentials from kubeconfig files, token files and plugins.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "kubernetes/credentials.hpp"
#include "kubernetes/exec_plugin.hpp"
#include "kubernetes_fixture.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(CredentialsTest, OfTheKubeconfigNeverChange) {
  Access access = access_to("https://a");
  access.account.username = "me";
  access.account.password = "secret";
  access.account.certificate.text = "certificate";
  access.account.key.text = "key";
  Credentials credentials(access);
  const auto identity = credentials.current({});
  EXPECT_EQ(identity->token, "");
  EXPECT_EQ(identity->username, "me");
  EXPECT_EQ(identity->password, "secret");
  EXPECT_EQ(identity->certificate, "certificate");
  EXPECT_EQ(identity->key, "key");
  EXPECT_FALSE(credentials.discard(identity));
  EXPECT_EQ(credentials.current({}), identity);
}

TEST(CredentialsTest, ATokenWithALineEndIsRefused) {
  Access access = access_to("https://a");
  access.account.token = "my-secret\r\nHost: x";
  const Error error = error_in([&] { const Credentials credentials(access); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_THAT(error.what(), Not(HasSubstr("my-secret")));
}

// ---- Files

class CredentialFilesTest : public testing::Test {
 protected:
  CredentialFilesTest() { access_.account.token_file = folder_.write("token", "one\n"); }

  TestFolder folder_;
  StillClock clock_;
  Access access_ = access_to("https://a");
};

TEST_F(CredentialFilesTest, AreReadAgainAfterAMinute) {
  access_.account.certificate.file = folder_.write("certificate", "certificate 1");
  access_.account.key.file = folder_.write("key", "key 1");
  Credentials credentials(access_, clock_);
  EXPECT_EQ(credentials.current({})->token, "one");
  folder_.write("token", "two");
  folder_.write("certificate", "certificate 2");
  folder_.write("key", "key 2");
  clock_.advance(Seconds{59});
  EXPECT_EQ(credentials.current({})->token, "one");
  EXPECT_EQ(credentials.current({})->certificate, "certificate 1");
  clock_.advance(Seconds{1});
  EXPECT_EQ(credentials.current({})->token, "two");
  EXPECT_EQ(credentials.current({})->certificate, "certificate 2");
  EXPECT_EQ(credentials.current({})->key, "key 2");
}

TEST_F(CredentialFilesTest, AreReadAgainAfterTheServerHasRefusedThem) {
  Credentials credentials(access_, clock_);
  const auto refused = credentials.current({});
  folder_.write("token", "two");
  EXPECT_TRUE(credentials.discard(refused));
  const auto renewed = credentials.current({});
  EXPECT_EQ(renewed->token, "two");
  EXPECT_TRUE(credentials.discard(refused));
  EXPECT_EQ(credentials.current({}), renewed) << "another thread has already renewed the refused token";
}

TEST_F(CredentialFilesTest, IfTheFileIsGoneTheOldTokenStays) {
  Credentials credentials(access_, clock_);
  const auto identity = credentials.current({});
  std::filesystem::remove(access_.account.token_file);
  clock_.advance(Seconds{60});
  EXPECT_EQ(credentials.current({})->token, "one");
  EXPECT_TRUE(credentials.discard(credentials.current({})));
  const Error error = error_in([&] { (void)credentials.current({}); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), access_.account.token_file);
  folder_.write("token", "two");
  EXPECT_EQ(credentials.current({})->token, "two") << "an error is not final";
}

TEST_F(CredentialFilesTest, ATokenOfTheKubeconfigReplacesAMissingFile) {
  access_.account.token = "fixed";
  EXPECT_EQ(Credentials(access_, clock_).current({})->token, "one");
  std::filesystem::remove(access_.account.token_file);
  EXPECT_EQ(Credentials(access_, clock_).current({})->token, "fixed");
}

TEST_F(CredentialFilesTest, MustContainAToken) {
  for (const std::string content : {"", " \n", "two words"}) {
    folder_.write("token", content);
    const Error error = error_in([&] { (void)Credentials(access_, clock_).current({}); });
    EXPECT_EQ(error.kind(), ErrorKind::invalid) << content;
    EXPECT_EQ(error.subject(), access_.account.token_file);
  }
}

// ---- Plugins

class PluginTest : public testing::Test {
 protected:
  PluginTest() {
    access_.account.exec = ExecPlugin{.command = folder_.path("login"),
                                      .environment = {"FOLDER=" + folder_.path("")},
                                      .api_version = "client.authentication.k8s.io/v1"};
  }

  // Writes a plugin that appends a line to the file `calls` and then runs `script`, in which $n is the number
  // of lines.
  void plugin(const std::string& script) const {
    folder_.program("login", "echo called >> $FOLDER/calls; n=$(wc -l < $FOLDER/calls)\n" + script);
  }
  // Writes a plugin that prints this status.
  void plugin_prints(const std::string& status) const {
    plugin(
        "cat <<END\n{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", "
        "\"status\": " +
        status + "}\nEND\n");
  }
  [[nodiscard]] std::size_t calls() const {
    return content_of(folder_.path("calls")).size() / sizeof("called");
  }
  [[nodiscard]] Error error(const std::stop_token& stop = {}) {
    return error_in([&] { (void)Credentials(access_, clock_).current(stop); });
  }

  TestFolder folder_;
  StillClock clock_;
  Access access_ = access_to("https://a");
};

TEST_F(PluginTest, RunsOnceWithoutAnExpirationTimestamp) {
  plugin_prints(R"({"token": "token-$n"})");
  Credentials credentials(access_, clock_);
  EXPECT_EQ(credentials.current({})->token, "token-1");
  clock_.advance(Seconds{1e7});
  EXPECT_EQ(credentials.current({})->token, "token-1");
}

TEST_F(PluginTest, RunsAgainAfterTheExpirationTimestamp) {
  plugin_prints(R"({"token": "token-$n", "expirationTimestamp": "2026-01-01T12:0$n:00Z"})");
  Credentials credentials(access_, clock_);
  EXPECT_EQ(credentials.current({})->token, "token-1");
  clock_.advance(Seconds{59});
  EXPECT_EQ(credentials.current({})->token, "token-1");
  clock_.advance(Seconds{1});
  EXPECT_EQ(credentials.current({})->token, "token-2");
}

TEST_F(PluginTest, RunsAgainAfterTheServerHasRefusedItsCredentials) {
  plugin_prints(
      R"({"token": "token-$n", "clientCertificateData": "certificate $n", "clientKeyData": "key $n"})");
  Credentials credentials(access_, clock_);
  const auto refused = credentials.current({});
  EXPECT_EQ(refused->certificate, "certificate 1");
  EXPECT_EQ(refused->key, "key 1");
  EXPECT_TRUE(credentials.discard(refused));
  EXPECT_EQ(credentials.current({})->token, "token-2");
  EXPECT_EQ(credentials.current({})->certificate, "certificate 2");
}

TEST_F(PluginTest, RunsOnceForAllThreads) {
  plugin_prints(R"({"token": "token-$n"})");
  Credentials credentials(access_, clock_);
  std::vector<std::string> tokens(8);
  in_parallel(tokens.size(), tokens.size(),
              [&](std::size_t i) { tokens[i] = credentials.current({})->token; });
  EXPECT_EQ(tokens, std::vector<std::string>(tokens.size(), "token-1"));
  EXPECT_EQ(calls(), 1U);
}

TEST_F(PluginTest, HasItsArgumentsAndEnvironmentAndNoInput) {
  ::setenv("COMBU_TEST_ZONE", "outer", 1);  // NOLINT(concurrency-mt-unsafe): no other thread runs
  access_.account.exec->arguments = {"--for", "a b"};
  access_.account.exec->environment.emplace_back("COMBU_TEST_ZONE=inner");
  plugin(R"sh(cat > $FOLDER/input
    echo "$#,$2,$COMBU_TEST_ZONE,$(tr '\0' '\n' < /proc/$$/environ | grep -c ^COMBU_TEST_ZONE)" > $FOLDER/arguments
    echo "$KUBERNETES_EXEC_INFO" > $FOLDER/info
    (: < /dev/tty) && exit 8
    exit 9)sh");
  EXPECT_THAT(error().message(), HasSubstr("failed with exit code 9"));
  ::unsetenv("COMBU_TEST_ZONE");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_EQ(content_of(folder_.path("input")), "");
  EXPECT_EQ(content_of(folder_.path("arguments")), "2,a b,inner,1\n");
  EXPECT_EQ(json::parse(content_of(folder_.path("info"))),
            json::parse(R"({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                            "spec": {"interactive": false}})"));
}

TEST_F(PluginTest, LearnsTheClusterIfItWantsTo) {
  access_.account.exec->wants_cluster = true;
  access_.cluster.authorities.text = "\xff\xfe>";
  access_.cluster.tls_server_name = "kubernetes";
  access_.cluster.skips_tls_verify = true;
  access_.cluster.disables_compression = true;
  access_.cluster.proxy_url = "http://proxy";
  access_.cluster.exec_config = R"({"audience":"lab"})";
  plugin(R"(echo "$KUBERNETES_EXEC_INFO" > $FOLDER/info; exit 1)");
  EXPECT_EQ(error().kind(), ErrorKind::unavailable);
  json expected = json::parse(R"({"server": "https://a", "certificate-authority-data": "//4+",
      "tls-server-name": "kubernetes", "insecure-skip-tls-verify": true, "disable-compression": true,
      "proxy-url": "http://proxy", "config": {"audience": "lab"}})");
  EXPECT_EQ(json::parse(content_of(folder_.path("info")))["spec"]["cluster"], expected);
  access_.cluster.authorities = {.text = "", .file = folder_.write("ca.pem", "\xff\xfe>")};
  EXPECT_EQ(error().kind(), ErrorKind::unavailable);
  EXPECT_EQ(json::parse(content_of(folder_.path("info")))["spec"]["cluster"], expected);
}

TEST_F(PluginTest, DoesNotRunIfTheAccountHasAToken) {
  plugin_prints(R"({"token": "token-$n"})");
  access_.account.token = "fixed";
  EXPECT_EQ(Credentials(access_, clock_).current({})->token, "fixed");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("calls")));
}

TEST_F(PluginTest, AClientCertificateOfTheAccountOverridesThatOfThePlugin) {
  plugin_prints(R"({"token": "t", "clientCertificateData": "certificate", "clientKeyData": "key"})");
  access_.account.certificate.text = "own certificate";
  access_.account.key.text = "own key";
  const auto identity = Credentials(access_, clock_).current({});
  EXPECT_EQ(identity->token, "t");
  EXPECT_EQ(identity->certificate, "own certificate");
  EXPECT_EQ(identity->key, "own key");
}

TEST_F(PluginTest, MayUseTheOlderVersionOfTheProtocol) {
  access_.account.exec->api_version = "client.authentication.k8s.io/v1beta1";
  plugin(R"(echo '{"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential",
                   "status": {"token": "older"}}')");
  EXPECT_EQ(Credentials(access_, clock_).current({})->token, "older");
}

TEST_F(PluginTest, AMissingProgramIsReportedWithItsInstallHint) {
  access_.account.exec->command = "combu-test-no-such-program";
  EXPECT_EQ(error().kind(), ErrorKind::refused);
  EXPECT_EQ(error().message(),
            "the credential plugin combu-test-no-such-program cannot be run: No such file or directory; "
            "install it, or "
            "correct `command` in the kubeconfig file");
  access_.account.exec->install_hint = "Get it from\n  https://login.example";
  EXPECT_THAT(error().message(), EndsWith("No such file or directory; Get it from https://login.example"));
}

TEST_F(PluginTest, APluginThatNeedsATerminalIsRefused) {
  access_.account.exec->needs_terminal = true;
  EXPECT_EQ(error().kind(), ErrorKind::refused);
  EXPECT_THAT(error().message(), HasSubstr("needs a terminal"));
}

TEST_F(PluginTest, AFailedPluginMayBeRepeated) {
  plugin(R"([ $n = 2 ] || exit 7
            echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}')");
  Credentials credentials(access_, clock_);
  const Error error = error_in([&] { (void)credentials.current({}); });
  EXPECT_EQ(error.kind(), ErrorKind::unavailable);
  EXPECT_EQ(error.subject(), "user lab of config");
  EXPECT_THAT(error.message(),
              EndsWith("failed with exit code 7; type `kubectl --context lab get pods` to see its messages"));
  EXPECT_EQ(credentials.current({})->token, "t");
}

TEST_F(PluginTest, AnswersWithoutCredentialsAreCorrupt) {
  const std::string head = R"("apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential")";
  const std::map<std::string, std::string> answers{
      {"my-secret", "did not print an ExecCredential object"},
      {"{\"kind\": \"my-secret\"}", "did not print an ExecCredential object"},
      {R"({"apiVersion": "v1", "kind": "ExecCredential", "status": {"token": "my-secret"}})",
       "printed credentials of version v1 instead of client.authentication.k8s.io/v1"},
      {"{" + head + "}", "printed no credentials"},
      {"{" + head + R"(, "status": "my-secret"})", "printed no credentials"},
      {"{" + head + R"(, "status": {}})", "printed neither a token nor a client certificate"},
      {"{" + head + R"(, "status": {"token": 3}})", "printed neither a token nor a client certificate"},
      {"{" + head + R"(, "status": {"clientKeyData": "my-secret"}})", "must print both"},
      {"{" + head + R"(, "status": {"token": "my-secret", "expirationTimestamp": "soon"}})",
       "is not a time of RFC 3339"},
      {"{" + head + R"(, "status": {"token": "my-secret\r\nx"}})", "must be one word"},
  };
  for (const auto& [answer, message] : answers) {
    plugin("cat <<'END'\n" + answer + "\nEND\n");
    const Error found = error();
    EXPECT_EQ(found.kind(), ErrorKind::corrupt) << answer;
    EXPECT_THAT(found.message(), HasSubstr(message)) << answer;
    EXPECT_THAT(found.what(), Not(HasSubstr("my-secret"))) << answer;
  }
  plugin("exec cat /dev/zero");
  EXPECT_THAT(error().message(), HasSubstr("printed more than 1 MiB"));
}

TEST_F(PluginTest, APluginThatHangsIsKilledWithItsChildren) {
  plugin("mkfifo $FOLDER/never; cat $FOLDER/never & echo $! > $FOLDER/child; wait");
  const Error error = error_in([&] { (void)run_plugin(access_, Seconds{0.5}, {}); });
  EXPECT_EQ(error.kind(), ErrorKind::unavailable);
  EXPECT_THAT(error.message(), HasSubstr("the credential plugin"));
  EXPECT_THAT(error.message(), HasSubstr("did not end within 500 ms"));
  EXPECT_THAT(error.message(), EndsWith("type `kubectl --context lab get pods` to see its messages"));
  const std::string child(trimmed(content_of(folder_.path("child"))));
  while (std::filesystem::exists("/proc/" + child + "/cwd")) std::this_thread::yield();  // not a zombie
}

TEST_F(PluginTest, AStopEndsTheWaitForAPlugin) {
  plugin("mkfifo $FOLDER/never; echo > $FOLDER/started; cat $FOLDER/never");
  Credentials credentials(access_, clock_);
  std::stop_source stop;
  // One thread runs the plugin, the other thread waits for the first.
  std::vector<ErrorKind> kinds(2);
  std::vector<std::jthread> threads;
  for (ErrorKind& kind : kinds)
    threads.emplace_back(
        [&] { kind = error_in([&] { (void)credentials.current(stop.get_token()); }).kind(); });
  while (!std::filesystem::exists(folder_.path("started"))) std::this_thread::yield();
  stop.request_stop();
  threads.clear();
  EXPECT_EQ(kinds, (std::vector{ErrorKind::cancelled, ErrorKind::cancelled}));
}

}  // namespace
}  // namespace combu::kubernetes
