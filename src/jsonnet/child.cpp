#include "jsonnet/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "combu/base.hpp"

namespace combu {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int k_exit_out_of_memory = 86;
constexpr rlim_t k_stack_bytes = rlim_t{1} << 30;
constexpr Seconds k_slow_after{1};
constexpr std::array k_interrupts{SIGINT, SIGTERM, SIGHUP};

// What is mapped and not what is used: RLIMIT_AS counts address space, and under AddressSanitizer that is
// terabytes.
rlim_t mapped_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE));
}

void lower_limit(decltype(RLIMIT_AS) resource, rlim_t wanted) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur <= wanted) return;
  limit.rlim_cur = wanted;
  ::setrlimit(resource, &limit);
}

// The stack of a process's first thread grows up to the limit of the moment. Below its soft limit at the
// program's start the kernel keeps free at least 128 MiB (mmap_base() in Linux's arch/x86/mm/mmap.c), so more
// than that may not be there.
void raise_stack_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, k_stack_bytes));
  ::setrlimit(RLIMIT_STACK, &limit);
}

// The caller may hold these for itself; here they must do what the person who sent them expects.
void restore_interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : k_interrupts) {
    struct sigaction action {};
    ::sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) ::signal(number, SIG_DFL);
    sigaddset(&set, number);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool write_all(int descriptor, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(descriptor, data, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    data += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

// A frame is the answer's length (8 bytes, as this machine orders them) and the answer: a child that dies
// while it writes leaves a frame that is too short.
bool write_frame(int descriptor, const std::string& answer) {
  const std::uint64_t size = answer.size();
  std::array<char, sizeof size> head{};
  std::memcpy(head.data(), &size, sizeof size);
  return write_all(descriptor, head.data(), head.size()) &&
         write_all(descriptor, answer.data(), answer.size());
}

std::optional<std::string> unframe(const std::string& frame) {
  std::uint64_t size = 0;
  if (frame.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, frame.data(), sizeof size);
  if (frame.size() - sizeof size != size) return std::nullopt;
  return frame.substr(sizeof size);
}

// By _exit only: what the parent has at its exit and in its buffers is not this process's to run or to write.
[[noreturn]] void be_child(int pipe, pid_t parent, rlim_t memory_max,
                           const std::function<std::string()>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  restore_interrupts();
  lower_limit(RLIMIT_CORE, 0);
  raise_stack_limit();
  lower_limit(RLIMIT_AS, memory_max);
  std::set_new_handler([] { ::_exit(k_exit_out_of_memory); });
  try {
    ::_exit(write_frame(pipe, work()) ? 0 : 1);
  } catch (const std::exception&) {
    ::_exit(1);
  }
}

class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  // However its reader leaves, no child stays behind.
  ~Child() {
    kill();
    (void)wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() const {
    if (id_ > 0) ::kill(id_, SIGKILL);
  }
  // Its wait status; nullopt when the caller ignores SIGCHLD, so that the kernel kept none.
  std::optional<int> wait() {
    if (id_ <= 0) return std::nullopt;
    int status = 0;
    pid_t ended = 0;
    do {
      ended = ::waitpid(id_, &status, 0);
    } while (ended < 0 && errno == EINTR);
    const bool known = ended == std::exchange(id_, -1);
    return known ? std::optional(status) : std::nullopt;
  }

 private:
  pid_t id_;
};

// Becomes readable when one of them is blocked and pending, and is never read: the caller's own way of taking
// them finds them.
int open_interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : k_interrupts) sigaddset(&set, number);
  return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

SteadyClock::time_point moment_after(Seconds duration) {
  constexpr Seconds k_longest{std::chrono::hours(24 * 365)};
  return SteadyClock::now() +
         std::chrono::duration_cast<SteadyClock::duration>(std::min(duration, k_longest));
}

// Reads a child's frame until its end, its time, or an interrupt.
class Reader {
 public:
  Reader(int pipe, int interrupts, Seconds time_max)
      : fds_{{{pipe, POLLIN, 0}, {interrupts, POLLIN, 0}}},
        slow_at_(moment_after(k_slow_after)),
        deadline_(moment_after(time_max)) {}

  // nullopt at the end of the pipe; otherwise why the reading was given up.
  std::optional<ChildEnd::Kind> read(const std::function<void()>& slow) {
    bool told = !slow;
    for (;;) {
      const auto now = SteadyClock::now();
      if (now >= deadline_) return ChildEnd::Kind::timed_out;
      if (!told && now >= slow_at_) {
        told = true;
        slow();
        continue;
      }
      const auto next = told ? deadline_ : std::min(deadline_, slow_at_);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
      const auto timeout = std::min<std::int64_t>(left, std::numeric_limits<int>::max());
      if (::poll(fds_.data(), fds_.size(), static_cast<int>(timeout)) <= 0) continue;
      if (fds_[1].revents != 0) return ChildEnd::Kind::interrupted;
      if (fds_[0].revents != 0 && !take()) return std::nullopt;
    }
  }

  [[nodiscard]] std::string frame() && { return std::move(frame_); }

 private:
  bool take() {
    const ssize_t count = ::read(fds_[0].fd, buffer_.data(), buffer_.size());
    if (count < 0) return errno == EINTR;
    frame_.append(buffer_.data(), static_cast<std::size_t>(count));
    return count > 0;
  }

  std::array<pollfd, 2> fds_;
  SteadyClock::time_point slow_at_;
  SteadyClock::time_point deadline_;
  std::array<char, 65536> buffer_{};
  std::string frame_;
};

ChildEnd end_by_signal(int number) {
  if (number == SIGSEGV || number == SIGBUS) return {ChildEnd::Kind::crashed, {}, {}};
  if (std::find(k_interrupts.begin(), k_interrupts.end(), number) != k_interrupts.end()) {
    return {ChildEnd::Kind::interrupted, {}, {}};
  }
  // libjsonnet aborts when malloc has nothing left for it.
  if (number == SIGABRT) return {ChildEnd::Kind::out_of_memory, {}, {}};
  if (number == SIGKILL) {
    return {ChildEnd::Kind::died,
            {},
            "it was killed from outside, as happens when the machine has no memory left"};
  }
  return {ChildEnd::Kind::died, {}, fmt::format("signal {}", number)};
}

ChildEnd end_of(std::optional<int> status, const std::string& frame) {
  if (status && WIFSIGNALED(*status)) return end_by_signal(WTERMSIG(*status));
  if (status && WEXITSTATUS(*status) == k_exit_out_of_memory) return {ChildEnd::Kind::out_of_memory, {}, {}};
  if (auto answer = unframe(frame)) return {ChildEnd::Kind::answered, *std::move(answer), {}};
  return {ChildEnd::Kind::died, {}, fmt::format("exit code {}", status ? WEXITSTATUS(*status) : -1)};
}

[[noreturn]] void fail_to_start(int fault) {
  throw Error(ErrorKind::unavailable, "",
              "no process can be made for the evaluator: " + std::generic_category().message(fault));
}

}  // namespace

ChildEnd run_in_child(const ChildLimits& limits, const std::function<std::string()>& work,
                      const std::function<void()>& slow) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_to_start(errno);
  const Descriptor read_end(ends[0]);
  Descriptor write_end(ends[1]);
  const Descriptor interrupts(open_interrupts());
  if (interrupts.number() < 0) fail_to_start(errno);

  const rlim_t memory_max =
      mapped_bytes() + static_cast<rlim_t>(std::max<std::int64_t>(limits.memory_max.count, 0));
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id < 0) fail_to_start(errno);
  if (id == 0) be_child(write_end.number(), parent, memory_max, work);

  Child child(id);
  write_end.close();
  Reader reader(read_end.number(), interrupts.number(), limits.time_max);
  if (const auto given_up = reader.read(slow)) return {*given_up, {}, {}};
  return end_of(child.wait(), std::move(reader).frame());
}

}  // namespace combu
