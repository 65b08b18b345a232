// The end of an attempt: its first process, the processes that it left behind, its output.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "attempts.hpp"

namespace combu::agent {
namespace {

constexpr std::int64_t k_sweep_pause = 5 * k_millisecond;
constexpr std::int64_t k_stop_after = 2 * k_second;  // then the processes are stopped before they are killed
constexpr std::int64_t k_overrun_after = 10 * k_second;
constexpr std::int64_t k_kill_all_max = 4 * k_second;           // longer than k_stop_after
constexpr std::int64_t k_start_tolerance = 20 * k_millisecond;  // of the start times in /proc
constexpr int k_rounds_max = 20;
constexpr int k_reads_max =
    64;  // at the end of an attempt: a pipe holds at most 1 MiB, read in parts of 64 KiB
constexpr int k_shell_killed = 128 + SIGKILL;  // exit code of a shell whose command was killed

std::uint64_t nanoseconds(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * k_second + static_cast<std::uint64_t>(time.tv_usec) * 1000;
}

}  // namespace

void Attempts::stop(Attempt& attempt, std::uint64_t grace_ms, Ended::Flag flag) {
  if (attempt.phase == Phase::awaiting_inputs) {
    kill_helper(attempt.inputs->helper.pid);
    refuse(attempt, Refused::other, ECANCELED, {});
    return;
  }
  if (attempt.phase != Phase::running) return;
  if ((attempt.end.flags & (Ended::timed_out | Ended::stopped)) == 0) attempt.end.flags |= flag;
  attempt.timeout_at = 0;
  if (grace_ms == 0) {
    kill(attempt);
    return;
  }
  const std::int64_t kill_at = steady_time() + static_cast<std::int64_t>(grace_ms) * k_millisecond;
  if (attempt.kill_at == 0 || kill_at < attempt.kill_at) attempt.kill_at = kill_at;
  ::kill(-attempt.pid, attempt.start.stop_signal == 0 ? SIGTERM : attempt.start.stop_signal);
}

void Attempts::pass_signal(const Attempt& attempt, int signal) {
  if (attempt.phase == Phase::running) ::kill(-attempt.pid, signal);
}

void Attempts::kill(Attempt& attempt) {
  attempt.is_killed = true;
  attempt.kill_at = 0;
  ::kill(-attempt.pid, SIGKILL);
}

void Attempts::kill_helper(pid_t pid) const {
  if (std::ranges::find(helpers_, pid) != helpers_.end()) ::kill(pid, SIGKILL);
}

bool Attempts::is_own(pid_t pid) const {
  return pids_.contains(pid) || std::ranges::find(helpers_, pid) != helpers_.end();
}

void Attempts::reap() {
  while (true) {
    // The process stays a zombie at first, so that its number means no other process.
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) break;
    if (const auto found = pids_.find(info.si_pid); found != pids_.end())
      begin_end(*found->second);
    else
      reap_other(info.si_pid);
  }
  sweep();
}

void Attempts::begin_end(Attempt& attempt) {
  ::kill(-attempt.pid, SIGKILL);
  int status = 0;
  rusage usage{};
  wait4(attempt.pid, &status, 0, &usage);
  attempt.phase = Phase::ending;
  attempt.ended_steady = steady_time();
  attempt.timeout_at = attempt.kill_at = 0;
  Ended& end = attempt.end;
  end.wall_ns = static_cast<std::uint64_t>(attempt.ended_steady - attempt.started_steady);
  end.at = attempt.started.at + static_cast<std::int64_t>(end.wall_ns);
  end.cpu_ns = nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime);
  end.memory_peak = static_cast<std::uint64_t>(usage.ru_maxrss) << 10U;
  end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  end.signal = WIFSIGNALED(status) ? static_cast<std::uint8_t>(WTERMSIG(status)) : 0;
  const bool was_killed = end.signal == SIGKILL || end.exit_code == k_shell_killed;
  const bool was_out_of_memory = attempt.group != nullptr ? attempt.group->oom_kills() > 0
                                                          : group_.oom_kills() > attempt.oom_kills_before;
  if (was_killed && !attempt.is_killed && was_out_of_memory) end.flags |= Ended::out_of_memory;
  pids_.erase(attempt.pid);
}

// Takes the end of a helper, or of a process that an attempt left behind.
void Attempts::reap_other(pid_t pid) {
  ProcessState state;
  if (!is_own(pid) && read_process(pid, state)) {
    Orphan orphan = orphan_of(pid, state);
    if (orphan.owner == 0 && has_to_die(orphan)) orphan.owner = any_ending();
    int status = 0;
    waitpid(pid, &status, 0);
    const auto owner = attempts_.find(orphan.owner);
    if (owner != attempts_.end() && owner->second->phase == Phase::ending && WIFSIGNALED(status) &&
        WTERMSIG(status) == SIGKILL)
      ++owner->second->end.left_behind;
  } else {
    waitpid(pid, nullptr, 0);
  }
  std::erase(helpers_, pid);
  orphans_.erase(pid);
}

// Finds the attempt that has left a process behind.
Attempts::Orphan& Attempts::orphan_of(pid_t pid, const ProcessState& state) {
  const auto [found, is_new] = orphans_.try_emplace(pid);
  Orphan& orphan = found->second;
  if (!is_new) return orphan;
  orphan.started_at = state.started_at;
  for (const Attempt* attempt : active_)
    if (attempt->pid == state.session) orphan.owner = attempt->number;
  if (orphan.owner != 0) return orphan;
  const std::string scratch = variable_of(pid, "COMBU_SCRATCH");
  for (const Attempt* attempt : active_)
    if (!scratch.empty() && attempt->started.scratch == scratch) orphan.owner = attempt->number;
  return orphan;
}

// A process of a running attempt may live. A process of unknown origin may live while an attempt runs that is
// older.
bool Attempts::has_to_die(const Orphan& orphan) {
  if (orphan.owner != 0) {
    const auto owner = attempts_.find(orphan.owner);
    return owner == attempts_.end() || owner->second->phase != Phase::running;
  }
  return std::ranges::none_of(active_, [&](const Attempt* attempt) {
    return attempt->phase == Phase::running &&
           attempt->started_steady <= orphan.started_at + k_start_tolerance;
  });
}

// Returns the number of an attempt that is ending; 0 if there is none.
std::uint64_t Attempts::any_ending() const {
  for (const Attempt* attempt : active_)
    if (attempt->phase == Phase::ending) return attempt->number;
  return 0;
}

// Kills what the ending attempts have left behind. Returns true if it has killed a process that it had not
// seen.
bool Attempts::sweep_once() {
  bool has_new = false;
  const pid_t own_group = getpgrp();
  for (Attempt* attempt : active_) attempt->leftovers = 0;
  ProcessState state;
  for (const pid_t pid : children_.list()) {
    if (is_own(pid) || !read_process(pid, state)) continue;
    Orphan& orphan = orphan_of(pid, state);
    if (!has_to_die(orphan)) continue;
    if (orphan.owner == 0) orphan.owner = any_ending();
    if (const auto owner = attempts_.find(orphan.owner); owner != attempts_.end()) ++owner->second->leftovers;
    if (state.state == 'Z') continue;
    has_new = has_new || !orphan.is_killed;
    orphan.is_killed = true;
    ::kill(pid, SIGKILL);
    if (state.group > 1 && state.group != own_group && !pids_.contains(state.session))
      ::kill(-state.group, SIGKILL);
  }
  return has_new;
}

void Attempts::sweep() {
  const auto is_ending = [](const Attempt* attempt) { return attempt->phase == Phase::ending; };
  if (std::ranges::none_of(active_, is_ending)) return;
  for (int round = 0; round < k_rounds_max && sweep_once(); ++round) continue;
  const std::vector<Attempt*> active = active_;
  for (Attempt* attempt : active)
    if (attempt->phase == Phase::ending && attempt->leftovers == 0) finish(*attempt);
}

// Stops all processes that have to die, and their descendants, before it kills them: a stopped process makes
// no new one.
void Attempts::stop_and_kill() {
  std::vector<pid_t> found;
  ProcessState state;
  for (int pass = 0; pass < k_rounds_max; ++pass) {
    std::vector<pid_t> ahead;
    for (const pid_t pid : children_.list())
      if (!is_own(pid) && read_process(pid, state) && has_to_die(orphan_of(pid, state))) ahead.push_back(pid);
    const std::size_t before = found.size();
    while (!ahead.empty()) {
      const pid_t pid = ahead.back();
      ahead.pop_back();
      ::kill(pid, SIGSTOP);
      if (std::ranges::find(found, pid) == found.end()) found.push_back(pid);
      for (const pid_t child : Children::of(pid)) ahead.push_back(child);
    }
    if (found.size() == before) break;
  }
  for (const pid_t pid : found) ::kill(pid, SIGKILL);
}

void Attempts::finish(Attempt& attempt) {
  for (std::size_t index = 0; index < attempt.outputs.size(); ++index) {
    Output& output = attempt.outputs[index];
    for (int i = 0; i < k_reads_max && output.pipe.is_open() && read_output(attempt, index); ++i) continue;
    output.watch.stop();
    output.pipe.close();
  }
  if (attempt.resident != nullptr) attempt.resident->drain();
  attempt.resident = nullptr;
  if (attempt.group != nullptr)
    attempt.end.memory_peak = std::max(attempt.end.memory_peak, attempt.group->memory_peak());
  attempt.group = nullptr;
  attempt.phase = Phase::ended;
  std::erase(active_, &attempt);
  if (attempt.is_forgotten)
    remove(attempt);
  else
    events_.ended(attempt);
}

std::int64_t Attempts::act(std::int64_t now) {
  std::int64_t next = 0;
  const auto due_at = [&next](std::int64_t time) {
    if (time != 0 && (next == 0 || time < next)) next = time;
  };
  bool is_ending = false;
  const std::vector<Attempt*> active = active_;
  for (Attempt* attempt : active) {
    if (attempt->phase == Phase::awaiting_inputs && !attempt->inputs->report_watch.is_active()) {
      const Report report = report_of(attempt->inputs->helper, 1);
      if (report.status != 0) {
        refuse(*attempt, Refused::inputs, 0, report.text);
        continue;
      }
      attempt->inputs = nullptr;
      run(*attempt);
      due_at(now + k_millisecond);
      continue;
    }
    if (attempt->timeout_at != 0 && now >= attempt->timeout_at)
      stop(*attempt, attempt->start.grace_ms, Ended::timed_out);
    if (attempt->kill_at != 0 && now >= attempt->kill_at) kill(*attempt);
    due_at(attempt->timeout_at);
    due_at(attempt->kill_at);
    if (attempt->phase != Phase::ending) continue;
    is_ending = true;
    if (now - attempt->ended_steady > k_stop_after) stop_and_kill();
    is_overrun_ = is_overrun_ || now - attempt->ended_steady > k_overrun_after;
  }
  if (is_ending) {
    sweep();
    due_at(now + k_sweep_pause);
  }
  return next;
}

void Attempts::kill_all() {
  events_.ended = [](Attempt& attempt) { attempt.is_forgotten = true; };
  const std::vector<Attempt*> active = active_;
  for (Attempt* attempt : active) {
    attempt->is_forgotten = true;
    if (attempt->phase == Phase::awaiting_inputs)
      forget(*attempt);
    else if (attempt->phase == Phase::running)
      kill(*attempt);
  }
  const std::int64_t deadline = steady_time() + k_kill_all_max;
  while (!active_.empty() && steady_time() < deadline) {
    reap();
    act(steady_time());
    if (!active_.empty()) usleep(500);
  }
}

}  // namespace combu::agent
