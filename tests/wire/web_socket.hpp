#pragma once
// The server's end of a WebSocket (RFC 6455).

#include <openssl/sha.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "combu/base.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::wire {

// First bytes of frames: the last frame of a message, and its opcode.
inline constexpr int k_text = 0x81;
inline constexpr int k_binary = 0x82;
inline constexpr int k_closing = 0x88;
inline constexpr int k_ping = 0x89;
inline constexpr int k_pong = 0x8A;

inline std::string big_endian(std::uint64_t number, unsigned bytes) {
  std::string text;
  while (bytes-- > 0) text += static_cast<char>(number >> 8U * bytes & 0xFFU);
  return text;
}

// Returns the header of a server's frame with `size` bytes.
inline std::string frame_header(int first, std::uint64_t size) {
  const std::string begin(1, static_cast<char>(first));
  if (size < 126) return begin + big_endian(size, 1);
  if (size < 65536) return begin + '\x7E' + big_endian(size, 2);
  return begin + '\x7F' + big_endian(size, 8);
}

inline std::string server_frame(int first, std::string_view payload) {
  return frame_header(first, payload.size()) + std::string(payload);
}

struct ClientFrame {
  int first = 0;
  bool is_masked = false;
  std::string payload;  // without the mask
};

// Returns `size` bytes; nullopt: the client has closed the connection.
inline std::optional<std::string> take_bytes(int connection, std::size_t size) {
  std::string bytes(size, '\0');
  if (::recv(connection, bytes.data(), size, MSG_WAITALL) != static_cast<ssize_t>(size)) return std::nullopt;
  return bytes;
}

// Returns the client's next frame; nullopt: the client has closed the connection.
inline std::optional<ClientFrame> take_frame(int connection) {
  const auto begin = take_bytes(connection, 2);
  if (!begin) return std::nullopt;
  const auto byte = [](char letter) { return static_cast<unsigned char>(letter); };
  ClientFrame frame{
      .first = byte(begin->at(0)), .is_masked = (byte(begin->at(1)) & 0x80U) != 0, .payload = {}};
  std::uint64_t size = byte(begin->at(1)) & 0x7FU;
  if (size >= 126) {
    const auto length = take_bytes(connection, size == 126 ? 2 : 8);
    if (!length) return std::nullopt;
    size = 0;
    for (const char letter : *length) size = size << 8U | byte(letter);
  }
  const auto key = take_bytes(connection, frame.is_masked ? 4 : 0);
  if (!key) return std::nullopt;
  auto payload = take_bytes(connection, size);
  if (!payload) return std::nullopt;
  for (std::size_t i = 0; frame.is_masked && i < size; ++i)
    payload->at(i) = static_cast<char>(byte(payload->at(i)) ^ byte(key->at(i % 4)));
  frame.payload = *std::move(payload);
  return frame;
}

// Returns the value of a request's header; empty: the request does not have the header.
inline std::string request_header(const Asked& asked, const std::string& name) {
  const std::size_t at = asked.head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 4;
  return asked.head.substr(begin, asked.head.find('\r', begin) - begin);
}

// Returns the head of the answer that accepts a WebSocket.
inline std::string accepting(const Asked& asked) {
  const std::string text =
      request_header(asked, "Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::string hash(SHA_DIGEST_LENGTH, '\0');
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(hash.data()));
  return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
         "Sec-WebSocket-Accept: " +
         encode_base64(hash) + "\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n";
}

// A reply that accepts a WebSocket and then calls `serve` with the connection.
inline Reply web_socket(const Asked& asked, std::function<void(int connection)> serve) {
  return {{accepting(asked)}, Reply::Then::close, {}, std::move(serve)};
}

}  // namespace combu::wire
