#pragma once
// Fields of Compose, `docker run` and the Docker Engine API that no trial has.

#include <string>
#include <string_view>

namespace combu::spec {

// What to write instead of a field that is none of a trial's, for a message: "write docker: { HostConfig: {
// Ulimits: [...] } }", "in combu this is `retries`". Empty: `spelling` is no such field.
[[nodiscard]] std::string written_instead(std::string_view spelling);

}  // namespace combu::spec
