// Runs the conformance suite on a Kubernetes cluster with a real node: in the current context's namespace of
// KUBECONFIG. COMBU_TEST_IMAGE is an image of that node with a shell, sleep, cat and dd; the default is
// "combu-test:latest".

#include "combu/kubernetes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "combu/agent.hpp"
#include "conformance/engine_suite.hpp"
#include "conformance/wrapped_subject.hpp"
#include "kubernetes/objects.hpp"

namespace combu::conformance {
namespace {

using nlohmann::json;

std::optional<std::string> setting_of(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

class KubernetesSubject : public Subject {
 public:
  KubernetesSubject()
      : engine_(find_cluster(setting_of, "kubernetes").open()),
        access_(kubernetes::find_access(setting_of, "", "")),
        api_(access_),
        objects_(api_, access_.name_space) {}

  ~KubernetesSubject() override {
    for (const std::string& name : strangers_) objects_.remove(kubernetes::k_pods, name, 0, {}, {});
  }

  Engine& engine() override { return *engine_; }

  Trial runs_until_stopped(const std::string& name) override { return shell(name, "exec sleep 1000"); }
  Trial exits_with(const std::string& name, int code) override {
    return shell(name, "exit " + std::to_string(code));
  }
  Trial says(const std::string& name, const std::vector<std::string>& out,
             const std::vector<std::string>& err) override {
    std::string script;
    for (const std::string& line : out) script += "echo " + line + "; ";
    for (const std::string& line : err) script += "echo " + line + " >&2; ";
    return shell(name, script);
  }
  Trial turns(const std::string& name, Health health) override {
    Trial trial = runs_until_stopped(name);
    Healthcheck check;
    check.test = {"CMD-SHELL", health == Health::healthy ? "true" : "false"};
    check.interval = Seconds{1};
    check.retries = 1;
    trial.healthcheck = check;
    return trial;
  }
  Trial cannot_start(const std::string& name) override {
    Trial trial = runs_until_stopped(name);
    trial.process.entrypoint = {"/no/such/command"};
    return trial;
  }
  Trial leaves(const std::string& name) override { return shell(name, "mkdir -p /out; echo kept > /out/a"); }
  Trial repeats(const std::string& name, const std::string& path) override {
    return shell(name, fmt::format("mkdir -p /out; cat {0} {0} > /out/a; cat {0} {0}", path));
  }
  Trial tells_secrets(const std::string& name, const std::string& path,
                      const std::string& variable) override {
    return shell(name, fmt::format("cat {0}; stat -L -c %a {0}; echo \"${1}\"", path, variable));
  }
  Trial eats(const std::string& name, Bytes memory) override {
    return shell(name, "exec dd if=/dev/zero of=/dev/null count=1 bs=" + std::to_string(memory.count));
  }

  void make_stranger(const std::string& name, std::uint16_t host_port) override {
    json container = {
        {"name", "x"}, {"image", image()}, {"imagePullPolicy", "Never"}, {"command", {"sleep", "1000"}}};
    if (host_port != 0) container["ports"] = json::array({{{"containerPort", 80}, {"hostPort", host_port}}});
    strangers_.push_back(name);
    objects_.create(kubernetes::k_pods,
                    {{"apiVersion", "v1"},
                     {"kind", "Pod"},
                     {"metadata", {{"name", name}}},
                     {"spec", {{"containers", json::array({container})}}}},
                    {});
  }
  bool stranger_runs(const std::string& name) override {
    const auto pod = objects_.find(kubernetes::k_pods, name, {});
    return pod && !pod->at("metadata").contains("deletionTimestamp");
  }
  // Each run has networks of its own, so no other network can be used.
  void make_strange_network(const std::string& /*name*/) override { throw std::logic_error("not used"); }
  bool has_network(const std::string& /*name*/) override { throw std::logic_error("not used"); }

 private:
  static std::string image() { return setting_of("COMBU_TEST_IMAGE").value_or("combu-test:latest"); }
  static Trial shell(const std::string& name, const std::string& script) {
    Trial trial;
    trial.name = name;
    trial.image = image();
    trial.pull = Pull::never;
    trial.process.entrypoint = std::vector<std::string>();
    trial.process.cmd = {"sh", "-c", script};
    return trial;
  }

  std::unique_ptr<Engine> engine_;
  kubernetes::Access access_;
  kubernetes::ApiClient api_;
  kubernetes::Objects objects_;
  std::vector<std::string> strangers_;
};

const Flavour k_pods{"pods", [] { return std::make_unique<KubernetesSubject>(); }};

const Flavour k_supervised{
    "supervised", [] { return supervised(std::make_unique<KubernetesSubject>(), agent::program_for); }};
// As in combu, other Pods are supervised.
const Flavour k_workers{"workers", [] {
                          return in_workers(
                              supervised(std::make_unique<KubernetesSubject>(), agent::program_for),
                              agent::program_for);
                        }};
INSTANTIATE_TEST_SUITE_P(Kubernetes, EngineSuite, testing::Values(k_pods, k_supervised, k_workers),
                         flavour_name);
INSTANTIATE_TEST_SUITE_P(Kubernetes, PlacingSuite, testing::Values(k_pods, k_supervised), flavour_name);
INSTANTIATE_TEST_SUITE_P(Kubernetes, HealthSuite, testing::Values(k_pods, k_supervised), flavour_name);
INSTANTIATE_TEST_SUITE_P(Kubernetes, FileSuite, testing::Values(k_supervised, k_workers), flavour_name);
INSTANTIATE_TEST_SUITE_P(Kubernetes, ExecSuite, testing::Values(k_pods), flavour_name);
INSTANTIATE_TEST_SUITE_P(Kubernetes, SecretSuite, testing::Values(k_pods, k_supervised, k_workers),
                         flavour_name);
INSTANTIATE_TEST_SUITE_P(Kubernetes, SecretFileSuite, testing::Values(k_pods, k_supervised, k_workers),
                         flavour_name);

// The other suites concern the capabilities of a host, which a cluster lacks.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HostSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ContainerSuite);

class KubernetesOnly : public EngineSuite {};
INSTANTIATE_TEST_SUITE_P(Kubernetes, KubernetesOnly, testing::Values(k_pods), flavour_name);

TEST_P(KubernetesOnly, AnAcknowledgedAttemptIsForgotten) {
  const Run run = ready("forgotten", {subject().exits_with("forgotten-a", 0)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto ended = watcher.wait_for("forgotten-a", Phase::ended);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->is_unacknowledged);
  engine().acknowledge({key_of(run, "forgotten-a")});
  EXPECT_TRUE(watcher.wait_for("forgotten-a", Phase::gone));
}

}  // namespace
}  // namespace combu::conformance
