// Explanations why a trial does not start. They must agree with the planner's decisions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "combu/schedule.hpp"
#include "experiments.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Kind = Explanation::Kind;

std::vector<Gpu> two_gpus() {
  return {{.id = "0", .uuid = {}, .kind = {}, .memory = {}},
          {.id = "1", .uuid = {}, .kind = {}, .memory = {}}};
}

Slots cpus(const char* text) {
  return {.cpus = parse_cpus(text)};
}

PlannerOptions with_capacity(const char* text, std::size_t starts_in_flight_max = 8) {
  PlannerOptions options{.starts_in_flight_max = starts_in_flight_max, .until = Until::ended};
  options.capacity = cpus(text);
  options.capacity->gpus = {"0", "1"};
  options.gpus = two_gpus();
  return options;
}

// A planner, and an engine whose answers the test decides.
class Scene {
 public:
  explicit Scene(Experiment experiment, PlannerOptions options = {})
      : experiment_(std::move(experiment)),
        plan_(test::plan(experiment_)),
        planner_(std::make_unique<Planner>(run_, experiment_, plan_, std::move(options))) {}
  explicit Scene(const std::string& text, PlannerOptions options = {})
      : Scene(test::experiment(text), std::move(options)) {}

  // Returns the trials that the step starts.
  std::vector<std::string> step(const Event& event) {
    std::vector<std::string> started;
    for (const Fact& fact : planner_->step(event, now_).facts) {
      states_.resize(experiment_.trials.size());
      RestoredTrial& restored = states_[fact.trial];
      if (reports_stop(fact)) continue;
      restored.state = fact.state;
      restored.attempt = fact.attempt;
      restored.was_started |= fact.state == TrialState::running;
      restored.was_healthy |= fact.healthy;
      if (fact.state == TrialState::starting) restored.slots = fact.slots;
      if (fact.state == TrialState::running) restored.ran_at = now_;
      if (fact.root) restored.root = fact.root;
      if (fact.state == TrialState::starting) started.push_back(experiment_.trials[fact.trial].name);
    }
    return started;
  }
  std::vector<std::string> begin() {
    std::vector<std::string> started = step(Begin{});
    for (std::string& name : step(Listed{})) started.push_back(std::move(name));
    return started;
  }
  Observation observation(TrialIndex trial, Phase phase) const {
    Observation it{.key = {.run = run_, .trial = experiment_.trials[trial].name},
                   .experiment = "test",
                   .id = std::to_string(trial),
                   .phase = phase};
    if (phase == Phase::ended) it.ended_at = now_;
    return it;
  }
  std::vector<std::string> answer(TrialIndex trial) {
    return step(StartAnswered{.trial = trial, .result = Running{observation(trial, Phase::running)}});
  }
  std::vector<std::string> end(TrialIndex trial, int exit_code) {
    Observation it = observation(trial, Phase::ended);
    it.exit_code = exit_code;
    return step(Observed{it});
  }
  void pass(double seconds) { now_ += std::chrono::duration_cast<Instant::duration>(Seconds(seconds)); }

  [[nodiscard]] Explanation explain(TrialIndex trial) const { return planner_->explain(trial); }
  [[nodiscard]] Kind kind(TrialIndex trial) const { return explain(trial).kind; }
  [[nodiscard]] TrialState state(TrialIndex trial) const { return planner_->state(trial); }
  [[nodiscard]] std::size_t starts_in_flight() const { return planner_->starts_in_flight(); }
  [[nodiscard]] std::size_t size() const { return experiment_.trials.size(); }
  [[nodiscard]] const std::string& name(TrialIndex trial) const { return experiment_.trials[trial].name; }
  // Returns the trials without an obstacle.
  [[nodiscard]] std::vector<std::string> unhindered() const {
    std::vector<std::string> names;
    for (TrialIndex trial = 0; trial < size(); ++trial)
      if (kind(trial) == Kind::nothing) names.push_back(name(trial));
    return names;
  }
  // Returns the explanation of another process, which reads the trials from the record.
  [[nodiscard]] Explanation explain_from_record(TrialIndex trial, const PlannerOptions& options,
                                                const Slots& held_by_others, const Settings& settings) {
    states_.resize(size());
    return combu::explain({.run = run_,
                           .experiment = experiment_,
                           .plan = plan_,
                           .restored = states_,
                           .settings = settings,
                           .capacity = options.capacity,
                           .held_by_others = held_by_others,
                           .limits = options.limits,
                           .now = now_},
                          trial);
  }

 private:
  RunId run_{"run1"};
  Experiment experiment_;
  Plan plan_;
  std::unique_ptr<Planner> planner_;
  Instant now_{std::chrono::seconds(1'800'000'000)};
  std::vector<RestoredTrial> states_;  // as the record has them
};

TEST(Explain, ATrialWaitsForItsDependencies) {
  Scene scene("a b<-a:healthy,a:finished c");
  EXPECT_THAT(scene.begin(), ElementsAre("a", "c"));
  EXPECT_EQ(scene.kind(0), Kind::none);
  const Explanation why = scene.explain(1);
  EXPECT_EQ(why.kind, Kind::dependencies);
  ASSERT_EQ(why.unmet.size(), 2U);
  EXPECT_EQ(why.unmet[0].trial, 0U);
  scene.answer(0);
  Observation healthy = scene.observation(0, Phase::running);
  healthy.health = Health::healthy;
  scene.step(Observed{healthy});
  ASSERT_EQ(scene.explain(1).unmet.size(), 1U);
  EXPECT_EQ(scene.explain(1).unmet[0].condition, Condition::finished);
  scene.end(0, 1);
  EXPECT_EQ(scene.kind(0), Kind::none);
}

TEST(Explain, ALimitAPauseAndSlotsAreObstacles) {
  Experiment experiment = test::experiment("a=2 b=2 c=2 d");
  Scene scene(experiment, with_capacity("3"));
  EXPECT_THAT(scene.begin(), UnorderedElementsAre("a", "d"));
  EXPECT_EQ(scene.kind(1), Kind::slots);
  EXPECT_EQ(scene.kind(2), Kind::slots);
  scene.step(Adjust{.parallel_max = 2});
  EXPECT_EQ(scene.kind(1), Kind::place);
  scene.step(Adjust{.paused = true});
  EXPECT_EQ(scene.kind(1), Kind::paused);
  scene.step(Interrupt{});
  EXPECT_EQ(scene.kind(1), Kind::interrupted);
}

TEST(Explain, TheFirstTrialInLineWaitsOnlyForStartsInFlight) {
  Scene scene("a b^1 c", with_capacity("4", 1));
  EXPECT_THAT(scene.begin(), ElementsAre("b"));
  EXPECT_EQ(scene.kind(0), Kind::nothing);
  EXPECT_EQ(scene.explain(2), (Explanation{.kind = Kind::turn, .first = TrialIndex{0}}));
  EXPECT_THAT(scene.answer(1), ElementsAre("a"));
  EXPECT_EQ(scene.kind(2), Kind::nothing);
}

TEST(Explain, ATrialWaitsForTheCanaryOfItsShape) {
  Experiment experiment = test::experiment("a b");
  experiment.canary = true;
  Scene scene(experiment);
  EXPECT_THAT(scene.begin(), ElementsAre("a"));
  EXPECT_EQ(scene.explain(1), (Explanation{.kind = Kind::canary, .first = TrialIndex{0}}));
}

TEST(Explain, ATrialWaitsForOneThatWasOvertakenOftenEnough) {
  std::string text = "first=1 large=3^1<-first:finished";
  for (std::size_t i = 0; i < Planner::k_overtakes_max + 5; ++i) text += " small" + std::to_string(i) + "=1";
  Scene scene(text, with_capacity("3"));
  (void)scene.begin();
  const auto answer_all = [&] {
    for (TrialIndex trial = 0; trial < scene.size(); ++trial)
      if (scene.state(trial) == TrialState::starting) (void)scene.answer(trial);
  };
  answer_all();
  (void)scene.end(0, 0);
  TrialIndex small = 2;
  for (std::size_t ends = 0; ends < Planner::k_overtakes_max; ++ends) {
    EXPECT_EQ(scene.kind(1), Kind::slots);
    answer_all();
    if (scene.starts_in_flight() == 0 && scene.kind(scene.size() - 1) == Kind::overtaken) break;
    (void)scene.end(small++, 0);
  }
  EXPECT_EQ(scene.explain(scene.size() - 1), (Explanation{.kind = Kind::overtaken, .first = TrialIndex{1}}));
}

// The record does not have the number of overtakes. If a trial fits and was not started, it waits for the
// overtaken one.
TEST(Explain, AnotherProcessNamesTheTrialThatATrialMustNotOvertake) {
  const PlannerOptions options = with_capacity("3", 1);
  Scene scene("first=1 large=3^1<-first:finished running=1 small=1 other=1", options);
  (void)scene.begin();
  (void)scene.answer(0);
  (void)scene.answer(2);
  (void)scene.end(0, 0);
  EXPECT_EQ(scene.explain_from_record(1, options, {}, {}).kind, Kind::slots);
  EXPECT_EQ(scene.explain_from_record(4, options, {}, {}),
            (Explanation{.kind = Kind::overtaken, .first = TrialIndex{1}}));
}

TEST(Explain, AnotherProcessSeesThePauseTheLimitAndTheSlots) {
  const PlannerOptions options = with_capacity("3");
  Scene scene("a=2 b=2 c<-b", options);
  EXPECT_THAT(scene.begin(), ElementsAre("a"));
  (void)scene.answer(0);
  const auto kind = [&](TrialIndex trial, const Settings& settings) {
    return scene.explain_from_record(trial, options, {}, settings).kind;
  };
  EXPECT_EQ(kind(0, {}), Kind::none);
  EXPECT_EQ(kind(1, {}), Kind::slots);
  EXPECT_EQ(kind(1, {.parallel_max = 1}), Kind::place);
  EXPECT_EQ(kind(1, {.parallel_max = 1, .paused = true}), Kind::paused);
  EXPECT_EQ(scene.explain_from_record(2, options, {}, {.paused = true}).unmet,
            (std::vector<Edge>{{.trial = 1, .condition = Condition::started}}));
}

TEST(Explain, ALimitOfTheEngineIsAnObstacle) {
  PlannerOptions options = with_capacity("3");
  options.limits = {{.attempts_max = 1, .trials = {0, 1}}};
  Scene scene("a b c", options);
  EXPECT_THAT(scene.begin(), UnorderedElementsAre("a", "c"));
  (void)scene.answer(0);
  EXPECT_EQ(scene.kind(1), Kind::limit);
  EXPECT_EQ(scene.explain_from_record(1, options, {}, {}).kind, Kind::limit);
  EXPECT_THAT(scene.end(0, 0), ElementsAre("b"));
}

TEST(Explain, AnotherProcessKnowsTheSlotsOfOtherRuns) {
  const PlannerOptions options = with_capacity("3", 0);
  Scene scene("a=2 b=1", options);
  EXPECT_THAT(scene.begin(), IsEmpty());
  EXPECT_EQ(scene.explain_from_record(0, options, {}, {}).kind, Kind::nothing);
  EXPECT_EQ(scene.explain_from_record(0, options, cpus("2"), {}).kind, Kind::slots);
}

TEST(Explain, WithoutAKnownCapacityATrialWaitsForSlots) {
  Scene scene("a=2 b=2 c", with_capacity("3"));
  (void)scene.begin();
  EXPECT_EQ(scene.explain_from_record(1, {}, {}, {}).kind, Kind::slots);
}

TEST(Explain, AServiceWaitsForRoomForTheTrialsThatServicesServe) {
  Scene scene("!one=1 !two=1 a=1<-one:started,two:started !three=2 b=1<-three:started", with_capacity("3"));
  (void)scene.begin();
  EXPECT_EQ(scene.state(3), TrialState::ready);
  EXPECT_EQ(scene.kind(3), Kind::room);
}

TEST(Explain, ARetryWaitsForItsPause) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].retries = {.max = 1};
  experiment.trials[0].retries.on.set();
  experiment.trials[0].retries.pause = Seconds(10);
  Scene scene(experiment);
  (void)scene.begin();
  (void)scene.answer(0);
  (void)scene.end(0, 1);
  EXPECT_EQ(scene.kind(0), Kind::retry);
}

// ---- Random runs

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  bool one_in(std::size_t many) { return below(many) == 0; }

 private:
  std::mt19937_64 random_;
};

// A service is stopped only when all of its dependents are over.
Condition random_condition(Chance& chance, const Experiment& experiment, const std::string& name) {
  const auto need = std::ranges::find(experiment.trials, name, &Trial::name);
  if (chance.one_in(3)) return Condition::started;
  return need->service ? Condition::healthy : Condition::finished;
}

Experiment random_experiment(Chance& chance) {
  Experiment experiment{.name = "test", .file = "/test/experiment.jsonnet"};
  const std::size_t count = 4 + chance.below(14);
  for (std::size_t i = 0; i < count; ++i) {
    Trial trial = test::trial("t" + std::to_string(i));
    trial.service = chance.one_in(6);
    trial.slots.cpus = parse_cpus(std::to_string(chance.below(4)));
    if (chance.one_in(4)) trial.gpus = GpuRequest{.count = 1 + chance.below(2)};
    trial.priority = static_cast<int>(chance.below(3));
    for (std::size_t needs = i == 0 ? 0 : chance.below(3); needs > 0; --needs) {
      const std::string name = "t" + std::to_string(chance.below(i));
      const auto is_same = [&](const Depend& depend) { return depend.trial == name; };
      if (std::ranges::none_of(trial.depends, is_same))
        trial.depends.push_back({.trial = name, .condition = random_condition(chance, experiment, name)});
    }
    experiment.trials.push_back(std::move(trial));
  }
  experiment.canary = chance.one_in(3);
  if (chance.one_in(3)) experiment.parallel_max = 1 + chance.below(4);
  if (chance.one_in(4)) experiment.order = Order::random;
  return experiment;
}

// Applies a random event to one of the trials, or to another run.
std::vector<std::string> happen(Scene& scene, Chance& chance, Slots& others) {
  const TrialIndex trial = chance.below(scene.size());
  if (chance.one_in(8)) {
    const bool holds = chance.one_in(2);
    others = cpus(holds ? "2" : "0");
    return scene.step(Observed{{.key = {.run = RunId("other"), .trial = "x"},
                                .experiment = "other",
                                .id = "x",
                                .phase = holds ? Phase::running : Phase::ended,
                                .slots = cpus("2")}});
  }
  if (scene.state(trial) == TrialState::starting && scene.kind(trial) == Kind::none)
    return scene.answer(trial);
  if (scene.state(trial) == TrialState::running && chance.one_in(2)) {
    Observation healthy = scene.observation(trial, Phase::running);
    healthy.health = Health::healthy;
    return scene.step(Observed{healthy});
  }
  if (scene.state(trial) == TrialState::running) return scene.end(trial, chance.one_in(5) ? 1 : 0);
  return {};
}

TEST(Explain, ExactlyTheTrialsWithoutAnObstacleAreStarted) {
  std::size_t starts = 0;
  std::vector<std::size_t> seen(static_cast<std::size_t>(Kind::nothing) + 1);
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    Chance chance(seed);
    Experiment experiment = random_experiment(chance);
    const std::size_t parallel_max = experiment.parallel_max;
    const PlannerOptions options = with_capacity("4", 1);
    Scene scene(std::move(experiment), options);
    (void)scene.begin();
    Slots others;
    for (int i = 0; i < 120; ++i) {
      scene.pass(1);
      (void)happen(scene, chance, others);
      const std::vector<std::string> expected = scene.unhindered();
      for (TrialIndex trial = 0; trial < scene.size(); ++trial)
        ++seen[static_cast<std::size_t>(scene.kind(trial))];
      for (TrialIndex trial = 0; trial < scene.size(); ++trial) {
        if ((trial + static_cast<std::size_t>(i)) % 3 != 0) continue;  // each explanation creates a planner
        const Explanation here = scene.explain(trial);
        const Explanation there =
            scene.explain_from_record(trial, options, others, {.parallel_max = parallel_max});
        // The record does not have the numbers of overtakes.
        const bool by_order = here.kind >= Kind::overtaken || there.kind >= Kind::overtaken;
        if (by_order) continue;
        EXPECT_EQ(here, there) << seed << " " << i << " " << scene.name(trial);
      }
      const std::size_t one_more = scene.starts_in_flight() + 1;
      const std::vector<std::string> started = scene.step(Adjust{.starts_in_flight_max = one_more});
      ASSERT_EQ(started, expected) << "seed " << seed << ", event " << i;
      starts += started.size();
      (void)scene.step(Adjust{.starts_in_flight_max = 1});
    }
  }
  EXPECT_GT(starts, 200U);
  for (const Kind kind : {Kind::dependencies, Kind::canary, Kind::place, Kind::slots, Kind::room, Kind::turn})
    EXPECT_GT(seen[static_cast<std::size_t>(kind)], 0U) << static_cast<int>(kind);
}

}  // namespace
}  // namespace combu::test
