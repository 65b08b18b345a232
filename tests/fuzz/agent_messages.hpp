#pragma once
// Reads frames of the agent's protocol.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "combu/agent.hpp"

namespace combu::fuzz {

template <class Message>
void decode_again(std::string_view payload) {
  Message message;
  if (!agent::decode(payload, message)) return;
  std::string bytes;
  agent::append(bytes, message);
  if (std::string_view(bytes).substr(agent::k_header_size) != payload) std::abort();
}

// Decodes a payload as the message of its type, if that is one of Messages.
template <class... Messages>
void decode_by_type(agent::FrameType type, std::string_view payload) {
  ((type == Messages::k_type ? decode_again<Messages>(payload) : void()), ...);
}

// Reads the bytes as a stream of frames, cut into pieces of a size that the first byte gives. Since a random
// checksum is almost never valid, the bytes are also decoded as one payload of the type that the first byte
// gives.
template <class... Messages>
void read_frames(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto first = static_cast<std::uint8_t>(bytes.front());
  const std::string_view payload = bytes.substr(1);
  decode_by_type<Messages...>(static_cast<agent::FrameType>(first), payload);
  agent::FrameReader reader;
  agent::Frame frame;
  std::string stream;
  agent::append_frame(stream, static_cast<agent::FrameType>(first), payload);
  stream += payload;
  const std::size_t piece = std::size_t{first} + 1;
  for (std::string_view left = stream; !left.empty(); left.remove_prefix(std::min(piece, left.size()))) {
    reader.feed(left.substr(0, piece));
    while (reader.next(frame) == agent::FrameReader::Result::frame)
      decode_by_type<Messages...>(frame.type, frame.payload);
  }
}

}  // namespace combu::fuzz
