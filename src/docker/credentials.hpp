#pragma once
// Finds the credentials of a registry in Docker's own config.json.

#include <set>
#include <stop_token>
#include <string>

#include "combu/base.hpp"

namespace combu::docker {

struct Credentials {
  std::string header;  // value of the header X-Registry-Auth; empty if there are no credentials
  std::string note;    // a problem that occurred during the search, to be shown if the pull fails
};

// Searches `config_folder`/config.json under credHelpers, credsStore and auths for the registry's key
// (ImageReference::credentials_key). If the file names a credential program, runs it as
// docker-credential-NAME. Blocks for at most `helper_max`, or until `stop` is set. Never throws. A problem
// only becomes a note in the result, because Docker's own client also continues without credentials.
[[nodiscard]] Credentials find_credentials(const std::string& config_folder, const std::string& registry_key,
                                           Seconds helper_max, const std::stop_token& stop);

// Returns the names of all credential programs in `config_folder`/config.json, such as
// "docker-credential-pass"; empty if there is no such file. Throws Error(invalid) if the file does not
// contain a JSON object.
[[nodiscard]] std::set<std::string> credential_programs(const std::string& config_folder);

}  // namespace combu::docker
