// Tests of the details of a trial, as text and as JSON.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "combu/text.hpp"
#include "combu/view.hpp"

namespace combu {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

const Instant k_run_began = *parse_timestamp("2026-01-31T12:00:00Z");

class TrialPage : public testing::Test {
 protected:
  TrialPage() {
    run.id = RunId("r1");
    run.experiment = "lab";
    run.file = "/lab/experiment.jsonnet";
    trial.name = "solver";
    trial.image = "lab/solver";
    shown.entry.name = "solver";
    shown.entry.state = TrialState::succeeded;
  }
  [[nodiscard]] std::string page() const {
    std::ostringstream out;
    print_trial(out, shown);
    return out.str();
  }
  [[nodiscard]] nlohmann::json json() const {
    std::ostringstream out;
    print_trial_json(out, shown);
    EXPECT_EQ(out.str().find('\n'), out.str().size() - 1);
    return nlohmann::json::parse(out.str());
  }

  RunEntry run;
  Trial trial;
  ShownTrial shown{.run = run,
                   .ran_in = {},
                   .trial = trial,
                   .entry = {},
                   .attempts = {},
                   .known = {},
                   .inputs = {},
                   .metrics = {},
                   .log = {},
                   .outputs = {},
                   .partial_outputs = {}};
};

TEST_F(TrialPage, HasALineForEachDetail) {
  EXPECT_EQ(page(),
            "trial      solver\n"
            "state      succeeded\n"
            "command    from the image\n"
            "image      lab/solver\n"
            "run        r1\n"
            "experiment lab\n"
            "file       /lab/experiment.jsonnet\n");
}

TEST_F(TrialPage, HasAllKnownDetails) {
  trial.params = R"({"lr":0.1,"name":"a"})";
  trial.process.cmd = {{"sh", "-c", "echo one"}};
  trial.process.env = {{"COMBU_PARAM_LR", "0.1"}, {"MODE", "a b"}};
  trial.metrics = Metrics{.json = true, .pattern = {}, .file = {}};
  shown.attempts = {{.trial = "solver", .attempt = 2}};
  shown.attempts[0].started_at = k_run_began;
  shown.attempts[0].ran_at = k_run_began + seconds(1);
  shown.attempts[0].ended_at = k_run_began + seconds(61);
  shown.attempts[0].exit_code = 0;
  shown.metrics = {
      {.trial = "solver", .metric = "loss", .points = 3, .last = 0.5, .least = 0.25, .greatest = 1}};
  shown.log = StoredLog{.complete = true, .passed_over = 4, .gaps = 1};
  shown.outputs = "/lab/results/solver";
  shown.ran_in = run;
  shown.ran_in->machine = "host1";
  shown.ran_in->engine.description = "Docker";
  shown.ran_in->engine.address = "unix:///engine.sock";
  EXPECT_EQ(page(), fmt::format("trial      solver\n"
                                "state      succeeded\n"
                                "params     lr=0.1 name=a\n"
                                "command    sh -c 'echo one'\n"
                                "env        MODE='a b'\n"
                                "image      lab/solver\n"
                                "attempt 2  started {}, ran 1m00s, exit code 0\n"
                                "metric     loss 0.5 (least 0.25, greatest 1, 3 points)\n"
                                "metrics    4 points ignored: combu keeps the first 1000 names of metrics\n"
                                "log        a part of the log is missing: the engine removed it by log "
                                "rotation before combu read it, or the agent could not store it\n"
                                "outputs    /lab/results/solver\n"
                                "run        r1\n"
                                "experiment lab\n"
                                "file       /lab/experiment.jsonnet\n"
                                "host       host1\n"
                                "engine     Docker at unix:///engine.sock\n",
                                local_time(k_run_began)));
  const nlohmann::json object = json();
  EXPECT_EQ(object["attempts"][0]["ran_at"], "2026-01-31T12:00:01.000Z");
  EXPECT_EQ(object["metrics"]["loss"]["greatest"], 1.0);
  EXPECT_EQ(object["env"]["COMBU_PARAM_LR"], "0.1");
  EXPECT_EQ(object["host"], "host1");
  EXPECT_EQ(object["equal_to"], nullptr);
}

TEST_F(TrialPage, HasNoControlCharacters) {
  trial.image = "lab/\x1b[2Jsolver";
  EXPECT_THAT(page(), HasSubstr("image      lab/solver\n"));
}

TEST_F(TrialPage, SaysWhereMetricsWereSearchedAndWhichTrialIsEqual) {
  trial.metrics = Metrics{.json = true, .pattern = {}, .file = {}};
  shown.log = StoredLog{.complete = true};
  shown.known = KnownEntry{};
  shown.known->equal_run = RunId("r0");
  shown.known->equal_trial = "other";
  EXPECT_THAT(page(),
              HasSubstr("metric     none: no line of the standard output is a JSON object with numbers\n"));
  EXPECT_THAT(page(), HasSubstr("ran in     r0, which is not in this record\n"));
  EXPECT_EQ(json()["equal_to"], (nlohmann::json{{"run", "r0"}, {"trial", "other"}}));
}

}  // namespace
}  // namespace combu
