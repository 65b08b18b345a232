// Workers: the shape by which trials share them, and the checks of absolute paths. tests/golden has the
// messages.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/spec.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Reading read(std::string_view trials) {
  Caller caller;
  caller.file = "/lab/experiment.jsonnet";
  caller.folder = "/lab";
  caller.home = "/home/ada";
  caller.env = [](const std::string&) { return std::optional<std::string>(); };
  return read_experiment(
      fmt::format(R"({{"defaults": {{"image": "i", "worker": true}}, "trials": [{}]}})", trials), caller);
}

std::vector<std::string> errors_of(std::string_view trials) {
  std::vector<std::string> errors;
  for (const Error& error : read(trials).errors) errors.emplace_back(error.what());
  return errors;
}

// Returns the shape of a trial with these fields.
std::string shape(const std::string& fields) {
  const Reading reading = read(fmt::format(R"({{"name": "aa"{}{}}})", fields.empty() ? "" : ", ", fields));
  for (const Error& error : reading.errors) ADD_FAILURE() << error.what();
  return worker_shape(reading.experiment.trials.at(0));
}

TEST(Worker, IsOffUnlessTheFileSetsIt) {
  const Experiment experiment =
      read(R"({"name": "on"}, {"name": "off", "worker": false}, {"name": "null", "worker": null})")
          .experiment;
  EXPECT_EQ(*experiment.trials.at(0).worker, WorkerSettings{.on = true});
  EXPECT_FALSE(experiment.trials[0].has_own_container());
  EXPECT_FALSE(experiment.trials[1].worker);
  EXPECT_TRUE(experiment.trials[1].has_own_container());
  EXPECT_TRUE(experiment.trials[2].has_own_container());
}

TEST(Worker, AnObjectSetsTheLimits) {
  const Experiment experiment =
      read(
          R"({"name": "aa", "worker": {"count": 2, "concurrency": 3, "trials_max": 4, "age_max": "5m", "idle": 6}})")
          .experiment;
  EXPECT_EQ(*experiment.trials.at(0).worker, (WorkerSettings{.on = true,
                                                             .count = 2,
                                                             .concurrency = 3,
                                                             .trials_max = 4,
                                                             .age_max = Seconds(300),
                                                             .idle = Seconds(6)}));
}

TEST(WorkerShape, TheProgramItsEnvironmentAndLabelsDoNotMatter) {
  const std::string plain = shape("");
  for (const char* fields :
       {R"("cmd": "x")", R"("entrypoint": "x")", R"("env": {"A": "1"})", R"("params": {"a": 1})",
        R"("labels": {"a": "b"})", R"("timeout": "1s")", R"("retries": 1)", R"("outputs": "out")",
        R"("inputs": "./x:in")", R"("stop_signal": "INT")", R"("metrics": "json")", R"("pull": "never")"})
    EXPECT_EQ(shape(fields), plain) << fields;
}

TEST(WorkerShape, SettingsOfTheContainerMatter) {
  std::vector<std::string> shapes{shape("")};
  for (const char* fields : {R"("image": "j")",
                             R"("platform": "linux/arm64")",
                             R"("workdir": "/w")",
                             R"("user": "1000")",
                             R"("volumes": ["vol:/v"])",
                             R"("volumes": ["vol:/v:ro"])",
                             R"("networks": "n")",
                             R"("shm_size": "1m")",
                             R"("docker": {"Hostname": "h"})",
                             R"("kubernetes": {"pod": {"hostNetwork": true}})",
                             R"("volumes": [{"host": "/v", "container": "/v"}])",
                             R"("volumes": [{"host": "/v", "container": "/v", "remote": true}])",
                             R"("cpus": 1)",
                             R"("memory": "1g")",
                             R"("gpus": 1)",
                             R"("gpus": ["0"])",
                             R"("inputs": "./x:/in")",
                             R"("inputs": "./y:/in")",
                             R"("worker": {"concurrency": 2})",
                             R"("worker": {"idle": "1m"})"}) {
    const std::string one = shape(fields);
    EXPECT_EQ(std::ranges::count(shapes, one), 0) << fields;
    shapes.push_back(one);
  }
}

TEST(WorkerPaths, TrialsOfOneShapeMustNotWriteTheSameAbsolutePath) {
  EXPECT_THAT(errors_of(R"({"name": "aa", "outputs": "/out"}, {"name": "bb", "outputs": "/out"})"),
              ElementsAre(HasSubstr("trials[1].outputs[0]: `aa` writes /out too")));
  EXPECT_THAT(
      errors_of(R"({"name": "aa", "outputs": "/out"}, {"name": "bb", "outputs": "/out", "user": "1"})"),
      IsEmpty());
  EXPECT_THAT(errors_of(R"({"name": "aa", "outputs": "out"}, {"name": "bb", "outputs": "out"})"), IsEmpty());
  EXPECT_THAT(
      errors_of(R"({"name": "aa", "outputs": "/out"}, {"name": "bb", "outputs": "/out", "worker": false})"),
      IsEmpty());
}

TEST(WorkerPaths, AFileBetweenAFolderAndAnotherFileDoesNotHideTheConflict) {
  EXPECT_THAT(errors_of(R"({"name": "aa", "outputs": "/out", "metrics": {"file": "/out/a.csv"}},
                           {"name": "bb", "outputs": "/out/b"})"),
              ElementsAre(HasSubstr("trials[1].outputs[0]: `aa` writes /out/b too")));
  EXPECT_THAT(
      errors_of(R"({"name": "aa", "outputs": "/out/z/a"}, {"name": "bb", "outputs": ["/out-2", "/out"]})"),
      ElementsAre(HasSubstr("trials[1].outputs[1]: `aa` writes /out too")));
  EXPECT_THAT(errors_of(R"({"name": "aa", "outputs": "/out"}, {"name": "bb", "outputs": "/outer"})"),
              IsEmpty());
}

TEST(WorkerPaths, InputsInTheScratchFolderDoNotConflictWithOthers) {
  const Reading reading = read(R"({"name": "aa", "inputs": ["./a:in", "./b:/in", "./c:/in-2/"]})");
  EXPECT_THAT(reading.errors, IsEmpty());
  const std::vector<Input>& inputs = reading.experiment.trials.at(0).inputs;
  EXPECT_EQ(inputs.at(0).path_in_container(), "in");
  EXPECT_EQ(inputs.at(1).path_in_container(), "/in");
  EXPECT_EQ(inputs.at(2).path_in_container(), "/in-2/c");
}

TEST(WorkerPaths, AnInputOfATrialNeedsAPathInTheContainer) {
  EXPECT_THAT(errors_of(R"({"name": "aa", "outputs": "out"}, {"name": "bb", "inputs": "trial:aa/out"})"),
              ElementsAre(HasSubstr("is not an input: write \"FROM:TO\"")));
}

}  // namespace
}  // namespace combu
