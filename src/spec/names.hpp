#pragma once
// The grammars of names that Docker checks, too: told here, all at once, rather than by the engine one by
// one.

#include <optional>
#include <string>
#include <string_view>

namespace combu::spec {

// Each gives what is wrong with the text, for a message, or nullopt.
[[nodiscard]] std::optional<std::string> fault_of_network(std::string_view name);
[[nodiscard]] std::optional<std::string> fault_of_named_volume(std::string_view name);
[[nodiscard]] std::optional<std::string> fault_of_image(std::string_view reference);
[[nodiscard]] std::optional<std::string> fault_of_platform(std::string_view platform);
[[nodiscard]] std::optional<std::string> fault_of_signal(std::string_view signal);
[[nodiscard]] std::optional<std::string> fault_of_user(std::string_view user);

}  // namespace combu::spec
