// Logs, archives and inputs.

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>

#include "raw_archive.hpp"
#include "unit/agent_fixture.hpp"

namespace combu::agent {
namespace {

class AgentFilesTest : public AgentTest {
 protected:
  // Runs a command of this machine.
  static int shell(const std::string& text) { return ChildProcess({"sh", "-c", text}, -1, -1, -1).wait(); }
  // Mounts a small disk at the worker's folder. The destruction of the result ends the worker and unmounts
  // the disk.
  [[nodiscard]] std::shared_ptr<void> mount_disk(const std::string& options) {
    if ((::mkdir(folder().c_str(), 0700) != 0 && errno != EEXIST) ||
        ::mount("tmpfs", folder().c_str(), "tmpfs", 0, options.c_str()) != 0)
      throw std::system_error(errno, std::generic_category(), "no disk");
    return {nullptr, [this](void*) {
              client_.reset();
              worker_.reset();
              ::umount2(folder().c_str(), MNT_DETACH);
            }};
  }
  // Collects a path, and unpacks the archive into a new folder, which it returns.
  std::string unpacked(const std::string& id, const std::string& path_in_attempt) {
    std::string bytes;
    const Done done = collect({.request = ++requests_, .id = id, .path = path_in_attempt}, bytes);
    EXPECT_EQ(done.status, Done::ok) << done.text;
    const std::string into = path("into" + std::to_string(requests_));
    EXPECT_EQ(shell("mkdir " + into + " && tar -xf " + write("archive", bytes) + " -C " + into), 0);
    return into;
  }
  // Starts an attempt that awaits inputs, and sends it the archive in parts.
  void start_with_inputs(const std::string& id, const std::string& text, const std::string& archive) {
    Start start = script(id, text);
    start.awaits_inputs = 1;
    client().send(start);
    for (std::size_t at = 0; at < archive.size(); at += k_part_max)
      client().send(Put{.id = id, .bytes = archive.substr(at, k_part_max), .is_last = 0});
    client().send(Put{.id = id, .bytes = {}, .is_last = 1});
  }
  std::uint32_t requests_ = 0;
};

TEST_F(AgentFilesTest, ALargeLogIsReadInOrder) {
  Start start = script("a", "seq 1 200000");
  start.log_max = 2 << 20;
  client().send(start);
  const auto ended = client().await_of<Ended>("a");
  EXPECT_EQ(ended.flags, 0);
  std::vector<LogChunk> chunks;
  EXPECT_EQ(read_log({.request = 1, .id = "a"}, chunks).status, Done::ok);
  std::string expected;
  for (int i = 1; i <= 200'000; ++i) expected += std::to_string(i) + "\n";
  const std::string text = text_of_log(chunks);
  EXPECT_EQ(ended.log_size, expected.size());
  EXPECT_EQ(text, expected);
  for (std::size_t i = 1; i < chunks.size(); ++i) EXPECT_LE(chunks[i - 1].at, chunks[i].at);
}

TEST_F(AgentFilesTest, TheOldestOutputIsDropped) {
  for (const std::uint64_t kept : {10ULL, 100'000ULL, 3'000'000ULL}) {
    const std::string id = std::to_string(kept);
    Start start = script(id, "seq 1 1000000");
    start.log_max = kept;
    client().send(start);
    const auto ended = client().await_of<Ended>(id);
    EXPECT_NE(ended.flags & Ended::log_was_cut, 0) << kept;
    std::vector<LogChunk> chunks;
    read_log({.request = ++requests_, .id = id}, chunks);
    const std::string text = text_of_log(chunks);
    EXPECT_LE(text.size(), kept);
    EXPECT_GE(text.size(), kept - std::min<std::uint64_t>(kept - 1, 140'000));
    EXPECT_TRUE(text.ends_with("\n1000000\n")) << kept;
  }
}

TEST_F(AgentFilesTest, AFollowedLogEndsWithTheAttempt) {
  const std::string gate = path("gate");
  client().send(script("a", "echo one; until test -e " + gate + "; do sleep 0.01; done; echo two"));
  client().send(ReadLog{.request = 1, .id = "a", .since = 0, .is_follow = 1});
  const auto first = client().await_answer<Log>(1);
  EXPECT_EQ(text_of_log(first.chunks), "one\n");
  client().send(ReadLog{.request = 2, .id = "a", .since = first.chunks.back().at + 1, .is_follow = 1});
  std::ofstream(gate).flush();
  EXPECT_EQ(text_of_log(client().await_answer<Log>(2).chunks), "two\n");
  EXPECT_EQ(client().await_answer<Done>(1).status, Done::ok);
  EXPECT_EQ(client().await_answer<Done>(2).status, Done::ok);
}

TEST_F(AgentFilesTest, ACancelledRequestEnds) {
  client().send(script("a", "sleep 60"));
  client().send(ReadLog{.request = 1, .id = "a", .since = 0, .is_follow = 1});
  client().send(Cancel{.request = 1});
  EXPECT_EQ(client().await_answer<Done>(1).status, Done::cancelled);
  client().send(ReadLog{.request = 2, .id = "none", .since = 0, .is_follow = 1});
  EXPECT_EQ(client().await_answer<Done>(2).status, Done::unknown_attempt);
  client().send(Forget{.ids = {"a"}});
}

TEST_F(AgentFilesTest, AFullDiskDropsOutputAndBlocksNothing) {
  const auto disk = mount_disk("size=256k");
  Start start = script("a", "head -c 100000000 /dev/zero; echo end");
  start.log_max = 1 << 30;
  client().send(start);
  const auto ended = client().await_of<Ended>("a");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_NE(ended.flags & Ended::log_is_incomplete, 0);
  EXPECT_EQ(ended.log_size, 100'000'004);
  std::vector<LogChunk> chunks;
  read_log({.request = 1, .id = "a"}, chunks);
  EXPECT_TRUE(text_of_log(chunks).ends_with("end\n"));
}

TEST_F(AgentFilesTest, ALogThatLosesAPartAfterItsEndIsIncomplete) {
  const auto disk = mount_disk("size=64k");
  start_worker();
  std::ofstream(folder() + "/filler") << std::string(100'000, 'x');
  const Ended ended = run("head -c 40000 /dev/zero");
  EXPECT_EQ(ended.flags & Ended::log_is_incomplete, 0);
  std::vector<LogChunk> chunks;
  EXPECT_EQ(read_log({.request = 1, .id = ended.id}, chunks).status, Done::ok);
  EXPECT_EQ(text_of_log(chunks).size(), 40'000U);
  for (int i = 0; i < 30; ++i) run("head -c 30000 /dev/zero");
  chunks.clear();
  EXPECT_EQ(read_log({.request = 2, .id = ended.id}, chunks).status, Done::incomplete);
  EXPECT_LT(text_of_log(chunks).size(), 40'000U);
}

// The disk has 1 MiB. The logs take most of it, or all of it together with a file of an attempt.
TEST_F(AgentFilesTest, AFullDiskLosesNoEnds) {
  for (const bool is_filled : {false, true}) {
    const auto disk = mount_disk("size=1m");
    const auto run = [&](const std::string& id, const std::string& text) {
      client().send(script(id, text));
      EXPECT_EQ(client().await_of<Ended>(id).exit_code, 5);
    };
    run("small", "echo small; exit 5");
    run("medium", "head -c 200000 /dev/zero; exit 5");
    run("large", "head -c 600000 /dev/zero; exit 5");
    run("none", is_filled ? "cat /dev/zero >$COMBU_SCRATCH/all 2>/dev/null; exit 5" : "exit 5");
    client_.reset();
    ::kill(worker_->pid(), SIGTERM);
    EXPECT_EQ(worker_->wait(), 0);
    const ResultsFile results(text_of(folder() + "/results"));
    ASSERT_EQ(results.ended.size(), 4U);
    for (const auto& [id, ended] : results.ended) EXPECT_EQ(ended.exit_code, 5);
    EXPECT_EQ(results.types.at(9), FrameType::listed);
    EXPECT_EQ(results.log_of("small"), "small\n");
    EXPECT_EQ(results.log_of("none"), "");
    EXPECT_EQ(results.log_of("medium").value_or("").size(), 200'000U);
    EXPECT_EQ(results.log_of("large").value_or("").size(), is_filled ? 0U : 600'000U);
    EXPECT_EQ(results.log_of("large").has_value(), !is_filled);
  }
}

// The disk has few inodes. An attempt takes all of them, the second time also that of the agent's socket.
TEST_F(AgentFilesTest, ADiskWithoutFreeInodesLosesNoEnds) {
  for (const bool has_socket : {true, false}) {
    const auto disk = mount_disk("size=4m,nr_inodes=64");
    if (!has_socket) run("head -c 200000 /dev/zero");
    const std::string remove = has_socket ? "" : "rm $COMBU_SCRATCH/../socket; ";
    client().send(script(
        "filler", "exec 2>/dev/null; " + remove + "i=0; while : >$COMBU_SCRATCH/$i; do i=$((i+1)); done"));
    EXPECT_EQ(client().await_of<Ended>("filler").exit_code, 2);
    client_.reset();
    ::kill(worker_->pid(), SIGTERM);
    EXPECT_EQ(worker_->wait(), 0);
    const ResultsFile results(text_of(folder() + "/results"));
    EXPECT_EQ(results.ended.count("filler"), 1U);
    EXPECT_EQ(results.ended.size(), has_socket ? 1U : 2U);
  }
}

// SIGSTOP takes the place of a slow disk. An engine would kill the agent after 10 seconds.
TEST_F(AgentFilesTest, AfterSigtermLargeLogsDoNotDelayTheEnd) {
  constexpr int k_large = 100'000'000;
  constexpr std::chrono::milliseconds k_late{6200};
  Start large = script("large", "head -c 100000000 /dev/zero");
  large.log_max = 1 << 30;
  client().send(large);
  client().send(script("small", "head -c 100000 /dev/zero"));
  client().await_of<Ended>("large");
  client().await_of<Ended>("small");
  client_.reset();
  const std::string file = folder() + "/results";
  const auto began = std::chrono::steady_clock::now();
  ::kill(worker_->pid(), SIGTERM);
  std::error_code error;
  await_state([&] { return fs::exists(file) && fs::file_size(file, error) > 1'000'000; });
  ::kill(worker_->pid(), SIGSTOP);
  await_state([&] { return std::chrono::steady_clock::now() - began > k_late; });
  ::kill(worker_->pid(), SIGCONT);
  EXPECT_EQ(worker_->wait(), 0);
  const ResultsFile results(text_of(file));
  EXPECT_EQ(results.ended.size(), 2U);
  EXPECT_EQ(results.log_of("small").value_or("").size(), 100'000U);
  EXPECT_FALSE(results.log_of("large").has_value());
  EXPECT_LT(fs::file_size(file), k_large);
}

TEST_F(AgentFilesTest, AFolderIsCollected) {
  const std::string name = std::string(150, 'n');
  run("cd $COMBU_SCRATCH && mkdir -p out/deep/" + name + "/" + name + " && echo text > out/deep/" + name +
      "/" + name +
      "/file && ln -s deep out/link && ln -s out alias && mkfifo out/pipe && chmod 750 out/deep && printf "
      "binary > out/ü && "
      "truncate -s 3000000 out/large && touch -d @-1.5 out/large && touch -d @1.25 out/link -h && mkdir "
      "out/empty");
  const std::string into = unpacked("run1", "out");
  EXPECT_EQ(text_of(into + "/out/deep/" + name + "/" + name + "/file"), "text\n");
  EXPECT_EQ(fs::read_symlink(into + "/out/link"), "deep");
  EXPECT_FALSE(fs::exists(into + "/out/pipe"));
  EXPECT_EQ(text_of(into + "/out/ü"), "binary");
  EXPECT_TRUE(fs::is_directory(into + "/out/empty"));
  struct stat status {};
  ASSERT_EQ(::stat((into + "/out/large").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 3'000'000);
  EXPECT_EQ(status.st_mtim.tv_sec, -2);
  EXPECT_EQ(status.st_mtim.tv_nsec, 500'000'000);
  ASSERT_EQ(::stat((into + "/out/deep").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0750U);
  // A symbolic link at the path itself is followed. An absolute path may lead anywhere.
  EXPECT_EQ(text_of(unpacked("run1", "alias/") + "/alias/ü"), "binary");
  EXPECT_EQ(text_of(unpacked("run1", folder() + "/1/out/ü") + "/ü"), "binary");
}

// POSIX defines only the names in pax headers as UTF-8. On arm64, char is unsigned.
TEST_F(AgentFilesTest, NamesThatAreNotAsciiAreInPaxHeaders) {
  run("cd $COMBU_SCRATCH && mkdir ö && echo > ö/file && ln -s ü ö/link");
  std::string bytes;
  EXPECT_EQ(collect({.request = 1, .id = "run1", .path = "ö"}, bytes).status, Done::ok);
  EXPECT_NE(bytes.find(" path=ö/file\n"), std::string::npos);
  EXPECT_NE(bytes.find(" linkpath=ü\n"), std::string::npos);
}

TEST_F(AgentFilesTest, AFileOfMoreThanEightGibibytesHasItsSize) {
  run("cd $COMBU_SCRATCH && truncate -s 9G large && touch -d @1 large");
  client().send(Collect{.request = 1, .id = "run1", .path = "large"});
  const std::string head = client().await_answer<Data>(1).bytes;
  EXPECT_NE(head.find("size=9663676416\n"), std::string::npos);
  client().send(Cancel{.request = 1});
  EXPECT_EQ(client().await_answer<Done>(1).status, Done::cancelled);
}

TEST_F(AgentFilesTest, APathThatCannotBeCollectedIsExplained) {
  run("cd $COMBU_SCRATCH && echo > file && ln -s loop loop && ln -s nowhere dangling && mkfifo pipe");
  const std::vector<std::pair<std::string, Done::Status>> paths{{"none", Done::absent},
                                                                {"dangling", Done::absent},
                                                                {"file/below", Done::unreadable},
                                                                {"loop", Done::unreadable},
                                                                {"pipe", Done::unreadable},
                                                                {"../1/file", Done::unreadable},
                                                                {"/etc/../combu-none", Done::absent},
                                                                {std::string(300, 'n'), Done::unreadable}};
  for (const auto& [name, status] : paths) {
    std::string bytes;
    const Done done = collect({.request = ++requests_, .id = "run1", .path = name}, bytes);
    EXPECT_EQ(done.status, status) << name << ": " << done.text;
    EXPECT_EQ(done.text.empty(), status == Done::absent) << done.text;
  }
}

TEST_F(AgentFilesTest, AFileThatChangesDoesNotBreakTheArchive) {
  client().send(script("a",
                       "cd $COMBU_SCRATCH && mkdir out && echo last > out/last && echo ready && "
                       "while :; do head -c 900000 /dev/zero > out/file; : > out/file; done"));
  client().send(ReadLog{.request = 1, .id = "a", .since = 0, .is_follow = 1});
  client().await_answer<Log>(1);
  requests_ = 1;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(text_of(unpacked("a", "out") + "/out/last"), "last\n");
  client().send(Forget{.ids = {"a"}});
}

TEST_F(AgentFilesTest, InputsAreUnpackedBeforeTheStart) {
  const std::string name = std::string(120, 'n');
  ASSERT_EQ(
      shell("cd " + root_ + " && mkdir -p in/folder/" + name + " && echo text > in/folder/" + name +
            "/file && head -c 300000 /dev/zero > in/large && ln -s large in/link && ln in/large in/hard && "
            "chmod 555 in/folder && touch -d @1000.5 in/large && "
            "tar --format=pax -cf pax -C in . && tar --format=gnu -cf gnu -C in ."),
      0);
  for (const std::string format : {"pax", "gnu"}) {
    start_with_inputs(
        format,
        "cd $COMBU_SCRATCH; cat folder/n*/file; wc -c < link; stat -c '%h %Y' hard; stat -c %a folder",
        text_of(path(format)));
    client().await_of<Started>(format);
    EXPECT_EQ(text_of_log(client().await_of<Ended>(format).log), "text\n300000\n2 1000\n555\n");
  }
}

TEST_F(AgentFilesTest, ATimeThatDoesNotFitIsZero) {
  const std::string archive = test::raw_entry("pax", 'x', "30 mtime=-9223372036854775808\n") +
                              test::raw_entry("file", '0', "text") + std::string(1024, '\0');
  start_with_inputs("a", "stat -c %Y $COMBU_SCRATCH/file", archive);
  EXPECT_EQ(text_of_log(client().await_of<Ended>("a").log), "0\n");
}

TEST_F(AgentFilesTest, InputsOutsideOfTheFolderAreRefused) {
  ASSERT_EQ(
      shell("cd " + root_ +
            " && echo text > file && ln -s / link && "
            "tar -cPf up --transform='s,file,../file,' file && "
            "tar -cf through link && tar -rf through --transform='s,file,link/combu-test-file,' file && "
            "head -c 1000 up > cut && head -c 20000 /dev/urandom > garbage"),
      0);
  for (const std::string name : {"up", "through", "cut", "garbage"}) {
    start_with_inputs(name, "true", text_of(path(name)));
    const auto refused = client().await_of<Refused>(name);
    EXPECT_EQ(refused.stage, Refused::inputs) << name;
    EXPECT_FALSE(refused.text.empty());
  }
  EXPECT_FALSE(fs::exists("/combu-test-file"));
  EXPECT_FALSE(fs::exists(folder() + "/file"));
}

TEST_F(AgentFilesTest, InputsThatAreCutOffCanBeSentAgain) {
  client();
  {
    const auto other = connect();
    other->greet();
    Start start = script("a", "true");
    start.awaits_inputs = 1;
    other->send(start);
    other->send(Put{.id = "a", .bytes = "x", .is_last = 0});
    other->hang_up();
    other->await_end();
  }
  client().send(script("a", "exit 9"));
  EXPECT_EQ(client().await_of<Ended>("a").exit_code, 9);
}

TEST_F(AgentFilesTest, ForgottenAttemptsLeaveNoFiles) {
  run("cd $COMBU_SCRATCH && mkdir -p a/b/c d && echo > a/b/c/file && chmod 0 a/b && mkdir -p deep && cd deep "
      "&& "
      "mkdir -p $(printf 'd/%.0s' $(seq 900))");
  run("mkdir -p $COMBU_SCRATCH/combu-removed-1/a/b $COMBU_SCRATCH/combu-removed-2/a/b");
  client().send(script("running", "setsid sleep 60 & echo > $COMBU_SCRATCH/x; sleep 60"));
  client().await_of<Started>("running");
  client().send(Forget{.ids = {"run1", "run2", "running", "none"}});
  await_state([&] {
    // The agent may use empty scratch folders again.
    for (const auto& entry : fs::directory_iterator(folder())) {
      std::error_code removed;  // by the agent meanwhile
      const bool is_empty = fs::is_empty(entry.path(), removed);
      if (entry.path().filename() != "socket" && !removed && !is_empty) return false;
    }
    return true;
  });
}

// ---- Inputs of a container

// The input stays open: an engine may not be able to close it.
TEST_F(AgentFilesTest, UnpackAnswersAtTheEndOfTheArchive) {
  const std::string name = path("made").substr(1);
  const std::string end(1024, '\0');
  const auto answer_to = [&](const std::string& archive) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    EXPECT_EQ(::pipe2(in.data(), O_CLOEXEC) + ::pipe2(out.data(), O_CLOEXEC), 0);
    ChildProcess process({program(), "unpack"}, in[0], out[1], -1);
    ::close(in[0]);
    ::close(out[1]);
    EXPECT_EQ(::write(in[1], archive.data(), archive.size()), static_cast<ssize_t>(archive.size()));
    std::array<char, 1000> line{};
    const ssize_t count = ::read(out[0], line.data(), line.size());
    EXPECT_FALSE(process.has_ended());
    ::close(in[1]);
    const int code = process.wait();
    ::close(out[0]);
    return std::to_string(code) + " " +
           std::string(line.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  };
  EXPECT_EQ(answer_to(test::raw_entry(name, '0', "text\n") + end), "0 unpacked\n");
  EXPECT_EQ(text_of(path("made")), "text\n");
  const std::string failed = answer_to(test::raw_entry("proc/none/a", '0', "text\n") + end);
  EXPECT_EQ(failed, "1 proc/none/a: No such file or directory\n");
}

}  // namespace
}  // namespace combu::agent
