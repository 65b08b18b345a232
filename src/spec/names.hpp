#pragma once
// Checks names by Docker's own rules. combu reports all faults at once; the engine would report one at a
// time.

#include <optional>
#include <string>
#include <string_view>

namespace combu::spec {

// Each function returns the fault of the text for a message, or nullopt if the text is valid.
[[nodiscard]] std::optional<std::string> fault_of_network(std::string_view name);
[[nodiscard]] std::optional<std::string> fault_of_named_volume(std::string_view name);
[[nodiscard]] std::optional<std::string> fault_of_image(std::string_view reference);
[[nodiscard]] std::optional<std::string> fault_of_platform(std::string_view platform);
[[nodiscard]] std::optional<std::string> fault_of_signal(std::string_view signal);
[[nodiscard]] std::optional<std::string> fault_of_user(std::string_view user);

}  // namespace combu::spec
