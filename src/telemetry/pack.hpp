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

// Tells what is in a pack until `tell` returns false: then it returns false, too. Throws Error(corrupt) with
// an empty subject.
bool unpack(std::string_view data, const std::function<bool(const LogPiece&)>& tell);

}  // namespace combu::telemetry
