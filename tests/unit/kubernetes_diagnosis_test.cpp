// The diagnosis of a cluster, and the rights in a namespace. A test scripts the answers of the API server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "kubernetes/diagnosis.hpp"
#include "kubernetes/rights.hpp"
#include "kubernetes_fixture.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr const char* k_reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

wire::Reply refusal(int status, const std::string& message) {
  return wire::whole(status, json{{"kind", "Status"}, {"message", message}}.dump());
}

// A cluster with the namespace `default`, in which the user has all rights.
class ScriptedCluster {
 public:
  ScriptedCluster()
      : daemon_([this](const wire::Asked& asked) { return answer(asked); }, wire::ScriptedDaemon::Kind::tcp) {
  }

  // Sets the answer to requests for this target.
  void set(const std::string& target, wire::Reply reply) { replies_[target] = std::move(reply); }
  void set(const std::string& target, const json& object) { set(target, wire::whole(200, object.dump())); }
  // Withdraws a right, such as "delete pods" or "get pods/log".
  void deny(const std::string& right) { denied_.insert(right); }

  [[nodiscard]] std::string url() const {
    return "http" + daemon_.address().substr(daemon_.address().find(':'));
  }
  [[nodiscard]] std::vector<Finding> findings(const std::string& name_space = "default",
                                              const std::stop_token& stop = {}) const {
    Access access = access_to(url());
    access.name_space = name_space;
    ApiClient client(access);
    return diagnose_cluster(client, access, stop);
  }
  [[nodiscard]] std::vector<Right> missing() const {
    ApiClient client(access_to(url()));
    return missing_rights(client, "default", {});
  }
  [[nodiscard]] std::string user_name() const {
    ApiClient client(access_to(url()));
    return user_name_of(client, {});
  }
  [[nodiscard]] const wire::ScriptedDaemon& daemon() const { return daemon_; }

 private:
  wire::Reply answer(const wire::Asked& asked) const {
    const auto reply = replies_.find(asked.target);
    if (reply != replies_.end()) return reply->second;
    if (asked.target != k_reviews) return refusal(404, "not found");
    const json attributes = json::parse(asked.body).at("spec").at("resourceAttributes");
    const auto text = [&](const char* name) { return attributes.at(name).get<std::string>(); };
    const std::string right = text("verb") + " " + text("resource") + (text("group").empty() ? "" : ".") +
                              text("group") + (text("subresource").empty() ? "" : "/") + text("subresource");
    EXPECT_EQ(text("namespace"), "default");
    return wire::whole(201, json{{"status", {{"allowed", !denied_.contains(right)}}}}.dump());
  }

  std::map<std::string, wire::Reply> replies_ = {
      {"/version", wire::whole(200, R"({"gitVersion": "v1.36.3"})")},
      {"/api/v1/namespaces/default", wire::whole(200, R"({"metadata": {"name": "default"}})")},
      {"/api/v1/namespaces/default/resourcequotas?limit=100", wire::whole(200, R"({"items": []})")},
      {"/apis/metrics.k8s.io/v1beta1", wire::whole(200, "{}")},
      {"/apis/authentication.k8s.io/v1/selfsubjectreviews",
       wire::whole(201, R"({"status": {"userInfo": {"username": "alice"}}})")}};
  std::set<std::string> denied_;
  wire::ScriptedDaemon daemon_;  // the last member: its threads use the others
};

// Returns "KIND SUBJECT: TEXT" of each finding.
std::vector<std::string> lines_of(const std::vector<Finding>& findings) {
  std::vector<std::string> lines;
  for (const Finding& finding : findings)
    lines.push_back(std::string(to_string(finding.kind)) + " " + finding.subject + ": " + finding.text);
  return lines;
}

TEST(ClusterDiagnosis, AGoodCluster) {
  const ScriptedCluster cluster;
  EXPECT_THAT(lines_of(cluster.findings()),
              ElementsAre("ok cluster: Kubernetes v1.36.3 at " + cluster.url() +
                              " (context lab, namespace default, user lab of config)",
                          "ok rights: the user has all rights that combu needs",
                          "ok metrics: the cluster measures memory and CPU of running trials"));
}

// ---- The server

TEST(ClusterDiagnosis, AServerThatIsAbsentIsUnreachable) {
  const Access access = access_to("http://127.0.0.1:1");
  ApiClient client(access);
  const std::vector<Finding> findings = diagnose_cluster(client, access, {});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, Finding::Kind::fault);
  EXPECT_TRUE(findings[0].is_unreachable);
  EXPECT_THAT(findings[0].remedy, HasSubstr("`kubectl --context lab version`"));
}

TEST(ClusterDiagnosis, AServerThatIsNoApiServer) {
  for (const char* body : {"<html>", "{}", "[]", R"({"gitVersion": 1})"}) {
    ScriptedCluster cluster;
    cluster.set("/version", wire::whole(200, body));
    const std::vector<Finding> findings = cluster.findings();
    ASSERT_THAT(findings, SizeIs(1)) << body;
    EXPECT_TRUE(findings[0].is_unreachable);
    EXPECT_THAT(findings[0].text, HasSubstr("correct `server` in the kubeconfig file"));
  }
}

TEST(ClusterDiagnosis, CredentialsThatAreNotAccepted) {
  ScriptedCluster cluster;
  cluster.set("/version", refusal(401, "Unauthorized"));
  const std::vector<Finding> findings = cluster.findings();
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, Finding::Kind::fault);
  EXPECT_FALSE(findings[0].is_unreachable);
  EXPECT_THAT(findings[0].text, HasSubstr("does not accept the credentials of user lab of config"));
}

TEST(ClusterDiagnosis, TheVersionMayBeForbidden) {
  ScriptedCluster cluster;
  cluster.set("/version", refusal(403, "forbidden"));
  EXPECT_THAT(lines_of(cluster.findings()),
              Contains(StartsWith("ok cluster: Kubernetes of unknown version at ")));
}

TEST(ClusterDiagnosis, AClockThatDiffersIsAWarning) {
  const auto lines_with = [](const std::string& header) {
    ScriptedCluster cluster;
    cluster.set("/version", wire::whole(200, R"({"gitVersion": "v1.36.3"})", header));
    return lines_of(cluster.findings());
  };
  EXPECT_THAT(lines_with("Date: Thu, 01 Jan 2099 12:00:00 GMT\r\n"),
              Contains(AllOf(StartsWith("warning clock: the API server's clock is "),
                             EndsWith(" ahead of this machine's clock"))));
  EXPECT_THAT(lines_with("Date: Tue, 01 Jan 2019 12:00:00 GMT\r\n"),
              Contains(AllOf(StartsWith("warning clock: the API server's clock is "),
                             EndsWith(" behind this machine's clock"))));
  EXPECT_THAT(lines_with(""), Not(Contains(HasSubstr("clock"))));
}

TEST(ClusterDiagnosis, CanBeCancelled) {
  const ScriptedCluster cluster;
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_in([&] { (void)cluster.findings("default", stop.get_token()); }).kind(),
            ErrorKind::cancelled);
}

TEST(ClusterDiagnosis, AnErrorInTheMiddleIsAFault) {
  ScriptedCluster cluster;
  cluster.set(k_reviews, refusal(500, "etcd is away"));
  EXPECT_THAT(lines_of(cluster.findings()), ElementsAre(StartsWith("ok cluster"), HasSubstr("etcd is away")));
}

// ---- The namespace

TEST(ClusterDiagnosis, AMissingNamespaceHasARemedy) {
  const ScriptedCluster cluster;
  const std::vector<Finding> findings = cluster.findings("lab");
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[1].kind, Finding::Kind::fault);
  EXPECT_EQ(findings[1].text, "the cluster has no namespace lab");
  EXPECT_THAT(findings[1].remedy, StartsWith("run `kubectl create namespace lab`, or"));
}

TEST(ClusterDiagnosis, AnInvalidNamespaceIsNotSent) {
  const ScriptedCluster cluster;
  EXPECT_THAT(lines_of(cluster.findings("a/../b?c")),
              Contains("fault namespace: \"a/../b?c\" is not a valid name of a namespace"));
  EXPECT_THAT(cluster.daemon().lines(), ElementsAre("GET /version"));
}

TEST(ClusterDiagnosis, ANamespaceThatIsBeingDeleted) {
  ScriptedCluster cluster;
  cluster.set("/api/v1/namespaces/default", json{{"status", {{"phase", "Terminating"}}}});
  EXPECT_THAT(lines_of(cluster.findings()),
              Contains("fault namespace: the namespace default is being deleted"));
}

TEST(ClusterDiagnosis, AUserNeedNotReadTheNamespace) {
  ScriptedCluster cluster;
  cluster.set("/api/v1/namespaces/default", refusal(403, "forbidden"));
  cluster.set("/api/v1/namespaces/default/resourcequotas?limit=100", refusal(403, "forbidden"));
  EXPECT_THAT(lines_of(cluster.findings()),
              ElementsAre(StartsWith("ok cluster"), StartsWith("ok rights"), StartsWith("ok metrics")));
}

TEST(ClusterDiagnosis, TheLevelRestrictedNamesTheFieldsToWrite) {
  ScriptedCluster cluster;
  const auto enforce = [&](const char* level) {
    cluster.set("/api/v1/namespaces/default",
                json{{"metadata", {{"labels", {{"pod-security.kubernetes.io/enforce", level}}}}}});
    return cluster.findings();
  };
  EXPECT_THAT(enforce("restricted"),
              Contains(AllOf(
                  Field(&Finding::kind, Finding::Kind::warning), Field(&Finding::subject, "pod security"),
                  Field(&Finding::remedy, AllOf(HasSubstr("runAsNonRoot: true"), HasSubstr("drop: [\"ALL\"]"),
                                                HasSubstr("RuntimeDefault"))))));
  EXPECT_THAT(lines_of(enforce("baseline")), Contains(StartsWith("ok pod security: ")));
  EXPECT_THAT(lines_of(enforce("privileged")), Not(Contains(HasSubstr("pod security"))));
}

TEST(ClusterDiagnosis, APlainPodShowsThePodSecurityOfAHiddenNamespace) {
  ScriptedCluster cluster;
  cluster.set("/api/v1/namespaces/default", refusal(403, "forbidden"));
  const auto lines_with = [&](wire::Reply reply) {
    cluster.set("/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict", std::move(reply));
    return lines_of(cluster.findings());
  };
  EXPECT_THAT(
      lines_with(refusal(403, "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\": y")),
      Contains(StartsWith("warning pod security: ")));
  EXPECT_THAT(lines_with(refusal(403, "pods \"x\" is forbidden: failed quota: q")),
              Not(Contains(HasSubstr("pod security"))));
  EXPECT_THAT(lines_with(wire::whole(201, "{}")), Not(Contains(HasSubstr("pod security"))));
}

// ---- Rights

TEST(Rights, EachIsAskedOnce) {
  const ScriptedCluster cluster;
  EXPECT_THAT(cluster.missing(), IsEmpty());
  std::set<std::string> bodies;
  for (const wire::Asked& asked : cluster.daemon().asked()) bodies.insert(asked.body);
  EXPECT_EQ(bodies.size(), needed_rights().size());
  EXPECT_EQ(cluster.daemon().asked().size(), needed_rights().size());
  EXPECT_LE(cluster.daemon().connections(), 8U);
}

TEST(Rights, TheMissingOnesKeepTheirOrder) {
  ScriptedCluster cluster;
  for (const char* right :
       {"list networkpolicies.networking.k8s.io", "get pods/log", "delete pods", "get pods"})
    cluster.deny(right);
  std::vector<std::string> texts;
  for (const Right& right : cluster.missing()) texts.push_back(right.verb + " " + right.resource_text());
  EXPECT_THAT(texts, ElementsAre("get pods", "delete pods", "get pods/log",
                                 "list networkpolicies.networking.k8s.io"));
}

TEST(Rights, AnAnswerWithoutADecisionIsCorrupt) {
  for (const char* body : {"x", "{}", R"({"status": 1})", R"({"status": {"allowed": "yes"}})"}) {
    ScriptedCluster cluster;
    cluster.set(k_reviews, wire::whole(201, body));
    EXPECT_EQ(error_in([&] { (void)cluster.missing(); }).kind(), ErrorKind::corrupt) << body;
  }
}

TEST(Rights, TheServerNamesTheUser) {
  ScriptedCluster cluster;
  EXPECT_EQ(cluster.user_name(), "alice");
  const std::string target = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
  for (const char* body : {"x", "{}", R"({"status": 1})", R"({"status": {"userInfo": {"username": 1}}})"}) {
    cluster.set(target, wire::whole(201, body));
    EXPECT_EQ(cluster.user_name(), "") << body;
  }
  cluster.set(target, refusal(404, "an older server has no such resource"));
  EXPECT_EQ(cluster.user_name(), "");
}

TEST(Rights, TheRoleHasAllOfThem) {
  EXPECT_EQ(role_for("lab"), R"(apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: combu
  namespace: "lab"
rules:
- apiGroups: [""]
  resources: [pods]
  verbs: [create, get, list, watch, patch, delete, deletecollection]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [create, get]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, get, list, patch, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [create, get, list, delete]
- apiGroups: [""]
  resources: [events]
  verbs: [list]
- apiGroups: ["networking.k8s.io"]
  resources: [networkpolicies]
  verbs: [create, get, list, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [""]
  resources: [secrets]
  verbs: [create, patch, delete]
- apiGroups: ["metrics.k8s.io"]
  resources: [pods]
  verbs: [list]
)");
}

TEST(Rights, TheCommandsBindTheRoleToTheUser) {
  const auto last_line = [](const std::string& user) {
    const std::string commands = grant_commands("lab", user);
    EXPECT_THAT(commands, AllOf(StartsWith("kubectl apply -f - <<'END'\napiVersion"), HasSubstr("\nEND\n")));
    return commands.substr(commands.rfind('\n') + 1);
  };
  EXPECT_EQ(last_line("alice"),
            "kubectl create rolebinding combu-alice --role=combu --user=alice --namespace=lab");
  EXPECT_EQ(
      last_line("o'hara/%"),
      "kubectl create rolebinding 'combu-o'\\''hara--' --role=combu --user='o'\\''hara/%' --namespace=lab");
  EXPECT_EQ(last_line(""), "kubectl create rolebinding combu-USER --role=combu --user=USER --namespace=lab");
  EXPECT_EQ(last_line("system:serviceaccount:lab:default"),
            "kubectl create rolebinding combu-system:serviceaccount:lab:default --role=combu "
            "--serviceaccount=lab:default --namespace=lab");
}

TEST(ClusterDiagnosis, NamesEachMissingVerbAndThenTheRole) {
  ScriptedCluster cluster;
  cluster.deny("create pods");
  cluster.deny("watch pods");
  cluster.deny("get pods/log");
  const std::vector<Finding> findings = cluster.findings();
  EXPECT_THAT(lines_of(findings),
              ElementsAre(StartsWith("ok cluster"),
                          "fault rights: the user may not create, watch pods in the namespace default",
                          "fault rights: the user may not get pods/log in the namespace default",
                          StartsWith("ok metrics")));
  EXPECT_EQ(findings.at(1).remedy, "");
  EXPECT_THAT(
      findings.at(2).remedy,
      AllOf(StartsWith("an administrator can grant all rights that combu needs with these commands:\n"),
            HasSubstr(role_for("default")), EndsWith("--user=alice --namespace=default")));
}

TEST(ClusterDiagnosis, RightsOfSomeExperimentsOnlyAreWarnings) {
  ScriptedCluster cluster;
  cluster.deny("list events");
  cluster.deny("create networkpolicies.networking.k8s.io");
  cluster.deny("get persistentvolumeclaims");
  cluster.deny("create secrets");
  cluster.deny("list pods.metrics.k8s.io");
  const std::vector<Finding> findings = cluster.findings();
  EXPECT_THAT(
      lines_of(findings),
      ElementsAre(
          StartsWith("ok cluster"),
          AllOf(StartsWith("warning rights: the user may not list events"),
                HasSubstr("why a trial is pending")),
          AllOf(StartsWith("warning rights: the user may not create networkpolicies"),
                HasSubstr("`isolate`")),
          AllOf(StartsWith("warning rights: the user may not get persistentvolumeclaims"),
                HasSubstr("named volumes")),
          AllOf(StartsWith("warning rights: the user may not create secrets"), HasSubstr("`secrets`")),
          AllOf(StartsWith("warning rights: the user may not list pods.metrics.k8s.io"), HasSubstr("memory")),
          StartsWith("ok metrics")));
}

// ---- Limits of the namespace

json quota_of(const json& hard, const json& used) {
  return {{"items",
           json::array({{{"metadata", {{"name", "q"}}}, {"status", {{"hard", hard}, {"used", used}}}}})}};
}

std::string quota_line(const json& answer) {
  ScriptedCluster cluster;
  cluster.set("/api/v1/namespaces/default/resourcequotas?limit=100", answer);
  for (const std::string& line : lines_of(cluster.findings()))
    if (line.find("quota") != std::string::npos) return line;
  return "";
}

TEST(ClusterDiagnosis, AQuotaIsShown) {
  EXPECT_EQ(quota_line(
                quota_of({{"pods", "20"}, {"requests.cpu", "4"}}, {{"pods", "3"}, {"requests.cpu", "500m"}})),
            "ok quota: the quota q: 3 of 20 pods, 500m of 4 requests.cpu are used");
}

TEST(ClusterDiagnosis, AQuotaThatIsUsedUpIsAWarning) {
  EXPECT_EQ(
      quota_line(quota_of({{"pods", "20"}, {"requests.cpu", "4"}}, {{"pods", "20"}, {"requests.cpu", "1"}})),
      "warning quota: the quota q is used up: 20 of 20 pods");
  for (const auto& [hard, used] :
       {std::pair("1", "1000m"), std::pair("1Gi", "1024Mi"), std::pair("1k", "1000"),
        std::pair("1G", "1000M"), std::pair("0", "0"), std::pair("1.5", "2")})
    EXPECT_THAT(quota_line(quota_of({{"x", hard}}, {{"x", used}})), StartsWith("warning"))
        << hard << " " << used;
  for (const auto& [hard, used] :
       {std::pair("1", "999m"), std::pair("1Gi", "1023Mi"), std::pair("1Ki", "1k"), std::pair("x", "x")})
    EXPECT_THAT(quota_line(quota_of({{"x", hard}}, {{"x", used}})), StartsWith("ok")) << hard << " " << used;
}

TEST(ClusterDiagnosis, AMalformedQuotaIsIgnored) {
  for (const json& answer :
       {json{{"items", 1}}, json{{"items", {1}}}, json{{"items", {{{"status", 1}}}}}, quota_of(1, 1),
        quota_of({{"pods", 1}}, {{"pods", 1}}), quota_of({{"pods", "1"}}, 1)})
    EXPECT_EQ(quota_line(answer), "") << answer.dump();
}

TEST(ClusterDiagnosis, WithoutTheMetricsApiThereIsAWarning) {
  ScriptedCluster cluster;
  const std::string target = "/apis/metrics.k8s.io/v1beta1";
  cluster.set(target, refusal(404, "not found"));
  EXPECT_THAT(lines_of(cluster.findings()),
              Contains(AllOf(StartsWith("warning metrics"), HasSubstr("does not measure"))));
  cluster.set(target, refusal(503, "service unavailable"));
  EXPECT_THAT(lines_of(cluster.findings()),
              Contains(AllOf(StartsWith("warning metrics"), HasSubstr("service unavailable"))));
}

}  // namespace
}  // namespace combu::kubernetes
