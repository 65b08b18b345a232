#pragma once
// Fields of Compose, `docker run`, the Docker Engine API and Kubernetes' Pods that trials do not have.

#include <string>
#include <string_view>

namespace combu::spec {

// Returns a hint for a message about a foreign field, for example "use `retries`". Returns an empty string if
// `spelling` is not the name of a foreign field.
[[nodiscard]] std::string written_instead(std::string_view spelling);

}  // namespace combu::spec
