#pragma once
// Finds the credentials and the address of an S3 server as the AWS tools do.

#include <string>

#include "combu/spec.hpp"

namespace combu::outputs {

struct S3Account {
  std::string key;
  std::string secret;
  std::string token;   // session token; may be empty
  std::string source;  // the place where the keys were found, for messages
  std::string region;
  std::string endpoint;     // the address "http[s]://HOST[:PORT][/PATH]"; empty for Amazon's server
  std::string authorities;  // a file of trusted CA certificates; empty: the system's certificates
};

// Finds the account as the AWS tools do (AWS SDKs and Tools Reference Guide, "Shared config and credentials
// files", "Service-specific endpoints").
// The keys are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN. If these are not set, the keys
// of the profile AWS_PROFILE in ~/.aws/credentials and ~/.aws/config are used.
// The region is AWS_REGION or AWS_DEFAULT_REGION, otherwise the profile's region.
// The endpoint is S3_ENDPOINT_URL, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, otherwise the profile's endpoint.
// Throws Error(refused).
[[nodiscard]] S3Account find_s3_account(const Caller& caller);

}  // namespace combu::outputs
