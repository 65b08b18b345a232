#pragma once
// Registry credentials, as stored in Docker's own config.json.

#include <stop_token>
#include <string>

#include "combu/base.hpp"

namespace combu::docker {

struct Credentials {
  std::string header;  // value of X-Registry-Auth; empty: no credentials
  std::string note;    // a problem that occurred during the search, to be shown if the pull fails
};

// Searches `config_folder`/config.json under credHelpers, credsStore and auths for the registry's key
// (ImageReference::credentials_key). Runs docker-credential-NAME if the file names one. Blocks for at most
// `helper_max`, or until `stop` is set. Never throws: problems are noted in the result, because Docker's own
// client continues without credentials, too.
[[nodiscard]] Credentials find_credentials(const std::string& config_folder, const std::string& registry_key,
                                           Seconds helper_max, const std::stop_token& stop);

}  // namespace combu::docker
