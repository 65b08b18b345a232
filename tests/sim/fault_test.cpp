// drive(), with_retry() and the record with real threads, on an engine of which one call fails. The test lets
// every call of every function fail in turn.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "combu/record.hpp"
#include "combu/run.hpp"
#include "combu/simulated.hpp"
#include "experiments.hpp"
#include "fact_keeper.hpp"
#include "passing_engine.hpp"
#include "record_folder.hpp"

namespace combu::test {
namespace {

constexpr std::size_t k_trials = 30;

// Thirty trials: a service with a health check, chains, failures, retries.
Experiment faulted_experiment() {
  Experiment experiment{.name = "thirty", .file = "/thirty"};
  std::vector<Trial>& trials = experiment.trials;
  trials.push_back(trial("loader", "sleep 1000000"));
  trials.back().service = true;
  trials.back().healthcheck = Healthcheck{.test = {"CMD", "true"}};
  for (int i = 1; i < static_cast<int>(k_trials); ++i) {
    Trial one =
        trial("t" + std::to_string(i), "sleep " + std::to_string(i % 4) + (i % 7 == 0 ? "; exit 3" : ""));
    one.depends.push_back({.trial = "loader", .condition = Condition::healthy});
    if (i > 3)
      one.depends.push_back({.trial = "t" + std::to_string(i - 3), .condition = Condition::finished});
    if (i % 10 == 9)
      one.depends.push_back({.trial = "t" + std::to_string(i - 2), .condition = Condition::succeeded});
    if (i % 14 == 0) {
      one.retries.max = 1;
      one.retries.on.set(static_cast<std::size_t>(Cause::error));
      one.retries.pause = Seconds(0);
    }
    trials.push_back(std::move(one));
  }
  return experiment;
}

struct Fault {
  std::string verb;
  std::size_t nth = 0;
  ErrorKind kind = ErrorKind::unavailable;
  bool after = false;  // the call is carried out, and only its answer fails
};

// The nth call of one function fails once.
class FailNth : public PassingEngine {
 public:
  FailNth(Engine& engine, Fault fault) : PassingEngine(engine), fault_(fault) {}

  std::vector<Error> check(const combu::Run& run, std::stop_token stop) override {
    return verb("check", [&] { return engine_.check(run, stop); });
  }
  std::vector<Error> prepare(const combu::Run& run,
                             const std::function<void(const Preparation&)>& on_progress,
                             std::stop_token stop) override {
    return verb("prepare", [&] { return engine_.prepare(run, on_progress, stop); });
  }
  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    return verb("start", [&] { return engine_.start(run, trial, attempt, stop); });
  }
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) override {
    (void)verb("stop", [&] {
      engine_.stop(key, grace, stop);
      return 0;
    });
  }
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    return verb("list", [&] { return engine_.list(selector, detail, stop); });
  }
  // With `after`, fails after the first change was reported.
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    const bool fails = counts("watch");
    if (fails && !fault_.after) throw error();
    engine_.watch(
        selector,
        [&](const Change& change) {
          on_change(change);
          if (fails) throw error();
        },
        stop);
  }
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override {
    (void)verb("logs", [&] {
      engine_.logs(key, options, on_piece, stop);
      return 0;
    });
  }
  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override {
    return verb("copy_out", [&] { return engine_.copy_out(key, path, on_bytes, stop); });
  }

  // Returns the number of calls of each function.
  [[nodiscard]] const std::map<std::string, std::size_t>& calls() const { return calls_; }

 private:
  template <class Call>
  auto verb(const char* name, const Call& call) -> decltype(call()) {
    const bool fails = counts(name);
    if (fails && !fault_.after) throw error();
    auto result = call();
    if (fails) throw error();
    return result;
  }

  // Counts the call. True if this call fails.
  bool counts(const char* name) {
    const std::scoped_lock lock(mutex_);
    return ++calls_[name] == fault_.nth && name == fault_.verb;
  }

  [[nodiscard]] Error error() const { return {fault_.kind, "engine", "its call fails"}; }

  const Fault fault_;
  std::mutex mutex_;
  std::map<std::string, std::size_t> calls_;
};

struct Played {
  std::vector<std::string> ends;  // how the trials ended
  std::map<std::string, std::size_t> calls;
};

std::vector<std::string> ends_of(Record& record, const RunId& run) {
  std::vector<std::string> ends;
  for (const TrialEntry& one : record.trials(run))
    ends.push_back(one.name + " " + std::string(to_string(one.state)) + " in attempt " +
                   std::to_string(one.attempt) + ", exit code " +
                   (one.exit_code ? std::to_string(*one.exit_code) : "none"));
  return ends;
}

// Expects that the record and the engine agree on every trial.
void expect_record_equals_engine(Record& record, const RunId& run, Engine& engine) {
  std::map<std::string, Observation> listed;
  for (const Observation& seen : engine.list({}, ListDetail::consistent, {}))
    EXPECT_TRUE(listed.emplace(seen.key.trial, seen).second) << seen.key.trial << " is there twice";
  for (const TrialEntry& one : record.trials(run)) {
    EXPECT_TRUE(is_over(one.state)) << one.name << " is " << to_string(one.state);
    const auto found = listed.find(one.name);
    if (one.exit_code) {
      ASSERT_TRUE(found != listed.end()) << one.name;
      EXPECT_EQ(found->second.phase, Phase::ended) << one.name;
      EXPECT_EQ(found->second.exit_code, one.exit_code) << one.name;
      EXPECT_EQ(found->second.key.attempt, one.attempt) << one.name;
    } else {
      // If the start of a further attempt was refused, the container of the earlier attempt exists.
      EXPECT_TRUE(found == listed.end() || found->second.key.attempt < one.attempt) << one.name;
    }
  }
}

// Drives a run whose nth call fails, and continues it until it has ended.
Played play_with(Record& record, const Experiment& experiment, const RunId& id, const Fault& fault) {
  const combu::Run run{.id = id, .experiment = experiment};
  const Plan plan = test::plan(experiment);
  // Not at speed 0, which would skip the time in which only the service runs: the service would end.
  const auto model = open_simulated({.start_takes = Seconds(0.5), .speed = 2000});
  FailNth failing(*model, fault);
  const auto engine = with_retry(
      failing, {.pause = Seconds(0.001), .pause_max = Seconds(0.001), .give_up = Seconds(60)}, real_clock());
  record.begin(entry_of(run), experiment);
  constexpr int k_processes_max = 3;
  for (int process = 1; process <= k_processes_max; ++process) {
    try {
      EXPECT_THAT(engine->prepare(run, [](const Preparation&) {}, {}), testing::IsEmpty());
      FactKeeper keeper(record, id);
      PlannerOptions options{.starts_in_flight_max = 4, .until = Until::ended};
      if (process > 1) options.restored = record.restored_trials(id);
      ProgressListener nobody;
      (void)drive(run, plan, options,
                  {.engine = *engine, .clock = real_clock(), .journal = keeper, .progress = nobody});
      break;
    } catch (const Error& error) {
      // A refusal that concerns more than one trial ends the process, and nothing else.
      EXPECT_EQ(error.kind(), ErrorKind::refused) << error.what();
      EXPECT_LT(process, k_processes_max) << error.what();
    }
  }
  if (fault.verb != "stop" || fault.kind != ErrorKind::refused)
    expect_record_equals_engine(record, id, *model);
  return {.ends = ends_of(record, id), .calls = failing.calls()};
}

struct Way {
  ErrorKind kind;
  bool after;
};

class AnyCall : public testing::TestWithParam<Way> {};

TEST_P(AnyCall, MayFailOnce) {
  const Folder folder("combu-faults");
  Record record(folder.path());
  const Experiment experiment = faulted_experiment();
  const Played whole = play_with(record, experiment, RunId("whole"), {});
  ASSERT_GT(whole.calls.at("start"), k_trials - 5);
  for (const char* verb : {"prepare", "watch", "list", "start", "stop", "logs"}) {
    ASSERT_TRUE(whole.calls.contains(verb)) << verb;
    for (std::size_t nth = 1; nth <= whole.calls.at(verb); ++nth) {
      SCOPED_TRACE(testing::Message() << verb << " " << nth);
      const Played played =
          play_with(record, experiment, RunId(verb + std::to_string(nth)),
                    {.verb = verb, .nth = nth, .kind = GetParam().kind, .after = GetParam().after});
      // If a start or a stop is refused for good, the trial ends differently.
      const bool may_differ = GetParam().kind == ErrorKind::refused &&
                              (verb == std::string("start") || verb == std::string("stop"));
      if (!may_differ) {
        EXPECT_EQ(played.ends, whole.ends);
      }
      if (testing::Test::HasFailure()) return;
    }
  }
}

// The case "refused after the call was carried out" is left out: an engine that answers so has a bug, which
// is not a fault.
INSTANTIATE_TEST_SUITE_P(, AnyCall,
                         testing::Values(Way{ErrorKind::unavailable, false},
                                         Way{ErrorKind::unavailable, true}, Way{ErrorKind::timeout, false},
                                         Way{ErrorKind::timeout, true}, Way{ErrorKind::refused, false}),
                         [](const testing::TestParamInfo<Way>& way) {
                           return std::string(to_string(way.param.kind)) +
                                  (way.param.after ? "AfterItWasCarriedOut" : "Before");
                         });

}  // namespace
}  // namespace combu::test
