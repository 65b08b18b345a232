#pragma once
// A client's HTTP/1.1 connection over a unix socket or plain TCP.

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/base.hpp"

namespace combu {

struct Address {
  enum class Kind { unix_socket, tcp };
  Kind kind = Kind::unix_socket;
  std::string path;  // path of the socket, for unix_socket
  std::string host;  // for tcp
  int port = 0;      // for tcp
  // Returns for example "unix:///run/docker.sock" or "tcp://127.0.0.1:2375".
  [[nodiscard]] std::string text() const;
};

// Parses "unix:///path", "tcp://host:port" or "http://host:port". Throws Error(invalid) for any other text.
// If the text has a known scheme that combu does not support, the error's message says so.
[[nodiscard]] Address parse_address(std::string_view text);

struct HttpRequest {
  std::string method = "GET";
  std::string target;  // path and query of the URL, already percent-encoded
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // If set, `source` provides the body in pieces instead of `body`; the total size need not be known. The
  // function send() calls `source` once, and `source` must call its argument `send` with each piece. If
  // `send` returns false, the other side has already answered or the connection is broken, and `source` must
  // return. If `source` throws, send() aborts the request and rethrows the exception.
  using Send = std::function<bool(std::string_view)>;
  std::function<void(const Send&)> source;
  std::string content_type = "application/json";
  // Maximum time without any byte of the response; nullopt: unlimited (for streams that may be quiet for
  // hours).
  std::optional<Seconds> silence_max = Seconds{120};
  // Maximum time from the first byte to the last byte of the response; nullopt: unlimited (for streams).
  std::optional<Seconds> answer_max = Seconds{600};
  // Maximum size in bytes of HttpResponse::body.
  std::size_t body_max = std::size_t{16} << 20U;
  // send() calls on_open when the status and the headers of a 2xx response have arrived.
  std::function<void()> on_open;
  // If set, `sink` receives the body of a 2xx response in pieces, and HttpResponse::body stays empty. If
  // `sink` returns false, send() throws Error(cancelled).
  std::function<bool(std::string_view)> sink;
};

struct HttpResponse {
  int status = 0;
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;  // names and values as received
  std::string body;

  // Returns the value of the first header `name`, ignoring case, or an empty string if the header is missing.
  [[nodiscard]] std::string header(std::string_view name) const;
};

// A connection on which both sides send bytes without HTTP. One thread may call read() while another thread
// calls write(). The subject of each Error is the address.
class RawConnection {
 public:
  // `socket`: a connected socket. `received`: the bytes that have been read from the socket already.
  RawConnection(std::string address, Descriptor socket, std::string received);

  // Blocks until bytes have arrived, and returns their number. Reads as many bytes as one system call
  // returns. Returns 0 if the other side has ended its stream, and after close(). Throws Error(unavailable)
  // if the connection breaks.
  [[nodiscard]] std::size_t read(std::span<char> buffer);
  // Blocks until the system has taken all bytes. Throws Error(unavailable) if the connection is broken, and
  // after close(). Never raises SIGPIPE.
  void write(std::string_view bytes);
  // Ends the connection in both directions, and makes a blocked read() or write() return. May be called from
  // any thread.
  void close();
  [[nodiscard]] bool is_closed() const { return closed_; }

 private:
  std::string address_;
  Descriptor socket_;
  std::string received_;
  std::size_t taken_ = 0;  // number of bytes of `received_` that read() has returned
  std::atomic<bool> closed_ = false;
};

// The answer to a request that asks for a RawConnection.
struct Upgraded {
  HttpResponse response;
  std::unique_ptr<RawConnection> connection;  // nullptr: the other side has refused the request
};

// A Channel is not thread-safe: use it from one thread at a time. A Channel connects at the first call of
// send(), keeps the connection open, and reconnects if the other side has closed the connection.
class Channel {
 public:
  explicit Channel(Address address);
  ~Channel();
  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;

  // Sends a request and blocks until the response is complete. Returns the response whatever its status is:
  // an HTTP error status does not throw.
  //
  // The subject of each Error is the address. Throws Error(unavailable) if the connection fails or is cut.
  // Throws Error(timeout) if `silence_max` or `answer_max` is exceeded. Throws Error(cancelled) if `stop` is
  // requested (from any thread), or if `sink` has returned false. Throws Error(corrupt) if the response is
  // not HTTP, or if its body is larger than `body_max`. Throws Error(corrupt) if 256 KiB of headers, interim
  // responses, chunk sizes or trailers arrive without any byte of the body between them.
  HttpResponse send(const HttpRequest& request, std::stop_token stop = {});

  // Sends a request like send(). If the answer's status is 101 or 200, returns as soon as the answer's
  // headers are complete, and hands over the connection. `stop` has no effect on the RawConnection. The next
  // request opens another connection. `request` must contain the headers Connection and Upgrade.
  [[nodiscard]] Upgraded upgrade(const HttpRequest& request, std::stop_token stop = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns `text` percent-encoded for the value of a query or for one path segment. Does not encode the
// unreserved characters of RFC 3986.
[[nodiscard]] std::string percent_encode(std::string_view text);

}  // namespace combu
