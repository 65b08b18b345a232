// A process dies after each of its facts in turn, and another process continues from the record.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "combu/record.hpp"
#include "experiments.hpp"
#include "record_folder.hpp"
#include "simulation.hpp"

namespace combu::test {
namespace {

// Thirty trials: a service with a health check, chains, failures, retries.
Experiment resumed_experiment() {
  Experiment experiment{.name = "thirty", .file = "/thirty"};
  std::vector<Trial>& trials = experiment.trials;
  trials.push_back(trial("loader", "sleep 1000000"));
  trials.back().service = true;
  trials.back().healthcheck = Healthcheck{.test = {"CMD", "true"}};
  for (int i = 1; i < 30; ++i) {
    Trial one =
        trial("t" + std::to_string(i), "sleep " + std::to_string(i % 4) + (i % 7 == 0 ? "; exit 3" : ""));
    one.slots.cpus.nano = (i % 3) * 1'000'000'000;
    one.depends.push_back({.trial = "loader", .condition = Condition::healthy});
    if (i > 3)
      one.depends.push_back({.trial = "t" + std::to_string(i - 3), .condition = Condition::finished});
    if (i % 10 == 9)
      one.depends.push_back({.trial = "t" + std::to_string(i - 2), .condition = Condition::succeeded});
    if (i % 14 == 0) {
      one.retries.max = 2;
      one.retries.on.set(static_cast<std::size_t>(Cause::error));
    }
    trials.push_back(std::move(one));
  }
  return experiment;
}

struct End {
  TrialState state;
  int attempt;
  std::optional<int> exit_code;
  bool operator==(const End&) const = default;
};

std::vector<End> ends(Record& record, const RunId& run) {
  std::vector<End> ends;
  for (const TrialEntry& one : record.trials(run)) ends.push_back({one.state, one.attempt, one.exit_code});
  return ends;
}

std::vector<std::string> texts(const std::vector<End>& ends) {
  std::vector<std::string> texts;
  for (const End& end : ends)
    texts.push_back(std::string(to_string(end.state)) + " in attempt " + std::to_string(end.attempt) +
                    ", exit code " + (end.exit_code ? std::to_string(*end.exit_code) : "none"));
  return texts;
}

// Drives a run that dies at its nth fact, and continues it. Returns the number of facts until it died.
std::size_t play_until(Record& record, const Experiment& experiment, const RunId& id, std::size_t dies_at) {
  const combu::Run run{.id = id, .experiment = experiment};
  const Plan plan = test::plan(experiment);
  record.begin(entry_of(run), experiment);
  Simulation simulation(run, plan,
                        {.starts_in_flight_max = 4,
                         .until = Until::ended,
                         .capacity = Slots{Cpus{5'000'000'000}, Bytes{std::int64_t{8} << 30}}},
                        {.seed = 1});
  std::size_t reported = 0;
  simulation.set_keep([&](const std::vector<Fact>& facts) {
    std::size_t kept = facts.size();
    if (reported < dies_at && reported + facts.size() >= dies_at) kept = dies_at - reported - 1;
    record.append(id, {facts.data(), kept});
    reported += facts.size();
    return kept;
  });
  EXPECT_THAT(simulation.play(), testing::IsEmpty());
  EXPECT_EQ(simulation.has_died(), dies_at <= reported);
  const std::size_t before = reported;
  if (simulation.has_died()) {
    EXPECT_THAT(simulation.resume(record.restored_trials(id)), testing::IsEmpty());
    EXPECT_FALSE(simulation.has_died());
  }
  for (const Observation& seen : simulation.truth()) {
    EXPECT_EQ(seen.phase, Phase::ended) << seen.key.trial;
  }
  return before;
}

TEST(Resume, ARunContinuesAfterAnyOfItsFacts) {
  const Folder folder("combu-resume");
  Record record(folder.path());
  const Experiment experiment = resumed_experiment();
  const std::size_t facts = play_until(record, experiment, RunId("whole"), SIZE_MAX);
  const std::vector<End> whole = ends(record, RunId("whole"));
  EXPECT_THAT(whole, testing::Contains(End{TrialState::failed, 3, 3}));
  EXPECT_THAT(whole, testing::Contains(End{TrialState::blocked, 1, std::nullopt}));
  ASSERT_GT(facts, 90U);
  for (std::size_t nth = 1; nth <= facts; ++nth) {
    SCOPED_TRACE(testing::Message() << "dies at fact " << nth);
    const RunId id("dies" + std::to_string(nth));
    (void)play_until(record, experiment, id, nth);
    EXPECT_EQ(texts(ends(record, id)), texts(whole));
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace combu::test
