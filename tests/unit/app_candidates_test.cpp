// Tests of the candidates for the completion of a command line.

#include <gmock/gmock.h>

#include <fstream>

#include "app/candidates.hpp"
#include "app_record_fixture.hpp"

namespace combu::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

class AppCandidates : public RecordedRunTest {
 protected:
  Candidates of_run(const std::string& run) { return {invocation, run, *progress}; }

  Invocation invocation;
};

TEST_F(AppCandidates, WithoutARecordAndAFileThereAreNoCandidates) {
  EXPECT_THAT(of_run("").trials(), IsEmpty());
  EXPECT_THAT(of_run("").runs(), IsEmpty());
  EXPECT_THAT(of_run("").experiments(), IsEmpty());
}

TEST_F(AppCandidates, TrialsComeFromTheChosenRun) {
  record_run("run1", {"aa", "bb"});
  record_run("run2", {"cc"});
  EXPECT_THAT(of_run("run1").trials(), ElementsAre("aa", "bb"));
  EXPECT_THAT(of_run("").trials(), ElementsAre("cc"));
  EXPECT_THAT(of_run("").runs(), ElementsAre("run2", "run1"));
  EXPECT_THAT(of_run("").experiments(), ElementsAre("lab"));
}

TEST_F(AppCandidates, NamesIncludeMetricsAndTheirParts) {
  record_run("run1", {"aa"});
  EXPECT_THAT(of_run("run1").names(), Not(Contains("loss")));
  keep_log("run1", "aa", "loss=1\n",
           {{.name = "loss", .points = {{.step = 0, .at = {}, .value = 1}}},
            {.name = "state", .points = {{.step = 0, .at = {}, .value = 1}}}});
  const std::vector<std::string> names = of_run("run1").names();
  EXPECT_THAT(names, Contains("loss"));
  EXPECT_THAT(names, Contains("loss.greatest"));
  EXPECT_THAT(names, Contains("metrics.state"));  // `state` is a field
}

TEST_F(AppCandidates, TrialsOfAFileWithoutRunsComeFromTheFile) {
  record_run("run1", {"aa"});
  invocation.check_sections = [](const Experiment&) { return std::vector<Error>(); };
  invocation.file = path("experiment.jsonnet");
  std::ofstream(invocation.file)
      << R"([{name: "t%d" % i, image: "busybox", params: {lr: 0.1}} for i in [1, 2]])";
  EXPECT_THAT(of_run("").trials(), ElementsAre("t1", "t2"));
  EXPECT_THAT(of_run("").names_before(), ElementsAre("trial", "image", "lr"));
}

}  // namespace
}  // namespace combu::test
