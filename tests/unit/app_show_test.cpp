// Tests that show recorded trials.

#include <gmock/gmock.h>

#include "app/show.hpp"
#include "app_record_fixture.hpp"
#include "error_of.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class AppShow : public RecordedRunTest {
 protected:
  ShowOptions options(std::vector<std::string> trials, ShowWhat what = ShowWhat::trials) {
    ShowOptions options{.run = "run1", .trials = std::move(trials), .what = what};
    options.default_engine = [this] { return default_engine; };
    options.on_trial = [this](const ShownTrial& shown) {
      std::string text = shown.trial.name + " " + std::string(to_string(shown.entry.state));
      for (const MetricSummary& metric : shown.metrics) text += " " + metric.metric;
      if (shown.log) text += shown.log->complete ? " whole" : " cut";
      text += " " + std::to_string(shown.attempts.size());
      printed.push_back(text);
    };
    options.on_file = [this](const std::string& bytes) { printed.push_back(bytes); };
    options.on_text = options.on_file;
    return options;
  }
  void show(const ShowOptions& options) {
    combu::show({}, options, [this](const Invocation&) {
      ++sessions;
      return std::shared_ptr<Session>(std::shared_ptr<Session>(), &session);
    });
  }

  std::vector<std::string> printed;
  std::string default_engine = "unix:///engine.sock";
  int sessions = 0;
};

TEST_F(AppShow, ShowPrintsEachChosenTrialWithItsLogAndMetrics) {
  record_run("run1", {"a1", "a2", "b1"});
  keep_log("run1", "a2", "loss=1\n", {{.name = "loss", .points = {{.step = 0, .at = {}, .value = 1}}}});
  show(options({"a*"}));
  EXPECT_THAT(printed, ElementsAre("a1 succeeded 1", "a2 succeeded loss whole 1"));
  EXPECT_EQ(sessions, 0);  // no trial is alive
}

TEST_F(AppShow, AnUnknownNameIsAnErrorAfterTheOtherTrials) {
  record_run("run1", {"a1", "b1"});
  const auto error = error_of([&] { show(options({"b1", "x*"})); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::not_found);
  EXPECT_THAT(error->what(), HasSubstr("x*"));
  EXPECT_THAT(printed, ElementsAre("b1 succeeded 1"));
  EXPECT_THAT(error_of([&] { show(options({"a2"})); })->what(), HasSubstr("a1"));  // the suggestion
}

TEST_F(AppShow, ShowPrintsTheEvaluatedExperiment) {
  record_run("run1", {"a"});
  show(options({}, ShowWhat::evaluated));
  ASSERT_EQ(printed.size(), 1U);
  EXPECT_THAT(printed[0], HasSubstr("\"name\": \"a\""));
  EXPECT_THAT(printed[0], HasSubstr("\"experiment\": \"lab\""));
}

TEST_F(AppShow, ReproductionNamesAnEngineThatIsNotTheDefault) {
  record_run("run1", {"a", "b1"});
  show(options({"a"}, ShowWhat::reproduction));
  default_engine = "unix:///other.sock";
  show(options({"a"}, ShowWhat::reproduction));
  ASSERT_EQ(printed.size(), 2U);
  EXPECT_THAT(printed[0], HasSubstr("combu show --evaluated --run run1 a | combu -f - run --only a"));
  EXPECT_THAT(printed[1], HasSubstr("| combu --engine unix:///engine.sock -f - run --only a"));
}

}  // namespace
}  // namespace combu::test
