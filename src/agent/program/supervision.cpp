#include "supervision.hpp"

#include <fcntl.h>

#include <cerrno>
#include <csignal>

#include "server.hpp"

namespace combu::agent {
namespace {

// Kubernetes shows the content of this file in the status of the Pod.
// https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
constexpr const char* k_termination_log = "/dev/termination-log";
constexpr int k_not_found = 127;  // exit codes of shells
constexpr int k_not_started = 126;
constexpr int k_signalled = 128;
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

bool read_setting(std::string_view text, Supervision& supervision) {
  const std::size_t equals = text.find('=');
  std::uint64_t value = 0;
  if (equals == std::string_view::npos || !read_number(text.substr(equals + 1), value)) return false;
  const std::string_view name = text.substr(0, equals);
  if (name == "hold")
    supervision.hold = static_cast<std::int64_t>(value) * k_second;
  else if (name == "await")
    supervision.await = static_cast<std::int64_t>(value) * k_second;
  else if (name == "timeout_ms")
    supervision.start.timeout_ms = value;
  else if (name == "grace_ms")
    supervision.start.grace_ms = value;
  else if (name == "stop_signal" && value < NSIG)
    supervision.start.stop_signal = static_cast<std::uint8_t>(value);
  else if (name == "log_max")
    supervision.start.log_max = value;
  else
    return false;
  return true;
}

std::string field(std::string_view name, std::uint64_t value) {
  return " " + std::string(name) + "=" + to_text(value);
}

}  // namespace

bool read_supervision(const std::vector<std::string_view>& arguments, Supervision& supervision) {
  std::size_t at = 0;
  while (at < arguments.size() && arguments[at] != "--")
    if (!read_setting(arguments[at++], supervision)) return false;
  supervision.start.id = k_supervised_id;
  for (++at; at < arguments.size(); ++at) supervision.start.argv.emplace_back(arguments[at]);
  return !supervision.start.argv.empty();
}

int exit_code_of(const Ended& ended) {
  return ended.signal != 0 ? k_signalled + ended.signal : ended.exit_code;
}

int exit_code_of(const Refused& refused) {
  return refused.stage == Refused::program && refused.code == ENOENT ? k_not_found : k_not_started;
}

std::string report_of_end(const Ended& ended) {
  return "combu-agent ended" + field("flags", ended.flags) + field("cpu_ns", ended.cpu_ns) +
         field("memory_peak", ended.memory_peak);
}

std::string report_of_refusal(const Refused& refused) {
  return "combu-agent refused" + field("stage", refused.stage) +
         field("code", static_cast<std::uint64_t>(refused.code)) + " " + refused.text;
}

int Server::supervise(const std::string& folder, Supervision supervision) {
  supervision_ = std::move(supervision);
  if (!begin(folder, signals_to_pass())) return k_not_started;
  if (supervision_->await == 0) attempts_.start(supervision_->start, 0);
  while (!is_supervision_over() && !attempts_.is_overrun()) turn();
  for (const auto& connection : connections_) connection->flush();
  attempts_.write_output();
  return supervision_->exit_code.value_or(k_signalled + SIGKILL);
}

void Server::end_supervision(int exit_code, std::string report) {
  supervision_->exit_code = exit_code;
  const Descriptor log(open(k_termination_log, O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (log.is_open()) write_all(log.get(), report);
}

bool Server::is_supervision_over() {
  std::optional<int>& exit_code = supervision_->exit_code;
  const std::int64_t idle = steady_time() - busy_at_;
  if (exit_code) return !attempts_.are_known() || terminated_at_ != 0 || idle >= supervision_->hold;
  if (attempts_.are_active()) return false;
  if (supervision_->await == 0) {  // a client has made the agent forget the program before its end
    exit_code = k_signalled + SIGKILL;
  } else if (terminated_at_ != 0) {
    exit_code = k_signalled + SIGTERM;
  } else if (idle >= supervision_->await) {
    complain("no client has started the program");
    exit_code = k_never_begun;
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
  start.env = std::move(message.env);
  start.awaits_inputs = message.awaits_inputs;
  message = std::move(start);
  return true;
}

}  // namespace combu::agent
