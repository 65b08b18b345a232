#include "combu/schedule.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "experiments.hpp"
#include "schedule/gpus.hpp"

namespace combu {
namespace {

// A planner whose steps come out as text: "start a | a starting" is one command and one fact.
class Planned {
 public:
  explicit Planned(const std::string& text, PlannerOptions options = {})
      : Planned(test::experiment(text), options) {}
  explicit Planned(Experiment experiment, PlannerOptions options = {})
      : experiment_(std::move(experiment)),
        plan_(test::plan(experiment_)),
        planner_(run_, experiment_, plan_, options) {
    if (options.capacity) (void)step(Listed{});  // nobody else holds anything
  }

  std::string begin() { return text(step(Begin{})); }
  // `done`: where it has been done before.
  std::string recalled(const std::string& name, const std::string& done = "") {
    return text(step(Recalled{.trial = index(name), .done = done}));
  }
  std::string collected(const std::string& name) { return text(step(Collected{index(name)})); }
  // What an attempt is to blame for, and what it is not.
  std::string not_left(const std::string& name) {
    return text(step(Collected{.trial = index(name), .fault = "/out: nothing there", .by_attempt = true}));
  }
  std::string not_taken(const std::string& name) {
    return text(step(Collected{.trial = index(name), .fault = "disk full"}));
  }
  std::string stopped(const std::string& name) {
    const TrialIndex trial = index(name);
    return text(step(StopAnswered{.trial = trial, .attempt = attempts_[trial]}));
  }
  // Time goes by, to each moment that the planner wants to be woken at.
  std::string pass(double seconds) {
    const Instant end = now_ + std::chrono::duration_cast<Instant::duration>(Seconds(seconds));
    while (wake_ && *wake_ <= end) {
      now_ = std::max(now_, *wake_);
      Step step = this->step(Tick{});
      if (!step.commands.empty() || !step.facts.empty()) {
        now_ = end;
        return text(step);
      }
    }
    now_ = end;
    return " | ";
  }
  std::string listing_begins_after_a_break() { return text(step(ListingBegins{.after_break = true})); }
  std::string listed_after_a_break(const std::vector<Sighting>& sightings) {
    return text(step(Listed{.sightings = sightings, .after_break = true}));
  }
  std::string out_of_memory(const std::string& name) {
    Sighting it = sighting(name, Phase::ended);
    it.exit_code = 137;
    it.oom = true;
    return seen(it);
  }
  std::string interrupt() { return text(step(Interrupt{})); }
  std::string adjust(const Adjust& adjust) { return text(step(adjust)); }
  std::string pause() { return adjust({.paused = true}); }
  std::string resume() { return adjust({.paused = false}); }
  [[nodiscard]] const Settings& settings() const { return planner_.settings(); }
  std::string listing_begins() { return text(step(ListingBegins{})); }
  std::string started(const std::string& name) {
    return text(step(StartAnswered{.trial = index(name), .seen = sighting(name, Phase::running)}));
  }
  std::string lost_to(const std::string& name, const Sighting& winner) {
    return text(step(StartAnswered{.trial = index(name), .seen = winner}));
  }
  std::string accepted(const std::string& name) { return text(step(StartAnswered{.trial = index(name)})); }
  std::string not_started(const std::string& name) {
    return text(
        step(StartFailed{.trial = index(name), .error = Error(ErrorKind::refused, name, "port is taken")}));
  }
  std::string start_given_up(const std::string& name) {
    return text(
        step(StartFailed{.trial = index(name), .error = Error(ErrorKind::cancelled, name, "cancelled")}));
  }
  std::string not_stopped(const std::string& name, std::optional<int> attempt = std::nullopt) {
    const TrialIndex trial = index(name);
    return text(step(StopFailed{.trial = trial,
                                .error = Error(ErrorKind::refused, name, "no"),
                                .attempt = attempt.value_or(attempts_[trial])}));
  }
  std::string running(const std::string& name) { return seen(sighting(name, Phase::running)); }
  std::string ended(const std::string& name, int code) {
    Sighting it = sighting(name, Phase::ended);
    it.exit_code = code;
    return seen(it);
  }
  std::string gone(const std::string& name) { return seen(sighting(name, Phase::gone)); }
  std::string health(const std::string& name, Health health) {
    Sighting it = sighting(name, Phase::running);
    it.health = health;
    return seen(it);
  }
  std::string seen(const Sighting& it) { return text(step(Seen{it})); }
  std::string looked(const Sighting& it) { return text(step(Looked{it})); }
  std::string listed(const std::vector<Sighting>& sightings) { return text(step(Listed{sightings})); }

  // Of its present attempt, or of the one that is given.
  [[nodiscard]] Sighting sighting(const std::string& name, Phase phase,
                                  std::optional<int> attempt = std::nullopt) const {
    const auto found = attempts_.find(index(name));
    const int present = found == attempts_.end() ? 1 : found->second;
    Sighting it{.key = {.run = run_, .trial = name, .attempt = attempt.value_or(present)},
                .experiment = "test",
                .phase = phase};
    if (phase == Phase::ended) it.ended_at = now_;
    return it;
  }
  // An attempt of another run on the same engine, with two CPUs.
  std::string other(const std::string& id, Phase phase) {
    return seen({.key = {.run = RunId("run2"), .trial = "a"},
                 .experiment = "other",
                 .id = id,
                 .phase = phase,
                 .slots = cpus("2")});
  }
  static Slots cpus(const char* text) { return {.cpus = parse_cpus(text)}; }
  [[nodiscard]] const Slots& held() const { return planner_.held(); }
  [[nodiscard]] TrialState state(const std::string& name) const { return planner_.state(index(name)); }
  [[nodiscard]] bool done() const { return planner_.done(); }
  [[nodiscard]] std::string undelivered() const { return planner_.undelivered(); }
  [[nodiscard]] bool may_start_more() const { return planner_.may_start_more(); }
  [[nodiscard]] std::size_t in_flight() const { return planner_.starts_in_flight(); }

 private:
  [[nodiscard]] TrialIndex index(const std::string& name) const {
    for (TrialIndex i = 0; i < experiment_.trials.size(); ++i) {
      if (experiment_.trials[i].name == name) return i;
    }
    ADD_FAILURE() << "no trial " << name;
    return 0;
  }

  Step step(const Event& event) {
    Step step = planner_.step(event, now_);
    wake_ = step.wake;
    for (const Command& command : step.commands)
      if (const auto* start = std::get_if<StartCommand>(&command)) attempts_[start->trial] = start->attempt;
    return step;
  }

  [[nodiscard]] std::string word(const StartCommand& /*command*/) const { return "start"; }
  [[nodiscard]] std::string word(const StopCommand& /*command*/) const { return "stop"; }
  [[nodiscard]] std::string word(const GiveUpCommand& /*command*/) const { return "give up"; }
  [[nodiscard]] std::string word(const LookCommand& /*command*/) const { return "look at"; }
  [[nodiscard]] std::string word(const RecallCommand& /*command*/) const { return "recall"; }
  [[nodiscard]] std::string word(const CollectCommand& command) const {
    return command.outputs ? "take" : "collect";
  }

  [[nodiscard]] std::string text(const Step& step) const {
    std::string commands;
    for (const Command& command : step.commands) {
      if (!commands.empty()) commands += ", ";
      commands += std::visit(
          [this](const auto& one) {
            std::string shown = fmt::format("{} {}", word(one), experiment_.trials[one.trial].name);
            if constexpr (requires { one.attempt; })
              if (one.attempt != 1) shown += fmt::format("#{}", one.attempt);
            return shown;
          },
          command);
    }
    std::string facts;
    for (const Fact& fact : step.facts) {
      if (!facts.empty()) facts += ", ";
      facts += fmt::format("{} {}", experiment_.trials[fact.trial].name,
                           fact.healthy ? "healthy" : to_string(fact.state));
      if (tells_of_stop(fact)) facts += fmt::format(" ({})", to_string(fact.cause));
      if (!fact.reason.empty()) facts += fmt::format(" ({})", fact.reason);
    }
    return commands + " | " + facts;
  }

  RunId run_{"run1"};
  Experiment experiment_;
  Plan plan_;
  Planner planner_;
  Instant now_{};
  std::optional<Instant> wake_;
  std::map<TrialIndex, int> attempts_;
};

constexpr PlannerOptions k_wait{.until = Until::ended};

TEST(Planner, StartsWhatDependsOnNothingInTheFilesOrder) {
  Planned it("c a b");
  EXPECT_EQ(it.begin(), "start c, start a, start b | c starting, a starting, b starting");
  EXPECT_FALSE(it.done());
}

TEST(Planner, NeverHasMoreStartsInFlightThanAllowed) {
  Planned it("a b c", {.starts_in_flight_max = 2});
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
  EXPECT_EQ(it.in_flight(), 2U);
  EXPECT_EQ(it.started("b"), "start c | b running, c starting");
  EXPECT_EQ(it.in_flight(), 2U);
}

TEST(Planner, IsDoneWhenAllAreStarted) {
  Planned it("a b<-a");
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.started("a"), "start b | a running, b starting");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.started("b"), " | b running");
  EXPECT_TRUE(it.done());
}

TEST(Planner, ReadinessNotWavesDecides) {
  Planned it("a b x<-a y<-b z<-x");
  (void)it.begin();
  EXPECT_EQ(it.started("a"), "start x | a running, x starting");
  EXPECT_EQ(it.started("x"), "start z | x running, z starting");
  EXPECT_EQ(it.state("b"), TrialState::starting);
}

TEST(Planner, TellsSinceWhenNothingIsMissingThatATrialDependsOn) {
  const Experiment experiment = test::experiment("a b<-a c<-a:succeeded");
  const Plan plan = test::plan(experiment);
  const RunId run("run1");
  const Instant began(std::chrono::seconds(1000));
  const auto ready_at = [](const Step& step, TrialIndex trial) -> std::optional<Instant> {
    for (const Fact& fact : step.facts)
      if (fact.trial == trial && fact.state == TrialState::starting) return fact.ready_at;
    return std::nullopt;
  };
  Planner planner(run, experiment, plan, {});
  EXPECT_EQ(ready_at(planner.step(Begin{}, began), 0), Instant{}) << "it depends on nothing";
  const Instant ran_at = began + std::chrono::seconds(5);
  const Sighting seen{
      .key = {.run = run, .trial = "a"}, .experiment = "test", .id = "1", .phase = Phase::running};
  EXPECT_EQ(ready_at(planner.step(StartAnswered{.trial = 0, .seen = seen}, ran_at), 1), ran_at);

  // Another process goes on: what was met before is no news.
  const Past over{.state = TrialState::succeeded,
                  .was_started = true,
                  .ran_at = ran_at,
                  .over_at = ran_at + std::chrono::seconds(60)};
  Planner later(run, experiment, plan, {.past = {over, {}, {}}});
  const Instant now = began + std::chrono::hours(1);
  (void)later.step(Begin{}, now);
  const Step step = later.step(Listed{}, now);
  EXPECT_EQ(ready_at(step, 1), over.ran_at);
  EXPECT_EQ(ready_at(step, 2), over.over_at);
}

TEST(Planner, WaitsForHealth) {
  Planned it("db use<-db:healthy");
  (void)it.begin();
  EXPECT_EQ(it.started("db"), " | db running");
  EXPECT_EQ(it.health("db", Health::starting), " | ");
  EXPECT_EQ(it.health("db", Health::healthy), "start use | db healthy, use starting");
  EXPECT_EQ(it.health("db", Health::healthy), " | ");
}

TEST(Planner, UnhealthyBlocksWhatWaitsForHealthAndNothingElse) {
  Planned it("db use<-db:healthy other<-db");
  (void)it.begin();
  (void)it.started("db");
  EXPECT_EQ(it.health("db", Health::unhealthy),
            " | use blocked (depends on `db`, which did not become healthy)");
  EXPECT_EQ(it.state("other"), TrialState::starting);
}

TEST(Planner, EndBeforeHealthBlocks) {
  Planned it("db use<-db:healthy");
  (void)it.begin();
  (void)it.started("db");
  EXPECT_EQ(it.ended("db", 0),
            " | db succeeded, use blocked (depends on `db`, which did not become healthy)");
  EXPECT_TRUE(it.done());
}

TEST(Planner, SucceededAndFinished) {
  Planned it("a s<-a:succeeded f<-a:finished");
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 3),
            "collect a, start f | a failed (exit code 3), s blocked (depends on `a`, which did not succeed), "
            "f starting");
}

TEST(Planner, BlockedNamesTheRoot) {
  Planned it("a b<-a c<-b d<-c");
  (void)it.begin();
  EXPECT_EQ(it.not_started("a"),
            " | a failed (could not be started: port is taken), "
            "b blocked (depends on `a`, which was not started), "
            "c blocked (depends on `b`, which is blocked by `a`), "
            "d blocked (depends on `c`, which is blocked by `a`)");
  EXPECT_TRUE(it.done());
}

TEST(Planner, FailureStopsOnlyWhatDependsOnIt) {
  Planned it("a b<-a c d<-c", {.starts_in_flight_max = 1});
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.not_started("a"),
            "start c | a failed (could not be started: port is taken), "
            "b blocked (depends on `a`, which was not started), c starting");
  EXPECT_EQ(it.started("c"), "start d | c running, d starting");
}

TEST(Planner, EventsMayComeBeforeTheAnswer) {
  Planned it("a b<-a c<-a:succeeded");
  (void)it.begin();
  EXPECT_EQ(it.running("a"), "start b | a running, b starting");
  EXPECT_EQ(it.in_flight(), 2U);
  EXPECT_EQ(it.ended("a", 0), "start c | a succeeded, c starting");
  EXPECT_EQ(it.started("a"), " | ");
  EXPECT_EQ(it.in_flight(), 2U);
  EXPECT_EQ(it.state("a"), TrialState::succeeded);
}

TEST(Planner, AnEndSeenFirstIsAStartToo) {
  Planned it("a b<-a");
  (void)it.begin();
  EXPECT_EQ(it.ended("a", 0), "start b | a running, a succeeded, b starting");
}

TEST(Planner, ALostAnswerOfWhatRunsIsNoFailure) {
  Planned it("a");
  (void)it.begin();
  (void)it.running("a");
  EXPECT_EQ(it.not_started("a"), " | ");
  EXPECT_EQ(it.state("a"), TrialState::running);
}

TEST(Planner, AnAnswerWithoutASightingWaitsForOne) {
  Planned it("a b<-a");
  (void)it.begin();
  EXPECT_EQ(it.accepted("a"), " | ");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.running("a"), "start b | a running, b starting");
}

TEST(Planner, LateAndStrangeSightingsChangeNothing) {
  Planned it("a b<-a:succeeded", k_wait);
  (void)it.begin();
  (void)it.started("a");
  Sighting stranger = it.sighting("a", Phase::ended);
  stranger.key.run = RunId("other");
  stranger.exit_code = 0;
  EXPECT_EQ(it.seen(stranger), " | ");
  stranger = it.sighting("a", Phase::gone);
  stranger.key.trial = "nobody";
  EXPECT_EQ(it.seen(stranger), " | ");
  (void)it.ended("a", 1);
  EXPECT_EQ(it.running("a"), " | ");
  EXPECT_EQ(it.ended("a", 0), " | ");
  EXPECT_EQ(it.state("a"), TrialState::failed);
  EXPECT_EQ(it.seen(it.sighting("b", Phase::created)), " | ");
}

TEST(Planner, AListingTellsWhatWasMissed) {
  Planned it("a b c<-a:succeeded", k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  (void)it.listing_begins();
  Sighting ended = it.sighting("a", Phase::ended);
  ended.exit_code = 0;
  EXPECT_EQ(it.listed({ended}),
            "start c | a succeeded, b stopped (its container was removed while it ran), c starting");
}

TEST(Planner, AListingAskedForBeforeAStartNeedNotHoldIt) {
  Planned it("a");
  (void)it.begin();
  (void)it.listing_begins();
  (void)it.started("a");
  EXPECT_EQ(it.listed({}), " | ");
  EXPECT_EQ(it.state("a"), TrialState::running);
}

TEST(Planner, RemovedWhileRunningIsAFailure) {
  Planned it("a", k_wait);
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.gone("a"), " | a stopped (its container was removed while it ran)");
}

TEST(Planner, UntilEndedWaitsForAll) {
  Planned it("a b", k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_FALSE(it.done());
  (void)it.ended("b", 0);
  EXPECT_FALSE(it.done());
  (void)it.ended("a", 0);
  EXPECT_TRUE(it.done());
}

TEST(Planner, AServiceIsStoppedWhenItsLastUserIsOver) {
  Planned it("!db a<-db b<-db", k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
  EXPECT_EQ(it.ended("b", 1), "collect b, stop db | b failed (exit code 1)");
  EXPECT_EQ(it.collected("b"), " | ");
  EXPECT_EQ(it.ended("db", 143), " | db stopped");
  EXPECT_FALSE(it.done()) << "the engine has not answered";
  (void)it.stopped("db");
  EXPECT_TRUE(it.done());
}

TEST(Planner, AServiceThatServesAllStandsUntilTheWorkIsDone) {
  Planned it("!log a", k_wait);
  (void)it.begin();
  (void)it.started("log");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "stop log | a succeeded");
}

TEST(Planner, AServiceThatDiesByItselfHasFailed) {
  Planned it("!db a<-db", k_wait);
  (void)it.begin();
  (void)it.started("db");
  EXPECT_EQ(it.ended("db", 1), "collect db | db failed (exit code 1)");
}

TEST(Planner, AServiceThatCannotBeStoppedIsToldAndNotWaitedFor) {
  Planned it("!db a<-db", k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.ended("a", 0);
  EXPECT_EQ(it.not_stopped("db"), " | db failed (could not be stopped: no)");
  EXPECT_TRUE(it.done());
}

TEST(Planner, AServiceWhoseUsersAreBlockedIsStoppedOnceItRuns) {
  Planned it("a !db use<-a:succeeded,db", k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  EXPECT_EQ(it.started("db"), "stop db | db running");
}

TEST(Planner, AServiceThatNobodyIsLeftToUseIsNotStarted) {
  Planned it("!first !second<-first:healthy a", k_wait);
  (void)it.begin();
  (void)it.started("first");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "stop first | a succeeded, second stopped");
  (void)it.stopped("first");
  EXPECT_EQ(it.ended("first", 143), " | first stopped");
  EXPECT_TRUE(it.done());
}

TEST(Planner, WhatIsThereForOthersButNotMarkedIsLeftAlone) {
  Planned it("db a<-db b<-db:healthy", k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.health("db", Health::healthy);
  (void)it.started("b");
  (void)it.ended("a", 0);
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.ended("b", 0), " | b succeeded");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("db"), TrialState::running);
}

TEST(Planner, AServiceThatRunsWhenTheWorkIsDoneAlreadyIsStopped) {
  Planned it("!log a", k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 0);
  EXPECT_EQ(it.started("log"), "stop log | log running");
}

TEST(Planner, WhatOthersNeedTheEndOfIsWaitedFor) {
  Planned it("a s<-a:succeeded c<-a d s2<-d:succeeded,a:succeeded", k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("d");
  (void)it.started("c");
  (void)it.ended("c", 0);
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_FALSE(it.done()) << "d runs, though what needs it is blocked";
  (void)it.ended("d", 0);
  EXPECT_TRUE(it.done());
}

TEST(Planner, AServiceStandsWhenNobodyWaits) {
  Planned it("!db a<-db");
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
}

TEST(Planner, InterruptStartsNothingMore) {
  Planned it("a b c<-a", {.starts_in_flight_max = 1});
  (void)it.begin();
  EXPECT_EQ(it.interrupt(), " | ");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("b"), TrialState::ready);
}

TEST(Planner, AStartThatAnInterruptedRunGivesUpHasNotFailed) {
  Planned it("a b<-a", {.starts_in_flight_max = 1});
  (void)it.begin();
  (void)it.interrupt();
  EXPECT_EQ(it.start_given_up("a"), " | ");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("a"), TrialState::starting) << "a later process starts it again";
}

TEST(Planner, ALongChainNeitherRecursesNorStalls) {
  Experiment experiment{.name = "chain"};
  constexpr TrialIndex count = 100'000;
  for (TrialIndex i = 0; i < count; ++i) {
    Trial trial{.name = fmt::format("t{}", i), .image = "image"};
    if (i > 0) trial.depends.push_back({.trial = fmt::format("t{}", i - 1)});
    experiment.trials.push_back(std::move(trial));
  }
  const Plan plan = test::plan(experiment);
  Planner planner(RunId("r1"), experiment, plan, {});
  (void)planner.step(Begin{}, {});
  const Step step = planner.step(StartFailed{.trial = 0, .error = Error(ErrorKind::refused, "", "no")}, {});
  EXPECT_EQ(step.facts.size(), count);
  EXPECT_EQ(step.facts.back().root, 0U);
  EXPECT_TRUE(planner.done());
}

// ---- Slots, priority, order

PlannerOptions with_cpus(const char* cpus) {
  return {.starts_in_flight_max = 100, .capacity = Slots{.cpus = parse_cpus(cpus)}};
}

TEST(Slots, AreNeverGivenTwice) {
  Planned it("a=3 b=2 c=0.5 d", with_cpus("4"));
  EXPECT_EQ(it.begin(), "start a, start c, start d | a starting, c starting, d starting");
  EXPECT_EQ(it.held(), Planned::cpus("3.5"));
  EXPECT_EQ(it.ended("a", 0), "start b | a running, a succeeded, b starting");
  EXPECT_EQ(it.held(), Planned::cpus("2.5"));
}

TEST(Slots, AreNotTakenBeforeItIsKnownWhatOthersHold) {
  const Experiment experiment = test::experiment("a=1 b");
  const Plan plan = test::plan(experiment);
  Planner planner(RunId("run1"), experiment, plan, with_cpus("4"));
  const Step begun = planner.step(Begin{}, {});
  ASSERT_EQ(begun.commands.size(), 1U);
  EXPECT_EQ(std::get<StartCommand>(begun.commands[0]).trial, 1U);
  EXPECT_EQ(planner.step(Listed{}, {}).commands.size(), 1U);
}

TEST(Slots, OfAStartThatFailsAreFreeAgain) {
  Planned it("a=3 b=3", with_cpus("4"));
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.not_started("a"), "start b | a failed (could not be started: port is taken), b starting");
}

TEST(Slots, WithoutACapacityBoundNothing) {
  Planned it("a=300 b=2");
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
}

TEST(Slots, OfOtherRunsCount) {
  Planned it("a=2 b=2 c=2", with_cpus("4"));
  EXPECT_EQ(it.other("x", Phase::running), " | ");
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.other("x", Phase::running), " | ") << "told twice, held once";
  EXPECT_EQ(it.other("x", Phase::ended), "start b | b starting");
  EXPECT_EQ(it.other("x", Phase::running), " | ") << "told late";
  EXPECT_EQ(it.ended("a", 0), "start c | a running, a succeeded, c starting");
}

TEST(Slots, AListingTellsWhatOthersHold) {
  Planned it("a=2 b=2", with_cpus("4"));
  EXPECT_EQ(it.other("x", Phase::running), " | ");
  EXPECT_EQ(it.other("y", Phase::created), " | ") << "has not started, and need not";
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.listed({}), "start b | b starting") << "x is not there any more";
}

TEST(Slots, ALargeTrialIsOvertakenOnlySoOften) {
  std::string text = "first=1 large=4";
  for (std::size_t i = 0; i < Planner::k_overtakes_max + 5; ++i) text += fmt::format(" s{}=1", i);
  Planned it(text, with_cpus("4"));
  EXPECT_EQ(
      it.begin(),
      "start first, start s0, start s1, start s2 | first starting, s0 starting, s1 starting, s2 starting");
  std::size_t overtakes = 3;
  for (; overtakes < Planner::k_overtakes_max; ++overtakes) {
    const std::string over = fmt::format("s{}", overtakes - 3);
    const std::string next = fmt::format("s{}", overtakes);
    ASSERT_EQ(it.ended(over, 0),
              fmt::format("start {1} | {0} running, {0} succeeded, {1} starting", over, next));
  }
  for (std::size_t i = overtakes - 3; i < overtakes; ++i) {
    ASSERT_EQ(it.ended(fmt::format("s{}", i), 0), fmt::format(" | s{0} running, s{0} succeeded", i));
  }
  EXPECT_EQ(it.ended("first", 0), "start large | first running, first succeeded, large starting");
}

TEST(Slots, WhatOthersHoldForEverHoldsUpOnlyWhoNeedsIt) {
  std::string text = "large=4";
  for (std::size_t i = 0; i < 2 * Planner::k_overtakes_max; ++i) text += fmt::format(" s{}=2", i);
  Planned it(text, with_cpus("4"));
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.begin(), "start s0 | s0 starting");
  for (std::size_t i = 0; i + 1 < 2 * Planner::k_overtakes_max; ++i) {
    ASSERT_EQ(it.ended(fmt::format("s{}", i), 0),
              fmt::format("start s{1} | s{0} running, s{0} succeeded, s{1} starting", i, i + 1));
  }
}

TEST(Slots, WhatNoHostHasIsToldBefore) {
  const auto errors = check_slots(test::experiment("a=3 b=4.5 c"), Planned::cpus("4"), {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(), "b: wants 4.5 CPUs, but the engine has 4 CPUs to give");
}

TEST(Slots, MemoryThatReadsAlikeIsToldInBytes) {
  Experiment experiment = test::experiment("a b");
  experiment.trials[0].slots.memory = parse_bytes("16.0001g");
  experiment.trials[1].slots.memory = parse_bytes("17g");
  const Slots capacity{.cpus = {}, .memory = parse_bytes("16g"), .gpus = {}};
  const auto errors = check_slots(experiment, capacity, {});
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_STREQ(errors[0].what(),
               "a: wants 17179976558 B of memory, but the engine has 17179869184 B of memory to give");
  EXPECT_STREQ(errors[1].what(), "b: wants 17 GiB of memory, but the engine has 16 GiB of memory to give");
}

TEST(Slots, ThatNothingIsLeftIsToldByKind) {
  const Slots capacity{.cpus = {}, .memory = parse_bytes("4g"), .gpus = {"0"}};
  const auto errors = check_slots(test::experiment("a=0.1"), capacity, {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(), "a: wants 0.1 CPUs, but the engine has no CPUs, 4 GiB of memory to give");
}

// ---- GPUs

// "0" and "1" are small, "2" is large.
std::vector<Gpu> three_gpus() {
  constexpr std::int64_t k_gibibyte = std::int64_t{1} << 30U;
  return {{.id = "0", .uuid = "GPU-a", .kind = "NVIDIA T4", .memory = Bytes{16 * k_gibibyte}},
          {.id = "1", .uuid = "GPU-b", .kind = "NVIDIA T4", .memory = Bytes{16 * k_gibibyte}},
          {.id = "2", .uuid = "GPU-c", .kind = "NVIDIA H100 80GB", .memory = Bytes{80 * k_gibibyte}}};
}

PlannerOptions with_gpus() {
  Slots capacity{.cpus = parse_cpus("8"), .memory = {}, .gpus = {"0", "1", "2"}};
  return {.starts_in_flight_max = 100, .capacity = std::move(capacity), .gpus = three_gpus()};
}

// Each wants so many.
Experiment wanting(const std::vector<std::size_t>& counts) {
  Experiment experiment;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Trial trial;
    trial.name = std::string(1, static_cast<char>('a' + i));
    trial.gpus = GpuWish{.count = counts[i]};
    experiment.trials.push_back(std::move(trial));
  }
  return experiment;
}

Sighting holder_of(const std::string& id, std::vector<std::string> gpus, Phase phase) {
  return {.key = {.run = RunId("run2"), .trial = "x"},
          .experiment = "other",
          .id = id,
          .phase = phase,
          .slots = {.cpus = {}, .memory = {}, .gpus = std::move(gpus)}};
}

TEST(Gpus, AreGivenByNameAndToOneAtATime) {
  Planned it(wanting({1, 1, 2, 1}), with_gpus());
  EXPECT_EQ(it.begin(), "start a, start b, start d | a starting, b starting, d starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0", "1", "2"));
  EXPECT_EQ(it.ended("b", 0), " | b running, b succeeded");
  EXPECT_EQ(it.ended("a", 0), "start c | a running, a succeeded, c starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("2", "0", "1"));
}

TEST(Gpus, ThatOthersHoldAreNotGiven) {
  Planned it(wanting({1, 1}), with_gpus());
  (void)it.seen(holder_of("x", {"0", "2"}, Phase::running));
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
  EXPECT_EQ(it.seen(holder_of("x", {"0", "2"}, Phase::ended)), "start b | b starting");
}

TEST(Gpus, OneThatSomebodyWasFasterToTakeIsLeftToThem) {
  Planned it(wanting({1}), with_gpus());
  (void)it.begin();
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0"));
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::created)), "start a | a ready, a starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
}

TEST(Gpus, AClaimThatComesToNothingIsForgotten) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::created)), " | a ready");
  EXPECT_EQ(it.pass(9), " | ");
  EXPECT_EQ(it.pass(1), "start a | a starting");
}

TEST(Gpus, AClaimThatIsLetGoIsFreeAtOnce) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  (void)it.lost_to("a", holder_of("x", {"0"}, Phase::created));
  EXPECT_EQ(it.seen(holder_of("x", {"0"}, Phase::gone)), "start a | a starting");
}

TEST(Gpus, AClaimThatWasLetGoBeforeAListingHoldsNothing) {
  Planned it(wanting({2}), with_gpus());
  (void)it.begin();
  (void)it.seen(holder_of("x1", {"0", "1"}, Phase::gone));
  (void)it.listed({});
  EXPECT_EQ(it.lost_to("a", holder_of("x1", {"0", "1"}, Phase::created)), " | a ready");
  EXPECT_EQ(it.pass(1), "start a | a starting");
}

TEST(Gpus, AClaimThatRunsIsNotForgotten) {
  Planned it(wanting({3}), with_gpus());
  (void)it.begin();
  (void)it.lost_to("a", holder_of("x", {"0"}, Phase::created));
  (void)it.seen(holder_of("x", {"0"}, Phase::running));
  EXPECT_EQ(it.pass(60), " | ");
  EXPECT_EQ(it.seen(holder_of("x", {"0"}, Phase::ended)), "start a | a starting");
}

TEST(Gpus, WhatAnEarlierProcessHasStartedKeepsItsOwn) {
  PlannerOptions options = with_gpus();
  options.past.resize(2);
  options.past[0].state = TrialState::running;
  options.past[0].was_started = true;
  Planned it(wanting({1, 1}), std::move(options));
  EXPECT_EQ(it.begin(), " | ") << "nothing starts before it is known what runs";
  Sighting runs = it.sighting("a", Phase::running);
  runs.slots.gpus = {"0"};
  EXPECT_EQ(it.listed({runs}), "start b | b starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("0", "1"));
}

// A line of trials that want processors goes on while one waits for a GPU that is long in use.
TEST(Gpus, WhoWaitsForOneHoldsUpOnlyWhoWouldTakeIt) {
  Experiment experiment = wanting({3, 3});
  for (std::size_t i = 0; i < Planner::k_overtakes_max + 3; ++i) {
    Trial trial;
    trial.name = fmt::format("s{}", i);
    trial.slots.cpus = parse_cpus("8");
    experiment.trials.push_back(trial);
  }
  Planned it(experiment, with_gpus());
  EXPECT_EQ(it.begin(), "start a, start s0 | a starting, s0 starting");
  for (std::size_t i = 0; i + 1 < Planner::k_overtakes_max + 3; ++i)
    ASSERT_EQ(it.ended(fmt::format("s{}", i), 0),
              fmt::format("start s{1} | s{0} running, s{0} succeeded, s{1} starting", i, i + 1));
}

// Others get what the one that waits could do with only where there is nothing else.
TEST(Gpus, WhoWaitsForOneDeviceDoesNotHoldUpThoseThatTakeOthers) {
  Experiment experiment = wanting({1, 1});
  experiment.trials[0].gpus = GpuWish{.count = 1, .ids = {"2"}};
  experiment.trials[1].gpus = GpuWish{.count = 1, .ids = {"2"}};
  for (std::size_t i = 0; i < 2 * Planner::k_overtakes_max; ++i) {
    Trial trial;
    trial.name = fmt::format("s{}", i);
    trial.gpus = GpuWish{.count = 1};
    experiment.trials.push_back(trial);
  }
  Planned it(experiment, with_gpus());
  EXPECT_EQ(it.begin(), "start a, start s0, start s1 | a starting, s0 starting, s1 starting");
  for (std::size_t i = 0; i + 2 < 2 * Planner::k_overtakes_max; ++i)
    ASSERT_EQ(it.ended(fmt::format("s{}", i), 0),
              fmt::format("start s{1} | s{0} running, s{0} succeeded, s{1} starting", i, i + 2));
}

TEST(Gpus, WhatHasBeenStartedAgainByHandHoldsItsOwn) {
  Planned it(wanting({3}), with_gpus());
  (void)it.seen(holder_of("x", {"0"}, Phase::ended));
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.lost_to("a", holder_of("x", {"0"}, Phase::running)), " | a ready");
  EXPECT_EQ(it.pass(9), " | ");
}

TEST(Gpus, WhatCannotRunBesideItsServiceIsToldBefore) {
  Experiment experiment = wanting({2, 2, 1});
  experiment.trials[0].service = true;
  experiment.trials[1].depends.push_back({.trial = "a"});
  experiment.trials[2].depends.push_back({.trial = "a"});
  const PlannerOptions options = with_gpus();
  const auto errors = check_slots(experiment, *options.capacity, options.gpus);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_THAT(errors[0].what(),
              testing::StartsWith("b: wants 4 GPUs together with `a`, which runs beside it, but"));
}

TEST(Gpus, TheLeastThatWillDoIsChosen) {
  const std::vector<Gpu> gpus = three_gpus();
  const std::vector<std::string> all{"0", "1", "2"};
  using Ids = std::optional<std::vector<std::string>>;
  EXPECT_EQ(schedule::choose({.count = 1}, gpus, {"2", "1"}, {}), Ids({"1"}));
  EXPECT_EQ(schedule::choose({.count = 1, .memory = parse_bytes("20g")}, gpus, all, {}), Ids({"2"}));
  EXPECT_EQ(schedule::choose({.count = 1, .kind = "h100"}, gpus, all, {}), Ids({"2"}));
  EXPECT_EQ(schedule::choose({.count = 2, .kind = "h100"}, gpus, all, {}), std::nullopt);
  EXPECT_EQ(schedule::choose({.count = 1, .ids = {"GPU-b"}}, gpus, all, {}), Ids({"1"}));
  EXPECT_EQ(schedule::choose({.count = 1, .ids = {"GPU-b"}}, gpus, {"0", "2"}, {}), std::nullopt);
  EXPECT_EQ(schedule::choose({.all = true, .kind = "t4"}, gpus, all, {}), Ids({"0", "1"}));
  EXPECT_EQ(schedule::choose({.all = true}, gpus, {"0", "1"}, {}), std::nullopt) << "all, or none";
  EXPECT_EQ(schedule::choose({.all = true}, {}, {}, {}), std::nullopt);
}

TEST(Gpus, WhatNoHostHasIsToldBefore) {
  Experiment experiment = wanting({1, 4, 1});
  experiment.trials[2].gpus = GpuWish{.count = 1, .memory = parse_bytes("100g")};
  const PlannerOptions options = with_gpus();
  const auto errors = check_slots(experiment, *options.capacity, options.gpus);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_STREQ(errors[0].what(),
               "b: wants 4 GPUs, but the engine has 3 GPUs (0: NVIDIA T4, 16 GiB; 1: NVIDIA T4, 16 GiB; "
               "2: NVIDIA H100 80GB, 80 GiB) to give");
  EXPECT_THAT(errors[1].what(), testing::HasSubstr("c: wants 1 GPU with 100 GiB or more, but"));
}

TEST(Gpus, OfWhichTheUuidsAreNotKnownThatIsTold) {
  std::vector<Gpu> gpus = three_gpus();
  for (Gpu& gpu : gpus) {
    gpu.id = "nvidia.com/gpu=" + gpu.id;
    gpu.uuid.clear();
  }
  Experiment experiment = wanting({1});
  experiment.trials[0].gpus = GpuWish{.count = 1, .ids = {"nvidia.com/gpu=GPU-a"}};
  const Slots capacity{.cpus = {}, .memory = {}, .gpus = {gpus[0].id, gpus[1].id, gpus[2].id}};
  const auto errors = check_slots(experiment, capacity, gpus);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_THAT(errors[0].what(), testing::HasSubstr("80 GiB), whose UUIDs are not known, to give"));
  gpus[0].uuid = "GPU-a";
  EXPECT_TRUE(check_slots(experiment, capacity, gpus).empty());
}

TEST(Planner, StartsTheHighestPriorityFirst) {
  Planned it("a b^1 c^-1 d^1", {.starts_in_flight_max = 1});
  EXPECT_EQ(it.begin(), "start b | b starting");
  EXPECT_EQ(it.started("b"), "start d | b running, d starting");
  EXPECT_EQ(it.started("d"), "start a | d running, a starting");
  EXPECT_EQ(it.started("a"), "start c | a running, c starting");
}

TEST(Planner, KeepsAtMostSoManyAliveWithoutCountingServices) {
  Experiment experiment = test::experiment("!cache a<-cache b c");
  experiment.parallel_max = 2;
  Planned it(experiment);
  EXPECT_EQ(it.begin(), "start cache, start b, start c | cache starting, b starting, c starting");
  EXPECT_EQ(it.started("cache"), " | cache running");
  EXPECT_EQ(it.ended("b", 1), "collect b, start a | b running, b failed (exit code 1), a starting");
}

std::string random_order(std::uint64_t seed) {
  Experiment experiment = test::experiment("a b c d e f g h i j");
  experiment.order = Order::random;
  experiment.seed = seed;
  return Planned(experiment, {.starts_in_flight_max = 10}).begin();
}

TEST(Planner, ARandomOrderIsRepeatedByItsSeed) {
  EXPECT_EQ(random_order(1), random_order(1));
  EXPECT_NE(random_order(1), random_order(2));
  EXPECT_EQ(random_order(1).size(), random_order(2).size());
}

// ---- failure

Experiment with_retries(const std::string& text, Retries retries) {
  Experiment experiment = test::experiment(text);
  if (retries.on.none()) retries.on.set().reset(static_cast<std::size_t>(Cause::stopped));
  for (Trial& trial : experiment.trials) trial.retries = retries;
  return experiment;
}

TEST(Retries, AFailedAttemptIsFollowedByTheNextAfterAPause) {
  Planned it(with_retries("a", {.max = 2}));
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1), "collect a | a retrying (exit code 1; attempt 2 in 1.0 s)");
  EXPECT_EQ(it.collected("a"), " | ");
  EXPECT_EQ(it.pass(0.9), " | ");
  EXPECT_EQ(it.pass(0.1), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1), "collect a#2 | a retrying (exit code 1; attempt 3 in 2.0 s)");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(2), "start a#3 | a starting");
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.ended("a", 1), "collect a#3 | a failed (exit code 1, after 3 attempts)");
  (void)it.collected("a");
  EXPECT_TRUE(it.done());
}

TEST(Retries, TheNextAttemptWaitsUntilAllOfTheLastHasBeenTaken) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  EXPECT_EQ(it.pass(5), " | ");
  EXPECT_EQ(it.collected("a"), "start a#2 | a starting");
}

TEST(Retries, NoneIsTheDefault) {
  Planned it("a");
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 137), "collect a | a failed (exit code 137, SIGKILL)");
}

TEST(Retries, OnlyAfterTheCausesThatAreNamed) {
  Retries retries{.max = 5};
  retries.on.set(static_cast<std::size_t>(Cause::oom));
  Planned it(with_retries("a b", retries));
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.ended("a", 1), "collect a | a failed (exit code 1)");
  EXPECT_EQ(it.out_of_memory("b"),
            "collect b | b retrying (out of memory (exit code 137, SIGKILL); attempt 2 in 1.0 s)");
}

TEST(Retries, WhatSomebodyStoppedIsNotTriedAgain) {
  Retries retries{.max = 5};
  retries.on.set(static_cast<std::size_t>(Cause::error));
  Planned it(with_retries("a", retries));
  (void)it.begin();
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.stopped = true;
  EXPECT_EQ(it.seen(seen), "collect a | a stopped (stopped from outside (exit code 143, SIGTERM))");
}

TEST(Retries, WhoStoppedItShowsWhenTheEngineGoesAway) {
  for (const bool restarted : {true, false}) {
    Planned it(with_retries("a", {.max = 1}));
    (void)it.begin();
    (void)it.started("a");
    Sighting seen = it.sighting("a", Phase::ended);
    seen.exit_code = 143;
    seen.stopped = true;
    EXPECT_EQ(it.seen(seen),
              "collect a | a retrying (stopped from outside (exit code 143, SIGTERM); tried "
              "again if the engine is being restarted)");
    (void)it.collected("a");
    EXPECT_EQ(it.pass(70), " | ");
    EXPECT_FALSE(it.done());
    if (restarted) {
      EXPECT_EQ(it.listing_begins_after_a_break(), "start a#2 | a starting");
    } else {
      EXPECT_EQ(it.pass(5), " | a stopped (stopped from outside (exit code 143, SIGTERM))");
      EXPECT_TRUE(it.done());
    }
  }
}

TEST(Retries, WhatIsStoppedInALaterAttemptStaysStopped) {
  Planned it(with_retries("a", {.max = 3}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(60), "start a#2 | a starting");
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.stopped = true;
  (void)it.seen(seen);
  EXPECT_EQ(it.collected("a"), " | ");
  EXPECT_EQ(it.state("a"), TrialState::retrying);
  EXPECT_EQ(it.pass(75), " | a stopped (stopped from outside (exit code 143, SIGTERM))");
}

TEST(Retries, WhoAnnouncesThatHeStopsItIsTold) {
  Planned it(with_retries("a b", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.adjust({.stopping = {"a", "unknown"}, .stopper = "alice"}), " | ");
  for (const auto& [name, words] :
       {std::pair("a", "collect a | a stopped (stopped by alice with `combu stop`)"),
        std::pair("b",
                  "collect b | b retrying (stopped from outside (exit code "
                  "143, SIGTERM); tried again if the engine is being "
                  "restarted)")}) {
    Sighting seen = it.sighting(name, Phase::ended);
    seen.exit_code = 143;
    seen.stopped = true;
    EXPECT_EQ(it.seen(seen), words);
  }
}

TEST(Retries, WhatWaitsForItsNextAttemptIsStoppedByItsName) {
  Planned it(with_retries("a b<-a:succeeded", {.max = 3, .pause = Seconds(20)}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 7);
  (void)it.collected("a");
  EXPECT_EQ(
      it.adjust({.stopping = {"a"}, .stopper = "alice"}),
      " | a failed (exit code 7; not tried again: stopped by alice with `combu stop`), b blocked (depends "
      "on `a`, which did not succeed)");
  EXPECT_EQ(it.pass(60), " | ");
  EXPECT_TRUE(it.done());
}

TEST(Retries, WhatWasAnnouncedIsOfThatAttempt) {
  Retries retries{.max = 5};
  retries.on.set(static_cast<std::size_t>(Cause::error));
  Planned it(with_retries("a", retries));
  (void)it.begin();
  (void)it.started("a");
  (void)it.adjust({.stopping = {"a"}, .stopper = "alice"});
  EXPECT_THAT(it.ended("a", 1), testing::HasSubstr("a retrying (exit code 1"));
  (void)it.collected("a");
  (void)it.pass(60);
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.stopped = true;
  EXPECT_THAT(it.seen(seen), testing::HasSubstr("stopped from outside"));
}

TEST(Planner, WhatSomebodyStoppedHasNotSucceeded) {
  Planned it("a");
  (void)it.begin();
  (void)it.started("a");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 0;
  seen.stopped = true;
  EXPECT_EQ(it.seen(seen), "collect a | a stopped (stopped from outside (exit code 0))");
}

TEST(Retries, ALostHostDoesNotSpendThem) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.listing_begins_after_a_break();
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 255;
  EXPECT_EQ(it.listed_after_a_break({seen}),
            "collect a | a retrying (lost with its host or engine (exit code 255); attempt 2 in 0 ms)");
  EXPECT_EQ(it.collected("a"), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1), "collect a#2 | a retrying (exit code 1; attempt 3 in 1.0 s)");
}

TEST(Retries, MemoryGrowsAfterOutOfMemoryAndIsReserved) {
  Experiment experiment = with_retries("a b", {.max = 3, .grow_memory = 1.5});
  for (Trial& trial : experiment.trials) trial.slots.memory = Bytes{1000};
  Planned it(experiment, {.capacity = Slots{.cpus = {}, .memory = Bytes{2100}}});
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.out_of_memory("a"),
            "collect a | a retrying (out of memory at 1000 B (exit code 137, SIGKILL); "
            "attempt 2 in 1.0 s)");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), " | a ready") << "1500 are not free beside b";
  EXPECT_EQ(it.ended("b", 0), "start a#2 | b succeeded, a starting");
  EXPECT_EQ(it.held().memory, Bytes{1500});
  (void)it.started("a");
  (void)it.out_of_memory("a");
  (void)it.collected("a");
  (void)it.pass(2);
  EXPECT_EQ(it.held().memory, Bytes{2100}) << "no more than there is";
}

TEST(Retries, AFurtherAttemptThatWaitsForSlotsIsTold) {
  Experiment experiment = with_retries("a=2 b=2", {.max = 1});
  Planned it(experiment, {.capacity = Planned::cpus("2")});
  EXPECT_EQ(it.begin(), "start a | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1),
            "collect a, start b | a retrying (exit code 1; attempt 2 in 1.0 s), b starting");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), " | a ready");
  (void)it.started("b");
  EXPECT_EQ(it.ended("b", 0), "start a#2 | b succeeded, a starting");
}

TEST(GoingOn, AFurtherAttemptThatWaitedForSlotsIsStarted) {
  Planned it(
      with_retries("a", {.max = 1}),
      {.past = {{.state = TrialState::ready, .cause = Cause::error, .exit_code = 1, .was_started = true}}});
  (void)it.begin();
  EXPECT_EQ(it.listed({}), "start a#2 | a starting");
}

TEST(MaxFailures, WhatWaitsForSlotsForItsRetryHasFailedOfItsOwn) {
  Experiment experiment = with_retries("a=2 b=2", {.max = 1});
  experiment.trials[1].retries = {};
  experiment.failures_max = 1;
  Planned it(experiment, {.capacity = Planned::cpus("2")});
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 7);
  (void)it.collected("a");
  (void)it.started("b");
  EXPECT_EQ(it.pass(1), " | a ready");
  EXPECT_EQ(it.ended("b", 3),
            "collect b | b failed (exit code 3), a failed (exit code 7; not tried again: 1 trial has failed, "
            "as many as may (max_failures))");
}

TEST(Retries, WhatWasLikelyOutOfMemoryGrowsToo) {
  Experiment experiment = with_retries("a", {.max = 1, .grow_memory = 2});
  experiment.trials[0].slots.memory = parse_bytes("1g");
  Planned it(experiment, {.capacity = Slots{.cpus = {}, .memory = parse_bytes("4g"), .gpus = {}}});
  (void)it.begin();
  (void)it.started("a");
  Sighting killed = it.sighting("a", Phase::ended);
  killed.exit_code = 137;
  killed.oom_likely = true;
  EXPECT_EQ(it.seen(killed),
            "collect a | a retrying (perhaps out of memory at 1 GiB (exit code 137, SIGKILL); attempt 2 in "
            "1.0 s)");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(2), "start a#2 | a starting");
  EXPECT_EQ(it.held().memory, parse_bytes("2g"));
}

TEST(Retries, WhatWasLikelyOutOfMemoryIsLostWithAnEngineThatWasAway) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  Sighting killed = it.sighting("a", Phase::ended);
  killed.exit_code = 137;
  killed.oom_likely = true;
  EXPECT_EQ(
      it.listed_after_a_break({killed}),
      "collect a | a retrying (lost with its host or engine (exit code 137, SIGKILL); attempt 2 in 0 ms)");
}

TEST(Retries, WhatDependsOnItWaitsForTheLastAttempt) {
  Planned it(with_retries("a s<-a:succeeded f<-a:finished", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "start s, start f | a succeeded, s starting, f starting");
}

TEST(Retries, LateNewsOfAnEarlierAttemptChangeNothing) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  const Sighting late = it.sighting("a", Phase::ended, 1);
  (void)it.collected("a");
  (void)it.pass(1);
  EXPECT_EQ(it.seen(late), " | ");
  EXPECT_EQ(it.seen(it.sighting("a", Phase::gone, 1)), " | ");
  EXPECT_EQ(it.state("a"), TrialState::starting);
}

TEST(Timeout, StopsAnAttemptThatTakesTooLong) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].timeout = Seconds(60);
  Planned it(experiment);
  (void)it.begin();
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_FALSE(it.done()) << "somebody must stay";
  EXPECT_EQ(it.pass(59.9), " | ");
  EXPECT_EQ(it.pass(0.1), "stop a | a running (timeout)");
  EXPECT_EQ(it.stopped("a"), " | ");
  EXPECT_EQ(it.ended("a", 0), "collect a | a failed (took longer than its timeout of 1m00s)");
}

TEST(Timeout, ThatCannotBeEnforcedIsAnEndAllTheSame) {
  Experiment experiment = with_retries("a", {.max = 3});
  experiment.trials[0].timeout = Seconds(60);
  Planned it(experiment);
  (void)it.begin();
  (void)it.started("a");
  (void)it.pass(60);
  EXPECT_EQ(it.not_stopped("a"),
            " | a failed (took longer than its timeout of 1m00s, and could not be stopped: no)");
  EXPECT_TRUE(it.done());
}

TEST(GoingOn, NothingStartsBeforeAListing) {
  Planned planned("a b<-a", {.past = {{}, {}}});
  EXPECT_EQ(planned.begin(), " | ");
  EXPECT_FALSE(planned.done());
  EXPECT_EQ(planned.listed({}), "start a | a starting");
}

TEST(GoingOn, WhatIsOverStaysSoAndWhatFollowsGoesOn) {
  Planned planned("a b c<-a:succeeded d<-b:succeeded",
                  {.past = {{.state = TrialState::succeeded, .was_started = true},
                            {.state = TrialState::failed, .cause = Cause::error, .was_started = true},
                            {},
                            {}}});
  EXPECT_EQ(planned.begin(), " | d blocked (depends on `b`, which did not succeed)");
  EXPECT_EQ(planned.listed({}), "start c | c starting");
}

TEST(GoingOn, WhatRanIsTakenInAsTheListingHasIt) {
  const Past ran{.state = TrialState::running, .was_started = true};
  Planned planned("a b c", {.past = {ran, ran, ran}});
  Sighting ended = planned.sighting("b", Phase::ended);
  ended.exit_code = 7;
  EXPECT_EQ(planned.begin(), " | ");
  (void)planned.listing_begins();
  EXPECT_EQ(planned.listed({planned.sighting("a", Phase::running), ended}),
            "collect b | b failed (exit code 7), c stopped (its container was removed while it ran)");
  EXPECT_EQ(planned.state("a"), TrialState::running);
}

TEST(GoingOn, WhatWasKilledMeanwhileIsLost) {
  Planned planned("a", {.past = {{.state = TrialState::running, .was_started = true}}});
  Sighting ended = planned.sighting("a", Phase::ended);
  ended.exit_code = 137;
  (void)planned.begin();
  (void)planned.listing_begins();
  EXPECT_EQ(planned.listed({ended}),
            "collect a | a failed (lost with its host or engine (exit code 137, SIGKILL))");
}

TEST(GoingOn, NothingIsLostWithAnEngineThatWasThereAllTheTime) {
  const Instant ran_at = Instant{} + std::chrono::hours(1);
  const Past running{.state = TrialState::running, .was_started = true, .ran_at = ran_at};
  for (const bool was_there : {true, false}) {
    Planned planned(
        "a", {.past = {running}, .engine_began_at = ran_at + std::chrono::seconds(was_there ? -1 : 1)});
    Sighting ended = planned.sighting("a", Phase::ended);
    ended.exit_code = 137;
    (void)planned.begin();
    EXPECT_EQ(planned.listed({ended}),
              was_there ? "collect a | a failed (exit code 137, SIGKILL)"
                        : "collect a | a failed (lost with its host or engine (exit code 137, SIGKILL))");
  }
  // What was being looked into when its process died.
  Past stopped = running;
  stopped.state = TrialState::retrying;
  stopped.cause = Cause::stopped;
  stopped.exit_code = 143;
  for (const bool was_there : {true, false}) {
    Planned planned(
        with_retries("a", {.max = 1}),
        {.past = {stopped}, .engine_began_at = ran_at + std::chrono::seconds(was_there ? -1 : 1)});
    EXPECT_EQ(planned.begin(),
              was_there ? " | a stopped (stopped from outside (exit code 143, SIGTERM))" : " | ");
    EXPECT_EQ(planned.listed({}), was_there ? " | " : "start a#2 | a starting");
  }
}

TEST(GoingOn, WhatEndedInTimeWhileNobodyWatchedHasNotTakenTooLong) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].timeout = Seconds(10);
  Planned planned(experiment, {.past = {{.state = TrialState::running,
                                         .was_started = true,
                                         .ran_at = Instant{} - std::chrono::hours(1)}}});
  EXPECT_EQ(planned.begin(), " | ");
  Sighting ended = planned.sighting("a", Phase::ended);
  ended.exit_code = 0;
  EXPECT_EQ(planned.listed({ended}), " | a succeeded");
}

TEST(GoingOn, TheEngineKnowsOfALaterAttemptThanTheRecord) {
  const Past running{.state = TrialState::running, .was_started = true};
  for (const Phase phase : {Phase::running, Phase::ended}) {
    Planned planned("a", {.past = {running}});
    (void)planned.begin();
    Sighting later = planned.sighting("a", phase, 2);
    if (phase == Phase::ended) later.exit_code = 0;
    EXPECT_EQ(planned.listed({later}),
              phase == Phase::running
                  ? " | a retrying (how it ended is not on record), a starting, a running"
                  : " | a retrying (how it ended is not on record), a starting, a running, "
                    "a succeeded");
  }
}

Past leaving(Leaving how) {
  return {.state = TrialState::running, .was_started = true, .leaving = how};
}

TEST(GoingOn, WhatLeavesIsStoppedWhileTheRestGoesOn) {
  Planned planned("a b c<-b d", {.past = {leaving(Leaving::removed), leaving(Leaving::replaced), {}, {}}});
  EXPECT_EQ(planned.begin(), "stop a, stop b | ");
  EXPECT_EQ(planned.listed({planned.sighting("a", Phase::running), planned.sighting("b", Phase::running)}),
            "start d | d starting");
  EXPECT_EQ(planned.ended("a", 0), " | a stopped (removed from the file)");
  EXPECT_EQ(planned.started("d"), " | d running");
  EXPECT_FALSE(planned.done());
  // Nobody has seen the new one run.
  EXPECT_EQ(planned.ended("b", 143),
            "start b#2 | b retrying (replaced by what the file says now), b starting");
  EXPECT_EQ(planned.started("b"), "start c | b running, c starting");
}

TEST(GoingOn, WhatHasLeftMeanwhileIsNoFailure) {
  Planned planned("a b", {.past = {leaving(Leaving::removed), leaving(Leaving::replaced)}});
  EXPECT_EQ(planned.begin(), "stop a, stop b | ");
  Sighting ended = planned.sighting("b", Phase::ended);
  ended.exit_code = 3;
  (void)planned.listing_begins();
  EXPECT_EQ(planned.listed({ended}),
            "start b#2 | b retrying (replaced by what the file says now), a stopped (removed from the file), "
            "b starting");
}

TEST(GoingOn, WhatIsReplacedWaitsForWhatItDependsOnNow) {
  for (const bool succeeds : {true, false}) {
    Planned planned("a b<-a:succeeded", {.past = {{}, leaving(Leaving::replaced)}});
    EXPECT_EQ(planned.begin(), "stop b | ");
    EXPECT_EQ(planned.listed({planned.sighting("b", Phase::running)}), "start a | a starting");
    (void)planned.started("a");
    if (!succeeds) (void)planned.ended("a", 1);
    EXPECT_EQ(planned.ended("b", 143), succeeds ? " | b retrying (replaced by what the file says now)"
                                                : " | b retrying (replaced by what the file says now), "
                                                  "b blocked (depends on `a`, which did not succeed)");
    if (succeeds) {
      EXPECT_EQ(planned.ended("a", 0), "start b#2 | a succeeded, b starting");
    }
  }
}

TEST(GoingOn, WhatLeavesAndCannotBeStoppedIsNotStartedAnew) {
  Planned planned("a", {.past = {leaving(Leaving::replaced)}});
  (void)planned.begin();
  (void)planned.listed({planned.sighting("a", Phase::running)});
  EXPECT_EQ(planned.not_stopped("a", 1),
            " | a failed (replaced by what the file says now, and could not be stopped: no)");
}

TEST(GoingOn, TheCanaryThatIsReplacedLeavesItToTheNext) {
  Experiment experiment = test::experiment("a b");
  experiment.canary = true;
  Planned planned(std::move(experiment), {.past = {leaving(Leaving::replaced), {}}});
  (void)planned.begin();
  EXPECT_EQ(planned.listed({planned.sighting("a", Phase::running)}), "start b | b starting");
  planned.started("b");
  EXPECT_EQ(planned.ended("a", 143), " | a retrying (replaced by what the file says now)");
  EXPECT_EQ(planned.ended("b", 0), "start a#2 | b succeeded, a starting");
}

TEST(GoingOn, AStartThatNobodyHasSeenIsMadeAgain) {
  const Past starting{.state = TrialState::starting};
  Planned planned("a b", {.past = {starting, starting}});
  (void)planned.begin();
  EXPECT_EQ(planned.listed({planned.sighting("b", Phase::running)}),
            "start a | b running, a ready, a starting");
}

TEST(GoingOn, WhatShallNotRunAnyMoreIsNotStartedAgain) {
  Experiment experiment = test::experiment("a");
  experiment.deadline = Seconds(10);
  Planned planned(std::move(experiment), {.past = {{.state = TrialState::starting}},
                                          .began_at = Instant{} - std::chrono::seconds(11)});
  EXPECT_EQ(planned.begin(), " | ");
  EXPECT_EQ(planned.listed({}),
            " | a ready, a blocked (not started: the run's deadline of 10.0 s has passed)");
  EXPECT_TRUE(planned.done());
}

TEST(GoingOn, SpentRetriesStaySpent) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].retries.max = 2;
  experiment.trials[0].retries.on.set();
  Planned planned(std::move(experiment), {.past = {{.state = TrialState::running,
                                                    .attempt = 3,
                                                    .was_started = true,
                                                    .earlier = {Cause::error, Cause::error}}}});
  (void)planned.begin();
  Sighting ended = planned.sighting("a", Phase::ended, 3);
  ended.exit_code = 1;
  EXPECT_EQ(planned.listed({ended}), "collect a#3 | a failed (exit code 1, after 3 attempts)");
}

TEST(GoingOn, TimeLimitsCountFromTheFirstBeginning) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].timeout = Seconds(10);
  const Instant began{};
  Planned planned(std::move(experiment), {.past = {{.state = TrialState::running,
                                                    .was_started = true,
                                                    .ran_at = began - std::chrono::seconds(4)}}});
  (void)planned.begin();
  (void)planned.listed({planned.sighting("a", Phase::running)});
  EXPECT_EQ(planned.pass(5), " | ");
  EXPECT_EQ(planned.pass(2), "stop a | a running (timeout)");
}

TEST(StartDeadline, StopsWhatDoesNotRunInTime) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].start_deadline = Seconds(10);
  Planned it(experiment);
  (void)it.begin();
  EXPECT_EQ(it.pass(10), " | a starting (start_deadline)")
      << "the engine has not answered: there may be nothing to stop yet";
  EXPECT_EQ(it.accepted("a"), "stop a | ");
  EXPECT_EQ(it.stopped("a"), " | a failed (did not run within its start_deadline of 10.0 s)");
  EXPECT_TRUE(it.done());
}

TEST(StartDeadline, IsOverWhenItRuns) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].start_deadline = Seconds(10);
  Planned it(experiment);
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.pass(20), " | ");
}

TEST(Deadline, StopsAllAndStartsNothingMore) {
  Experiment experiment = test::experiment("a b<-a:succeeded !s");
  experiment.deadline = Seconds(3600);
  Planned it(experiment, k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("s");
  EXPECT_EQ(it.pass(3600),
            "stop a, stop s | b blocked (not started: the run's deadline of 1h00m has passed), a running "
            "(stopped)");
  (void)it.stopped("a");
  EXPECT_EQ(it.ended("a", 143), "collect a | a stopped (stopped: the run's deadline of 1h00m has passed)");
  (void)it.collected("a");
  (void)it.stopped("s");
  EXPECT_EQ(it.ended("s", 143), " | s stopped");
  EXPECT_TRUE(it.done());
}

TEST(MaxFailures, NothingStartsAfterThem) {
  Experiment experiment = test::experiment("a b c d<-c:finished");
  experiment.failures_max = 2;
  experiment.parallel_max = 2;
  Planned it(experiment, k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  EXPECT_EQ(it.ended("a", 1), "collect a, start c | a failed (exit code 1), c starting");
  EXPECT_EQ(
      it.ended("b", 1),
      "collect b | b failed (exit code 1), d blocked (not started: 2 trials have failed, as many as may "
      "(max_failures))");
  EXPECT_EQ(it.started("c"), " | c running") << "what has been started goes on";
  EXPECT_EQ(it.ended("c", 0), " | c succeeded");
}

Experiment with_canary(const std::string& text) {
  Experiment experiment = test::experiment(text);
  experiment.canary = true;
  for (Trial& trial : experiment.trials) trial.cmd = {"solve", "--id=" + trial.name};
  return experiment;
}

TEST(Canary, TheOthersOfItsShapeWaitForItsSuccess) {
  Planned it(with_canary("a b c"));
  EXPECT_EQ(it.begin(), "start a | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "start b, start c | a succeeded, b starting, c starting");
}

TEST(Canary, ItsFailureBlocksThem) {
  Planned it(with_canary("a b c<-b:succeeded"));
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 1),
            "collect a | a failed (exit code 1), b blocked (`a`, the canary of its shape, failed), c blocked "
            "(depends on `b`, which is blocked by `a`)");
}

TEST(Canary, EachShapeHasItsOwn) {
  Experiment experiment = with_canary("a b c d");
  experiment.trials[2].cmd = {"solve", "--file=x"};
  experiment.trials[3].image = "other";
  Planned it(experiment);
  EXPECT_EQ(it.begin(), "start a, start c, start d | a starting, c starting, d starting");
}

TEST(Canary, IsTheFirstByPriorityAndOrder) {
  Experiment experiment = with_canary("a b c d<-a:succeeded");
  experiment.trials[2].priority = 1;
  Planned it(experiment);
  EXPECT_EQ(it.begin(), "start c | c starting");
  EXPECT_EQ(it.state("a"), TrialState::waiting);
  (void)it.started("c");
  EXPECT_EQ(it.ended("c", 0), "start a, start b | c succeeded, a starting, b starting");
}

TEST(Canary, OneThatComesBeforeTheFirstHasStartedIsIt) {
  Experiment experiment = with_canary("a b c");
  experiment.trials[0].image = "other";
  experiment.trials[2].priority = 1;
  experiment.trials[2].depends = {{.trial = "a", .condition = Condition::started}};
  experiment.parallel_max = 1;
  Planned it(experiment);
  (void)it.begin();
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_EQ(it.ended("a", 0), "start c | a succeeded, c starting");
}

TEST(Canary, WhatAnEditHasEndedSaysNothingOfItsShape) {
  Planned it(with_canary("a b c"), {.past = {{.state = TrialState::stopped, .was_started = true}, {}, {}}});
  (void)it.begin();
  EXPECT_EQ(it.listed({}), "start b | b starting");
}

TEST(Canary, WhatIsBlockedSaysNothingOfItsShape) {
  Planned it(with_canary("a b c"), {.past = {{.state = TrialState::blocked}, {}, {}}});
  (void)it.begin();
  EXPECT_EQ(it.listed({}), "start b | b starting");
}

TEST(Canary, IsTriedAgainLikeAnyTrial) {
  Experiment experiment = with_canary("a b");
  experiment.trials[0].retries.max = 1;
  experiment.trials[0].retries.on.set();
  Planned it(experiment);
  (void)it.begin();
  (void)it.started("a");
  (void)it.ended("a", 1);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), "start b | a succeeded, b starting");
}

// ---- what a reader found

TEST(Retries, MemoryDoesNotGrowIntoWhatServicesHold) {
  Experiment experiment = with_retries("!db a", {.max = 1, .grow_memory = 2});
  experiment.trials[0].slots.memory = Bytes{1000};
  experiment.trials[1].slots.memory = Bytes{10000};
  Planned it(experiment, {.capacity = Slots{.cpus = {}, .memory = Bytes{16000}}});
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.out_of_memory("a");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  EXPECT_EQ(it.held().memory, Bytes{16000});
}

TEST(Retries, ALateAnswerOfAnEarlierStopChangesNothing) {
  Experiment experiment = with_retries("a", {.max = 1});
  experiment.trials[0].timeout = Seconds(60);
  Planned it(experiment);
  (void)it.begin();
  (void)it.started("a");
  EXPECT_EQ(it.pass(60), "stop a | a running (timeout)");
  (void)it.ended("a", 143);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.not_stopped("a", 1), " | ");
  EXPECT_EQ(it.state("a"), TrialState::running);
}

TEST(Timeout, IsEnforcedWhenTheStartsAnswerWasLost) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].timeout = Seconds(60);
  Planned it(experiment);
  (void)it.begin();
  EXPECT_EQ(it.running("a"), " | a running");
  EXPECT_EQ(it.pass(60), " | a running (timeout)");
  EXPECT_EQ(it.not_started("a"), "stop a | ");
}

TEST(StartDeadline, IsWaitedForAlsoWhenNobodyWaits) {
  Experiment experiment = test::experiment("a");
  experiment.trials[0].start_deadline = Seconds(10);
  Planned it(experiment);
  (void)it.begin();
  (void)it.pass(10);
  EXPECT_EQ(it.started("a"), "stop a | a running");
  (void)it.stopped("a");
  EXPECT_FALSE(it.done()) << "its end is not told yet";
  EXPECT_EQ(it.ended("a", 143), "collect a | a failed (did not run within its start_deadline of 10.0 s)");
}

TEST(Planner, WhatOnlyServesOthersIsWaitedForWhenItMayBeTriedAgain) {
  Experiment experiment = test::experiment("a b<-a");
  experiment.trials[0].retries.max = 1;
  experiment.trials[0].retries.on.set();
  Planned it(experiment, k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  (void)it.ended("b", 0);
  EXPECT_FALSE(it.done());
}

TEST(Planner, AServiceThatWaitsForItsNextAttemptIsNotTriedAgainWhenTheWorkIsDone) {
  Experiment experiment = test::experiment("!db a<-db");
  experiment.trials[0].retries.max = 1;
  experiment.trials[0].retries.on.set();
  Planned it(experiment, k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("a");
  (void)it.ended("db", 1);
  (void)it.collected("db");
  EXPECT_EQ(it.ended("a", 0), " | a succeeded, db stopped (exit code 1; not tried again: its work was done)");
  EXPECT_TRUE(it.done());
}

TEST(Planner, StartsThatAreInFlightAreStartsToComeAfterAnInterruptToo) {
  Planned it("a b", {.starts_in_flight_max = 1});
  (void)it.begin();
  (void)it.interrupt();
  EXPECT_TRUE(it.may_start_more());
  (void)it.started("a");
  EXPECT_FALSE(it.may_start_more());
}

TEST(Canary, WhatServesOthersIsNone) {
  Planned it(with_canary("server client<-server"));
  EXPECT_EQ(it.begin(), "start server | server starting");
  EXPECT_EQ(it.started("server"), "start client | server running, client starting");
}

// ---- Changes while it goes on

TEST(Planner, PausedStartsNothingAndLetsTheRestGoOn) {
  Planned it("a b<-a c<-b:succeeded", k_wait);
  (void)it.begin();
  EXPECT_EQ(it.pause(), " | ");
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_EQ(it.state("b"), TrialState::ready);
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
  EXPECT_TRUE(it.settings().paused);
  EXPECT_EQ(it.resume(), "start b | b starting");
  EXPECT_FALSE(it.settings().paused);
}

TEST(Planner, PausedIsNotDoneWhileSomethingWaits) {
  Planned it("a b<-a");
  (void)it.begin();
  (void)it.pause();
  (void)it.started("a");
  (void)it.ended("a", 0);
  EXPECT_FALSE(it.done());
  EXPECT_TRUE(it.may_start_more());
  (void)it.resume();
  (void)it.started("b");
  EXPECT_TRUE(it.done());
}

TEST(Planner, PausedBeforeItBegins) {
  Planned it("a b");
  EXPECT_EQ(it.pause(), " | ");
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.resume(), "start a, start b | a starting, b starting");
}

TEST(Planner, PausedAndInterruptedIsDone) {
  Planned it("a b");
  (void)it.pause();
  (void)it.begin();
  (void)it.interrupt();
  EXPECT_TRUE(it.done());
}

TEST(Planner, ARetryWaitsForAPausedRun) {
  Planned it(with_retries("a", {.max = 1}), k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.pause();
  (void)it.ended("a", 3);
  (void)it.collected("a");
  EXPECT_EQ(it.pass(3600), " | a ready");
  EXPECT_EQ(it.state("a"), TrialState::ready);
  EXPECT_EQ(it.resume(), "start a#2 | a starting");
}

TEST(Planner, ADeadlinePassesWhilePaused) {
  Experiment experiment = test::experiment("a b<-a:succeeded");
  experiment.deadline = Seconds(60);
  Planned it(std::move(experiment), k_wait);
  (void)it.begin();
  (void)it.started("a");
  (void)it.pause();
  EXPECT_EQ(it.pass(60),
            "stop a | b blocked (not started: the run's deadline of 1m00s has passed), a running (stopped)");
}

TEST(Planner, ParallelIsRaisedLoweredAndLifted) {
  Experiment experiment = test::experiment("a b c d e f");
  experiment.parallel_max = 2;
  Planned it(std::move(experiment), k_wait);
  EXPECT_EQ(it.begin(), "start a, start b | a starting, b starting");
  EXPECT_EQ(it.adjust({.parallel_max = 3}), "start c | c starting");
  (void)it.started("a");
  (void)it.started("b");
  (void)it.started("c");
  // What is alive beyond the limit lives on.
  EXPECT_EQ(it.adjust({.parallel_max = 1}), " | ");
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
  EXPECT_EQ(it.ended("b", 0), " | b succeeded");
  EXPECT_EQ(it.ended("c", 0), "start d | c succeeded, d starting");
  EXPECT_EQ(it.adjust({.parallel_max = 0}), "start e, start f | e starting, f starting");
}

TEST(Planner, StartsInFlightAreRaisedAndLowered) {
  Planned it("a b c d", {.starts_in_flight_max = 1});
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.adjust({.starts_in_flight_max = 3}), "start b, start c | b starting, c starting");
  EXPECT_EQ(it.adjust({.starts_in_flight_max = 1}), " | ");
  EXPECT_EQ(it.started("a"), " | a running");
  EXPECT_EQ(it.started("b"), " | b running");
  EXPECT_EQ(it.started("c"), "start d | c running, d starting");
}

TEST(Planner, WhatIsNotNamedStaysAsItIs) {
  Planned it("a", {.starts_in_flight_max = 5});
  (void)it.adjust({.parallel_max = 7});
  (void)it.pause();
  (void)it.adjust({});
  EXPECT_EQ(it.settings().parallel_max, 7U);
  EXPECT_EQ(it.settings().starts_in_flight_max, 5U);
  EXPECT_TRUE(it.settings().paused);
}

// ---- What comes together

TEST(Interrupted, WhatFailsThenIsTriedAgainByTheNextProcess) {
  Planned it(with_retries("a b<-a:succeeded", {.max = 2}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.interrupt();
  EXPECT_EQ(it.ended("a", 3), "collect a | a retrying (exit code 3; attempt 2 in 1.0 s)");
  (void)it.collected("a");
  EXPECT_EQ(it.pass(60), " | ");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("b"), TrialState::waiting);
}

TEST(MaxFailures, WhatWaitsForItsRetryHasFailedOfItsOwn) {
  Experiment experiment = with_retries("a b", {.max = 2, .pause = Seconds(20)});
  experiment.trials[1].retries = {};
  experiment.failures_max = 1;
  Planned it(std::move(experiment));
  (void)it.begin();
  (void)it.started("a");
  (void)it.started("b");
  (void)it.ended("a", 7);
  (void)it.collected("a");
  EXPECT_EQ(
      it.ended("b", 3),
      "collect b | b failed (exit code 3), a failed (exit code 7; not tried again: 1 trial has failed, as "
      "many as may (max_failures))");
}

TEST(Canary, ThatWasLostOrStoppedLeavesItToTheNext) {
  for (const bool was_away : {true, false}) {
    Experiment experiment = test::experiment("a b c");
    experiment.canary = true;
    Planned it(std::move(experiment));
    it.begin();
    it.started("a");
    Sighting seen = it.sighting("a", Phase::ended);
    seen.exit_code = 137;
    seen.stopped = true;
    if (was_away) it.listing_begins_after_a_break();
    const std::string text = was_away ? it.listed_after_a_break({seen}) : it.seen(seen);
    EXPECT_THAT(text, testing::HasSubstr(was_away ? "start b | a failed" : "start b | a stopped"));
    EXPECT_THAT(text, testing::HasSubstr("b starting"));
    EXPECT_EQ(it.state("c"), TrialState::waiting);
  }
}

TEST(Canary, ThatFailedOnceIsNoReasonAgainstWhatIsTriedAgain) {
  Experiment experiment = test::experiment("a b c");
  experiment.canary = true;
  PlannerOptions options;
  options.past = {{.state = TrialState::failed, .cause = Cause::error, .exit_code = 1, .was_started = true},
                  {.state = TrialState::waiting},
                  {.state = TrialState::waiting}};
  Planned it(std::move(experiment), options);
  (void)it.begin();
  EXPECT_EQ(it.listed({}), "start b | b starting") << "the canary of those that are left";
}

TEST(Canary, ThatRanAlreadyIsOneForTheNextProcess) {
  Experiment experiment = test::experiment("a b c");
  experiment.canary = true;
  PlannerOptions options;
  options.past = {{.state = TrialState::waiting},
                  {.state = TrialState::running, .was_started = true},
                  {.state = TrialState::waiting}};
  Planned it(std::move(experiment), options);
  (void)it.begin();
  EXPECT_EQ(it.listed({it.sighting("b", Phase::running)}), " | ");
  EXPECT_EQ(it.ended("b", 0), "start a, start c | b succeeded, a starting, c starting");
}

// Why it was being stopped is on record before it is.
TEST(Retries, ATimeoutThatNobodyLivedToTellIsOne) {
  for (const Cause doom : {Cause::timeout, Cause::none}) {
    Experiment experiment = with_retries("a", {.max = 1});
    experiment.trials[0].timeout = Seconds(5);
    PlannerOptions options;
    options.past = {{.state = TrialState::running, .was_started = true, .ran_at = Instant{}, .doom = doom}};
    Planned it(std::move(experiment), options);
    (void)it.begin();
    Sighting seen = it.sighting("a", Phase::ended);
    seen.exit_code = 0;
    seen.stopped = doom != Cause::none;
    seen.ran_at = Instant{};
    seen.ended_at = Instant{} + std::chrono::seconds(6);
    EXPECT_EQ(it.listed({seen}),
              doom == Cause::none
                  ? " | a succeeded"
                  : "collect a | a retrying (took longer than its timeout of 5.0 s; attempt 2 in 1.0 s)");
  }
}

TEST(Timeout, WhatHadEndedInTimeIsHeardOfLate) {
  const auto at = [](double seconds) {
    return Instant{} + std::chrono::duration_cast<Instant::duration>(Seconds(seconds));
  };
  for (const double lasted : {3.0, 6.0}) {
    Experiment experiment = test::experiment("a");
    experiment.trials[0].timeout = Seconds(5);
    Planned it(std::move(experiment));
    it.begin();
    it.started("a");
    EXPECT_EQ(it.pass(20), "stop a | a running (timeout)");
    Sighting seen = it.sighting("a", Phase::ended);
    seen.exit_code = 0;
    seen.ended_at.reset();
    EXPECT_EQ(it.seen(seen), "look at a | ");
    EXPECT_EQ(it.seen(seen), " | ") << "that is being asked already";
    EXPECT_FALSE(it.done());
    seen.ran_at = at(0.5);
    seen.ended_at = at(0.5 + lasted);
    EXPECT_EQ(it.looked(seen),
              lasted < 5 ? " | a succeeded" : "collect a | a failed (took longer than its timeout of 5.0 s)");
  }
}

TEST(Timeout, WhatWasLostWithItsHostHasNoTimeOfItsOwn) {
  Experiment experiment = with_retries("a", {.max = 1});
  experiment.trials[0].timeout = Seconds(5);
  Planned it(std::move(experiment));
  it.begin();
  it.started("a");
  EXPECT_EQ(it.pass(20), "stop a | a running (timeout)");
  it.listing_begins_after_a_break();
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 255;
  EXPECT_EQ(it.listed_after_a_break({seen}),
            "collect a | a retrying (lost with its host or engine (exit code 255); attempt 2 in 0 ms)");
}

TEST(Deadline, WhatHadEndedBeforeIsHeardOfLate) {
  Experiment experiment = test::experiment("a");
  experiment.deadline = Seconds(60);
  Planned it(std::move(experiment));
  it.begin();
  it.started("a");
  EXPECT_EQ(it.pass(70), "stop a | a running (stopped)");
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 0;
  seen.ended_at = Instant{} + std::chrono::seconds(59);
  EXPECT_EQ(it.seen(seen), " | a succeeded");
}

TEST(GoingOn, WhatAListingTellsWasWhenTheEngineSays) {
  const Experiment experiment = test::experiment("a b");
  const Plan plan = test::plan(experiment);
  Planner planner(RunId("run"), experiment, plan, {});
  const auto at = [](int seconds) { return Instant{} + std::chrono::seconds(seconds); };
  (void)planner.step(Begin{}, at(1));
  const Sighting a{.key = {.run = RunId("run"), .trial = "a"}, .phase = Phase::running, .ran_at = at(3)};
  EXPECT_EQ(planner.step(StartAnswered{.trial = 0, .seen = a}, at(5)).facts.at(0).at, at(3));
  Sighting over = a;
  over.phase = Phase::ended;
  over.exit_code = 0;
  over.ended_at = at(4);
  (void)planner.step(ListingBegins{}, at(20));
  EXPECT_EQ(planner.step(Listed{{over}}, at(20)).facts.at(0).at, at(4));
  // Another clock: neither before what was told of it, nor in the future.
  Sighting b{.key = {.run = RunId("run"), .trial = "b"}, .phase = Phase::running, .ran_at = at(0)};
  EXPECT_EQ(planner.step(StartAnswered{.trial = 1, .seen = b}, at(21)).facts.at(0).at, at(1));
  b.phase = Phase::ended;
  b.exit_code = 0;
  b.ended_at = at(100);
  EXPECT_EQ(planner.step(Seen{b}, at(22)).facts.at(0).at, at(22));
}

TEST(Retries, StoppedAfterAProcessInItWasOutOfMemoryIsStopped) {
  Planned it(with_retries("a", {.max = 1}));
  (void)it.begin();
  (void)it.started("a");
  (void)it.adjust({.stopping = {"a"}, .stopper = "alice"});
  Sighting seen = it.sighting("a", Phase::ended);
  seen.exit_code = 143;
  seen.oom = true;
  seen.stopped = true;
  EXPECT_EQ(it.seen(seen), "collect a | a stopped (stopped by alice with `combu stop`)");
}

TEST(Planner, WhatServesOnlyThatWhichIsLeftIsLeftWithIt) {
  Planned it("!db cache<-db work<-cache", k_wait);
  (void)it.begin();
  (void)it.started("db");
  (void)it.started("cache");
  (void)it.started("work");
  EXPECT_EQ(it.ended("work", 0), " | work succeeded");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("db"), TrialState::running);
  EXPECT_EQ(it.state("cache"), TrialState::running);
}

// Trials with CPUs: "a=2 b=1".
Experiment with_cpus(const std::string& text, const std::map<std::string, std::string>& cpus) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials)
    if (const auto wanted = cpus.find(trial.name); wanted != cpus.end())
      trial.slots.cpus = parse_cpus(wanted->second);
  return experiment;
}

TEST(Slots, WhatIsKeptUpByOneThatMayStayForEverKeepsNobodyBack) {
  std::string text = "cache large use<-cache";
  std::map<std::string, std::string> cpus{{"cache", "0.5"}, {"large", "2"}};
  for (int i = 0; i < 40; ++i) {
    text += " s" + std::to_string(i);
    cpus["s" + std::to_string(i)] = "1";
  }
  Planned it(with_cpus(text, cpus), {.until = Until::ended, .capacity = Planned::cpus("2")});
  (void)it.begin();
  (void)it.started("cache");
  int ran = 0;
  for (int i = 0; i < 40 && it.state("s" + std::to_string(i)) == TrialState::starting; ++i, ++ran) {
    (void)it.started("s" + std::to_string(i));
    (void)it.ended("s" + std::to_string(i), 0);
  }
  EXPECT_EQ(ran, 40) << "`large` could never have the CPUs that `cache` holds";
}

TEST(Slots, EachThatWaitsIsOvertakenOnlySoOften) {
  std::string text = "gpu0 gpu1 large";
  std::map<std::string, std::string> cpus{{"large", "2"}};
  for (int i = 0; i < 90; ++i) {
    text += " s" + std::to_string(i);
    cpus["s" + std::to_string(i)] = "1";
  }
  Experiment experiment = with_cpus(text, cpus);
  experiment.trials[0].gpus = GpuWish{.count = 1};
  experiment.trials[1].gpus = GpuWish{.count = 1};
  PlannerOptions options{.until = Until::ended, .capacity = Planned::cpus("2")};
  options.gpus = {{.id = "0", .uuid = {}, .kind = {}, .memory = {}}};
  options.capacity->gpus = {"0"};
  Planned it(std::move(experiment), options);
  // `gpu1` heads the line all the time, and waits for something else.
  (void)it.begin();
  (void)it.started("gpu0");
  int overtook = 0;
  for (int i = 0; i < 90 && it.state("large") == TrialState::ready; ++i) {
    const std::string name = "s" + std::to_string(i);
    if (it.state(name) != TrialState::starting) break;
    (void)it.started(name);
    (void)it.ended(name, 0);
    ++overtook;
  }
  EXPECT_EQ(it.state("large"), TrialState::starting);
  EXPECT_LE(overtook, 34);
}

TEST(Slots, WhoLosesThemToOneThatIsKnownWaitsForAMoment) {
  Planned it(with_cpus("a", {{"a", "1"}}), {.capacity = Planned::cpus("2")});
  (void)it.begin();
  Sighting rival{.key = {.run = RunId("other"), .trial = "r"},
                 .experiment = "other",
                 .id = "r1",
                 .phase = Phase::created,
                 .slots = Planned::cpus("1")};
  EXPECT_EQ(it.lost_to("a", rival), "start a | a ready, a starting") << "one of two CPUs is free";
  EXPECT_EQ(it.lost_to("a", rival), " | a ready") << "nothing has been learnt";
  EXPECT_EQ(it.pass(1.1), "start a | a starting");
}

TEST(Slots, ServicesLeaveRoomForThoseThatTheyServe) {
  Planned it(with_cpus("!d1 !d2 s1<-d1 s2<-d2", {{"d1", "1"}, {"d2", "1"}, {"s1", "1"}, {"s2", "1"}}),
             {.until = Until::ended, .capacity = Planned::cpus("2")});
  EXPECT_EQ(it.begin(), "start d1 | d1 starting");
  EXPECT_EQ(it.started("d1"), "start s1 | d1 running, s1 starting");
  EXPECT_EQ(it.started("s1"), " | s1 running");
  EXPECT_EQ(it.ended("s1", 0), "stop d1 | s1 succeeded");
  EXPECT_EQ(it.ended("d1", 143), "start d2 | d1 stopped, d2 starting");
  EXPECT_EQ(it.started("d2"), "start s2 | d2 running, s2 starting");
}

TEST(Slots, ServicesThatStandInAChainStart) {
  Planned it(with_cpus("!a !b<-a w<-b", {{"a", "1"}, {"b", "1"}, {"w", "1"}}),
             {.until = Until::ended, .capacity = Planned::cpus("3")});
  EXPECT_EQ(it.begin(), "start a | a starting");
  EXPECT_EQ(it.started("a"), "start b | a running, b starting");
  EXPECT_EQ(it.started("b"), "start w | b running, w starting");
}

TEST(StartDeadline, AStartThatIsNotAnsweredIsGivenUp) {
  Experiment experiment = test::experiment("a b");
  experiment.trials[0].start_deadline = Seconds(3);
  experiment.parallel_max = 1;
  Planned it(std::move(experiment));
  (void)it.begin();
  EXPECT_EQ(it.pass(4), " | a starting (start_deadline)");
  EXPECT_EQ(it.pass(15), "give up a | ");
  EXPECT_EQ(it.not_started("a"),
            "stop a, start b | a failed (did not run within its start_deadline of 3.0 s), b starting");
  (void)it.stopped("a");
  EXPECT_EQ(it.state("a"), TrialState::failed);
}

TEST(CheckSlots, CountsAllThatRunsBesideATrial) {
  const auto refusal = [](const Experiment& experiment, std::vector<Gpu> gpus = {}) {
    Slots capacity = Planned::cpus("2");
    for (const Gpu& gpu : gpus) capacity.gpus.push_back(gpu.id);
    const std::vector<Error> errors = check_slots(experiment, capacity, gpus);
    return errors.empty() ? std::string() : std::string(errors.front().what());
  };
  EXPECT_THAT(refusal(with_cpus("!a !b<-a w<-b", {{"a", "1"}, {"b", "1"}, {"w", "1"}})),
              testing::HasSubstr("w: wants 3 CPUs together with `b`, `a`, which run beside it"));
  EXPECT_THAT(refusal(with_cpus("!board w", {{"board", "2"}, {"w", "1"}})),
              testing::HasSubstr("w: wants 3 CPUs together with `board`, which runs beside it"));
  EXPECT_EQ(refusal(with_cpus("!board w", {{"board", "1"}, {"w", "1"}})), "");
  Experiment experiment = test::experiment("!s w<-s");
  for (Trial& trial : experiment.trials) {
    trial.gpus = GpuWish{.count = 1, .ids = {"0"}};
  }
  const Gpu zero{.id = "0", .uuid = {}, .kind = {}, .memory = {}};
  const Gpu one{.id = "1", .uuid = {}, .kind = {}, .memory = {}};
  EXPECT_THAT(refusal(experiment, {zero, one}), testing::HasSubstr("2 GPUs together with `s`"));
}

// ---- room for those that services serve

PlannerOptions waiting_with_cpus(const char* cpus) {
  return {.starts_in_flight_max = 100, .until = Until::ended, .capacity = Planned::cpus(cpus)};
}

TEST(ServiceRoom, IsKeptWhileTheFirstServiceIsNotHealthyYet) {
  Planned it("!d1=2 !d2=2 !d3=2 s1=2<-d1:healthy s2=2<-d2:healthy s3=2<-d3:healthy", waiting_with_cpus("6"));
  EXPECT_EQ(it.begin(), "start d1, start d2 | d1 starting, d2 starting");
  EXPECT_EQ(it.started("d1"), " | d1 running");
  EXPECT_EQ(it.started("d2"), " | d2 running") << "with d3 nothing would be left";
  EXPECT_EQ(it.health("d1", Health::healthy), "start s1 | d1 healthy, s1 starting");
  EXPECT_EQ(it.health("d2", Health::healthy), " | d2 healthy");
  EXPECT_EQ(it.ended("s1", 0), "stop d1, start s2 | s1 running, s1 succeeded, s2 starting");
  EXPECT_EQ(it.ended("d1", 143), "start d3 | d1 stopped, d3 starting");
}

TEST(ServiceRoom, IsKeptBesideWhatOthersHold) {
  Planned it("!d1=0.5 !d2=0.5 !d3=0.5 s1=1<-d1 s2=1<-d2 s3=1<-d3", waiting_with_cpus("2"));
  Sighting other = it.sighting("d1", Phase::running);
  other.key.run = RunId("other");
  other.id = "x";
  other.slots = Planned::cpus("0.5");
  (void)it.seen(other);
  EXPECT_EQ(it.begin(), "start d1 | d1 starting");
  EXPECT_EQ(it.started("d1"), "start s1 | d1 running, s1 starting");
  EXPECT_EQ(it.started("s1"), " | s1 running");
  other.phase = Phase::ended;
  EXPECT_EQ(it.seen(other), "start d2 | d2 starting");
  other.phase = Phase::running;
  other.id = "y";
  other.slots = Planned::cpus("1.5");
  EXPECT_EQ(it.ended("s1", 0), "stop d1 | s1 succeeded");
  EXPECT_EQ(it.started("d2"), "start s2 | d2 running, s2 starting");
}

TEST(ServiceRoom, AServiceWaitsUntilThoseThatItServesFitBesideOtherRuns) {
  Planned it("!d=1 s=1<-d:healthy", waiting_with_cpus("3"));
  (void)it.other("x", Phase::running);
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.other("x", Phase::ended), "start d | d starting");
}

TEST(ServiceRoom, AServiceThatIsHeldBackHoldsUpNobody) {
  Planned it("long=2 !d1=1 !d2=1 !d3=1 a=7<-d1 b=7<-d2 c=1<-d3 e=1", waiting_with_cpus("8"));
  EXPECT_EQ(it.begin(),
            "start long, start d1, start d3, start e | long starting, d1 starting, d3 starting, "
            "e starting");
  EXPECT_EQ(it.started("d3"), "start c | d3 running, c starting");
}

TEST(ServiceRoom, IsNotKeptForWhatIsNoService) {
  Planned it("prep=4^10 main=6^10<-prep a=1 b=1 c=1 d=1 e=1", waiting_with_cpus("8"));
  EXPECT_EQ(it.begin(),
            "start prep, start a, start b, start c, start d | prep starting, a starting, b starting, "
            "c starting, d starting");
}

// Three services, each needed with each other one: only two at a time fit, and those two are needed with the
// third.
TEST(ServiceRoom, WhatNoOrderWouldServeIsToldBefore) {
  const Experiment experiment = test::experiment("!x=1 !y=1 !z=1 a<-x,y b<-y,z c<-z,x");
  const auto errors = check_slots(experiment, Planned::cpus("2"), {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(),
               "b: wants 3 CPUs together with `x`, `y`, `z`, which run beside it, but the engine has 2 CPUs "
               "to give: others still need these when its turn comes, in whatever order");
  EXPECT_TRUE(check_slots(experiment, Planned::cpus("3"), {}).empty());
}

// With s beside t there is no room for x, which t serves, too; but t is stopped later.
TEST(ServiceRoom, ServicesAreSharedInTurn) {
  Planned it("!s=1 !t=1 !y=1 w=1<-s,t x=2<-t,y", waiting_with_cpus("4"));
  (void)it.begin();
  for (int round = 0; round < 3; ++round) {
    for (const char* name : {"s", "t", "y", "w", "x"})
      if (it.state(name) == TrialState::starting) (void)it.started(name);
    for (const char* name : {"w", "x"})
      if (it.state(name) == TrialState::running) (void)it.ended(name, 0);
    for (const char* name : {"s", "t", "y"})
      if (it.state(name) == TrialState::running) (void)it.ended(name, 143);
    if (it.done()) break;
  }
  EXPECT_EQ(it.state("w"), TrialState::succeeded);
  EXPECT_EQ(it.state("x"), TrialState::succeeded);
}

// Behind more wishes than are looked at, each of which waits for the service to end.
TEST(ServiceRoom, WhatAServiceServesStartsHoweverManyWaitBefore) {
  Experiment experiment = test::experiment("!d=1 s=1<-d");
  for (std::int64_t i = 0; i < 1500; ++i) {
    Trial large{.name = fmt::format("l{}", i), .image = "image", .priority = 1};
    large.slots = {.cpus = parse_cpus("2"), .memory = Bytes{i + 1}, .gpus = {}};
    experiment.trials.push_back(std::move(large));
  }
  PlannerOptions options = waiting_with_cpus("2");
  options.capacity->memory = Bytes{10000};
  options.past.resize(experiment.trials.size());
  options.past[0] = {.state = TrialState::running, .was_started = true};
  Planned it(std::move(experiment), options);
  (void)it.begin();
  EXPECT_EQ(it.listed({it.sighting("d", Phase::running)}), "start s | s starting");
}

TEST(ServiceRoom, WithoutAnybodyWhoStopsThemAllServicesMustFit) {
  const Experiment experiment = test::experiment("!d1=1 !d2=1 s1=1<-d1 s2=1<-d2");
  EXPECT_TRUE(check_slots(experiment, Planned::cpus("2"), {}, Until::ended).empty());
  const auto errors = check_slots(experiment, Planned::cpus("2"), {}, Until::started);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(),
               "s1: wants 3 CPUs together with `d1`, `d2`, which run beside it, but the engine has 2 CPUs to "
               "give: without `run --wait` no service is stopped when its work is done, and 1 more wants the "
               "same");
  EXPECT_TRUE(check_slots(experiment, Planned::cpus("3"), {}, Until::started).empty());
}

// ---- and of GPUs

PlannerOptions waiting_with_gpus() {
  PlannerOptions options = with_gpus();
  options.until = Until::ended;
  return options;
}

// "0" and "1" are T4, "2" is an H100.
Experiment with_wishes(const std::string& text, const std::map<std::string, GpuWish>& wishes) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials)
    if (const auto wish = wishes.find(trial.name); wish != wishes.end()) trial.gpus = wish->second;
  return experiment;
}

TEST(ServiceRoom, OfGpusIsKeptByTheirKind) {
  const GpuWish t4{.count = 1, .kind = "t4"};
  Planned it(with_wishes("!d1 !d2 s1<-d1 s2<-d2", {{"d1", t4}, {"d2", t4}, {"s1", t4}, {"s2", t4}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start d1 | d1 starting") << "the H100 is of no use to s1";
  EXPECT_EQ(it.started("d1"), "start s1 | d1 running, s1 starting");
}

TEST(ServiceRoom, AServiceLeavesTheGpuThatWhatItServesIsNamedFor) {
  Planned it(with_wishes("!d s<-d", {{"d", {.count = 1}}, {"s", {.count = 1, .ids = {"0"}}}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start d | d starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
}

TEST(ServiceRoom, AServiceThatStandsLeavesTheGpusOfAll) {
  Planned it(with_wishes("!monitor a b", {{"monitor", {.count = 1}},
                                          {"a", {.count = 1, .ids = {"0"}}},
                                          {"b", {.count = 1, .ids = {"1"}}}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start monitor, start a, start b | monitor starting, a starting, b starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("2", "0", "1"));
}

TEST(ServiceRoom, WhatIsNoServiceLeavesTheGpuOfThoseThatNeedItToo) {
  Planned it(with_wishes("loader s<-loader", {{"loader", {.count = 1}}, {"s", {.count = 1, .ids = {"0"}}}}),
             waiting_with_gpus());
  EXPECT_EQ(it.begin(), "start loader | loader starting");
  EXPECT_THAT(it.held().gpus, testing::ElementsAre("1"));
}

TEST(Gpus, WishesAreMatched) {
  const std::vector<Gpu> gpus = three_gpus();
  const std::vector<std::string> all{"0", "1", "2"};
  const GpuWish any{.count = 1};
  const GpuWish two{.count = 2, .kind = "t4"};
  const GpuWish first{.count = 1, .ids = {"0"}};
  const GpuWish large{.count = 1, .memory = parse_bytes("20g")};
  EXPECT_TRUE(schedule::can_match({&any, &two}, gpus, all)) << "any takes the H100";
  EXPECT_TRUE(schedule::can_match({&any, &any, &first}, gpus, all));
  EXPECT_FALSE(schedule::can_match({&first, &two}, gpus, all));
  EXPECT_FALSE(schedule::can_match({&large, &any}, gpus, {"0", "1"}));
  EXPECT_FALSE(schedule::can_match({&any, &any, &any, &any}, gpus, all));
  EXPECT_TRUE(schedule::can_match({}, gpus, {}));
}

TEST(CheckSlots, WhatFitsInSomeOrderOfGpusIsNotRefused) {
  const PlannerOptions options = with_gpus();
  const Experiment experiment =
      with_wishes("!d s<-d", {{"d", {.count = 1}}, {"s", {.count = 2, .kind = "t4"}}});
  EXPECT_TRUE(check_slots(experiment, *options.capacity, options.gpus).empty());
}

// ---- memory that grows beside services

Experiment growing(const std::string& text, const std::map<std::string, std::int64_t>& memory) {
  Experiment experiment = with_retries(text, {.max = 3, .pause = Seconds(0), .grow_memory = 2});
  for (Trial& trial : experiment.trials) trial.slots.memory = Bytes{memory.at(trial.name)};
  return experiment;
}

void run_out_of_memory(Planned& it, const std::string& name) {
  if (it.state(name) == TrialState::starting) (void)it.started(name);
  (void)it.out_of_memory(name);
  (void)it.collected(name);
  (void)it.pass(0);
}

TEST(Retries, MemoryGrowsAsFarAsItsOwnServicesLeaveSome) {
  // All three services together leave none.
  Planned it(growing("!d1 !d2 !d3 a<-d1 b<-d2 c<-d3",
                     {{"d1", 40}, {"d2", 40}, {"d3", 40}, {"a", 10}, {"b", 10}, {"c", 10}}),
             {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
  EXPECT_EQ(it.begin(), "start d1, start d2 | d1 starting, d2 starting");
  (void)it.started("d1");
  run_out_of_memory(it, "a");
  EXPECT_EQ(it.held().memory, Bytes{100}) << "40, 40 and 20";
}

// Each could have more when the other is over; the last to ask gets what there is, or both would wait.
TEST(Retries, TwoThatGrowDoNotWaitForEachOther) {
  Planned it(growing("!d1 !d2 a<-d1 b<-d2", {{"d1", 30}, {"d2", 30}, {"a", 25}, {"b", 15}}),
             {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{100}, .gpus = {}}});
  (void)it.begin();
  (void)it.started("d1");
  (void)it.started("d2");
  run_out_of_memory(it, "a");
  EXPECT_EQ(it.state("a"), TrialState::ready) << "50 are free when d2 is over";
  run_out_of_memory(it, "b");
  run_out_of_memory(it, "b");
  EXPECT_EQ(it.held().memory, Bytes{100}) << "40 and not 60 for b";
  (void)it.started("b");
  (void)it.ended("b", 0);
  (void)it.ended("d2", 143);
  EXPECT_EQ(it.held().memory, Bytes{80});
}

TEST(Retries, MemoryDoesNotGrowIntoWhatThoseHoldThatMayStay) {
  Planned it(growing("loader a<-loader", {{"loader", 10}, {"a", 80}}),
             {.until = Until::ended, .capacity = Slots{.cpus = {}, .memory = Bytes{160}, .gpus = {}}});
  (void)it.begin();
  (void)it.started("loader");
  run_out_of_memory(it, "a");
  EXPECT_EQ(it.held().memory, Bytes{160});
}

// ---- outputs

Experiment with_outputs(const std::string& text) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials)
    if (!trial.service) trial.outputs = {Output{.path = "/out"}};
  return experiment;
}

Experiment with_outputs_and_retries(const std::string& text, int retries) {
  Experiment experiment = with_retries(text, {.max = retries});
  for (Trial& trial : experiment.trials) trial.outputs = {Output{.path = "/out"}};
  return experiment;
}

TEST(Outputs, ATrialIsOverWhenTheyAreHome) {
  Planned it(with_outputs("a b<-a:succeeded"), {.until = Until::ended});
  it.begin();
  it.started("a");
  EXPECT_EQ(it.ended("a", 0), "take a | a collecting");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.collected("a"), "start b | a succeeded, b starting");
  it.started("b");
  it.ended("b", 0);
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.collected("b"), " | b succeeded");
  EXPECT_TRUE(it.done());
}

TEST(Outputs, SomebodyStaysForThem) {
  Planned it(with_outputs("a"));
  it.begin();
  it.started("a");
  EXPECT_FALSE(it.done()) << "though nobody waits for its end";
  it.ended("a", 0);
  EXPECT_FALSE(it.done());
  it.collected("a");
  EXPECT_TRUE(it.done());
}

TEST(Outputs, SlotsAreFreeWhileTheyAreTaken) {
  Experiment experiment = with_outputs("a=2 b=2");
  Planned it(experiment, {.capacity = Slots{.cpus = parse_cpus("2"), .memory = {}, .gpus = {}}});
  EXPECT_EQ(it.begin(), "start a | a starting");
  it.started("a");
  EXPECT_EQ(it.ended("a", 0), "take a, start b | a collecting, b starting");
}

TEST(Outputs, WhatATrialHasNotLeftIsItsFailure) {
  Planned it(with_outputs("a b<-a:succeeded"));
  it.begin();
  it.started("a");
  it.ended("a", 0);
  EXPECT_EQ(it.not_left("a"),
            " | a failed (/out: nothing there), b blocked (depends on `a`, which did not succeed)");
  EXPECT_TRUE(it.done());
}

TEST(Outputs, WhatATrialHasNotLeftIsTriedAgain) {
  Planned it(with_outputs_and_retries("a", 1));
  it.begin();
  it.started("a");
  it.ended("a", 0);
  EXPECT_EQ(it.not_left("a"), " | a retrying (/out: nothing there; attempt 2 in 1.0 s)");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
}

TEST(Outputs, AFailedAttemptLeavesWhatItHas) {
  Planned it(with_outputs_and_retries("a", 1));
  it.begin();
  it.started("a");
  EXPECT_EQ(it.ended("a", 3), "take a | a collecting (exit code 3)");
  EXPECT_EQ(it.pass(100), " | ") << "the next attempt would take its place";
  EXPECT_EQ(it.collected("a"), " | a retrying (exit code 3; attempt 2 in 1.0 s)");
  EXPECT_EQ(it.pass(1), "start a#2 | a starting");
  it.started("a");
  it.ended("a", 3);
  EXPECT_EQ(it.not_left("a"), " | a failed (exit code 3; outputs: /out: nothing there, after 2 attempts)");
}

TEST(Outputs, OnlyOfWhatHasSucceeded) {
  Experiment experiment = with_outputs("a b");
  experiment.collect.on = CollectOn::success;
  Planned it(experiment);
  it.begin();
  it.started("a");
  it.started("b");
  EXPECT_EQ(it.ended("a", 3), "collect a | a failed (exit code 3)") << "the end of its log";
  EXPECT_EQ(it.ended("b", 0), "take b | b collecting");
}

TEST(Outputs, AFullDiskIsNotTheTrialsFault) {
  Planned it(with_outputs("a b<-a:succeeded"), {.until = Until::ended});
  it.begin();
  it.started("a");
  it.ended("a", 0);
  EXPECT_EQ(it.not_taken("a"), " | a collecting (its outputs are not home: disk full)");
  EXPECT_EQ(it.pass(1), "take a | ");
  EXPECT_EQ(it.not_taken("a"), " | ") << "told once";
  EXPECT_EQ(it.pass(1), " | ") << "the pause grows";
  EXPECT_EQ(it.pass(1), "take a | ");
  EXPECT_EQ(it.undelivered(), "a: disk full");
  EXPECT_EQ(it.collected("a"), "start b | a succeeded, b starting");
  EXPECT_EQ(it.undelivered(), "");
}

// For ten minutes, and then for a later process.
TEST(Outputs, NobodyStaysForEverForADiskThatIsFull) {
  Planned it(with_outputs("a b<-a:succeeded c"), {.until = Until::ended});
  it.begin();
  it.started("a");
  it.started("c");
  it.ended("a", 0);
  it.not_taken("a");
  for (int minutes = 0; minutes < 100; ++minutes) {
    EXPECT_EQ(it.pass(60), "take a | ");
    it.not_taken("a");
    ASSERT_FALSE(it.done()) << "c runs still";
  }
  it.ended("c", 0);
  it.collected("c");
  EXPECT_FALSE(it.done()) << "it is tried once more";
  EXPECT_EQ(it.pass(60), "take a | ");
  it.not_taken("a");
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("a"), TrialState::collecting);
  EXPECT_EQ(it.state("b"), TrialState::waiting);
}

TEST(Outputs, AServiceLeavesItsOwnWhenItIsStopped) {
  Experiment experiment = test::experiment("!s a<-s");
  experiment.trials[0].outputs = {Output{.path = "/dump"}};
  Planned it(experiment, {.until = Until::ended});
  it.begin();
  it.started("s");
  it.started("a");
  EXPECT_EQ(it.ended("a", 0), "stop s | a succeeded");
  it.stopped("s");
  EXPECT_EQ(it.ended("s", 143), "take s | s collecting");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.collected("s"), " | s stopped");
  EXPECT_TRUE(it.done());
}

TEST(Outputs, WhatRanOutOfTimeIsToldSoAfterwards) {
  Experiment experiment = with_outputs("a");
  experiment.trials[0].timeout = Seconds(10);
  Planned it(experiment);
  it.begin();
  it.started("a");
  EXPECT_EQ(it.pass(10), "stop a | a running (timeout)");
  it.stopped("a");
  EXPECT_EQ(it.ended("a", 143), "take a | a collecting (took longer than its timeout of 10.0 s)");
  EXPECT_EQ(it.collected("a"), " | a failed (took longer than its timeout of 10.0 s)");
}

// An engine that is shut down stops what runs and then goes away.
TEST(Outputs, AnEngineThatGoesAwayMeanwhileHasTakenTheTrialAlong) {
  Planned it(with_outputs_and_retries("a", 1));
  it.begin();
  it.started("a");
  Sighting stopped = it.sighting("a", Phase::ended);
  stopped.exit_code = 137;
  stopped.stopped = true;
  EXPECT_EQ(it.seen(stopped), "take a | a collecting (stopped from outside (exit code 137, SIGKILL))");
  it.not_taken("a");
  it.listing_begins_after_a_break();
  it.listed_after_a_break({stopped});
  EXPECT_EQ(it.pass(1), "take a | ");
  EXPECT_EQ(
      it.collected("a"),
      "start a#2 | a retrying (lost with its host or engine (exit code 137, SIGKILL); attempt 2 in 0 ms), "
      "a starting");
}

TEST(Outputs, ALaterProcessTakesThem) {
  const auto past = [](Cause cause, std::optional<int> exit_code, const std::string& reason) {
    return Past{.state = TrialState::collecting,
                .cause = cause,
                .exit_code = exit_code,
                .reason = reason,
                .was_started = true};
  };
  PlannerOptions options{.until = Until::ended};
  options.past = {past(Cause::none, 0, "its outputs are not home: disk full"),
                  past(Cause::error, 3, "exit code 3; its outputs are not home: disk full"), Past{}};
  Planned it(with_outputs("a b c<-a:succeeded"), options);
  EXPECT_EQ(it.begin(), "take a, take b | ");
  EXPECT_EQ(it.listed({}), " | ") << "containers that are gone are seen when something is taken out of them";
  EXPECT_EQ(it.collected("b"), " | b failed (exit code 3)");
  EXPECT_EQ(it.collected("a"), "start c | a succeeded, c starting");
}

TEST(Outputs, WhoIsInterruptedLeavesThemForLater) {
  Planned it(with_outputs("a"));
  it.begin();
  it.started("a");
  it.ended("a", 0);
  it.interrupt();
  EXPECT_TRUE(it.done());
  EXPECT_EQ(it.state("a"), TrialState::collecting);
}

// What is not a service has `cache`.
Experiment with_cache(const std::string& text) {
  Experiment experiment = test::experiment(text);
  for (Trial& trial : experiment.trials) trial.cache.on = !trial.service;
  return experiment;
}

constexpr PlannerOptions k_recall{.until = Until::ended, .recalls = true};

TEST(Recall, WhatHasBeenDoneIsNotStarted) {
  Planned it(with_cache("a b"), k_recall);
  EXPECT_EQ(it.begin(), "recall a, recall b | ");
  EXPECT_FALSE(it.done());
  EXPECT_EQ(it.recalled("a", "as before"), " | a skipped (as before)");
  EXPECT_EQ(it.recalled("b"), "start b | b starting");
  (void)it.started("b");
  (void)it.ended("b", 0);
  EXPECT_TRUE(it.done());
}

TEST(Recall, NothingIsAskedForUnlessItIsWanted) {
  Planned it(with_cache("a"), k_wait);
  EXPECT_EQ(it.begin(), "start a | a starting");
  Planned without(test::experiment("a"), k_recall);
  EXPECT_EQ(without.begin(), "start a | a starting");
}

TEST(Recall, IsAsGoodAsASuccessToOthers) {
  Planned it(with_cache("a b<-a:succeeded c<-a:finished d<-a"), k_recall);
  EXPECT_EQ(it.begin(), "recall a, recall b, recall c, recall d | ");
  for (const char* other : {"b", "c", "d"}) EXPECT_EQ(it.recalled(other), " | ") << other;
  EXPECT_EQ(it.recalled("a", "before"),
            "start b, start c, start d | a skipped (before), b starting, c starting, d starting");
}

TEST(Recall, WhatIsDoneNeedsNothingOfOthers) {
  Planned it(with_cache("a b<-a:succeeded"), k_recall);
  (void)it.begin();
  EXPECT_EQ(it.recalled("b", "before"), " | b skipped (before)");
  EXPECT_EQ(it.recalled("a"), "start a | a starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 3), "collect a | a failed (exit code 3)");
  EXPECT_EQ(it.state("b"), TrialState::skipped);
}

TEST(Recall, AServiceWaitsUntilItIsKnownWhetherItIsNeeded) {
  Planned it(with_cache("!s a<-s b<-s"), k_recall);
  EXPECT_EQ(it.begin(), "recall a, recall b | ");
  EXPECT_EQ(it.recalled("a", "before"), " | a skipped (before)");
  EXPECT_EQ(it.recalled("b"), "start s | s starting");
}

TEST(Recall, AServiceThatNobodyNeedsIsNotStarted) {
  Planned it(with_cache("!s !all a<-s b"), k_recall);
  (void)it.begin();
  (void)it.recalled("a", "before");
  EXPECT_EQ(it.recalled("b"), "start all, start b | s stopped, all starting, b starting");
  Planned none(with_cache("!s !all a<-s"), k_recall);
  (void)none.begin();
  EXPECT_EQ(none.recalled("a", "before"), " | a skipped (before), s stopped, all stopped");
  EXPECT_TRUE(none.done());
}

TEST(Recall, WhatOthersNeedOnlyToRunIsStarted) {
  Planned it(with_cache("loader a<-loader"), k_recall);
  EXPECT_EQ(it.begin(), "recall a | ");
  EXPECT_EQ(it.recalled("a"), "start loader | loader starting");
}

TEST(Recall, WhatGoesInFromOthersIsKnownWhenTheyHaveSucceeded) {
  Experiment experiment = with_cache("a b<-a:succeeded");
  experiment.trials[0].outputs = {{.path = "/out"}};
  experiment.trials[1].inputs = {{.from = "/out", .trial = "a", .to = "/in"}};
  Planned it(experiment, k_recall);
  EXPECT_EQ(it.begin(), "recall a | ");
  EXPECT_EQ(it.recalled("a", "before"), "recall b | a skipped (before)");
  EXPECT_EQ(it.recalled("b", "too"), " | b skipped (too)");
  Planned anew(experiment, k_recall);
  (void)anew.begin();
  EXPECT_EQ(anew.recalled("a"), "start a | a starting");
  (void)anew.started("a");
  (void)anew.ended("a", 0);
  EXPECT_EQ(anew.collected("a"), "recall b | a succeeded");
  EXPECT_EQ(anew.recalled("b"), "start b | b starting");
}

TEST(Recall, WhatAPersonWantsAgainIsStarted) {
  Planned it(with_cache("a b"),
             {.until = Until::ended,
              .recalls = true,
              .past = {{.anew = true}, {.state = TrialState::skipped, .reason = "before"}}});
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.listed({}), "start a | a starting");
  EXPECT_EQ(it.state("b"), TrialState::skipped);
}

TEST(Recall, ASkippedOneFromBeforeLetsOthersStart) {
  Planned it(with_cache("a b<-a:succeeded c<-a"),
             {.until = Until::ended, .past = {{.state = TrialState::skipped}, {}, {}}});
  EXPECT_EQ(it.begin(), " | ");
  EXPECT_EQ(it.listed({}), "start b, start c | b starting, c starting");
}

TEST(Recall, AnswersThatComeTooLateChangeNothing) {
  Experiment experiment = with_cache("a b");
  experiment.trials[1].cache.on = false;
  experiment.failures_max = 1;
  Planned it(experiment, k_recall);
  EXPECT_EQ(it.begin(), "recall a, start b | b starting");
  EXPECT_EQ(it.not_started("b").substr(0, 12), " | b failed ");
  EXPECT_EQ(it.state("a"), TrialState::blocked);
  EXPECT_EQ(it.recalled("a", "before"), " | ");
  EXPECT_EQ(it.recalled("a", "again"), " | ");
  EXPECT_TRUE(it.done());
}

TEST(Recall, OneThatIsSkippedIsItsShapesCanary) {
  Experiment experiment = with_canary("a b c");
  for (TrialIndex trial : {1U, 2U}) experiment.trials[trial].cache.on = true;
  Planned it(experiment, k_recall);
  EXPECT_EQ(it.begin(), "recall b, recall c, start a | a starting");
  EXPECT_EQ(it.recalled("b"), " | ") << "a is the canary";
  EXPECT_EQ(it.recalled("c", "before"), "start b | c skipped (before), b starting");
  (void)it.started("a");
  EXPECT_EQ(it.ended("a", 0), " | a succeeded");
}

}  // namespace
}  // namespace combu
