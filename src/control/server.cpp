#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "combu/control.hpp"
#include "combu/json.hpp"
#include "control/messages.hpp"
#include "control/socket.hpp"

namespace combu {
namespace {

using control::Bell;
using Steady = std::chrono::steady_clock;

constexpr std::size_t k_clients_max = 64;
constexpr std::size_t k_request_max = std::size_t{64} << 10U;
// Maximum number of bytes that the server buffers for a client.
constexpr std::size_t k_behind_max = std::size_t{8} << 20U;
// Maximum number of lines about failures that the server keeps for clients that connect later. Each failure
// has two lines: a fact and the end of the log. Hence the server keeps 20 failures, as many as a run lists at
// its end.
constexpr std::size_t k_failures_kept = 40;
constexpr std::chrono::seconds k_farewell{1};

struct Client {
  Descriptor socket;
  std::string in;  // incomplete line that the client has sent; used only by the server's thread
  std::string out;
  std::size_t sent = 0;  // number of bytes of `out` that are already sent
  bool follows = false;
  bool lost = false;

  [[nodiscard]] bool has_more() const { return sent < out.size(); }

  void put(std::string_view line) {
    if (out.size() - sent + line.size() > k_behind_max) lost = true;
    if (!lost) out += line;
  }

  void send_some() {
    const ssize_t size =
        ::send(socket.number(), out.data() + sent, out.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0) {
      lost = errno != EAGAIN && errno != EINTR;
      return;
    }
    sent += static_cast<std::size_t>(size);
    // Erases sent bytes only rarely, because erasing moves the rest of the buffer.
    if (!has_more() || sent > k_behind_max / 8) {
      out.erase(0, sent);
      sent = 0;
    }
  }
};

// The lines that the server keeps for clients that connect later, in the order in which it sends them.
struct Replay {
  std::string phase;
  std::string begin;
  std::deque<std::string> failures;
  std::string snapshot;
  std::string done;

  void keep(std::string_view event, std::string_view line) {
    if (event == "phase") {
      phase = line;
    } else if (event == "begin") {
      phase.clear();
      begin = line;
    } else if (event == "failure") {
      failures.emplace_back(line);
      if (failures.size() > k_failures_kept) failures.pop_front();
    } else if (event == "snapshot") {
      snapshot = line;
    } else if (event == "done") {
      done = line;
    }
  }

  void publish(Client& client) const {
    client.put(phase);
    client.put(begin);
    for (const std::string& failure : failures) client.put(failure);
    client.put(snapshot);
    client.put(done);
  }
};

}  // namespace

struct ControlServer::Impl {
  // ---- Any thread

  void publish(std::string_view event, std::string_view line) {
    {
      const std::scoped_lock lock(mutex);
      replay.keep(event, line);
      if (followers == 0) return;
      for (auto& [number, client] : clients)
        if (client.follows) client.put(line);
    }
    bell.ring();
  }

  void answer(std::uint64_t number, const std::string& line) {
    {
      const std::scoped_lock lock(mutex);
      const auto client = clients.find(number);
      if (client == clients.end()) return;
      client->second.put(line);
    }
    bell.ring();
  }

  // ---- Functions of the server's thread. Only this thread adds and removes clients.

  void serve(const std::stop_token& stop) {
    std::optional<Steady::time_point> leave_at;
    while (true) {
      if (stop.stop_requested() && !leave_at) leave_at = Steady::now() + k_farewell;
      if (leave_at && (Steady::now() >= *leave_at || !has_more())) return;
      const std::vector<std::uint64_t> ready = wait(leave_at.has_value());
      for (const std::uint64_t number : ready) hear(number);
      send_all();
    }
  }

  // Waits for events and accepts a new client, if any. Returns the numbers of the clients from which input
  // has come.
  std::vector<std::uint64_t> wait(bool departure) {
    std::vector<pollfd> polled{{.fd = bell.number(), .events = POLLIN},
                               {.fd = departure ? -1 : listening.number(), .events = POLLIN}};
    std::vector<std::uint64_t> numbers;
    {
      const std::scoped_lock lock(mutex);
      for (const auto& [number, client] : clients) {
        const int events = POLLIN | (client.has_more() ? POLLOUT : 0);
        polled.push_back({.fd = client.socket.number(), .events = static_cast<short>(events)});
        numbers.push_back(number);
      }
    }
    constexpr int k_farewell_poll_ms = 50;
    (void)poll(polled.data(), polled.size(), departure ? k_farewell_poll_ms : -1);
    if (polled[0].revents != 0) bell.silence();
    if (polled[1].revents != 0) take_client();
    std::vector<std::uint64_t> ready;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if ((polled[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) ready.push_back(numbers[i]);
    return ready;
  }

  void take_client() {
    Descriptor socket(accept4(listening.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.number() < 0) return;
    const std::scoped_lock lock(mutex);
    if (clients.size() < k_clients_max) {
      clients[next_client++].socket = std::move(socket);
    } else {
      const std::string line =
          control::error_line("too many clients are connected to the run; try again later");
      (void)::send(socket.number(), line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  }

  void hear(std::uint64_t number) {
    Client& client = clients.at(number);
    std::array<char, 4096> piece{};
    const ssize_t size = recv(client.socket.number(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size > 0) client.in.append(piece.data(), static_cast<std::size_t>(size));
    for (std::size_t end = client.in.find('\n'); end != std::string::npos; end = client.in.find('\n')) {
      const std::string line = client.in.substr(0, end);
      client.in.erase(0, end + 1);
      obey(number, client, line);
    }
    if (size > 0 && client.in.size() <= k_request_max) return;
    const std::scoped_lock lock(mutex);
    client.lost = true;
  }

  void obey(std::uint64_t number, Client& client, const std::string& line) {
    try {
      const auto request = parse_json_or_discard(line);
      const control::Ask ask = control::ask_of(request);
      if (ask == control::Ask::follow) {
        const std::scoped_lock lock(mutex);
        replay.publish(client);
        client.follows = true;
        count_followers();
        return;
      }
      if (ask == control::Ask::hand_over) return leave_to(number);
      const auto publish = [this, number](const Settings& settings) {
        answer(number, control::settings_line(settings));
      };
      if (!adjusting(control::adjust_of(request), publish))
        answer(number, control::error_line("the run is about to end"));
    } catch (const Error& error) {
      answer(number, control::error_line(error.what()));
    }
  }

  void leave_to(std::uint64_t number) {
    {
      const std::scoped_lock lock(mutex);
      if (taker) throw Error(ErrorKind::conflict, "", "another process is about to change the run");
      taker = number;
    }
    if (leave()) return;
    const std::scoped_lock lock(mutex);
    taker.reset();
    throw Error(ErrorKind::conflict, "", "the run starts or ends at this moment; try again");
  }

  bool hand_over(const std::stop_token& stop, std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex);
    const auto client = taker ? clients.find(*taker) : clients.end();
    if (client != clients.end()) client->second.put(control::handed_over_line());
    bell.ring();
    const auto is_back = [this] { return !taker || !clients.contains(*taker); };
    (void)returned.wait_for(lock, stop, patience, is_back);
    const bool is_late = !stop.stop_requested() && !is_back();
    // The shutdown tells the client that it must not write to the record: the client checks the connection
    // with expect_the_run() before it writes. The server's thread removes the client later.
    if (is_late) (void)shutdown(clients.at(*taker).socket.number(), SHUT_RDWR);
    taker.reset();
    return !is_late;
  }

  void send_all() {
    const std::scoped_lock lock(mutex);
    for (auto& [number, client] : clients)
      if (client.has_more() && !client.lost) client.send_some();
    if (std::erase_if(clients, [](const auto& one) { return one.second.lost; }) > 0) returned.notify_all();
    count_followers();
  }

  void count_followers() {
    followers = static_cast<std::size_t>(
        std::ranges::count_if(clients, [](const auto& one) { return one.second.follows; }));
  }

  [[nodiscard]] bool has_more() {
    const std::scoped_lock lock(mutex);
    return std::ranges::any_of(clients, [](const auto& one) { return one.second.has_more(); });
  }

  std::string path;
  Adjusting adjusting;
  Departure leave;
  Descriptor listening;
  Bell bell;
  std::mutex mutex;  // guards the members declared after it, except `thread`
  std::map<std::uint64_t, Client> clients;
  std::uint64_t next_client = 1;
  // The client that has asked to take over the run, or has taken over the run.
  std::optional<std::uint64_t> taker;
  std::condition_variable_any returned;
  std::atomic<std::size_t> followers{0};
  Replay replay;
  std::jthread thread;
};

ControlServer::ControlServer() : impl_(std::make_unique<Impl>()) {}

ControlServer::~ControlServer() {
  if (!impl_->thread.joinable()) return;
  std::error_code none;
  std::filesystem::remove(impl_->path, none);
  impl_->thread.request_stop();
  impl_->bell.ring();
  impl_->thread.join();
}

bool ControlServer::hand_over(const std::stop_token& stop, std::chrono::milliseconds patience) {
  return impl_->hand_over(stop, patience);
}

void ControlServer::open(const std::string& path, Adjusting adjusting, Departure departure) {
  impl_->path = path;
  impl_->adjusting = std::move(adjusting);
  impl_->leave = std::move(departure);
  impl_->listening = control::listen_at(path);
  impl_->thread = std::jthread([this](const std::stop_token& stop) { impl_->serve(stop); });
}

void ControlServer::publish(std::string_view event, std::string_view line) {
  impl_->publish(event, line);
}

bool ControlServer::is_followed() const {
  return impl_->followers > 0;
}

void ControlServer::done(int exit_code) {
  impl_->publish("done", control::done_line(exit_code));
}

}  // namespace combu
