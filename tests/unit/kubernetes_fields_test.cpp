// Fields that Pods cannot have.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "combu/kubernetes.hpp"
#include "unit/kubernetes_trials.hpp"

namespace combu::kubernetes {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Strings = std::vector<std::string>;

Strings field_faults(std::vector<Trial> trials) {
  return texts_of(check_kubernetes_fields(experiment_of(std::move(trials))));
}

Strings field_faults_with(const std::function<void(Trial&)>& change) {
  return field_faults({trial_of("solver", change)});
}

void make_worker(Trial& trial) {
  trial.worker = WorkerSettings{.on = true};
  trial.process.entrypoint = Strings{};
  trial.process.cmd = Strings{"solve"};
}

// A field, the path of the error, a part of the message, and a section that makes the field valid.
struct Refused {
  const char* name;
  std::function<void(Trial&)> change;
  const char* path;
  const char* message;
  const char* section = nullptr;
};

const std::vector<Refused>& refused() {
  static const std::vector<Refused> k_refused = {
      {"entrypoint", [](Trial& t) { t.process.entrypoint = std::vector<std::string>{}; }, "entrypoint",
       "write the program in `cmd`", R"({"container": {"command": ["a"]}})"},
      {"env_name",
       [](Trial& t) {
         t.process.env = {{"GRÖSSE", "1"}};
       },
       "env", "rename the variable"},
      {"env_value",
       [](Trial& t) {
         t.process.env = {{"A", "\xff"}};
       },
       "env", "must be UTF-8 text"},
      {"user", [](Trial& t) { t.process.user = "ada"; }, "user", "write the user id",
       R"({"container": {"securityContext": {"runAsUser": 5}}})"},
      {"user_of_pod", [](Trial& t) { t.process.user = "ada"; }, "user", "write the user id",
       R"({"pod": {"securityContext": {"runAsUser": 5}}})"},
      {"group", [](Trial& t) { t.process.user = "5:staff"; }, "user", "write the user id"},
      {"large_user", [](Trial& t) { t.process.user = "2147483648"; }, "user", "write the user id"},
      {"stop_signal", [](Trial& t) { t.process.stop_signal = "SIGINT"; }, "stop_signal",
       "Kubernetes does not send SIGINT", R"({"container": {"lifecycle": {"stopSignal": "SIGINT"}}})"},
      {"labels",
       [](Trial& t) {
         t.container.labels = {{"a b", "1"}};
       },
       "labels", "rename the label"},
      {"gpu_ids", [](Trial& t) { t.gpus = GpuRequest{.count = 1, .ids = {"0"}}; }, "gpus.ids",
       "write a number of GPUs", R"({"container": {"resources": {"limits": {"nvidia.com/gpu": 1}}}})"},
      {"all_gpus", [](Trial& t) { t.gpus = GpuRequest{.all = true}; }, "gpus", "write the number",
       R"({"container": {"resources": {"limits": {"nvidia.com/gpu": 8}}}})"},
      {"gpu_kind", [](Trial& t) { t.gpus = GpuRequest{.count = 1, .kind = "a100"}; }, "gpus.kind",
       "select the nodes", R"({"pod": {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100"}}})"},
      {"no_network", [](Trial& t) { t.container.networks = {"none"}; }, "networks", "`none` is not possible"},
      {"local_path",
       [](Trial& t) {
         t.container.volumes = {{.source = "/data", .target = "/data", .path = "trials[0].volumes[0]"}};
       },
       "volumes[0]", "add `remote: true`",
       R"({"container": {"volumeMounts": [{"name": "d", "mountPath": "/data"}]}})"},
      {"claim",
       [](Trial& t) {
         t.container.volumes = {{.source = "My_Data",
                                 .source_is_path = false,
                                 .target = "/data",
                                 .path = "trials[0].volumes[0]"}};
       },
       "volumes[0]", "write the name of a claim"},
      {"healthcheck", [](Trial& t) { t.healthcheck = Healthcheck{.retries = 5}; }, "healthcheck",
       "must have a `test`", R"({"container": {"readinessProbe": {"tcpSocket": {"port": 80}}}})"},
      {"command",
       [](Trial& t) {
         t.outputs = {{"/out"}};
         t.container.kubernetes = R"({"container": {"command": ["x"]}})";
       },
       "kubernetes.container.command", "as `entrypoint` and `cmd`"},
      {"namespace",
       [](Trial& t) {
         t.outputs = {{"/out"}};
         t.container.kubernetes = R"({"pod": {"shareProcessNamespace": true}})";
       },
       "kubernetes.pod", "combu's agent must be the first process of the container"}};
  return k_refused;
}

class KubernetesRefused : public testing::TestWithParam<Refused> {};

TEST_P(KubernetesRefused, AFieldThatPodsCannotHaveIsRefused) {
  const Refused& field = GetParam();
  EXPECT_THAT(field_faults_with(field.change),
              ElementsAre(AllOf(StartsWith(std::string("trials[0].") + field.path + ": "),
                                HasSubstr(field.message), testing::EndsWith(" (trial `solver`)"))));
}

TEST_P(KubernetesRefused, AFieldWithACounterpartInTheSectionIsAccepted) {
  const Refused& field = GetParam();
  const auto with_section = [&](Trial& trial) {
    field.change(trial);
    if (field.section != nullptr) trial.container.kubernetes = field.section;
  };
  EXPECT_EQ(field_faults_with(with_section).empty(), field.section != nullptr);
}

INSTANTIATE_TEST_SUITE_P(Fields, KubernetesRefused, testing::ValuesIn(refused()),
                         [](const auto& named) { return std::string(named.param.name); });

TEST(KubernetesFields, TheAgentOfAWorkerHandlesFilesAndSignals) {
  EXPECT_THAT(field_faults_with([](Trial& trial) {
                make_worker(trial);
                trial.inputs = {{.from = "/a", .to = "a", .in_scratch = true}, {.from = "/b", .to = "/b"}};
                trial.outputs = {{"out"}};
                trial.params_file = true;
                trial.metrics = Metrics{.file = "m.csv"};
                trial.process.stop_signal = "SIGINT";
              }),
              IsEmpty());
}

TEST(KubernetesFields, FieldsOfDockerThatPodsHaveAreAccepted) {
  EXPECT_THAT(field_faults_with([](Trial& trial) {
                trial.process.user = "1000:1000";
                trial.process.stop_signal = "15";
                trial.healthcheck = Healthcheck{.test = {"NONE"}};
                trial.metrics = Metrics{.json = true};
                trial.gpus = GpuRequest{.count = 2, .memory = Bytes{1 << 30}};
                trial.container.networks = {"host"};
                trial.container.docker = R"({"HostConfig": {"Privileged": true}})";
              }),
              IsEmpty());
}

TEST(KubernetesFields, AnErrorOfManyTrialsIsReportedOnce) {
  const auto change = [](Trial& trial) { trial.container.networks = {"none"}; };
  EXPECT_THAT(
      field_faults({trial_of("a"), trial_of("b", change), trial_of("c", change), trial_of("d", change)}),
      ElementsAre(AllOf(StartsWith("trials[1].networks: "), testing::EndsWith(" (trial `b` and 2 more)"))));
}

// ---- Names and dependencies

Trial on_network(const std::string& name, const std::string& network, bool service = false) {
  return trial_of(name, [&](Trial& trial) {
    trial.container.networks = {network};
    trial.service = service;
  });
}

Trial depends_on(Trial trial, const std::string& other, Condition condition = Condition::started) {
  trial.depends = {{other, condition, "trials[1].depends[0]"}};
  return trial;
}

TEST(KubernetesFields, NamesThatDifferOnlyInCaseAreRefusedOnNetworks) {
  EXPECT_THAT(field_faults({on_network("Loader", "lab"), on_network("loader", "other")}),
              ElementsAre(AllOf(StartsWith("trials[1].name: "), HasSubstr("`Loader`"))));
  EXPECT_THAT(field_faults({trial_of("Loader"), trial_of("loader")}), IsEmpty());
}

TEST(KubernetesFields, ANameThatOtherTrialsNeedMustBeADnsLabel) {
  EXPECT_THAT(field_faults({on_network("loader_1", "lab", true)}),
              ElementsAre(StartsWith("trials[0].name: ")));
  EXPECT_THAT(field_faults({on_network("loader_1", "lab"), depends_on(on_network("a", "lab"), "loader_1")}),
              ElementsAre(StartsWith("trials[0].name: ")));
  EXPECT_THAT(field_faults({on_network("loader_1", "lab"), depends_on(on_network("a", "other"), "loader_1")}),
              IsEmpty());
  EXPECT_THAT(field_faults({on_network("loader_1", "lab"), on_network("a", "lab")}), IsEmpty());
}

TEST(KubernetesFields, AHealthyTrialNeedsAHealthCheckOfItsOwn) {
  const Trial after = depends_on(trial_of("a"), "loader", Condition::healthy);
  EXPECT_THAT(field_faults({trial_of("loader"), after}),
              ElementsAre(AllOf(StartsWith("trials[1].depends[0]: `loader` never becomes healthy"),
                                HasSubstr("healthcheck: {test: …}"))));
  const auto checked = [](Trial& trial) { trial.healthcheck = Healthcheck{.test = {"CMD", "a"}}; };
  EXPECT_THAT(field_faults({trial_of("loader", checked), after}), IsEmpty());
  const auto probed = [](Trial& trial) {
    trial.container.kubernetes = R"({"container": {"readinessProbe": {"tcpSocket": {"port": 80}}}})";
  };
  EXPECT_THAT(field_faults({trial_of("loader", probed), after}), IsEmpty());
}

}  // namespace
}  // namespace combu::kubernetes
