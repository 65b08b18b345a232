#pragma once
// How the pieces of a log are stored: many together in one compressed pack.

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
  Bytes size;        // total size of the texts
  std::string data;  // compressed
};

// Packs the pieces in their order. Each pack except the last contains at least 256 KiB of text: a pack ends
// with the piece that reaches this size.
[[nodiscard]] std::vector<Pack> pack(std::span<const LogPiece> pieces);

// Returns the pack without the first `count` bytes of its texts. If a later line begins in the pack, removes
// everything up to the beginning of that line. Throws Error(corrupt) with an empty subject if the pack is
// damaged.
[[nodiscard]] Pack without_first(std::string_view data, std::size_t count);

[[nodiscard]] std::string compressed(std::string_view plain);
// Decompresses one frame. Memory grows with the content, not with the size that the frame claims. Throws
// Error(corrupt) with an empty subject if the frame is damaged, or if its content is larger than `size_max`.
[[nodiscard]] std::string decompressed(std::string_view data, std::size_t size_max);

// The sizes of a pack that another combu made.
struct Content {
  Bytes text;   // total size of the texts
  Bytes plain;  // size of the whole uncompressed pack
};
// Decompresses a pack and checks its form: sizes, streams, and times, which must be within `nanos_max`
// nanoseconds of 1970. Throws Error(corrupt) with an empty subject if a check fails, or if the pack is larger
// than pack() can make it.
[[nodiscard]] Content checked(std::string_view data, std::int64_t nanos_max);
// Maximum total size of the texts of a pack that is exchanged with others. A log with a larger line is not
// shared.
inline constexpr std::int64_t k_foreign_pack_max = 64LL << 20U;

// Calls `tell` for each piece of a pack, until `tell` returns false. Returns false if `tell` did. Throws
// Error(corrupt) with an empty subject if the pack is damaged.
bool unpack(std::string_view data, const std::function<bool(const LogPiece&)>& tell);

}  // namespace combu::telemetry
