// drive() with real threads, on an engine whose listings and changes contradict each other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "combu/run.hpp"
#include "combu/simulated.hpp"
#include "experiments.hpp"
#include "passing_engine.hpp"

namespace combu::test {
namespace {

// An engine whose listings and changes the test alters. If `breaks_after` is set, the stream breaks after so
// many changes.
class Contradicting : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::function<void(Observation&)> change_listed = [](Observation&) {};
  std::function<void(Observation&)> change_told = [](Observation&) {};
  std::optional<int> breaks_after;

  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    ++starts[trial.name];
    return engine_.start(run, trial, attempt, stop);
  }
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    std::vector<Observation> listed = engine_.list(selector, detail, stop);
    for (Observation& seen : listed) change_listed(seen);
    return listed;
  }
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    int left = breaks_after.value_or(0);
    engine_.watch(
        selector,
        [&](const Change& change) {
          const auto* seen = std::get_if<Observation>(&change);
          if (seen == nullptr) return on_change(change);
          if (breaks_after && left-- == 0) throw Error(ErrorKind::unavailable, "engine", "the stream breaks");
          Observation reported = *seen;
          change_told(reported);
          on_change(reported);
        },
        stop);
  }

  std::map<std::string, int> starts;  // needs no lock: only one start is in flight

 private:
};

class Ends : public Journal {
 public:
  void fact(const Fact& fact) override {
    if (is_over(fact.state)) all[fact.trial].push_back(fact);
  }
  void commit() override {}
  std::map<TrialIndex, std::vector<Fact>> all;
};

class Contradiction : public testing::Test {
 protected:
  Contradiction() {
    for (int i = 0; i < 8; ++i)
      run_.experiment.trials.push_back(
          trial("t" + std::to_string(i) + (i > 1 ? "<-t" + std::to_string(i - 2) + ":finished" : ""),
                i % 3 == 0 ? "sleep 1; exit 3" : "sleep 1"));
  }

  // Drives the run. Expects that each trial is started once and ends once.
  Ends play() {
    const Plan plan = test::plan(run_.experiment);
    const auto engine =
        with_retry(lying, {.pause = Seconds(0.001), .pause_max = Seconds(0.001)}, real_clock());
    Ends ends;
    ProgressListener nobody;
    (void)drive(run_, plan, {.starts_in_flight_max = 1, .until = Until::ended},
                {.engine = *engine, .clock = real_clock(), .journal = ends, .progress = nobody});
    EXPECT_EQ(ends.all.size(), run_.experiment.trials.size());
    for (const auto& [trial, facts] : ends.all) EXPECT_EQ(facts.size(), 1U) << trial;
    for (const auto& [name, count] : lying.starts) EXPECT_EQ(count, 1) << name;
    return ends;
  }

  void expect_true_ends(const Ends& ends) const {
    for (const auto& [trial, facts] : ends.all)
      EXPECT_EQ(facts.front().exit_code, trial % 3 == 0 ? 3 : 0) << trial;
  }

  combu::Run run_{.id = RunId("run1"), .experiment = {.name = "test", .file = "/test"}};
  std::unique_ptr<Engine> model_ = open_simulated({.speed = 0});
  Contradicting lying{*model_};
};

TEST_F(Contradiction, AListingThatShowsAnEndedTrialAsRunningChangesNothing) {
  std::set<std::string> over;
  lying.breaks_after = 2;
  lying.change_told = [&](const Observation& seen) {
    if (seen.phase == Phase::ended) over.insert(seen.key.trial);
  };
  lying.change_listed = [&](Observation& seen) {
    if (over.contains(seen.key.trial)) seen.phase = Phase::running;
  };
  expect_true_ends(play());
}

TEST_F(Contradiction, AnEndedTrialThatIsListedAsCreatedStaysEnded) {
  std::set<std::string> over;
  lying.breaks_after = 2;
  lying.change_told = [&](const Observation& seen) {
    if (seen.phase == Phase::ended) over.insert(seen.key.trial);
  };
  lying.change_listed = [&](Observation& seen) {
    if (over.contains(seen.key.trial)) seen.phase = Phase::created;
  };
  expect_true_ends(play());
}

TEST_F(Contradiction, TheListingReportsEndsThatChangesNeverReport) {
  lying.breaks_after = 0;
  lying.change_told = [](Observation& seen) { seen.phase = Phase::running; };
  expect_true_ends(play());
}

TEST_F(Contradiction, TheFirstOfTwoExitCodesIsKept) {
  lying.breaks_after = 2;
  lying.change_listed = [](Observation& seen) {
    if (seen.phase == Phase::ended) seen.exit_code = 9;
  };
  for (const auto& [trial, facts] : play().all)
    EXPECT_THAT(facts.front().exit_code, testing::AnyOf(trial % 3 == 0 ? 3 : 0, 9)) << trial;
}

}  // namespace
}  // namespace combu::test
