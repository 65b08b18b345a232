#pragma once
// Requests for one repository of a registry, with its authentication:
// https://distribution.github.io/distribution/spec/auth/token/

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/registry.hpp"
#include "registry/challenge.hpp"
#include "registry/transfer.hpp"
#include "registry/url.hpp"

namespace combu::registry {

class Client {
 public:
  // `login` and `limits` must outlive this object.
  Client(const ImageReference& reference, const Login& login, const Limits& limits, std::stop_token stop);

  // Sends a GET request for a path below the repository, such as "manifests/latest". Authenticates if the
  // registry asks for it, and follows redirects. Throws the errors of read_image(), with any subject.
  [[nodiscard]] WebAnswer get(const std::string& path, const std::vector<std::string>& headers,
                              std::size_t body_max);

  // The registry in messages, such as "the registry registry.example.com".
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] WebAnswer follow(const Url& begin, const std::vector<std::string>& headers,
                                 std::size_t body_max);
  // Sets the header Authorization for the following requests.
  void authenticate(const WebAnswer& refusal);
  [[nodiscard]] std::string fetch_token(const Challenge& challenge);
  [[nodiscard]] WebAnswer ask_token_server(const Url& realm, const Challenge& challenge);
  // Throws Error if plain HTTP is not permitted for the URL. `what`: for the message.
  void expect_permitted(const Url& url, const std::string& what) const;
  [[noreturn]] void explain(const WebAnswer& answer) const;
  // Returns the command by which a user logs in.
  [[nodiscard]] std::string login_command() const;

  const ImageReference reference_;
  const Login& login_;
  const std::stop_token stop_;
  const Deadline deadline_;
  const std::string name_;
  Url base_;  // of the repository
  std::string authorization_;
};

}  // namespace combu::registry
