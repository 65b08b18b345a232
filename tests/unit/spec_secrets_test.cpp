// Secrets in the file: what makes trials equal, and warnings. tests/golden has the accepted forms and the
// errors.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "combu/spec.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Reading read(const std::string& sources, const std::string& secrets, std::string_view before = "") {
  Caller caller;
  caller.file = "/lab/experiment.jsonnet";
  caller.folder = "/lab";
  caller.env = [](const std::string&) { return std::optional<std::string>(); };
  return read_experiment(
      fmt::format(
          R"({{"secrets": {{{}}}, "trials": [{}{{"name": "aa", "image": "i", "worker": true{}{}}}]}})",
          sources, before, secrets.empty() ? "" : R"(, "secrets": )", secrets),
      caller);
}

Trial trial(const std::string& sources, const std::string& secrets, std::string_view before = "") {
  const Reading reading = read(sources, secrets, before);
  for (const Error& error : reading.errors) ADD_FAILURE() << error.what();
  return reading.experiment.trials.back();
}

constexpr const char* k_file = R"("a": {"file": "a"}, "b": {"file": "b"})";
constexpr const char* k_cluster = R"("a": {"kubernetes": {"secret": "s", "key": "k"}}, "b": {"file": "b"})";
constexpr const char* k_variable = R"([{"source": "a", "env": "A"}])";

TEST(Secrets, TheLocationInTheFileDoesNotMakeTrialsDiffer) {
  const Trial one = trial(k_file, R"(["a"])");
  EXPECT_TRUE(same(one, trial(k_file, R"(["a"])", R"({"name": "before", "image": "i"}, )")));
  EXPECT_FALSE(same(one, trial(k_file, R"(["b"])")));
  EXPECT_FALSE(same(one, trial(k_file, R"([{"source": "a", "target": "/a"}])")));
  EXPECT_FALSE(same(one, trial(k_file, "")));
}

TEST(Secrets, FilesBelongToTheWorkerAndVariablesToTheAttempt) {
  const std::string plain = worker_shape(trial(k_file, ""));
  EXPECT_EQ(worker_shape(trial(k_file, k_variable)), plain);
  EXPECT_NE(worker_shape(trial(k_file, R"(["a"])")), plain);
  EXPECT_NE(worker_shape(trial(k_file, R"(["a"])")), worker_shape(trial(k_file, R"(["b"])")));
}

TEST(Secrets, AVariableWhoseValueOnlyTheClusterKnowsBelongsToTheWorker) {
  EXPECT_NE(worker_shape(trial(k_cluster, k_variable)), worker_shape(trial(k_cluster, "")));
}

TEST(Secrets, TheShapeOfCanariesDoesNotDependOnSecrets) {
  EXPECT_EQ(canary_shape(trial(k_file, R"(["a"])")), canary_shape(trial(k_file, "")));
}

TEST(Secrets, AnUnusedSourceIsAWarning) {
  EXPECT_THAT(read(k_file, R"(["a", {"source": "b", "env": "B"}])").warnings, IsEmpty());
  EXPECT_THAT(read(k_file, R"(["a"])").warnings,
              ElementsAre("secrets.b: no trial uses this secret, so combu does not read it"));
  EXPECT_THAT(read(k_file, "").warnings,
              ElementsAre("secrets.a and 1 more: no trial uses this secret, so combu does not read it"));
}

}  // namespace
}  // namespace combu
