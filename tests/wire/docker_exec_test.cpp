// exec() and the stream that it returns.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "wire/byte_stream.hpp"
#include "wire/docker_fixture.hpp"

namespace combu::wire {
namespace {

using testing::HasSubstr;

const std::string k_words = "OCI runtime exec failed: exec failed: no such file\r\n";

std::string frame(int stream, std::string_view payload) {
  std::string bytes{static_cast<char>(stream), 0, 0, 0};
  for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes += static_cast<char>(payload.size() >> shift & 0xFFU);
  return bytes + std::string(payload);
}

// An engine whose answer to the start of a program is `reply`.
class Exec {
 public:
  explicit Exec(Reply reply, json facts = {{"Running", false}, {"ExitCode", 3}, {"Pid", 7}})
      : daemon_(after_ping([reply = std::move(reply), facts = std::move(facts)](const Asked& asked) {
          if (asked.target.ends_with("/start")) return reply;
          if (asked.target.ends_with("/exec")) return whole(201, R"({"Id": "e1"})");
          if (asked.target.find("/exec/") != std::string::npos) return whole(200, facts.dump());
          return whole(200, inspected("running", example_labels()));
        })),
        engine_(open_at(daemon_.address())) {}

  std::unique_ptr<ByteStream> open() { return engine_->exec({RunId("run1"), "a", 1}, {"cat", "-"}, {}); }
  ScriptedDaemon& daemon() { return daemon_; }

 private:
  ScriptedDaemon daemon_;
  std::unique_ptr<Engine> engine_;
};

Reply sends(const std::vector<std::string>& pieces) {
  return upgraded([pieces](int connection) {
    for (const std::string& piece : pieces)
      if (!put(connection, piece)) return;
  });
}
Reply drips(const std::string& bytes) {
  std::vector<std::string> pieces;
  for (const char byte : bytes) pieces.emplace_back(1, byte);
  return sends(pieces);
}

std::string read_all(ByteStream& stream, std::size_t step) {
  std::string text;
  std::string buffer(step, '\0');
  while (const std::size_t count = stream.read(buffer)) text.append(buffer, 0, count);
  return text;
}

TEST(Exec, RequestsTheProgramAndItsStreams) {
  Exec exec(sends({}));
  (void)exec.open();
  const std::vector<Asked> asked = exec.daemon().asked();
  ASSERT_EQ(asked.size(), 4U);
  EXPECT_EQ(asked[2].target, "/v1.41/containers/" + k_id + "/exec");
  const json wanted = {{"AttachStdin", true},
                       {"AttachStdout", true},
                       {"AttachStderr", true},
                       {"Tty", false},
                       {"Cmd", {"cat", "-"}}};
  EXPECT_EQ(json::parse(asked[2].body), wanted);
  EXPECT_EQ(asked[3].target, "/v1.41/exec/e1/start");
  EXPECT_THAT(asked[3].head, HasSubstr("Connection: Upgrade\r\n"));
  EXPECT_EQ(json::parse(asked[3].body), (json{{"Detach", false}, {"Tty", false}}));
}

TEST(Exec, ReadsFramesInPiecesOfAnySize) {
  const std::string bytes =
      frame(1, "one") + frame(2, "bad\n") + frame(1, "") + frame(1, "two") + frame(2, "\x1fnews ");
  for (const Reply& reply : {sends({bytes}), drips(bytes)}) {
    for (const std::size_t step : {1U, 2U, 5U, 100U}) {
      Exec exec(reply);
      const std::unique_ptr<ByteStream> stream = exec.open();
      EXPECT_EQ(read_all(*stream, step), "onetwo") << step;
      EXPECT_EQ(stream->errors(), "bad news");
      EXPECT_EQ(read_all(*stream, step), "");
    }
  }
}

TEST(Exec, OneReadReturnsManyFrames) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += frame(1, "ab");
  Exec exec(sends({bytes}));
  const std::unique_ptr<ByteStream> stream = exec.open();
  std::array<char, 5000> buffer{};
  EXPECT_EQ(stream->read(buffer), 2000U);
}

TEST(Exec, KeepsTheEndOfTheStandardError) {
  std::string all;
  std::vector<std::string> pieces;
  for (int i = 0; i < 1000; ++i) pieces.push_back(frame(2, "line " + std::to_string(i) + "\n"));
  Exec exec(sends(pieces));
  const std::unique_ptr<ByteStream> stream = exec.open();
  EXPECT_EQ(read_all(*stream, 100), "");
  EXPECT_LE(stream->errors().size(), 500U);
  EXPECT_TRUE(stream->errors().ends_with("line 998 line 999")) << stream->errors();
}

TEST(Exec, WithoutStandardErrorTheExitCodeIsReported) {
  Exec exec(sends({frame(1, "x")}));
  const std::unique_ptr<ByteStream> stream = exec.open();
  EXPECT_EQ(stream->errors(), "");
  EXPECT_EQ(read_all(*stream, 100), "x");
  EXPECT_EQ(stream->errors(), "the program has ended with exit code 3");
}

TEST(Exec, ACutFrameIsUnavailable) {
  const std::string bytes = frame(1, "abc");
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    Exec exec(sends({bytes.substr(0, size)}));
    const std::unique_ptr<ByteStream> stream = exec.open();
    const auto error = error_of([&] { (void)read_all(*stream, 100); });
    ASSERT_TRUE(error) << size;
    EXPECT_EQ(error->kind(), ErrorKind::unavailable);
  }
}

TEST(Exec, AnInvalidFrameIsCorrupt) {
  Exec exec(sends({"plain text that has no frames"}));
  const std::unique_ptr<ByteStream> stream = exec.open();
  const auto error = error_of([&] { (void)read_all(*stream, 100); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::corrupt);
  EXPECT_EQ(error->subject(), "a");
}

TEST(Exec, TheTextOfARefusedProgramIsAnError) {
  for (const Reply& reply : {sends({frame(1, k_words)}), drips(frame(1, k_words))}) {
    Exec exec(reply, {{"Running", false}, {"ExitCode", 126}, {"Pid", 0}});
    const std::unique_ptr<ByteStream> stream = exec.open();
    const auto error = error_of([&] { (void)read_all(*stream, 3); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::refused);
    EXPECT_EQ(error->subject(), "a");
    EXPECT_EQ(error->message(), "OCI runtime exec failed: exec failed: no such file");
    EXPECT_EQ(stream->errors(), error->message());
    EXPECT_EQ(read_all(*stream, 3), "");
  }
}

TEST(Exec, OutputThatOnlyBeginsLikeARefusalIsOutput) {
  for (const std::string& first : {k_words.substr(0, 5), k_words, k_words.substr(0, 25),
                                   std::string("OCI runtime x"), k_words + std::string(100000, 'x')}) {
    const std::string bytes = frame(1, first) + frame(1, "more");
    for (const std::size_t step : {3U, 100U, 1000000U}) {
      Exec exec(sends({bytes}));
      const std::unique_ptr<ByteStream> stream = exec.open();
      EXPECT_TRUE(read_all(*stream, step) == first + "more") << first.size() << " " << step;
    }
  }
}

// A program may write the first bytes of such a text and then wait.
TEST(Exec, AShortFrameIsNotHeldBack) {
  Exec exec(upgraded([](int connection) {
    put(connection, frame(1, "OCI"));
    take_all(connection, [](std::string_view) {});
  }));
  const std::unique_ptr<ByteStream> stream = exec.open();
  std::array<char, 100> buffer{};
  EXPECT_EQ(stream->read(buffer), 3U);
  stream->close();
}

TEST(Exec, TheEnginesStatusGivesTheErrorsKind) {
  for (const auto& [status, kind] : {std::pair{404, ErrorKind::not_found},
                                     {409, ErrorKind::conflict},
                                     {400, ErrorKind::refused},
                                     {500, ErrorKind::refused}}) {
    Exec exec(whole(status, message("no reason")));
    const auto error = error_of([&] { (void)exec.open(); });
    ASSERT_TRUE(error) << status;
    EXPECT_EQ(error->kind(), kind);
    EXPECT_EQ(error->subject(), "a");
    EXPECT_EQ(error->message(), "no reason");
  }
}

TEST(Exec, CloseEndsABlockedReadAndABlockedWrite) {
  Exec exec(upgraded([](int connection) {
    pollfd ended{connection, POLLRDHUP, 0};
    ::poll(&ended, 1, -1);
  }));
  const std::unique_ptr<ByteStream> stream = exec.open();
  std::future<std::string> reader = std::async(std::launch::async, [&] { return read_all(*stream, 10); });
  std::future<std::optional<Error>> writer = std::async(std::launch::async, [&] {
    const std::string bytes(std::size_t{64} << 20U, 'x');
    return error_of([&] { stream->write(bytes); });
  });
  EXPECT_EQ(writer.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  stream->close();
  EXPECT_EQ(reader.get(), "");
  const std::optional<Error> error = writer.get();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
}

TEST(Exec, FiftyMebibytesPassInBothDirectionsAtOnce) {
  Exec exec(upgraded([](int connection) {
    take_all(connection, [&](std::string_view bytes) { put(connection, frame(1, bytes)); });
  }));
  const std::unique_ptr<ByteStream> stream = exec.open();
  std::string bytes(std::size_t{50} << 20U, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 7U);
  expect_echo(*stream, bytes);
  stream->close();
}

}  // namespace
}  // namespace combu::wire
