#pragma once
// Who asks an S3 server, and where it is, as the AWS tools find it.

#include <string>

#include "combu/spec.hpp"

namespace combu::outputs {

struct S3Account {
  std::string key;
  std::string secret;
  std::string token;   // of a session; may be empty
  std::string source;  // where the keys were found, for people
  std::string region;
  std::string endpoint;     // "http[s]://HOST[:PORT][/PATH]"; empty for Amazon's
  std::string authorities;  // a file of certificates to trust; empty for the system's
};

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or else the keys of AWS_PROFILE in
// ~/.aws/credentials and ~/.aws/config; AWS_REGION or AWS_DEFAULT_REGION, or else the profile's;
// S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or else the profile's (AWS SDKs and Tools
// Reference Guide, "Shared config and credentials files", "Service-specific endpoints"). Throws
// Error(refused).
[[nodiscard]] S3Account find_s3_account(const Caller& caller);

}  // namespace combu::outputs
