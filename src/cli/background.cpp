#include "cli/background.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "cli/output.hpp"

namespace combu {
namespace {

constexpr std::array k_passed_on{SIGINT, SIGTERM, SIGQUIT, SIGHUP};

// The id of the process to which pass_on() sends signals. A global variable, because a signal handler gets
// only the signal's number.
volatile pid_t passed_to = 0;

void pass_on(int number) {
  (void)::kill(passed_to, number);
}

Error failed(const char* what) {
  return {ErrorKind::refused, "--detach",
          fmt::format("{}: {}", what, std::generic_category().message(errno))};
}

// Returns the next line from the pipe, or an empty string if the pipe ends before the line is complete.
std::string line_from(int file) {
  std::string line;
  for (char letter = 0;;) {
    const ssize_t size = read(file, &letter, 1);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0 || letter == '\n') return size <= 0 ? "" : line;
    line += letter;
  }
}

int code_of(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) throw failed("cannot wait for the background process");
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  if (WTERMSIG(status) == SIGKILL) (void)put_err("combu: the background process was killed\n");
  return 128 + WTERMSIG(status);
}

// Waits in the foreground process until the child enters the background or ends. Returns the exit code of the
// foreground process.
int see_off(pid_t process, int file) {
  const std::string run = line_from(file);
  if (run.empty()) return code_of(process);
  (void)put_out(run + "\n");
  return 0;
}

// Sends the run's id through the pipe `file` to the foreground process, which prints the id.
class ForkedBackground final : public Background {
 public:
  explicit ForkedBackground(int file) : file_(file) {}

  void enter(const RunId& run, int log) const override {
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)dup2(nothing, STDIN_FILENO);
    (void)close(nothing);
    (void)dup2(log, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    // Ignore errors of write(), because the foreground process may have ended.
    const std::string line = run.text() + "\n";
    (void)!write(file_, line.data(), line.size());
    (void)close(file_);
  }

 private:
  int file_;
};

}  // namespace

int in_background(const std::function<int(const Background*)>& body) {
  std::array<int, 2> files{};
  if (pipe2(files.data(), O_CLOEXEC) != 0) throw failed("cannot create a pipe");
  sigset_t passed;
  sigset_t before;
  sigemptyset(&passed);
  for (const int number : k_passed_on) sigaddset(&passed, number);
  // Block the signals of k_passed_on until their handler is set, so that no signal is lost.
  (void)pthread_sigmask(SIG_BLOCK, &passed, &before);
  passed_to = fork();
  if (passed_to < 0) throw failed("cannot create the background process");
  if (passed_to == 0) {
    (void)close(files[0]);
    (void)setsid();
    (void)signal(SIGHUP, SIG_IGN);
    (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
    const ForkedBackground background(files[1]);
    return body(&background);
  }
  (void)close(files[1]);
  // If combu's caller ignores a signal, both processes ignore that signal.
  for (const int number : k_passed_on)
    if (signal(number, pass_on) == SIG_IGN) (void)signal(number, SIG_IGN);
  (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return see_off(passed_to, files[0]);
}

void add_detach_option(CliCommand command, bool& detach) {
  command.add_flag("-d,--detach", detach,
                   "After all checks, print the run's id and continue in the background");
}

}  // namespace combu
