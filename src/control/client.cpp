#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>

#include "combu/control.hpp"
#include "combu/json.hpp"
#include "control/messages.hpp"
#include "control/replay.hpp"
#include "control/socket.hpp"

namespace combu {
namespace {

using Steady = std::chrono::steady_clock;
constexpr std::chrono::seconds k_answer_max{10};
// Maximum length of a line in bytes: twice as much as a server buffers for a client.
constexpr std::size_t k_line_max = std::size_t{16} << 20U;

Error gone() {
  return {ErrorKind::not_found, "", "the combu process that owns the run has ended"};
}

}  // namespace

struct ControlClient::Impl {
  explicit Impl(const std::string& path) : socket(control::connect_to(path)) {}

  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t size = ::send(socket.number(), text.data(), text.size(), MSG_NOSIGNAL);
      if (size < 0) throw gone();
      text.remove_prefix(static_cast<std::size_t>(size));
    }
  }

  // Returns the next line from the server, or nullopt at the end of the stream. Throws Error(cancelled) if
  // `stop` requests a stop, and Error(refused) if no line has come before the moment `until`.
  std::optional<std::string> line(const std::stop_token& stop, std::optional<Steady::time_point> until) {
    while (true) {
      if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "", "interrupted");
      if (const std::size_t end = in.find('\n', at); end != std::string::npos) {
        std::string line = in.substr(at, end - at);
        at = end + 1;
        return line;
      }
      in.erase(0, at);
      at = 0;
      std::array<char, std::size_t{64} << 10U> piece{};
      if (!wait(stop, until)) continue;
      const ssize_t size = recv(socket.number(), piece.data(), piece.size(), 0);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) return std::nullopt;
      in.append(piece.data(), static_cast<std::size_t>(size));
      if (in.size() > k_line_max)
        throw Error(ErrorKind::refused, "",
                    fmt::format("the combu process that owns the run sent a line of more than {} MiB",
                                k_line_max >> 20U));
    }
  }

  // Waits for input from the server. Returns true if the socket can be read.
  [[nodiscard]] bool wait(const std::stop_token& stop, std::optional<Steady::time_point> until) const {
    const std::stop_callback on_stop(stop, [this] { bell.ring(); });
    std::array<pollfd, 2> polled{
        {{.fd = socket.number(), .events = POLLIN}, {.fd = bell.number(), .events = POLLIN}}};
    int patience = -1;
    if (until) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Steady::now()).count();
      if (left <= 0)
        throw Error(ErrorKind::refused, "", "the combu process that owns the run does not answer");
      patience = static_cast<int>(left);
    }
    return poll(polled.data(), polled.size(), patience) > 0 && polled[0].revents != 0;
  }

  Descriptor socket;
  control::Bell bell;
  std::string in;
  std::size_t at = 0;  // offset in `in` of the first byte that line() has not returned yet
};

ControlClient::ControlClient(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
ControlClient::~ControlClient() = default;

namespace {

// Returns read(). Turns a parse error into Error(refused): the server's line does not follow the protocol.
template <class Read>
auto understood(const Read& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        ErrorKind::refused, "",
        std::string("cannot read the answer of the combu process that owns the run: ") + error.what());
  }
}

}  // namespace

Settings ControlClient::adjust(const Adjust& adjust, const std::stop_token& stop) {
  const std::string request = control::adjust_line(adjust);
  (void)control::adjust_of(parse_json(request));
  impl_->send(request);
  const std::optional<std::string> line = impl_->line(stop, Steady::now() + k_answer_max);
  if (!line) throw gone();
  return understood([&] {
    const auto answer = parse_json(*line);
    if (answer.at("answer") == "error")
      throw Error(ErrorKind::refused, "", answer.at("text").get<std::string>());
    return control::settings_of(answer);
  });
}

void ControlClient::take_over(const std::stop_token& stop) {
  impl_->send(control::hand_over_line());
  const std::optional<std::string> line = impl_->line(stop, std::nullopt);
  if (!line) throw gone();
  understood([&] {
    const auto answer = parse_json(*line);
    if (answer.at("answer") == "error")
      throw Error(ErrorKind::refused, "", answer.at("text").get<std::string>());
    return 0;
  });
}

void ControlClient::expect_the_run() const {
  char next = 0;
  if (recv(impl_->socket.number(), &next, sizeof(next), MSG_PEEK | MSG_DONTWAIT) != 0) return;
  throw Error(ErrorKind::conflict, "",
              "the owner of the run has ended, or has waited too long and continues without the change");
}

std::optional<int> ControlClient::follow(Progress& progress, Run& run, const std::stop_token& stop) {
  impl_->send(control::follow_line());
  control::Replay replay(progress, run);
  try {
    while (const auto line = impl_->line(stop, std::nullopt)) {
      const auto code = understood([&] { return replay.show(parse_json(*line)); });
      if (code) return code;
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled) throw;
  }
  return std::nullopt;
}

}  // namespace combu
