#pragma once
// A daemon that answers every request with bytes that the test provides, and then keeps the connection,
// closes it or stalls.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace combu::wire {

struct Asked {
  std::string method;
  std::string target;
  std::string head;
  std::string body;
  std::size_t number = 0;  // index of the request, from 0
};

struct Reply {
  enum class Then { keep, close, stall };
  std::vector<std::string> pieces;  // each is sent by itself
  Then then = Then::keep;
  // Returns further pieces; an empty piece ends the reply. For replies that are too large to store.
  std::function<std::string()> more = {};
  // Called with the connection after the pieces; then the connection is closed.
  std::function<void(int connection)> serve = {};
};

// A reply that ends HTTP on the connection.
inline Reply upgraded(std::function<void(int connection)> serve) {
  return {
      {"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\n"
       "Upgrade: tcp\r\n\r\n"},
      Reply::Then::close,
      {},
      std::move(serve)};
}

// Writes all bytes, and returns false if the other side has closed the connection.
inline bool put(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// Passes received bytes to `take` until the other side closes the connection.
inline void take_all(int connection, const std::function<void(std::string_view)>& take) {
  std::string buffer(std::size_t{64} << 10U, '\0');
  while (true) {
    const ssize_t count = ::recv(connection, buffer.data(), buffer.size(), 0);
    if (count <= 0) return;
    take(std::string_view(buffer).substr(0, static_cast<std::size_t>(count)));
  }
}

inline Reply whole(int status, std::string_view body, std::string_view more_headers = {}) {
  return {{"HTTP/1.1 " + std::to_string(status) +
           " Word\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n" + std::string(more_headers) + "\r\n" + std::string(body)},
          Reply::Then::keep};
}

// A reply without body and length, for 204 and 304.
inline Reply bare(int status) {
  return {{"HTTP/1.1 " + std::to_string(status) + " Word\r\n\r\n"}, Reply::Then::keep};
}

inline std::string chunk(std::string_view data) {
  std::array<char, 20> size{};
  std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
  return std::string(size.data()) + std::string(data) + "\r\n";
}

// A reply with status 200 in chunks, without the last chunk.
inline Reply stream(const std::vector<std::string>& chunks, Reply::Then then) {
  Reply reply{{"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"},
              then};
  for (const std::string& data : chunks) reply.pieces.push_back(chunk(data));
  return reply;
}

inline Reply ended(Reply reply) {
  reply.pieces.emplace_back("0\r\n\r\n");
  return reply;
}

inline Reply cut(std::string bytes) {
  return {{std::move(bytes)}, Reply::Then::close};
}
inline Reply hang_up() {
  return {{}, Reply::Then::close};
}
inline Reply stall() {
  return {{}, Reply::Then::stall};
}
// A reply of `head`, and then `again` endlessly.
inline Reply endless(std::string head, std::string again) {
  return {{std::move(head)}, Reply::Then::close, [again = std::move(again)] { return again; }};
}
// The same reply, with each byte sent by itself.
inline Reply dripped(const Reply& reply) {
  Reply drips{{}, reply.then};
  for (const std::string& piece : reply.pieces)
    for (const char byte : piece) drips.pieces.emplace_back(1, byte);
  return drips;
}

class ScriptedDaemon {
 public:
  enum class Kind { unix_socket, tcp };
  using Handler = std::function<Reply(const Asked&)>;

  // `whole`: a body in chunks is read completely before the answer. Such bodies are stored as received, with
  // their chunk headers.
  enum class Bodies { whole, begun };
  explicit ScriptedDaemon(Handler handler, Kind kind = Kind::unix_socket, Bodies bodies = Bodies::begun)
      : handler_(std::move(handler)), bodies_(bodies) {
    if (kind == Kind::unix_socket) {
      listen_unix();
    } else {
      listen_tcp();
    }
    if (::pipe(wake_.data()) != 0) throw std::runtime_error("pipe");
    acceptor_ = std::thread([this] { accept_all(); });
  }

  ~ScriptedDaemon() {
    ending_ = true;
    ::close(wake_[1]);  // every poll() sees the end of the pipe
    acceptor_.join();
    for (std::thread& connection : connections_) connection.join();
    ::close(listener_);
    ::close(wake_[0]);
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  ScriptedDaemon(const ScriptedDaemon&) = delete;
  ScriptedDaemon& operator=(const ScriptedDaemon&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }

  [[nodiscard]] std::vector<Asked> asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

  // Returns "METHOD TARGET" of each request so far.
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const Asked& asked : this->asked()) lines.push_back(asked.method + " " + asked.target);
    return lines;
  }

  void wait_for_requests(std::size_t count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return asked_.size() >= count; });
  }

  [[nodiscard]] std::size_t connections() const { return accepted_; }

 private:
  void listen_unix() {
    std::string pattern = (std::filesystem::temp_directory_path() / "combu-wire-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = pattern;
    const std::string path = folder_ + "/daemon.sock";
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), std::begin(where.sun_path));
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    start_listening(reinterpret_cast<const sockaddr*>(&where), sizeof(where));
    address_ = "unix://" + path;
  }

  void listen_tcp() {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    start_listening(reinterpret_cast<const sockaddr*>(&where), sizeof(where));
    socklen_t size = sizeof(where);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&where), &size);
    address_ = "tcp://127.0.0.1:" + std::to_string(ntohs(where.sin_port));
  }

  void start_listening(const sockaddr* where, socklen_t size) const {
    if (::bind(listener_, where, size) != 0 || ::listen(listener_, 128) != 0)
      throw std::runtime_error("listen");
  }

  // Returns false if the daemon is ending.
  [[nodiscard]] bool readable(int descriptor) const {
    std::array<pollfd, 2> wanted{pollfd{descriptor, POLLIN, 0}, pollfd{wake_[0], POLLIN, 0}};
    while (::poll(wanted.data(), wanted.size(), -1) < 0) {
    }
    return wanted[1].revents == 0;
  }

  void accept_all() {
    while (readable(listener_)) {
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      ++accepted_;
      connections_.emplace_back([this, connection] {
        while (serve_one(connection)) {
        }
        ::close(connection);
      });
    }
  }

  // Returns false at the end of the connection.
  bool read_more(int connection, std::string& into) const {
    if (!readable(connection)) return false;
    std::array<char, 65536> buffer{};
    const ssize_t count = ::recv(connection, buffer.data(), buffer.size(), 0);
    if (count > 0) into.append(buffer.data(), static_cast<std::size_t>(count));
    return count > 0;
  }

  bool read_request(int connection, Asked& asked) const {
    std::string bytes;
    std::size_t end = std::string::npos;
    while ((end = bytes.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more(connection, bytes)) return false;
    }
    asked.head = bytes.substr(0, end + 2);
    asked.body = bytes.substr(end + 4);
    if (bodies_ == Bodies::whole && asked.head.find("Transfer-Encoding: chunked") != std::string::npos) {
      constexpr std::string_view k_last = "0\r\n\r\n";
      while (!asked.body.ends_with(k_last)) {
        if (!read_more(connection, asked.body)) return false;
      }
    }
    const std::size_t space = asked.head.find(' ');
    asked.method = asked.head.substr(0, space);
    asked.target = asked.head.substr(space + 1, asked.head.find(' ', space + 1) - space - 1);
    constexpr std::string_view k_length = "Content-Length: ";
    const std::size_t at = asked.head.find(k_length);
    const std::size_t wanted =
        at == std::string::npos ? 0 : std::stoul(asked.head.substr(at + k_length.size()));
    constexpr std::string_view k_continue = "HTTP/1.1 100 Continue\r\n\r\n";
    if (asked.head.find("Expect: 100-continue") != std::string::npos &&
        ::send(connection, k_continue.data(), k_continue.size(), MSG_NOSIGNAL) < 0)
      return false;
    while (asked.body.size() < wanted) {
      if (!read_more(connection, asked.body)) return false;
    }
    return true;
  }

  // Calls the handler one at a time, so that a test's handler may keep state between its calls.
  Reply answer(const Asked& asked) {
    const std::scoped_lock lock(answering_);
    return handler_(asked);
  }

  // Returns false if the connection is closed or the daemon is ending.
  [[nodiscard]] bool write(int connection, std::string_view bytes) const {
    while (!bytes.empty()) {
      std::array<pollfd, 2> wanted{pollfd{connection, POLLOUT, 0}, pollfd{wake_[0], POLLIN, 0}};
      if (::poll(wanted.data(), wanted.size(), -1) < 0) continue;
      if (wanted[1].revents != 0) return false;
      const ssize_t count = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  // Returns false if the connection is closed.
  bool serve_one(int connection) {
    Asked asked;
    if (!read_request(connection, asked)) return false;
    {
      const std::scoped_lock lock(mutex_);
      asked.number = asked_.size();
      asked_.push_back(asked);
    }
    changed_.notify_all();
    const Reply reply = answer(asked);
    for (const std::string& piece : reply.pieces) {
      if (!write(connection, piece)) return false;
    }
    while (reply.more) {
      const std::string piece = reply.more();
      if (piece.empty()) break;
      if (!write(connection, piece)) return false;
    }
    if (reply.serve) reply.serve(connection);
    if (reply.then == Reply::Then::stall) {
      std::string ignored;
      while (read_more(connection, ignored)) {
      }
    }
    return reply.then == Reply::Then::keep;
  }

  Handler handler_;
  Bodies bodies_;
  std::string folder_;
  std::string address_;
  int listener_ = -1;
  std::array<int, 2> wake_{-1, -1};
  std::atomic<bool> ending_ = false;
  std::atomic<std::size_t> accepted_ = 0;
  std::thread acceptor_;
  std::list<std::thread> connections_;
  std::mutex answering_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Asked> asked_;
};

}  // namespace combu::wire
