// Inputs that the attempts of a worker share, on an engine that does not copy files: with the real agent in
// containers that are processes of this machine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "combu/inputs.hpp"
#include "unit/workers_pods.hpp"
#include "workers/staging.hpp"

namespace combu {
namespace {

using test::error_in;
using test::trial;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class StagingTest : public test::SupervisedTest {
 protected:
  StagingTest() {
    engine_ = with_workers(*pods_, [](std::string_view) { return std::string_view("agent"); });
  }
  // Adds a trial in a worker, which has the file path("from") as path("in/x").
  Trial& add_to_worker(const std::string& name, const std::string& script) {
    Trial& one = add(name, script);
    one.outputs = {};
    one.worker = WorkerSettings{.on = true};
    one.inputs = {Input{.from = write("from", "brought\n"), .to = path("in/x")}};
    return one;
  }
  Observation start_in_worker(const std::string& name, const std::stop_token& stop = {}) {
    const Trial& one = *std::ranges::find(run_.experiment.trials, name, &Trial::name);
    return std::get<Running>(engine_->start(run_, one, 1, stop)).observation;
  }
  [[nodiscard]] std::string script() const { return "cat " + path("in/x"); }
  std::string log_of(const std::string& name) {
    await_end(key_of(name));
    return text_of_log(key_of(name));
  }
  [[nodiscard]] Key worker(int number) const {
    return {.run = run_.id, .trial = "combu-worker-run1-" + std::to_string(number), .attempt = 1};
  }
};

TEST_F(StagingTest, AWorkerGetsItsInputsOnceBeforeItsFirstAttempt) {
  add_to_worker("a", script());
  add_to_worker("b", script());
  watch();
  const Observation first = start_in_worker("a");
  EXPECT_THAT(first.inputs, ElementsAre(content_digest(run_.experiment.trials[0].inputs[0])));
  EXPECT_EQ(log_of("a"), "brought\n");
  (void)write("from", "changed\n");
  EXPECT_EQ(start_in_worker("b").inputs, first.inputs);
  EXPECT_EQ(log_of("b"), "brought\n");
}

TEST_F(StagingTest, AMissingInputIsRefusedBeforeTheWorkerStarts) {
  add_to_worker("a", script());
  std::filesystem::remove(path("from"));
  const Error error = error_in([&] { start_in_worker("a"); });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_EQ(error.message(), path("from") + " is not there");
  EXPECT_THAT(pods_->list({}, ListDetail::full, {}), IsEmpty());
}

TEST_F(StagingTest, AnInputThatCannotBeWrittenIsRefused) {
  add_to_worker("a", script()).inputs.front().to = "/proc/none/x";
  const Error error = error_in([&] { start_in_worker("a"); });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_THAT(error.message(), HasSubstr("proc/none/x: No such file or directory"));
}

TEST_F(StagingTest, ACutConnectionEndsTheStart) {
  for (const std::int64_t after : {0, 600}) {
    add_to_worker("a" + std::to_string(after), script());
    pods_->cut_to_agent = after;
    EXPECT_EQ(error_in([&] { start_in_worker("a" + std::to_string(after)); }).kind(), ErrorKind::unavailable);
  }
  pods_->cut_from_agent = 3;
  add_to_worker("b", script());
  EXPECT_EQ(error_in([&] { start_in_worker("b"); }).kind(), ErrorKind::unavailable);
}

TEST_F(StagingTest, AStopTokenCancelsTheStart) {
  add_to_worker("a", script());
  pods_->is_mute = true;
  std::stop_source stop;
  const std::jthread canceller([&] {
    agent::await_state([&] { return pods_->execs > 0; });
    stop.request_stop();
  });
  EXPECT_EQ(error_in([&] { start_in_worker("a", stop.get_token()); }).kind(), ErrorKind::cancelled);
}

TEST_F(StagingTest, AConnectionThatStallsBreaks) {
  const Trial& one = add_to_worker("a", "true");
  Trial container = trial("container", "sleep 100");
  container.process.entrypoint = std::vector<std::string>();
  (void)pods_->start(run_, container, 1, {});
  const auto stage = [&] {
    return error_in(
        [&] { (void)workers::stage_inputs(*pods_, key_of("container"), one, Seconds(0.05), {}); });
  };
  pods_->is_mute = true;  // the answer is missing
  EXPECT_EQ(stage().kind(), ErrorKind::unavailable);
  EXPECT_EQ(stage().message(), "no progress for 0.05 s while the inputs were copied into the container");
  pods_->is_unread = true;
  EXPECT_EQ(stage().kind(), ErrorKind::unavailable);
  EXPECT_EQ(stage().message(), "no progress for 0.05 s while the inputs were copied into the container");
}

// No start waits for the container any more when it begins to run.
TEST_F(StagingTest, AWorkerThatBeginsLateGetsItsInputs) {
  for (const std::string name : {"a", "b", "c"})
    add_to_worker(name, name == "b" ? script() : until("go-" + name));
  watch();
  start_in_worker("a");
  pods_->is_full = true;
  auto second = std::async(std::launch::async, [&] { start_in_worker("b"); });
  agent::await_state(
      [&] { return pods_->list({.trials = {worker(2).trial}}, ListDetail::full, {}).size() == 1; });
  allow("go-a");
  second.get();
  EXPECT_EQ(log_of("b"), "brought\n");
  start_in_worker("c");  // uses the first worker
  std::filesystem::remove(path("in/x"));
  pods_->place(worker(2));
  agent::await_state([&] { return std::filesystem::exists(path("in/x")); });
  allow("go-c");
}

}  // namespace
}  // namespace combu
