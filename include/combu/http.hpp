#pragma once
// One HTTP/1.1 connection, over a unix socket or plain TCP.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/base.hpp"

namespace combu {

struct Address {
  enum class Kind { unix_socket, tcp };
  Kind kind = Kind::unix_socket;
  std::string path;  // unix_socket: the socket's path
  std::string host;  // tcp
  int port = 0;      // tcp
  // "unix:///run/docker.sock", "tcp://127.0.0.1:2375"
  [[nodiscard]] std::string text() const;
};

// "unix:///path", "tcp://host:port", "http://host:port". Throws Error(invalid) for others, naming those not
// supported yet.
[[nodiscard]] Address parse_address(std::string_view text);

struct HttpRequest {
  std::string method = "GET";
  std::string target;  // path and query, already percent-encoded
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  // Gives the body in pieces instead, of which nobody knows how many: called once, it tells them. Where that
  // gives false the other side has answered already, and wants no more. What it throws breaks the call off.
  using Tell = std::function<bool(std::string_view)>;
  std::function<void(const Tell&)> source;
  std::string content_type = "application/json";
  // The longest silence between two reads; unlimited when nullopt (streams that may be quiet for hours).
  std::optional<Seconds> silence_max = Seconds{120};
  // The longest time from an answer's first byte to its last; unlimited when nullopt (streams).
  std::optional<Seconds> answer_max = Seconds{600};
  // The longest body that is kept in HttpResponse::body, in bytes.
  std::size_t body_max = std::size_t{16} << 20U;
  // Called when the status and headers of a 2xx answer are there.
  std::function<void()> on_open;
  // Takes a 2xx answer's body piece by piece instead of HttpResponse::body; false ends the call with
  // Error(cancelled).
  std::function<bool(std::string_view)> sink;
};

struct HttpResponse {
  int status = 0;
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;  // as the other side wrote them
  std::string body;

  // The first header of this name (in any case), or empty.
  [[nodiscard]] std::string header(std::string_view name) const;
};

// Belongs to one thread at a time. The connection is made at the first call, kept, and made again when the
// other side closed it.
class Channel {
 public:
  explicit Channel(Address address);
  ~Channel();
  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;

  // Blocks until the answer is complete. Any status is an answer. Throws Error: unavailable (nobody there,
  // cut off), timeout (silence_max, answer_max), cancelled (`stop`, from any thread; or the sink), corrupt
  // (not HTTP; larger than body_max; 256 KiB of headers, interim answers, chunk sizes or trailers without a
  // byte of the body between them). The subject is the address.
  HttpResponse send(const HttpRequest& request, std::stop_token stop = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// `text` percent-encoded for a query's value or one path segment (RFC 3986 unreserved characters stay).
[[nodiscard]] std::string percent_encode(std::string_view text);

}  // namespace combu
