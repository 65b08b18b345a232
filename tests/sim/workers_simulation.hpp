#pragma once
// Runs over workers of the simulated engine: drive() with its threads, on a simulated clock that is faster
// than a real one.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "combu/record.hpp"
#include "combu/run.hpp"
#include "combu/simulated.hpp"
#include "combu/workers.hpp"
#include "experiments.hpp"
#include "passing_engine.hpp"

namespace combu::test {

// Expects that every report about the end of an attempt is the same. Cuts each watch after half a second, so
// that the run soon lists the attempts whose changes were lost.
class ResultChecker : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    std::vector<Observation> listed = engine_.list(selector, detail, stop);
    for (const Observation& seen : listed) compare(seen);
    return listed;
  }
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    std::stop_source cut;
    const std::stop_callback on_stop(stop, [&cut] { cut.request_stop(); });
    const std::jthread knife([&cut](const std::stop_token& quit) {
      real_clock().wait(Seconds(0.5), quit);
      cut.request_stop();
    });
    engine_.watch(
        selector,
        [&](const Change& change) {
          if (const auto* seen = std::get_if<Observation>(&change)) compare(*seen);
          on_change(change);
        },
        cut.get_token());
    if (!stop.stop_requested()) throw Error(ErrorKind::unavailable, "engine", "the watch was cut");
  }

 private:
  struct Result {
    std::optional<int> exit_code;
    std::string lost;
    bool oom = false;
    bool stopped = false;
    bool operator==(const Result&) const = default;
  };
  void compare(const Observation& seen) {
    if (seen.phase != Phase::ended || !seen.is_unacknowledged) return;
    const Result result{seen.exit_code, seen.lost, seen.oom, seen.stopped};
    const std::scoped_lock lock(mutex_);
    const auto [at, is_new] = results_.try_emplace(seen.key, result);
    EXPECT_TRUE(is_new || at->second == result)
        << seen.key.trial << " attempt " << seen.key.attempt << " ended with exit code "
        << at->second.exit_code.value_or(-1) << " \"" << at->second.lost << "\", and then with exit code "
        << result.exit_code.value_or(-1) << " \"" << result.lost << '"';
  }

  std::mutex mutex_;
  std::map<Key, Result> results_;
};

// Fails every call from the operation number `dies_at` on, like an engine whose client was killed. An
// operation is a call, or a read or a write of a stream.
class MortalEngine : public PassingEngine {
 public:
  MortalEngine(Engine& engine, std::size_t dies_at) : PassingEngine(engine), dies_at_(dies_at) {}

  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    live();
    StartResult result = engine_.start(run, trial, attempt, stop);
    live();
    return result;
  }
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) override {
    live();
    engine_.stop(key, grace, stop);
  }
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    live();
    return engine_.list(selector, detail, stop);
  }
  Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                   std::stop_token stop) override {
    live();
    return engine_.release(selector, callbacks, stop);
  }
  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override {
    live();
    return std::make_unique<Stream>(*this, engine_.exec(key, argv, stop));
  }

  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    live();
    std::stop_source either;
    const auto end = [&either] { either.request_stop(); };
    const std::stop_callback on_stop(stop, end);
    const std::stop_callback on_death(death_.get_token(), end);
    engine_.watch(selector, on_change, either.get_token());
    if (!stop.stop_requested()) throw Error(ErrorKind::unavailable, "engine", "the process is dead");
  }

  [[nodiscard]] bool is_dead() const { return is_dead_; }
  [[nodiscard]] std::size_t operations() const { return operations_; }
  [[nodiscard]] std::stop_token death() const { return death_.get_token(); }

 private:
  class Stream : public ByteStream {
   public:
    Stream(MortalEngine& engine, std::unique_ptr<ByteStream> stream)
        : engine_(engine), stream_(std::move(stream)) {}
    std::size_t read(std::span<char> buffer) override {
      const std::size_t count = stream_->read(buffer);
      engine_.live();
      return count;
    }
    void write(std::string_view bytes) override {
      engine_.live();
      stream_->write(bytes);
      engine_.live();
    }
    void close() override { stream_->close(); }
    std::string errors() override { return stream_->errors(); }

   private:
    MortalEngine& engine_;
    std::unique_ptr<ByteStream> stream_;
  };

  void live() {
    if (++operations_ < dies_at_) return;
    is_dead_ = true;
    death_.request_stop();
    throw Error(ErrorKind::unavailable, "engine", "the process is dead");
  }

  const std::size_t dies_at_;
  std::atomic<std::size_t> operations_{0};
  std::atomic<bool> is_dead_{false};
  std::stop_source death_;
};

// Keeps the facts until `is_dead` holds.
class WorkersJournal : public Journal {
 public:
  WorkersJournal(Record& record, RunId run, std::function<bool()> is_dead)
      : record_(record), run_(std::move(run)), is_dead_(std::move(is_dead)) {}
  void fact(const Fact& fact) override {
    if (!is_dead_()) facts_.push_back(fact);
  }
  void commit() override {
    if (!is_dead_() && !facts_.empty()) record_.append(run_, facts_);
    facts_.clear();
  }

 private:
  Record& record_;
  RunId run_;
  std::function<bool()> is_dead_;
  std::vector<Fact> facts_;
};

class QuietProgress : public ProgressListener {};

inline std::string_view any_program(std::string_view /*platform*/) {
  return "agent";
}

// The slots of the engine that the runs may use.
inline Slots capacity_of_workers() {
  return {Cpus{8'000'000'000}, Bytes{std::int64_t{16} << 30}};
}

// Expects that no attempt was run twice, unless it was lost, and that the attempts that ran at once in a
// worker were at most `concurrency`.
inline void expect_sound_executions(const World& world, const combu::Run& run) {
  std::map<std::string, const World::Execution*> by_id;
  std::map<Key, std::vector<const World::Execution*>> by_worker;
  for (const World::Execution& one : world.executions()) {
    if (one.worker.run != run.id) continue;
    by_worker[one.worker].push_back(&one);
    const auto [at, is_new] = by_id.try_emplace(one.id, &one);
    EXPECT_TRUE(is_new || at->second->is_lost) << one.id << " ran twice";
    at->second = &one;
  }
  const auto concurrency_of = [&](const World::Execution& one) {
    const std::string name = one.id.substr(0, one.id.rfind('/'));
    const auto found = std::ranges::find(run.experiment.trials, name, &Trial::name);
    return found == run.experiment.trials.end() ? 0 : found->worker->concurrency;
  };
  for (const auto& [worker, executions] : by_worker)
    for (const World::Execution* one : executions) {
      const auto at_once = std::ranges::count_if(executions, [&](const World::Execution* other) {
        return other->began_at <= one->began_at && (!other->ended_at || *other->ended_at > one->began_at);
      });
      EXPECT_LE(static_cast<std::size_t>(at_once), std::max<std::size_t>(concurrency_of(*one), 1))
          << worker.trial;
    }
}

}  // namespace combu::test
