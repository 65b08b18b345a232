// Tests that read the results of runs for a comparison.

#include "app/compare.hpp"
#include "app_fixture.hpp"

namespace combu::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class CompareTest : public AppTest {
 protected:
  // Starts two trials that differ in `lr` and report `loss`.
  void start_learning(const std::string& run) {
    const std::string metrics = R"(metrics: 'loss=(?P<loss>\\d+)', )";
    EXPECT_EQ(start(file_text(trial_text("one", "echo loss=3", metrics + "params: {lr: 1, seed: 1}") +
                              trial_text("two", "echo loss=5", metrics + "params: {lr: 2, seed: 1}")),
                    waiting_run(run)),
              Result::succeeded);
  }
  [[nodiscard]] ComparedRuns compared(const CompareOptions& options) {
    return read_compared(invocation, options, opener(), shown);
  }
  [[nodiscard]] std::string error(const CompareOptions& options) {
    const Error error = error_in([&] { (void)compared(options); });
    return error.what();
  }
};

TEST_F(CompareTest, TheOptionsChooseRunsAndTrials) {
  start_learning("r1");
  start_learning("r2");
  const ComparedRuns both = compared({.runs = {"r1", "r2"}, .where = "loss>4", .metrics = {"loss,seconds"}});
  ASSERT_THAT(both.runs, SizeIs(2));
  for (const Results& run : both.runs) {
    ASSERT_THAT(run.rows, SizeIs(1));
    EXPECT_EQ(run.rows[0].trial.name, "two");
  }
  EXPECT_THAT(both.form.metrics, ElementsAre("loss", "seconds"));
  EXPECT_THAT(both.form.over, ElementsAre("seed"));
  EXPECT_EQ(compared({}).runs.at(0).run.id.text(), "r2") << "the file's last run";
  EXPECT_EQ(compared({.where = "los>4"}).runs.at(0).rows.size(), 0U);
  EXPECT_THAT(printed.of("note"), Contains("--where: no trial of run r2 has `los`; did you mean `loss`?"));
}

TEST_F(CompareTest, ParamsInWhichRepeatsDifferMustExist) {
  start_learning("r1");
  EXPECT_THAT(compared({.over = {"lr,params.seed"}, .is_over_given = true}).form.over,
              ElementsAre("lr", "seed"));
  EXPECT_EQ(error({.over = {"see"}, .is_over_given = true}),
            "--over: no trial has a param `see`; did you mean `seed`?");
  EXPECT_EQ(error({.over = {"momentum"}, .is_over_given = true}), "--over: no trial has a param `momentum`");
  EXPECT_THAT(compared({.over = {"momentum"}}).form.over, ElementsAre("momentum")) << "it was not asked for";
  EXPECT_THAT(error({.metrics = {"loss,"}}), HasSubstr("--metric: "));
}

TEST_F(CompareTest, WithoutMetricsTheErrorSuggestsAColumn) {
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  EXPECT_EQ(error({}),
            "no trial of run r1 reported a metric; give another column, for example --metric seconds");
  EXPECT_THAT(compared({.metrics = {"seconds"}}).form.metrics, ElementsAre("seconds"));
}

}  // namespace
}  // namespace combu::test
