// The executor: it carries out each order with a function of the engine, and posts the answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "experiments.hpp"
#include "passing_engine.hpp"
#include "run/executor.hpp"

namespace combu {
namespace {

using testing::ElementsAre;

// An engine whose functions the test scripts.
class Scripted final : public test::PassingEngine {
 public:
  Scripted() : PassingEngine(static_cast<Engine&>(*this)) {}

  Facts facts(std::stop_token /*stop*/) override { return {}; }
  StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    if (on_start) on_start(trial, stop);
    Observation seen;
    seen.key = {.run = run.id, .trial = trial.name, .attempt = attempt};
    seen.phase = Phase::running;
    seen.slots = trial.slots;
    return Running{std::move(seen)};
  }
  void stop(const Key& /*key*/, std::optional<Seconds> /*grace*/, std::stop_token /*stop*/) override {
    if (stop_error) throw Error(*stop_error);
  }
  std::vector<Observation> list(const Selector& selector, ListDetail /*look*/,
                                std::stop_token /*stop*/) override {
    if (list_error) throw Error(*list_error);
    std::vector<Observation> found;
    for (const Observation& seen : listed)
      if (selector.trials.empty() ||
          std::ranges::find(selector.trials, seen.key.trial) != selector.trials.end())
        found.push_back(seen);
    return found;
  }
  void watch(const Selector& /*selector*/, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    if (watched) on_change(*watched);
    wait(stop);
  }
  std::optional<Usage> usage(const std::string& /*id*/, std::stop_token /*stop*/) override {
    return Usage{.memory = Bytes{5}, .cpu = Seconds(1)};
  }
  void logs(const Key& /*key*/, const LogOptions& /*options*/, const OnLogPiece& on_piece,
            std::stop_token /*stop*/) override {
    on_piece({.stream = LogStream::out, .text = "one\ntwo\n", .at = {}});
  }
  static void wait(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    stopped.wait(lock, stop, [] { return false; });
  }

  std::function<void(const Trial&, const std::stop_token&)> on_start;
  std::optional<Error> stop_error;
  std::optional<Error> list_error;
  std::vector<Observation> listed;
  std::optional<Observation> watched;
};

struct NoJournal final : Journal {
  void fact(const Fact& /*fact*/) override {}
  void commit() override {}
};

class ExecutorTest : public testing::Test {
 protected:
  void begin(std::size_t starts_max = 2) {
    executor.emplace(
        DriveContext{.engine = engine, .clock = real_clock(), .journal = journal, .progress = listener}, run,
        Selector{}, 1, inbox);
    executor->begin(starts_max);
  }

  // Returns the next message of this kind; drops other messages.
  template <class Wanted>
  Wanted next() {
    constexpr std::chrono::seconds k_patience{60};
    const auto end = std::chrono::steady_clock::now() + k_patience;
    while (std::chrono::steady_clock::now() < end) {
      if (collection.empty()) inbox.take(collection, std::chrono::seconds(1));
      while (!collection.empty()) {
        const Message message = collection.front();
        collection.erase(collection.begin());
        if constexpr (std::is_constructible_v<Event, Wanted>) {
          if (const Event* event = std::get_if<Event>(&message))
            if (const Wanted* wanted = std::get_if<Wanted>(event)) return *wanted;
        } else {
          if (const Wanted* wanted = std::get_if<Wanted>(&message)) return *wanted;
        }
      }
    }
    throw std::runtime_error("no such message was posted");
  }

  static Observation ended(const std::string& trial) {
    Observation seen;
    seen.key = {.run = RunId("run1"), .trial = trial};
    seen.phase = Phase::ended;
    return seen;
  }

  combu::Run run = test::run("a b");
  Scripted engine;
  NoJournal journal;
  ProgressListener listener;
  Inbox<Message> inbox;
  std::vector<Message> collection;
  std::optional<Executor> executor;
};

TEST_F(ExecutorTest, TheAnswerToAStartIsPosted) {
  begin();
  executor->start({{.trial = 1, .attempt = 2, .slots = {.cpus = parse_cpus("2")}}});
  const auto answer = next<StartAnswered>();
  EXPECT_EQ(answer.trial, 1U);
  const Observation& seen = std::get<Running>(answer.result).observation;
  EXPECT_EQ(seen.key.attempt, 2);
  EXPECT_EQ(seen.slots.cpus, parse_cpus("2")) << "the slots of the command, not of the file";
}

TEST_F(ExecutorTest, ARefusedStartIsAnEventAndALostEngineIsNot) {
  engine.on_start = [](const Trial& trial, const std::stop_token&) {
    if (trial.name == "a") throw Error(ErrorKind::refused, "a", "port is taken");
    throw Error(ErrorKind::unavailable, "engine", "connection refused");
  };
  begin();
  executor->start({{.trial = 0}});
  EXPECT_EQ(next<StartFailed>().error.kind(), ErrorKind::refused);
  executor->start({{.trial = 1}});
  EXPECT_EQ(next<EngineLost>().error.kind(), ErrorKind::unavailable);
}

TEST_F(ExecutorTest, AnUnknownExceptionBecomesAnError) {
  engine.on_start = [](const Trial&, const std::stop_token&) { throw std::runtime_error("odd"); };
  begin();
  executor->start({{.trial = 0}});
  const Error error = next<StartFailed>().error;
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_EQ(error.message(), "odd");
}

TEST_F(ExecutorTest, AStartUnderWayCanBeCancelled) {
  std::promise<void> is_under_way;
  engine.on_start = [&](const Trial&, const std::stop_token& stop) {
    is_under_way.set_value();
    Scripted::wait(stop);
    throw Error(ErrorKind::cancelled, "a", "given up");
  };
  begin();
  executor->start({{.trial = 0}});
  is_under_way.get_future().wait();
  executor->give_up_start(1);  // this trial has no start under way
  executor->give_up_start(0);
  EXPECT_EQ(next<StartFailed>().error.kind(), ErrorKind::cancelled);
}

TEST_F(ExecutorTest, TheDestructorCancelsStartsUnderWay) {
  std::promise<void> is_under_way;
  engine.on_start = [&](const Trial&, const std::stop_token& stop) {
    is_under_way.set_value();
    Scripted::wait(stop);
    throw Error(ErrorKind::cancelled, "a", "stopped");
  };
  begin();
  executor->start({{.trial = 0}});
  is_under_way.get_future().wait();
  executor.reset();
  inbox.take(collection, std::chrono::milliseconds(0));
  EXPECT_TRUE(collection.empty()) << "nobody hears of a start that the end has stopped";
}

TEST_F(ExecutorTest, TheAnswerToAStopIsPosted) {
  begin();
  executor->stop({.trial = 1, .attempt = 3});
  EXPECT_EQ(next<StopAnswered>().attempt, 3);
  engine.stop_error.emplace(ErrorKind::refused, "b", "no");
  executor->stop({.trial = 1, .attempt = 3});
  EXPECT_EQ(next<StopFailed>().error.message(), "no");
}

TEST_F(ExecutorTest, TheLastLinesOfALogArePostedBeforeTheAnswer) {
  begin();
  executor->read_tail({.trial = 1, .attempt = 1, .tail = true});
  const auto tail = next<LogTail>();
  EXPECT_EQ(tail.trial, 1U);
  EXPECT_THAT(tail.lines, ElementsAre("one", "two"));
  EXPECT_EQ(next<Collected>().trial, 1U);
}

TEST_F(ExecutorTest, PolledUsageIsPosted) {
  begin();
  executor->poll_usage({.trial = 1, .attempt = 1, .id = "c", .pause = Seconds(1)});
  const auto polled = next<UsagePolled>();
  EXPECT_EQ(polled.poll.trial, 1U);
  ASSERT_TRUE(polled.usage);
  EXPECT_EQ(polled.usage->memory, Bytes{5});
}

TEST_F(ExecutorTest, InspectedAttemptsHaveTimesOrAreGone) {
  const Instant at(std::chrono::seconds(7));
  Observation known = ended("a");
  known.ended_at = at;
  engine.listed = {known};
  begin();
  executor->inspect({ended("a"), ended("b")});
  EXPECT_EQ(next<Inspected>().observation.ended_at, at);
  EXPECT_EQ(next<Inspected>().observation.phase, Phase::gone);
}

TEST_F(ExecutorTest, AListingIsPostedOrTheEngineIsLost) {
  engine.listed = {ended("a")};
  begin();
  executor->list();
  EXPECT_EQ(next<Listed>().observations.size(), 1U);
  engine.list_error.emplace(ErrorKind::unavailable, "engine", "connection refused");
  executor->list();
  EXPECT_EQ(next<EngineLost>().error.message(), "connection refused");
}

TEST_F(ExecutorTest, ReportedChangesArePosted) {
  engine.watched = ended("b");
  begin();
  EXPECT_EQ(next<Observed>().observation.key.trial, "b");
}

TEST_F(ExecutorTest, AsManyStartsAreCarriedOutAtOnceAsAllowed) {
  std::mutex mutex;
  std::condition_variable changed;
  int under_way = 0;
  bool may_end = false;
  engine.on_start = [&](const Trial&, const std::stop_token&) {
    std::unique_lock lock(mutex);
    ++under_way;
    changed.notify_all();
    changed.wait(lock, [&] { return may_end; });
  };
  begin(1);
  executor->start({{.trial = 0}, {.trial = 1}});
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return under_way == 1; });
  lock.unlock();
  executor->allow_starts(2);
  lock.lock();
  changed.wait(lock, [&] { return under_way == 2; });
  may_end = true;
  changed.notify_all();
  lock.unlock();
  (void)next<StartAnswered>();
  (void)next<StartAnswered>();
}

}  // namespace
}  // namespace combu
