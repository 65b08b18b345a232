#pragma once
// An input for a reader of a stream, and the places where the stream is cut into feeds: the form; how often
// the bytes are repeated; the number of sizes; the sizes of the feeds, each less one; the bytes.

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

// `doublings`: the bytes are repeated less than 2^doublings times.
inline std::optional<CutInput> read_cut_input(const std::uint8_t* data, std::size_t size,
                                              unsigned doublings) {
  constexpr std::size_t k_head = 3;
  if (size < k_head) return std::nullopt;
  // Rarely: long inputs are slow.
  const std::size_t repeats = data[1] < 240 ? 1 : std::size_t{1} << (data[1] % doublings);
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  rest.remove_prefix(k_head);
  CutInput input{.form = data[0], .bytes = {}, .sizes = rest.substr(0, data[2] % 16U)};
  rest.remove_prefix(input.sizes.size());
  for (std::size_t i = 0; i < repeats; ++i) input.bytes += rest;
  return input;
}

// `sizes`: of the feeds, again and again; empty: one feed.
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
