// Tests of the hints about the field `worker`.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "combu/analysis.hpp"
#include "experiments.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// `count` trials without `worker`.
Experiment experiment_of(std::size_t count) {
  Experiment experiment;
  for (std::size_t i = 0; i < count; ++i)
    experiment.trials.push_back(test::trial(fmt::format("t{}", i), "true"));
  return experiment;
}

// One attempt of each trial, one after the other: each starts in 0.5 s and runs for `runs`.
std::vector<TimedAttempt> attempts_of(const Experiment& experiment, Seconds runs) {
  std::vector<AttemptEntry> entries;
  const Instant begin = *parse_timestamp("2026-01-31T12:00:00Z");
  Instant at = begin;
  for (const Trial& trial : experiment.trials) {
    AttemptEntry entry{.trial = trial.name};
    entry.ready_at = entry.started_at = at;
    entry.created_in = Seconds(0.3);
    entry.started_in = Seconds(0.2);
    entry.ran_at = at + std::chrono::milliseconds(500);
    entry.ended_at = *entry.ran_at + std::chrono::duration_cast<Instant::duration>(runs);
    at = *entry.ended_at;
    entries.push_back(entry);
  }
  RunEntry run;
  run.began_at = begin;
  return times_of(std::move(entries), run);
}

TEST(Hints, ShortTrialsWouldGainFromWorkers) {
  const Experiment experiment = experiment_of(200);
  EXPECT_THAT(
      hints_of(experiment, attempts_of(experiment, Seconds(0.5))),
      ElementsAre("200 attempts ran for 500 ms in the median, and each start of a container took 500 ms; "
                  "`worker: true` would save about 1m40s (see docs/workers.md)"));
}

TEST(Hints, FewOrLongTrialsGetNoHint) {
  const Experiment few = experiment_of(199);
  EXPECT_THAT(hints_of(few, attempts_of(few, Seconds(0.5))), IsEmpty());
  const Experiment many = experiment_of(200);
  EXPECT_THAT(hints_of(many, attempts_of(many, Seconds(5))), IsEmpty());
}

TEST(Hints, TrialsThatCannotHaveWorkersGetNoHint) {
  Experiment experiment = experiment_of(300);
  for (std::size_t i = 0; i < 150; ++i) experiment.trials[i].service = true;
  for (std::size_t i = 150; i < 300; ++i) experiment.trials[i].container.ports = {Port{}};
  EXPECT_THAT(hints_of(experiment, attempts_of(experiment, Seconds(0.5))), IsEmpty());
}

TEST(Hints, LongTrialsGainNothingFromWorkers) {
  Experiment experiment = experiment_of(2);
  for (Trial& trial : experiment.trials) trial.worker = WorkerSettings{.on = true};
  EXPECT_THAT(hints_of(experiment, attempts_of(experiment, Seconds(60))), IsEmpty());
  EXPECT_THAT(hints_of(experiment, attempts_of(experiment, Seconds(90))),
              ElementsAre("the trials with `worker` ran for 1m30s in the median; `worker` gains nothing for "
                          "trials that run for more than a minute"));
}

}  // namespace
}  // namespace combu
