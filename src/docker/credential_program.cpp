#include "docker/credential_program.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>

namespace combu::docker {
namespace {

// Sockets, not a pipe: a write to a program that has gone must not raise SIGPIPE.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw Error(ErrorKind::unavailable, "socketpair", std::system_category().message(errno));
    reader = Descriptor(ends[0]);
    writer = Descriptor(ends[1]);
  }

  Descriptor reader;
  Descriptor writer;
};

// 0, or why not.
int spawn(const std::string& program, const Pipe& in, const Pipe& out, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.reader.number(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.writer.number(), STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = program;
  std::string verb = "get";
  std::array<char*, 3> arguments{name.data(), verb.data(), nullptr};
  const int failure = posix_spawnp(&pid, name.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failure;
}

// False when the time is over before the program closed its output.
bool read_all(int from, Seconds time_max, std::string& output) {
  const auto limit = std::chrono::steady_clock::now() + time_max;
  std::array<char, 4096> buffer{};
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
    pollfd wanted{from, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wanted, 1, static_cast<int>(left.count())) == 0) return false;
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    output.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

ProgramEnd run_credential_program(const std::string& program, const std::string& input, Seconds time_max) {
  Pipe in;
  Pipe out;
  pid_t pid = 0;
  ProgramEnd end;
  if (const int failure = spawn(program, in, out, pid); failure != 0) {
    end.problem = fmt::format("cannot be run: {}", std::system_category().message(failure));
    return end;
  }
  in.reader.close();
  out.writer.close();
  // A registry's name is shorter than any pipe's buffer. The program may have gone; then its end tells.
  (void)::send(in.writer.number(), input.data(), input.size(), MSG_NOSIGNAL);
  in.writer.close();
  if (!read_all(out.reader.number(), time_max, end.output)) {
    end.problem = fmt::format("did not end within {}", to_string(time_max));
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (end.problem.empty() && !WIFEXITED(status)) end.problem = "was killed";
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return end;
}

}  // namespace combu::docker
