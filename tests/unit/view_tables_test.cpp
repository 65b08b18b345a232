#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "combu/view.hpp"

namespace combu {
namespace {

using testing::HasSubstr;
using testing::Not;

Experiment experiment_of(std::size_t solvers) {
  Experiment experiment{.name = "lab", .file = "/lab/experiment.jsonnet", .trials = {}};
  const auto add = [&](const std::string& name, const std::string& image) {
    Trial trial;
    trial.name = name;
    trial.image = image;
    trial.networks = {"simulation", "host"};
    experiment.trials.push_back(trial);
  };
  for (std::size_t i = 1; i <= solvers; ++i) add("solver-" + std::to_string(i), "lab/solver");
  add("loader", "lab/loader");
  return experiment;
}

// Every solver needs the loader, the last trial.
Plan plan_of(const Experiment& experiment) {
  Plan plan;
  plan.nodes.resize(experiment.trials.size());
  const auto loader = static_cast<TrialIndex>(experiment.trials.size() - 1);
  for (TrialIndex i = 0; i < loader; ++i) {
    plan.nodes[i].needs = {{loader, Condition::healthy}};
    plan.nodes[i].wave = 1;
    plan.nodes[loader].needed_by.push_back({i, Condition::healthy});
  }
  plan.wave_count = 2;
  return plan;
}

TEST(PrintPlan, shows_counts_and_waves) {
  const Experiment experiment = experiment_of(100);
  std::ostringstream out;
  print_plan(out, experiment, plan_of(experiment));
  EXPECT_EQ(out.str(),
            "101 trials in 2 waves, 100 dependencies, 2 images, 1 network\n"
            "wave 1: 1 trial     loader\n"
            "wave 2: 100 trials  solver-[1-100]\n");
}

TEST(PrintPlan, shortens_a_long_wave) {
  Experiment experiment = experiment_of(0);
  for (int i = 0; i < 1000; ++i) {
    Trial trial;
    trial.name = "name-" + std::string(1, static_cast<char>('a' + i % 26)) + std::to_string(i * 2);
    experiment.trials.push_back(trial);
  }
  Plan plan;
  plan.nodes.resize(experiment.trials.size());
  plan.wave_count = 1;
  std::ostringstream out;
  print_plan(out, experiment, plan);
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
  EXPECT_THAT(out.str(), HasSubstr(" more\n"));
}

TEST(PrintPlanJson, holds_all_of_it) {
  const Experiment experiment = experiment_of(2);
  std::ostringstream out;
  print_plan_json(out, experiment, plan_of(experiment));
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json, nlohmann::json::parse(R"({
    "experiment": "lab", "file": "/lab/experiment.jsonnet", "trials": 3, "edges": 2,
    "images": [{"image": "lab/solver", "trials": 2}, {"image": "lab/loader", "trials": 1}],
    "networks": ["simulation"],
    "waves": [["loader"], ["solver-1", "solver-2"]],
    "needs": {"solver-1": [{"trial": "loader", "condition": "healthy"}],
              "solver-2": [{"trial": "loader", "condition": "healthy"}]}})"));
}

Sighting sighting_of(const std::string& trial, Phase phase) {
  Sighting sighting;
  sighting.key = {.run = RunId("r1"), .trial = trial, .attempt = 1};
  sighting.experiment = "lab";
  sighting.image = "solver";
  sighting.phase = phase;
  return sighting;
}

TEST(PrintSightings, is_an_aligned_table_in_the_order_of_the_names) {
  Sighting failed = sighting_of("solver-10", Phase::ended);
  failed.exit_code = 3;
  Sighting healthy = sighting_of("solver-2", Phase::running);
  healthy.health = Health::healthy;
  Sighting odd = sighting_of("loader", Phase::created);
  odd.experiment = "a\x1b[2Jb";
  const std::vector<Sighting> sightings{failed, healthy, odd};
  std::ostringstream out;
  print_sightings(out, sightings);
  EXPECT_EQ(out.str(),
            "EXPERIMENT  RUN  TRIAL      STATE              IMAGE\n"
            "ab          r1   loader     created            solver\n"
            "lab         r1   solver-2   running (healthy)  solver\n"
            "lab         r1   solver-10  ended (3)          solver\n");
}

TEST(PrintSightingsJson, is_one_object_a_line) {
  Sighting ended = sighting_of("a", Phase::ended);
  ended.exit_code = 0;
  ended.id = "0123";
  ended.created_at = Instant(std::chrono::milliseconds(1'769'860'800'250));
  std::ostringstream out;
  print_sightings_json(out, std::vector<Sighting>{ended, sighting_of("b\xff", Phase::running)});
  EXPECT_THAT(out.str(),
              HasSubstr(R"({"experiment":"lab","run":"r1","trial":"a","attempt":1,"state":"ended",)"
                        R"("health":null,"exit_code":0,"image":"solver","id":"0123",)"
                        R"("created_at":"2026-01-31T12:00:00.250Z"})"
                        "\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("\xff")));
}

}  // namespace
}  // namespace combu
