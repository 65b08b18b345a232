// Bytes that claim to be a container's log: frames with and without times, and a terminal's lines with times.
// Cut anywhere they give the same pieces as in one feed (of frames without times: the same texts), or both
// end with Error(corrupt). No piece with a time is larger than k_timed_piece_max.
//
// Input: the form; how often the bytes are repeated; the number of sizes; the sizes by which the bytes are
// cut, each less one; the bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "docker/log_frames.hpp"

namespace {

using combu::Instant;
using combu::LogPiece;
using combu::LogStream;
using combu::docker::LogFrames;
using combu::docker::TimedLines;

enum class Form { frames, timed_frames, timed_lines };

struct Piece {
  LogStream stream;
  Instant at;
  std::string text;
  bool operator==(const Piece&) const = default;
};
struct Result {
  std::vector<Piece> pieces;
  bool is_corrupt = false;
  bool operator==(const Result&) const = default;
};

// `sizes`: of the feeds, again and again; empty: one feed.
Result read(Form form, std::string_view bytes, std::string_view sizes) {
  Result result;
  const auto tell = [&](const LogPiece& piece) {
    if (form != Form::frames && piece.text.size() > combu::docker::k_timed_piece_max) std::abort();
    auto& pieces = result.pieces;
    if (form == Form::frames && !pieces.empty() && pieces.back().stream == piece.stream) {
      pieces.back().text += piece.text;
    } else {
      pieces.push_back({.stream = piece.stream, .at = piece.at, .text = std::string(piece.text)});
    }
  };
  LogFrames frames(tell, form == Form::timed_frames);
  TimedLines lines(tell);
  try {
    for (std::size_t i = 0; !bytes.empty(); ++i) {
      const std::size_t size =
          sizes.empty() ? bytes.size() : std::size_t{1} + static_cast<unsigned char>(sizes[i % sizes.size()]);
      const std::string_view part = bytes.substr(0, size);
      if (form == Form::timed_lines) {
        lines.feed(part);
      } else {
        frames.feed(part);
      }
      bytes.remove_prefix(part.size());
    }
    if (form == Form::timed_lines) lines.end();
  } catch (const combu::Error& error) {
    if (error.kind() != combu::ErrorKind::corrupt) std::abort();
    result.is_corrupt = true;
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t k_head = 3;
  if (size < k_head) return 0;
  const auto form = static_cast<Form>(data[0] % 3);
  // Rarely: long inputs are slow.
  const std::size_t repeats = data[1] < 240 ? 1 : std::size_t{1} << (data[1] % 8U);
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  rest.remove_prefix(k_head);
  const std::string_view sizes = rest.substr(0, data[2] % 16U);
  rest.remove_prefix(sizes.size());
  std::string bytes;
  for (std::size_t i = 0; i < repeats; ++i) bytes += rest;
  if (read(form, bytes, "") != read(form, bytes, sizes)) std::abort();
  return 0;
}
