// The engine of with_supervision(): outputs, broken connections, and runs that another process goes on with.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "unit/workers_pods.hpp"
#include "workers/supervised_attempts.hpp"
#include "workers/supervised_container.hpp"

namespace combu {
namespace {

using test::error_in;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using SupervisedTest = test::SupervisedTest;
using Attempt = combu::Key;

// ---- Outputs

TEST_F(SupervisedTest, FilesOfRunningAndEndedProgramsAreCollected) {
  add("a", "mkdir " + path("out") + "; echo 1 > " + path("out/x") + "; touch " + path("ready") + "; " +
               until("go") + "; echo 2 > " + path("out/x"));
  const Attempt key = start("a");
  agent::await_state([&] { return std::filesystem::exists(path("ready")); });
  EXPECT_THAT(test::entries_of(collect(key, path("out"))), Contains(Pair("out/x", "1\n")));
  allow("go");
  await_end(key);
  EXPECT_THAT(test::entries_of(collect(key, path("out"))), Contains(Pair("out/x", "2\n")));
  EXPECT_EQ(collect(key, path("absent")), "absent");
}

class KeptVolumeTest : public SupervisedTest {
 protected:
  KeptVolumeTest() { run_.experiment.keep = Keep::volume; }
  // Starts an attempt that writes a file, and whose container then dies and begins again.
  Attempt start_and_die() {
    std::filesystem::create_directory(path("out"));
    add("a", "echo 1 > " + path("out/x") + "; touch " + path("ready") + "; sleep 100");
    const Attempt key = start("a");
    agent::await_state([&] { return std::filesystem::exists(path("ready")); });
    pods_->restart(key);
    EXPECT_EQ(await_end(key).exit_code, 128 + SIGKILL);
    return key;
  }
  std::vector<std::string> files_by(Engine& engine, const Attempt& key) {
    std::vector<std::string> contents;
    for (const auto& [name, content] : test::entries_of(collect_by(engine, key, path("out"))))
      contents.push_back(content);
    return contents;
  }
};

TEST_F(KeptVolumeTest, ADeadContainerKeepsItsOutputs) {
  const Attempt key = start_and_die();
  EXPECT_THAT(files_by(*engine_, key), Contains("1\n"));
  pods_->cut_from_agent = 600;
  EXPECT_THAT(files_by(*engine_, key), Contains("1\n")) << "after a cut";
}

TEST_F(KeptVolumeTest, AnotherOwnerCollectsTheOutputs) {
  const Attempt key = start_and_die();
  other_ = decorate();
  EXPECT_THAT(other_->check(run_, {}), IsEmpty());
  EXPECT_EQ(listed_by(*other_, key).exit_code, 128 + SIGKILL);
  EXPECT_THAT(files_by(*other_, key), Contains("1\n"));
}

TEST_F(KeptVolumeTest, AConnectionThatStallsIsTriedAgain) {
  limits_.silence_max = Seconds(0.05);
  engine_ = decorate();
  const Attempt key = start_and_die();
  pods_->is_mute = true;
  const int before = pods_->execs;
  const std::jthread recovery([&] {
    agent::await_state([&] { return pods_->execs >= before + 2; });
    pods_->is_mute = false;
  });
  EXPECT_THAT(files_by(*engine_, key), Contains("1\n"));
}

// The connection is cut at the ends of frames and inside of them.
TEST_F(SupervisedTest, AnArchiveIsCompleteAfterACutAnywhere) {
  add("a", "head -c 150000 /dev/urandom > " + path("out"));
  const Attempt key = run_to_end("a");
  const std::string whole = collect(key, path("out"));
  const std::string stream = pods_->received();
  std::vector<std::size_t> cuts;
  for (std::size_t at = 0; at + agent::k_header_size <= stream.size();) {
    std::uint32_t size = 0;
    for (std::size_t i = 4; i > 0; --i) size = (size << 8U) + static_cast<unsigned char>(stream[at + i - 1]);
    const std::size_t end = at + agent::k_header_size + size;
    for (const std::size_t cut : {at, at + 1, at + 5, at + agent::k_header_size, (at + end) / 2, end - 1})
      if (cuts.empty() || cut > cuts.back()) cuts.push_back(cut);
    at = end;
  }
  ASSERT_GT(cuts.size(), 30U);
  for (const std::size_t cut : cuts) {
    pods_->cut_from_agent = static_cast<std::int64_t>(cut);
    pods_->cut();
    EXPECT_TRUE(collect(key, path("out")) == whole) << cut << " of " << stream.size();
  }
}

TEST_F(SupervisedTest, ManyCutsOfOneArchiveDoNotMatter) {
  add("a", "head -c 3000000 /dev/urandom > " + path("out"));
  const Attempt key = run_to_end("a");
  const std::string whole = collect(key, path("out"));
  std::string archive;
  std::size_t cut_at = 0;
  int cuts = 0;
  (void)engine_->copy_out(key, path("out"),
                          [&](std::string_view bytes) {
                            archive += bytes;
                            if (archive.size() < cut_at) return;
                            cut_at = archive.size() + 100'000;
                            ++cuts;
                            pods_->cut();
                          },
                          {});
  EXPECT_TRUE(archive == whole);
  EXPECT_GT(cuts, 2);
}

TEST_F(SupervisedTest, AFileThatChangesBetweenTwoConnectionsIsNotMixed) {
  const std::string file = write("out", std::string(3'000'000, 'a'));
  add("a", until("go"));
  const Attempt key = start("a");
  bool is_first = true;
  const Error error = error_in([&] {
    (void)engine_->copy_out(key, file,
                            [&](std::string_view) {
                              if (!std::exchange(is_first, false)) return;
                              (void)write("out", std::string(3'000'000, 'b'));
                              pods_->cut();
                            },
                            {});
  });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  allow("go");
}

TEST_F(SupervisedTest, AFaultOfTheReaderEndsTheCollection) {
  add("a", "echo text > " + path("out"));
  const Attempt key = run_to_end("a");
  int calls = 0;
  const Error error = error_in([&] {
    (void)engine_->copy_out(key, path("out"),
                            [&](std::string_view) {
                              ++calls;
                              throw Error(ErrorKind::unavailable, "bucket", "away");
                            },
                            {});
  });
  EXPECT_EQ(error.subject(), "bucket");
  EXPECT_EQ(calls, 1);
}

TEST_F(SupervisedTest, ACollectionCanBeCancelled) {
  add("a", "true");
  const Attempt key = run_to_end("a");
  pods_->refuse_exec(ErrorKind::unavailable);
  pods_->cut();
  std::stop_source stop;
  std::jthread canceller([&] { stop.request_stop(); });
  const Error error = error_in([&] { (void)engine_->copy_out(key, path("out"), {}, stop.get_token()); });
  EXPECT_EQ(error.kind(), ErrorKind::cancelled);
}

TEST_F(SupervisedTest, OutputsOfAContainerThatDiesAreLost) {
  for (const std::string lost : {"", "the node is gone"}) {
    const std::string name = lost.empty() ? "a" : "b";
    (void)write("out", std::string(4'000'000, 'a'));
    add(name, "true");
    const Attempt key = run_to_end(name);
    const auto die = [&](std::string_view) {
      if (pods_->container(key).phase == Phase::running) pods_->kill(key, lost);
    };
    const Error error = error_in([&] { (void)engine_->copy_out(key, path("out"), die, {}); });
    EXPECT_EQ(error.kind(), lost.empty() ? ErrorKind::not_found : ErrorKind::lost) << error.what();
    EXPECT_THAT(error.message(), HasSubstr(lost));
    EXPECT_EQ(error_in([&] { collect(key, path("out")); }).kind(), error.kind()) << "a later try";
  }
}

TEST_F(SupervisedTest, ALateListingDoesNotHideThatAContainerRuns) {
  workers::SupervisedAttempts attempts(*pods_, {});
  Observation seen;
  seen.key = {.run = RunId("late"), .trial = "a", .attempt = 1};
  attempts.adopt(seen.key.run);
  seen.phase = Phase::running;
  EXPECT_EQ(attempts.take(seen).phase, Phase::running);
  seen.phase = Phase::pending;
  EXPECT_TRUE(has_run(attempts.take(seen).phase));
}

// No process watches the engine.
TEST_F(SupervisedTest, ADeadContainerIsFoundWithoutTheEventOfItsEnd) {
  (void)write("out", std::string(4'000'000, 'a'));
  add("a", "true");
  const Attempt key = run_to_end("a");
  end_watch();
  const auto die = [&](std::string_view) { pods_->remove(key); };
  EXPECT_EQ(error_in([&] { (void)engine_->copy_out(key, path("out"), die, {}); }).kind(),
            ErrorKind::not_found);
}

TEST_F(SupervisedTest, ARemovedContainerStillShowsThatItsHostWasLost) {
  add("a", "true");
  const Attempt key = run_to_end("a");
  pods_->kill(key, "the node is gone");
  pods_->remove(key);
  await(key, [](const Observation& seen) { return seen.phase == Phase::gone; });
  EXPECT_EQ(error_in([&] { collect(key, path("out")); }).kind(), ErrorKind::lost);
  engine_->acknowledge({key});
  EXPECT_EQ(error_in([&] { collect(key, path("out")); }).kind(), ErrorKind::not_found);
}

// ---- Connections

TEST_F(SupervisedTest, AStreamWithoutAByteIsClosedAndOpenedAgain) {
  limits_.silence_max = Seconds(0.02);
  engine_ = decorate();
  pods_->is_mute = true;
  add("a", "exit 7");
  const Attempt key = begin("a");
  agent::await_state([&] { return pods_->execs >= 3; });
  pods_->is_mute = false;
  EXPECT_EQ(await_end(key).exit_code, 7);
}

TEST_F(SupervisedTest, AnAgentThatBecomesSilentIsJoinedAgain) {
  limits_.silence_max = Seconds(0.05);
  engine_ = decorate();
  add("a", until("go") + "; exit 7");
  const Attempt key = start("a");
  const int before = pods_->execs;
  pods_->is_mute = true;
  allow("go");
  agent::await_state([&] { return pods_->execs > before; });
  pods_->is_mute = false;
  EXPECT_EQ(await_end(key).exit_code, 7);
}

TEST_F(SupervisedTest, ARefusedExecIsTriedAgain) {
  for (const ErrorKind fault : {ErrorKind::refused, ErrorKind::unavailable, ErrorKind::conflict,
                                ErrorKind::not_found, ErrorKind::timeout}) {
    pods_->refuse_exec(fault);
    const std::string name(to_string(fault));
    add(name, "exit 7");
    const Attempt key = begin(name);
    const int before = pods_->execs;
    agent::await_state([&] { return pods_->execs > before + 2; });
    pods_->refuse_exec(std::nullopt);
    EXPECT_EQ(await_end(key).exit_code, 7) << name;
  }
}

// Each case must not hang.
TEST_F(SupervisedTest, TheEndOfTheProcessDoesNotWaitForConnections) {
  const auto end = [&] {
    end_watch();
    engine_.reset();
    pods_->is_mute = pods_->is_unread = false;
    pods_->refuse_exec(std::nullopt);
    engine_ = decorate();
  };
  for (const char* name : {"mute", "unread", "refused", "files"}) add_with_input(name, "true");
  pods_->is_mute = true;
  begin("mute");
  agent::await_state([&] { return pods_->execs > 0; });
  end();
  pods_->is_unread = true;
  begin("unread");
  agent::await_state([&] { return pods_->blocked_writes > 0; });
  end();
  pods_->refuse_exec(ErrorKind::unavailable);
  begin("refused");
  end();
  // The agent does not read the files.
  std::atomic<int> puts{0};
  pods_->filter_writes([&](std::string_view bytes) {
    if (!test::is_frame(bytes, agent::FrameType::put)) return true;
    ++puts;
    pods_->is_unread = true;
    return true;
  });
  begin("files");
  agent::await_state([&] { return puts > 0 && pods_->blocked_writes > 0; });
  end();
}

TEST_F(SupervisedTest, ManyAttemptsAtOnce) {
  constexpr int k_count = 24;
  std::vector<Attempt> keys;
  for (int i = 0; i < k_count; ++i) {
    const std::string number = std::to_string(i);
    Trial& trial = add_with_input("a" + number, "cat " + path("in" + number) + " > " + path("out" + number));
    trial.inputs[0].to = path("in" + number);
  }
  for (const Trial& trial : run_.experiment.trials) keys.push_back(begin(trial.name));
  pods_->cut();
  in_parallel(keys.size(), 4, [&](std::size_t i) {
    await_end(keys[i]);
    EXPECT_THAT(test::entries_of(collect(keys[i], path("out" + std::to_string(i)))),
                Contains(Pair("out" + std::to_string(i), "brought\n")));
    engine_->acknowledge({keys[i]});
    EXPECT_EQ(pods_->exit_code(keys[i]), 0);
  });
}

// ---- Other processes

TEST_F(SupervisedTest, AnotherProcessCollectsTheOutputs) {
  add("a", "echo text > " + path("out"));
  const Attempt key = run_to_end("a");
  end_watch();
  engine_.reset();
  other_ = decorate();
  EXPECT_EQ(listed_by(*other_, key).exit_code, 0);
  EXPECT_THAT(test::entries_of(collect_by(*other_, key, path("out"))), Contains(Pair("out", "text\n")));
  other_->acknowledge({key});
  EXPECT_EQ(pods_->exit_code(key), 0);
}

TEST_F(SupervisedTest, AnotherProcessCollectsWithoutAListing) {
  add("a", "echo text > " + path("out"));
  const Attempt key = run_to_end("a");
  other_ = decorate();
  EXPECT_THAT(test::entries_of(collect_by(*other_, key, path("out"))), Contains(Pair("out", "text\n")));
}

// Whoever lists the attempts of a run must not disturb its owner, which is about to send the files.
TEST_F(SupervisedTest, AProcessThatIsNotTheOwnerLeavesAnAgentAlone) {
  add_with_input("a", "cat " + path("in/input"));
  pods_->is_full = true;
  const Attempt key = begin("a");
  end_watch();
  pods_->refuse_exec(ErrorKind::unavailable);
  pods_->place(key);
  watch();
  await(key, [](const Observation& seen) { return !seen.placement.pending_reason.empty(); });
  std::atomic<bool> is_owner_silent{true};
  pods_->filter_writes([&](std::string_view bytes) {
    return !is_owner_silent || !test::is_frame(bytes, agent::FrameType::start);
  });
  pods_->refuse_exec(std::nullopt);
  other_ = decorate();
  const Observation seen = listed_by(*other_, key);
  EXPECT_EQ(seen.phase, Phase::pending);
  EXPECT_EQ(seen.lost, "");
  is_owner_silent = false;
  pods_->cut();
  await_end(key);
  EXPECT_EQ(pods_->stops, 0);
  EXPECT_EQ(text_of_log(key), "brought\n");
}

// The engine makes a second container for the same attempt, because it could not start the first one.
TEST_F(SupervisedTest, ASecondContainerOfAnAttemptGetsItsFiles) {
  add_with_input("a", "cat " + path("in/input"));
  workers::SupervisedAttempts attempts(*pods_, limits_);
  const Attempt key = key_of("a");
  attempts.expect(key, workers::files_of(run_.experiment.trials[0]));
  Observation first;
  first.key = key;
  first.id = "first";
  first.placement.supervisor_report.emplace();
  first.placement.awaits_delivery = true;
  first.phase = Phase::gone;
  EXPECT_EQ(attempts.take(first).phase, Phase::gone);
  first.phase = Phase::running;
  EXPECT_EQ(attempts.take(first).phase, Phase::pending);
  const Trial container =
      workers::supervised_container(run_.experiment.trials[0], workers::Supervision::files, {},
                                    std::make_shared<const ProvidedProgram>(), {});
  (void)pods_->start(run_, container, 1, {});
  EXPECT_EQ(attempts.take(pods_->container(key)).phase, Phase::pending);
  first.phase = Phase::gone;
  EXPECT_EQ(attempts.take(first).phase, Phase::gone) << "a late report";
  agent::await_state([&] { return agent::text_of(path("a-1.log")) == "brought\n"; });
}

class UndeliveredTest : public SupervisedTest {
 protected:
  // The owner of the run has ended before it could send the files.
  void leave_undelivered() {
    add_with_input("a", "true");
    pods_->refuse_exec(ErrorKind::unavailable);
    key_ = begin("a");
    await(key_, [](const Observation& seen) { return !seen.placement.pending_reason.empty(); });
    end_watch();
    engine_.reset();
    pods_->refuse_exec(std::nullopt);
    engine_ = decorate();
  }
  Attempt key_;
};

TEST_F(UndeliveredTest, AnAgentThatDoesNotAnswerMayNotHaveBegun) {
  limits_.listing_max = Seconds(0.01);
  leave_undelivered();
  pods_->refuse_exec(ErrorKind::unavailable);
  EXPECT_EQ(listed(key_).phase, Phase::pending) << "the record must not get that the program runs";
  EXPECT_THAT(listed(key_).placement.pending_reason,
              HasSubstr("which the process that drives the run sends"));
}

// The planner then repeats the start.
TEST_F(UndeliveredTest, ALaterOwnerReportsTheAttemptAsCreated) {
  leave_undelivered();
  EXPECT_THAT(engine_->check(run_, {}), IsEmpty());
  const Observation seen = listed(key_);
  EXPECT_EQ(seen.phase, Phase::created);
  EXPECT_FALSE(seen.ran_at);
  engine_->start(run_, run_.experiment.trials[0], 1, {});
  watch();
  EXPECT_EQ(await_end(key_).exit_code, 0);
  EXPECT_EQ(pods_->stops, 0);
}

TEST_F(UndeliveredTest, AListingBeforeTheProcessBecomesTheOwnerChangesNothing) {
  leave_undelivered();
  EXPECT_EQ(listed(key_).phase, Phase::pending);
  EXPECT_THAT(engine_->check(run_, {}), IsEmpty());
  EXPECT_EQ(listed(key_).phase, Phase::created);
}

TEST_F(UndeliveredTest, AWatchingOwnerIsTold) {
  leave_undelivered();
  watch();
  EXPECT_EQ(listed(key_).phase, Phase::pending);
  EXPECT_THAT(engine_->check(run_, {}), IsEmpty());
  await(key_, [](const Observation& seen) { return seen.phase == Phase::created; });
}

TEST_F(UndeliveredTest, AnAttemptIsPendingUntilItsAgentAnswers) {
  limits_.listing_max = Seconds(0.01);
  leave_undelivered();
  EXPECT_THAT(engine_->check(run_, {}), IsEmpty());
  pods_->refuse_exec(ErrorKind::unavailable);
  EXPECT_EQ(listed(key_).phase, Phase::pending);
  watch();
  pods_->refuse_exec(std::nullopt);
  await(key_, [](const Observation& seen) { return seen.phase == Phase::created; });
}

TEST_F(UndeliveredTest, ARepeatedStartSendsTheFiles) {
  leave_undelivered();
  engine_->start(run_, run_.experiment.trials[0], 1, {});
  watch();
  EXPECT_EQ(await_end(key_).exit_code, 0);
  EXPECT_EQ(pods_->stops, 0);
}

}  // namespace
}  // namespace combu
