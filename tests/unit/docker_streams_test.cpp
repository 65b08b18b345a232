// Streams of the engine that arrive in pieces: JSON objects, and frames and timed lines of logs.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "docker/json_pieces.hpp"
#include "docker/log_frames.hpp"
#include "docker_fixture.hpp"

namespace combu::docker {
namespace {

using testing::ElementsAre;

std::vector<std::string> pieces_of(const std::vector<std::string>& fed) {
  std::vector<std::string> seen;
  JsonPieces pieces([&](std::string_view text) { seen.emplace_back(text); });
  for (const std::string& bytes : fed) pieces.feed(bytes);
  pieces.finish();
  return seen;
}

TEST(JsonPieces, FindsObjectsInPiecesOfAnySize) {
  const std::string text = R"([{"a":"}]\"{"}, {"b":[{}]}])";
  const auto wanted = ElementsAre(R"({"a":"}]\"{"})", R"({"b":[{}]})");
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_THAT(pieces_of({text.substr(0, cut), text.substr(cut)}), wanted) << cut;
  }
  EXPECT_THAT(pieces_of({"{}\r\n{}{}"}), ElementsAre("{}", "{}", "{}"));
  EXPECT_THAT(pieces_of({"[]\n"}), ElementsAre());
}

TEST(JsonPieces, RefusesAnythingButObjects) {
  for (const std::string text : {"{", "[{}", "hello", "[1]", "{}]", "null"}) {
    const auto error = error_of([&] { (void)pieces_of({text}); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->kind(), ErrorKind::corrupt);
  }
}

TEST(LogFrames, AreSplitInPiecesOfAnySize) {
  const std::string bytes = std::string("\1\0\0\0\0\0\0\2ab", 10) + std::string("\2\0\0\0\0\0\0\0", 8) +
                            std::string("\2\0\0\0\0\0\0\1c", 9);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::string out;
    std::string err;
    LogFrames frames(
        [&](const LogPiece& piece) { (piece.stream == LogStream::out ? out : err) += piece.text; }, false);
    frames.feed(std::string_view(bytes).substr(0, cut));
    frames.feed(std::string_view(bytes).substr(cut));
    EXPECT_EQ(out, "ab");
    EXPECT_EQ(err, "c");
  }
  LogFrames frames([](const LogPiece&) {}, false);
  EXPECT_THROW(frames.feed("plain text"), Error);
}

TEST(LogFrames, TimedFramesArePassedOnWholeForPiecesOfAnySize) {
  const std::string bytes = std::string("\1\0\0\0\0\0\0\x23", 8) + "2026-01-31T12:00:00.000000007Z one\n" +
                            std::string("\2\0\0\0\0\0\0\x18", 8) + "2026-01-31T12:00:01Z tw\n" +
                            std::string("\1\0\0\0\0\0\0\x15", 8) + "2026-01-31T12:00:02Z ";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::vector<std::string> reported;
    LogFrames frames(
        [&](const LogPiece& piece) {
          reported.push_back(fmt::format("{} {} {}", piece.stream == LogStream::out ? "out" : "err",
                                         (piece.at - *parse_timestamp("2026-01-31T12:00:00Z")).count(),
                                         piece.text));
        },
        true);
    frames.feed(std::string_view(bytes).substr(0, cut));
    frames.feed(std::string_view(bytes).substr(cut));
    EXPECT_THAT(reported, ElementsAre("out 7 one\n", "err 1000000000 tw\n", "out 2000000000 "));
  }
  LogFrames frames([](const LogPiece&) {}, true);
  EXPECT_THROW(frames.feed(std::string("\1\0\0\0\0\0\0\3one", 11)), Error);
}

TEST(TimedLines, AreSplitInPiecesOfAnySize) {
  const std::string_view bytes = "2026-01-31T12:00:00Z one\r\n2026-01-31T12:00:01Z two words\r\n";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::string text;
    TimedLines lines([&](const LogPiece& piece) { text += piece.text; });
    lines.feed(bytes.substr(0, cut));
    lines.feed(bytes.substr(cut));
    EXPECT_EQ(text, "one\r\ntwo words\r\n");
  }
  std::string text;
  TimedLines lines([&](const LogPiece& piece) { text += piece.text; });
  lines.feed("2026-01-31T12:00:00Z one\r\n2026-01-31T12:00:01Z no end");
  lines.end();
  lines.end();
  EXPECT_EQ(text, "one\r\nno end");
}

// Records the pieces, their sizes, their text, and their times.
struct Reported {
  OnLogPiece on_piece = [this](const LogPiece& piece) {
    largest = std::max(largest, piece.text.size());
    sizes.push_back(piece.text.size());
    text += piece.text;
    if (times.empty() || times.back() != piece.at) times.push_back(piece.at);
  };
  std::string text;
  std::vector<std::size_t> sizes;
  std::size_t largest = 0;
  std::vector<Instant> times;  // without consecutive repetitions
};

std::string header_of(std::size_t size) {
  std::string header("\1\0\0\0", 4);
  for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(size >> shift & 0xFFU);
  return header;
}

const std::string k_timestamp = "2026-01-31T12:00:00.000000007Z ";

TEST(LogFrames, AHugeTimedFrameIsSplitIntoBoundedPieces) {
  constexpr std::size_t k_size = std::size_t{64} << 20U;
  Reported reported;
  LogFrames frames(reported.on_piece, true);
  frames.feed(header_of(k_timestamp.size() + k_size) + k_timestamp);
  const std::string feed(4096, 'x');
  for (std::size_t fed = 0; fed < k_size; fed += feed.size()) frames.feed(feed);
  frames.feed(header_of(k_timestamp.size() + 1) + k_timestamp + "y");
  EXPECT_EQ(reported.largest, k_timed_piece_max);
  EXPECT_EQ(reported.text, std::string(k_size, 'x') + "y");
  EXPECT_THAT(reported.times, ElementsAre(*parse_timestamp("2026-01-31T12:00:00.000000007Z")));
}

TEST(TimedLines, AHugeLineIsSplitIntoBoundedPieces) {
  constexpr std::size_t k_size = std::size_t{64} << 20U;
  Reported reported;
  TimedLines lines(reported.on_piece);
  lines.feed(k_timestamp);
  const std::string feed(4096, 'x');
  for (std::size_t fed = 0; fed < k_size; fed += feed.size()) lines.feed(feed);
  lines.feed("\n2026-01-31T12:00:01Z y");
  lines.end();
  EXPECT_EQ(reported.largest, k_timed_piece_max);
  EXPECT_EQ(reported.text, std::string(k_size, 'x') + "\ny");
  EXPECT_THAT(reported.times, ElementsAre(*parse_timestamp("2026-01-31T12:00:00.000000007Z"),
                                          *parse_timestamp("2026-01-31T12:00:01Z")));
}

// A later reading skips the stored pieces by their number, so both readings must return the same pieces.
TEST(TimedMessages, AreSplitIntoTheSamePiecesForAnyReadSize) {
  for (const std::size_t size : {k_timed_piece_max - 1, k_timed_piece_max, k_timed_piece_max + 1,
                                 2 * k_timed_piece_max, 3 * k_timed_piece_max + 5}) {
    const std::string text(size, 'x');
    const std::string timed = k_timestamp + text;
    const std::string frame = header_of(timed.size()) + timed;
    const std::string line = timed + "\n";
    std::vector<std::size_t> frame_sizes;
    std::vector<std::size_t> line_sizes;
    for (std::size_t left = size; left > 0; left -= std::min(left, k_timed_piece_max))
      frame_sizes.push_back(std::min(left, k_timed_piece_max));
    for (std::size_t left = size + 1; left > 0; left -= std::min(left, k_timed_piece_max))
      line_sizes.push_back(std::min(left, k_timed_piece_max));
    for (const std::size_t step : {std::size_t{1}, std::size_t{13}, std::size_t{4096}, k_timed_piece_max - 1,
                                   k_timed_piece_max, k_timed_piece_max + 1, frame.size()}) {
      Reported of_frame;
      Reported of_line;
      LogFrames frames(of_frame.on_piece, true);
      TimedLines lines(of_line.on_piece);
      for (std::size_t i = 0; i < frame.size(); i += step)
        frames.feed(std::string_view(frame).substr(i, step));
      for (std::size_t i = 0; i < line.size(); i += step) lines.feed(std::string_view(line).substr(i, step));
      EXPECT_EQ(of_frame.sizes, frame_sizes) << size << " by " << step;
      EXPECT_EQ(of_line.sizes, line_sizes) << size << " by " << step;
    }
  }
}

TEST(TimedMessages, AMessageWithoutATimeIsRefusedBeforeItEnds) {
  const std::string text(k_timed_piece_max, 'x');
  LogFrames frames([](const LogPiece&) {}, true);
  frames.feed(header_of(std::size_t{1} << 31U));
  EXPECT_THROW(frames.feed(text), Error);
  TimedLines lines([](const LogPiece&) {});
  EXPECT_THROW(lines.feed(text), Error);
  TimedLines short_line([](const LogPiece&) {});
  short_line.feed("2026-01-31T12:00:00Z");
  EXPECT_THROW(short_line.end(), Error);
}

}  // namespace
}  // namespace combu::docker
