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
#include <climits>
#include <csignal>
#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <string_view>
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

// Returns the size of the mapped address space, not of the used memory: RLIMIT_AS limits address space, and
// AddressSanitizer maps terabytes.
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

// The stack of a process's first thread grows up to the current soft limit. When a program starts, the kernel
// reserves address space for the soft limit at that moment, but at least 128 MiB (mmap_base() in Linux's
// arch/x86/mm/mmap.c). The stack may be unable to grow beyond this space.
void raise_stack_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, k_stack_bytes));
  ::setrlimit(RLIMIT_STACK, &limit);
}

// The caller may have blocked or handled the signals in k_interrupts. In the child, these signals must have
// their default effect.
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

// True if the descriptor accepts more data within `patience_ms` (-1: no time limit).
bool is_writable(int descriptor, int patience_ms) {
  pollfd wanted{descriptor, POLLOUT, 0};
  return ::poll(&wanted, 1, patience_ms) > 0;
}

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {  // another process made the shared descriptor non-blocking
      (void)is_writable(descriptor, -1);
      continue;
    }
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// Marks the end of an answer. If a child dies while it writes, its answer lacks this mark.
constexpr std::string_view k_end{"\0", 1};

// Ends the process only by _exit(), because the exit handlers and the buffered output belong to the parent.
[[noreturn]] void be_child(int pipe, int errors, pid_t parent, rlim_t memory_max, const ChildWork& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before prctl()
  ::dup2(errors, STDERR_FILENO);
  std::cerr.tie(nullptr);
  restore_interrupts();
  lower_limit(RLIMIT_CORE, 0);
  raise_stack_limit();
  lower_limit(RLIMIT_AS, memory_max);
  std::set_new_handler([] { ::_exit(k_exit_out_of_memory); });
  const auto write = [pipe](std::string_view text) {
    if (!write_all(pipe, text)) ::_exit(1);
  };
  try {
    work(write);
    write(k_end);
    ::_exit(0);
  } catch (const std::exception&) {
    ::_exit(1);
  }
}

class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  // Kills the child, so that it never outlives its reader.
  ~Child() {
    kill();
    (void)wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void kill() const {
    if (id_ > 0) ::kill(id_, SIGKILL);
  }
  // Returns the child's wait status. Returns nullopt if the caller ignores SIGCHLD, because the kernel then
  // keeps no status.
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

// Returns a descriptor that becomes readable when a blocked interrupt is pending. combu never reads from the
// descriptor, so that the caller still finds the signal pending.
int open_interrupts() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : k_interrupts) sigaddset(&set, number);
  return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

// Stores the text that a child writes to standard error. Complete lines of std.trace are ready to be passed
// on to the user.
class Errors {
 public:
  explicit Errors(Traces traces) : traces_(traces) {}

  void add(std::string_view text) {
    if (traces_ == Traces::dropped) return;
    // both evaluators begin the output of std.trace with this text
    constexpr std::string_view k_trace = "TRACE: ";
    constexpr std::size_t k_kept_max = 65536;
    rest_ += text;
    std::size_t ready = 0;  // size of the text up to the end of its last complete line of std.trace
    for (std::size_t end = rest_.find('\n', line_); end != std::string::npos; end = rest_.find('\n', line_)) {
      if (rest_.compare(line_, k_trace.size(), k_trace) == 0) ready = end + 1;
      line_ = end + 1;
    }
    if (rest_.size() - ready > k_kept_max) ready = line_ = whole_characters(rest_);
    make_ready(ready);
  }

  [[nodiscard]] bool is_ready() const { return !ready_.empty(); }
  // Writes a part of `ready_` to standard error, at most as much as a writable pipe accepts without blocking.
  void pass_on() {
    const std::size_t count = std::min<std::size_t>(ready_.size(), PIPE_BUF);
    (void)write_all(STDERR_FILENO, std::string_view(ready_).substr(0, count));
    ready_.erase(0, count);
  }
  void pass_all_on() {
    make_ready(rest_.size());
    (void)write_all(STDERR_FILENO, std::exchange(ready_, {}));
  }
  // Writes as much as possible to standard error without blocking.
  void pass_on_at_once() {
    make_ready(rest_.size());
    while (is_ready() && is_writable(STDERR_FILENO, 0)) pass_on();
  }
  // Writes the text that is ready to be passed on, and returns the remaining text.
  [[nodiscard]] std::string rest() {
    (void)write_all(STDERR_FILENO, std::exchange(ready_, {}));
    return std::exchange(rest_, {});
  }

 private:
  void make_ready(std::size_t bytes) {
    ready_ += escape_controls(std::string_view(rest_).substr(0, bytes));
    rest_.erase(0, bytes);
    line_ -= std::min(line_, bytes);
  }

  Traces traces_;
  std::string ready_;     // text that is ready to be passed on
  std::string rest_;      // the text after `ready_`, exactly as the child wrote it
  std::size_t line_ = 0;  // offset of the last, incomplete line in `rest_`
};

// Reads a child's output until the child ends, the deadline passes, or an interrupt arrives.
class ChildReader {
 public:
  ChildReader(int answer, int errors, int interrupts, Traces traces, SteadyClock::time_point deadline)
      : errors_pipe_(errors),
        fds_{{{answer, POLLIN, 0}, {interrupts, POLLIN, 0}, {errors, POLLIN, 0}, {-1, POLLOUT, 0}}},
        slow_at_(timestamp_after(k_slow_after)),
        deadline_(deadline),
        errors_(traces) {}

  // Returns nullopt if the child has ended, otherwise the reason why reading stopped.
  std::optional<ChildEnd::Kind> read(const std::function<void()>& slow) {
    bool is_reported = !slow;
    for (;;) {
      const auto now = SteadyClock::now();
      if (now >= deadline_) return ChildEnd::Kind::timed_out;
      if (!is_reported && now >= slow_at_) {
        is_reported = true;
        if (is_writable(STDERR_FILENO, 0)) slow();
        continue;
      }
      const auto next = is_reported ? deadline_ : std::min(deadline_, slow_at_);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
      const auto timeout = std::min<std::int64_t>(left, std::numeric_limits<int>::max());
      auto& [answer, interrupts, errors, screen] = fds_;
      // While the terminal accepts no text, combu does not read the child's standard error, so the child may
      // have to wait. The child's time limit still applies.
      errors.fd = has_errors_ && !errors_.is_ready() ? errors_pipe_ : -1;
      screen.fd = errors_.is_ready() ? STDERR_FILENO : -1;
      if (::poll(fds_.data(), fds_.size(), static_cast<int>(timeout)) <= 0) continue;
      if (interrupts.revents != 0) return ChildEnd::Kind::interrupted;
      if (screen.fd >= 0 && screen.revents != 0) errors_.pass_on();
      if (errors.fd >= 0 && errors.revents != 0) read_errors();
      if (answer.revents != 0 && !read_answer()) {
        while (has_errors_) read_errors();
        return std::nullopt;
      }
    }
  }

  // Returns the child's answer, or nullopt if it is incomplete.
  [[nodiscard]] std::optional<std::string> answer() && {
    if (!answer_.ends_with(k_end)) return std::nullopt;
    answer_.pop_back();
    return std::move(answer_);
  }
  [[nodiscard]] Errors& errors() { return errors_; }

 private:
  // Reads into `buffer_`. Returns an empty view at the end of the pipe, and nullopt if a signal interrupted
  // the read.
  std::optional<std::string_view> take(int pipe) {
    const ssize_t count = ::read(pipe, buffer_.data(), buffer_.size());
    if (count < 0 && errno == EINTR) return std::nullopt;
    return std::string_view(buffer_.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  bool read_answer() {
    const auto taken = take(fds_.front().fd);
    if (taken) answer_ += *taken;
    return !taken || !taken->empty();
  }
  void read_errors() {
    const auto taken = take(errors_pipe_);
    if (taken) errors_.add(*taken);
    has_errors_ = !taken || !taken->empty();
  }

  int errors_pipe_;
  bool has_errors_ = true;
  std::array<pollfd, 4> fds_;
  SteadyClock::time_point slow_at_;
  SteadyClock::time_point deadline_;
  std::array<char, 65536> buffer_{};
  std::string answer_;
  Errors errors_;
};

ChildEnd end_by_abort(std::string said) {
  // libjsonnet (memory_panic() in core/libjsonnet.cpp) and its copy of rapidyaml write these messages when
  // malloc() fails. If `new` in C++ or an allocation in Rust fails, the child exits with k_exit_out_of_memory
  // instead.
  for (const char* words : {"FATAL ERROR: a memory allocation error occurred",
                            "ERROR: could not allocate memory", "ERROR: out of memory"}) {
    if (said.find(words) != std::string::npos) return {ChildEnd::Kind::out_of_memory, {}, {}};
  }
  if (trimmed(said).empty()) return {ChildEnd::Kind::died, {}, fmt::format("signal {}", SIGABRT)};
  return {ChildEnd::Kind::gave_up, {}, std::move(said)};
}

ChildEnd end_by_signal(int number) {
  if (number == SIGSEGV || number == SIGBUS) return {ChildEnd::Kind::crashed, {}, {}};
  if (std::ranges::find(k_interrupts, number) != k_interrupts.end()) {
    return {ChildEnd::Kind::interrupted, {}, {}};
  }
  if (number == SIGKILL) {
    return {ChildEnd::Kind::died, {}, "SIGKILL, possibly because the machine is out of memory"};
  }
  return {ChildEnd::Kind::died, {}, fmt::format("signal {}", number)};
}

ChildEnd end_of(std::optional<int> status, ChildReader&& reader) {
  if (status && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGABRT)
    return end_by_abort(reader.errors().rest());
  reader.errors().pass_all_on();
  if (status && WIFSIGNALED(*status)) return end_by_signal(WTERMSIG(*status));
  if (status && WEXITSTATUS(*status) == k_exit_out_of_memory) return {ChildEnd::Kind::out_of_memory, {}, {}};
  if (auto answer = std::move(reader).answer()) return {ChildEnd::Kind::answered, *std::move(answer), {}};
  return {ChildEnd::Kind::died, {}, fmt::format("exit code {}", status ? WEXITSTATUS(*status) : -1)};
}

// A pipe with the end `out` for reading and the end `in` for writing.
struct Pipe {
  Descriptor out;
  Descriptor in;
};

[[noreturn]] void fail_to_start(int fault) {
  throw Error(ErrorKind::unavailable, "",
              "cannot create a process for the evaluator: " + std::generic_category().message(fault));
}

Pipe open_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_to_start(errno);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace

std::chrono::steady_clock::time_point timestamp_after(Seconds duration) {
  constexpr Seconds k_longest{std::chrono::hours(24 * 365)};
  return SteadyClock::now() +
         std::chrono::duration_cast<SteadyClock::duration>(std::min(duration, k_longest));
}

ChildEnd run_in_child(const ChildLimits& limits, Traces traces, const ChildWork& work,
                      const std::function<void()>& slow) {
  Pipe answer = open_pipe();
  Pipe errors = open_pipe();
  const Descriptor interrupts(open_interrupts());
  if (interrupts.number() < 0) fail_to_start(errno);

  const rlim_t memory_max =
      mapped_bytes() + static_cast<rlim_t>(std::max<std::int64_t>(limits.memory_max.count, 0));
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id < 0) fail_to_start(errno);
  if (id == 0) be_child(answer.in.number(), errors.in.number(), parent, memory_max, work);

  Child child(id);
  answer.in.close();
  errors.in.close();
  ChildReader reader(answer.out.number(), errors.out.number(), interrupts.number(), traces, limits.deadline);
  if (const auto given_up = reader.read(slow)) {
    reader.errors().pass_on_at_once();
    return {*given_up, {}, {}};
  }
  return end_of(child.wait(), std::move(reader));
}

}  // namespace combu
