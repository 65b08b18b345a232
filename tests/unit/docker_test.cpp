// The parts of the Docker room that need no engine: JSON of containers, labels and statuses.

#include "combu/docker.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "docker/connections.hpp"
#include "docker/container_json.hpp"
#include "docker/labels.hpp"
#include "docker/status.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;
using testing::ElementsAre;

Run example_run() {
  Run run;
  run.id = RunId("run1");
  run.experiment.name = "exp";
  run.experiment.file = "/f";
  return run;
}

Trial example_trial() {
  Trial trial;
  trial.name = "a";
  trial.image = "img";
  return trial;
}

json labels_json() {
  return {{"combu.gpus", ""},          {"combu.attempt", "1"},     {"combu.cpus", "0"},
          {"combu.experiment", "exp"}, {"combu.file", "/f"},       {"combu.memory", "0"},
          {"combu.run", "run1"},       {"combu.service", "false"}, {"combu.supervised", "false"},
          {"combu.trial", "a"}};
}

json body_of(const Trial& trial, NetworksAtCreate networks = NetworksAtCreate::all) {
  return container_json(example_run(), trial, 1, networks);
}

// ---- container_json

TEST(ContainerJson, TheSmallestTrialNeedsOnlyAnImageAndLabels) {
  EXPECT_EQ(body_of(example_trial()),
            (json{{"Image", "img"}, {"HostConfig", {{"Init", true}}}, {"Labels", labels_json()}}));
}

TEST(ContainerJson, ContainsEveryFieldOfTheTrial) {
  Trial trial = example_trial();
  trial.process.entrypoint = {"e"};
  trial.process.cmd = {"c", "d"};
  trial.process.env = {{"A", "1"}, {"B", "x=y"}};
  trial.process.workdir = "/w";
  trial.process.user = "1:2";
  trial.process.init = false;
  trial.process.stop_signal = "SIGINT";
  trial.process.stop_grace = Seconds{1.2};
  trial.container.labels = {{"l", "v"}};
  trial.container.ports = {{.host_ip = "127.0.0.1", .host = 8080, .container = 80, .protocol = "tcp"},
                           {.host_ip = "", .host = 8081, .container = 80, .protocol = "tcp"}};
  Volume bind;
  bind.source = "/host";
  bind.target = "/in";
  bind.read_only = true;
  Volume named;
  named.source = "vol";
  named.source_is_path = false;
  named.target = "/data";
  trial.container.volumes = {bind, named};
  trial.container.networks = {"n1", "n2"};
  trial.healthcheck = Healthcheck{.test = {"CMD", "true"}, .interval = Seconds{0.5}, .retries = 2};
  json labels = labels_json();
  labels["l"] = "v";
  EXPECT_EQ(body_of(trial).dump(1), json::parse(R"({
    "Image": "img", "Entrypoint": ["e"], "Cmd": ["c", "d"], "Env": ["A=1", "B=x=y"], "WorkingDir": "/w", "User": "1:2",
    "StopSignal": "SIGINT", "StopTimeout": 2, "ExposedPorts": {"80/tcp": {}},
    "Healthcheck": {"Test": ["CMD", "true"], "Interval": 500000000, "Retries": 2},
    "HostConfig": {
      "Init": false, "NetworkMode": "n1",
      "Mounts": [{"Type": "bind", "Source": "/host", "Target": "/in", "ReadOnly": true},
                 {"Type": "volume", "Source": "vol", "Target": "/data"}],
      "PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}, {"HostIp": "", "HostPort": "8081"}]}},
    "NetworkingConfig": {"EndpointsConfig": {"n1": {"Aliases": ["a"]}, "n2": {"Aliases": ["a"]}}},
    "Labels": {"combu.attempt": "1", "combu.experiment": "exp", "combu.file": "/f", "combu.run": "run1",
               "combu.cpus": "0", "combu.gpus": "", "combu.memory": "0", "combu.service": "false",
               "combu.supervised": "false", "combu.trial": "a", "l": "v"}})")
                                        .dump(1));
  EXPECT_EQ(
      body_of(trial, NetworksAtCreate::first).at("/NetworkingConfig/EndpointsConfig"_json_pointer).size(),
      1U);
}

TEST(ContainerJson, ARemoteVolumeIsABindMount) {
  Trial trial = example_trial();
  Volume volume;
  volume.source = "/data";
  volume.target = "/in";
  volume.remote = true;
  trial.container.volumes = {volume};
  EXPECT_EQ(body_of(trial).at("/HostConfig/Mounts"_json_pointer),
            json::parse(R"([{"Type": "bind", "Source": "/data", "Target": "/in"}])"));
}

TEST(ContainerJson, TheKubernetesSectionIsIgnored) {
  Trial trial = example_trial();
  const json without = body_of(trial);
  trial.container.kubernetes = R"({"container": {"tty": true}, "metadata": {"labels": {"x": "y"}}})";
  EXPECT_EQ(body_of(trial), without);
}

TEST(ContainerJson, NetworksOfTheEngineHaveNoAliases) {
  Trial trial = example_trial();
  trial.container.networks = {"host"};
  EXPECT_EQ(body_of(trial).at("HostConfig").at("NetworkMode"), "host");
  EXPECT_FALSE(body_of(trial).contains("NetworkingConfig"));
  trial.container.networks = {"bridge", "n"};
  EXPECT_EQ(body_of(trial).at("/NetworkingConfig/EndpointsConfig"_json_pointer),
            (json{{"bridge", json::object()}, {"n", {{"Aliases", {"a"}}}}}));
}

TEST(ContainerJson, TheDockerSectionIsMergedLast) {
  Trial trial = example_trial();
  trial.process.env = {{"A", "1"}};
  trial.container.docker =
      R"({"HostConfig": {"Init": false, "CapAdd": ["SYS_PTRACE"]}, "Env": ["B=2"], "Labels": {"x": "y"}})";
  const json body = body_of(trial);
  EXPECT_EQ(body.at("HostConfig"), (json{{"Init", false}, {"CapAdd", {"SYS_PTRACE"}}}));
  EXPECT_EQ(body.at("Env"), (json{"A=1", "B=2"}));
  EXPECT_EQ(body.at("Labels").at("x"), "y");
  EXPECT_EQ(body.at("Labels").at("combu.trial"), "a");
}

// ---- the `docker` section

std::vector<std::string> faults_of_section(const std::string& section) {
  Experiment experiment;
  experiment.trials = {example_trial(), example_trial()};
  for (Trial& trial : experiment.trials) trial.container.docker = section;
  experiment.trials[0].path = "[0]";
  experiment.trials[1].path = "[1]";
  std::vector<std::string> texts;
  for (const Error& error : check_docker_sections(experiment)) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    texts.emplace_back(error.what());
  }
  return texts;
}

TEST(DockerSection, ReportsAnErrorInASharedSectionOnce) {
  const std::map<std::string, std::string> cases = {
      {R"({"HostConfg": {}})",
       "[0].docker.HostConfg: the Docker API has no such field; did you mean HostConfig? (trial `a`)"},
      {R"({"Name": "b"})",
       "[0].docker.Name: the Docker API has no such field for a container, or combu sets the field itself "
       "(trial `a`)"},
      {R"({"CapAdd": ["SYS_PTRACE"]})",
       "[0].docker.CapAdd: must be inside HostConfig: docker: {HostConfig: {CapAdd: …}} (trial `a`)"},
      {R"({"HostConfig": 1})", "[0].docker.HostConfig: must be an object (trial `a`)"},
      {R"({"HostConfig": {"Memry": 1}})",
       "[0].docker.HostConfig.Memry: the Docker API has no such field; did you mean Memory? (trial `a`)"},
      {R"({"HostConfig": {"Gpu": 1}})",
       "[0].docker.HostConfig.Gpu: the Docker API's HostConfig has no such field (trial `a`)"},
      {R"({"HostConfig": {"Memory": "512m"}})",
       "[0].docker.HostConfig.Memory: must be a whole number, in the Docker API's unit (trial `a`)"},
      {R"({"HostConfig": {"AutoRemove": true}})",
       "[0].docker.HostConfig.AutoRemove: must not be true: the exit code would be lost with the container; "
       "remove containers with `combu kill` (trial `a`)"},
      {R"({"HostConfig": {"RestartPolicy": {"Name": "always"}}})",
       "[0].docker.HostConfig.RestartPolicy: must not be set, because Docker would restart containers whose "
       "attempts "
       "combu has recorded as ended; use `retries` (trial `a`)"},
      {R"({"Labels": {"combu.run": "x"}})",
       "[0].docker.Labels.combu.run: names that begin with `combu.` are reserved for combu's own labels; use "
       "another name (trial `a`)"},
  };
  for (const auto& [section, text] : cases) {
    EXPECT_EQ(faults_of_section(section), std::vector<std::string>{text}) << section;
  }
}

TEST(DockerSection, ReportsEveryErrorOfASection) {
  EXPECT_EQ(faults_of_section(R"({"Tty": 1, "HostConfig": {"Dns": "1.1.1.1", "Init": "yes"}})").size(), 3U);
}

TEST(DockerSection, ReportsAnErrorInTheDefaultsAtTheDefaults) {
  Experiment experiment;
  experiment.defaults_docker = R"({"Tty": 1})";
  experiment.trials = {example_trial(), example_trial()};
  experiment.trials[0].container.docker = experiment.defaults_docker;
  experiment.trials[1].container.docker = R"({"Tty": 1, "Bogus": 1})";
  experiment.trials[1].path = "trials[1]";
  const std::vector<Error> errors = check_docker_sections(experiment);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_STREQ(errors[0].what(), "defaults.docker.Tty: must be true or false");
  EXPECT_STREQ(errors[1].what(),
               "trials[1].docker.Bogus: the Docker API has no such field for a container, or combu sets the "
               "field itself (trial `a`)");
}

TEST(DockerSection, ChecksEachTrialForFieldsThatItReserves) {
  Experiment experiment;
  experiment.trials = {example_trial(), example_trial()};
  for (Trial& trial : experiment.trials) trial.container.docker = R"({"HostConfig": {"NanoCpus": 1}})";
  experiment.trials[1].path = "[1]";
  experiment.trials[1].slots.cpus = parse_cpus("2");
  const std::vector<Error> errors = check_docker_sections(experiment);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(
      errors[0].what(),
      "[1].docker.HostConfig.NanoCpus: the trial's field `cpus` already sets this value; remove one of the "
      "two fields (trial `a`)");
}

TEST(DockerSection, AcceptsTheFieldsOfTheDockerApi) {
  EXPECT_EQ(faults_of_section(R"({"Tty": true, "Hostname": "h", "Cmd": "true", "Labels": {"x": "y"},
                                  "HostConfig": {"Memory": 1, "CapAdd": null, "AutoRemove": false,
                                                 "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 1}]}})"),
            std::vector<std::string>());
}

TEST(ContainerJson, RequestsEachGpuAsItsIdRequires) {
  Trial trial = example_trial();
  trial.gpus = GpuRequest{.count = 3};
  EXPECT_FALSE(body_of(trial).at("HostConfig").contains("DeviceRequests")) << "before it is started";
  trial.slots.gpus = {"nvidia.com/gpu=0", "1", "2"};
  EXPECT_EQ(body_of(trial).at("HostConfig").at("DeviceRequests"), json::parse(R"([
    {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]},
    {"DeviceIDs": ["1", "2"], "Capabilities": [["gpu"]]}])"));
}

// ---- labels

TEST(Labels, IdentityContainsTheWrittenLabels) {
  const combu::Run run = example_run();
  const Labels labels = labels_of(run, example_trial(), 2);
  const auto identity = identity_of(labels, "a");
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->key, (Key{RunId("run1"), "a", 2}));
  EXPECT_EQ(identity->experiment, "exp");
  EXPECT_EQ(identity->file, "/f");
  EXPECT_TRUE(are_labels_of(labels, run, "a", 2));
  EXPECT_FALSE(are_labels_of(labels, run, "a", 1));
}

TEST(Labels, AContainerThatLacksALabelIsNotCombus) {
  for (const char* name : {k_label_experiment, k_label_run, k_label_trial, k_label_attempt}) {
    Labels labels = labels_of(example_run(), example_trial(), 1);
    labels.erase(name);
    EXPECT_FALSE(identity_of(labels, "a")) << name;
    labels[name] = "";
    EXPECT_FALSE(identity_of(labels, "a")) << name;
  }
  Labels labels = labels_of(example_run(), example_trial(), 1);
  labels[k_label_attempt] = "1x";
  EXPECT_FALSE(identity_of(labels, "a"));
}

TEST(Labels, LabelsInheritedFromAnImageDoNotIdentifyAContainer) {
  const Labels labels = labels_of(example_run(), example_trial(), 1);
  EXPECT_FALSE(identity_of(labels, "b"));
  EXPECT_FALSE(identity_of(labels, ""));
}

TEST(Labels, EveryLabelIsSetSoThatNoneIsInheritedFromAnImage) {
  const Labels labels = labels_of(example_run(), example_trial(), 1);
  EXPECT_EQ(labels.at(k_label_service), "false");
  EXPECT_EQ(labels.at(k_label_cpus), "0");
  EXPECT_EQ(labels.at(k_label_memory), "0");
  EXPECT_EQ(labels.at(k_label_gpus), "");
}

TEST(Labels, ContainTheIdsOfTheGpus) {
  Trial trial = example_trial();
  trial.slots.gpus = {"nvidia.com/gpu=0", "nvidia.com/gpu=GPU-1"};
  const Labels labels = labels_of(example_run(), trial, 1);
  EXPECT_EQ(labels.at(k_label_gpus), "nvidia.com/gpu=0,nvidia.com/gpu=GPU-1");
  EXPECT_EQ(identity_of(labels, "a")->slots.gpus, trial.slots.gpus);
}

TEST(Labels, AnEmptySelectorSelectsOnlyCombusContainers) {
  EXPECT_THAT(label_filters(Selector{}), ElementsAre("combu.experiment"));
  Selector selector;
  selector.file = "/f";
  selector.run = RunId("r");
  EXPECT_THAT(label_filters(selector), ElementsAre("combu.file=/f", "combu.run=r"));
}

// ---- status

TEST(Status, ParsesTheStatesOfDocker) {
  struct Case {
    std::string state;
    std::string text;
    Phase phase;
    Health health;
    std::optional<int> exit_code;
  };
  const std::vector<Case> cases = {
      {"created", "Created", Phase::created, Health::none, {}},
      {"running", "Up 3 seconds", Phase::running, Health::none, {}},
      {"running", "Up 3 seconds (healthy)", Phase::running, Health::healthy, {}},
      {"running", "Up 3 seconds (unhealthy)", Phase::running, Health::unhealthy, {}},
      {"running", "Up Less than a second (health: starting)", Phase::running, Health::starting, {}},
      {"paused", "Up 2 hours (Paused)", Phase::running, Health::none, {}},
      {"restarting", "Restarting (1) 2 seconds ago", Phase::running, Health::none, {}},
      {"exited", "Exited (137) 2 hours ago", Phase::ended, Health::none, 137},
      {"exited", "Exited (0) Less than a second ago", Phase::ended, Health::none, 0},
      {"dead", "Dead", Phase::gone, Health::none, {}},
      {"removing", "Removal In Progress", Phase::gone, Health::none, {}},
  };
  for (const Case& each : cases) {
    const Status status = parse_status(each.state, each.text);
    EXPECT_EQ(status.phase, each.phase) << each.text;
    EXPECT_EQ(status.health, each.health) << each.text;
    EXPECT_EQ(status.exit_code, each.exit_code) << each.text;
  }
}

// ---- refusals

TEST(Refusals, TheDaemonsMessageBecomesOneLine) {
  HttpResponse response;
  response.status = 500;
  response.body = R"({"message": "  first\n\tsecond  "})";
  EXPECT_EQ(message_of(response), "first second");
  response.body = "plain";
  EXPECT_EQ(message_of(response), "status 500: plain");
  response.body = "";
  EXPECT_EQ(message_of(response), "status 500 without a message");
  response.body = json{{"message", std::string(10000, 'x')}}.dump();
  EXPECT_LT(message_of(response).size(), 600U);
}

TEST(ApiVersion, PartsAreComparedAsNumbers) {
  EXPECT_LT(parse_api_version("1.9"), parse_api_version("1.41"));
  for (const std::string text : {"", "1", "1.", "v1.41", "1.41x"}) {
    EXPECT_THROW((void)parse_api_version(text), Error) << text;
  }
}

}  // namespace
}  // namespace combu::docker
