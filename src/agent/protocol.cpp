#include <array>
#include <bit>
#include <cstring>

#include "combu/agent.hpp"

namespace combu::agent {
namespace {

constexpr std::size_t k_slice = 8;
using CrcTables = std::array<std::array<std::uint32_t, 256>, k_slice>;

// Returns for each byte its CRC if `n` zeros follow, as tables[n][byte].
constexpr CrcTables make_crc_tables() {
  constexpr std::uint32_t k_polynomial = 0x82F63B78;  // Castagnoli, bits reversed
  CrcTables tables{};
  for (std::uint32_t i = 0; i < tables[0].size(); ++i) {
    std::uint32_t value = i;
    for (std::size_t n = 0; n < k_slice; ++n) {
      for (int bit = 0; bit < 8; ++bit)
        value = (value & 1U) != 0 ? (value >> 1U) ^ k_polynomial : value >> 1U;
      tables[n][i] = value;
    }
  }
  return tables;
}
constexpr CrcTables k_crc_tables = make_crc_tables();

// Returns the CRC-32C of the type and the payload of a frame.
std::uint32_t crc_of(std::uint8_t type, std::string_view payload) {
  const char byte = static_cast<char>(type);
  return crc_after(crc_after(0, {&byte, 1}), payload);
}

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = sizeof(number); i > 0; --i)
    number = number << 8U | static_cast<unsigned char>(bytes[at + i - 1]);
  return number;
}

}  // namespace

static_assert(std::endian::native == std::endian::little);

// Takes eight bytes at a time ("slicing-by-8", M. Kounavis and F. Berry), which is three times as fast as
// one.
std::uint32_t crc_after(std::uint32_t crc, std::string_view bytes) {
  crc = ~crc;
  for (; bytes.size() >= k_slice; bytes.remove_prefix(k_slice)) {
    std::uint64_t slice = 0;
    std::memcpy(&slice, bytes.data(), k_slice);
    slice ^= crc;
    crc = 0;
    for (std::size_t n = k_slice; n > 0; slice >>= 8U) crc ^= k_crc_tables[--n][slice & 0xFFU];
  }
  for (const char byte : bytes)
    crc = k_crc_tables[0][(crc ^ static_cast<std::uint8_t>(byte)) & 0xFFU] ^ (crc >> 8U);
  return ~crc;
}

void append_frame(std::string& out, FrameType type, std::string_view payload) {
  auto size = static_cast<std::uint32_t>(payload.size());
  auto number = static_cast<std::uint8_t>(type);
  std::uint32_t crc = crc_of(number, payload);
  Encoder encoder(out);
  encoder(size, crc, number);
  out += payload;
}

void FrameReader::feed(std::string_view bytes) {
  // Moves the rest to the front only if the read frames take more space than the rest, so that each byte is
  // moved a bounded number of times.
  if (begin_ > bytes_.size() / 2) {
    bytes_.erase(0, begin_);
    begin_ = 0;
    if (bytes_.empty()) std::string().swap(bytes_);  // a large frame must not take memory for ever
  }
  bytes_ += bytes;
}

FrameReader::Result FrameReader::next(Frame& frame) {
  if (is_corrupt_) return Result::corrupt;
  const std::string_view left = std::string_view(bytes_).substr(begin_);
  if (left.size() < k_header_size) return Result::incomplete;
  const std::size_t size = number_at(left, 0);
  if (size > k_payload_max) {
    is_corrupt_ = true;
    return Result::corrupt;
  }
  if (left.size() < k_header_size + size) return Result::incomplete;
  frame.type = static_cast<FrameType>(left[k_header_size - 1]);
  frame.payload = left.substr(k_header_size, size);
  if (crc_of(static_cast<std::uint8_t>(frame.type), frame.payload) !=
      number_at(left, sizeof(std::uint32_t))) {
    is_corrupt_ = true;
    return Result::corrupt;
  }
  begin_ += k_header_size + size;
  return Result::frame;
}

}  // namespace combu::agent
