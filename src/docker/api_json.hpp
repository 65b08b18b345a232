#pragma once
// Reads the engine's JSON answers. Only files that read or write JSON include this header: nlohmann/json.hpp
// costs more than a second of compile time.

#include <cstdint>
#include <string>

#include "combu/json.hpp"
#include "docker/connections.hpp"
#include "docker/labels.hpp"

namespace combu::docker {

// Returns read(). Errors of JSON that `read` throws become Error(corrupt) with the engine's address.
template <typename Read>
auto reading(const Connections& engine, const Read& read) {
  try {
    return read();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorKind::corrupt, engine.address().text(),
                std::string("the engine's answer is invalid: ") + error.what());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt || !error.subject().empty()) throw;
    throw Error(ErrorKind::corrupt, engine.address().text(), error.message());
  }
}
// Far above any real size, so that the sum of some thousand values does not overflow.
inline constexpr std::int64_t k_bytes_max = std::int64_t{1} << 50U;
inline constexpr std::int64_t k_epoch_seconds_max = 9'000'000'000;  // Instant ends in 2262

// Returns the member as a string; empty if it is absent or null.
[[nodiscard]] std::string text_at(const nlohmann::json& object, const char* name);
[[nodiscard]] Labels labels_at(const nlohmann::json& object, const char* name);

}  // namespace combu::docker
