// The parts of workers that need no engine: names, notes, containers, limits, logs, signals, results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <limits>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "combu/workers.hpp"
#include "error_of.hpp"
#include "experiments.hpp"
#include "passing_engine.hpp"
#include "raw_archive.hpp"
#include "workers/container.hpp"
#include "workers/results_file.hpp"
#include "workers/worker.hpp"

namespace combu::workers {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Trial in_worker(const std::string& name, std::size_t concurrency = 1) {
  Trial trial = test::trial(name);
  trial.worker = combu::WorkerSettings{.on = true, .concurrency = concurrency};
  return trial;
}

TEST(WorkerNames, ContainTheRunAndTheNumber) {
  const RunId run("3k9x0q2m7abc");
  EXPECT_EQ(worker_name(run, 12), "combu-worker-3k9x0q2m7abc-12");
  EXPECT_EQ(number_of_worker(run, "combu-worker-3k9x0q2m7abc-12"), 12U);
  EXPECT_TRUE(is_worker_name("combu-worker-3k9x0q2m7abc-12"));
  EXPECT_FALSE(is_worker_name("solver-combu-worker-1"));
  for (const char* other : {"combu-worker-3k9x0q2m7abc-", "combu-worker-3k9x0q2m7abc-1x",
                            "combu-worker-other-1", "combu-worker-3k9x0q2m7abc--1", "t1"})
    EXPECT_EQ(number_of_worker(run, other), std::nullopt) << other;
}

TEST(WorkerNotes, AreReadAsTheyWereWritten) {
  const Note note = parse_note(to_text({.concurrency = 4, .shape = "abc"}));
  EXPECT_EQ(note.concurrency, 4U);
  EXPECT_EQ(note.shape, "abc");
  for (const char* strange : {"", " ", "x", "0 abc", "-1 abc", "99999999999999999999999 abc"})
    EXPECT_GE(parse_note(strange).concurrency, 1U) << strange;
}

TEST(WorkerNotes, DifferForTrialsThatCannotShareAWorker) {
  const Trial one = in_worker("a");
  Trial other = in_worker("b");
  EXPECT_EQ(note_of(one).shape, note_of(other).shape);
  other.process.cmd = {"another"};
  other.process.env = {{"A", "b"}};
  EXPECT_EQ(note_of(one).shape, note_of(other).shape);
  other.slots.cpus.nano = 1;
  EXPECT_NE(note_of(one).shape, note_of(other).shape);
}

TEST(WorkerContainers, RunTheAgentWithTheSlotsOfAllPlaces) {
  Trial trial = in_worker("a", 3);
  trial.slots = {Cpus{2'000'000'000}, Bytes{100}};
  trial.process.user = "1000:1000";
  trial.inputs = {{.from = "/shared", .to = "/data"}, {.from = "/own", .to = "x", .in_scratch = true}};
  trial.worker = combu::WorkerSettings{.on = true, .concurrency = 3, .idle = Seconds(0.2)};
  const Trial container = container_of(trial, "combu-worker-r-1", nullptr);
  EXPECT_EQ(container.name, "combu-worker-r-1");
  ASSERT_TRUE(container.process.entrypoint);
  EXPECT_THAT(*container.process.entrypoint,
              ElementsAre(k_program, "worker", k_folder, "1", to_text(note_of(trial))));
  EXPECT_FALSE(container.process.cmd);
  EXPECT_EQ(container.process.user, "1000:1000");
  EXPECT_FALSE(container.process.init);
  EXPECT_EQ(container.slots.cpus.nano, 6'000'000'000);
  EXPECT_EQ(container.slots.memory.count, 300);
  ASSERT_EQ(container.inputs.size(), 1U);
  EXPECT_EQ(container.inputs[0].to, "/data");
  EXPECT_TRUE(container.has_own_container());
  EXPECT_EQ(divided(container.slots, 3).memory.count, 100);
}

TEST(WorkerArguments, FollowTheRulesOfDocker) {
  const ImageProgram image{.entrypoint = {"/entry", "-x"}, .cmd = {"run"}};
  Trial trial = in_worker("a");
  trial.process.cmd = std::nullopt;
  EXPECT_THAT(argv_of(trial, image), ElementsAre("/entry", "-x", "run"));
  trial.process.cmd = {"other", "1"};
  EXPECT_THAT(argv_of(trial, image), ElementsAre("/entry", "-x", "other", "1"));
  trial.process.entrypoint = {"/mine"};
  EXPECT_THAT(argv_of(trial, image), ElementsAre("/mine", "other", "1"));
  trial.process.cmd = std::nullopt;
  EXPECT_THAT(argv_of(trial, image), ElementsAre("/mine"));
  trial.process.entrypoint = std::vector<std::string>();
  EXPECT_THAT(argv_of(trial, image), IsEmpty());
}

TEST(WorkerLimits, CountTheWorkersThatTheSlotsAllow) {
  const Slots capacity{Cpus{8'000'000'000}, Bytes{1000}};
  Trial trial = in_worker("a", 2);
  EXPECT_EQ(count_max(trial, capacity), 8U) << "one for each CPU";
  trial.slots.cpus.nano = 1'500'000'000;
  EXPECT_EQ(count_max(trial, capacity), 2U);
  trial.slots.memory.count = 300;
  EXPECT_EQ(count_max(trial, capacity), 1U);
  trial.slots.memory.count = 501;
  EXPECT_EQ(count_max(trial, capacity), 0U);
  trial.slots = {};
  trial.worker = combu::WorkerSettings{.on = true, .count = 3};
  EXPECT_EQ(count_max(trial, capacity), 3U);
  trial.gpus = GpuRequest{.count = 1};
  trial.worker = combu::WorkerSettings{.on = true};
  EXPECT_EQ(count_max(trial, capacity), std::numeric_limits<std::size_t>::max()) << "the GPUs limit them";
}

TEST(WorkerLimits, HoldForTheTrialsOfOneShape) {
  Experiment experiment{.name = "e", .file = "/e"};
  experiment.trials = {in_worker("a", 2), test::trial("b"), in_worker("c", 2), in_worker("d", 1)};
  const Slots capacity{Cpus{3'000'000'000}, Bytes{1000}};
  const std::vector<StartLimit> limits = limits_of(experiment, capacity);
  ASSERT_EQ(limits.size(), 2U);
  EXPECT_EQ(limits[0].attempts_max, 6U);
  EXPECT_THAT(limits[0].trials, ElementsAre(0, 2));
  EXPECT_EQ(limits[1].attempts_max, 3U);
  EXPECT_THAT(limits[1].trials, ElementsAre(3));
}

TEST(WorkerAttempts, HaveIdsWithTheirNumber) {
  const RunId run("r");
  const Key key{.run = run, .trial = "a/b", .attempt = 12};
  EXPECT_EQ(id_of(key), "a/b/12");
  EXPECT_EQ(key_of(run, "a/b/12"), key);
  for (const char* other : {"", "/", "/1", "a", "a/", "a/0", "a/-1", "a/x"})
    EXPECT_EQ(key_of(run, other), std::nullopt) << other;
}

TEST(WorkerLogs, AreSplitIntoLines) {
  const auto pieces = [](std::string bytes) {
    std::vector<std::string> texts;
    split_chunk({.at = 5, .stream = 2, .bytes = std::move(bytes)}, [&](const LogPiece& piece) {
      EXPECT_EQ(piece.stream, LogStream::err);
      EXPECT_EQ(piece.at, instant_of(5));
      texts.emplace_back(piece.text);
    });
    return texts;
  };
  EXPECT_THAT(pieces(""), IsEmpty());
  EXPECT_THAT(pieces("one\ntwo\n"), ElementsAre("one\n", "two\n"));
  EXPECT_THAT(pieces("one\n\nrest"), ElementsAre("one\n", "\n", "rest"));
  EXPECT_THAT(pieces("\n"), ElementsAre("\n"));
}

TEST(WorkerSignals, HaveNamesAndNumbers) {
  EXPECT_EQ(signal_number("SIGINT"), SIGINT);
  EXPECT_EQ(signal_number("INT"), SIGINT);
  EXPECT_EQ(signal_number("9"), SIGKILL);
  EXPECT_EQ(signal_number("SIGRTMIN"), SIGRTMIN);
  EXPECT_EQ(signal_number("SIGRTMIN+3"), SIGRTMIN + 3);
  EXPECT_EQ(signal_number("RTMAX-2"), SIGRTMAX - 2);
  for (const char* unknown : {"", "SIG", "SIGNO", "0", "-3", "1000"})
    EXPECT_EQ(signal_number(unknown), SIGTERM) << unknown;
}

// The file of results of two attempts.
std::string results_file() {
  std::string bytes;
  agent::append(bytes, agent::Welcome{.version = 1, .boot = "b"});
  for (const char* id : {"a/1", "b/1"}) {
    agent::append(bytes, agent::Started{.id = id, .at = 1});
    agent::append(bytes, agent::Log{.chunks = {{.at = 2, .stream = 1, .bytes = "text"}}});
    agent::append(bytes, agent::Ended{.id = id, .at = 3, .exit_code = 7});
  }
  agent::append(bytes, agent::Listed{});
  return bytes;
}

TEST(WorkerResults, AreReadUntilTheFileIsCut) {
  const std::string whole = results_file();
  ASSERT_EQ(read_results(whole).size(), 2U);
  EXPECT_EQ(read_results(whole)[1].ended.exit_code, 7);
  EXPECT_EQ(read_results(whole)[1].log.at(0).bytes, "text");
  std::size_t before = 0;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<Result> results = read_results(std::string_view(whole).substr(0, size));
    EXPECT_GE(results.size(), before);
    before = results.size();
    for (const Result& result : results) EXPECT_EQ(result.started.id, result.ended.id);
  }
  EXPECT_EQ(before, 2U);
}

TEST(WorkerResults, EndAtTheFirstCorruptByte) {
  const std::string whole = results_file();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    for (const Result& result : read_results(changed)) {
      EXPECT_THAT(result.ended.id, testing::AnyOf("a/1", "b/1"));
      EXPECT_EQ(result.ended.exit_code, 7);
    }
  }
}

TEST(WorkerResults, NeedTheStartOfTheSameAttempt) {
  std::string bytes;
  agent::append(bytes, agent::Ended{.id = "a/1"});
  agent::append(bytes, agent::Ended{.id = ""});
  agent::append(bytes, agent::Started{.id = "b/1"});
  agent::append(bytes, agent::Ended{.id = "c/1"});
  EXPECT_THAT(read_results(bytes), IsEmpty());
}

// An engine whose containers have one file.
class OneFile : public test::PassingEngine {
 public:
  explicit OneFile(std::string archive)
      : PassingEngine(static_cast<Engine&>(*this)), archive_(std::move(archive)) {}
  bool copy_out(const Key& /*key*/, const std::string& /*path*/,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token /*stop*/) override {
    on_bytes(archive_);
    return true;
  }

 private:
  std::string archive_;
};

TEST(WorkerResults, AreNotReadFromAFileWithHoles) {
  const Key worker{.run = RunId("r"), .trial = "w", .attempt = 1};
  OneFile whole(test::raw_entry("results", '0', results_file()) + std::string(1024, '\0'));
  EXPECT_EQ(results_of(whole, worker, "/results", {}).size(), 2U);
  OneFile sparse(test::sparse_archive("results", 100'000'000));
  const Error error = test::error_in([&] { (void)results_of(sparse, worker, "/results", {}); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
}

}  // namespace
}  // namespace combu::workers
