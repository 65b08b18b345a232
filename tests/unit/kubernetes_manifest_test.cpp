// The objects of a run. tests/golden/kubernetes has whole manifests: COMBU_GOLDEN_WRITE=1 rewrites them;
// review the difference before you commit it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "combu/json.hpp"
#include "combu/kubernetes.hpp"
#include "kubernetes/manifest.hpp"
#include "kubernetes/names.hpp"
#include "unit/kubernetes_trials.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::IsEmpty;
using testing::SizeIs;

const Home k_home{"lab", ""};

json pod_of(const Run& run, const Home& home = k_home) {
  return pod_manifest(run, run.experiment.trials.front(), 1, home);
}
// Returns the Pod of a trial to which `change` has been applied.
json pod_with(const std::function<void(Trial&)>& change) {
  return pod_of(run_of(trial_of("solver", change)));
}
json spec_with(const std::function<void(Trial&)>& change) {
  return pod_with(change)["spec"];
}
json container_with(const std::function<void(Trial&)>& change) {
  return spec_with(change)["containers"][0];
}
json with_section(
    const json& section, const std::function<void(Trial&)>& change = [](Trial&) {}) {
  return pod_with([&](Trial& trial) {
    change(trial);
    trial.container.kubernetes = json_text(section);
  });
}

// ---- Whole manifests

// Ten solvers would look like this one.
Experiment solvers() {
  Experiment experiment =
      experiment_of({trial_of("Loader",
                              [](Trial& trial) {
                                trial.service = true;
                                trial.process.cmd = {{"serve", "--price", "$5", "$(HOME)"}};
                                trial.container.networks = {"lab"};
                                trial.container.ports = {{"127.0.0.1", 8080, 80, "tcp"}, {"", 53, 53, "udp"}};
                                trial.healthcheck = Healthcheck{{"CMD-SHELL", "curl localhost:80 || exit $?"},
                                                                Seconds(0.2),
                                                                Seconds(0),
                                                                Seconds(0.5),
                                                                5};
                              }),
                     trial_of("solver-1", [](Trial& trial) {
                       trial.process.entrypoint = {{"/bin/solve", "--fast"}};
                       trial.process.env = {{"LOADER", "http://loader"}, {"COST", "5$"}};
                       trial.container.networks = {"lab", "Results_"};
                       trial.slots = {Cpus{1'500'000'000}, Bytes{512LL << 20}, {}};
                       trial.depends = {{"Loader", Condition::healthy, "trials[1].depends[0]"}};
                     })});
  experiment.isolates_networks = true;
  return experiment;
}

// One trial with every other field.
Experiment fields() {
  Experiment experiment = experiment_of({trial_of("Trial_" + std::string(80, 'x'), [](Trial& trial) {
    trial.image = "registry.example.com:5000/lab/solver@sha256:" + std::string(64, 'a');
    trial.process.entrypoint = std::vector<std::string>{};
    trial.process.cmd = {{"a", "", "µ\x7f"}};
    trial.process.workdir = "/work";
    trial.process.user = "1000:1001";
    trial.process.init = false;
    trial.process.stop_signal = "SIGTERM";
    trial.process.stop_grace = Seconds(2.5);
    trial.container.labels = {{"team", "a"}, {"example.com/note", "two words"}};
    trial.container.volumes = {
        {.source = "results", .source_is_path = false, .target = "/results"},
        {.source = "results", .source_is_path = false, .target = "/old", .read_only = true},
        {.source = "/data", .target = "/data", .folder_meant = true, .remote = true},
        {.source = "/etc/motd", .target = "/motd", .remote = true}};
    trial.container.networks = {"host"};
    trial.container.ports = {{"", 8080, 80, "tcp"}};
    trial.container.shm_size = Bytes{1LL << 30};
    trial.container.docker = R"({"HostConfig": {"Privileged": true}})";
    trial.slots = {Cpus{10'500'000}, Bytes{0}, {}};
    trial.gpus = GpuRequest{.count = 2, .memory = Bytes{(20LL << 30) + 1}};
    trial.pull = Pull::always;
    trial.platform = "linux/arm/v7";
    trial.metrics = Metrics{.json = true};
  })});
  experiment.name = "two words";
  experiment.keep = Keep::ended;
  experiment.ttl = Seconds(3600.5);
  return experiment;
}

// A trial with a section.
Experiment section() {
  return experiment_of({trial_of("solver", [](Trial& trial) {
    trial.process.env = {{"A", "1"}};
    trial.container.labels = {{"team", "a"}};
    trial.container.networks = {"lab"};
    trial.container.volumes = {{.source = "results", .source_is_path = false, .target = "/results"},
                               {.source = "/home/ada/data", .target = "/data"}};
    trial.slots = {Cpus{2'000'000'000}, Bytes{0}, {}};
    trial.gpus = GpuRequest{.count = 1, .memory = Bytes{40LL << 30}};
    trial.container.kubernetes = R"({
      "pod": {
        "serviceAccountName": "default",
        "automountServiceAccountToken": true,
        "hostPID": true,
        "nodeSelector": {"pool": "batch"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
        "dnsConfig": {"searches": ["example.com"], "options": [{"name": "ndots", "value": "2"}]},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
          {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
          {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]}}},
        "volumes": [{"name": "data", "configMap": {"name": "data"}}],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}
      },
      "container": {
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "resources": {"limits": {"ephemeral-storage": "1Gi"}},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}
      },
      "metadata": {"labels": {"queue": "night"}, "annotations": {"example.com/note": "two words"}}
    })";
  })});
}

struct GoldenCase {
  const char* name;
  Experiment (*experiment)();
};

class KubernetesGolden : public testing::TestWithParam<GoldenCase> {};

TEST_P(KubernetesGolden, ManifestsAreAsExpected) {
  const std::string path =
      std::string(COMBU_SOURCE_DIR "/tests/golden/kubernetes/") + GetParam().name + ".yaml";
  const auto run = run_of(GetParam().experiment());
  EXPECT_THAT(texts_of(check_kubernetes_fields(run.experiment)), IsEmpty());
  EXPECT_THAT(texts_of(check_kubernetes_sections(run.experiment)), IsEmpty());
  const std::string actual = kubernetes_manifests(run, "lab");
  if (std::getenv("COMBU_GOLDEN_WRITE") != nullptr)  // NOLINT(concurrency-mt-unsafe): one thread
    std::ofstream(path, std::ios::binary) << actual;
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), actual);
}

INSTANTIATE_TEST_SUITE_P(Files, KubernetesGolden,
                         testing::Values(GoldenCase{"solvers", solvers}, GoldenCase{"fields", fields},
                                         GoldenCase{"section", section}),
                         [](const auto& named) { return std::string(named.param.name); });

// ---- Owner and labels

TEST(KubernetesManifest, ObjectsBelongToTheAnchor) {
  const auto run = run_of(solvers());
  const Home home{"lab", "uid-1"};
  const json owner = {{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"name", "combu-k3x9"}, {"uid", "uid-1"}};
  std::vector<json> objects = network_manifests(run, home);
  objects.push_back(pod_of(run, home));
  ASSERT_THAT(objects, SizeIs(5));
  for (const json& object : objects) EXPECT_EQ(object["metadata"]["ownerReferences"], json::array({owner}));
  const json anchor = anchor_manifest(run);
  EXPECT_EQ(anchor["kind"], "ConfigMap");
  EXPECT_EQ(anchor["metadata"]["name"], owner["name"]);
  EXPECT_FALSE(anchor["metadata"].contains("ownerReferences"));
  EXPECT_EQ(anchor["metadata"]["labels"], objects.front()["metadata"]["labels"]);
}

TEST(KubernetesManifest, APodHasTheNumberOfItsAttempt) {
  const auto run = run_of(trial_of("solver"));
  const json pod = pod_manifest(run, run.experiment.trials.front(), 3, k_home);
  EXPECT_EQ(pod["metadata"]["name"], "solver-k3x9-3");
  EXPECT_EQ(pod["metadata"]["labels"][k_attempt], "3");
}

TEST(KubernetesManifest, TheFullTextOfAHashedLabelIsAnAnnotation) {
  const json metadata = pod_of(run_of(trial_of(std::string(100, 'x'))))["metadata"];
  EXPECT_EQ(metadata["annotations"][k_trial], std::string(100, 'x'));
  EXPECT_EQ(metadata["labels"][k_trial], label_value(std::string(100, 'x')));
  EXPECT_EQ(metadata["labels"][k_experiment], "routing");
  EXPECT_FALSE(metadata["annotations"].contains(k_experiment));
}

TEST(KubernetesManifest, ASectionCannotReplaceCombusLabels) {
  const json section = {{"metadata", {{"labels", {{k_trial, "x"}}}, {"annotations", {{k_cpus, "9"}}}}}};
  const json metadata =
      with_section(section, [](Trial& trial) { trial.slots.cpus.nano = 1'500'000'000; })["metadata"];
  EXPECT_EQ(metadata["labels"][k_trial], "solver");
  EXPECT_EQ(metadata["annotations"][k_cpus], "1.5");
}

// ---- Programs

TEST(KubernetesManifest, AProgramOfCombuIsMountedFromAConfigMap) {
  const auto program = std::make_shared<const ProvidedProgram>(ProvidedProgram{.path = "/combu/agent/agent",
                                                                               .content = "\x7f"
                                                                                          "ELF",
                                                                               .folder = "/combu/attempts"});
  const auto run = run_of(trial_of("combu-worker-k3x9-1", [&](Trial& trial) {
    trial.container.provided = program;
    trial.container.volumes = {{.source = "data", .source_is_path = false, .target = "/data"}};
  }));
  const json map = program_manifest(run, *program, {"lab", "uid-1"});
  EXPECT_EQ(map["binaryData"], json({{"agent", "f0VMRg=="}}));
  EXPECT_EQ(map["immutable"], true);
  EXPECT_EQ(map["metadata"]["ownerReferences"][0]["uid"], "uid-1");
  const json spec = pod_of(run)["spec"];
  EXPECT_EQ(spec["volumes"][1]["configMap"],
            json({{"name", map["metadata"]["name"]}, {"defaultMode", 0555}}));
  EXPECT_EQ(spec["volumes"][2]["emptyDir"], json::object());
  const json& mounts = spec["containers"][0]["volumeMounts"];
  ASSERT_THAT(mounts, SizeIs(3));
  EXPECT_EQ(mounts[0]["mountPath"], "/data");
  EXPECT_EQ(mounts[1], json({{"name", "combu-program"}, {"mountPath", "/combu/agent"}, {"readOnly", true}}));
  EXPECT_EQ(mounts[2], json({{"name", "combu-attempts"}, {"mountPath", "/combu/attempts/w"}}));
  EXPECT_TRUE(spec["nodeSelector"].contains("kubernetes.io/arch")) << "the program needs a processor";
}

TEST(KubernetesManifest, AnotherProgramHasAnotherConfigMap) {
  const RunId run("k3x9");
  EXPECT_EQ(program_name(run, {.path = "/a", .content = "1"}),
            program_name(run, {.path = "/b", .content = "1"}));
  EXPECT_NE(program_name(run, {.path = "/a", .content = "1"}),
            program_name(run, {.path = "/a", .content = "2"}));
}

TEST(KubernetesManifest, AnEntrypointReplacesTheCommandOfTheImage) {
  const json entrypoint = container_with([](Trial& trial) { trial.process.entrypoint = {{"a"}}; });
  EXPECT_EQ(entrypoint["command"], json::array({"a"}));
  EXPECT_FALSE(entrypoint.contains("args"));
  const json cmd = container_with([](Trial& trial) { trial.process.cmd = {{"b"}}; });
  EXPECT_FALSE(cmd.contains("command"));
  EXPECT_EQ(cmd["args"], json::array({"b"}));
}

TEST(KubernetesManifest, AnEmptyEntrypointRemovesTheEntrypointOfTheImage) {
  const json container = container_with([](Trial& trial) {
    trial.process.entrypoint = std::vector<std::string>{};
    trial.process.cmd = {{"a", "b"}};
  });
  EXPECT_EQ(container["command"], json::array({"a", "b"}));
  EXPECT_FALSE(container.contains("args"));
}

TEST(KubernetesManifest, ATrialWithoutProgramUsesTheProgramOfTheImage) {
  const json container = container_with([](Trial& trial) { trial.process.cmd = std::vector<std::string>{}; });
  EXPECT_FALSE(container.contains("command"));
  EXPECT_FALSE(container.contains("args"));
}

TEST(KubernetesManifest, AUserWithoutGroupSetsNoGroup) {
  const json context = container_with([](Trial& trial) { trial.process.user = "0"; })["securityContext"];
  EXPECT_EQ(context, json({{"runAsUser", 0}}));
}

TEST(KubernetesManifest, AStopGraceOfZeroStaysZero) {
  EXPECT_EQ(
      spec_with([](Trial& trial) { trial.process.stop_grace = Seconds(0); })["terminationGracePeriodSeconds"],
      0);
  EXPECT_EQ(spec_with([](Trial&) {})["terminationGracePeriodSeconds"], 10);
}

TEST(KubernetesManifest, ALongTtlIsWithinTheLimitOfTheApi) {
  auto run = run_of(trial_of("solver"));
  run.experiment.ttl = Seconds(3e9);
  EXPECT_EQ(pod_of(run)["spec"]["activeDeadlineSeconds"], 2147483647);
}

// ---- Slots

TEST(KubernetesManifest, CpusAreThousandthsRoundedUp) {
  const auto cpu = [](std::int64_t nano) {
    return container_with([&](Trial& trial) { trial.slots.cpus.nano = nano; })["resources"]["limits"]["cpu"];
  };
  EXPECT_EQ(cpu(2'000'000'000), "2");
  EXPECT_EQ(cpu(1'500'000'000), "1500m");
  EXPECT_EQ(cpu(10'000'001), "11m");
}

TEST(KubernetesManifest, MemoryHasTheLargestUnitWithoutAFraction) {
  const auto memory = [](std::int64_t bytes) {
    return container_with(
        [&](Trial& trial) { trial.slots.memory.count = bytes; })["resources"]["limits"]["memory"];
  };
  EXPECT_EQ(memory(std::int64_t{3} << 30U), "3Gi");
  EXPECT_EQ(memory(1536 << 20U), "1536Mi");
  EXPECT_EQ(memory(std::int64_t{4096} << 30U), "4096Gi");
  EXPECT_EQ(memory(6000000), "6000000");
  EXPECT_EQ(memory(10240), "10Ki");
}

TEST(KubernetesManifest, ATrialWithoutSlotsHasNoResources) {
  EXPECT_FALSE(container_with([](Trial&) {}).contains("resources"));
}

TEST(KubernetesManifest, TheMemoryOfGpusSelectsNodes) {
  const auto least = [](std::int64_t bytes) {
    const json spec =
        spec_with([&](Trial& trial) { trial.gpus = GpuRequest{.count = 1, .memory = Bytes{bytes}}; });
    return spec.at(
        json::json_pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/"
                           "nodeSelectorTerms/0/matchExpressions/0"));
  };
  const json above = {
      {"key", "nvidia.com/gpu.memory"}, {"operator", "Gt"}, {"values", json::array({"20479"})}};
  EXPECT_EQ(least(20LL << 30), above);
  EXPECT_EQ(least(1)["values"][0], "0");
}

// ---- Health checks

TEST(KubernetesManifest, AHealthCheckHasDockersDefaultValues) {
  const json probe = container_with([](Trial& trial) {
    trial.healthcheck = Healthcheck{{"CMD", "check", "$(X)"}};
  })["readinessProbe"];
  EXPECT_EQ(probe, json({{"exec", {{"command", json::array({"check", "$$(X)"})}}},
                         {"periodSeconds", 30},
                         {"timeoutSeconds", 30},
                         {"failureThreshold", 3}}));
}

TEST(KubernetesManifest, NoHealthCheckIsNoProbe) {
  const json pod = pod_with(
      [](Trial& trial) { trial.healthcheck = Healthcheck{.test = {"NONE"}, .start_period = Seconds(3)}; });
  EXPECT_FALSE(pod["spec"]["containers"][0].contains("readinessProbe"));
  EXPECT_FALSE(pod["metadata"].value("annotations", json::object()).contains(k_start_period));
}

// ---- Networks

TEST(KubernetesManifest, WithoutNamedNetworksThereAreNoObjectsOfNetworks) {
  for (const std::string network : {"host", "bridge", "default", ""}) {
    auto run = run_of(trial_of("solver", [&](Trial& trial) {
      if (!network.empty()) trial.container.networks = {network};
    }));
    run.experiment.isolates_networks = true;
    EXPECT_THAT(network_manifests(run, k_home), IsEmpty()) << network;
    EXPECT_FALSE(pod_of(run)["spec"].contains("subdomain")) << network;
  }
}

TEST(KubernetesManifest, WithoutIsolationThereIsOnlyAService) {
  auto run = run_of(solvers());
  run.experiment.isolates_networks = false;
  const std::vector<json> objects = network_manifests(run, k_home);
  ASSERT_THAT(objects, SizeIs(1));
  EXPECT_EQ(objects[0]["kind"], "Service");
  // The Service selects the Pods of the trials on named networks.
  const json labels = pod_of(run)["metadata"]["labels"];
  for (const auto& [label, value] : objects[0]["spec"]["selector"].items()) EXPECT_EQ(labels[label], value);
}

TEST(KubernetesManifest, ATrialWhoseNameIsNoDnsLabelHasNoHostName) {
  const json spec =
      pod_of(run_of(trial_of("solver_1", [](Trial& trial) { trial.container.networks = {"lab"}; })))["spec"];
  EXPECT_FALSE(spec.contains("hostname"));
  EXPECT_EQ(spec["dnsConfig"]["searches"], json::array({"combu-k3x9.lab.svc.cluster.local"}));
}

// ---- Volumes

TEST(KubernetesManifest, AVolumeAtDevShmReplacesShmSize) {
  const json spec = spec_with([](Trial& trial) {
    trial.container.shm_size = Bytes{1 << 20};
    trial.container.volumes = {{.source = "cache", .source_is_path = false, .target = "/dev/shm"}};
  });
  EXPECT_THAT(spec["volumes"], SizeIs(1));
  EXPECT_THAT(spec["containers"][0]["volumeMounts"], SizeIs(1));
}

// ---- Sections

TEST(KubernetesManifest, NullInASectionRemovesAField) {
  const json spec = with_section({{"pod", {{"shareProcessNamespace", nullptr}}}})["spec"];
  EXPECT_FALSE(spec.contains("shareProcessNamespace"));
}

TEST(KubernetesManifest, ASectionExtendsAVolumeWithTheSameName) {
  const json section = {
      {"pod", {{"volumes", json::array({{{"name", "combu-shm"}, {"emptyDir", {{"sizeLimit", "5"}}}}})}}}};
  const json spec = with_section(section, [](Trial& trial) { trial.container.shm_size = Bytes{9}; })["spec"];
  EXPECT_EQ(spec["volumes"],
            json::array({{{"name", "combu-shm"}, {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", "5"}}}}}));
}

TEST(KubernetesManifest, ASectionReplacesAnEnvironmentVariableWithTheSameName) {
  const json section = {{"container", {{"env", json::array({{{"name", "A"}, {"value", "2"}}})}}}};
  const json container = with_section(section, [](Trial& trial) {
    trial.process.env = {{"A", "1"}};
  })["spec"]["containers"][0];
  EXPECT_EQ(container["env"], json::array({{{"name", "A"}, {"value", "2"}}}));
}

TEST(KubernetesManifest, PortsAndTolerationsOfASectionAreAppended) {
  const json section = {{"container", {{"ports", json::array({{{"containerPort", 80}}})}}}};
  const json pod = with_section(section, [](Trial& trial) {
    trial.container.ports = {{"", 8080, 80, "tcp"}};
  });
  EXPECT_THAT(pod["spec"]["containers"][0]["ports"], SizeIs(2));
}

}  // namespace
}  // namespace combu::kubernetes
