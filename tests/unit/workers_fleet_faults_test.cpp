// Workers of the simulated engine: slow and silent agents, forged results, and processes that continue a run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "combu/agent.hpp"
#include "error_of.hpp"
#include "record_folder.hpp"
#include "workers_fleet.hpp"

namespace combu::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class FleetFaultsTest : public FleetTest {
 protected:
  // Watches the run until the test ends.
  void watch() {
    watcher_ = std::jthread([this](const std::stop_token& stop) {
      engine_->watch(
          {.run = run_.id}, [&](const Change&) { is_watching_ = true; }, stop);
    });
    until("the watch begins", [&] { return is_watching_.load(); });
  }
  void end_worker() { simulated_->stop({.run = run_.id, .trial = "combu-worker-run1-1"}, Seconds(0), {}); }
  // Returns the names of the attempts that the agents know.
  std::set<std::string> known_to_agents() {
    std::set<std::string> names;
    const auto other = with_workers(*simulated_, [](std::string_view) { return "agent"; });
    for (const Observation& one : other->list({.run = run_.id}, ListDetail::consistent, {}))
      names.insert(one.key.trial);
    return names;
  }

 private:
  std::atomic<bool> is_watching_{false};
  std::jthread watcher_;
};

TEST_F(FleetFaultsTest, ForgetIsSentAfterASlowListing) {
  for (const char* name : {"a", "b", "c"}) add(name, "exit 0", {.concurrency = 3});
  for (std::size_t i = 0; i < 3; ++i) {
    start(i);
    await_end(i);
  }
  cutting_.is_unreachable = true;
  cutting_.cut();
  engine_->acknowledge({key(0)});
  cutting_.is_slow = true;
  cutting_.is_unreachable = false;
  until("a second connection", [&] { return cutting_.connections >= 2; });
  (void)list();  // waits until the agent has listed its attempts
  cutting_.is_slow = false;
  until("the agent forgets", [&] { return !known_to_agents().contains("a"); });
}

TEST_F(FleetFaultsTest, AcknowledgeDoesNotWaitForAnAgentThatDoesNotRead) {
  for (const char* name : {"a", "b"}) add(name, "exit 0", {.concurrency = 2});
  start(0);
  await_end(0);
  cutting_.is_unread = true;
  auto starting = std::async(std::launch::async, [&] { start(1); });
  engine_->acknowledge({key(0)});  // otherwise it would never return
  cutting_.is_unread = false;
  starting.get();
  until("the agent forgets", [&] { return !known_to_agents().contains("a"); });
}

TEST_F(FleetFaultsTest, AnAgentThatDoesNotReadDelaysNoOtherWorker) {
  for (const char* name : {"a", "b"}) add(name, "exit 0", {.concurrency = 2});
  for (const char* name : {"c", "d"}) add(name, "exit 0", {.concurrency = 3});  // in another worker
  for (std::size_t i : {0, 2, 3}) {
    start(i);
    await_end(i);
  }
  cutting_.unread_worker = "combu-worker-run1-1";
  cutting_.is_unread = true;
  auto starting = std::async(std::launch::async, [&] { start(1); });
  until("the start blocks", [&] { return cutting_.blocked_writes == 1; });
  engine_->acknowledge({key(0)});
  for (std::size_t i : {2, 3}) {
    engine_->acknowledge({key(i)});
    until("the other agent forgets", [&] { return !known_to_agents().contains(key(i).trial); });
  }
  cutting_.is_unread = false;
  starting.get();
}

TEST_F(FleetFaultsTest, ReleaseRemovesAllButTheAttemptsOfAnAgentThatDoesNotAnswer) {
  for (const char* name : {"kept-1", "other-1"}) add(name, "sleep 1000", {.concurrency = 2});
  for (const char* name : {"kept-2", "other-2"}) add(name, "sleep 1000", {.concurrency = 3});
  add("alone", "sleep 1000");
  for (std::size_t i = 0; i < 5; ++i) start(i);
  cutting_.unread_worker = "combu-worker-run1-1";
  cutting_.is_unread = true;
  const auto keep = [&](const std::vector<Observation>&) { return std::set<Key>{key(0), key(2)}; };
  auto releasing =
      std::async(std::launch::async, [&] { return engine_->release({.run = run_.id}, {.found = keep}, {}); });
  until("the other agent forgets", [&] { return !known_to_agents().contains("other-2"); });
  cutting_.is_unread = false;
  cutting_.cut(cutting_.unread_worker);
  const Released released = releasing.get();
  ASSERT_THAT(released.left, SizeIs(1));
  EXPECT_EQ(released.left[0].kind(), ErrorKind::unavailable);
  EXPECT_EQ(released.left[0].subject(), "other-1");
  EXPECT_EQ(released.attempts, 2U);
  EXPECT_THAT(workers(), testing::ElementsAre("combu-worker-run1-1", "combu-worker-run1-2"));
  until("the agent forgets when it answers", [&] { return !known_to_agents().contains("other-1"); });
}

// The parameter: the container is removed.
class FleetEndTest : public FleetFaultsTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(StoppedOrRemoved, FleetEndTest, testing::Bool());

TEST_P(FleetEndTest, AResultThatTheAgentHasSentIsNotLostWithItsWorker) {
  add("a", "sleep 10; exit 7");
  watch();
  start(0);
  cutting_.is_silent = true;
  {
    const auto other = with_workers(*simulated_, [](std::string_view) { return "agent"; });
    until("the agent has sent the end", [&] {
      const auto seen = other->list({.run = run_.id}, ListDetail::consistent, {});
      return seen.size() == 1 && seen[0].phase == Phase::ended;
    });
  }
  cutting_.is_worker_killed = true;
  if (GetParam()) {
    (void)simulated_->release({.run = run_.id}, {}, {});
  } else {
    end_worker();
  }
  until("the worker is inspected", [&] { return cutting_.inspections > 0; });
  cutting_.is_silent = false;
  await_end(0);
  const std::vector<Observation> seen = list();
  ASSERT_THAT(seen, SizeIs(1));
  EXPECT_EQ(seen[0].lost, "");
  EXPECT_EQ(seen[0].exit_code, 7);
}

TEST_F(FleetFaultsTest, ManyAttemptsAreForgotten) {
  constexpr std::size_t k_count = 4500;  // their ids take more than one frame
  std::vector<Key> acknowledged;
  std::vector<std::string> removed;
  for (std::size_t i = 0; i < k_count; ++i) {
    add(std::to_string(i) + std::string(245, 'x'), "exit 0", {.concurrency = 2 * k_count});
    add(std::to_string(i) + std::string(245, 'y'), "exit 0", {.concurrency = 2 * k_count});
    start(2 * i);
    start(2 * i + 1);
    acknowledged.push_back(key(2 * i));
    removed.push_back(key(2 * i + 1).trial);
  }
  until("all attempts end", [&] {
    return std::ranges::all_of(list(), [](const Observation& seen) { return seen.phase == Phase::ended; });
  });
  (void)engine_->release({.run = run_.id, .trials = removed}, {}, {});
  EXPECT_THAT(known_to_agents(), SizeIs(k_count));
  engine_->acknowledge(acknowledged);
  until("the agent forgets", [&] { return known_to_agents().empty(); });
}

TEST_F(FleetFaultsTest, AWorkerThatEndsDuringItsConnectionFailsAtOnce) {
  add("a", "exit 0");
  watch();
  cutting_.is_silent = true;
  cutting_.after_exec = [&](const Key& worker) { simulated_->stop(worker, Seconds(0), {}); };
  const auto before = std::chrono::steady_clock::now();
  EXPECT_THROW(start(0), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(8));  // it would wait for 10
}

TEST_F(FleetFaultsTest, AFileOfResultsCannotReplaceAnAttemptOfAnotherWorker) {
  add("a", "exit 0");
  add("victim", "sleep 100000", {.concurrency = 2});  // another shape
  watch();
  start(0);
  start(1);
  await_end(0);
  engine_->acknowledge({key(0)});
  agent::append(cutting_.results, agent::Started{.id = "victim/1", .at = 1, .scratch = "/x"});
  agent::append(cutting_.results,
                agent::Ended{.id = "victim/1", .at = 2, .flags = agent::Ended::log_is_whole});
  end_worker();
  until("the worker is removed",
        [&] { return simulated_->list({.trials = {"combu-worker-run1-1"}}, ListDetail::basic, {}).empty(); });
  const std::vector<Observation> seen = list();
  const auto victim = std::ranges::find(seen, key(1), &Observation::key);
  ASSERT_NE(victim, seen.end());
  EXPECT_EQ(victim->phase, Phase::running);
}

TEST_F(FleetFaultsTest, TheAgentReplacesTheFileOfResultsEvenWithoutResults) {
  add("a", "exit 0");
  start(0);
  await_end(0);
  engine_->acknowledge({key(0)});
  until("the agent forgets", [&] { return known_to_agents().empty(); });
  cutting_.keeps_containers = true;
  end_worker();
  std::string file;
  EXPECT_TRUE(simulated_->copy_out({.run = run_.id, .trial = "combu-worker-run1-1"},
                                   "/combu/attempts/w/agent/results",
                                   [&](std::string_view bytes) { file += bytes; }, {}));
  cutting_.keeps_containers = false;
}

TEST_F(FleetFaultsTest, AFrozenWorkerIsKeptUntilItAnswers) {
  add("a", "sleep 100000");
  start(0);
  restart();
  cutting_.is_unreachable = true;
  (void)engine_->check(run_, {});  // this process is the owner
  EXPECT_THAT(error_in([&] { (void)list(); }).message(), HasSubstr("cannot be reached: unreachable"));
  EXPECT_THAT(error_in([&] { (void)list(); }).message(), HasSubstr("cannot be reached: unreachable"));
  cutting_.is_unreachable = false;
  until("the keeper connects again", [&] {
    try {
      return list().size() == 1;
    } catch (const Error&) {
      return false;
    }
  });
}

TEST_F(FleetFaultsTest, TrialsMaxCountsTheStartsOfEarlierProcesses) {
  for (const char* name : {"a", "b", "c"}) add(name, "sleep 20", {.concurrency = 3, .trials_max = 2});
  start(0);
  start(1);
  await_end(0);
  engine_->acknowledge({key(0)});
  until("the agent forgets", [&] { return !known_to_agents().contains("a"); });
  restart();
  ASSERT_THAT(list(), SizeIs(1));
  start(2);
  EXPECT_EQ(world_.executions().back().worker.trial, "combu-worker-run1-2");
}

TEST_F(FleetFaultsTest, AnAttemptWithInputsUsesNoWorkerOfAnEarlierProcess) {
  for (const char* name : {"a", "b"}) {
    add(name, "sleep 200", {.concurrency = 2});
    run_.experiment.trials.back().inputs.push_back({.from = "/etc/hostname", .to = "/in"});
  }
  EXPECT_THAT(start(0).inputs, SizeIs(1));
  restart();
  ASSERT_THAT(list(), SizeIs(1));
  EXPECT_THAT(start(0).inputs, IsEmpty()) << "this process did not stage them";
  EXPECT_THAT(start(1).inputs, SizeIs(1));
  EXPECT_EQ(world_.executions()[1].worker.trial, "combu-worker-run1-2");
}

TEST_F(FleetFaultsTest, AnAttemptWithCacheReportsTheDigestOfItsImage) {
  add("a", "exit 0");
  run_.experiment.trials.back().cache.on = true;
  EXPECT_EQ(start(0).digest, "simulated:" + run_.experiment.trials[0].image);
}

// ---- Starts that are given up

class GivenUpStartTest : public FleetFaultsTest {
 protected:
  // Starts a trial in the worker of trial 0, and cancels the start at its message number `message`.
  void give_up_start(std::size_t trial, int message) {
    cutting_.writes_before_give_up = message - 1;
    const Error error = error_in([&] {
      (void)engine_->start(run_, run_.experiment.trials.at(trial), 1, cutting_.give_up.get_token());
    });
    EXPECT_EQ(error.kind(), ErrorKind::cancelled) << error.what();
  }
  // The start of a trial reaches the agent, as if it had waited in a connection that was closed since.
  void deliver_start(std::size_t trial) {
    late_ = simulated_->exec({.run = run_.id, .trial = "combu-worker-run1-1"},
                             {"/combu/agent/agent", "join", "/combu/attempts/w/agent"}, {});
    const std::string id = key(trial).trial + "/1";
    std::string messages;
    agent::append(messages, agent::Hello{});
    agent::append(messages, agent::Start{.id = id, .argv = {"/bin/sh", "-c", "sleep 1000"}});
    agent::append(messages, agent::ReadLog{.request = 1, .id = id, .is_follow = 1});
    late_->write(messages);
  }
  // Waits until the delivered attempt has ended: then the agent has answered the request for its whole log.
  void await_end_of_delivered() {
    agent::FrameReader reader;
    agent::Frame frame;
    std::vector<char> buffer(4096);
    while (const std::size_t count = late_->read(buffer)) {
      reader.feed({buffer.data(), count});
      while (reader.next(frame) == agent::FrameReader::Result::frame)
        if (frame.type == agent::Done::k_type) return;
    }
    FAIL() << "the agent has closed the connection";
  }
  // No attempt keeps a worker beyond the end of the run.
  void expect_no_worker_after_the_run() {
    engine_->acknowledge({key(0)});
    engine_.reset();
    EXPECT_THAT(workers(), IsEmpty());
  }

 private:
  std::unique_ptr<ByteStream> late_;
};

TEST_F(GivenUpStartTest, AnAttemptWhoseInputsAreNotAllSentDoesNotRun) {
  const Folder folder("combu-workers-inputs");
  std::filesystem::create_directories(folder.path());
  constexpr std::size_t k_large = std::size_t{1} << 20U;
  std::ofstream(folder.path() + "/large") << std::string(k_large, 'x');
  add("first", "exit 0");
  add("a", "sleep 1000");
  run_.experiment.trials.back().inputs.push_back(
      {.from = folder.path() + "/large", .to = "/in", .in_scratch = true});
  start(0);
  await_end(0);
  give_up_start(1, 3);  // after Start and one Put
  (void)list();         // the agent has handled all messages
  EXPECT_THAT(world_.executions(), SizeIs(1));
  expect_no_worker_after_the_run();
}

TEST_F(GivenUpStartTest, ItsRefusalFreesTheWorker) {
  add("first", "exit 0");
  add("a", "");
  run_.experiment.trials.back().process.cmd = {"/no/such/program"};
  start(0);
  await_end(0);
  cutting_.is_mute = true;
  give_up_start(1, 1);
  cutting_.is_mute = false;
  engine_->stop(key(1), {}, {});
  expect_no_worker_after_the_run();
}

TEST_F(GivenUpStartTest, AStopEndsAStartThatTheAgentDidNotGet) {
  add("first", "exit 0");
  add("a", "sleep 1000");
  start(0);
  await_end(0);
  cutting_.is_silent = true;
  give_up_start(1, 1);
  cutting_.is_silent = false;
  std::stop_source quit;
  auto stopping = std::async(std::launch::async, [&] { engine_->stop(key(1), {}, quit.get_token()); });
  cutting_.cut();
  until("stop() returns",
        [&] { return stopping.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  quit.request_stop();
  EXPECT_NO_THROW(stopping.get());
  EXPECT_THAT(world_.executions(), SizeIs(1));
  deliver_start(1);
  await_end_of_delivered();
  ASSERT_THAT(world_.executions(), SizeIs(2));
  EXPECT_TRUE(world_.executions().back().ended_at);
  EXPECT_THAT(list(), SizeIs(1)) << "only the first trial";
  expect_no_worker_after_the_run();
}

}  // namespace
}  // namespace combu::test
