// exec()

#include <array>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "conformance/engine_suite.hpp"

namespace combu::conformance {
namespace {

TEST_P(ExecSuite, BytesPassInBothDirections) {
  const Run run = running("cat");
  const std::unique_ptr<ByteStream> stream = exec(run, {"cat"});
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (int i = 0; i < 3; ++i) {
    stream->write(bytes);
    EXPECT_EQ(read(*stream, bytes.size()), bytes);
  }
}

TEST_P(ExecSuite, TwoStreamsOfOneContainerAreSeparate) {
  const Run run = running("two");
  const std::unique_ptr<ByteStream> one = exec(run, {"cat"});
  const std::unique_ptr<ByteStream> other = exec(run, {"cat"});
  one->write("first");
  other->write("second");
  EXPECT_EQ(read(*other, 6), "second");
  EXPECT_EQ(read(*one, 5), "first");
}

TEST_P(ExecSuite, ManyBytesArriveUnchanged) {
  const Run run = running("many");
  const std::unique_ptr<ByteStream> stream = exec(run, {"cat"});
  std::string bytes(std::size_t{20} << 20U, '\0');
  std::uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<char>(state >> 24U);
  }
  std::jthread writer([&] { stream->write(bytes); });
  EXPECT_TRUE(read(*stream, bytes.size()) == bytes);
}

TEST_P(ExecSuite, StandardErrorIsSeparate) {
  const Run run = running("err");
  const std::unique_ptr<ByteStream> stream =
      exec(run, {"sh", "-c", "echo bad >&2; printf 'n\\377ws\\n' >&2; echo good"});
  EXPECT_EQ(read_all(*stream), "good\n");
  EXPECT_EQ(stream->errors(), "bad n\\xffws");
}

TEST_P(ExecSuite, TheExitCodeIsReportedIfNothingElseIs) {
  const Run run = running("code");
  const std::unique_ptr<ByteStream> stream = exec(run, {"sh", "-c", "exit 7"});
  EXPECT_EQ(read_all(*stream), "");
  EXPECT_EQ(stream->errors(), "the program has ended with exit code 7");
}

TEST_P(ExecSuite, CloseEndsTheProgramsInput) {
  const Run run = running("closes");
  const std::unique_ptr<ByteStream> stream =
      exec(run, {"sh", "-c", "cat > /tmp/taken; echo over > /tmp/over"});
  stream->write("some text");
  stream->close();
  const std::unique_ptr<ByteStream> after =
      exec(run, {"sh", "-c", "until [ -s /tmp/over ]; do sleep 0.05; done; cat /tmp/taken"});
  EXPECT_EQ(read_all(*after), "some text");
}

TEST_P(ExecSuite, CloseEndsABlockedReadAndABlockedWrite) {
  const Run run = running("blocked");
  const std::unique_ptr<ByteStream> stream = exec(run, {"sleep", "1000"});
  std::future<bool> reader = std::async(std::launch::async, [&] { return ends(*stream); });
  std::future<std::optional<ErrorKind>> writer = std::async(std::launch::async, [&] {
    const std::string bytes(std::size_t{64} << 20U, 'x');
    return kind_of([&] { stream->write(bytes); });
  });
  EXPECT_EQ(reader.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  EXPECT_EQ(writer.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  stream->close();
  EXPECT_TRUE(reader.get());
  EXPECT_EQ(writer.get(), ErrorKind::unavailable);
  EXPECT_TRUE(ends(*stream));
  EXPECT_EQ(kind_of([&] { stream->write("x"); }), ErrorKind::unavailable);
}

TEST_P(ExecSuite, AnEndedAttemptIsAConflict) {
  const Run run = ready("exec-ended", {subject().exits_with("ended", 0)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("ended", Phase::ended));
  (void)list_settled("exec-ended", has_ended);
  EXPECT_EQ(kind_of([&] { (void)exec(run, {"cat"}); }), ErrorKind::conflict);
}

TEST_P(ExecSuite, AnUnknownAttemptIsNotFound) {
  const Run run = running("known");
  for (const Key& key :
       {Key{.run = run.id, .trial = "nobody"}, Key{.run = run.id, .trial = "known", .attempt = 2},
        Key{.run = RunId("another"), .trial = "known"}})
    EXPECT_EQ(kind_of([&] { (void)engine().exec(key, {"cat"}, {}); }), ErrorKind::not_found) << key.trial;
}

TEST_P(ExecSuite, AMissingProgramIsRefused) {
  const Run run = running("missing");
  std::unique_ptr<ByteStream> stream;
  try {
    stream = exec(run, {"/no/such/program"});
    const std::string text = read_all(*stream);
    ADD_FAILURE() << "no error, but this text: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::refused);
    EXPECT_EQ(error.subject(), "missing");
    EXPECT_THAT(error.message(), testing::HasSubstr("/no/such/program"));
  }
  if (!stream) return;
  EXPECT_THAT(stream->errors(), testing::HasSubstr("/no/such/program"));
  EXPECT_TRUE(ends(*stream));
}

TEST_P(ExecSuite, AProgramMayWriteTheWordsOfARefusal) {
  const Run run = running("words");
  const std::string words = "OCI runtime exec failed: not really\n";
  const std::unique_ptr<ByteStream> stream =
      exec(run, {"sh", "-c", "echo 'OCI runtime exec failed: not really'; cat"});
  EXPECT_EQ(read(*stream, words.size()), words);
  stream->write("more");
  EXPECT_EQ(read(*stream, 4), "more");
}

TEST_P(ExecSuite, TheRemovalOfTheContainerEndsTheStream) {
  const Run run = running("removed");
  const std::unique_ptr<ByteStream> stream = exec(run, {"cat"});
  stream->write("x");
  EXPECT_EQ(read(*stream, 1), "x");
  std::future<bool> reader = std::async(std::launch::async, [&] { return ends(*stream); });
  EXPECT_EQ(engine().release(all_of(run), {}, {}).attempts, 1U);
  EXPECT_TRUE(reader.get());
}

TEST_P(ExecSuite, AStopTokenCancelsTheCall) {
  const Run run = running("cancel");
  EXPECT_EQ(kind_of([&] { (void)engine().exec(key_of(run, "cancel"), {"cat"}, stopped()); }),
            ErrorKind::cancelled);
}

}  // namespace
}  // namespace combu::conformance
