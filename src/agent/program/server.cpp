#include "server.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>

#include "processes.hpp"
#include "results.hpp"

namespace combu::agent {
namespace {

constexpr std::int64_t k_tick = k_second / 2;
constexpr std::int64_t k_silence_max = 60 * k_second;  // of a connection
constexpr std::int64_t k_visit_max = 10 * k_second;
constexpr std::size_t k_visitors_max = 64;
constexpr std::size_t k_answers_max = std::size_t{128} << 10U;  // queued bytes at which answers wait
constexpr int k_exit_overrun = 70;                              // EX_SOFTWARE of sysexits.h
constexpr std::int64_t k_end_max = 6 * k_second;  // after SIGTERM; engines usually kill the agent after 10 s

std::string random_text() {
  std::array<unsigned char, 16> bytes{};
  (void)!getrandom(bytes.data(), bytes.size(), 0);
  std::string text;
  for (const unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

}  // namespace

Server::Server(Attempts::Kind kind) : attempts_(loop_, folder_, kind, events()), boot_(random_text()) {}

AttemptEvents Server::events() {
  return {.started = [this](Attempt& attempt) { broadcast(attempt.started); },
          .ended =
              [this](Attempt& attempt) {
                broadcast(ended_message(attempt));
                std::erase_if(callers_, [&](const Caller& one) { return one.attempt == attempt.number; });
                if (supervision_) end_supervision(exit_code_of(attempt.end), report_of_end(attempt.end));
              },
          .refused =
              [this](std::uint64_t number, const Refused& message) {
                Refused named = message;
                if (supervision_ && named.text.empty()) named.text = supervision_->start.argv.front();
                if (Connection* connection = find_connection(number)) connection->send(named);
                if (!supervision_) return;
                complain(message.text.empty() ? problem_text(named.text, message.code) : message.text);
                supervision_->refused_at = steady_time();
                end_supervision(exit_code_of(message), report_of_refusal(named));
              },
          .returned = [this](Attempt& attempt, std::uint64_t number, Returned::Status status,
                             std::string bytes) { take_value(attempt, number, status, std::move(bytes)); }};
}

// Opens the folder, and receives these signals and SIGCHLD from now on.
bool Server::begin(const std::string& folder, const std::vector<int>& signals) {
  // An attempt of the same user must not read or change the memory of this process.
  prctl(PR_SET_DUMPABLE, 0);
  if (getpid() != 1) prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::string problem = folder_.open(folder);
  if (!problem.empty() || !watch_listener()) {
    complain(problem);
    return false;
  }
  sigset_t all;
  sigemptyset(&all);
  sigaddset(&all, SIGCHLD);
  for (const int signal : signals) sigaddset(&all, signal);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  signals_ = Descriptor(signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
  signal_watch_.start(loop_, signals_.get(), EPOLLIN, [this](std::uint32_t) { take_signals(); });
  busy_at_ = steady_time();
  return true;
}

int Server::run(const std::string& folder, std::int64_t idle_max, std::string note) {
  note_ = std::move(note);
  if (!begin(folder, {SIGTERM})) return 1;
  while (terminated_at_ == 0 && !attempts_.is_overrun() && steady_time() - busy_at_ < idle_max) turn();
  bool is_overrun = attempts_.is_overrun();
  attempts_.kill_all();
  is_overrun = is_overrun || attempts_.are_active();
  // The exit code tells the client not to read a file of results: a process that is left could change it.
  if (is_overrun) {
    complain(
        "an attempt has processes that cannot be killed; the worker ends, so that the engine kills them");
    return k_exit_overrun;
  }
  folder_.repair();
  listen_watch_.stop();
  folder_.close_listener();
  // The file is made even without results, because an attempt may have left such a file. If it cannot be
  // made, the exit code tells the client not to read it.
  const auto is_late = [this] {
    take_signals();
    return terminated_at_ != 0 && steady_time() - terminated_at_ > k_end_max;
  };
  if (write_results(attempts_, folder_, boot_, is_late)) return 0;
  complain(problem_text("results", errno));
  return 1;
}

void Server::turn() {
  const std::int64_t before = steady_time();
  loop_.turn(has_more_ ? 0 : timeout_ms(before));
  if (std::exchange(has_child_ended_, false)) attempts_.reap();
  const std::int64_t now = steady_time();
  next_act_ = attempts_.act(now);
  if (now >= next_tick_) tick(now);
  has_more_ = false;
  for (const auto& connection : connections_) {
    const bool has_more = connection->is_greeted && pump(*connection);
    if (connection->queued() > 0) connection->flush();
    // With a full queue, the connection goes on when the client reads.
    has_more_ = has_more_ || (has_more && connection->queued() < k_answers_max);
  }
  remove_closed();
  if (!connections_.empty() || attempts_.are_active()) busy_at_ = now;
}

int Server::timeout_ms(std::int64_t now) const {
  std::int64_t next = next_tick_;
  if (next_act_ != 0) next = std::min(next, next_act_);
  return static_cast<int>(std::clamp<std::int64_t>((next - now) / k_millisecond + 1, 0, INT_MAX));
}

void Server::tick(std::int64_t now) {
  next_tick_ = now + k_tick;
  folder_.repair();
  if (supervision_ && supervision_->keeps)
    (void)folder_.begin_life();  // the program may have removed the file
  if (folder_.take_new_listener()) watch_listener();
  for (const auto& connection : connections_)
    if (now - connection->last_frame_at > k_silence_max) connection->close();
  std::erase_if(visitors_, [now](const Visitor& visitor) {
    return visitor.is_over || now - visitor.since > k_visit_max;
  });
}

// ---- Connections

bool Server::watch_listener() {
  listen_watch_.stop();
  return listen_watch_.start(loop_, folder_.listener(), EPOLLIN, [this](std::uint32_t) { accept(); });
}

void Server::accept() {
  Descriptor socket(accept4(folder_.listener(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  ucred peer{};
  socklen_t size = sizeof(peer);
  // A process of an attempt must not act as a client. A client's process has been started by the engine.
  if (!socket.is_open() || getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      may_be_descendant(peer.pid) || visitors_.size() >= k_visitors_max)
    return;
  Visitor& visitor = visitors_.emplace_back();
  visitor.socket = std::move(socket);
  visitor.since = steady_time();
  visitor.watch.start(loop_, visitor.socket.get(), EPOLLIN, [this, &visitor](std::uint32_t) {
    visitor.watch.stop();
    admit(visitor);
    visitor.is_over = true;
  });
}

// Takes the descriptors of a visitor, and makes a connection of them.
void Server::admit(Visitor& visitor) {
  constexpr std::size_t k_count = 2;
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(k_count * sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  if (recvmsg(visitor.socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) <= 0) return;
  std::vector<Descriptor> passed;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + at, sizeof(number));
      passed.emplace_back(number);
    }
  }
  if (passed.size() != k_count) return;
  (void)!send(visitor.socket.get(), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);  // `join` knows that it is accepted
  auto connection = std::make_unique<Connection>(++last_connection_, std::move(passed[0]),
                                                 std::move(passed[1]), std::move(visitor.socket));
  const bool is_started = connection->start(loop_, [this, &connection = *connection] {
    connection.receive();
    serve(connection);
  });
  if (is_started) connections_.push_back(std::move(connection));
}

Connection* Server::find_connection(std::uint64_t number) {
  for (const auto& connection : connections_)
    if (connection->number() == number) return connection.get();
  return nullptr;
}

void Server::remove_closed() {
  for (const auto& connection : connections_) {
    if (!connection->is_closed()) continue;
    connection->answers.clear();
    attempts_.drop_awaiting(connection->number());
    std::erase_if(callers_, [&](const Caller& caller) { return caller.connection == connection->number(); });
  }
  std::erase_if(connections_, [](const auto& connection) { return connection->is_closed(); });
  std::erase_if(visitors_, [](const Visitor& visitor) { return visitor.is_over; });
}

// Sends the next parts of the connection's answers. Returns true if more can be sent at once.
bool Server::pump(Connection& connection) {
  if (connection.paused_by != 0) serve(connection);
  while (connection.is_listing && connection.queued() < k_answers_max) {
    Attempt* attempt = attempts_.next_after(connection.listed);
    if (attempt == nullptr) {
      connection.is_listing = false;
      connection.send(Listed{});
      break;
    }
    connection.listed = attempt->number;
    if (attempt->phase == Phase::awaiting_inputs) continue;
    connection.send(attempt->started);
    if (attempt->phase == Phase::ended) connection.send(ended_message(*attempt));
  }
  // The answers take turns, so that a large one does not delay the others.
  auto& answers = connection.answers;
  std::size_t waiting = 0;
  while (waiting < answers.size() && connection.queued() < k_answers_max) {
    const Answer::State state =
        answers.front()->has_credit() ? answers.front()->produce(connection) : Answer::State::waiting;
    if (state == Answer::State::over)
      answers.erase(answers.begin());
    else
      std::ranges::rotate(answers, answers.begin() + 1);
    waiting = state == Answer::State::waiting ? waiting + 1 : 0;
  }
  return connection.is_listing || waiting < answers.size();
}

// ---- Signals

void Server::take_signals() {
  signalfd_siginfo signal{};
  while (read(signals_.get(), &signal, sizeof(signal)) == sizeof(signal)) {
    if (signal.ssi_signo == SIGCHLD) {
      has_child_ended_ = true;
      continue;
    }
    if (!is_signal_valid(static_cast<std::int32_t>(signal.ssi_pid))) continue;
    if (signal.ssi_signo == SIGTERM && terminated_at_ == 0) terminated_at_ = steady_time();
    if (supervision_) pass_signal(static_cast<int>(signal.ssi_signo));
  }
}

// A signal from an attempt does not count. The kernel and processes outside the container have the number 0.
bool Server::is_signal_valid(std::int32_t sender) const {
  return sender == 0 || !may_be_descendant(sender);
}

}  // namespace combu::agent
