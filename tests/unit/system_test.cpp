#include "combu/system.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace combu {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SystemTest : public testing::Test {
 protected:
  SystemTest() {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder");
  }
  ~SystemTest() override {
    ::umask(umask_);
    fs::remove_all(folder_);
  }
  SystemTest(const SystemTest&) = delete;
  SystemTest& operator=(const SystemTest&) = delete;

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }

  static std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  static struct stat status_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
    return status;
  }

  static mode_t mode_of(const std::string& path) { return status_of(path).st_mode & 07777U; }

  static std::string message_of(const std::function<void()>& body, ErrorKind kind = ErrorKind::invalid) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  static ProgramEnd shell(const std::string& script, const std::string& input = "",
                          Seconds time_max = Seconds{60}) {
    return run_program({.arguments = {"sh", "-c", script},
                        .environment = own_environment(),
                        .input = input,
                        .output_max = std::size_t{1} << 20U,
                        .time_max = time_max});
  }

 private:
  std::string folder_ = fs::temp_directory_path() / "combu-system-XXXXXX";
  mode_t umask_ = ::umask(022);
};

// ---- programs

using Programs = SystemTest;

TEST_F(Programs, OutputAndExitCodeAreReturned) {
  const ProgramEnd end = shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(end.output, "out\n");
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.problem, "");
}

TEST_F(Programs, InputLargerThanAPipeIsPassedWhileOutputIsRead) {
  const std::string input(900'000, 'x');
  EXPECT_EQ(shell("cat", input).output, input);
}

TEST_F(Programs, InputThatTheProgramDoesNotReadIsNoFailure) {
  const ProgramEnd end = shell("exec <&-; echo done", std::string(900'000, 'x'));
  EXPECT_EQ(end.output, "done\n");
  EXPECT_EQ(end.problem, "");
}

TEST_F(Programs, OutputIsCutAtItsMaximum) {
  const ProgramEnd end = shell("yes");
  EXPECT_EQ(end.output.size(), std::size_t{1} << 20U);
  EXPECT_TRUE(end.output_cut);
  EXPECT_EQ(end.problem, "");
}

TEST_F(Programs, AProgramIsKilledAtItsTimeLimit) {
  EXPECT_EQ(shell("echo begun; exec sleep 1000", "", Seconds{0.2}).problem, "did not end within 200 ms");
}

TEST_F(Programs, AProgramThatClosedItsOutputIsKilledAtItsTimeLimit) {
  EXPECT_EQ(shell("exec >&-; exec sleep 1000", "", Seconds{0.2}).problem, "did not end within 200 ms");
}

// A pipe whose writing end the program's descendants inherit. It breaks when all of them have ended.
class Lifeline {
 public:
  explicit Lifeline(std::string path) : path_(std::move(path)) {
    if (::mkfifo(path_.c_str(), 0600) != 0) throw std::runtime_error("no pipe");
    reader_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }

  // The program starts a child, writes "begun" to the pipe, and executes `rest`.
  [[nodiscard]] ProgramCall call(const std::string& rest) const {
    return {.arguments = {"sh", "-c", "exec 9>" + path_ + "; sleep 1000 & echo begun >&9; " + rest},
            .environment = own_environment(),
            .output_max = 1,
            .time_max = Seconds{600}};
  }
  [[nodiscard]] bool has_begun() const { return happens(POLLIN); }
  [[nodiscard]] bool is_broken() const { return happens(POLLHUP); }

 private:
  [[nodiscard]] bool happens(short event) const {
    pollfd wanted{reader_.number(), event, 0};
    constexpr int k_wait_max = 30'000;
    return ::poll(&wanted, 1, k_wait_max) == 1 && (wanted.revents & event) != 0;
  }

  std::string path_;
  Descriptor reader_;
};

TEST_F(Programs, TheChildrenOfAKilledProgramAreKilled) {
  const Lifeline lifeline(path("lifeline"));
  EXPECT_TRUE(run_program(lifeline.call("exec yes")).output_cut);
  EXPECT_TRUE(lifeline.is_broken());
}

TEST_F(Programs, AProgramIsKilledWhenTheCallerStops) {
  for (const std::string rest : {"exec sleep 1000", "exec >&-; exec sleep 1000"}) {
    const Lifeline lifeline(path(fmt::format("lifeline-{}", rest.size())));
    std::stop_source stop;
    ProgramCall call = lifeline.call(rest);
    call.stop = stop.get_token();
    std::jthread caller([&] { EXPECT_EQ(run_program(call).problem, "was stopped"); });
    EXPECT_TRUE(lifeline.has_begun());
    stop.request_stop();
    caller.join();
    EXPECT_TRUE(lifeline.is_broken());
  }
}

TEST_F(Programs, AMissingOrKilledProgramHasNoExitCode) {
  const ProgramEnd missing = run_program({.arguments = {"combu-no-such-program"}, .time_max = Seconds{60}});
  EXPECT_EQ(missing.problem, "cannot be run: No such file or directory");
  EXPECT_EQ(shell("kill -9 $$").problem, "was killed");
}

TEST_F(Programs, AShellDoesNotEvaluateArguments) {
  const ProgramEnd end = run_program({.arguments = {"printf", "%s", "$(id); `id`"}, .time_max = Seconds{60}});
  EXPECT_EQ(end.output, "$(id); `id`");
}

TEST_F(Programs, AProgramHasOnlyTheGivenEnvironment) {
  const ProgramEnd end =
      run_program({.arguments = {"env"}, .environment = {"ONE=1"}, .time_max = Seconds{60}});
  EXPECT_EQ(end.output, "ONE=1\n");
}

TEST_F(Programs, AProgramRunsAsTheGivenUserOrNotAtAll) {
  const ProgramEnd end = run_program({.arguments = {"sh", "-c", "id -u; id -g; id -G"},
                                      .environment = own_environment(),
                                      .time_max = Seconds{60},
                                      .user = User{.uid = 64001, .gid = 64002}});
  if (geteuid() == 0) {
    EXPECT_EQ(end.output, "64001\n64002\n64002\n");
  } else {
    EXPECT_THAT(end.problem, HasSubstr("cannot be run: Operation not permitted"));
    EXPECT_EQ(end.output, "");
  }
}

// ---- private files

using PrivateFiles = SystemTest;

TEST_F(PrivateFiles, NewFoldersAndFilesArePrivateWithAnyUmask) {
  for (const mode_t mask : {0U, 02U, 022U, 077U}) {
    ::umask(mask);
    const std::string state = path(fmt::format("umask-{:o}/state", mask));
    make_private_folder(state);
    (void)open_private_file(state + "/file", O_RDWR | O_CREAT);
    EXPECT_EQ(mode_of(fs::path(state).parent_path()), 0700U);
    EXPECT_EQ(mode_of(state), 0700U);
    EXPECT_EQ(mode_of(state + "/file"), 0600U);
  }
}

TEST_F(PrivateFiles, WritePermissionOfOthersIsRemoved) {
  const std::string folder = path("state");
  fs::create_directory(folder);
  for (const mode_t mode : {0775U, 0777U, 02775U}) {
    ASSERT_EQ(chmod(folder.c_str(), mode), 0);
    make_private_folder(folder);
    EXPECT_EQ(mode_of(folder), mode & ~022U);
  }
  const std::string file = write("state/file", "text");
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  EXPECT_TRUE(is_private_file(file));
  EXPECT_EQ(mode_of(file), 0644U);
}

TEST_F(PrivateFiles, WritePermissionOfOthersIsRemovedOnlyFromAPureStateFolder) {
  const std::string folder = path("shared");
  fs::create_directory(folder);
  ASSERT_EQ(chmod(folder.c_str(), 02775), 0);
  const auto refuse = [&] {
    EXPECT_EQ(
        message_of([&] { make_state_folder(folder); }),
        fmt::format("{0}: cannot hold combu's state: other users can write to it (mode 2775), and combu "
                    "did not make it; run `chmod go-w {0}`, or name another folder with COMBU_HOME",
                    folder));
    EXPECT_EQ(mode_of(folder), 02775U);
  };
  refuse();
  fs::create_directory(folder + "/logs");
  refuse();
  (void)write("shared/record.sqlite", "");
  (void)write("shared/experiment.jsonnet", "");
  refuse();
  fs::remove(folder + "/experiment.jsonnet");
  (void)write("shared/record.sqlite-wal", "");
  make_state_folder(folder);
  EXPECT_EQ(mode_of(folder), 02755U);
  make_state_folder(path("new"));
  EXPECT_EQ(mode_of(path("new")), 0700U);
}

TEST_F(PrivateFiles, ASharedFolderIsRefusedAndNotChanged) {
  const std::string folder = path("tmp");
  fs::create_directory(folder);
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);
  EXPECT_EQ(message_of([&] { make_private_folder(folder); }),
            folder +
                ": cannot hold combu's state: other users can write to it (mode 1777); name another folder "
                "with COMBU_HOME");
  EXPECT_EQ(mode_of(folder), 01777U);
}

TEST_F(PrivateFiles, ALinkToAFolderIsFollowedButALinkToAFileIsRefused) {
  fs::create_directory(path("target"));
  fs::create_directory_symlink("target", path("state"));
  make_private_folder(path("state"));
  const std::string victim = write("victim", "precious");
  fs::create_symlink(victim, path("state/lock"));
  EXPECT_THAT(
      message_of([&] { (void)open_private_file(path("state/lock"), O_RDWR | O_CREAT); }),
      HasSubstr("it must be a regular file, not a link or device; remove it, or name another folder"));
  EXPECT_THAT(message_of([&] { (void)is_private_file(path("state/lock")); }), HasSubstr("regular file"));
  EXPECT_EQ(text_of(victim), "precious");
}

TEST_F(PrivateFiles, ADanglingLinkIsRefusedAndItsTargetNotCreated) {
  fs::create_symlink(path("elsewhere"), path("link"));
  EXPECT_THAT(message_of([&] { (void)open_private_file(path("link"), O_RDWR | O_CREAT); }),
              HasSubstr("regular file"));
  (void)message_of([&] { make_private_folder(path("link")); }, ErrorKind::refused);
  EXPECT_FALSE(fs::exists(path("elsewhere")));
}

TEST_F(PrivateFiles, AFileWithTwoHardLinksIsRefused) {
  const std::string victim = write("victim", "precious");
  fs::create_hard_link(victim, path("lock"));
  EXPECT_THAT(message_of([&] { (void)open_private_file(path("lock"), O_RDWR | O_CREAT); }),
              HasSubstr(fmt::format(
                  "it must be a file with one name, but has 2 (hard links); while no combu process runs, "
                  "replace it with a copy: `cp -p {0} {0}.new && mv {0}.new {0}`, or name",
                  path("lock"))));
}

TEST_F(PrivateFiles, AFifoIsRefusedAndDoesNotBlock) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { (void)open_private_file(path("fifo"), O_WRONLY | O_CREAT | O_APPEND); }),
              HasSubstr("regular file"));
}

TEST_F(PrivateFiles, AMissingFileIsOpenedOnlyWithOCreat) {
  EXPECT_FALSE(open_private_file(path("missing"), O_RDWR).is_open());
  EXPECT_FALSE(open_private_file(path("missing/too"), O_RDWR).is_open());
  EXPECT_FALSE(is_private_file(path("missing")));
  EXPECT_THAT(
      message_of([&] { (void)open_private_file(path("missing/too"), O_RDWR | O_CREAT); }, ErrorKind::refused),
      HasSubstr("cannot be written: No such file or directory"));
}

TEST_F(PrivateFiles, FilesAndFoldersOfAnotherUserAreRefused) {
  if (geteuid() != 0) {
    EXPECT_THAT(message_of([] { make_private_folder("/usr"); }),
                HasSubstr("/usr: cannot hold combu's state: user 0 owns it"));
    EXPECT_THAT(message_of([] { (void)is_private_file("/etc/passwd"); }), HasSubstr("user 0 owns it"));
    return;
  }
  fs::create_directory(path("state"));
  const std::string file = write("file", "text");
  ASSERT_EQ(lchown(path("state").c_str(), 64001, 64002), 0);
  ASSERT_EQ(lchown(file.c_str(), 64001, 64002), 0);
  EXPECT_EQ(
      message_of([&] { make_private_folder(path("state")); }),
      fmt::format("{0}: cannot hold combu's state: user 64001 owns it, not user 0; name another folder with "
                  "COMBU_HOME or, if you trust what it holds, run `chown -R 0 {0}`",
                  path("state")));
  EXPECT_THAT(message_of([&] { (void)open_private_file(file, O_RDWR); }), HasSubstr("user 64001 owns it"));
  fs::create_directory(path("own"));
  fs::create_directory_symlink("own", path("link"));
  ASSERT_EQ(lchown(path("link").c_str(), 64001, 64002), 0);
  EXPECT_THAT(message_of([&] { make_private_folder(path("link")); }), HasSubstr("user 64001 owns it"));
}

// Root, as if another user had called combu with sudo.
class UnderSudo : public SystemTest {
 protected:
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs
  UnderSudo() {
    setenv("SUDO_UID", "64001", 1);
    setenv("SUDO_GID", "64002", 1);
  }
  ~UnderSudo() override {
    unsetenv("SUDO_UID");
    unsetenv("SUDO_GID");
  }
  // NOLINTEND(concurrency-mt-unsafe)
};

TEST_F(UnderSudo, TheCallingUserIsTheUserWhoCalledSudo) {
  const User expected =
      geteuid() == 0 ? User{.uid = 64001, .gid = 64002} : User{.uid = geteuid(), .gid = getegid()};
  EXPECT_EQ(calling_user(), expected);
}

TEST_F(UnderSudo, NewFilesInFoldersOfTheCallingUserBelongToTheCallingUser) {
  fs::create_directory(path("home"));
  const User user = calling_user();
  ASSERT_EQ(lchown(path("home").c_str(), user.uid, user.gid), 0);
  for (const std::string above : {"home", "."}) {
    const std::string state = path(above + "/.local/combu");
    make_private_folder(state);
    (void)open_private_file(state + "/file", O_RDWR | O_CREAT);
    for (const std::string& part : {path(above + "/.local"), state, state + "/file"})
      EXPECT_EQ(status_of(part).st_uid, above == "home" ? user.uid : geteuid()) << part;
  }
}

// ---- Programs, disks and groups

TEST_F(SystemTest, FindsAProgramInPath) {
  EXPECT_THAT(find_program("sh"), testing::EndsWith("/sh"));
  EXPECT_EQ(find_program("combu-absent-program"), "");
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs
  const std::string old = std::getenv("PATH");
  ::setenv("PATH", (path("one") + ":" + fs::path(path("x")).parent_path().string()).c_str(), 1);
  const std::string program = write("program", "");
  EXPECT_EQ(find_program("program"), "") << "the file is not executable";
  ASSERT_EQ(::chmod(program.c_str(), 0700), 0);
  EXPECT_EQ(find_program("program"), program);
  ASSERT_EQ(::mkdir(path("folder").c_str(), 0700), 0);
  EXPECT_EQ(find_program("folder"), "");
  ::setenv("PATH", old.c_str(), 1);
  // NOLINTEND(concurrency-mt-unsafe)
}

TEST_F(SystemTest, MeasuresTheSpaceOfADisk) {
  const std::optional<DiskSpace> space = disk_space(path("."));
  ASSERT_TRUE(space);
  EXPECT_GT(space->total.count, 0);
  EXPECT_LE(space->free, space->total);
  EXPECT_FALSE(disk_space(path("absent")));
  EXPECT_FALSE(disk_space("/proc")) << "this file system has no size";
}

TEST_F(SystemTest, KnowsGroups) {
  EXPECT_EQ(name_of_group(0), "root");
  EXPECT_EQ(name_of_group(64003), "");
  EXPECT_THAT(groups_of_user(0), testing::Contains(0U));
  EXPECT_THAT(groups_of_user(64003), testing::IsEmpty());
}

}  // namespace
}  // namespace combu
