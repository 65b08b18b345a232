#pragma once
// Fields of Compose, `docker run` and the Docker Engine API that trials do not have.

#include <string>
#include <string_view>

namespace combu::spec {

// Returns what to write instead of a foreign field, for a message: "write docker: { HostConfig: { Ulimits:
// [...] } }", "in combu this is `retries`". Returns an empty string if `spelling` is not such a field.
[[nodiscard]] std::string written_instead(std::string_view spelling);

}  // namespace combu::spec
