// The engine of with_supervision() over containers that are processes of this machine, with the real agent.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "combu/inputs.hpp"
#include "unit/workers_pods.hpp"

namespace combu {
namespace {

using test::error_in;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

using SupervisedTest = test::SupervisedTest;
using Attempt = combu::Key;

// ---- Starts

TEST_F(SupervisedTest, ATrialWithoutFilesHasAContainerWithoutAgent) {
  add("a", "exit 3").outputs.clear();
  const Attempt key = run_to_end("a");
  EXPECT_FALSE(is_supervised(listed(key)));
  EXPECT_EQ(listed(key).exit_code, 3);
  EXPECT_EQ(pods_->execs, 0);
  EXPECT_EQ(text_of_log(key), "from the engine\n");
  EXPECT_EQ(engine_->usage(listed(key).id, {})->memory.count, 1);
  EXPECT_EQ(error_in([&] { collect(key, "/out"); }).kind(), ErrorKind::refused);
}

TEST_F(SupervisedTest, TheEngineBelowChecksTheContainersWithTheAgent) {
  add("a", "true");
  add("b", "true").outputs.clear();
  EXPECT_THAT(engine_->check(run_, {}), IsEmpty());
  ASSERT_THAT(pods_->checked, SizeIs(2));
  EXPECT_EQ(pods_->checked[0].process.entrypoint->front(), "/combu/agent/agent");
  EXPECT_EQ(pods_->checked[0].outputs.size(), 0U);
  EXPECT_EQ(pods_->checked[1].process.entrypoint, std::vector<std::string>());
}

// The process that starts the trial need not be the one that has prepared the run.
TEST_F(SupervisedTest, TheAgentRunsTheEntrypointOfTheImage) {
  pods_->image_program = {.entrypoint = {"sh", "-c"}, .cmd = {"echo unused"}};
  for (const char* name : {"a", "b"}) {
    Process& process = add(name, "").process;
    process.entrypoint.reset();
    process.cmd = {"echo from the image"};
    EXPECT_EQ(text_of_log(run_to_end(name)), "from the image\n");
  }
  EXPECT_EQ(pods_->prepares, 1);
}

TEST_F(SupervisedTest, AnAttemptIsPendingUntilItsInputsHaveArrived) {
  Trial& trial = add_with_input("a", "cat " + path("in/input"));
  pods_->is_full = true;
  const Attempt key = begin("a");
  EXPECT_EQ(await(key, [](const Observation&) { return true; }).phase, Phase::pending);
  pods_->refuse_exec(ErrorKind::unavailable);
  pods_->place(key);
  const Observation waiting =
      await(key, [](const Observation& seen) { return !seen.placement.pending_reason.empty(); });
  EXPECT_EQ(waiting.phase, Phase::pending);
  EXPECT_FALSE(waiting.ran_at);
  pods_->refuse_exec(std::nullopt);
  const Observation running =
      await(key, [](const Observation& seen) { return seen.phase == Phase::running; });
  EXPECT_TRUE(running.ran_at);
  EXPECT_TRUE(running.start_took);
  EXPECT_EQ(running.inputs, pack_inputs(trial.inputs, {}, [](std::string_view) { return true; }));
  await_end(key);
  EXPECT_EQ(text_of_log(key), "brought\n");
}

// The bytes that would be unpacked outside of the test's folder are not passed on.
TEST_F(SupervisedTest, TheParamsAreAFileOfTheArchive) {
  Trial& trial = add_with_input("a", "true");
  trial.params_file = true;
  trial.params = R"({"rate": 3})";
  std::mutex mutex;
  std::string archive;
  bool is_whole = false;
  pods_->filter_writes([&](std::string_view bytes) {
    agent::FrameReader reader;
    reader.feed(bytes);
    agent::Frame frame;
    bool is_put = false;
    const std::scoped_lock lock(mutex);
    while (reader.next(frame) == agent::FrameReader::Result::frame) {
      agent::Put put;
      if (frame.type != agent::FrameType::put || !agent::decode(frame.payload, put)) continue;
      is_put = true;
      archive += put.bytes;
      is_whole = is_whole || put.is_last != 0;
    }
    return !is_put;
  });
  begin("a");
  agent::await_state([&] {
    const std::scoped_lock lock(mutex);
    return is_whole;
  });
  const auto entries = test::entries_of(archive);
  EXPECT_THAT(entries, Contains(Pair("combu/params.json", trial.params)));
  EXPECT_THAT(entries, Contains(Pair(path("in/input").substr(1), "brought\n")));
  end_watch();
  engine_.reset();
}

TEST_F(SupervisedTest, AnEngineMayReportTheContainerAtOnce) {
  add_with_input("a", "cat " + path("in/input"));
  pods_->places = false;
  const Attempt key = run_to_end("a");
  EXPECT_EQ(text_of_log(key), "brought\n");
}

TEST_F(SupervisedTest, AStartWhoseAnswerWasLostIsRepeated) {
  add_with_input("a", "cat " + path("in/input"));
  pods_->is_answer_lost = true;
  EXPECT_EQ(error_in([&] { begin("a"); }).kind(), ErrorKind::timeout);
  EXPECT_EQ(text_of_log(run_to_end("a")), "brought\n");
}

TEST_F(SupervisedTest, AMissingInputIsRefusedBeforeTheStart) {
  add("a", "true").inputs = {Input{.from = path("absent"), .to = path("in")}};
  const Error error = error_in([&] { (void)begin("a"); });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_THAT(error.what(), HasSubstr("absent is not there"));
}

TEST_F(SupervisedTest, AnInputThatIsRemovedLaterFailsTheStart) {
  add("a", "true").inputs = {Input{.from = write("removed", "text"), .to = path("in")}};
  pods_->is_full = true;
  const Attempt key = begin("a");
  std::filesystem::remove(path("removed"));
  pods_->failing_stops = 2;
  pods_->place(key);
  const Observation ended = await_end(key);
  EXPECT_THAT(ended.placement.start_error, HasSubstr("removed is not there"));
  EXPECT_FALSE(ended.exit_code);
  EXPECT_EQ(pods_->exit_code(key), 128 + SIGTERM) << "its container is stopped";
  EXPECT_THAT(listed(key).placement.start_error, HasSubstr("removed is not there"));
  EXPECT_EQ(pods_->stops, 1);
}

TEST_F(SupervisedTest, TheHealthOfAContainerCountsWhenItsProgramHasBegun) {
  add_with_input("a", until("go"));
  pods_->health = Health::unhealthy;
  pods_->is_full = true;
  const Attempt key = begin("a");
  pods_->place(key);
  EXPECT_EQ(await(key, [](const Observation& seen) { return seen.phase == Phase::running; }).health,
            Health::starting);
  end_watch();
  other_ = decorate();
  EXPECT_EQ(listed_by(*other_, key).health, Health::unhealthy) << "the program has begun before";
  allow("go");
}

TEST_F(SupervisedTest, AProgramThatCannotBeStartedIsNamed) {
  Trial& trial = add_with_input("a", "");
  trial.process.cmd = {"/no/program"};
  pods_->hides_ends = true;  // so that the reason comes from the agent's message
  const Attempt key = begin("a");
  EXPECT_THAT(await_end(key).placement.start_error,
              HasSubstr("the program \"/no/program\" cannot be executed: No such file"));
  pods_->hides_ends = false;
  EXPECT_EQ(pods_->exit_code(key), 127);
}

TEST_F(SupervisedTest, AConnectionThatBreaksWhileInputsAreSentIsRepeated) {
  const std::string text(300'000, 'x');
  std::vector<Attempt> keys;
  for (const std::int64_t bytes : {0, 10, 30, 60, 100, 5'000, 65'536, 131'000, 301'000}) {
    const std::string name = "a" + std::to_string(bytes);
    add_with_input(name, "wc -c < " + path("in/input"), text);
    pods_->cut_to_agent = bytes;
    const Attempt key = run_to_end(name);
    EXPECT_EQ(text_of_log(key), "300000\n") << bytes;
  }
  EXPECT_EQ(pods_->cut_to_agent, test::k_all_bytes);
  EXPECT_GE(pods_->execs, 2 * 9);
}

// ---- Ends

TEST_F(SupervisedTest, TheEndIsReportedThoughTheContainerRuns) {
  add("a", "exit 7");
  const Attempt key = begin("a");
  const Observation ended = await_end(key);
  EXPECT_EQ(ended.exit_code, 7);
  EXPECT_TRUE(ended.ended_at);
  EXPECT_TRUE(ended.ran_at);
  EXPECT_TRUE(ended.is_unacknowledged);
  EXPECT_TRUE(ended.usage);
  EXPECT_EQ(pods_->container(key).phase, Phase::running);
  EXPECT_EQ(listed(key).phase, Phase::ended);
}

TEST_F(SupervisedTest, AcknowledgedContainersEndWithTheCodeOfTheProgram) {
  add("a", "exit 7");
  const Attempt key = run_to_end("a");
  engine_->acknowledge({key});
  EXPECT_EQ(pods_->exit_code(key), 7);
  EXPECT_EQ(listed(key).exit_code, 7);
  EXPECT_THAT(pods_->acknowledged, IsEmpty()) << "the engine below does not keep the container";
}

TEST_F(SupervisedTest, TheEngineBelowForgetsTheContainersThatItKeeps) {
  pods_->keeps_results = true;
  add("a", until("go"));
  const Attempt key = start("a");
  EXPECT_FALSE(listed(key).is_unacknowledged) << "the program runs";
  allow("go");
  EXPECT_TRUE(await_end(key).is_unacknowledged);
  engine_->acknowledge({key});
  EXPECT_THAT(pods_->acknowledged, ElementsAre(key));
  EXPECT_EQ(pods_->exit_code(key), 0);
}

TEST_F(SupervisedTest, AnAgentThatCannotBeReachedIsAcknowledgedLater) {
  add("a", "exit 7");
  const Attempt key = run_to_end("a");
  pods_->refuse_exec(ErrorKind::unavailable);
  const int before = pods_->execs;
  pods_->cut();
  agent::await_state([&] { return pods_->execs > before; });
  engine_->acknowledge({key});
  pods_->refuse_exec(std::nullopt);
  EXPECT_EQ(pods_->exit_code(key), 7);
}

TEST_F(SupervisedTest, ATimeoutIsReported) {
  add("a", "sleep 100").timeout = Seconds(0.05);
  const Observation ended = await_end(begin("a"));
  EXPECT_TRUE(ended.timed_out);
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM);
}

// The container has ended before the agent could be reached.
TEST_F(SupervisedTest, TheReportOfAnAgentThatHasEndedCounts) {
  pods_->refuse_exec(ErrorKind::unavailable);
  for (const char* name : {"ended", "killed", "program", "inputs", "late", "lost"}) add(name, "sleep 100");
  const auto end = [&](const std::string& name, const std::string& lost, const std::string& report) {
    const Attempt key = start(name);
    pods_->kill(key, lost, report);
    return await_end(key);
  };
  const Observation ended = end("ended", "", "combu-agent ended flags=1 cpu_ns=5000000000 memory_peak=7");
  EXPECT_TRUE(ended.timed_out);
  EXPECT_FALSE(ended.stopped);
  ASSERT_TRUE(ended.usage);
  EXPECT_EQ(ended.usage->memory.count, 7);
  EXPECT_EQ(ended.usage->cpu, Seconds(5));
  EXPECT_TRUE(ended.placement.start_error.empty());
  EXPECT_EQ(end("killed", "", "").exit_code, 128 + SIGKILL);
  const Observation program = end("program", "", "combu-agent refused stage=3 code=2 /no/program");
  EXPECT_EQ(program.placement.start_error,
            "the program \"/no/program\" cannot be executed: No such file or directory; correct `cmd` or the "
            "image");
  EXPECT_FALSE(program.exit_code);
  EXPECT_EQ(end("inputs", "", "combu-agent refused stage=4 code=0 in/a b: full").placement.start_error,
            "the inputs cannot be unpacked: in/a b: full");
  EXPECT_THAT(end("late", "", "combu-agent not begun").lost, HasSubstr("combu ended before it had sent"));
  EXPECT_EQ(end("lost", "the node is gone", "combu-agent ended flags=1").timed_out, false);
}

TEST_F(SupervisedTest, AnEndThatIsKnownStaysIfTheHostIsLostLater) {
  add("a", "exit 0");
  const Attempt key = run_to_end("a");
  pods_->kill(key, "the node is gone");
  const Observation seen = await_end(key);
  EXPECT_EQ(seen.lost, "");
  EXPECT_EQ(seen.exit_code, 0);
}

// ---- Stops

TEST_F(SupervisedTest, AStoppedProgramKeepsItsFiles) {
  add("a", "echo text > " + path("out") + "; exec sleep 100");
  const Attempt key = start("a");
  agent::await_state([&] { return agent::text_of(path("out")) == "text\n"; });
  engine_->stop(key, std::nullopt, {});
  const Observation ended = await_end(key);
  EXPECT_TRUE(ended.stopped);
  EXPECT_EQ(ended.exit_code, 128 + SIGTERM);
  EXPECT_THAT(test::entries_of(collect(key, path("out"))), Contains(Pair("out", "text\n")));
  engine_->stop(key, std::nullopt, {});  // has ended
  EXPECT_EQ(pods_->stops, 0);
}

TEST_F(SupervisedTest, AGracePeriodOfZeroKills) {
  add("a", "trap '' TERM; touch " + path("ready") + "; while :; do sleep 0.01; done");
  const Attempt key = start("a");
  agent::await_state([&] { return std::filesystem::exists(path("ready")); });
  engine_->stop(key, Seconds(0), {});
  EXPECT_EQ(await_end(key).exit_code, 128 + SIGKILL);
}

TEST_F(SupervisedTest, AStopByAnotherProcessKeepsTheFiles) {
  add("a", "echo text > " + path("out") + "; exec sleep 100");
  const Attempt key = start("a");
  agent::await_state([&] { return agent::text_of(path("out")) == "text\n"; });
  other_ = decorate();
  other_->stop(key, std::nullopt, {});
  EXPECT_TRUE(await_end(key).stopped);
  EXPECT_THAT(test::entries_of(collect(key, path("out"))), Contains(Pair("out", "text\n")));
  EXPECT_EQ(pods_->stops, 0);
}

TEST_F(SupervisedTest, AnAgentThatAwaitsFilesIsStopped) {
  add_with_input("a", "true");
  std::atomic<int> puts{0};
  pods_->filter_writes([&](std::string_view bytes) {
    const bool is_put = test::is_frame(bytes, agent::FrameType::put);
    puts += is_put ? 1 : 0;
    return !is_put;
  });
  const Attempt key = begin("a");
  agent::await_state([&] { return puts > 1; });
  engine_->stop(key, std::nullopt, {});
  EXPECT_EQ(pods_->exit_code(key), 128 + SIGTERM);
  const Observation ended = await_end(key);
  EXPECT_TRUE(ended.stopped);
  EXPECT_EQ(ended.placement.start_error, "");
  EXPECT_EQ(pods_->stops, 1);
}

TEST_F(SupervisedTest, AContainerWhoseAgentDoesNotAnswerIsStopped) {
  limits_.listing_max = Seconds(0.05);
  engine_ = decorate();
  pods_->refuse_exec(ErrorKind::unavailable);
  add("a", "exec sleep 100");
  const Attempt key = start("a");
  engine_->stop(key, std::nullopt, {});
  EXPECT_EQ(pods_->exit_code(key), 128 + SIGTERM);
}

TEST_F(SupervisedTest, NoCallWaitsForAnAgentIfTheEngineRefusesTheConnection) {
  limits_.listing_max = Seconds(600);
  engine_ = decorate();
  pods_->refuse_exec(ErrorKind::refused);
  add("a", "exec sleep 100");
  const Attempt key = start("a");
  EXPECT_EQ(listed(key).phase, Phase::running);
  EXPECT_EQ(text_of_log(key), "from the engine\n");
  engine_->stop(key, std::nullopt, {});
  EXPECT_EQ(pods_->exit_code(key), 128 + SIGTERM);
}

// ---- Logs and usage

TEST_F(SupervisedTest, TheLogHasBothStreams) {
  add("a", "echo out; echo err >&2");
  const Attempt key = run_to_end("a");
  EXPECT_EQ(text_of_log(key, {}, LogStream::out), "out\n");
  EXPECT_EQ(text_of_log(key, {}, LogStream::err), "err\n");
}

TEST_F(SupervisedTest, TheLastLinesAndLaterLinesOfALog) {
  add("a", "echo 1; echo 2; " + until("go") + "; echo 3");
  const Attempt key = start("a");
  agent::await_state([&] { return text_of_log(key) == "1\n2\n"; });
  EXPECT_EQ(text_of_log(key, {.tail = 1}), "2\n");
  Instant last{};
  engine_->logs(key, {.timed = true}, [&](const LogPiece& piece) { last = piece.at; }, {});
  allow("go");
  await_end(key);
  EXPECT_EQ(text_of_log(key, {.since = last + Instant::duration(1)}), "3\n");
  EXPECT_EQ(text_of_log(key, {.tail = 2}), "2\n3\n");
}

TEST_F(SupervisedTest, ALogIsFollowedToTheEndOfTheProgram) {
  add("a", "echo 1; " + until("go") + "; echo 2");
  const Attempt key = start("a");
  std::string text;
  engine_->logs(key, {.follow = true},
                [&](const LogPiece& piece) {
                  text += piece.text;
                  allow("go");
                },
                {});
  EXPECT_EQ(text, "1\n2\n");
  EXPECT_EQ(pods_->container(key).phase, Phase::running);
}

TEST_F(SupervisedTest, AnotherProcessReadsTheLog) {
  add("a", "echo text");
  const Attempt key = run_to_end("a");
  other_ = decorate();
  std::string text;
  other_->logs(key, {}, [&](const LogPiece& piece) { text += piece.text; }, {});
  EXPECT_EQ(text, "text\n");
}

TEST_F(SupervisedTest, AnAttemptThatAwaitsFilesHasAnEmptyLog) {
  add_with_input("a", "echo text");
  pods_->is_unread = true;
  const Attempt key = begin("a");
  agent::await_state([&] { return pods_->blocked_writes > 0; });
  std::atomic<bool> is_held{true};
  pods_->filter_writes(
      [&](std::string_view bytes) { return !is_held || !test::is_frame(bytes, agent::FrameType::put); });
  pods_->is_unread = false;
  EXPECT_EQ(text_of_log(key), "");
  std::jthread sender([&] {
    is_held = false;
    pods_->cut();
  });
  EXPECT_EQ(text_of_log(key, {.follow = true}), "text\n");
}

TEST_F(SupervisedTest, TheEngineBelowHasTheLogOfAnEndedContainer) {
  add("a", "echo text");
  const Attempt key = run_to_end("a");
  engine_->acknowledge({key});
  (void)pods_->exit_code(key);
  (void)listed(key);
  EXPECT_EQ(text_of_log(key), "from the engine\n");
}

TEST_F(SupervisedTest, TheUsageIsThatOfTheProgram) {
  add("a", "exec sleep 100");
  const Attempt key = start("a");
  const std::string id = listed(key).id;
  agent::await_state([&] {
    const auto usage = engine_->usage(id, {});
    return usage && usage->memory.count > 1;
  });
  engine_->stop(key, std::nullopt, {});
  await_end(key);
  EXPECT_FALSE(engine_->usage(id, {}));
}

}  // namespace
}  // namespace combu
