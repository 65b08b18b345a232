#pragma once
// One HTTP request by libcurl, with limits.

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/base.hpp"
#include "registry/url.hpp"

namespace combu::registry {

struct WebRequest {
  Url url;
  std::vector<std::string> headers = {};  // "NAME: VALUE"
  std::string form = {};                  // sent by POST; empty: a GET request
  std::size_t body_max = std::size_t{1} << 20U;
};

struct WebAnswer {
  int status = 0;
  std::string body;
  std::vector<std::string> challenges;  // values of the headers WWW-Authenticate
  std::string location;
  std::string content_digest;  // the header Docker-Content-Digest
};

struct Deadline {
  Seconds connect_max;
  Seconds total_max;  // of all requests before `end`, for messages
  std::chrono::steady_clock::time_point end;
};

// Sends a request and returns the answer, whatever its status is. Follows no redirect. Throws Error with the
// host as subject: unavailable (no answer, or not in time), refused (the certificate is not trusted), corrupt
// (the answer exceeds a limit) and cancelled.
[[nodiscard]] WebAnswer transfer(const WebRequest& request, const Deadline& deadline,
                                 const std::stop_token& stop);

}  // namespace combu::registry
