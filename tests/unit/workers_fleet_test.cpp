// Workers of the simulated engine: lost connections, replaced and idle workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "combu/simulated.hpp"
#include "combu/workers.hpp"
#include "error_of.hpp"
#include "experiments.hpp"
#include "passing_engine.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// The connections to agents break when the test wants.
class CuttingEngine : public test::PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override {
    if (is_unreachable) throw Error(ErrorKind::unavailable, key.trial, "unreachable");
    ++connections;
    auto stream = std::make_unique<Stream>(*this, engine_.exec(key, argv, stop));
    const std::scoped_lock lock(mutex_);
    streams_.push_back(stream.get());
    return stream;
  }
  void cut() {
    const std::scoped_lock lock(mutex_);
    for (Stream* stream : streams_) stream->close();
  }

  std::atomic<bool> is_unreachable{false};
  std::atomic<int> connections{0};
  std::atomic<int> writes_before_cut{-1};  // the write after these breaks its connection; -1: none

 private:
  class Stream final : public ByteStream {
   public:
    Stream(CuttingEngine& engine, std::unique_ptr<ByteStream> stream)
        : engine_(engine), stream_(std::move(stream)) {}
    ~Stream() override {
      const std::scoped_lock lock(engine_.mutex_);
      std::erase(engine_.streams_, this);
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    std::size_t read(std::span<char> buffer) override { return stream_->read(buffer); }
    void write(std::string_view bytes) override {
      if (engine_.writes_before_cut >= 0 && engine_.writes_before_cut-- == 0) {
        stream_->close();
        throw Error(ErrorKind::unavailable, "test", "cut");
      }
      stream_->write(bytes);
    }
    void close() override { stream_->close(); }
    std::string errors() override { return ""; }

   private:
    CuttingEngine& engine_;
    std::unique_ptr<ByteStream> stream_;
  };

  std::mutex mutex_;
  std::vector<Stream*> streams_;
};

class FleetTest : public testing::Test {
 protected:
  static constexpr double k_speed = 50;

  void add(const std::string& name, const std::string& command, WorkerSettings worker = {}) {
    Trial one = test::trial(name, command);
    worker.on = true;
    one.worker = worker;
    run_.experiment.trials.push_back(std::move(one));
  }
  Observation start(std::size_t trial, int attempt = 1) {
    const StartResult result = engine_->start(run_, run_.experiment.trials.at(trial), attempt, {});
    if (!std::holds_alternative<Running>(result)) throw Error(ErrorKind::conflict, "test", "slots are taken");
    return std::get<Running>(result).observation;
  }
  std::vector<Observation> list() { return engine_->list({.run = run_.id}, ListDetail::consistent, {}); }
  // Waits at most ten seconds.
  static void until(const std::string& what, const std::function<bool()>& holds) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "never: " << what;
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  void await_end(std::size_t trial, int attempt = 1) {
    const std::string& name = run_.experiment.trials.at(trial).name;
    until(name + " ends", [&] {
      return std::ranges::any_of(list(), [&](const Observation& seen) {
        return seen.key.trial == name && seen.key.attempt == attempt && seen.phase == Phase::ended;
      });
    });
  }
  Key key(std::size_t trial, int attempt = 1) {
    return {.run = run_.id, .trial = run_.experiment.trials.at(trial).name, .attempt = attempt};
  }
  // The containers of workers that run.
  std::set<std::string> workers() {
    std::set<std::string> names;
    for (const Observation& seen : simulated_->list({}, ListDetail::basic, {}))
      if (is_worker_name(seen.key.trial) && seen.phase == Phase::running) names.insert(seen.key.trial);
    return names;
  }

  combu::Run run_{.id = RunId("run1"), .experiment = {.name = "fleet", .file = "/fleet"}};
  World world_{{.start_takes = Seconds(0.01)}};
  std::unique_ptr<Engine> simulated_ = open_simulated(world_, k_speed);
  CuttingEngine cutting_{*simulated_};
  std::unique_ptr<Engine> engine_ = with_workers(cutting_, [](std::string_view) { return "agent"; });
};

TEST_F(FleetTest, AnEndDuringALostConnectionIsReportedOnce) {
  add("a", "echo kept; sleep 10; exit 7");
  std::mutex mutex;
  std::vector<Observation> ends;
  std::atomic<bool> is_watching{false};
  std::jthread watcher([&](const std::stop_token& stop) {
    engine_->watch(
        {.run = run_.id},
        [&](const Change& change) {
          const std::scoped_lock lock(mutex);
          if (std::holds_alternative<Watching>(change)) is_watching = true;
          if (const auto* seen = std::get_if<Observation>(&change); seen && seen->phase == Phase::ended)
            ends.push_back(*seen);
        },
        stop);
  });
  until("the watch begins", [&] { return is_watching.load(); });
  start(0);
  cutting_.is_unreachable = true;
  cutting_.cut();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the attempt takes 200
  EXPECT_THAT(ends, IsEmpty());
  cutting_.is_unreachable = false;
  await_end(0);
  cutting_.cut();
  await_end(0);
  until("a third connection", [&] { return cutting_.connections == 3; });
  await_end(0);
  const std::scoped_lock lock(mutex);
  ASSERT_THAT(ends, SizeIs(1));
  EXPECT_EQ(ends[0].exit_code, 7);
  EXPECT_EQ(ends[0].lost, "");
  EXPECT_THAT(world_.executions(), SizeIs(1));
}

TEST_F(FleetTest, AStartIsSentAgainAfterItsConnectionBroke) {
  add("a", "exit 3");
  cutting_.writes_before_cut = 1;  // after Hello
  start(0);
  await_end(0);
  EXPECT_EQ(cutting_.connections, 2);
  EXPECT_THAT(world_.executions(), SizeIs(1));
}

TEST_F(FleetTest, AttemptsShareTheWorkerOfTheirShape) {
  for (const char* name : {"a", "b", "c"}) add(name, "exit 0");
  for (std::size_t i = 0; i < 3; ++i) {
    start(i);
    await_end(i);
    engine_->acknowledge({key(i)});
  }
  std::set<std::string> used;
  for (const World::Execution& one : world_.executions()) used.insert(one.worker.trial);
  EXPECT_THAT(used, ElementsAre("combu-worker-run1-1"));
  EXPECT_THAT(list(), IsEmpty());
}

TEST_F(FleetTest, AnotherWorkerReplacesAWorkerAfterItsLastTrial) {
  for (const char* name : {"a", "b", "c"}) add(name, "exit 0", {.trials_max = 2});
  for (std::size_t i = 0; i < 3; ++i) {
    start(i);
    await_end(i);
    engine_->acknowledge({key(i)});
  }
  EXPECT_EQ(world_.executions()[1].worker.trial, "combu-worker-run1-1");
  EXPECT_EQ(world_.executions()[2].worker.trial, "combu-worker-run1-2");
  until("the first worker ends", [&] { return workers() == std::set<std::string>{"combu-worker-run1-2"}; });
}

TEST_F(FleetTest, AnotherWorkerReplacesAnOldWorker) {
  for (const char* name : {"a", "b"}) add(name, "exit 0", {.age_max = Seconds(0.01)});
  start(0);
  await_end(0);
  engine_->acknowledge({key(0)});
  until("the worker ends", [&] { return workers().empty(); });
  start(1);
  EXPECT_EQ(world_.executions()[1].worker.trial, "combu-worker-run1-2");
}

TEST_F(FleetTest, AnIdleWorkerWithoutSlotsStaysUntilItsIdleTime) {
  add("a", "exit 0", {.idle = Seconds(0.3)});
  start(0);
  await_end(0);
  EXPECT_THAT(workers(), SizeIs(1));
  engine_->acknowledge({key(0)});
  until("the worker ends", [&] { return workers().empty(); });
}

TEST_F(FleetTest, AnIdleWorkerReturnsItsSlotsWithinASecond) {
  add("a", "exit 0");
  run_.experiment.trials[0].slots.cpus.nano = 1;
  start(0);
  await_end(0);
  const auto before = std::chrono::steady_clock::now();
  engine_->acknowledge({key(0)});
  until("the worker ends", [&] { return workers().empty(); });
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(3));  // on a slow machine
}

TEST_F(FleetTest, AnotherTrialGetsTheSlotsOfAnIdleWorker) {
  add("a", "exit 0");
  add("b", "exit 0", {.concurrency = 2});
  run_.experiment.trials.push_back(test::trial("c", "exit 0"));
  run_.experiment.trials[0].slots.cpus.nano = 8'000'000'000;
  run_.experiment.trials[1].slots.cpus.nano = 4'000'000'000;
  run_.experiment.trials[2].slots.cpus.nano = 8'000'000'000;
  for (std::size_t i = 0; i < 3; ++i) {
    start(i);  // throws if the slots are taken
    await_end(i);
    engine_->acknowledge({key(i)});
  }
}

TEST_F(FleetTest, TheSlotsOfABusyWorkerAreTaken) {
  add("a", "sleep 1000");
  add("b", "exit 0", {.concurrency = 2});
  run_.experiment.trials[0].slots.cpus.nano = 8'000'000'000;
  run_.experiment.trials[1].slots.cpus.nano = 1'000'000'000;
  start(0);
  const StartResult result = engine_->start(run_, run_.experiment.trials[1], 1, {});
  ASSERT_TRUE(std::holds_alternative<TakenByOther>(result));
  EXPECT_EQ(std::get<TakenByOther>(result).holder.key.trial, "combu-worker-run1-1");
}

TEST_F(FleetTest, EachGpuHasAWorker) {
  for (const char* gpu : {"gpu-a", "gpu-b", "gpu-a"}) {
    const std::size_t i = run_.experiment.trials.size();
    add("t" + std::to_string(i), "exit 0");
    run_.experiment.trials[i].gpus = GpuRequest{.count = 1};
    run_.experiment.trials[i].slots.gpus = {gpu};
    start(i);
    await_end(i);
  }
  ASSERT_THAT(world_.executions(), SizeIs(3));
  EXPECT_EQ(world_.executions()[0].worker, world_.executions()[2].worker);
  std::set<std::vector<std::string>> held;
  for (const Observation& seen : simulated_->list({}, ListDetail::basic, {})) held.insert(seen.slots.gpus);
  EXPECT_THAT(held, testing::UnorderedElementsAre(ElementsAre("gpu-a"), ElementsAre("gpu-b")));
}

TEST_F(FleetTest, TheNextAttemptRemovesTheLastOne) {
  add("a", "exit 3");
  start(0);
  await_end(0);
  start(0, 2);
  await_end(0, 2);
  ASSERT_THAT(list(), SizeIs(1));
  EXPECT_EQ(list()[0].key.attempt, 2);
}

TEST_F(FleetTest, AnAttemptIsLostWithItsWorker) {
  add("a", "sleep 1000");
  start(0);
  simulated_->stop({.run = run_.id, .trial = "combu-worker-run1-1"}, std::nullopt, {});
  await_end(0);
  ASSERT_THAT(list(), SizeIs(1));
  EXPECT_THAT(list()[0].lost, testing::HasSubstr("its worker ended"));
}

TEST_F(FleetTest, TheResultsOfAStoppedWorkerAreKept) {
  add("a", "echo text; exit 5", {.concurrency = 2});
  add("b", "sleep 1000", {.concurrency = 2});
  start(0);
  start(1);
  await_end(0);
  cutting_.is_unreachable = true;
  simulated_->stop({.run = run_.id, .trial = "combu-worker-run1-1"}, std::nullopt, {});
  engine_ = with_workers(cutting_, [](std::string_view) { return "agent"; });  // another process
  const std::vector<Observation> listed = list();
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_EQ(listed[0].key.trial, "a");
  EXPECT_EQ(listed[0].exit_code, 5);
  std::string log;
  engine_->logs(key(0), {}, [&](const LogPiece& piece) { log += piece.text; }, {});
  EXPECT_EQ(log, "text\n");
}

TEST_F(FleetTest, AnotherProcessContinuesWithTheAttempts) {
  add("a", "sleep 20; exit 4");
  start(0);
  engine_ = with_workers(cutting_, [](std::string_view) { return "agent"; });
  ASSERT_THAT(list(), SizeIs(1));
  EXPECT_EQ(list()[0].phase, Phase::running);
  start(0);
  await_end(0);
  EXPECT_EQ(list()[0].exit_code, 4);
  EXPECT_THAT(world_.executions(), SizeIs(1));
}

}  // namespace
}  // namespace combu
