#pragma once
// An input for a reader of a stream, which gets the stream in pieces (feeds). The fuzzer's data has: a byte
// for the form; a byte for how often the stream's bytes are repeated; a byte for the number of sizes; the
// sizes of the feeds minus one, one byte each; the stream's bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace fuzz {

struct CutInput {
  unsigned form = 0;
  std::string bytes;
  std::string_view sizes;
};

// Returns nullopt if the data is too short. The bytes are repeated fewer than 2^doublings times.
inline std::optional<CutInput> read_cut_input(const std::uint8_t* data, std::size_t size,
                                              unsigned doublings) {
  constexpr std::size_t k_head = 3;
  if (size < k_head) return std::nullopt;
  // Few inputs are repeated, because long inputs are slow.
  const std::size_t repeats = data[1] < 240 ? 1 : std::size_t{1} << (data[1] % doublings);
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  rest.remove_prefix(k_head);
  CutInput input{.form = data[0], .bytes = {}, .sizes = rest.substr(0, data[2] % 16U)};
  rest.remove_prefix(input.sizes.size());
  for (std::size_t i = 0; i < repeats; ++i) input.bytes += rest;
  return input;
}

// Calls `feed` with pieces of `bytes`. The sizes of the pieces are those of `sizes` plus one, repeated
// cyclically. If `sizes` is empty, there is one piece.
inline void feed_in_pieces(std::string_view bytes, std::string_view sizes,
                           const std::function<void(std::string_view)>& feed) {
  for (std::size_t i = 0; !bytes.empty(); ++i) {
    const std::size_t size =
        sizes.empty() ? bytes.size() : std::size_t{1} + static_cast<unsigned char>(sizes[i % sizes.size()]);
    const std::string_view part = bytes.substr(0, size);
    feed(part);
    bytes.remove_prefix(part.size());
  }
}

}  // namespace fuzz
