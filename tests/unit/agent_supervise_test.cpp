// The agent as the first process of a container: `agent supervise`.

#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "raw_archive.hpp"
#include "unit/agent_fixture.hpp"

namespace combu::agent {
namespace {

const std::string k_id(k_supervised_id);

// Returns a tar archive of one file.
std::string archive_of(const std::string& name, const std::string& content) {
  return test::raw_entry(name, '0', content) + std::string(1024, '\0');
}

class SuperviseTest : public AgentTest {
 protected:
  // Runs a program under the agent. Its output goes to the files `out` and `err`.
  void supervise(const std::vector<std::string>& settings, const std::vector<std::string>& argv,
                 int out = -1) {
    const int errors = ::open(path("err").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    const int output = out >= 0 ? out : ::open(path("out").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    std::vector<std::string> all{program(), "supervise", folder(), "log_max=1000000"};
    all.insert(all.end(), settings.begin(), settings.end());
    all.emplace_back("--");
    all.insert(all.end(), argv.begin(), argv.end());
    worker_.emplace(all, -1, output, errors);
    ::close(errors);
    if (out < 0) ::close(output);
  }
  void await_socket() const {
    await_state([&] { return fs::exists(folder() + "/socket"); });
  }
  Client& connected() {
    await_socket();
    return client();
  }
};

TEST_F(SuperviseTest, TheAgentEndsWithTheCodeOfTheProgram) {
  supervise({"hold=0"}, {"sh", "-c", "echo out; printf err >&2; exit 7"});
  EXPECT_EQ(worker_->wait(), 7);
  EXPECT_EQ(text_of(path("out")), "out\n");
  EXPECT_EQ(text_of(path("err")), "err");
}

TEST_F(SuperviseTest, ASignalOfTheProgramIsAnExitCodeAsInAShell) {
  supervise({"hold=0"}, {"sh", "-c", "kill -KILL $$"});
  EXPECT_EQ(worker_->wait(), 128 + SIGKILL);
}

TEST_F(SuperviseTest, AProgramThatDoesNotExistIsNamed) {
  supervise({"hold=60"}, {"/no/program"});
  EXPECT_EQ(worker_->wait(), 127);
  EXPECT_EQ(text_of(path("err")), "agent: /no/program: No such file or directory\n");
}

TEST_F(SuperviseTest, AFileThatIsNoProgramIsNamed) {
  supervise({"hold=60"}, {write("data", "text")});
  EXPECT_EQ(worker_->wait(), 126);
}

TEST_F(SuperviseTest, WrongArgumentsAreRefused) {
  for (const std::vector<std::string>& settings :
       {std::vector<std::string>{"hold"}, {"hold=x"}, {"unknown=1"}, {"stop_signal=100"}}) {
    supervise(settings, {"true"});
    EXPECT_EQ(worker_->wait(), 2) << settings.front();
  }
  supervise({}, {});
  EXPECT_EQ(worker_->wait(), 2);
}

TEST_F(SuperviseTest, TheAgentStaysUntilAClientForgetsTheResult) {
  supervise({"hold=1"}, {"sh", "-c", "echo out; exit 3"});
  const Ended ended = connected().await_of<Ended>(k_id);
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(text_of_log(ended.log), "out\n");
  // The client holds the agent for longer than `hold`.
  ::usleep(1'500'000);
  connected().send(Ping{.number = 1});
  EXPECT_EQ(connected().await<Pong>().number, 1);
  connected().send(Forget{.ids = {k_id}});
  EXPECT_EQ(worker_->wait(), 3);
}

TEST_F(SuperviseTest, WithoutAClientTheAgentEndsAfterItsHold) {
  supervise({"hold=1"}, {"sh", "-c", "exit 4"});
  EXPECT_EQ(worker_->wait(), 4);
}

TEST_F(SuperviseTest, ALaterClientGetsTheResultAndTheFiles) {
  const std::string file = path("result");
  supervise({"hold=60", "log_max=1000"}, {"sh", "-c", "echo 42 > " + file});
  await_state([&] { return text_of(file) == "42\n"; });
  EXPECT_EQ(connected().await_of<Ended>(k_id).exit_code, 0);
  connected().send(Collect{.request = 1, .id = k_id, .path = file});
  EXPECT_EQ(connected().await_answer<Done>(1).status, Done::ok);
  connected().send(Forget{.ids = {k_id}});
  EXPECT_EQ(worker_->wait(), 0);
}

TEST_F(SuperviseTest, TheProgramGetsVariablesFromFiles) {
  const std::string value = write("value", "two\nlines=x");
  supervise({"hold=0", "variable=ONE=" + value, "variable=TWO=" + write("empty", "")},
            {"sh", "-c", "printf '%s|%s|%s' \"$ONE\" \"${TWO-unset}\" \"$HOME\""});
  EXPECT_EQ(worker_->wait(), 0);
  EXPECT_EQ(text_of(path("out")), "two\nlines=x||" + std::string(::getenv("HOME")));
}

TEST_F(SuperviseTest, AVariableWithoutItsFileIsNamed) {
  supervise({"hold=60", "variable=ONE=/no/file"}, {"true"});
  EXPECT_EQ(worker_->wait(), 126);
  EXPECT_EQ(text_of(path("err")), "agent: /no/file: No such file or directory\n");
}

// As with an engine that starts a dead container again, whose volumes stay.
TEST_F(SuperviseTest, ARestartedAgentServesTheFilesAndDoesNotRunTheProgramAgain) {
  const std::string file = path("result");
  const std::vector<std::string> argv{"sh", "-c", "echo once >> " + file + "; exec sleep 100"};
  supervise({"hold=1", "keep=1"}, argv);
  await_state([&] { return text_of(file) == "once\n"; });
  ::kill(worker_->pid(), SIGKILL);
  EXPECT_EQ(worker_->wait(), -1);
  fs::remove(folder() + "/socket");

  supervise({"hold=1", "keep=1"}, argv);
  await_socket();
  const std::unique_ptr<Client> later = connect();
  EXPECT_EQ(later->greet().note, k_restarted_note);
  later->send(Collect{.request = 1, .id = k_id, .path = file});
  EXPECT_EQ(later->await_answer<Done>(1).status, Done::ok);
  later->send(ReadLog{.request = 2, .id = k_id});
  EXPECT_EQ(later->await_answer<Done>(2).status, Done::unknown_attempt);
  later->send(Start{.id = k_id});
  EXPECT_EQ(later->await_of<Refused>(k_id).code, ENOTSUP);
  later->hang_up();
  EXPECT_EQ(worker_->wait(), 0);
  EXPECT_EQ(text_of(file), "once\n");
}

TEST_F(SuperviseTest, AnAgentThatIsRestartedAfterItsEndEndsAtOnce) {
  supervise({"hold=0", "keep=1"}, {"sh", "-c", "exit 4"});
  EXPECT_EQ(worker_->wait(), 4);
  supervise({"hold=100", "keep=1"}, {"sh", "-c", "exit 4"});
  EXPECT_EQ(worker_->wait(), 0);
}

TEST_F(SuperviseTest, AProgramThatRemovesTheFolderOfTheAgentDoesNotRunAgain) {
  const std::string file = path("runs");
  const std::string script = "echo once >> " + file + "; rm -rf " + folder() + "; exit 4";
  supervise({"hold=0", "keep=1"}, {"sh", "-c", script});
  EXPECT_EQ(worker_->wait(), 4);
  supervise({"hold=0", "keep=1"}, {"sh", "-c", script});
  EXPECT_EQ(worker_->wait(), 0);
  EXPECT_EQ(text_of(file), "once\n");
}

TEST_F(SuperviseTest, ARestOfAnArchiveCompletesIt) {
  const std::string file = write("large", std::string(300'000, 'x') + "end");
  supervise({"hold=60"}, {"true"});
  const auto collect = [&](auto request) {
    connected().send(request);
    const Done done = connected().await_answer<Done>(request.request);
    std::string bytes;
    while (connected().count(FrameType::data) > 0) bytes += connected().await<Data>().bytes;
    return std::pair(done.status, bytes);
  };
  const auto [whole_status, whole] = collect(Collect{.request = 1, .id = k_id, .path = file});
  ASSERT_EQ(whole_status, Done::ok);
  for (const std::size_t skip :
       {std::size_t{1}, std::size_t{512}, std::size_t{65536}, whole.size() - 1, whole.size()}) {
    const CollectRest request{.request = 2,
                              .id = k_id,
                              .path = file,
                              .skip = skip,
                              .crc = crc_after(0, std::string_view(whole).substr(0, skip))};
    const auto [status, rest] = collect(request);
    EXPECT_EQ(status, Done::ok) << skip;
    EXPECT_EQ(rest, whole.substr(skip)) << skip;
  }
  EXPECT_EQ(collect(CollectRest{.request = 3, .id = k_id, .path = file, .skip = 5, .crc = 1}),
            std::pair(std::uint8_t{Done::changed}, std::string()));
  EXPECT_EQ(collect(CollectRest{.request = 4, .id = k_id, .path = file, .skip = whole.size() + 1, .crc = 1}),
            std::pair(std::uint8_t{Done::changed}, std::string()));
}

TEST_F(SuperviseTest, SigtermStandsForTheStopSignalOfTheProgram) {
  supervise({"hold=60", "grace_ms=10000", "stop_signal=" + std::to_string(SIGUSR1)},
            {"sh", "-c",
             "trap 'echo stopped; exit 5' USR1; touch " + path("ready") + "; while :; do sleep 0.05; done"});
  await_state([&] { return fs::exists(path("ready")); });
  ::kill(worker_->pid(), SIGTERM);
  EXPECT_EQ(worker_->wait(), 5);  // and does not hold
  EXPECT_EQ(text_of(path("out")), "stopped\n");
}

TEST_F(SuperviseTest, OtherSignalsReachTheProgram) {
  supervise({"hold=0"},
            {"sh", "-c", "trap 'exit 6' HUP; touch " + path("ready") + "; while :; do sleep 0.05; done"});
  await_state([&] { return fs::exists(path("ready")); });
  ::kill(worker_->pid(), SIGHUP);
  EXPECT_EQ(worker_->wait(), 6);
}

TEST_F(SuperviseTest, AProgramThatIgnoresTheStopSignalIsKilledAfterItsGracePeriod) {
  supervise({"hold=60", "grace_ms=100"},
            {"sh", "-c", "trap '' TERM; touch " + path("ready") + "; while :; do sleep 0.05; done"});
  await_state([&] { return fs::exists(path("ready")); });
  ::kill(worker_->pid(), SIGTERM);
  EXPECT_EQ(worker_->wait(), 128 + SIGKILL);
}

TEST_F(SuperviseTest, AClientStopsTheProgramAndStillGetsItsFiles) {
  supervise({"hold=60", "grace_ms=5000"}, {"sleep", "100"});
  connected().await_of<Started>(k_id);
  connected().send(Stop{.id = k_id});
  const Ended ended = connected().await_of<Ended>(k_id);
  EXPECT_EQ(ended.signal, SIGTERM);
  EXPECT_EQ(ended.flags & Ended::stopped, Ended::stopped);
  connected().send(Collect{.request = 1, .id = k_id, .path = program()});
  EXPECT_EQ(connected().await_answer<Done>(1).status, Done::ok);
}

TEST_F(SuperviseTest, TheTimeoutHoldsWithoutAClient) {
  supervise({"hold=0", "timeout_ms=100", "grace_ms=1000"}, {"sleep", "100"});
  EXPECT_EQ(worker_->wait(), 128 + SIGTERM);
}

TEST_F(SuperviseTest, ProcessesThatTheProgramLeavesBehindAreKilled) {
  supervise({"hold=60"},
            {"sh", "-c",
             "setsid sh -c 'echo $$ > " + path("left") + "; exec sleep 1000' & while ! test -s " +
                 path("left") + "; do sleep 0.01; done"});
  EXPECT_EQ(connected().await_of<Ended>(k_id).exit_code, 0);
  const int left = std::stoi(text_of(path("left")));
  EXPECT_EQ(::kill(left, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(SuperviseTest, TheProgramIsNoAttemptOfAWorker) {
  supervise({"hold=0"},
            {"sh", "-c", "echo ${COMBU_SCRATCH-none} ${TMPDIR-none}; cat /proc/self/oom_score_adj"});
  EXPECT_EQ(worker_->wait(), 0);
  EXPECT_EQ(text_of(path("out")), "none none\n" + text_of("/proc/self/oom_score_adj"));
}

TEST_F(SuperviseTest, AClientCannotStartAnythingElse) {
  supervise({"hold=60"}, {"true"});
  connected().await_of<Ended>(k_id);
  connected().send(script("other", "true"));
  EXPECT_EQ(connected().await_of<Refused>("other").code, ENOTSUP);
  connected().send(script(k_id, "true"));  // the program has run
  EXPECT_EQ(connected().await_of<Ended>(k_id).exit_code, 0);
}

TEST_F(SuperviseTest, TheProgramAwaitsItsFiles) {
  supervise({"hold=60", "await=60"}, {"sh", "-c", "cat " + path("input") + "; echo $COMBU_TEST_SECRET"});
  Client& it = connected();
  it.send(Start{.id = k_id, .env = {"COMBU_TEST_SECRET=value"}, .awaits_inputs = 1});
  const std::string archive = archive_of(path("input").substr(1), "brought\n");
  it.send(Put{.id = k_id, .bytes = archive.substr(0, 600)});
  it.send(Put{.id = k_id, .bytes = archive.substr(600), .is_last = 1});
  const Ended ended = it.await_of<Ended>(k_id);
  EXPECT_EQ(text_of_log(ended.log), "brought\nvalue\n");
  it.send(Forget{.ids = {k_id}});
  EXPECT_EQ(worker_->wait(), 0);
}

TEST_F(SuperviseTest, ALostConnectionBringsTheFilesAgain) {
  supervise({"hold=60", "await=60"}, {"cat", path("input")});
  await_socket();
  const std::string archive = archive_of(path("input").substr(1), "brought\n");
  {
    const auto first = connect();
    first->greet();
    first->send(Start{.id = k_id, .awaits_inputs = 1});
    first->send(Put{.id = k_id, .bytes = archive.substr(0, 600)});
  }
  Client& it = connected();
  it.send(Start{.id = k_id, .awaits_inputs = 1});
  it.send(Put{.id = k_id, .bytes = archive, .is_last = 1});
  EXPECT_EQ(text_of_log(it.await_of<Ended>(k_id).log), "brought\n");
}

TEST_F(SuperviseTest, FilesThatCannotBeWrittenAreNamed) {
  supervise({"hold=60", "await=60"}, {"true"});
  Client& it = connected();
  it.send(Start{.id = k_id, .awaits_inputs = 1});
  const std::string archive = archive_of("proc/combu-test/file", "x");
  it.send(Put{.id = k_id, .bytes = archive, .is_last = 1});
  const Refused refused = it.await_of<Refused>(k_id);
  EXPECT_EQ(refused.stage, Refused::inputs);
  EXPECT_EQ(refused.text, "proc/combu-test/file: No such file or directory");
  EXPECT_EQ(worker_->wait(), 126);
  EXPECT_EQ(text_of(path("err")), "agent: proc/combu-test/file: No such file or directory\n");
}

TEST_F(SuperviseTest, FilesFollowTheLinksOfTheImage) {
  fs::create_directory(path("real"));
  fs::create_directory_symlink(path("real"), path("link"));
  supervise({"hold=0", "await=60"}, {"cat", path("real/file")});
  Client& it = connected();
  it.send(Start{.id = k_id, .awaits_inputs = 1});
  const std::string archive = archive_of(path("link/file").substr(1), "through\n");
  it.send(Put{.id = k_id, .bytes = archive, .is_last = 1});
  EXPECT_EQ(text_of_log(it.await_of<Ended>(k_id).log), "through\n");
}

TEST_F(SuperviseTest, AnAgentThatAwaitsFilesEndsAtSigterm) {
  supervise({"hold=60", "await=60"}, {"true"});
  await_socket();
  ::kill(worker_->pid(), SIGTERM);
  EXPECT_EQ(worker_->wait(), 128 + SIGTERM);
}

TEST_F(SuperviseTest, AnAgentWithoutFilesEndsAfterItsHold) {
  supervise({"await=1"}, {"true"});
  EXPECT_EQ(worker_->wait(), 75);
  EXPECT_EQ(text_of(path("err")), "agent: no client has started the program\n");
}

TEST_F(SuperviseTest, AClientThatForgetsTheRunningProgramKillsIt) {
  supervise({"hold=60"}, {"sleep", "100"});
  connected().await_of<Started>(k_id);
  connected().send(Forget{.ids = {k_id}});
  EXPECT_EQ(worker_->wait(), 128 + SIGKILL);
}

// As without the agent, a program waits while no process reads its output, and loses nothing of it.
TEST_F(SuperviseTest, ASlowReaderGetsTheWholeOutput) {
  constexpr std::size_t k_size = 4'000'000;
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  supervise({"hold=60", "log_max=1000"},
            {"sh", "-c", "head -c " + std::to_string(k_size) + " /dev/zero; touch " + path("done")}, pipe[1]);
  ::close(pipe[1]);
  connected().await_of<Started>(k_id);
  connected().send(Ping{.number = 1});
  connected().await<Pong>();
  EXPECT_FALSE(fs::exists(path("done")));
  std::size_t size = 0;
  std::array<char, 65536> part{};
  while (size < k_size) {
    const ssize_t count = ::read(pipe[0], part.data(), part.size());
    ASSERT_GT(count, 0);
    size += static_cast<std::size_t>(count);
  }
  EXPECT_EQ(connected().await_of<Ended>(k_id).log_size, k_size);
  connected().send(Forget{.ids = {k_id}});
  EXPECT_EQ(worker_->wait(), 0);
  EXPECT_EQ(::read(pipe[0], part.data(), part.size()), 0);
  ::close(pipe[0]);
}

TEST_F(SuperviseTest, AClosedOutputDoesNotStopTheProgram) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  ::close(pipe[0]);
  supervise({"hold=0"}, {"sh", "-c", "head -c 1000000 /dev/zero; exit 9"}, pipe[1]);
  ::close(pipe[1]);
  EXPECT_EQ(worker_->wait(), 9);
}

}  // namespace
}  // namespace combu::agent
