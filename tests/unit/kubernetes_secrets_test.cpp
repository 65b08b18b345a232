// Secrets in a cluster: the objects, and the requests of an engine. tests/e2e/kubernetes_secrets_test.py runs
// trials with secrets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/json.hpp"
#include "combu/kubernetes.hpp"
#include "kubernetes/kubernetes_engine.hpp"
#include "kubernetes/names.hpp"
#include "kubernetes/secrets.hpp"
#include "kubernetes_fixture.hpp"
#include "unit/kubernetes_trials.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const Home k_here{"lab", ""};
constexpr const char* k_value = "hunter2";

std::shared_ptr<const SecretValues> values_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  auto values = std::make_shared<SecretValues>();
  for (auto [name, value] : pairs) values->emplace(name, SecretValue(std::move(value)));
  return values;
}

// A run of a trial that has each kind of secret, as a file and as a variable.
Run run_with_secrets(const std::function<void(Trial&)>& change = [](Trial&) {}) {
  combu::Run run = run_of(trial_of("solver", [&](Trial& trial) {
    trial.container.secrets = std::vector<Secret>{
        {.source = "token", .target = "/run/secrets/token", .path = "trials[0].secrets[0]"},
        {.source = "token", .variable = "TOKEN", .path = "trials[0].secrets[1]"},
        {.source = "there", .target = "/etc/there", .is_in_cluster = true},
        {.source = "there", .variable = "THERE", .is_in_cluster = true}};
    trial.process.entrypoint = {"solve"};  // no registry is asked
    change(trial);
  }));
  run.experiment.secrets = {{.name = "token", .file = "/token", .path = "secrets.token"},
                            {.name = "there", .object = "lab", .key = "key.txt", .path = "secrets.there"},
                            {.name = "unused", .object = "No", .key = "", .path = "secrets.unused"}};
  run.secrets = values_of({{"token", k_value}, {"other", "never"}});
  return run;
}

json pod_spec_of(const Run& run) {
  return pod_manifest(run, run.experiment.trials.front(), 1, k_here)["spec"];
}

TEST(KubernetesSecrets, APodRefersToSecrets) {
  const json spec = pod_spec_of(run_with_secrets());
  EXPECT_EQ(spec["volumes"],
            json::parse(R"([{"name": "combu-secrets", "projected": {"defaultMode": 292, "sources": [
    {"secret": {"name": "combu-k3x9-secrets", "items": [{"key": "token", "path": "0"}]}},
    {"secret": {"name": "lab", "items": [{"key": "key.txt", "path": "1"}]}}]}}])"));
  EXPECT_EQ(spec["containers"][0]["volumeMounts"], json::parse(R"([
    {"name": "combu-secrets", "mountPath": "/run/secrets/token", "subPath": "0", "readOnly": true},
    {"name": "combu-secrets", "mountPath": "/etc/there", "subPath": "1", "readOnly": true}])"));
  EXPECT_EQ(spec["containers"][0]["env"], json::parse(R"([
    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "combu-k3x9-secrets", "key": "token"}}},
    {"name": "THERE", "valueFrom": {"secretKeyRef": {"name": "lab", "key": "key.txt"}}}])"));
}

TEST(KubernetesSecrets, VolumesStayBesideSecrets) {
  const json spec = pod_spec_of(run_with_secrets([](Trial& trial) {
    trial.container.volumes = {{.source = "data", .source_is_path = false, .target = "/data"}};
    trial.container.kubernetes = R"({"pod": {"volumes": [{"name": "own", "emptyDir": {}}]},
      "container": {"volumeMounts": [{"name": "own", "mountPath": "/run/secrets/token"}]}})";
  }));
  EXPECT_THAT(spec["volumes"], SizeIs(3));
  EXPECT_THAT(spec["containers"][0]["volumeMounts"], SizeIs(3)) << "the section replaces one file";
}

TEST(KubernetesSecrets, AManifestHasNoValue) {
  const std::string text = kubernetes_manifests(run_with_secrets(), "lab");
  EXPECT_THAT(text, AllOf(HasSubstr("\"kind\": \"Secret\""), Not(HasSubstr(k_value)),
                          Not(HasSubstr(encode_base64(k_value))), Not(HasSubstr("\"data\""))));
  combu::Run run = run_with_secrets();
  run.experiment.trials[0].container.secrets = {};
  EXPECT_THAT(kubernetes_manifests(run, "lab"), Not(HasSubstr("Secret")));
}

TEST(KubernetesSecrets, TheSecretHasOnlyTheValuesThatPodsNeed) {
  const json object = secret_manifest(run_with_secrets(), {"lab", "uid"});
  EXPECT_EQ(object["data"], (json{{"token", encode_base64(k_value)}}));
  EXPECT_EQ(object["metadata"]["ownerReferences"][0]["uid"], "uid");
  EXPECT_EQ(object["metadata"]["labels"][k_run], "k3x9");
  const auto as_worker = [](Trial& trial) {
    trial.worker = WorkerSettings{.on = true};
    trial.container.secrets = std::vector<Secret>{{.source = "token", .variable = "TOKEN"}};
  };
  EXPECT_FALSE(secret_manifest(run_with_secrets(as_worker), k_here).contains("data"))
      << "an attempt in a worker gets its variables from combu";
  EXPECT_FALSE(needs_secret(run_with_secrets(as_worker).experiment.trials[0]));
}

TEST(KubernetesSecrets, NamesThatNoSecretCanHaveAreRefused) {
  combu::Run run = run_with_secrets();
  run.experiment.secrets[1].object = "Lab";
  run.experiment.secrets[1].key = "a/b";
  EXPECT_THAT(
      texts_of(check_kubernetes_fields(run.experiment)),
      ElementsAre(HasSubstr("secrets.there.kubernetes.secret: \"Lab\" cannot be the name of a Secret"),
                  HasSubstr("secrets.there.kubernetes.key: \"a/b\" cannot be a key of a Secret")));
}

// ---- Requests

using wire::Asked;
using wire::Reply;

constexpr const char* k_path = "/api/v1/namespaces/default/secrets";

// An engine on a server that answers requests for Secrets by `answer`, and all others as if all went well.
class SecretServer {
 public:
  explicit SecretServer(std::function<Reply(const Asked&)> answer)
      : daemon_(
            [answer = std::move(answer)](const Asked& asked) {
              if (asked.target.starts_with(k_path)) return answer(asked);
              if (asked.target.find("selfsubjectaccessreviews") != std::string::npos)
                return wire::whole(201, R"({"status": {"allowed": true}})");
              return wire::whole(201, R"({"metadata": {"uid": "anchor"}})");
            },
            wire::ScriptedDaemon::Kind::tcp),
        engine_(access_to("http" + daemon_.address().substr(daemon_.address().find(':'))), "kubernetes:test",
                {}) {}

  [[nodiscard]] KubernetesEngine& engine() { return engine_; }
  // Returns "METHOD TARGET BODY" of the requests for Secrets.
  [[nodiscard]] std::vector<std::string> asked() const {
    std::vector<std::string> lines;
    for (const Asked& one : daemon_.asked())
      if (one.target.starts_with(k_path)) lines.push_back(one.method + " " + one.target + " " + one.body);
    return lines;
  }
  [[nodiscard]] const wire::ScriptedDaemon& daemon() const { return daemon_; }
  void start(const Run& run) { (void)engine_.start(run, run.experiment.trials[0], 1, {}); }

 private:
  wire::ScriptedDaemon daemon_;
  KubernetesEngine engine_;
};

Reply answer_with(int status, const std::string& message) {
  return wire::whole(status, json{{"kind", "Status"}, {"message", message}}.dump());
}

TEST(KubernetesSecrets, TheSecretIsStoredOnceBeforeTheFirstPod) {
  SecretServer server([](const Asked&) { return wire::whole(201, "{}"); });
  combu::Run run = run_with_secrets();
  EXPECT_THAT(server.engine().prepare(run, {}, {}), IsEmpty());
  server.start(run);
  EXPECT_THAT(server.asked(), ElementsAre(AllOf(HasSubstr("POST "), HasSubstr(encode_base64(k_value)))));
  run.secrets = values_of({{"token", "new"}});
  server.start(run);
  EXPECT_THAT(server.asked(), SizeIs(2));
}

TEST(KubernetesSecrets, AnExistingSecretGetsTheNewValues) {
  SecretServer server([](const Asked& asked) {
    return asked.method == "POST" ? answer_with(409, "secrets \"x\" already exists") : wire::whole(200, "{}");
  });
  server.start(run_with_secrets());
  EXPECT_THAT(server.asked(),
              ElementsAre(HasSubstr("POST "),
                          AllOf(HasSubstr("PATCH /api/v1/namespaces/default/secrets/combu-k3x9-secrets"),
                                HasSubstr(encode_base64(k_value)))));
}

TEST(KubernetesSecrets, AnErrorDoesNotRepeatTheAnswerOfTheServer) {
  SecretServer server([](const Asked& asked) { return answer_with(422, "invalid: " + asked.body); });
  const combu::Run run = run_with_secrets();
  const Error error = error_in([&] { server.start(run); });
  EXPECT_THAT(error.what(), AllOf(HasSubstr("status 422"), Not(HasSubstr(encode_base64(k_value)))));
  EXPECT_THAT(texts_of(server.engine().prepare(run, {}, {})),
              ElementsAre(AllOf(HasSubstr("status 422"), Not(HasSubstr(encode_base64(k_value))))));
}

TEST(KubernetesSecrets, AnAttemptDoesNotStartWithoutItsValue) {
  SecretServer server([](const Asked&) { return wire::whole(201, "{}"); });
  combu::Run run = run_with_secrets();
  run.secrets = nullptr;
  EXPECT_THAT(error_in([&] { server.start(run); }).what(),
              HasSubstr("the value of the secret `token` was not read"));
  EXPECT_THAT(server.asked(), IsEmpty());
}

TEST(KubernetesSecrets, ACheckSendsNoValueAndReadsNoSecret) {
  SecretServer server([](const Asked& asked) {
    return asked.method == "GET" ? answer_with(404, "not found")
                                 : answer_with(403, "exceeded quota: secrets");
  });
  EXPECT_THAT(texts_of(server.engine().check(run_with_secrets(), {})),
              ElementsAre(HasSubstr("secrets.there: the namespace default has no Secret lab"),
                          HasSubstr("secrets: exceeded quota")));
  EXPECT_THAT(server.asked(), ElementsAre(HasSubstr("GET /api/v1/namespaces/default/secrets/lab"),
                                          AllOf(HasSubstr("dryRun=All"), Not(HasSubstr("\"data\"")),
                                                Not(HasSubstr("k3x9-secrets")))));
  for (const Asked& asked : server.daemon().asked()) {
    if (asked.method == "GET" && asked.target.starts_with(k_path)) {
      EXPECT_THAT(asked.head, HasSubstr("PartialObjectMetadata"));
    }
  }
}

TEST(KubernetesSecrets, AUserWhoMayNotReadSecretsIsNotRefused) {
  SecretServer server([](const Asked& asked) {
    return asked.method == "GET" ? answer_with(403, "forbidden") : wire::whole(201, "{}");
  });
  EXPECT_THAT(texts_of(server.engine().check(run_with_secrets(), {})), IsEmpty());
}

}  // namespace
}  // namespace combu::kubernetes
