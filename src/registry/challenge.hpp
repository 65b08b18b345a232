#pragma once
// The header WWW-Authenticate (RFC 9110, section 11.6.1).

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace combu::registry {

struct Challenge {
  std::string scheme;                             // in lower case, such as "bearer"
  std::map<std::string, std::string> parameters;  // names in lower case
};

// Returns the challenges in the value of a header; skips what it does not understand.
[[nodiscard]] std::vector<Challenge> parse_challenges(std::string_view value);

}  // namespace combu::registry
