// Workers of the simulated engine: lost connections, replaced and idle workers.

#include "workers_fleet.hpp"

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

#include "error_of.hpp"
#include "workers/keeper.hpp"
#include "workers/worker.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

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

// The engine accepts the container at once, and starts it later.
TEST_F(FleetTest, AStartDoesNotNeedAWatchOfItsRun) {
  World placing({.start_takes = Seconds(5), .places = true});
  const auto simulated = open_simulated(placing, k_speed);
  const auto engine = with_workers(*simulated, [](std::string_view) { return "agent"; });
  std::atomic<bool> is_watching{false};
  const std::jthread watcher([&](const std::stop_token& stop) {
    engine->watch(
        {.run = RunId("other")}, [&](const Change&) { is_watching = true; }, stop);
  });
  until("the watch begins", [&] { return is_watching.load(); });
  add("a", "sleep 1000000");
  const auto begin = std::chrono::steady_clock::now();
  const StartResult result = engine->start(run_, run_.experiment.trials.at(0), 1, {});
  EXPECT_TRUE(std::holds_alternative<Running>(result));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
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

TEST_F(FleetTest, AnIdleWorkerReturnsItsSlotsBeforeItsIdleTime) {
  add("a", "exit 0", {.idle = Seconds(3600)});
  run_.experiment.trials[0].slots.cpus.nano = 1;
  start(0);
  await_end(0);
  engine_->acknowledge({key(0)});
  until("the worker ends", [&] { return workers().empty(); });
}

// The keeper notices after at most `k_pause` that a worker has to end.
TEST_F(FleetTest, AnIdleWorkerReturnsItsSlotsWithinASecond) {
  workers::Registry registry(*simulated_);
  workers::Worker worker(registry);
  worker.is_own = true;
  worker.limits.idle = Seconds(3600);
  worker.become(workers::Worker::State::connected);
  const auto noticed_at = worker.idle_since + std::chrono::seconds(1) - workers::Keeper::k_pause;
  EXPECT_FALSE(worker.has_to_end(noticed_at)) << "it has no slots";
  worker.container.slots.cpus.nano = 1;
  EXPECT_TRUE(worker.has_to_end(noticed_at));
  worker.add_attempt(Key{.run = run_.id, .trial = "a", .attempt = 1}, worker.container.slots);
  EXPECT_FALSE(worker.has_to_end(noticed_at)) << "it has an attempt";
}

TEST_F(FleetTest, AnotherTrialGetsTheSlotsOfAnIdleWorker) {
  add("a", "exit 0");
  add("b", "exit 0", {.concurrency = 2});
  run_.experiment.trials.push_back(trial("c", "exit 0"));
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

TEST_F(FleetTest, ReleaseEndsTheOthersInTheWorkerOfAKeptAttempt) {
  for (const char* name : {"kept", "other"}) add(name, "sleep 1000", {.concurrency = 2});
  add("alone", "sleep 1000");
  for (std::size_t i = 0; i < 3; ++i) start(i);
  const auto keep = [&](const std::vector<Observation>&) { return std::set<Key>{key(0)}; };
  EXPECT_EQ(engine_->release({.run = run_.id}, {.found = keep}, {}).attempts, 2U);
  ASSERT_THAT(list(), SizeIs(1));
  EXPECT_EQ(list()[0].key, key(0));
  EXPECT_THAT(workers(), ElementsAre("combu-worker-run1-1"));
  for (const World::Execution& one : world_.executions())
    EXPECT_EQ(!one.ended_at, one.id == "kept/1") << one.id;
  EXPECT_EQ(engine_->release({.run = run_.id}, {}, {}).attempts, 1U);
  EXPECT_THAT(workers(), IsEmpty());
}

TEST_F(FleetTest, ReleaseReportsAWorkerThatCannotBeRemoved) {
  add("a", "sleep 1000");
  start(0);
  cutting_.left_worker = "combu-worker-run1-1";
  const Released whole = engine_->release({.run = run_.id}, {}, {});
  ASSERT_THAT(whole.left, SizeIs(1));
  EXPECT_EQ(whole.left[0].subject(), cutting_.left_worker);
  EXPECT_EQ(whole.attempts, 0U);
  EXPECT_THAT(list(), SizeIs(1));
  const Released named = engine_->release({.run = run_.id, .trials = {"a"}}, {}, {});
  ASSERT_THAT(named.left, SizeIs(1));
  EXPECT_EQ(named.left[0].subject(), cutting_.left_worker);
  EXPECT_EQ(named.attempts, 1U) << "the agent has ended it";
  EXPECT_THAT(list(), IsEmpty());
}

class FleetLogTest : public FleetTest {
 protected:
  // Runs the trial `a`, stops its worker and restarts combu. The worker leaves a file of results with this
  // end of the attempt and, unless `log` is empty, with these parts of its log.
  void leave_results(const agent::Ended& ended, const std::vector<agent::LogChunk>& log = {}) {
    add("a", "exit 0");
    start(0);
    await_end(0);
    cutting_.is_unreachable = true;
    agent::append(cutting_.results, agent::Started{.id = "a/1", .at = 1});
    agent::append(cutting_.results, ended);
    agent::append(cutting_.results, agent::Listed{});
    if (!log.empty()) agent::append(cutting_.results, agent::Log{.request = 1, .chunks = log});
    simulated_->stop({.run = run_.id, .trial = "combu-worker-run1-1"}, std::nullopt, {});
    restart();
  }
  // Returns the texts of the log's pieces, and "GAP" for each gap.
  std::vector<std::string> read_log(std::size_t trial, const LogOptions& options = {}) {
    std::vector<std::string> pieces;
    engine_->logs(
        key(trial), options,
        [&](const LogPiece& piece) { pieces.emplace_back(piece.is_after_gap ? "GAP" : piece.text); }, {});
    return pieces;
  }
};

TEST_F(FleetLogTest, ALostLogOfAStoppedWorkerIsReported) {
  leave_results({.id = "a/1", .at = 2, .exit_code = 5}, {{.at = 1, .bytes = "a part\n"}});
  const std::vector<Observation> listed = list();
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_EQ(listed[0].exit_code, 5);
  EXPECT_THAT(read_log(0), ElementsAre("a part\n", "GAP"));
  EXPECT_THAT(read_log(0, {.tail = 1}), ElementsAre("a part\n"));
}

TEST_F(FleetLogTest, AnEndBeforeTheFaultOfAnArchiveCounts) {
  cutting_.missing = 1;  // a byte of the message after the end
  leave_results({.id = "a/1", .at = 2, .exit_code = 5});
  const std::vector<Observation> listed = list();
  ASSERT_THAT(listed, SizeIs(1));
  EXPECT_EQ(listed[0].exit_code, 5);
}

TEST_F(FleetLogTest, ALogThatTheArchiveLacksIsReportedAsAGap) {
  cutting_.missing = 1;
  leave_results({.id = "a/1", .at = 2, .log_size = 10}, {{.at = 1, .bytes = "a part\n"}});
  EXPECT_THAT(list(), SizeIs(1));
  EXPECT_THAT(read_log(0), ElementsAre("GAP"));
}

TEST_F(FleetLogTest, ALogThatIsLostAfterTheEndOfItsAttemptIsReported) {
  add("a", "echo " + std::string(agent::k_inline_log_max, 'x'));  // more than the message of the end contains
  add("b", "sleep 1000");
  start(0);
  await_end(0);
  start(1);
  (void)simulated_->release({.run = run_.id}, {}, {});
  cutting_.cut();
  await_end(1);  // it is lost with its worker
  EXPECT_THAT(read_log(0), ElementsAre("GAP"));
  EXPECT_EQ(error_in([&] { read_log(1); }).kind(), ErrorKind::not_found) << "combu does not know its output";
}

TEST_F(FleetLogTest, ASmallLogInTheFileOfResultsIsReadOnlyOnce) {
  leave_results({.id = "a/1",
                 .at = 2,
                 .flags = agent::Ended::log_is_whole,
                 .log = {{.at = 1, .stream = 1, .bytes = "small\n"}}});
  EXPECT_THAT(list(), SizeIs(1));
  cutting_.results = "cut";
  EXPECT_THAT(read_log(0), ElementsAre("small\n"));
}

TEST_F(FleetTest, AnAttemptWithoutItsEndInACutFileIsLost) {
  add("a", "exit 0");
  start(0);
  await_end(0);
  restart();
  (void)list();
  cutting_.results = "cut";
  add("b", "sleep 1000", {.concurrency = 2});
  start(1);
  simulated_->stop({.run = run_.id, .trial = "combu-worker-run1-2"}, std::nullopt, {});
  cutting_.cut();
  await_end(1);
  const std::vector<Observation> listed = list();
  const auto lost = std::ranges::find(listed, key(1), &Observation::key);
  ASSERT_NE(lost, listed.end());
  EXPECT_THAT(lost->lost,
              testing::HasSubstr("its worker ended (exit code 0), and the end of its file of results"));
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

// Keeps all bytes that are sent to agents, and the containers of workers.
class HeardEngine final : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    containers.push_back(trial);
    return PassingEngine::start(run, trial, attempt, std::move(stop));
  }
  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override {
    return std::make_unique<Stream>(*this, PassingEngine::exec(key, argv, std::move(stop)));
  }
  std::string sent() {
    const std::scoped_lock lock(mutex_);
    return sent_;
  }

  std::vector<Trial> containers;

 private:
  class Stream final : public ByteStream {
   public:
    Stream(HeardEngine& engine, std::unique_ptr<ByteStream> stream)
        : engine_(engine), stream_(std::move(stream)) {}
    std::size_t read(std::span<char> buffer) override { return stream_->read(buffer); }
    void write(std::string_view bytes) override {
      {
        const std::scoped_lock lock(engine_.mutex_);
        engine_.sent_ += bytes;
      }
      stream_->write(bytes);
    }
    void close() override { stream_->close(); }
    std::string errors() override { return stream_->errors(); }

   private:
    HeardEngine& engine_;
    std::unique_ptr<ByteStream> stream_;
  };

  std::mutex mutex_;
  std::string sent_;
};

std::shared_ptr<const SecretValues> values_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  auto values = std::make_shared<SecretValues>();
  for (auto [name, value] : pairs) values->emplace(name, SecretValue(std::move(value)));
  return values;
}

TEST_F(FleetTest, AnAttemptGetsVariablesAndItsWorkerTheOtherSecrets) {
  HeardEngine heard(*simulated_);
  engine_ = with_workers(heard, [](std::string_view) { return "agent"; });
  add("a", "exit 0");
  const Secret file{.source = "token", .target = "/run/secrets/token"};
  const Secret of_cluster{.source = "there", .variable = "THERE", .is_in_cluster = true};
  const Secret variable{.source = "token", .variable = "TOKEN"};
  run_.experiment.trials[0].container.secrets = std::vector<Secret>{file, of_cluster, variable};
  run_.secrets = values_of({{"token", "hunter2"}});
  start(0);
  await_end(0);
  EXPECT_THAT(heard.sent(), testing::HasSubstr("TOKEN=hunter2"));
  EXPECT_THAT(heard.sent(), testing::Not(testing::HasSubstr("THERE")));
  ASSERT_EQ(heard.containers.size(), 1U);
  const Secret mounted{.source = "there", .target = "/combu/variables/1", .is_in_cluster = true};
  EXPECT_EQ(*heard.containers[0].container.secrets, (std::vector<Secret>{file, mounted}));
  EXPECT_EQ(heard.containers[0].process.entrypoint->back(), "variable=THERE=/combu/variables/1");
  EXPECT_THAT(heard.containers[0].process.env, testing::IsEmpty());
}

TEST_F(FleetTest, NeitherAnAttemptNorAWorkerStartsWithoutTheValueOfASecret) {
  HeardEngine heard(*simulated_);
  engine_ = with_workers(heard, [](std::string_view) { return "agent"; });
  add("a", "exit 0");
  run_.experiment.trials[0].container.secrets = std::vector<Secret>{{.source = "token", .variable = "TOKEN"}};
  EXPECT_THAT(error_of([&] { start(0); })->what(),
              testing::HasSubstr("the value of the secret `token` was not read"));
  EXPECT_TRUE(list().empty());
  EXPECT_THAT(heard.containers, testing::IsEmpty());
}

}  // namespace
}  // namespace combu::test
