#pragma once
// How pieces of a log are kept: many together, compressed.

#include <cstddef>
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
// Throws Error(corrupt) with an empty subject, also where that is more than `size_max`.
[[nodiscard]] std::string decompressed(std::string_view data, std::size_t size_max);

// Tells what is in a pack until `tell` returns false: then it returns false, too. Throws Error(corrupt) with
// an empty subject.
bool unpack(std::string_view data, const std::function<bool(const LogPiece&)>& tell);

}  // namespace combu::telemetry
