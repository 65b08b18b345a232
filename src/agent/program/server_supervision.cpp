// The server as the first process of a container, which runs the program of the container.

#include <fcntl.h>

#include <csignal>

#include "server.hpp"

namespace combu::agent {
namespace {

// Kubernetes shows the content of this file in the status of the Pod.
// https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
constexpr const char* k_termination_log = "/dev/termination-log";
constexpr std::int64_t k_last_words_max = 2 * k_second;
constexpr int k_never_begun = 75;  // EX_TEMPFAIL of sysexits.h

// Everything that one process can send to another, except signals that the kernel also sends for a fault.
std::vector<int> signals_to_pass() {
  std::vector<int> signals;
  for (int number = 1; number < NSIG; ++number) {
    const bool is_own = number == SIGCHLD || number == SIGPIPE || number == SIGKILL || number == SIGSTOP;
    const bool is_fault = number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
                          number == SIGABRT || number == SIGTRAP || number == SIGSYS;
    const bool is_of_library = number > SIGSYS && number < SIGRTMIN;
    if (!is_own && !is_fault && !is_of_library) signals.push_back(number);
  }
  return signals;
}

}  // namespace

int Server::supervise(const std::string& folder, Supervision supervision) {
  supervision_ = std::move(supervision);
  if (!begin(folder, signals_to_pass())) return k_not_started;
  if (supervision_->keeps) {
    const Folder::Life life = folder_.begin_life();
    if (life == Folder::Life::over) return 0;
    supervision_->is_restarted = life == Folder::Life::begun;
  }
  if (const std::string problem = read_variables(supervision_->variables, supervision_->start.env);
      !problem.empty()) {
    complain(problem);
    if (supervision_->keeps) folder_.end_life();
    return k_not_started;
  }
  if (supervision_->is_restarted) {
    note_ = k_restarted_note;
    supervision_->exit_code = 0;  // with another code, the engine would start the container once more
  } else if (supervision_->await == 0) {
    attempts_.start(supervision_->start, 0);
  }
  while (!is_supervision_over() && !attempts_.is_overrun()) turn();
  for (const auto& connection : connections_) connection->flush();
  attempts_.write_output();
  if (supervision_->keeps) {
    folder_.repair();
    folder_.end_life();
  }
  return supervision_->exit_code.value_or(k_signalled + SIGKILL);
}

void Server::end_supervision(int exit_code, const std::string& report) {
  supervision_->exit_code = exit_code;
  const Descriptor log(open(k_termination_log, O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (log.is_open()) write_all(log.get(), report);
}

bool Server::is_supervision_over() {
  std::optional<int>& exit_code = supervision_->exit_code;
  const std::int64_t idle = steady_time() - busy_at_;
  // The clients read why the program could not be started, and hang up.
  const bool is_read = connections_.empty() || steady_time() - supervision_->refused_at > k_last_words_max;
  if (supervision_->refused_at != 0 && !is_read && terminated_at_ == 0) return false;
  if (exit_code)
    return (!attempts_.are_known() && !supervision_->is_restarted) || terminated_at_ != 0 ||
           idle >= supervision_->hold;
  if (attempts_.are_active()) return false;
  if (supervision_->await == 0) {  // a client has made the agent forget the program before its end
    exit_code = k_signalled + SIGKILL;
  } else if (terminated_at_ != 0) {
    exit_code = k_signalled + SIGTERM;
  } else if (idle >= supervision_->await) {
    complain("no client has started the program");
    end_supervision(k_never_begun, "combu-agent not begun");
  }
  return exit_code.has_value();
}

// Passes a signal to the program. SIGTERM stands for the program's own stop signal.
void Server::pass_signal(int signal) {
  Attempt* const attempt = attempts_.find(k_supervised_id);
  if (attempt == nullptr) return;
  if (signal == SIGTERM && attempt->phase == Phase::awaiting_inputs)
    attempts_.forget(*attempt);  // the program does not begin, and the agent ends
  else if (signal == SIGTERM)
    attempts_.stop(*attempt, attempt->start.grace_ms, Ended::stopped);
  else
    Attempts::pass_signal(*attempt, signal);
}

// Completes the message by which a client starts the program. Returns false if it cannot be started (again).
bool Server::begin_supervised(Start& message, std::uint64_t connection) {
  if (message.id != k_supervised_id) return false;
  const Attempt* const known = attempts_.find(message.id);
  if (known != nullptr && (known->phase != Phase::awaiting_inputs || known->asker == connection)) return true;
  if (supervision_->await == 0 || supervision_->exit_code) return false;
  Start start = supervision_->start;
  start.env.insert(start.env.end(), message.env.begin(), message.env.end());
  start.awaits_inputs = message.awaits_inputs;
  message = std::move(start);
  return true;
}

}  // namespace combu::agent
