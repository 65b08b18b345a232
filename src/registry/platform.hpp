#pragma once
// Platforms of images, such as "linux/arm64/v8".

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace combu::registry {

// Returns the usual name of a platform: "linux/amd64" for "linux/x86_64", and "linux/arm64" for
// "linux/arm64/v8". An empty text stays empty.
[[nodiscard]] std::string usual_platform(std::string_view platform);

// Returns the platform in an object with the members `os`, `architecture` and `variant`, under its usual
// name; an empty text if `os` or `architecture` is missing or "unknown".
[[nodiscard]] std::string platform_of(const nlohmann::json& object);

// True if an image for `platform` is one for `wanted`, which need not have a variant. Both are usual names.
[[nodiscard]] bool is_for(std::string_view platform, std::string_view wanted);

}  // namespace combu::registry
