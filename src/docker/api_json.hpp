#pragma once
// Reads the engine's JSON answers. Only files that read or write JSON include this header: nlohmann/json.hpp
// costs more than a second of compile time.

#include <cstdint>
#include <string>

#include "combu/json.hpp"
#include "docker/connections.hpp"
#include "docker/labels.hpp"

namespace combu::docker {

// Returns read(). Converts JSON errors that `read` throws to Error(corrupt) with the engine's address as
// subject.
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
// Limit for each size in bytes that an answer names. The limit is far above any real size, but the sum of
// several thousand such sizes does not overflow.
inline constexpr std::int64_t k_bytes_max = std::int64_t{1} << 50U;
inline constexpr std::int64_t k_epoch_seconds_max = 9'000'000'000;  // the type Instant ends in the year 2262

// Returns the member `name` as a string; empty if the member is absent or null.
[[nodiscard]] std::string text_at(const nlohmann::json& object, const char* name);
[[nodiscard]] Labels labels_at(const nlohmann::json& object, const char* name);

}  // namespace combu::docker
