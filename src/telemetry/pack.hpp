#pragma once
// How pieces of a log are kept: many together, compressed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"

namespace combu::telemetry {

struct Pack {
  Bytes size;        // of the texts
  std::string data;  // compressed
};

// Of 256 KiB each, or of one piece that is larger.
[[nodiscard]] std::vector<Pack> pack(std::span<const LogPiece> pieces);

// What stays of a pack when so many bytes of its texts are too many: from the beginning of a line on, where
// one begins after them. Throws Error(corrupt) with an empty subject.
[[nodiscard]] Pack without_first(std::string_view data, std::size_t count);

[[nodiscard]] std::string compressed(std::string_view plain);
// Decompresses one frame. Memory grows with the content, not with the size that the frame claims. Throws
// Error(corrupt) with an empty subject, also where the content is larger than `size_max`.
[[nodiscard]] std::string decompressed(std::string_view data, std::size_t size_max);

// The content of a pack that another combu has made.
struct Content {
  Bytes text;   // of the texts
  Bytes plain;  // uncompressed
};
// Decompresses a pack and checks its form: sizes, streams, and that times are within `nanos_max` of 1970.
// Throws Error(corrupt) with an empty subject, also for one that is larger than a pack can be.
[[nodiscard]] Content checked(std::string_view data, std::int64_t nanos_max);
// Maximum size of the texts of a pack that is exchanged with others; a larger line of a log is not shared.
inline constexpr std::int64_t k_foreign_pack_max = 64LL << 20U;

// Tells what is in a pack until `tell` returns false: then it returns false, too. Throws Error(corrupt) with
// an empty subject.
bool unpack(std::string_view data, const std::function<bool(const LogPiece&)>& tell);

}  // namespace combu::telemetry
