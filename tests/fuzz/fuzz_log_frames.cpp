// Reads bytes as a container's log in three forms: frames with and without timestamps, and a terminal's lines
// with timestamps. If the stream is cut into feeds, the result must be the same as with one feed: the same
// pieces, or the same texts for frames without timestamps, or Error(corrupt) in both cases. No piece with a
// timestamp may be larger than k_timed_piece_max.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cut_input.hpp"
#include "docker/log_frames.hpp"

namespace {

using combu::Instant;
using combu::LogPiece;
using combu::LogStream;
using combu::TimedLines;
using combu::docker::LogFrames;

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
  bool is_open = false;  // the bytes end within a frame
  bool operator==(const Result&) const = default;
};

// Returns the pieces of the log. `sizes` as in feed_in_pieces().
Result read(Form form, std::string_view bytes, std::string_view sizes) {
  Result result;
  const auto on_piece = [&](const LogPiece& piece) {
    if (form != Form::frames && piece.text.size() > combu::k_timed_piece_max) std::abort();
    auto& pieces = result.pieces;
    if (form == Form::frames && !pieces.empty() && pieces.back().stream == piece.stream) {
      pieces.back().text += piece.text;
    } else {
      pieces.push_back({.stream = piece.stream, .at = piece.at, .text = std::string(piece.text)});
    }
  };
  LogFrames frames(on_piece, form == Form::timed_frames);
  TimedLines lines(on_piece);
  try {
    fuzz::feed_in_pieces(bytes, sizes, [&](std::string_view part) {
      if (form == Form::timed_lines) {
        lines.feed(part);
      } else {
        frames.feed(part);
      }
    });
    if (form == Form::timed_lines) lines.end();
    result.is_open = frames.is_open();
    if (frames.left() > 0 && !result.is_open) std::abort();
  } catch (const combu::Error& error) {
    if (error.kind() != combu::ErrorKind::corrupt) std::abort();
    result.is_corrupt = true;
  }
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = fuzz::read_cut_input(data, size, 8);
  if (!input) return 0;
  const auto form = static_cast<Form>(input->form % 3);
  if (read(form, input->bytes, "") != read(form, input->bytes, input->sizes)) std::abort();
  return 0;
}
