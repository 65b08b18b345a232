// The fields that concern only Kubernetes, and volumes on the host of the trial. tests/golden has the
// messages.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "combu/json.hpp"
#include "combu/spec.hpp"

namespace {

using namespace combu;
using testing::IsEmpty;
using testing::SizeIs;

Caller caller_of_lab() {
  Caller caller;
  caller.file = "/lab/experiment.jsonnet";
  caller.folder = "/lab";
  caller.home = "/home/ada";
  caller.env = [](const std::string&) { return std::optional<std::string>(); };
  return caller;
}

// Returns the experiment with these top-level fields and one trial with these fields.
Experiment experiment_of(std::string_view top, std::string_view trial = "") {
  const Reading reading =
      read_experiment(fmt::format(R"({{{}{}"trials": [{{"name": "solver", "image": "i"{}{}}}]}})", top,
                                  top.empty() ? "" : ",", trial.empty() ? "" : ",", trial),
                      caller_of_lab());
  for (const Error& error : reading.errors) ADD_FAILURE() << error.what();
  return reading.experiment;
}

nlohmann::json section_of(std::string_view defaults, std::string_view trial) {
  const Experiment experiment = experiment_of(fmt::format(R"("defaults": {{"kubernetes": {}}})", defaults),
                                              fmt::format(R"("kubernetes": {})", trial));
  const std::string& section = experiment.trials.at(0).container.kubernetes;
  return section.empty() ? nlohmann::json() : parse_json(section);
}

TEST(KubernetesFields, AreUnsetByDefault) {
  for (const char* top : {"", R"("keep": null, "ttl": null, "isolate": null)"}) {
    const Experiment experiment = experiment_of(top);
    EXPECT_EQ(experiment.keep, Keep::none);
    EXPECT_EQ(experiment.ttl, Seconds(0));
    EXPECT_FALSE(experiment.isolates_networks);
    EXPECT_EQ(experiment.defaults_kubernetes, "");
    EXPECT_EQ(experiment.trials.at(0).container.kubernetes, "");
  }
}

TEST(KubernetesFields, OfTheExperimentAreRead) {
  const Experiment experiment = experiment_of(R"("keep": "ended", "ttl": "1s", "isolate": true)");
  EXPECT_EQ(experiment.keep, Keep::ended);
  EXPECT_EQ(experiment_of(R"("keep": "volume")").keep, Keep::volume);
  EXPECT_EQ(experiment.ttl, Seconds(1));
  EXPECT_TRUE(experiment.isolates_networks);
}

TEST(KubernetesSection, IsMergedWithTheDefaultsAtEveryDepth) {
  EXPECT_EQ(section_of(R"({"pod": {"nodeSelector": {"a": "1", "b": "2"}, "tolerations": [{"key": "x"}]}})",
                       R"({"pod": {"nodeSelector": {"b": "3"}, "tolerations": []}, "container": {}})"),
            nlohmann::json::parse(
                R"({"pod": {"nodeSelector": {"a": "1", "b": "3"}, "tolerations": []}, "container": {}})"));
}

TEST(KubernetesSection, NullRemovesAMemberOfTheDefaults) {
  constexpr std::string_view k_defaults =
      R"({"pod": {"nodeSelector": {"a": "1"}, "priorityClassName": "high"}, "metadata": {"labels": {"a": "b"}}})";
  EXPECT_EQ(section_of(k_defaults, R"({"pod": {"nodeSelector": null}, "metadata": null})"),
            nlohmann::json::parse(R"({"pod": {"priorityClassName": "high"}})"));
  EXPECT_EQ(section_of(k_defaults, R"({"pod": null, "metadata": null})"), nlohmann::json());
  EXPECT_EQ(section_of(k_defaults, "null"), nlohmann::json());
  EXPECT_EQ(section_of("null", R"({"pod": {"tolerations": [{"key": "a", "value": null}, null]}})"),
            nlohmann::json::parse(R"({"pod": {"tolerations": [{"key": "a"}, null]}})"));
}

TEST(KubernetesSection, OfTheDefaultsIsTheSectionOfATrialWithoutItsOwn) {
  const Experiment experiment = experiment_of(
      R"("defaults": {"kubernetes": {"pod": {"nodeSelector": {"a": "1", "b": null}}, "x-own": 1}})");
  EXPECT_EQ(experiment.defaults_kubernetes, R"({"pod":{"nodeSelector":{"a":"1"}}})");
  EXPECT_EQ(experiment.trials.at(0).container.kubernetes, experiment.defaults_kubernetes);
}

TEST(KubernetesSection, MakesTrialsDiffer) {
  const Trial plain = experiment_of("").trials.at(0);
  const Trial other = experiment_of("", R"("kubernetes": {"pod": {"hostNetwork": true}})").trials.at(0);
  EXPECT_FALSE(same(plain, other));
  EXPECT_TRUE(same(other, other));
}

// ---- Volumes on the host of the trial

constexpr std::string_view k_remote_volumes = R"("volumes": [
    {"host": "/proc/combu-test//data/", "container": "/data", "mode": "ro", "remote": true},
    {"host": "/proc/combu-test/x", "container": "/x", "remote": true}])";

TEST(RemoteVolumes, KeepTheirPaths) {
  const Trial trial = experiment_of("", k_remote_volumes).trials.at(0);
  ASSERT_THAT(trial.container.volumes, SizeIs(2));
  const Volume& data = trial.container.volumes[0];
  EXPECT_EQ(data.source, "/proc/combu-test/data");
  EXPECT_TRUE(data.source_is_path);
  EXPECT_TRUE(data.read_only);
  EXPECT_TRUE(data.folder_meant);
  EXPECT_TRUE(data.remote);
  EXPECT_FALSE(trial.container.volumes[1].folder_meant);
}

// Nobody can create a folder in /proc, not even root.
TEST(RemoteVolumes, AreNeitherCheckedNorCreatedOnThisMachine) {
  const Experiment experiment = experiment_of("", k_remote_volumes);
  EXPECT_THAT(check_host_paths(experiment, EngineHost::this_machine), IsEmpty());
  EXPECT_THAT(check_host_paths(experiment, EngineHost::another), IsEmpty());
  const HostFolders folders = make_host_folders(experiment, caller_of_lab());
  EXPECT_THAT(folders.made, IsEmpty());
  EXPECT_THAT(folders.errors, IsEmpty());
}

// The remote volume is writable, but does not fill the absent folder of this machine.
TEST(RemoteVolumes, DoNotHideAVolumeOfThisMachineWithTheSamePath) {
  const Experiment experiment = experiment_of("", R"("volumes": [
      {"host": "/proc/combu-test", "container": "/a", "remote": true}, "/proc/combu-test:/b:ro"])");
  const std::vector<Error> errors = check_host_paths(experiment, EngineHost::this_machine);
  ASSERT_THAT(errors, SizeIs(1));
  EXPECT_EQ(errors[0].subject(), "trials[0].volumes[1]");
}

TEST(RemoteVolumes, DifferFromVolumesOfThisMachine) {
  const auto trial_with = [](std::string_view remote) {
    return experiment_of(
               "", fmt::format(R"("volumes": [{{"host": "/v", "container": "/v", "remote": {}}}])", remote))
        .trials.at(0);
  };
  EXPECT_FALSE(same(trial_with("true"), trial_with("false")));
  EXPECT_TRUE(same(trial_with("null"), trial_with("false")));
}

}  // namespace
