#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <stop_token>
#include <string_view>
#include <system_error>

#include "combu/system.hpp"

namespace combu {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

Error no_room(const char* call) {
  return {ErrorKind::unavailable, call, std::generic_category().message(errno)};
}

// A pair of connected sockets that serves as a pipe. With a real pipe, a write after the end of the program
// would raise SIGPIPE.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw no_room("socketpair");
    reader = Descriptor(ends[0]);
    writer = Descriptor(ends[1]);
  }

  Descriptor reader;
  Descriptor writer;
};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  // execvpe() takes pointers to non-const characters but does not change the characters.
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));  // NOLINT
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<gid_t> groups_of(const User& user) {
  std::vector<gid_t> groups{user.gid};
  const std::string name = name_of_user(user.uid);
  if (name.empty()) return groups;
  constexpr int k_groups_max = 65536;  // NGROUPS_MAX, see getgroups(2)
  int count = k_groups_max;
  std::vector<gid_t> found(k_groups_max);
  if (getgrouplist(name.c_str(), user.gid, found.data(), &count) < 0) return groups;
  found.resize(static_cast<std::size_t>(count));
  return found;
}

// All data that the child process needs, prepared before fork(). After fork(), the child of a process with
// threads may call only async-signal-safe functions (fork(2)).
struct Child {
  const ProgramCall& call;
  Pipe input;
  Pipe output;
  Pipe failure;  // carries errno if execvpe() fails; closed if execvpe() succeeds
  Descriptor nothing{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  pid_t parent = ::getpid();
  std::vector<char*> arguments = pointers_to(call.arguments);
  std::vector<char*> environment = pointers_to(call.environment);
  std::vector<gid_t> groups = call.user ? groups_of(*call.user) : std::vector<gid_t>();

  // Changes the user of the child process with direct system calls. setuid() of the C library would wait for
  // threads that the child does not have.
  [[nodiscard]] bool becomes_user() const {
    if (!call.user) return true;
    const auto [uid, gid] = *call.user;
    return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0 &&
           ::syscall(SYS_setresgid, gid, gid, gid) == 0 && ::syscall(SYS_setresuid, uid, uid, uid) == 0;
  }

  // Asks the system to kill the child when the parent ends. ends_with_parent() must be called after
  // becomes_user(), because a change of the user resets the parent-death signal (prctl(2)).
  [[nodiscard]] bool ends_with_parent() const {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
    if (::getppid() != parent) ::_exit(1);  // the parent ended before the call of prctl()
    return true;
  }

  [[noreturn]] void run() const {
    if (becomes_user() && ends_with_parent() && ::setsid() >= 0 &&
        (call.folder.empty() || ::chdir(call.folder.c_str()) == 0) &&
        ::dup2(input.reader.number(), STDIN_FILENO) >= 0 &&
        ::dup2(output.writer.number(), STDOUT_FILENO) >= 0 && ::dup2(nothing.number(), STDERR_FILENO) >= 0)
      ::execvpe(arguments[0], arguments.data(), environment.data());
    const int code = errno;
    (void)!::write(failure.writer.number(), &code, sizeof code);
    constexpr int k_exit_code = 127;
    ::_exit(k_exit_code);
  }
};

// Sends as much of `input` as the program accepts without blocking. Closes `to` when all input is sent, or
// when the program has closed its standard input.
void send_some(Descriptor& to, std::string_view& input) {
  const ssize_t count = ::send(to.number(), input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count >= 0) input.remove_prefix(static_cast<std::size_t>(count));
  if (input.empty() || (count < 0 && errno != EAGAIN && errno != EINTR)) to.close();
}

int milliseconds_until(SteadyTime limit) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(limit - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));
}

// An event descriptor that becomes readable when `stop` requests a stop.
class StopEvent {
 public:
  explicit StopEvent(const std::stop_token& stop)
      : event_(::eventfd(0, EFD_CLOEXEC)), on_stop_(stop, [this] { ::eventfd_write(event_.number(), 1); }) {
    if (!event_.is_open()) throw no_room("eventfd");
  }

  [[nodiscard]] int number() const { return event_.number(); }

 private:
  Descriptor event_;
  std::stop_callback<std::function<void()>> on_stop_;
};

enum class Reading { ended, cut, timed_out, stopped };

// Writes the program's input and reads its output, until the program closes its output, a limit is exceeded,
// or the caller requests a stop.
Reading exchange(Child& child, const ProgramCall& call, const StopEvent& stop, SteadyTime limit,
                 std::string& output) {
  std::string_view input = call.input;
  if (input.empty()) child.input.writer.close();
  std::array<char, 65536> buffer{};
  while (true) {
    std::array<pollfd, 3> wanted{pollfd{child.output.reader.number(), POLLIN, 0},
                                 pollfd{child.input.writer.number(), POLLOUT, 0},
                                 pollfd{stop.number(), POLLIN, 0}};
    const int left = milliseconds_until(limit);
    const int ready = left > 0 ? ::poll(wanted.data(), wanted.size(), left) : 0;
    if (ready == 0) return Reading::timed_out;
    if (ready < 0) continue;  // a signal has interrupted poll()
    if (wanted[2].revents != 0) return Reading::stopped;
    if (wanted[1].revents != 0) send_some(child.input.writer, input);
    if (wanted[0].revents == 0) continue;
    const ssize_t count = ::read(child.output.reader.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Reading::ended;
    output.append(buffer.data(), static_cast<std::size_t>(count));
    if (output.size() > call.output_max) return Reading::cut;
  }
}

Reading wait_for_end(pid_t pid, const std::stop_token& stop, SteadyTime limit, int& status) {
  constexpr Seconds k_pause{0.001};
  while (true) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid || (ended < 0 && errno != EINTR)) return Reading::ended;
    if (stop.stop_requested()) return Reading::stopped;
    if (milliseconds_until(limit) == 0) return Reading::timed_out;
    real_clock().wait(k_pause, {});
  }
}

// Kills the program and its process group, and waits for at most k_wait_max. A program that is blocked in a
// device driver may survive SIGKILL for longer than k_wait_max.
void end_now(pid_t pid, int& status) {
  constexpr std::chrono::seconds k_wait_max{5};
  ::kill(-pid, SIGKILL);
  ::kill(pid,
         SIGKILL);  // needed if the child has not called setsid() yet, and is in no process group of its own
  (void)wait_for_end(pid, {}, std::chrono::steady_clock::now() + k_wait_max, status);
}

}  // namespace

ProgramEnd run_program(const ProgramCall& call) {
  const SteadyTime limit =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<SteadyTime::duration>(call.time_max);
  const StopEvent stop(call.stop);
  Child child{.call = call};
  const pid_t pid = ::fork();
  if (pid < 0) throw no_room("fork");
  if (pid == 0) child.run();
  child.input.reader.close();
  child.output.writer.close();
  child.failure.writer.close();
  ProgramEnd end;
  int status = 0;
  Reading reading = exchange(child, call, stop, limit, end.output);
  if (reading == Reading::ended) reading = wait_for_end(pid, call.stop, limit, status);
  if (reading != Reading::ended) end_now(pid, status);
  end.output_cut = reading == Reading::cut;
  if (end.output_cut) end.output.resize(call.output_max);
  int code = 0;
  if (reading == Reading::timed_out) {
    end.problem = fmt::format("did not end within {}", to_string(call.time_max));
  } else if (reading == Reading::stopped) {
    end.problem = "was stopped";
  } else if (::recv(child.failure.reader.number(), &code, sizeof code, MSG_DONTWAIT) == sizeof code) {
    end.problem = fmt::format("cannot be run: {}", std::generic_category().message(code));
  } else if (!end.output_cut && !WIFEXITED(status)) {
    end.problem = "was killed";
  }
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return end;
}

std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nothing sets variables
  std::istringstream folders(path == nullptr ? "/bin:/usr/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    struct stat status {};
    if (::stat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(file.c_str(), X_OK) == 0)
      return file;
  }
  return "";
}

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  return variables;
}

}  // namespace combu
