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
#include <thread>

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

using SteadyClock = std::chrono::steady_clock;

// A user, a secret and a server, each of some KiB.
constexpr std::size_t k_output_max = std::size_t{1} << 20U;

enum class OutputEnd { closed, late, too_large };

OutputEnd read_all(int from, SteadyClock::time_point limit, std::string& output) {
  std::array<char, 4096> buffer{};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - SteadyClock::now());
    pollfd wanted{from, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wanted, 1, static_cast<int>(left.count())) == 0) return OutputEnd::late;
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return OutputEnd::closed;
    if (static_cast<std::size_t>(count) > k_output_max - output.size()) return OutputEnd::too_large;
    output.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

// False when the time is over before the program has ended: it may close its output and go on.
bool wait_for_end(pid_t pid, SteadyClock::time_point limit, int& status) {
  constexpr std::chrono::milliseconds k_look{5};
  while (true) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) return true;
    if (SteadyClock::now() >= limit) return false;
    std::this_thread::sleep_for(k_look);
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
  const auto limit = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(time_max);
  const OutputEnd output_end = read_all(out.reader.number(), limit, end.output);
  int status = 0;
  if (output_end == OutputEnd::too_large)
    end.problem = fmt::format("printed more than {} MiB", k_output_max >> 20U);
  else if (output_end == OutputEnd::late || !wait_for_end(pid, limit, status))
    end.problem = fmt::format("did not end within {}", to_string(time_max));
  if (!end.problem.empty()) {
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (end.problem.empty() && !WIFEXITED(status)) end.problem = "was killed";
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return end;
}

}  // namespace combu::docker
