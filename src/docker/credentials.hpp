#pragma once
// Registry credentials as Docker's own config.json keeps them.

#include <stop_token>
#include <string>

#include "combu/base.hpp"

namespace combu::docker {

struct Credentials {
  std::string header;  // X-Registry-Auth's value; empty: none, the registry is asked without
  std::string note;    // what went wrong on the way to them, for the case that the pull fails
};

// Looks in `config_folder`/config.json under credHelpers, credsStore and auths for the registry's key
// (ImageReference::credentials_key), and runs docker-credential-NAME where one is named. Blocks for at most
// `helper_max`, and until `stop` is set. Never throws: what cannot be read is noted, as Docker's own client
// goes on without, too.
[[nodiscard]] Credentials find_credentials(const std::string& config_folder, const std::string& registry_key,
                                           Seconds helper_max, const std::stop_token& stop);

}  // namespace combu::docker
