#pragma once
// Creates experiments for tests from one line of text: "a b<-a c<-a:healthy,b" contains three trials. `!`
// before a name makes the trial a service. After a name, `=2` gives the trial two CPUs, and a further `^5`
// the priority 5.

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "combu/engine.hpp"
#include "combu/plan.hpp"

namespace combu::test {

inline Condition condition_of(const std::string& text) {
  for (const Condition condition :
       {Condition::started, Condition::healthy, Condition::succeeded, Condition::finished}) {
    if (to_string(condition) == text) return condition;
  }
  ADD_FAILURE() << "no such condition: " << text;
  return Condition::started;
}

inline Trial trial(const std::string& text, const std::string& command = "sleep 1") {
  Trial trial;
  const std::size_t arrow = text.find("<-");
  trial.name = text.substr(0, arrow);
  if (trial.name.starts_with("!")) {
    trial.name.erase(0, 1);
    trial.service = true;
  }
  if (const std::size_t mark = trial.name.find('^'); mark != std::string::npos) {
    trial.priority = std::stoi(trial.name.substr(mark + 1));
    trial.name.resize(mark);
  }
  if (const std::size_t mark = trial.name.find('='); mark != std::string::npos) {
    trial.slots.cpus = parse_cpus(trial.name.substr(mark + 1));
    trial.name.resize(mark);
  }
  trial.image = "image";
  trial.process.cmd = {"sh", "-c", command};
  if (arrow == std::string::npos) return trial;
  std::istringstream needs(text.substr(arrow + 2));
  for (std::string need; std::getline(needs, need, ',');) {
    const std::size_t colon = need.find(':');
    Depend depend{.trial = need.substr(0, colon)};
    if (colon != std::string::npos) depend.condition = condition_of(need.substr(colon + 1));
    trial.depends.push_back(depend);
  }
  return trial;
}

inline Experiment experiment(const std::string& text) {
  Experiment experiment{.name = "test", .file = "/test/experiment.jsonnet"};
  std::istringstream words(text);
  for (std::string word; words >> word;) experiment.trials.push_back(trial(word));
  return experiment;
}

inline Run run(const std::string& text) {
  return {.id = RunId("run1"), .experiment = experiment(text)};
}

// Returns the plan, which must have no errors.
inline Plan plan(const Experiment& experiment) {
  Planning planning = make_plan(experiment);
  for (const Error& error : planning.errors) ADD_FAILURE() << error.what();
  return std::move(planning.plan);
}

}  // namespace combu::test
