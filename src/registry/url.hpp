#pragma once
// URLs, by libcurl's parser.

#include <curl/curl.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace combu::registry {

using Parameters = std::vector<std::pair<std::string, std::string>>;

// An absolute URL with the scheme http or https, without a user.
class Url {
 public:
  // Returns nullopt if `text` is no such URL. `base`: the URL that a relative `text` refers to.
  [[nodiscard]] static std::optional<Url> parse(const std::string& text, const Url* base = nullptr);

  [[nodiscard]] const std::string& text() const { return text_; }
  // The host with the port as written, such as "localhost:5000".
  [[nodiscard]] const std::string& host() const { return host_; }
  [[nodiscard]] bool is_encrypted() const { return scheme_ == "https"; }
  // True if both URLs have the same scheme, host and port.
  [[nodiscard]] bool has_same_origin(const Url& other) const { return origin_ == other.origin_; }

 private:
  std::string text_;
  std::string scheme_;
  std::string host_;
  std::string origin_;
};

// Returns "NAME=VALUE&…" with encoded values, for a query or a form.
[[nodiscard]] std::string encoded(const Parameters& parameters);

}  // namespace combu::registry
