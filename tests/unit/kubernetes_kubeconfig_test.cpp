// The search for kubeconfig files, and their merge.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "kubernetes/kubeconfig.hpp"
#include "kubernetes_fixture.hpp"

namespace combu::kubernetes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* k_lab = R"(
apiVersion: v1
kind: Config
current-context: lab
contexts:
- name: lab
  context: {cluster: lab, user: me, namespace: research}
- name: other
  context: {cluster: far, user: me}
clusters:
- name: lab
  cluster:
    server: https://lab.example:6443
    certificate-authority: pki/ca.pem
    tls-server-name: kubernetes
- name: far
  cluster: {server: "https://far.example", insecure-skip-tls-verify: true, disable-compression: true,
            proxy-url: "socks5://proxy:1080"}
users:
- name: me
  user:
    client-certificate: me.pem
    client-key: /keys/me.pem
    tokenFile: ../token
)";

class KubeconfigTest : public testing::Test {
 protected:
  // Finds the settings if KUBECONFIG has this value.
  [[nodiscard]] Access find(const std::string& kubeconfig, const std::string& context = "",
                            const std::string& name_space = "") const {
    return find_access(environment_of({{"KUBECONFIG", kubeconfig}, {"HOME", folder_.path("home")}}), context,
                       name_space, folder_.path("account"));
  }
  // Returns the error for a file with this content.
  [[nodiscard]] Error error_for(const std::string& content, const std::string& context = "") const {
    const std::string path = folder_.write("bad", content);
    return error_in([&] { (void)find(path, context); });
  }
  // Returns the settings for a user with these fields, in the flow style of YAML.
  [[nodiscard]] static std::string with_user(const std::string& user) {
    return "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: u}}]\n"
           "clusters: [{name: a, cluster: {server: 'https://a'}}]\nusers: [{name: u, user: " +
           user + "}]\n";
  }

  TestFolder folder_;
};

TEST_F(KubeconfigTest, TheFileInTheHomeFolderIsTheDefault) {
  folder_.write("home/.kube/config", k_lab);
  const Access access = find("");
  EXPECT_EQ(access.context, "lab");
  EXPECT_EQ(access.name_space, "research");
  EXPECT_EQ(access.cluster.server, "https://lab.example:6443");
  EXPECT_EQ(access.cluster.address.host, "lab.example");
  EXPECT_EQ(access.cluster.tls_server_name, "kubernetes");
  EXPECT_FALSE(access.cluster.skips_tls_verify);
  EXPECT_FALSE(access.cluster.disables_compression);
  EXPECT_EQ(access.account.source, "user me of " + folder_.path("home/.kube/config"));
}

TEST_F(KubeconfigTest, PathsAreRelativeToTheirFile) {
  folder_.write("home/.kube/config", k_lab);
  const Access access = find("");
  EXPECT_EQ(access.cluster.authorities.file, folder_.path("home/.kube/pki/ca.pem"));
  EXPECT_EQ(access.account.certificate.file, folder_.path("home/.kube/me.pem"));
  EXPECT_EQ(access.account.key.file, "/keys/me.pem");
  EXPECT_EQ(access.account.token_file, folder_.path("home/token"));
}

TEST_F(KubeconfigTest, TheCallerChoosesContextAndNamespace) {
  const std::string path = folder_.write("config", k_lab);
  const Access access = find(path, "other");
  EXPECT_EQ(access.context, "other");
  EXPECT_EQ(access.name_space, "default");
  EXPECT_TRUE(access.cluster.skips_tls_verify);
  EXPECT_TRUE(access.cluster.disables_compression);
  EXPECT_EQ(access.proxy, "socks5://proxy:1080");
  EXPECT_EQ(find(path, "other", "mine").name_space, "mine");
  EXPECT_EQ(find(path, "", "mine").name_space, "mine");
}

TEST_F(KubeconfigTest, TheFirstFileWithAnEntryOrAValueWins) {
  folder_.write("one", R"(
clusters: [{name: lab, cluster: {server: "https://one"}}]
users:
)");
  folder_.write("two", R"(
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: me, namespace: two}}]
clusters: [{name: lab, cluster: {server: "https://two", tls-server-name: two}}]
)");
  folder_.write("three", R"(
current-context: ignored
contexts: [{name: lab, context: {cluster: lab, namespace: three}}]
users: [{name: me, user: {token: three}}]
)");
  const Access access = find(folder_.path("one") + ":" + folder_.path("absent") + "::" + folder_.path("two") +
                             ":" + folder_.path("three"));
  EXPECT_EQ(access.context, "lab");
  EXPECT_EQ(access.name_space, "two");
  EXPECT_EQ(access.cluster.server, "https://one");
  EXPECT_EQ(access.cluster.tls_server_name, "") << "entries of one name are not merged";
  EXPECT_EQ(access.account.token, "three");
}

TEST_F(KubeconfigTest, ASetKubeconfigReplacesTheFileInTheHomeFolder) {
  folder_.write("home/.kube/config", k_lab);
  EXPECT_EQ(error_in([&] { (void)find(folder_.path("absent")); }).kind(), ErrorKind::not_found);
  EXPECT_EQ(error_in([&] { (void)find(":"); }).kind(), ErrorKind::not_found);
}

TEST_F(KubeconfigTest, DataOverrideFiles) {
  const std::string pem = "-----BEGIN CERTIFICATE-----\n";
  const std::string data = encode_base64url(pem);
  const std::string path =
      folder_.write("config",
                    "current-context: a\ncontexts: [{name: a, context: {cluster: a, user: u}}]\nclusters: "
                    "[{name: a, cluster: {server: "
                    "'https://a', certificate-authority: x, certificate-authority-data: " +
                        data + "}}]\nusers: [{name: u, user: {client-certificate-data: " + data +
                        ", client-key: k, client-key-data: " + data + "}}]\n");
  const Access access = find(path);
  for (const Pem& found : {access.cluster.authorities, access.account.certificate, access.account.key}) {
    EXPECT_EQ(found.text, pem);
    EXPECT_EQ(found.file, "");
  }
}

TEST_F(KubeconfigTest, AContextWithoutUserIsAnonymous) {
  const Access access = find(folder_.write("config",
                                           "current-context: a\ncontexts: [{name: a, context: {cluster: "
                                           "a}}]\nclusters: [{name: a, cluster: {server: 'http://a'}}]"));
  EXPECT_FALSE(access.account.exec);
  EXPECT_EQ(access.account.token + access.account.token_file + access.account.username, "");
}

TEST_F(KubeconfigTest, APluginIsRead) {
  const Access access = find(folder_.write("config", R"(
current-context: a
contexts: [{name: a, context: {cluster: a, user: u}}]
clusters:
- name: a
  cluster:
    server: https://a
    extensions:
    - {name: other, extension: 1}
    - name: client.authentication.k8s.io/exec
      extension: {audience: lab, count: 3, quoted: "3", on: true, list: [a, null]}
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: bin/login
      args: [--for, lab]
      env: [{name: ZONE, value: a b}]
      interactiveMode: IfAvailable
      provideClusterInfo: true
      installHint: install it
)"));
  const ExecPlugin& plugin = access.account.exec.value();
  EXPECT_EQ(plugin.command, folder_.path("bin/login"));
  EXPECT_THAT(plugin.arguments, ElementsAre("--for", "lab"));
  EXPECT_THAT(plugin.environment, ElementsAre("ZONE=a b"));
  EXPECT_EQ(plugin.api_version, "client.authentication.k8s.io/v1");
  EXPECT_FALSE(plugin.needs_terminal);
  EXPECT_TRUE(plugin.wants_cluster);
  EXPECT_EQ(plugin.install_hint, "install it");
  EXPECT_EQ(nlohmann::json::parse(access.cluster.exec_config),
            nlohmann::json::parse(
                R"({"audience": "lab", "count": 3, "quoted": "3", "on": true, "list": ["a", null]})"));
}

TEST_F(KubeconfigTest, APluginWithoutSlashIsSearchedInPath) {
  const std::string v1 = "client.authentication.k8s.io/v1";
  const Access access = find(folder_.write(
      "config", with_user("{exec: {apiVersion: " + v1 + "beta1, command: login, interactiveMode: Always}}")));
  EXPECT_EQ(access.account.exec.value().command, "login");
  EXPECT_TRUE(access.account.exec.value().needs_terminal);
  EXPECT_FALSE(
      find(folder_.write("config", with_user("{exec: {apiVersion: " + v1 + "beta1, command: login}}")))
          .account.exec.value()
          .needs_terminal);
}

TEST_F(KubeconfigTest, AKubeconfigMayBeJson) {
  const Access access =
      find(folder_.write("config", R"({"current-context": "a", "contexts": [{"name": "a", "context":
      {"cluster": "a"}}], "clusters": [{"name": "a", "cluster": {"server": "https://a"}}], "users": null})"));
  EXPECT_EQ(access.cluster.server, "https://a");
}

TEST_F(KubeconfigTest, TheProxyOfTheEnvironmentIsTheDefault) {
  const std::string path = folder_.write("config", k_lab);
  const auto env = environment_of({{"KUBECONFIG", path}, {"HTTPS_PROXY", "http://proxy:3128"}});
  EXPECT_EQ(find_access(env, "lab", "").proxy, "http://proxy:3128");
  EXPECT_EQ(find_access(env, "lab", "").cluster.proxy_url, "");
  EXPECT_EQ(find_access(env, "other", "").proxy, "socks5://proxy:1080");
}

// ---- In a pod

TEST_F(KubeconfigTest, APodUsesItsServiceAccount) {
  folder_.write("account/namespace", "research\n");
  folder_.write("account/ca.crt", "x");
  const auto in_pod = [&](const std::string& host, const std::string& context) {
    return find_access(environment_of({{"HOME", folder_.path("home")},
                                       {"KUBERNETES_SERVICE_HOST", host},
                                       {"KUBERNETES_SERVICE_PORT", "443"}}),
                       context, "", folder_.path("account"));
  };
  const Access access = in_pod("fd00::1", "");
  EXPECT_EQ(access.context, "in-cluster");
  EXPECT_EQ(access.name_space, "research");
  EXPECT_EQ(access.cluster.server, "https://[fd00::1]:443");
  EXPECT_EQ(access.cluster.authorities.file, folder_.path("account/ca.crt"));
  EXPECT_EQ(access.account.token_file, folder_.path("account/token"));
  EXPECT_EQ(in_pod("10.0.0.1", "").cluster.server, "https://10.0.0.1:443");
  EXPECT_EQ(error_in([&] { (void)in_pod("10.0.0.1", "lab"); }).kind(), ErrorKind::not_found);
  folder_.write("home/.kube/config", k_lab);
  EXPECT_EQ(in_pod("10.0.0.1", "").context, "lab") << "a kubeconfig file overrides the service account";
}

// ---- Errors

TEST_F(KubeconfigTest, WithoutSettingsTheErrorNamesTheRemedy) {
  const Error error = error_in([&] { (void)find(""); });
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  EXPECT_EQ(error.subject(), folder_.path("home/.kube/config"));
  EXPECT_THAT(error.message(), HasSubstr("set KUBECONFIG to"));
  folder_.write("home/.kube/config", "\n");
  EXPECT_EQ(error_in([&] { (void)find(""); }).kind(), ErrorKind::not_found) << "an empty file is as no file";
}

TEST_F(KubeconfigTest, AnUnknownContextListsTheContexts) {
  const Error error = error_for(k_lab, "labb");
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  EXPECT_EQ(error.what(),
            "context labb: does not exist in " + folder_.path("bad") + "; the contexts are lab, other");
  EXPECT_THAT(error_for("contexts: []", "x").message(), HasSubstr("there are no contexts"));
}

TEST_F(KubeconfigTest, AMissingCurrentContextListsTheContexts) {
  const Error error = error_for("contexts: [{name: a, context: {cluster: c}}]");
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), folder_.path("bad"));
  EXPECT_THAT(error.message(), HasSubstr("current-context is not set"));
  EXPECT_THAT(error.message(), HasSubstr("the contexts are a"));
}

TEST_F(KubeconfigTest, EntriesThatDoNotExistAreErrors) {
  EXPECT_EQ(
      error_for("current-context: a\ncontexts: [{name: a, context: {cluster: gone, user: u}}]").message(),
      "the cluster gone of context a does not exist; correct the context");
  EXPECT_EQ(error_for("current-context: a\ncontexts: [{name: a, context: {cluster: c, user: gone}}]\n"
                      "clusters: [{name: c, cluster: {server: 'https://c'}}]")
                .message(),
            "the user gone of context a does not exist; correct the context");
}

TEST_F(KubeconfigTest, BrokenYamlIsReportedWithItsLine) {
  const Error error = error_for("contexts:\n- name: a\n  context: {cluster: a\nusers: []\n");
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), folder_.path("bad"));
  EXPECT_THAT(error.message(), HasSubstr("line 4, column "));
  EXPECT_THAT(error_for(std::string(100'000, '[')).message(), HasSubstr("is not YAML"));
  EXPECT_EQ(error_for("- a").message(), "the file: must be a mapping");
}

TEST_F(KubeconfigTest, AFolderIsNoKubeconfig) {
  EXPECT_EQ(error_in([&] { (void)find(folder_.path(".")); }).kind(), ErrorKind::invalid);
}

TEST_F(KubeconfigTest, WrongValuesAreReportedWithTheirPlace) {
  const std::string exec = "apiVersion: client.authentication.k8s.io/v1";
  const std::map<std::string, std::string> users{
      {"{token: [a]}", "users[0].user.token: must be text"},
      {"[a]", "users[0].user: must be a mapping"},
      {"{client-key-data: '!!'}", "users[0].user.client-key-data: must be the Base64 of PEM text"},
      {"{client-key: a}", "users[0].user: must have both client-certificate and client-key, or none of them"},
      {"{token: a, username: b}", "users[0].user: must have either a token or a username"},
      {"{as: root}", "users[0].user.as: combu does not support impersonation; remove the field"},
      {"{exec: {}}", "users[0].user.exec.command: is missing"},
      {"{exec: {command: a, apiVersion: client.authentication.k8s.io/v1alpha1}}",
       "users[0].user.exec.apiVersion: must be client.authentication.k8s.io/v1 or "
       "client.authentication.k8s.io/v1beta1"},
      {"{exec: {command: a, " + exec + "}}",
       "users[0].user.exec.interactiveMode: must be Never, IfAvailable or Always"},
      {"{exec: {command: a, args: {}, " + exec + "}}", "users[0].user.exec.args: must be a list of texts"},
      {"{exec: {command: a, env: 3, interactiveMode: Never, " + exec + "}}",
       "users[0].user.exec.env: must be a list"},
  };
  for (const auto& [user, message] : users) {
    const Error error = error_for(with_user(user));
    EXPECT_EQ(error.kind(), ErrorKind::invalid) << user;
    EXPECT_EQ(error.message(), message) << user;
  }
  EXPECT_THAT(error_for(with_user("{auth-provider: {name: gcp}}")).message(),
              HasSubstr("auth-provider: is not supported"));
}

TEST_F(KubeconfigTest, WrongClustersAreReportedWithTheirPlace) {
  const std::map<std::string, std::string> clusters{
      {"{}", "clusters[0].cluster.server: must be the URL of an API server, such as https://HOST:6443"},
      {"{server: 'a:6443'}",
       "clusters[0].cluster.server: must be the URL of an API server, such as https://HOST:6443"},
      {"{server: 'https://a', insecure-skip-tls-verify: maybe}",
       "clusters[0].cluster.insecure-skip-tls-verify: must be true or false"},
      {"{server: 'https://a', insecure-skip-tls-verify: true, certificate-authority: x}",
       "clusters[0].cluster.insecure-skip-tls-verify: conflicts with certificate-authority; remove one of "
       "them"},
      {"{server: 'https://a', extensions: [{name: client.authentication.k8s.io/exec, extension: &a [*a]}]}",
       "clusters[0].cluster.extensions[0]: is too large"},
  };
  for (const auto& [cluster, message] : clusters)
    EXPECT_EQ(error_for("current-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: "
                        "a, cluster: " +
                        cluster + "}]")
                  .message(),
              message);
}

TEST_F(KubeconfigTest, MessagesContainNoCredentials) {
  for (const std::string& content :
       {with_user("{token: my-secret, username: u}"), with_user("{client-key-data: my-secret}"),
        std::string("users: [{name: u, user: {token: my-secret}}, }"),
        std::string("users: {name: u, user: {token: my-secret}}\ncurrent-context: a")}) {
    const Error error = error_for(content);
    EXPECT_THAT(error.what(), Not(HasSubstr("my-secret")));
  }
}

}  // namespace
}  // namespace combu::kubernetes
