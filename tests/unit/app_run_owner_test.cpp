// Tests with two processes that use the same run: locks, channels, and changes of a run while it is driven.
// The other process is a thread with a progress and a stop token of its own. If the test interrupts the other
// process by a signal, that process is a child process.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <future>
#include <thread>

#include "app/adjust.hpp"
#include "app/apply.hpp"
#include "app/attach.hpp"
#include "app/kill.hpp"
#include "app/run_owner.hpp"
#include "app/stop.hpp"
#include "app_fixture.hpp"

namespace combu::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr const char* k_sleeps = "{name: 'goes', image: 'lab/x', cmd: 'sleep 1000'},";

// A child process that holds the lock of the run r1 until it gets SIGINT. With Holds::starts, the child also
// holds the lock of a run that starts trials.
class Child {
 public:
  enum class Holds { run, starts };
  Child(const Caller& caller, const std::string& engine, Holds holds = Holds::run) {
    std::array<int, 2> ready{};
    EXPECT_EQ(pipe2(ready.data(), O_CLOEXEC), 0);
    process_ = fork();
    if (process_ == 0) {
      hold(caller, engine, holds, ready[1]);
      _exit(0);
    }
    close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the child holds no lock";
    close(ready[0]);
  }
  ~Child() {
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  [[nodiscard]] int process() const { return process_; }

 private:
  static void hold(const Caller& caller, const std::string& engine, Holds holds, int ready) {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
    try {
      const combu::Run run{.id = RunId("r1"), .experiment = {.name = "lab", .file = caller.file}};
      std::optional<RunLock> starts;
      if (holds == Holds::starts) starts.emplace(LockScope::starts, run, engine, caller, std::stop_token());
      const RunLock lock(LockScope::run, run, engine, caller, {});
      if (write(ready, "x", 1) != 1) return;
      int signal = 0;
      sigwait(&interrupt, &signal);
    } catch (const Error&) {
      return;
    }
  }

  pid_t process_ = 0;
};

class RunOwnerTest : public AppTest {
 protected:
  // Returns the file with this text. Forks a process, so call this function before starting threads.
  Loaded edited(const std::string& text) {
    write(text);
    auto file = load(invocation, RunId("r1"), shown);
    EXPECT_TRUE(file);
    return std::move(file).value();
  }
  Result apply(const Loaded& file) {
    return in_session([&](Session& session) {
      Record all(state());
      RunOwner owner(nullptr);
      return apply_file(session, all, all.run(RunId("r1")), file, {}, {}, owner);
    });
  }
};

TEST_F(RunOwnerTest, ASecondProcessThatStartsTrialsIsRefused) {
  const Child child(caller(), address, Child::Holds::starts);
  EXPECT_EQ(owner_pid(RunId("r1"), caller()), child.process());
  write(file_text(k_sleeps));
  EXPECT_EQ(start(new_run("r1")), Result::failed);
  EXPECT_THAT(printed.of("error"),
              ElementsAre(AllOf(HasSubstr("run r1: another combu (process "), HasSubstr("owns the run"))));
  EXPECT_EQ(start(new_run("r2")), Result::failed);
  EXPECT_THAT(printed.of("error").at(1), HasSubstr("is still starting the trials of run r1"));
  EXPECT_THAT(containers(), IsEmpty());
  EXPECT_THAT(record().runs({}, 9), IsEmpty());
}

TEST_F(RunOwnerTest, KillInterruptsTheOwner) {
  EXPECT_EQ(start(file_text(k_sleeps), new_run("r1")), Result::succeeded);
  const Child child(caller(), address);
  EXPECT_EQ(in_session([&](Session& session) { return kill(session, invocation, {}); }), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains("interrupted process " + std::to_string(child.process()) + ", which owned run r1"));
  EXPECT_FALSE(owner_pid(RunId("r1"), caller()));
  EXPECT_THAT(containers(), IsEmpty());
  EXPECT_EQ(states("r1").at("goes"), "stopped");
}

TEST_F(RunOwnerTest, KillDoesNotInterruptAnOwnerOnAnotherEngine) {
  EXPECT_EQ(start(file_text(k_sleeps), new_run("r1")), Result::succeeded);
  const Child child(caller(), "unix:///another.sock");
  EXPECT_EQ(in_session([&](Session& session) { return kill(session, invocation, {}); }), Result::succeeded);
  EXPECT_EQ(owner_pid(RunId("r1"), caller()), child.process());
  EXPECT_FALSE(entry("r1").ended_at) << "it is the process's to record";
}

TEST_F(RunOwnerTest, ReplaceInterruptsTheOwner) {
  EXPECT_EQ(start(file_text(k_sleeps), new_run("r1")), Result::succeeded);
  const Child child(caller(), address);
  NewRun second = new_run("r2");
  second.replace = true;
  EXPECT_EQ(start(second), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains("interrupted process " + std::to_string(child.process()) + ", which owned run r1"));
  EXPECT_EQ(states("r1").at("goes"), "stopped");
  EXPECT_EQ(states("r2").at("goes"), "running");
}

TEST_F(RunOwnerTest, ARunWorksWithoutLocks) {
  write_file("state/locks", "a file");
  std::filesystem::permissions(state(), std::filesystem::perms::owner_all);
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains(HasSubstr("combu cannot detect two runs that start at the same time: ")));
}

TEST_F(RunOwnerTest, ARunWorksWithoutAChannel) {
  write_file("state/channels", "a file");
  std::filesystem::permissions(state(), std::filesystem::perms::owner_all);
  EXPECT_EQ(start(file_text(trial_text("one")), waiting_run("r1")), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains(HasSubstr("`combu attach` cannot follow this run: ")));
}

// ---- The background

class Foreground final : public Background {
 public:
  void enter(const RunId& run, int log) const override {
    entered = run.text();
    EXPECT_EQ(write(log, "word\n", 5), 5);
  }
  mutable std::string entered;
};

TEST_F(RunOwnerTest, ARunEntersTheBackgroundAfterAllChecks) {
  const Foreground background;
  write(file_text(trial_text("one")));
  {
    RunOwner owner(&background);
    const auto progress = owner.share(std::make_unique<Shown>(printed));
    EXPECT_EQ(start_run(invocation, waiting_run("r1"), *progress, opener(*progress, {}), owner),
              Result::succeeded);
  }
  EXPECT_EQ(background.entered, "r1");
  EXPECT_THAT(printed.of("note"),
              Contains(AllOf(HasSubstr("run r1 continues in the background"), HasSubstr("combu attach r1"),
                             HasSubstr(path("state/logs/r1.log")))));
  EXPECT_EQ(read("state/logs/r1.log"), "word\n");
}

TEST_F(RunOwnerTest, AnUnusedLogIsRemoved) {
  const Foreground background;
  write(file_text("{name: 'one', image: 'missing/x'},"));
  {
    RunOwner owner(&background);
    const auto progress = owner.share(std::make_unique<Shown>(printed));
    EXPECT_EQ(start_run(invocation, waiting_run("r1"), *progress, opener(*progress, {}), owner),
              Result::failed);
    EXPECT_TRUE(std::filesystem::exists(path("state/logs/r1.log")));
  }
  EXPECT_EQ(background.entered, "");
  EXPECT_FALSE(std::filesystem::exists(path("state/logs/r1.log")));
}

// ---- A run with an owner

TEST_F(RunOwnerTest, AttachFollowsTheOwnerToItsEnd) {
  Process process(*this, file_text(k_sleeps + trial_text("more", "true")), waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("goes running"));
  std::stop_source leave;
  Printed seen;
  Shown follower(seen);
  auto attached =
      std::async(std::launch::async, [&] { return attach(invocation, "", follower, leave.get_token()); });
  ASSERT_TRUE(seen.wait_for("begin r1"));
  stop_container("r1", "goes");
  const Attached end = attached.get();
  EXPECT_EQ(end.owner_exit_code, 1) << "a trial was stopped";
  EXPECT_EQ(process.result(), Result::failed);
}

TEST_F(RunOwnerTest, TheRunContinuesWhenAFollowerLeaves) {
  Process process(*this, file_text(k_sleeps), waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("goes running"));
  std::stop_source leave;
  Printed seen;
  Shown follower(seen);
  auto attached =
      std::async(std::launch::async, [&] { return attach(invocation, "", follower, leave.get_token()); });
  ASSERT_TRUE(seen.wait_for("begin r1"));
  leave.request_stop();
  EXPECT_EQ(attached.get().result, Result::interrupted);
  EXPECT_THAT(seen.of("note"),
              ElementsAre("detached; the run continues: `combu attach r1` follows the run again"));
  stop_container("r1", "goes");
  EXPECT_EQ(process.result(), Result::failed);
}

TEST_F(RunOwnerTest, AttachShowsTheRecordIfThereIsNoOwner) {
  EXPECT_EQ(start(file_text(k_sleeps), new_run("r1")), Result::succeeded);
  const Attached none = attach(invocation, "r1", shown, {});
  EXPECT_EQ(none.owner_exit_code, std::nullopt);
  EXPECT_EQ(none.result, Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains(HasSubstr("no process owns run r1: 1 running; `")));
  RunEntry begun = entry("r1");
  begun.id = RunId("r2");
  Experiment experiment;
  experiment.trials.emplace_back().name = "goes";
  record().begin(begun, experiment);
  EXPECT_EQ(attach(invocation, "r2", shown, {}).result, Result::failed);
  EXPECT_THAT(printed.of("note"), Contains(HasSubstr("no process owns run r2: 1 waiting; `")));
}

TEST_F(RunOwnerTest, AttachShowsHowARunEnded) {
  EXPECT_EQ(start(file_text(trial_text("bad", "exit 1")), waiting_run("r1")), Result::failed);
  EXPECT_EQ(attach(invocation, "r1", shown, {}).result, Result::failed);
  EXPECT_THAT(printed.of("note"), Contains("run r1 has ended: 1 failed"));
}

TEST_F(RunOwnerTest, TheSettingsOfARunCanBeAdjusted) {
  Process process(*this, file_text(k_sleeps + trial_text("waits", "sleep 1000"), "parallel: 1,"),
                  waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("goes running"));
  const Adjusted adjusted = adjust_run(invocation, "", {.parallel_max = 2, .starts_in_flight_max = 4});
  EXPECT_EQ(adjusted.run.text(), "r1");
  EXPECT_EQ(adjusted.settings.parallel_max, 2U);
  EXPECT_TRUE(process.printed.wait_for("waits running"));
  const RunOptions options = run_options_of(entry("r1").options);
  EXPECT_EQ(options.parallel, 2U);
  EXPECT_EQ(options.starts_in_flight, 4U);
  process.stop.request_stop();
  EXPECT_EQ(process.result(), Result::interrupted);
  EXPECT_EQ(error_in([&] { (void)adjust_run(invocation, "r1", {.parallel_max = 2}); }).kind(),
            ErrorKind::not_found);
}

TEST_F(RunOwnerTest, TheOwnerLearnsWhoStopsATrial) {
  Process process(*this, file_text(k_sleeps), waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("goes running"));
  EXPECT_EQ(in_session([&](Session& session) { return combu::stop(session, invocation, {}); }),
            Result::succeeded);
  EXPECT_EQ(process.result(), Result::failed);
  EXPECT_EQ(states("r1").at("goes"), "stopped");
  EXPECT_THAT(trial_of("r1", "goes").reason, HasSubstr("combu stop"));
}

TEST_F(RunOwnerTest, TheOwnerHandsOverTheRunToApplyAFile) {
  const Loaded file = edited(file_text(k_sleeps + trial_text("new", "sleep 1000"), "parallel: 3,"));
  Process process(*this, file_text(k_sleeps + trial_text("old", "sleep 1000"), "parallel: 2,"),
                  waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("goes running"));
  ASSERT_TRUE(process.printed.wait_for("old running"));
  EXPECT_EQ(apply(file), Result::succeeded);
  EXPECT_THAT(printed.of("note"), Contains("run r1: 1 trial is new, 1 trial was removed"));
  EXPECT_TRUE(process.printed.wait_for("note run r1: the edited file has been applied"));
  EXPECT_TRUE(process.printed.wait_for("new running"));
  EXPECT_TRUE(process.printed.wait_for("old stopped"));
  process.stop.request_stop();
  EXPECT_EQ(process.result(), Result::interrupted);
  EXPECT_THAT(states("r1"),
              UnorderedElementsAre(Pair("goes", "running"), Pair("old", "stopped"), Pair("new", "running")));
}

TEST_F(RunOwnerTest, AnUnchangedFileNeedsNoHandover) {
  const Loaded file = edited(file_text(k_sleeps));
  Process process(*this, file_text(k_sleeps), waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("goes running"));
  EXPECT_EQ(apply(file), Result::succeeded);
  EXPECT_THAT(printed.of("note"), ElementsAre("run r1: the file has not changed"));
}

TEST_F(RunOwnerTest, TheNewestRunWithAnOwnerIsFound) {
  Process process(*this, file_text(k_sleeps), waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("goes running"));
  RunEntry later = entry("r1");
  later.id = RunId("r2");
  later.began_at += std::chrono::seconds(1);
  Record all(state());
  Experiment experiment;
  experiment.trials.emplace_back().name = "goes";
  all.begin(later, experiment);
  EXPECT_EQ(find_run(all, invocation, "").id.text(), "r2");
  EXPECT_EQ(find_owned_run(all, invocation, "").id.text(), "r1");
  EXPECT_EQ(find_owned_run(all, invocation, "r2").id.text(), "r2");
}

}  // namespace
}  // namespace combu::test
