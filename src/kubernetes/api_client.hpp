#pragma once
// HTTP requests to the API server of a Kubernetes cluster:
// https://kubernetes.io/docs/reference/using-api/api-concepts/

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/base.hpp"
#include "combu/curl.hpp"
#include "kubernetes/kubeconfig.hpp"
#include "kubernetes/server_clock.hpp"

namespace combu::kubernetes {

struct ApiRequest {
  std::string method = "GET";
  std::string target;  // path and query of the URL, already percent-encoded, such as "/api/v1/pods?limit=500"
  std::string body;
  std::string content_type = "application/json";  // of `body`
  std::string accept = "application/json";        // the header Accept
  std::optional<Seconds> answer_max = {};         // instead of ApiLimits::answer_max
};

struct ApiResponse {
  int status = 0;  // 200 to 299
  std::string body;
  std::vector<std::string> warnings;  // texts of the headers `Warning`
};

// The API server has answered with an error status. The message is that of the server's Status object. The
// kinds are:
// - 400, 422: invalid
// - 401, 403, and all statuses that are not in this list: refused
//   But if the server refuses a right that it has granted to this ApiClient before, the kind is unavailable:
//   an API server refuses all rights for some seconds after it has been restarted
// - 404: not_found
// - 409: conflict
// - 410 (the resource version or the continue token has expired), 429, 5xx: unavailable
class ApiError : public Error {
 public:
  ApiError(ErrorKind kind, std::string subject, std::string message, int status, Seconds retry_after)
      : Error(kind, std::move(subject), std::move(message)), status_(status), retry_after_(retry_after) {}

  [[nodiscard]] int status() const { return status_; }
  // The pause that the server requests before a repeated request (header Retry-After); 0 if it requests none.
  [[nodiscard]] Seconds retry_after() const { return retry_after_; }

 private:
  int status_;
  Seconds retry_after_;
};

struct ApiLimits {
  std::size_t body_max = std::size_t{64} << 20U;  // bytes of a body that is kept in memory
  std::size_t line_max = std::size_t{16} << 20U;  // bytes of a line of a watch
  Seconds silence_max{60};                        // time without a byte during send()
  Seconds answer_max{600};                        // time of a send() from its begin to its end
};

// The receiver of a stream.
struct ApiStream {
  // Receives each line of the stream, without its line end. Empty lines are skipped. A stream that ends
  // within a line is broken.
  std::function<void(std::string_view)> on_line = {};
  // Receives the bytes of the stream as they arrive, if `on_line` is not set.
  std::function<void(std::string_view)> on_bytes = {};
  std::function<void()> on_pause = {};  // called about twice a second, also while nothing arrives
  Seconds silence_max{60};              // maximum time without a byte
};

// A connection to the API server on which nothing has been sent.
struct ApiConnection {
  curl::Easy easy;            // for curl_easy_send() and curl_easy_recv()
  std::string host;           // the header Host
  std::string target;         // the target of the request, with the path of the server's URL
  std::string authorization;  // the header Authorization; empty: none
};

// The answer to a request that changes the protocol of a connection (RFC 9110, section 7.8).
struct UpgradeAnswer {
  int status = 0;  // 101: the protocol is changed
  std::string body;
};

// May be used from many threads. Simultaneous requests use separate connections, which later requests reuse.
//
// The functions throw Error with the URL of the server as subject:
// - ApiError if the status is an error. After 401, the request is repeated once with renewed
//   credentials, if they come from a file or a plugin;
// - unavailable: the server cannot be reached, the connection broke, or the server was silent too long. The
//   server may have carried out the request;
// - refused: the server's certificate is not trusted, or the client certificate cannot be used;
// - corrupt: the answer exceeds a limit;
// - all errors of Credentials::current().
// Messages contain no credentials.
class ApiClient {
 public:
  explicit ApiClient(Access access, ApiLimits limits = {}, Clock& clock = real_clock());
  ~ApiClient();
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  // Sends a request and returns the answer. Throws Error(cancelled) if `stop` is requested.
  [[nodiscard]] ApiResponse send(const ApiRequest& request, const std::stop_token& stop);

  // Sends a GET request for a stream, and passes the stream to the callbacks of `stream`. The callbacks are
  // only called from the calling thread; if one throws, read() ends the stream and rethrows the exception.
  // Returns if the server ends the stream regularly, and within 0.1 s if `stop` is requested. Throws
  // Error(unavailable) if the stream breaks, or if the server sends nothing for `silence_max`.
  void read(const std::string& target, const ApiStream& stream, const std::stop_token& stop);

  // Opens a connection, and passes it to `ask`, which sends a GET request for its target and returns the
  // answer. Returns if the status is 101. After 401, a second connection has renewed credentials. Throws
  // Error(cancelled) within a second if `stop` is requested while the connection is opened.
  void upgrade(const std::string& target, const std::function<UpgradeAnswer(ApiConnection)>& ask,
               const std::stop_token& stop);

  // The server's clock, as the answers so far have shown it.
  [[nodiscard]] const ServerClock& server_clock() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu::kubernetes
