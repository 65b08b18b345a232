#pragma once
// The way to one engine: its connections, the API version, and what its refusals mean.

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

// "1.41". Throws Error(corrupt) with an empty subject.
[[nodiscard]] ApiVersion parse_api_version(std::string_view text);

inline constexpr ApiVersion k_api_oldest{1, 41};  // Docker Engine 20.10
inline constexpr ApiVersion k_api_newest{
    1, 51};  // the newest whose changes were read; engines serve older ones too

class Connections {
 public:
  Connections(Address address, DockerOptions options);

  [[nodiscard]] const Address& address() const { return address_; }
  [[nodiscard]] const DockerOptions& options() const { return options_; }

  // The version to speak, asked for once by GET /_ping. Throws Error: refused when the engine is too old.
  ApiVersion version(const std::stop_token& stop);

  // Sends `request` (its target without the version) over a connection of its own. Any status is an answer.
  HttpResponse send(HttpRequest request, const std::stop_token& stop);

  // The same; a status other than 2xx is thrown, with `subject`.
  HttpResponse send_checked(HttpRequest request, const std::string& subject, const std::stop_token& stop);

 private:
  HttpResponse send_over_one(const HttpRequest& request, const std::stop_token& stop);
  std::unique_ptr<Channel> take();
  void give_back(std::unique_ptr<Channel> channel);

  Address address_;
  DockerOptions options_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Channel>> idle_;
  std::optional<ApiVersion> version_;
};

// What a refusal means, by its status alone; `subject` is what was asked for.
[[nodiscard]] Error error_of(const HttpResponse& response, const std::string& subject);

// `text` as one line that is not too long.
[[nodiscard]] std::string one_line(std::string_view text);

// The daemon's {"message": …} as it is, else the answer's body.
[[nodiscard]] std::string full_message_of(const HttpResponse& response);

// The same as one line.
[[nodiscard]] std::string message_of(const HttpResponse& response);

}  // namespace combu::docker
