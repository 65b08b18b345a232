#pragma once
// The connections to one engine, its API version, and the meaning of its error answers.

#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/docker.hpp"
#include "combu/http.hpp"

namespace combu::docker {

struct ApiVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const ApiVersion&) const = default;
  [[nodiscard]] std::string text() const;
};

// Parses "1.41". Throws Error(corrupt) with an empty subject if `text` has another form.
[[nodiscard]] ApiVersion parse_api_version(std::string_view text);

inline constexpr ApiVersion k_api_oldest{1, 41};  // Docker Engine 20.10
// The newest API version whose changes were reviewed; combu uses no newer version. Engines with a newer API
// version support this version too.
inline constexpr ApiVersion k_api_newest{1, 51};

class Connections {
 public:
  Connections(Address address, DockerOptions options);

  [[nodiscard]] const Address& address() const { return address_; }
  [[nodiscard]] const DockerOptions& options() const { return options_; }

  // Returns the API version that combu uses with this engine. The first call asks the engine with GET /_ping.
  // Throws Error(refused) if the engine is too old.
  ApiVersion version(const std::stop_token& stop);

  // Sends `request` over a connection that no other call uses meanwhile. The request's target must not
  // contain the API version, because send() adds it. Returns answers of any status.
  HttpResponse send(HttpRequest request, const std::stop_token& stop);

  // Like send(), but throws an Error with `subject` if the status is not 2xx.
  HttpResponse send_checked(HttpRequest request, const std::string& subject, const std::stop_token& stop);

  // Sends `request` over a new connection, like Channel::upgrade(). The request's target must not contain the
  // API version.
  [[nodiscard]] Upgraded upgrade(HttpRequest request, const std::stop_token& stop);

 private:
  HttpResponse send_over_one(const HttpRequest& request, const std::stop_token& stop);
  std::unique_ptr<Channel> take();
  void give_back(std::unique_ptr<Channel> channel);

  Address address_;
  DockerOptions options_;
  std::mutex mutex_;  // protects the members below
  std::vector<std::unique_ptr<Channel>> idle_;
  std::optional<ApiVersion> version_;
};

// Returns the error that corresponds to the status of an answer. `subject`: the subject of the Error, such as
// the requested object.
[[nodiscard]] Error error_of(const HttpResponse& response, const std::string& subject);

// Returns the field `message` of the answer's JSON unchanged. Without a field `message`, returns the whole
// body of the answer.
[[nodiscard]] std::string full_message_of(const HttpResponse& response);

// Returns the message of the engine's answer as one line.
[[nodiscard]] std::string message_of(const HttpResponse& response);

}  // namespace combu::docker
