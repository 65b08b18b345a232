// The requests of clients.

#include <algorithm>
#include <cerrno>
#include <utility>

#include "answers.hpp"
#include "server.hpp"

namespace combu::agent {
namespace {

constexpr std::size_t k_inputs_max = std::size_t{1}
                                     << 20U;        // bytes of inputs that wait before reading pauses
constexpr std::size_t k_answers_at_once_max = 256;  // of one connection

}  // namespace

// Handles the frames that have arrived.
void Server::serve(Connection& connection) {
  if (connection.paused_by != 0) {
    const Attempt* attempt = attempts_.find_number(connection.paused_by);
    if (attempt != nullptr && attempt->inputs != nullptr && attempt->inputs->queue.size() > k_inputs_max / 2)
      return;
    connection.paused_by = 0;
    connection.resume();
  }
  Frame frame;
  while (!connection.is_closed() && connection.paused_by == 0) {
    const FrameReader::Result result = connection.next(frame);
    if (result == FrameReader::Result::incomplete) break;
    if (result == FrameReader::Result::corrupt) {
      refuse(connection, "the agent has received a corrupt frame");
      break;
    }
    connection.last_frame_at = steady_time();
    handle(connection, frame);
  }
}

void Server::refuse(Connection& connection, const char* text) {
  connection.send(Fault{.text = text});
  connection.flush();
  connection.close();
}

template <class Message>
void Server::decode_and_handle(Connection& connection, const Frame& frame) {
  Message message;
  if (decode(frame.payload, message))
    handle(connection, message);
  else
    refuse(connection, "the agent has received a malformed message");
}

void Server::handle(Connection& connection, const Frame& frame) {
  if (!connection.is_greeted && frame.type != FrameType::hello) {
    refuse(connection, "the first message must be Hello");
    return;
  }
  switch (frame.type) {
    case FrameType::hello:
      return decode_and_handle<Hello>(connection, frame);
    case FrameType::start:
      return decode_and_handle<Start>(connection, frame);
    case FrameType::put:
      return decode_and_handle<Put>(connection, frame);
    case FrameType::stop:
      return decode_and_handle<Stop>(connection, frame);
    case FrameType::forget:
      return decode_and_handle<Forget>(connection, frame);
    case FrameType::read_log:
      return decode_and_handle<ReadLog>(connection, frame);
    case FrameType::collect:
      return decode_and_handle<Collect>(connection, frame);
    case FrameType::collect_rest:
      return decode_and_handle<CollectRest>(connection, frame);
    case FrameType::cancel:
      return decode_and_handle<Cancel>(connection, frame);
    case FrameType::more:
      return decode_and_handle<More>(connection, frame);
    case FrameType::get_usage:
      return decode_and_handle<GetUsage>(connection, frame);
    case FrameType::call:
      return decode_and_handle<Call>(connection, frame);
    case FrameType::ping:
      return decode_and_handle<Ping>(connection, frame);
    default:
      refuse(connection, "the agent has received a message of an unknown type");
  }
}

void Server::handle(Connection& connection, Hello& message) {
  if (message.magic != k_magic) {
    refuse(connection, "the client does not speak the protocol of combu's agent");
    return;
  }
  if (message.version < k_version_oldest || message.version_oldest > k_version) {
    refuse(connection, "the client and the agent have no version of the protocol in common");
    return;
  }
  connection.send(Welcome{.version = std::min(message.version, k_version),
                          .boot = boot_,
                          .now = real_time(),
                          .has_cgroups = attempts_.have_groups() ? std::uint8_t{1} : std::uint8_t{0},
                          .note = note_,
                          .begun = attempts_.begun()});
  connection.is_greeted = true;
  connection.is_listing = true;
  connection.listed = 0;
}

void Server::handle(Connection& connection, Start& message) {
  if (supervision_ && !begin_supervised(message, connection.number())) {
    connection.send(Refused{.id = message.id, .code = ENOTSUP});
    return;
  }
  Attempt* known = attempts_.find(message.id);
  const bool is_awaiting = known != nullptr && known->phase == Phase::awaiting_inputs;
  if (is_awaiting && known->asker == connection.number()) return;
  // The inputs of an earlier connection of the client do not come any more.
  if (is_awaiting) attempts_.forget(*known);
  if (known == nullptr || is_awaiting) {
    attempts_.start(std::move(message), connection.number());
    return;
  }
  connection.send(known->started);
  if (known->phase == Phase::ended) connection.send(ended_message(*known));
}

void Server::handle(Connection& connection, Put& message) {
  Attempt* attempt = attempts_.find(message.id);
  if (attempt == nullptr || attempt->asker != connection.number()) return;
  attempts_.put(*attempt, message);
  if (attempt->inputs == nullptr || attempt->inputs->queue.size() <= k_inputs_max) return;
  connection.paused_by = attempt->number;
  connection.pause();
}

void Server::handle(Connection& /*connection*/, Stop& message) {
  Attempt* attempt = attempts_.find(message.id);
  if (attempt == nullptr) return;
  const std::uint64_t grace =
      message.grace_ms < 0 ? attempt->start.grace_ms : static_cast<std::uint64_t>(message.grace_ms);
  attempts_.stop(*attempt, grace, Ended::stopped);
}

void Server::handle(Connection& /*connection*/, Forget& message) {
  for (const std::string& id : message.ids)
    if (Attempt* attempt = attempts_.find(id)) attempts_.forget(*attempt);
}

// If the connection has too many requests, answers the request and returns false.
bool Server::has_room(Connection& connection, std::uint32_t request) {
  if (connection.answers.size() < k_answers_at_once_max) return true;
  connection.send(Done{.request = request, .status = Done::failed, .text = "too many requests at once"});
  return false;
}

// Returns the attempt of a request. If there is none, or the connection has too many requests, answers the
// request and returns nullptr.
const Attempt* Server::attempt_for(Connection& connection, std::uint32_t request, const std::string& id) {
  const Attempt* const attempt = attempts_.find(id);
  if (attempt != nullptr) return has_room(connection, request) ? attempt : nullptr;
  connection.send(Done{.request = request, .status = Done::unknown_attempt, .text = {}});
  return nullptr;
}

void Server::handle(Connection& connection, ReadLog& message) {
  if (const Attempt* attempt = attempt_for(connection, message.request, message.id))
    connection.answers.push_back(make_log_answer(attempts_, attempt->number, message));
}

void Server::handle(Connection& connection, Collect& message) {
  CollectRest whole{.request = message.request, .id = message.id, .path = message.path};
  handle(connection, whole);
}

void Server::handle(Connection& connection, CollectRest& message) {
  std::uint64_t scratch = 0;  // none
  if (is_restarted()) {
    if (!has_room(connection, message.request)) return;
  } else {
    const Attempt* const attempt = attempt_for(connection, message.request, message.id);
    if (attempt == nullptr) return;
    scratch = attempt->scratch;
  }
  connection.answers.push_back(make_archive_answer(loop_, attempts_, folder_, scratch, message));
}

void Server::handle(Connection& connection, More& message) {
  for (const std::unique_ptr<Answer>& answer : connection.answers)
    if (answer->request() == message.request) answer->grant(message.bytes);
}

void Server::handle(Connection& connection, Cancel& message) {
  const std::size_t count = std::erase_if(connection.answers, [&](const std::unique_ptr<Answer>& answer) {
    return answer->request() == message.request;
  });
  if (count > 0) connection.send(Done{.request = message.request, .status = Done::cancelled, .text = {}});
}

void Server::handle(Connection& connection, GetUsage& message) {
  const Attempt* attempt = attempt_for(connection, message.request, message.id);
  if (attempt == nullptr) return;
  UsageAnswer answer = attempts_.usage(*attempt);
  answer.request = message.request;
  connection.send(answer);
}

void Server::handle(Connection& connection, Call& message) {
  Attempt* attempt = attempts_.find(message.id);
  Returned::Status status = attempt == nullptr ? Returned::unknown_attempt : Returned::not_running;
  if (attempt != nullptr && attempt->resident != nullptr)
    status = attempt->resident->call(++last_call_, message.bytes);
  if (status == Returned::ok)
    callers_.push_back({.attempt = attempt->number,
                        .number = last_call_,
                        .connection = connection.number(),
                        .call = message.call});
  else
    connection.send(Returned{.id = message.id, .call = message.call, .status = status, .bytes = {}});
}

void Server::take_value(Attempt& attempt, std::uint64_t number, Returned::Status status, std::string bytes) {
  const auto caller = std::ranges::find_if(
      callers_, [&](const Caller& one) { return one.attempt == attempt.number && one.number == number; });
  if (caller == callers_.end()) return;
  if (Connection* connection = find_connection(caller->connection))
    connection->send(
        Returned{.id = attempt.start.id, .call = caller->call, .status = status, .bytes = std::move(bytes)});
  callers_.erase(caller);
}

void Server::handle(Connection& connection, Ping& message) {
  connection.send(Pong{.number = message.number});
}

}  // namespace combu::agent
