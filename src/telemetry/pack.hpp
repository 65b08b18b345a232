#pragma once
// Functions that store many pieces of a log together in one compressed pack.

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

// Compresses the pieces into packs, in order. Each pack except the last contains at least 256 KiB of text: a
// pack ends with the piece that reaches 256 KiB.
[[nodiscard]] std::vector<Pack> pack(std::span<const LogPiece> pieces);

// Removes the first `count` bytes of the log text in the pack `data`, and then the rest of the line at which
// the cut lies, unless it is the last line. Returns the shorter pack. Throws Error(corrupt) with an empty
// subject if the pack is damaged.
[[nodiscard]] Pack without_first(std::string_view data, std::size_t count);

[[nodiscard]] std::string compressed(std::string_view plain);
// Decompresses one frame. The memory grows with the decompressed content, not with the content size that the
// frame claims. Throws Error(corrupt) with an empty subject if the frame is damaged, or if its content is
// larger than `size_max`.
[[nodiscard]] std::string decompressed(std::string_view data, std::size_t size_max);

// The sizes of a pack that another combu process has made.
struct Content {
  Bytes text;   // total size of the texts
  Bytes plain;  // size of the whole uncompressed pack
};
// Decompresses a pack and checks the sizes, the streams and the timestamps, which must be within `nanos_max`
// nanoseconds of 1970. Throws Error(corrupt) with an empty subject if a check fails, or if the pack is larger
// than any pack that pack() makes.
[[nodiscard]] Content checked(std::string_view data, std::int64_t nanos_max);
// Maximum total size in bytes of the texts of a pack that is shared with other users. A log with a larger
// line is not shared.
inline constexpr std::int64_t k_foreign_pack_max = 64LL << 20U;

// Calls `sink` for each piece of a pack, until `sink` returns false. Returns false if `sink` has returned
// false. Throws Error(corrupt) with an empty subject if the pack is damaged.
bool unpack(std::string_view data, const std::function<bool(const LogPiece&)>& sink);

}  // namespace combu::telemetry
