#pragma once
// An HTTP server in a thread of the fuzzing process. A function computes the answer to each request.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace combu::fuzz {

class AnsweringServer {
 public:
  // Returns the bytes of the answer to a request. `head` is the request without its body. The server's thread
  // calls the function while the fuzzing thread waits for the answer.
  using Answer = std::function<std::string(std::string_view head)>;

  // Starts the server, which runs until the process ends.
  explicit AnsweringServer(Answer answer) : answer_(std::move(answer)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&where), size) != 0 ||
        ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&where), &size) != 0)
      std::abort();
    port_ = ntohs(where.sin_port);
    std::thread([this] { serve(); }).detach();
  }

  [[nodiscard]] std::string address(std::string_view scheme) const {
    return std::string(scheme) + "://127.0.0.1:" + std::to_string(port_);
  }

 private:
  struct Connection {
    int socket;
    std::string unread = {};
  };

  void serve() {
    std::list<Connection> connections;
    while (true) {
      std::vector<pollfd> polled{{listener_, POLLIN, 0}};
      for (const Connection& connection : connections) polled.push_back({connection.socket, POLLIN, 0});
      if (::poll(polled.data(), polled.size(), -1) < 0) continue;
      std::size_t i = 1;
      for (auto connection = connections.begin(); connection != connections.end();) {
        const bool is_over = polled[i++].revents != 0 && !serve(*connection);
        if (is_over) reset(connection->socket);
        connection = is_over ? connections.erase(connection) : std::next(connection);
      }
      if (polled[0].revents != 0)
        connections.push_back({::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)});
    }
  }

  // Closes with a reset: otherwise thousands of connections per second use up all ports, in TIME_WAIT.
  static void reset(int socket) {
    const linger at_once{1, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    ::close(socket);
  }

  // Receives and answers. Returns false if the connection has ended.
  bool serve(Connection& connection) {
    std::array<char, 65536> piece{};
    const ssize_t count = ::recv(connection.socket, piece.data(), piece.size(), 0);
    if (count <= 0) return count < 0 && errno == EINTR;
    connection.unread.append(piece.data(), static_cast<std::size_t>(count));
    while (true) {
      const std::string_view unread = connection.unread;
      const std::size_t end = unread.find("\r\n\r\n");
      if (end == std::string_view::npos) return true;
      constexpr std::string_view k_length = "Content-Length: ";
      const std::size_t length = unread.substr(0, end).find(k_length);
      const std::size_t body =
          length == std::string_view::npos
              ? 0
              : std::strtoul(unread.substr(length + k_length.size()).data(), nullptr, 10);
      if (unread.size() < end + 4 + body) return true;
      const std::string answer = answer_(unread.substr(0, end));
      connection.unread.erase(0, end + 4 + body);
      if (::send(connection.socket, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return false;
    }
  }

  Answer answer_;
  int listener_ = -1;
  int port_ = 0;
};

inline std::string answer_of(int status, std::string_view body, std::string_view headers = {}) {
  return "HTTP/1.1 " + std::to_string(status) + " Word\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

}  // namespace combu::fuzz
