#include "spawn.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

namespace combu::agent {
namespace {

constexpr int k_calls_descriptor = 3;
constexpr int k_returns_descriptor = 4;
constexpr std::uint64_t k_oom_score_added = 500;
constexpr std::uint64_t k_oom_score_max = 1000;
constexpr std::string_view k_default_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

// Everything that the child needs, since it may only make system calls.
struct ChildPlan {
  char* const* arguments;
  char* const* environment;
  const std::vector<std::string>& programs;
  const std::vector<int>& ignored_signals;
  const rlimit& descriptors;
  Streams streams;
  int input;
  int group_file;
};

[[noreturn]] void run_child(const ChildPlan& plan, volatile int& error) {
  setsid();
  dup2(plan.input, STDIN_FILENO);
  dup2(plan.streams.output, STDOUT_FILENO);
  dup2(plan.streams.errors, STDERR_FILENO);
  if (plan.streams.calls >= 0) dup2(plan.streams.calls, k_calls_descriptor);
  if (plan.streams.returns >= 0) dup2(plan.streams.returns, k_returns_descriptor);
  if (plan.group_file >= 0) (void)!write(plan.group_file, "0", 1);
  setrlimit(RLIMIT_NOFILE, &plan.descriptors);
  for (const int signal : plan.ignored_signals) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  int result = ENOENT;
  for (const std::string& program : plan.programs) {
    execve(program.c_str(), plan.arguments, plan.environment);
    if (errno == ENOENT || errno == ENOTDIR) continue;
    result = errno;
    if (errno != EACCES) break;
  }
  error = result;
  _exit(127);
}

// The name of an entry "NAME=VALUE".
std::string_view name_of(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

// Returns the paths that the program may have: argv[0], or if it has no slash, that name in each folder of
// PATH.
std::vector<std::string> candidates(const std::string& program, const std::vector<std::string>& environment) {
  if (program.find('/') != std::string::npos) return {program};
  if (program.empty()) return {};
  std::string_view path = k_default_path;
  for (const std::string_view entry : environment)
    if (name_of(entry) == "PATH" && entry.size() > 4) path = entry.substr(5);
  std::vector<std::string> found;
  while (true) {
    const std::size_t end = path.find(':');
    const std::string_view folder = path.substr(0, end);
    found.push_back(folder.empty() ? program : std::string(folder) + "/" + program);
    if (end == std::string_view::npos) return found;
    path.remove_prefix(end + 1);
  }
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// The child runs in the memory of this process until it runs the program, so the function must not be merged
// with its caller.
[[gnu::noinline]] pid_t fork_and_run(const ChildPlan& plan, volatile int& error) {
  // The child makes only system calls.
  // NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork,bugprone-unsafe-functions)
  const pid_t pid = vfork();
  if (pid == 0) run_child(plan, error);
  return pid;
}

}  // namespace

Spawner::Spawner() : null_(open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  for (char** entry = environ; *entry != nullptr; ++entry) inherited_.emplace_back(*entry);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      ignored_signals_.push_back(number);
  }
  if (std::ranges::find(ignored_signals_, SIGPIPE) == ignored_signals_.end()) {
    ignored_signals_.push_back(SIGPIPE);
    (void)signal(SIGPIPE, SIG_IGN);
  }
  getrlimit(RLIMIT_NOFILE, &descriptors_);
  const rlimit own{.rlim_cur = descriptors_.rlim_max, .rlim_max = descriptors_.rlim_max};
  setrlimit(RLIMIT_NOFILE, &own);
  // The kernel takes an attempt rather than this process if memory runs out. A child inherits the value.
  oom_score_file_ = Descriptor(open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC));
  std::uint64_t score = 0;
  if (oom_score_file_.is_open() && read_again(oom_score_file_.get(), own_oom_score_)) {
    while (own_oom_score_.ends_with('\n')) own_oom_score_.pop_back();
    if (!own_oom_score_.starts_with('-') && !read_number(own_oom_score_, score)) oom_score_file_.close();
  }
  attempt_oom_score_ = to_text(std::min(score + k_oom_score_added, k_oom_score_max));
}

std::vector<std::string> Spawner::environment(const Start& start, const std::string& scratch) const {
  std::vector<std::string> added;
  if (!scratch.empty()) added = {"COMBU_SCRATCH=" + scratch, "TMPDIR=" + scratch};
  std::vector<std::string> result;
  const auto add = [](std::vector<std::string>& to, std::string_view entry) {
    for (std::string& other : to)
      if (name_of(other) == name_of(entry)) {
        other = entry;
        return;
      }
    to.emplace_back(entry);
  };
  for (const std::string& entry : start.env) add(added, entry);
  for (const std::string_view entry : inherited_) {
    const bool is_replaced = std::ranges::any_of(
        added, [&](const std::string& other) { return name_of(other) == name_of(entry); });
    if (!is_replaced) result.emplace_back(entry);
  }
  for (std::string& entry : added) result.push_back(std::move(entry));
  return result;
}

void Spawner::set_oom_score(std::string_view score) const {
  if (oom_score_file_.is_open()) (void)!pwrite(oom_score_file_.get(), score.data(), score.size(), 0);
}

Spawned Spawner::spawn(const Start& start, const std::string& scratch, const Streams& streams,
                       int group_file) {
  const std::vector<std::string> environment = this->environment(start, scratch);
  const std::vector<std::string> programs = candidates(start.argv.front(), environment);
  const std::vector<char*> argument_pointers = pointers(start.argv);
  const std::vector<char*> environment_pointers = pointers(environment);
  const ChildPlan plan{.arguments = argument_pointers.data(),
                       .environment = environment_pointers.data(),
                       .programs = programs,
                       .ignored_signals = ignored_signals_,
                       .descriptors = descriptors_,
                       .streams = streams,
                       .input = null_.get(),
                       .group_file = group_file};
  volatile int error = 0;
  set_oom_score(scratch.empty() ? own_oom_score_ : attempt_oom_score_);
  const pid_t pid = fork_and_run(plan, error);
  const int fork_error = errno;
  set_oom_score(own_oom_score_);
  if (pid < 0) return {.pid = -1, .stage = Refused::process, .error = fork_error};
  if (error != 0) return {.pid = pid, .stage = Refused::program, .error = error};
  return {.pid = pid};
}

}  // namespace combu::agent
