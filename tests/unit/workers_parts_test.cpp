// The parts of workers that need no engine: names, notes, containers, limits, logs, signals, results.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
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
using testing::SizeIs;

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
  const Trial container = container_of(trial, "combu-worker-r-1", nullptr, Staging::by_engine);
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

TEST(WorkerLogs, KeepOnlyTheirLastLines) {
  const auto last = [](std::int64_t lines, const std::vector<std::string>& pieces) {
    LastLines tail(lines);
    for (const std::string& piece : pieces) tail.add({.text = piece});
    std::vector<std::string> kept;
    tail.pass_to([&](const LogPiece& piece) { kept.emplace_back(piece.text); });
    return kept;
  };
  EXPECT_THAT(last(2, {"a\n", "b\n", "c\n"}), ElementsAre("b\n", "c\n"));
  EXPECT_THAT(last(2, {"a\n", "b\n", "c"}), ElementsAre("b\n", "c"));
  EXPECT_THAT(last(2, {"a\n", "b", "b\n", "", "c", "c"}), ElementsAre("b", "b\n", "c", "c"));
  EXPECT_THAT(last(1, {"a\n"}), ElementsAre("a\n"));
  EXPECT_THAT(last(5, {"a\n", "b"}), ElementsAre("a\n", "b"));
  EXPECT_THAT(last(0, {"a\n"}), IsEmpty());
  EXPECT_THAT(last(3, {}), IsEmpty());
}

TEST(WorkerLogs, LastLinesDropEarlierPieces) {
  constexpr std::int64_t k_lines = 3;
  LastLines tail(k_lines);
  for (int i = 1; i <= 1000; ++i) {
    tail.add({.text = "line\n", .at = Instant(std::chrono::seconds(i))});
    EXPECT_LE(tail.pieces(), std::size_t{k_lines});
  }
  EXPECT_EQ(tail.last_at(), Instant(std::chrono::seconds(1000)));
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
    agent::append(bytes, agent::Ended{.id = id, .at = 3, .exit_code = 7});
  }
  agent::append(bytes, agent::Listed{});
  for (const std::uint32_t number : {2U, 1U}) {
    const std::string text = "log " + std::to_string(number);
    agent::append(bytes, agent::Log{.request = number, .chunks = {{.at = 2, .stream = 1, .bytes = text}}});
    agent::append(bytes, agent::Done{.request = number});
  }
  return bytes;
}

std::string archive_of(const std::string& file) {
  return test::raw_entry("results", '0', file) + std::string(1024, '\0');
}

// An engine whose containers have one file.
class OneFile : public test::PassingEngine {
 public:
  explicit OneFile(std::string archive, std::size_t piece = 100, std::size_t repeats = 1)
      : PassingEngine(static_cast<Engine&>(*this)),
        archive_(std::move(archive)),
        piece_(piece),
        repeats_(repeats) {}
  bool copy_out(const Key& /*key*/, const std::string& /*path*/,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token /*stop*/) override {
    for (std::size_t i = 0; i < repeats_; ++i)
      for (std::size_t at = 0; at < archive_.size(); at += piece_)
        on_bytes(std::string_view(archive_).substr(at, piece_));
    return true;
  }

 private:
  std::string archive_;
  std::size_t piece_;
  std::size_t repeats_;
};

const Key k_worker{.run = RunId("r"), .trial = "w", .attempt = 1};

EndsReader ends_in(OneFile engine) {
  EndsReader ends;
  EXPECT_TRUE(read_results(engine, k_worker, "/results",
                           [&](const agent::Frame& frame) { return ends.take(frame); }, {}));
  return ends;
}
std::optional<ErrorKind> fault_of(const std::string& archive, std::size_t piece) {
  const auto fault = test::error_of([&] { (void)ends_in(OneFile(archive, piece)); });
  return fault ? std::optional(fault->kind()) : std::nullopt;
}
EndsReader ends_of(const std::string& file) {
  return ends_in(OneFile(archive_of(file)));
}

struct ReadLog {
  std::string text;
  bool is_whole = false;
};
ReadLog log_of(const std::string& file, std::uint32_t number) {
  ReadLog read;
  ResultLogReader log(number, [&](const agent::LogChunk& chunk) { read.text += chunk.bytes; });
  OneFile engine(archive_of(file));
  EXPECT_TRUE(read_results(engine, k_worker, "/results",
                           [&](const agent::Frame& frame) { return log.take(frame); }, {}));
  read.is_whole = log.is_whole;
  return read;
}

TEST(WorkerResults, AreReadUntilTheFileIsCut) {
  const std::string whole = results_file();
  EXPECT_TRUE(ends_of(whole).is_whole);
  ASSERT_THAT(ends_of(whole).results, SizeIs(2));
  EXPECT_EQ(ends_of(whole).results[1].ended.exit_code, 7);
  EXPECT_EQ(log_of(whole, 1).text, "log 1");
  EXPECT_EQ(log_of(whole, 2).text, "log 2");
  std::size_t before = 0;
  bool was_whole = false;
  bool had_log = false;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const EndsReader ends = ends_of(whole.substr(0, size));
    EXPECT_GE(ends.results.size(), before);
    EXPECT_GE(ends.is_whole, was_whole);
    before = ends.results.size();
    was_whole = ends.is_whole;
    for (const Result& result : ends.results) EXPECT_EQ(result.started.id, result.ended.id);
    // The zeros behind the file in the archive may stand for the last bytes of its last message.
    EXPECT_FALSE(log_of(whole.substr(0, size), 1).is_whole && size + 8 < whole.size());
    const ReadLog log = log_of(whole.substr(0, size), 2);
    EXPECT_GE(log.is_whole, had_log);
    had_log = log.is_whole;
  }
  EXPECT_EQ(before, 2U);
  EXPECT_TRUE(was_whole && had_log);
}

TEST(WorkerResults, EndAtTheFirstCorruptByte) {
  const std::string whole = results_file();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    for (const Result& result : ends_of(changed).results) {
      EXPECT_THAT(result.ended.id, testing::AnyOf("a/1", "b/1"));
      EXPECT_EQ(result.ended.exit_code, 7);
    }
    EXPECT_THAT(log_of(changed, 2).text, testing::AnyOf("", "log 2"));
  }
}

TEST(WorkerResults, NeedTheStartOfTheSameAttempt) {
  std::string bytes;
  agent::append(bytes, agent::Ended{.id = "a/1"});
  agent::append(bytes, agent::Ended{.id = ""});
  agent::append(bytes, agent::Started{.id = "b/1"});
  agent::append(bytes, agent::Ended{.id = "c/1"});
  agent::append(bytes, agent::Started{.id = "d/1"});
  agent::append(bytes, agent::Ended{.id = "d/1"});
  const EndsReader ends = ends_of(bytes);
  ASSERT_THAT(ends.results, SizeIs(1));
  EXPECT_EQ(ends.results[0].number, 4U);
}

TEST(WorkerResults, ALogThatTheAgentCouldNotStoreIsNotWhole) {
  std::string bytes = results_file();
  agent::append(bytes, agent::Log{.request = 3, .chunks = {{.at = 2, .stream = 1, .bytes = "a part"}}});
  agent::append(bytes, agent::Done{.request = 3, .status = agent::Done::incomplete});
  const ReadLog log = log_of(bytes, 3);
  EXPECT_EQ(log.text, "a part");
  EXPECT_FALSE(log.is_whole);
}

TEST(WorkerResults, AreFoundInArchivesOfAllForms) {
  const std::string file = results_file();
  const std::string rest = std::string(1024, '\0');
  for (const std::size_t piece : {1UL, 511UL, 512UL, 513UL, 100'000UL}) {
    const auto count = [&](const std::string& archive) {
      return ends_in(OneFile(archive, piece)).results.size();
    };
    EXPECT_EQ(count(archive_of(file)), 2U);
    EXPECT_EQ(count(test::raw_entry("pax", 'x', std::string(700, 'x')) + archive_of(file)), 2U);
    EXPECT_EQ(count(test::raw_entry("pax", 'g', "") + archive_of(file)), 2U);
    EXPECT_EQ(fault_of(test::raw_entry("results", '2', "") + archive_of(file), piece), ErrorKind::invalid);
    EXPECT_EQ(fault_of(test::raw_entry("results/", '5', "") + archive_of(file), piece), ErrorKind::invalid);
    EXPECT_EQ(count(test::sparse_archive("results", 100'000'000)), 0U);
    EXPECT_EQ(fault_of("", piece), ErrorKind::corrupt);
    EXPECT_EQ(fault_of(rest, piece), ErrorKind::corrupt);
  }
}

TEST(WorkerResults, OfManyLargeLogsAreRead) {
  constexpr std::size_t k_repeats = 20'000;  // more than a gibibyte, without the ends
  std::string logs;
  for (int i = 0; i < 2; ++i)
    agent::append(logs, agent::Log{.request = 1, .chunks = {{.bytes = std::string(agent::k_part_max, 'x')}}});
  const std::string file = results_file();
  const EndsReader ends = ends_in(OneFile(archive_of(file + logs), agent::k_part_max, k_repeats));
  EXPECT_TRUE(ends.is_whole);
  EXPECT_THAT(ends.results, SizeIs(2));
}

TEST(WorkerResults, OfAHostileFileTakeLittleMemory) {
  std::string ends;
  agent::append(ends, agent::Started{.id = "a/1", .scratch = std::string(agent::k_payload_max - 100, 'x')});
  agent::append(ends, agent::Ended{.id = "a/1"});
  std::string file;
  for (int i = 0; i < 100; ++i) file += ends;
  const EndsReader reader = ends_of(file);
  EXPECT_THAT(reader.results, SizeIs(testing::Lt(65U)));
  EXPECT_FALSE(reader.is_whole);
}

}  // namespace
}  // namespace combu::workers
