#pragma once
// The address of an API server, and the proxy for connections to it.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace combu::kubernetes {

// Returns the value of an environment variable; nullopt if the variable is not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

// The parts of "https://HOST:PORT/PATH".
struct ServerAddress {
  std::string scheme;  // "https" or "http"
  std::string host;    // a name in lower case, or an IP address without brackets
  int port = 0;
  std::string path;  // empty, or "/" and a path without a slash at its end

  // Returns "HOST:PORT", with brackets around an IPv6 address.
  [[nodiscard]] std::string authority() const;
};

// Parses the address of an API server. Returns nullopt unless `url` is an http or https URL with a host, and
// without user name, query and fragment.
[[nodiscard]] std::optional<ServerAddress> parse_server_address(const std::string& url);

// Returns the proxy that the environment sets for connections to `server`; an empty string if there is none.
// The rules are those of kubectl, which takes them from Go (golang.org/x/net/http/httpproxy): HTTPS_PROXY or
// HTTP_PROXY, unless NO_PROXY contains the server. The names of the variables may also be in lower case.
// Servers on this machine ("localhost", 127.0.0.0/8, ::1) never have a proxy.
[[nodiscard]] std::string proxy_for(const ServerAddress& server, const Environment& env);

}  // namespace combu::kubernetes
