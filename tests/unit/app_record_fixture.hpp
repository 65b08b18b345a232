#pragma once
// A fixture with a record and telemetry that tests fill directly, and an engine that has logs.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "app_fixture.hpp"
#include "combu/progress.hpp"
#include "combu/record.hpp"
#include "combu/session.hpp"
#include "combu/telemetry.hpp"
#include "passing_engine.hpp"
#include "record_folder.hpp"

namespace combu::test {

// An engine with a list of attempts and their logs. If `is_away` is set, every call fails.
class ListedEngine : public PassingEngine {
 public:
  ListedEngine() : PassingEngine(static_cast<Engine&>(*this)) {}

  void add(const Key& key, const std::string& log) {
    Observation seen;
    seen.key = key;
    seen.experiment = "lab";
    seen.phase = Phase::ended;
    listed.push_back(std::move(seen));
    texts[key] = log;
  }

  std::vector<Observation> list(const Selector& /*selector*/, ListDetail /*look*/,
                                std::stop_token /*stop*/) override {
    expect_there();
    std::vector<Observation> seen = listed;
    if (after_list) after_list();
    return seen;
  }
  void logs(const Key& key, const LogOptions& /*options*/, const OnLogPiece& on_piece,
            std::stop_token /*stop*/) override {
    expect_there();
    const auto found = texts.find(key);
    if (found == texts.end()) throw Error(ErrorKind::not_found, key.trial, "no such container");
    on_piece({.stream = LogStream::out, .text = found->second, .at = k_began});
    if (gaps.contains(key)) on_piece({.is_after_gap = true});
  }

  static inline const Instant k_began = *parse_timestamp("2026-01-31T12:00:00Z");
  bool is_away = false;
  std::vector<Observation> listed;
  std::map<Key, std::string> texts;
  std::set<Key> gaps;  // a part of these logs is missing
  std::function<void()> after_list;

 private:
  void expect_there() const {
    if (is_away) throw Error(ErrorKind::unavailable, "engine", "connection refused");
  }
};

class RecordedRunTest : public StateFolderTest {
 protected:
  // Records a run in which each trial has succeeded. `fields`: further fields of a trial in the file
  // (",\"outputs\":…"). `head`: fields of the file ("\"collect\":…,").
  RunEntry record_run(
      const std::string& id, const std::vector<std::string>& trials,
      const std::function<std::string(const std::string&)>& fields = [](const std::string&) { return ""; },
      const std::string& head = "") {
    combu::Run run{.id = RunId(id), .experiment = {.name = "lab", .file = "/lab/experiment.jsonnet"}};
    RunEntry entry = entry_of(run);
    entry.engine.address = "unix:///engine.sock";
    entry.began_at = ListedEngine::k_began;
    std::string evaluated;
    std::vector<Fact> facts;
    for (const std::string& name : trials) {
      Trial trial;
      trial.name = name;
      trial.image = "busybox";
      run.experiment.trials.push_back(std::move(trial));
      if (!evaluated.empty()) evaluated += ',';
      evaluated += R"({"name":")" + name + R"(","image":"busybox")" + fields(name) + '}';
      for (const TrialState state : {TrialState::starting, TrialState::running, TrialState::succeeded}) {
        Fact fact{.trial = static_cast<TrialIndex>(run.experiment.trials.size() - 1), .state = state};
        fact.attempt = 1;
        fact.at = ListedEngine::k_began + std::chrono::seconds(static_cast<int>(facts.size()));
        facts.push_back(std::move(fact));
      }
    }
    entry.text.evaluated = '{' + head + R"("experiment":"lab","trials":[)" + evaluated + "]}";
    Record record(state());
    record.begin(entry, run.experiment);
    record.append(run.id, facts);
    record.end(run.id, ListedEngine::k_began + std::chrono::minutes(1));
    return record.run(run.id);
  }

  // Stores a complete log of the trial's first attempt.
  void keep_log(const std::string& run, const std::string& trial, const std::string& text,
                std::vector<LogBatch::Metric> metrics = {}) {
    Telemetry telemetry(state(), RunId(run));
    const std::vector<LogPiece> pieces{{.stream = LogStream::out, .text = text, .at = ListedEngine::k_began}};
    (void)telemetry.append(trial, 1, std::nullopt, {.pieces = pieces, .metrics = metrics, .complete = true},
                           Bytes{1 << 20});
  }

  static Key key(const std::string& run, const std::string& trial) {
    return {.run = RunId(run), .trial = trial, .attempt = 1};
  }

  std::unique_ptr<Progress> progress = make_progress(ProgressForm::quiet, stderr);
  ListedEngine engine;
  Session session{*progress, engine, {.address = "unix:///engine.sock"}, stop.get_token()};
};

}  // namespace combu::test
