// Attempts that misbehave.

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>

#include "unit/agent_fixture.hpp"

namespace combu::agent {
namespace {

class AgentFaultsTest : public AgentTest {
 protected:
  // Returns the number of processes whose command line contains the text.
  static int processes_with(const std::string& text) {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string command = text_of(entry.path().string() + "/cmdline");
      count += command.find(text) != std::string::npos ? 1 : 0;
    }
    return count;
  }
  // Runs a Python program to its end.
  Ended run_python(const std::string& text) {
    return run("exec /usr/bin/python3 " + write("program" + std::to_string(runs_) + ".py", text));
  }
  void expect_alive() { EXPECT_EQ(run("exit 3").exit_code, 3); }
};

TEST_F(AgentFaultsTest, ProcessesThatAnAttemptLeavesBehindAreKilled) {
  const std::string mark = "77." + std::to_string(::getpid());
  const Ended ended =
      run("sleep " + mark + " & setsid sleep " + mark + " & env -i setsid sh -c 'sleep " + mark +
          " & sleep " + mark + "' & nohup setsid sleep " + mark + " >/dev/null 2>&1 & sleep 0.2");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_GE(ended.left_behind, 5);
  EXPECT_EQ(processes_with(mark), 0);
}

TEST_F(AgentFaultsTest, AProcessOfARunningAttemptIsNotKilledByTheEndOfAnother) {
  const std::string gate = path("gate");
  const std::string mark = "78." + std::to_string(::getpid());
  client().send(script("a", "(setsid sleep " + mark + " &); env -i setsid sh -c '(sleep " + mark +
                                " &)'; echo ready; until test -e " + gate + "; do sleep 0.01; done"));
  client().send(ReadLog{.request = 1, .id = "a", .since = 0, .is_follow = 1});
  client().await_answer<Log>(1);
  // The arguments of a program end with a zero byte, unlike the words in the shells' texts.
  const auto runs_on = [&] { return processes_with(std::string("sleep\0", 6) + mark) == 2; };
  await_state(runs_on);
  run("setsid sleep 60 & true");
  EXPECT_TRUE(runs_on());
  std::ofstream(gate).flush();
  client().await_of<Ended>("a");
  await_state([&] { return processes_with(mark) == 0; });
}

TEST_F(AgentFaultsTest, ProcessesThatForkWithoutEndAreKilled) {
  const Ended ended = run_python(R"(
import os, sys, time
if os.fork() == 0:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if os.fork() != 0:
            os._exit(0)
        os.setsid()
        os.environ.clear()
time.sleep(0.1)
)");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_GE(ended.left_behind, 1);
  EXPECT_EQ(processes_with(path("program0.py")), 0);
  expect_alive();
}

TEST_F(AgentFaultsTest, AWideForkBombIsKilledAtItsTimeout) {
  Start start{.id = "a",
              .argv = {"/usr/bin/python3", write("bomb.py", R"(
import os
for depth in range(7):
    if os.fork() == 0:
        os.setsid()
while True:
    os.sched_yield()
)")},
              .env = {},
              .files = {},
              .timeout_ms = 400,
              .log_max = 1000};
  client().send(start);
  const auto ended = client().await_of<Ended>("a");
  EXPECT_EQ(ended.signal, SIGKILL);
  EXPECT_EQ(processes_with(path("bomb.py")), 0);
  expect_alive();
}

// A process that is left could replace the file of results, which exit code 0 makes valid.
TEST_F(AgentFaultsTest, ProcessesThatCannotBeKilledMakeTheResultsInvalid) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  fs::permissions(root_, fs::perms::all);
  fs::copy_file("/usr/bin/setpriv", path("as_root"));
  ASSERT_EQ(::chmod(path("as_root").c_str(), 04755), 0);
  start_worker({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
  client().send(script("ended", "true"));
  client().await_of<Ended>("ended");
  client().send(script("running", "echo $$; exec " + path("as_root") + " --reuid=0 sleep 600"));
  client().send(ReadLog{.request = 1, .id = "running", .since = 0, .is_follow = 1});
  const int pid = std::stoi(text_of_log(client().await_answer<Log>(1).chunks));
  const std::string process = "/proc/" + std::to_string(pid);
  await_state([&] { return text_of(process + "/cmdline").starts_with("sleep"); });
  ::kill(worker_->pid(), SIGTERM);
  EXPECT_EQ(worker_->wait(), 70);
  EXPECT_TRUE(fs::exists(process));
  ::kill(pid, SIGKILL);
}

TEST_F(AgentFaultsTest, OtherFramesArriveBesideALargeOutput) {
  Start start = script("loud", "head -c 200000000 /dev/zero");
  client().send(start);
  client().await_of<Started>("loud");
  expect_alive();
  EXPECT_EQ(client().await_of<Ended>("loud").log_size, 200'000'000);
}

TEST_F(AgentFaultsTest, BinaryOutputIsKept) {
  const Ended ended = run("printf '\\000\\377\\n\\r\\000'");
  EXPECT_EQ(text_of_log(ended.log), std::string("\0\xFF\n\r\0", 5));
}

TEST_F(AgentFaultsTest, AnAttemptMayCloseOrFillItsDescriptors) {
  EXPECT_EQ(run("exec <&- >&- 2>&-; sleep 0.05; exit 4").exit_code, 4);
  const Ended ended =
      run_python("import os\ntry:\n    while True: os.dup(0)\nexcept OSError: print('full')\n");
  EXPECT_EQ(text_of_log(ended.log), "full\n");
  expect_alive();
}

TEST_F(AgentFaultsTest, AnAttemptCannotEndTheAgentWithItsSignals) {
  run("kill -TERM $PPID; kill -HUP -$PPID 2>/dev/null; kill -CHLD $PPID; kill -PIPE $PPID");
  expect_alive();
}

TEST_F(AgentFaultsTest, AnAttemptCannotReadTheAgent) {
  const Ended ended =
      run("test -r /proc/$PPID/environ && su -s /bin/sh nobody -c 'cat /proc/'$PPID'/environ' 2>/dev/null; "
          "echo $?");
  EXPECT_EQ(text_of_log(ended.log), "1\n");
}

TEST_F(AgentFaultsTest, AnAttemptCannotActAsAClient) {
  const Ended ended = run("echo | " + program() + " join " + folder() + "; echo $?");
  EXPECT_EQ(text_of_log(ended.log, 1), "1\n");
  EXPECT_EQ(text_of_log(ended.log, 2),
            "agent: cannot join the worker: " + folder() + "/socket: the worker refuses this process\n");
  expect_alive();
}

TEST_F(AgentFaultsTest, AVisitorThatPassesNoDescriptorsIsIgnored) {
  client();
  const int visitor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder() + "/socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::connect(visitor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::write(visitor, "xxxx", 4), 4);
  char byte = 0;
  EXPECT_LE(::read(visitor, &byte, 1), 0);
  ::close(visitor);
  expect_alive();
}

TEST_F(AgentFaultsTest, ARemovedSocketIsMadeAgain) {
  run("rm " + folder() + "/socket");
  await_state([&] { return fs::exists(folder() + "/socket"); });
  connect()->greet();
  expect_alive();
}

TEST_F(AgentFaultsTest, ARemovedFolderIsMadeAgain) {
  run("rm -rf " + folder());
  await_state([&] { return fs::exists(folder() + "/socket"); });
  connect()->greet();
  expect_alive();
  EXPECT_EQ(fs::status(folder()).permissions(), fs::perms::owner_all);
}

TEST_F(AgentFaultsTest, AFolderThatIsReplacedIsMadeAgain) {
  run("mv " + folder() + " " + path("moved") + " && ln -s /etc " + folder());
  await_state(
      [&] { return fs::is_directory(fs::symlink_status(folder())) && fs::exists(folder() + "/socket"); });
  connect()->greet();
  expect_alive();
}

TEST_F(AgentFaultsTest, AClientThatDoesNotReadDelaysNoOther) {
  client();
  const auto slow = connect();
  slow->greet();
  for (std::uint32_t i = 0; i < 3; ++i) {
    slow->send(script("s" + std::to_string(i), "seq 1 100000"));
    slow->send(ReadLog{.request = i, .id = "s" + std::to_string(i), .since = 0, .is_follow = 1});
  }
  for (int i = 0; i < 50; ++i) expect_alive();
}

TEST_F(AgentFaultsTest, AKilledJoinEndsItsConnection) {
  client().send(script("a", "sleep 60"));
  client().await_of<Started>("a");
  ::kill(client().process().pid(), SIGKILL);
  client().await_end();
  const auto next = connect();
  next->greet();
  next->await_of<Started>("a");
}

TEST_F(AgentFaultsTest, LackOfMemoryIsReported) {
  // A control group with little memory, as the engine makes it for a container.
  const std::string group = "/sys/fs/cgroup/memory/combu-agent-" + std::to_string(::getpid());
  std::error_code error;
  if (!fs::create_directory(group, error)) GTEST_SKIP() << "cannot make a control group of version 1";
  const auto set = [&](const char* file, const std::string& value) {
    std::ofstream(group + "/" + file) << value << std::flush;
  };
  set("memory.limit_in_bytes", "64M");
  start_worker({"sh", "-c", "echo $$ > " + group + "/cgroup.procs && exec \"$@\"", "sh"});
  const std::string allocate = "/usr/bin/python3 -c 'b = bytearray(200 << 20)'";
  EXPECT_NE(run("exec " + allocate).flags & Ended::out_of_memory, 0);
  EXPECT_NE(run(allocate + "; exit $?").flags & Ended::out_of_memory, 0);
  EXPECT_EQ(run("kill -KILL $$").flags & Ended::out_of_memory, 0);
  client_.reset();
  worker_.reset();
  await_state([&] { return ::rmdir(group.c_str()) == 0; });
}

// As process 1 of a container: not even SIGKILL from an attempt ends the agent, and a client's process has no
// parent.
TEST_F(AgentFaultsTest, AsTheFirstProcessItSurvivesItsAttempts) {
  start_worker({"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"});
  pid_t inner = 0;
  await_state([&] {
    const std::string pid = std::to_string(worker_->pid());
    return std::istringstream(text_of("/proc/" + pid + "/task/" + pid + "/children")) >> inner && inner > 0;
  });
  const std::vector<std::string> join{"nsenter", "-t",    std::to_string(inner), "-p", "-m", program(),
                                      "join",    folder()};
  client_ = std::make_unique<Client>(join);
  client_->greet();
  client_->await<Listed>();
  EXPECT_EQ(text_of_log(run("kill -KILL 1; kill -TERM 1; kill -STOP 1; echo survived").log), "survived\n");
  // An attempt of the same user can kill the client's process in the container. The client connects again.
  client().send(script("all", "kill -KILL -1; exit 8"));
  client().await_end();
  client_ = std::make_unique<Client>(join);
  client_->greet();
  EXPECT_EQ(client_->await_of<Ended>("all").exit_code, 8);
  const Ended orphans = run("setsid sh -c 'sleep 60 & sleep 60' & sleep 0.1; kill -TERM 1");
  EXPECT_GE(orphans.left_behind, 2);
  const Ended intruder = run("echo | " + program() + " join " + folder() + " 2>&1");
  EXPECT_EQ(intruder.exit_code, 1);
  expect_alive();
}

}  // namespace
}  // namespace combu::agent
