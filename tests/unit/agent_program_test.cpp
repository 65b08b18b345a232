// The life of attempts, and the connections of clients.

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "unit/agent_fixture.hpp"

namespace combu::agent {
namespace {

TEST_F(AgentTest, AnAttemptRunsToItsEnd) {
  client().send(script("a", "echo out; echo err >&2; exit 3"));
  const auto started = client().await_of<Started>("a");
  const auto ended = client().await_of<Ended>("a");
  EXPECT_GT(started.spawn_ns, 0);
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(ended.signal, 0);
  EXPECT_EQ(ended.flags, Ended::log_is_whole);
  EXPECT_EQ(text_of_log(ended.log, 1), "out\n");
  EXPECT_EQ(text_of_log(ended.log, 2), "err\n");
  EXPECT_EQ(ended.log_size, 8);
  EXPECT_GE(ended.at, started.at);
  EXPECT_GT(ended.wall_ns, 0);
  EXPECT_GT(ended.cpu_ns, 0);
  EXPECT_GT(ended.memory_peak, 100'000);
}

TEST_F(AgentTest, ASignalEndsAnAttempt) {
  const Ended ended = run("kill -SEGV $$");
  EXPECT_EQ(ended.exit_code, -1);
  EXPECT_EQ(ended.signal, SIGSEGV);
}

TEST_F(AgentTest, AnAttemptHasItsEnvironmentFilesAndFolder) {
  ::setenv("COMBU_TEST_INHERITED", "yes", 1);
  ::setenv("COMBU_TEST_REPLACED", "old", 1);
  Start start = script("a",
                       "cat $COMBU_SCRATCH/params; echo $TMPDIR $COMBU_TEST_INHERITED $COMBU_TEST_REPLACED; "
                       "pwd; stat -c %a $COMBU_SCRATCH; wc -c");
  start.env = {"COMBU_TEST_REPLACED=new", "TMPDIR=/elsewhere"};
  start.files = {{.name = "params", .content = "text\n"}};
  client().send(start);
  EXPECT_EQ(text_of_log(client().await_of<Ended>("a").log),
            "text\n/elsewhere yes new\n" + fs::current_path().string() + "\n700\n0\n");
}

TEST_F(AgentTest, AllAttemptsOfAWorkerHaveItsVariables) {
  start_worker({}, 60,
               {"a note", "variable=ONE=" + write("one", "a b\n"), "variable=TWO=" + write("two", "")});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(text_of_log(run("echo \"$ONE|$TWO|${THREE-unset}\"").log), "a b\n||unset\n");
  const std::string environment = text_of("/proc/" + std::to_string(worker_->pid()) + "/environ");
  EXPECT_EQ(environment.find("ONE="), std::string::npos) << "no engine stores the variables";
}

TEST_F(AgentTest, AWorkerWithoutItsVariablesEnds) {
  ChildProcess worker({program(), "worker", folder(), "60", "", "variable=ONE=/no/file"}, -1, -1, -1);
  EXPECT_EQ(worker.wait(), 126);
}

TEST_F(AgentTest, AnAttemptHasItsOwnSessionDescriptorsLimitsAndSignals) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const Ended ended =
      run("ls -x /proc/$$/fd; ulimit -Sn; grep -E 'SigBlk|SigIgn' /proc/self/status | tr -d '\\n\\t'; echo; "
          "cat /proc/self/oom_score_adj; test $(ps -o sid= -p $$) -eq $$ && echo session");
  EXPECT_EQ(text_of_log(ended.log), "0  1  2\n" + std::to_string(limit.rlim_cur) +
                                        "\nSigBlk:0000000000000000SigIgn:0000000000000000\n500\nsession\n");
}

TEST_F(AgentTest, TheSameIdDoesNotRunAgain) {
  const std::string file = path("count");
  client().send(script("a", "echo x >> " + file));
  const auto ended = client().await_of<Ended>("a");
  client().send(script("a", "echo x >> " + file));
  EXPECT_EQ(client().await_of<Ended>("a").at, ended.at);
  EXPECT_EQ(text_of(file), "x\n");
}

TEST_F(AgentTest, AForgottenIdRunsAgain) {
  client().send(script("a", "exit 1"));
  client().await_of<Ended>("a");
  client().send(Forget{.ids = {"a"}});
  client().send(script("a", "exit 2"));
  EXPECT_EQ(client().await_of<Ended>("a").exit_code, 2);
}

TEST_F(AgentTest, AProgramThatCannotRunIsRefused) {
  const std::string file = write("data", "text");
  const std::vector<std::pair<std::string, int>> programs{
      {"combu-no-such-program", ENOENT}, {file, EACCES}, {"/", EACCES}, {"", ENOENT}, {file + "/x", ENOENT}};
  for (const auto& [name, code] : programs) {
    client().send(Start{.id = name, .argv = {name}, .env = {}, .files = {}});
    const auto refused = client().await_of<Refused>(name);
    EXPECT_EQ(refused.stage, Refused::program) << name;
    EXPECT_EQ(refused.code, code) << name;
  }
  EXPECT_EQ(client().count(FrameType::started), 0);
}

TEST_F(AgentTest, AFileWithAnInvalidNameIsRefused) {
  for (const std::string name : {"", ".", "..", "a/b"}) {
    Start start = script("a", "true");
    start.files = {{.name = name, .content = {}}};
    client().send(start);
    EXPECT_EQ(client().await_of<Refused>("a").stage, Refused::inputs) << name;
  }
}

TEST_F(AgentTest, AnAttemptIsStoppedAfterItsTimeout) {
  Start start = script("a", "trap 'echo stopping; exit 5' TERM; echo ready; while :; do sleep 0.01; done");
  start.timeout_ms = 300;
  start.grace_ms = 60'000;
  start.stop_signal = SIGTERM;
  client().send(start);
  const auto ended = client().await_of<Ended>("a");
  EXPECT_EQ(ended.exit_code, 5);
  EXPECT_EQ(text_of_log(ended.log, 1), "ready\nstopping\n");
  EXPECT_EQ(ended.flags & (Ended::timed_out | Ended::stopped), Ended::timed_out);
}

TEST_F(AgentTest, AnAttemptThatIgnoresTheSignalIsKilledAfterTheGracePeriod) {
  Start start = script("a", "trap '' TERM; echo ready; while :; do sleep 0.01; done");
  start.timeout_ms = 100;
  start.grace_ms = 50;
  client().send(start);
  const auto ended = client().await_of<Ended>("a");
  EXPECT_EQ(ended.signal, SIGKILL);
  EXPECT_EQ(ended.flags & (Ended::timed_out | Ended::out_of_memory), Ended::timed_out);
}

TEST_F(AgentTest, StopSendsTheSignalOrKills) {
  for (const std::int64_t grace : {-1, 0}) {
    const std::string id = "a" + std::to_string(grace);
    Start start = script(id, "trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done");
    start.stop_signal = SIGUSR1;
    start.grace_ms = 60'000;
    client().send(start);
    client().await_of<Started>(id);
    client().send(ReadLog{.request = 1, .id = id, .since = 0, .is_follow = 1});
    client().await_answer<Log>(1);  // the trap is set
    client().send(Stop{.id = id, .grace_ms = grace});
    const auto ended = client().await_of<Ended>(id);
    EXPECT_EQ(ended.flags & (Ended::timed_out | Ended::stopped), Ended::stopped);
    EXPECT_EQ(ended.exit_code, grace == 0 ? -1 : 7);
  }
}

TEST_F(AgentTest, EveryClientLearnsOfEveryAttempt) {
  client();
  const auto other = connect();
  other->greet();
  other->await<Listed>();
  client().send(script("a", "true"));
  other->await_of<Started>("a");
  EXPECT_EQ(other->await_of<Ended>("a").exit_code, 0);
  client().send(Start{.id = "b", .argv = {"/combu-none"}, .env = {}, .files = {}});
  client().await_of<Refused>("b");
  other->send(Ping{.number = 9});
  EXPECT_EQ(other->await<Pong>().number, 9);
  EXPECT_EQ(other->count(FrameType::refused), 0);
}

TEST_F(AgentTest, AClientThatComesBackLearnsOfTheKnownAttempts) {
  const std::string gate = path("gate");
  client().send(script("ended", "exit 4"));
  client().await_of<Ended>("ended");
  client().send(script("running", "until test -e " + gate + "; do sleep 0.01; done"));
  client().await_of<Started>("running");
  client().hang_up();
  client().await_end();
  EXPECT_EQ(client().process().wait(), 0);
  const auto next = connect();
  next->greet();
  EXPECT_EQ(next->await_of<Ended>("ended").exit_code, 4);
  next->await_of<Started>("running");
  next->await<Listed>();
  EXPECT_EQ(next->count(FrameType::ended), 0);
  std::ofstream(gate).flush();
  EXPECT_EQ(next->await_of<Ended>("running").exit_code, 0);
}

TEST_F(AgentTest, ABrokenProtocolClosesOnlyItsConnection) {
  client().send(script("a", "sleep 60"));
  client().await_of<Started>("a");
  Hello of_other_program;
  of_other_program.magic = "other";
  const Hello too_new{.version_oldest = 900, .version = 901};
  std::string welcome;
  append(welcome, Hello{});
  append(welcome, Listed{});  // a message of the agent
  std::string malformed;
  append_frame(malformed, FrameType::hello, "x");
  std::string first;
  append(first, of_other_program);
  std::string second;
  append(second, too_new);
  std::string early;
  append(early, Ping{});
  for (const std::string& bytes : {std::string(9, '\xFF'), first, second, welcome, malformed, early}) {
    const auto other = connect();
    other->write(bytes);
    EXPECT_FALSE(other->await<Fault>().text.empty());
    other->await_end();
  }
  client().send(Stop{.id = "a", .grace_ms = 0});
  client().await_of<Ended>("a");
}

TEST_F(AgentTest, TheUsageOfARunningAttemptIsMeasured) {
  client().send(script("a", "echo; while :; do :; done"));
  client().await_of<Started>("a");
  await_state([&] {
    client().send(GetUsage{.request = 1, .id = "a"});
    const auto usage = client().await_answer<UsageAnswer>(1);
    return usage.memory > 100'000 && usage.cpu_ns > 0;
  });
  client().send(GetUsage{.request = 2, .id = "none"});
  EXPECT_EQ(client().await_answer<Done>(2).status, Done::unknown_attempt);
  client().send(Forget{.ids = {"a"}});
}

TEST_F(AgentTest, AResidentProgramAnswersCalls) {
  Start start{.id = "r",
              .argv = {"/usr/bin/python3", std::string(COMBU_SOURCE_DIR) + "/tests/agent/resident.py"},
              .env = {},
              .files = {},
              .log_max = 1000};
  start.is_resident = 1;
  client().send(start);
  client().await_of<Started>("r");
  const std::string large(200'000, 'x');
  client().send(Call{.id = "r", .call = 7, .bytes = "hello"});
  client().send(Call{.id = "r", .call = 8, .bytes = large});
  const auto accepts = [](std::uint64_t call) {
    return [call](const Returned& returned) { return returned.call == call; };
  };
  EXPECT_EQ(client().await<Returned>(accepts(7)).bytes, "HELLO");
  const auto returned = client().await<Returned>(accepts(8));
  EXPECT_EQ(returned.status, Returned::ok);
  EXPECT_EQ(returned.bytes.size(), large.size());
  client().send(Call{.id = "none", .call = 9, .bytes = {}});
  EXPECT_EQ(client().await<Returned>(accepts(9)).status, Returned::unknown_attempt);
  client().send(Call{.id = "r", .call = 10, .bytes = "large"});
  EXPECT_EQ(client().await<Returned>(accepts(10)).status, Returned::too_large);
  client().send(Call{.id = "r", .call = 11, .bytes = "exit"});
  EXPECT_EQ(client().await_of<Ended>("r").exit_code, 0);
  client().send(Call{.id = "r", .call = 12, .bytes = {}});
  EXPECT_EQ(client().await<Returned>(accepts(12)).status, Returned::not_running);
}

TEST_F(AgentTest, AResidentProgramThatReadsNoCallsDoesNotBlockTheAgent) {
  Start start = script("r", "sleep 60");
  start.is_resident = 1;
  client().send(start);
  client().await_of<Started>("r");
  for (std::uint64_t call = 0; call < 12; ++call)
    client().send(Call{.id = "r", .call = call, .bytes = std::string(500'000, 'x')});
  EXPECT_EQ(client().await<Returned>().status, Returned::busy);
  client().send(Forget{.ids = {"r"}});
}

TEST_F(AgentTest, SixteenAttemptsTakeLittleMemory) {
  const std::string gate = path("gate");
  for (int i = 0; i < 16; ++i)
    client().send(script(std::to_string(i),
                         "head -c 200000 /dev/zero; until test -e " + gate + "; do sleep 0.05; done"));
  for (int i = 0; i < 16; ++i) client().await_of<Started>(std::to_string(i));
  for (std::uint32_t i = 0; i < 16; ++i) {
    client().send(ReadLog{.request = i, .id = std::to_string(i), .since = 0, .is_follow = 1});
    for (std::size_t size = 0; size < 200'000;)
      size += text_of_log(client().await_answer<Log>(i).chunks).size();
  }
  std::ifstream status("/proc/" + std::to_string(worker_->pid()) + "/status");
  std::size_t resident = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) resident = std::stoul(line.substr(6));
  EXPECT_GT(resident, 100);
  EXPECT_LT(resident, 2048) << "KiB";
  RecordProperty("resident_kib", static_cast<int>(resident));
  std::ofstream(gate).flush();
  for (int i = 0; i < 16; ++i) client().await_of<Ended>(std::to_string(i));
}

TEST_F(AgentTest, AnIdleWorkerEndsAndLeavesItsResults) {
  start_worker({}, 1);
  client().send(script("small", "echo small; exit 6"));
  client().send(script("large", "head -c 100000 /dev/zero"));
  client().await_of<Ended>("small");
  client().await_of<Ended>("large");
  client().hang_up();
  EXPECT_EQ(worker_->wait(), 0);
  const ResultsFile results(text_of(folder() + "/results"));
  EXPECT_EQ(results.types,
            (std::vector{FrameType::welcome, FrameType::started, FrameType::ended, FrameType::started,
                         FrameType::ended, FrameType::listed, FrameType::done}));
  EXPECT_EQ(text_of_log(results.ended.at("small").log), "small\n");
  EXPECT_EQ(results.log_of("small"), "small\n");
  EXPECT_EQ(results.log_of("large"), std::string(100'000, '\0'));
  EXPECT_EQ(results.ended.at("small").exit_code, 6);
}

TEST_F(AgentTest, SigtermKillsTheAttemptsAndLeavesOnlyEarlierResults) {
  client().send(script("ended", "true"));
  client().await_of<Ended>("ended");
  client().send(script("running", "echo $$; sleep 60"));
  client().await_of<Started>("running");
  client().send(ReadLog{.request = 1, .id = "running", .since = 0, .is_follow = 1});
  const std::string pid = text_of_log(client().await_answer<Log>(1).chunks);
  fs::create_symlink("/etc/combu-must-not-appear", folder() + "/results");
  ::kill(worker_->pid(), SIGTERM);
  EXPECT_EQ(worker_->wait(), 0);
  EXPECT_FALSE(fs::exists("/proc/" + pid.substr(0, pid.size() - 1)));
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder() + "/results")));
  const std::string results = text_of(folder() + "/results");
  EXPECT_NE(results.find("ended"), std::string::npos);
  EXPECT_EQ(results.find("running"), std::string::npos);
}

TEST_F(AgentTest, AFileOfResultsThatAnAttemptHasWrittenIsReplaced) {
  client().send(script("forger", "echo forged > $COMBU_SCRATCH/../results"));
  client().await_of<Ended>("forger");
  EXPECT_EQ(text_of(folder() + "/results"), "forged\n");
  client().send(Forget{.ids = {"forger"}});
  ::kill(worker_->pid(), SIGTERM);
  EXPECT_EQ(worker_->wait(), 0);
  EXPECT_EQ(text_of(folder() + "/results").find("forge"), std::string::npos);
}

TEST_F(AgentTest, JoinReportsThatThereIsNoWorker) {
  std::array<int, 2> errors{};
  ASSERT_EQ(::pipe2(errors.data(), O_CLOEXEC), 0);
  ChildProcess join({program(), "join", path("none")}, -1, -1, errors[1]);
  EXPECT_EQ(join.wait(), 1);
  std::array<char, 500> text{};
  const auto size = static_cast<std::size_t>(::read(errors[0], text.data(), text.size()));
  EXPECT_EQ(std::string(text.data(), size),
            "agent: cannot join the worker: " + path("none") + "/socket: No such file or directory\n");
}

}  // namespace
}  // namespace combu::agent
