// Errors in the section `kubernetes`.

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
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Trial trial_with(
    const std::string& section, const std::function<void(Trial&)>& change = [](Trial&) {}) {
  return trial_of("solver", [&](Trial& trial) {
    trial.container.kubernetes = section;
    change(trial);
  });
}

std::vector<std::string> section_faults(std::vector<Trial> trials) {
  return texts_of(check_kubernetes_sections(experiment_of(std::move(trials))));
}

struct WrongSection {
  const char* name;
  const char* section;
  const char* path;
  const char* message;
};

const WrongSection k_wrong[] = {
    {"typo", R"({"pods": {}})", "pods", "did you mean pod?"},
    {"unknown", R"({"as": "job"})", "as", "must be one of the fields"},
    {"outside", R"({"tolerations": []})", "tolerations", "must be inside `pod`"},
    {"in_two_parts", R"({"securityContext": {}})", "securityContext", "must be inside `pod` or `container`"},
    {"wrong_part", R"({"pod": {"env": []}})", "pod.env", "must be inside `container`"},
    {"typo_in_pod", R"({"pod": {"tolerationz": []}})", "pod.tolerationz", "did you mean tolerations?"},
    {"unknown_in_pod", R"({"pod": {"xyzzy": 1}})", "pod.xyzzy", "no such field for a Pod"},
    {"unknown_in_container", R"({"container": {"xyzzy": 1}})", "container.xyzzy", "for a container"},
    {"metadata", R"({"metadata": {"ownerReferences": []}})", "metadata.ownerReferences",
     "combu sets the field itself"},
    {"type_of_part", R"({"pod": []})", "pod", "must be an object"},
    {"text", R"({"pod": {"nodeName": 1}})", "pod.nodeName", "must be a string"},
    {"number", R"({"pod": {"priority": "1"}})", "pod.priority", "must be a whole number"},
    {"truth", R"({"container": {"tty": 1}})", "container.tty", "must be true or false"},
    {"list", R"({"pod": {"tolerations": {}}})", "pod.tolerations", "must be an array"},
    {"object", R"({"pod": {"affinity": []}})", "pod.affinity", "must be an object"},
    {"words", R"({"container": {"args": [1]}})", "container.args", "must be an array of strings"},
    {"texts", R"({"pod": {"nodeSelector": {"gpu": true}}})", "pod.nodeSelector.gpu",
     "must be a string; write \"true\""},
    {"affinity", R"({"pod": {"affinity": {"nodeAffinity": []}}})", "pod.affinity.nodeAffinity",
     "must be an object"},
    {"terms",
     R"({"pod": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [1]}}}}})",
     "pod.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
     "must be an array of objects"},
    {"containers", R"({"pod": {"containers": []}})", "pod.containers", "`kubernetes: {container: {…}}`"},
    {"restart", R"({"pod": {"restartPolicy": "Always"}})", "pod.restartPolicy", "use `retries`"},
    {"image", R"({"container": {"image": "a"}})", "container.image", "use the trial's field `image`"},
    {"container_name", R"({"container": {"name": "a"}})", "container.name",
     "combu names the container `main`"},
    {"own_label", R"({"metadata": {"labels": {"combu.run": "a"}}})", "metadata.labels.combu.run",
     "are reserved"},
    {"label_name", R"({"metadata": {"annotations": {"a b": "a"}}})", "metadata.annotations.a b",
     "the name must be"},
    {"label_value", R"({"metadata": {"labels": {"a": "b c"}}})", "metadata.labels.a", "`annotations`"},
    {"label_type", R"({"metadata": {"labels": {"a": 1}}})", "metadata.labels.a",
     "must be a string; write \"1\""}};

class KubernetesWrongSection : public testing::TestWithParam<WrongSection> {};

TEST_P(KubernetesWrongSection, IsRefused) {
  EXPECT_THAT(section_faults({trial_with(GetParam().section)}),
              ElementsAre(AllOf(StartsWith(std::string("trials[0].kubernetes.") + GetParam().path + ": "),
                                HasSubstr(GetParam().message), EndsWith(" (trial `solver`)"))));
}

INSTANTIATE_TEST_SUITE_P(Sections, KubernetesWrongSection, testing::ValuesIn(k_wrong),
                         [](const auto& named) { return std::string(named.param.name); });

// A value that a field of the trial sets, and the field.
struct ReservedValue {
  const char* name;
  std::function<void(Trial&)> change;
  const char* section;
  const char* path;
  const char* field;
};

const std::vector<ReservedValue>& reserved() {
  static const std::vector<ReservedValue> k_reserved = {
      {"command", [](Trial& t) { t.process.entrypoint = {{"a"}}; }, R"({"container": {"command": ["b"]}})",
       "container.command", "`entrypoint`"},
      {"args", [](Trial& t) { t.process.cmd = {{"a"}}; }, R"({"container": {"args": ["b"]}})",
       "container.args", "`cmd`"},
      {"workdir", [](Trial& t) { t.process.workdir = "/a"; }, R"({"container": {"workingDir": "/b"}})",
       "container.workingDir", "`workdir`"},
      {"user", [](Trial& t) { t.process.user = "1"; },
       R"({"container": {"securityContext": {"runAsUser": 2}}})", "container.securityContext.runAsUser",
       "`user`"},
      {"group", [](Trial& t) { t.process.user = "1:1"; },
       R"({"container": {"securityContext": {"runAsGroup": 2}}})", "container.securityContext.runAsGroup",
       "`user`"},
      {"stop_grace", [](Trial& t) { t.process.stop_grace = Seconds(1); },
       R"({"pod": {"terminationGracePeriodSeconds": 2}})", "pod.terminationGracePeriodSeconds",
       "`stop_grace`"},
      {"pull", [](Trial& t) { t.pull = Pull::never; }, R"({"container": {"imagePullPolicy": "Always"}})",
       "container.imagePullPolicy", "`pull`"},
      {"healthcheck",
       [](Trial& t) {
         t.healthcheck = Healthcheck{{"CMD", "a"}};
       },
       R"({"container": {"readinessProbe": {}}})", "container.readinessProbe", "`healthcheck`"},
      {"platform", [](Trial& t) { t.platform = "linux/arm64"; },
       R"({"pod": {"nodeSelector": {"kubernetes.io/arch": "amd64"}}})", "pod.nodeSelector.kubernetes.io/arch",
       "`platform`"},
      {"hostname", [](Trial& t) { t.container.networks = {"lab"}; }, R"({"pod": {"hostname": "a"}})",
       "pod.hostname", "`name`"},
      {"host", [](Trial& t) { t.container.networks = {"host"}; }, R"({"pod": {"hostNetwork": false}})",
       "pod.hostNetwork", "`networks`"},
      {"cpus", [](Trial& t) { t.slots.cpus.nano = 1'000'000'000; },
       R"({"container": {"resources": {"limits": {"cpu": 1}}}})", "container.resources.limits.cpu", "`cpus`"},
      {"memory", [](Trial& t) { t.slots.memory.count = 1 << 30; },
       R"({"container": {"resources": {"requests": {"memory": 1}}}})", "container.resources.requests.memory",
       "`memory`"},
      {"gpus", [](Trial& t) { t.gpus = GpuRequest{.count = 1}; },
       R"({"container": {"resources": {"limits": {"nvidia.com/gpu": 1}}}})",
       "container.resources.limits.nvidia.com/gpu", "`gpus`"},
      {"labels",
       [](Trial& t) {
         t.container.labels = {{"a", "b"}};
       },
       R"({"metadata": {"labels": {"a": "c"}}})", "metadata.labels.a", "`labels`"},
      {"annotations",
       [](Trial& t) {
         t.container.labels = {{"a", "b c"}};
       },
       R"({"metadata": {"annotations": {"a": "c"}}})", "metadata.annotations.a", "`labels`"},
      {"env",
       [](Trial& t) {
         t.process.env = {{"A", "1"}};
       },
       R"({"container": {"env": [{"name": "A", "value": "2"}]}})", "container.env", "`env`"}};
  return k_reserved;
}

class KubernetesReservedValue : public testing::TestWithParam<ReservedValue> {};

TEST_P(KubernetesReservedValue, IsRefusedIfAFieldOfTheTrialSetsIt) {
  const ReservedValue& value = GetParam();
  EXPECT_THAT(section_faults({trial_with(value.section, value.change)}),
              ElementsAre(AllOf(StartsWith(std::string("trials[0].kubernetes.") + value.path + ": "),
                                HasSubstr(value.field), HasSubstr("remove one of the two"))));
  EXPECT_THAT(section_faults({trial_with(value.section)}), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Values, KubernetesReservedValue, testing::ValuesIn(reserved()),
                         [](const auto& named) { return std::string(named.param.name); });

TEST(KubernetesSection, TheTtlOfTheExperimentReservesTheDeadline) {
  Experiment experiment = experiment_of({trial_with(R"({"pod": {"activeDeadlineSeconds": 5}})")});
  EXPECT_THAT(check_kubernetes_sections(experiment), IsEmpty());
  experiment.ttl = Seconds(60);
  EXPECT_THAT(
      texts_of(check_kubernetes_sections(experiment)),
      ElementsAre(AllOf(StartsWith("trials[0].kubernetes.pod.activeDeadlineSeconds: "), HasSubstr("`ttl`"))));
}

TEST(KubernetesSection, AnErrorOfTheDefaultsIsReportedOnce) {
  const std::string wrong = R"({"pod": {"priority": "1"}})";
  Experiment experiment = experiment_of({trial_with(wrong), trial_with(wrong)});
  experiment.defaults_kubernetes = wrong;
  EXPECT_THAT(texts_of(check_kubernetes_sections(experiment)),
              ElementsAre("defaults.kubernetes.pod.priority: must be a whole number"));
}

TEST(KubernetesSection, AnErrorOfSeveralTrialsIsReportedOnce) {
  const std::string wrong = R"({"pod": {"priority": "1"}})";
  EXPECT_THAT(section_faults({trial_with(wrong), trial_with(wrong), trial_with(wrong)}),
              ElementsAre(AllOf(StartsWith("trials[0].kubernetes.pod.priority: "),
                                EndsWith("(trial `solver` and 2 more)"))));
}

TEST(KubernetesSection, NullIsAnAbsentValue) {
  EXPECT_THAT(
      section_faults({trial_with(R"({"pod": {"priority": null, "affinity": null}, "container": null})")}),
      IsEmpty());
}

}  // namespace
}  // namespace combu::kubernetes
