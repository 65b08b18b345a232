#include <gtest/gtest.h>

#include <string>

#include "combu/agent.hpp"

namespace combu::agent {
namespace {

Start some_start() {
  return {.id = "a",
          .argv = {"sh", "-c", std::string("x\0y", 3)},
          .env = {"A=1", ""},
          .files = {{.name = "params.json", .content = "{}"}},
          .timeout_ms = 1ULL << 40U,
          .grace_ms = 7,
          .stop_signal = 15,
          .log_max = 9,
          .awaits_inputs = 1,
          .is_resident = 0};
}

std::string bytes_of_start() {
  std::string bytes;
  append(bytes, some_start());
  return bytes;
}

TEST(AgentProtocolTest, AMessageKeepsItsFields) {
  FrameReader reader;
  reader.feed(bytes_of_start());
  Frame frame;
  ASSERT_EQ(reader.next(frame), FrameReader::Result::frame);
  EXPECT_EQ(frame.type, FrameType::start);
  Start start;
  ASSERT_TRUE(decode(frame.payload, start));
  EXPECT_EQ(start.argv, some_start().argv);
  EXPECT_EQ(start.env, some_start().env);
  EXPECT_EQ(start.files.at(0).name, "params.json");
  EXPECT_EQ(start.timeout_ms, some_start().timeout_ms);
  EXPECT_EQ(start.awaits_inputs, 1);
  EXPECT_EQ(reader.next(frame), FrameReader::Result::incomplete);
}

TEST(AgentProtocolTest, NegativeNumbersKeepTheirSign) {
  std::string bytes;
  append(bytes, Stop{.id = "a", .grace_ms = -1});
  Stop stop{.id = {}, .grace_ms = 5};
  ASSERT_TRUE(decode(std::string_view(bytes).substr(k_header_size), stop));
  EXPECT_EQ(stop.grace_ms, -1);
}

TEST(AgentProtocolTest, AFrameHasTheDocumentedBytes) {
  std::string bytes;
  append_frame(bytes, FrameType::ping, "");
  // CRC-32C of the single byte 11, by the definition in RFC 3720.
  EXPECT_EQ(bytes.substr(0, 4), std::string(4, '\0'));
  EXPECT_EQ(bytes.back(), static_cast<char>(FrameType::ping));
  EXPECT_EQ(bytes.size(), k_header_size);
}

// The values are examples of RFC 3720, B.4.
TEST(AgentProtocolTest, TheChecksumIsCrc32cOfAllParts) {
  std::string rising;
  for (char byte = 0; byte < 32; ++byte) rising += byte;
  EXPECT_EQ(crc_after(0, std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc_after(0, std::string(32, '\xFF')), 0x62A8AB43U);
  for (std::size_t first = 0; first <= rising.size(); ++first)
    EXPECT_EQ(crc_after(crc_after(0, rising.substr(0, first)), rising.substr(first)), 0x46DD794EU);
}

TEST(AgentProtocolTest, FramesMayArriveByteByByte) {
  std::string bytes = bytes_of_start() + bytes_of_start();
  append(bytes, Listed{});
  FrameReader reader;
  Frame frame;
  std::size_t count = 0;
  for (const char byte : bytes) {
    reader.feed({&byte, 1});
    while (reader.next(frame) == FrameReader::Result::frame) ++count;
  }
  EXPECT_EQ(count, 3);
}

TEST(AgentProtocolTest, EveryChangedByteIsDetected) {
  const std::string bytes = bytes_of_start();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    FrameReader reader;
    reader.feed(changed);
    Frame frame;
    EXPECT_NE(reader.next(frame), FrameReader::Result::frame) << "byte " << i;
  }
}

TEST(AgentProtocolTest, ACorruptStreamStaysCorrupt) {
  FrameReader reader;
  reader.feed(std::string(k_header_size, '\xFF'));
  Frame frame;
  EXPECT_EQ(reader.next(frame), FrameReader::Result::corrupt);
  reader.feed(bytes_of_start());
  EXPECT_EQ(reader.next(frame), FrameReader::Result::corrupt);
}

TEST(AgentProtocolTest, ACutOrLongerPayloadIsMalformed) {
  const std::string payload = bytes_of_start().substr(k_header_size);
  Start start;
  for (std::size_t size = 0; size < payload.size(); ++size)
    EXPECT_FALSE(decode(std::string_view(payload).substr(0, size), start)) << size;
  EXPECT_TRUE(decode(payload, start));
  EXPECT_FALSE(decode(payload + "x", start));
}

TEST(AgentProtocolTest, ACountThatExceedsThePayloadTakesNoMemory) {
  Forget forget;
  EXPECT_FALSE(decode(std::string(4, '\xFF'), forget));
  EXPECT_LE(forget.ids.size(), 1);
}

TEST(AgentProtocolTest, TheProgramOfThisPlatformIsAStaticElfFile) {
#ifdef __aarch64__
  const std::string_view program = program_for("linux/arm64/v8");
#else
  const std::string_view program = program_for("linux/amd64");
#endif
  EXPECT_EQ(program.substr(0, 4),
            "\x7F"
            "ELF");
  EXPECT_LE(program.size(), 1'000'000);  // a ConfigMap has at most 1 MiB
  EXPECT_EQ(program.find("/lib64/ld-linux"), std::string_view::npos);
  EXPECT_TRUE(program_for("linux/amd").empty());
  EXPECT_TRUE(program_for("windows/amd64").empty());
}

}  // namespace
}  // namespace combu::agent
