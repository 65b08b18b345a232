#pragma once
// drive() with real threads, on a simulated engine that is much faster than a real one.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "combu/run.hpp"
#include "combu/simulated.hpp"
#include "experiments.hpp"
#include "passing_engine.hpp"

namespace combu::test {

// Stores everything that drive() reports.
class Recorder : public Journal {
 public:
  void fact(const Fact& fact) override { facts.push_back(fact); }
  void commit() override {}
  void outputs_collected(TrialIndex trial, int attempt, const CollectionResult& collection) override {
    EXPECT_EQ(attempt, attempt_with_outputs);
    collected_outputs.emplace_back(trial, collection);
  }
  void started(TrialIndex trial, const Observation& /*seen*/) override { started_trials.push_back(trial); }
  void cache_result(const CacheResult& result) override { recalled_trials.push_back(result.trial); }

  // Stores the reports in the Recorder.
  class Listener : public ProgressListener {
   public:
    explicit Listener(Recorder& recorder) : recorder_(recorder) {}
    void failure(const Fact& fact, const std::vector<std::string>& tail) override {
      recorder_.failures.emplace_back(fact, tail);
    }
    void remark(const std::string& line) override {
      recorder_.remarks.push_back(line);
      if (recorder_.on_remark) recorder_.on_remark(line);
    }
    void snapshot(const Snapshot& snapshot) override {
      recorder_.snapshots.push_back(snapshot);
      if (recorder_.on_snapshot) recorder_.on_snapshot(snapshot);
    }

   private:
    Recorder& recorder_;
  };
  Listener listener{*this};

  std::function<void(const Snapshot&)> on_snapshot;
  std::function<void(const std::string&)> on_remark;
  std::vector<Fact> facts;
  std::vector<std::pair<Fact, std::vector<std::string>>> failures;
  std::vector<Snapshot> snapshots;
  int attempt_with_outputs = 1;
  std::vector<std::pair<TrialIndex, CollectionResult>> collected_outputs;
  std::vector<std::string> remarks;
  std::vector<TrialIndex> started_trials;
  std::vector<TrialIndex> recalled_trials;
};

// Stores only the names of the places that are filled or removed, in order.
class Places : public OutputStore {
 public:
  std::unique_ptr<OutputWriter> open(const std::string& place, const std::stop_token& /*stop*/) override {
    return std::make_unique<Box>(*this, place);
  }
  void remove(const std::string& place) override { note("no " + place); }
  bool holds_any() override { return !all().empty(); }
  bool is_whole(const std::string& /*place*/) override { return false; }
  std::vector<std::string> share(std::span<const Sharing> wanted) override {
    return std::vector<std::string>(wanted.size(), "there is nothing");
  }
  std::string fetch(const std::string& trial, const std::string& /*path*/,
                    const std::stop_token& /*stop*/) override {
    if (on_fetch) return on_fetch(trial);
    throw Error(ErrorKind::refused, trial, "there is nothing");
  }
  std::function<std::string(const std::string&)> on_fetch;
  [[nodiscard]] std::vector<std::string> all() {
    const std::scoped_lock lock(mutex_);
    return all_;
  }

 private:
  class Box final : public OutputWriter {
   public:
    Box(Places& places, std::string place) : places_(places), place_(std::move(place)) {}
    void add(const OutputEntry& /*entry*/) override {}
    void write(std::string_view /*bytes*/) override {}
    std::string close(const std::string& /*manifest*/) override {
      places_.note(place_);
      return "";
    }

   private:
    Places& places_;
    std::string place_;
  };

  void note(const std::string& what) {
    const std::scoped_lock lock(mutex_);
    all_.push_back(what);
  }

  std::mutex mutex_;
  std::vector<std::string> all_;
};

// Records the highest number of concurrent starts. Hooks can replace or observe functions of the engine.
class Gauge : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  Facts facts(std::stop_token stop) override {
    Facts facts = engine_.facts(stop);
    facts.began_at = began_at;
    return facts;
  }
  std::optional<Usage> usage(const std::string& id, std::stop_token stop) override {
    return on_usage ? on_usage(id) : engine_.usage(id, stop);
  }
  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override {
    return on_copy_out ? on_copy_out(stop) : engine_.copy_out(key, path, on_bytes, stop);
  }
  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    const int now = ++under_way_;
    int most = most_under_way.load();
    while (now > most && !most_under_way.compare_exchange_weak(most, now)) {
    }
    if (on_start) on_start(trial);
    if (trial.name == hanging) {
      real_clock().wait(Seconds(600), stop);
      throw Error(ErrorKind::cancelled, trial.name, "cancelled");
    }
    try {
      auto seen = engine_.start(run, trial, attempt, stop);
      --under_way_;
      return seen;
    } catch (...) {
      --under_way_;
      throw;
    }
  }
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    if (!cuts_watch) return engine_.watch(selector, on_change, stop);
    std::stop_source cut;
    const std::stop_callback on_stop(stop, [&cut] { cut.request_stop(); });
    const std::jthread knife([&cut](const std::stop_token& quit) {
      real_clock().wait(Seconds(0.02), quit);
      cut.request_stop();
    });
    engine_.watch(selector, on_change, cut.get_token());
    ++cuts;
    if (!stop.stop_requested()) throw Error(ErrorKind::unavailable, "engine", "the stream was cut");
  }

  std::function<void(const Trial&)> on_start;
  bool cuts_watch = false;  // cuts the stream repeatedly
  std::atomic<int> cuts{0};
  std::optional<Instant> began_at;
  std::string hanging;  // the engine never answers the start of this trial
  std::function<std::optional<Usage>(const std::string&)> on_usage;
  std::function<bool(const std::stop_token&)> on_copy_out;
  std::atomic<int> most_under_way{0};

 private:
  std::atomic<int> under_way_{0};
};

// Calls a hook before it forwards a call. Errors of a hook become errors of the call.
class Hooked : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    if (before_start) before_start(trial, stop);
    return engine_.start(run, trial, attempt, stop);
  }
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) override {
    if (before_stop) before_stop(key);
    engine_.stop(key, grace, stop);
  }
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    if (before_list) before_list(selector, detail);
    return engine_.list(selector, detail, stop);
  }
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override {
    if (before_logs) before_logs(key, options, stop);
    engine_.logs(key, options, on_piece, stop);
  }
  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override {
    if (before_copy_out) before_copy_out(key, stop);
    return engine_.copy_out(key, path, on_bytes, stop);
  }

  std::function<void(const Trial&, const std::stop_token&)> before_start;
  std::function<void(const Key&)> before_stop;
  std::function<void(const Selector&, ListDetail)> before_list;
  std::function<void(const Key&, const LogOptions&, const std::stop_token&)> before_logs;
  std::function<void(const Key&, const std::stop_token&)> before_copy_out;
};

inline constexpr double k_speed = 200;

class DriveTest : public testing::Test {
 protected:
  Outcome drive(const combu::Run& run, const PlannerOptions& options, const std::stop_token& stop = {}) {
    const Plan plan = test::plan(run.experiment);
    const auto retried = with_retry(engine_, {.pause = Seconds(0.01), .give_up = Seconds(20)}, real_clock());
    return combu::drive(run, plan, options,
                        {.engine = *retried,
                         .clock = real_clock(),
                         .journal = recorder_,
                         .progress = recorder_.listener,
                         .stop = stop});
  }

  // Does not repeat failed calls.
  Outcome drive_on(Engine& engine, const combu::Run& run, const PlannerOptions& options,
                   OutputStore* output_store = nullptr, Telemetry* telemetry = nullptr,
                   CacheLookup* cache_lookup = nullptr) {
    return combu::drive(run, test::plan(run.experiment), options,
                        {.engine = engine,
                         .clock = real_clock(),
                         .journal = recorder_,
                         .progress = recorder_.listener,
                         .stop = stop_.get_token(),
                         .output_store = output_store,
                         .telemetry = telemetry,
                         .cache_lookup = cache_lookup});
  }

  std::stop_source stop_;
  World world_{{}};
  std::unique_ptr<Engine> simulated_ = open_simulated(world_, k_speed);
  Gauge engine_{*simulated_};
  Recorder recorder_;
};

}  // namespace combu::test
