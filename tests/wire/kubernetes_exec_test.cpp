// KubernetesEngine: exec() with a scripted API server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "wire/byte_stream.hpp"
#include "wire/kubernetes_fixture.hpp"
#include "wire/web_socket.hpp"

namespace combu::wire {
namespace {

using nlohmann::json;
using test::error_in;
using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t k_mebibyte = std::size_t{1} << 20U;
constexpr std::chrono::seconds k_promptly{5};  // well below the time limit of a handshake

// A message of the server for one stream of the program: 1 standard output, 2 standard error, 3 status.
std::string stream_message(int stream, std::string_view bytes) {
  return server_frame(k_binary, static_cast<char>(stream) + std::string(bytes));
}
std::string status_message(const json& status) {
  return stream_message(3, status.dump());
}
std::string success() {
  return status_message({{"metadata", json::object()}, {"status", "Success"}});
}
std::string exit_status(const std::string& code) {
  return status_message({{"status", "Failure"},
                         {"message", "command terminated with non-zero exit code"},
                         {"reason", "NonZeroExitCode"},
                         {"details", {{"causes", {{{"reason", "ExitCode"}, {"message", code}}}}}}});
}

// Bytes that differ at all distances.
std::string pattern_of(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 2654435761U) >> 13U);
  return bytes;
}

// An engine with a running Pod. `answer` answers the request for the program.
class PodExec {
 public:
  explicit PodExec(ScriptedDaemon::Handler answer,
                   const std::function<void(kubernetes::Access&)>& change = {},
                   const json& status = running_status())
      : cluster_(
            [answer = std::move(answer), pod = stored_pod(status).dump()](const Asked& asked) {
              return asked.target.find("/exec?") == std::string::npos ? whole(200, pod) : answer(asked);
            },
            {}, k_anchor, change) {}

  std::unique_ptr<ByteStream> open(const std::vector<std::string>& argv = {"cat"},
                                   std::stop_token stop = {}) {
    return cluster_.engine().exec(cluster_key(), argv, std::move(stop));
  }
  Error fault() {
    return error_in([&] { (void)open(); });
  }
  ScriptedDaemon& server() { return cluster_.server(); }

 private:
  ScriptedCluster cluster_;
};

ScriptedDaemon::Handler accepts(std::function<void(int connection)> serve) {
  return [serve = std::move(serve)](const Asked& asked) { return web_socket(asked, serve); };
}
// Sends `bytes` and closes the connection.
ScriptedDaemon::Handler accepts_and_sends(std::string bytes) {
  return accepts([bytes = std::move(bytes)](int connection) { put(connection, bytes); });
}

struct ReadBytes {
  std::string text;
  std::optional<Error> error;
};
ReadBytes read_to_end(ByteStream& stream, std::size_t step = 100) {
  ReadBytes all;
  std::string buffer(step, '\0');
  all.error = error_of([&] {
    while (const std::size_t count = stream.read(buffer)) all.text.append(buffer, 0, count);
  });
  return all;
}

void expect_cut(const ReadBytes& all, std::string_view text, const std::string& what) {
  EXPECT_EQ(all.text, text) << what;
  ASSERT_TRUE(all.error) << what;
  EXPECT_EQ(all.error->kind(), ErrorKind::unavailable) << what;
  EXPECT_EQ(all.error->subject(), "a") << what;
}

// ---- The request

TEST(KubernetesExec, RequestsTheProgramAndItsStreams) {
  PodExec exec(accepts_and_sends(success()),
               [](kubernetes::Access& access) { access.cluster.address.path = "/k8s/c-1"; });
  (void)exec.open({"sh", "-c", "echo a&b=c %\n/\xC3\xA9", ""});
  const std::string pod = "/k8s/c-1/api/v1/namespaces/ns/pods/" + kubernetes::pod_name(cluster_key());
  EXPECT_THAT(exec.server().lines(),
              ElementsAre("GET " + pod,
                          "GET " + pod +
                              "/exec?container=main&stdin=true&stdout=true&stderr=true&command=sh&command=-c"
                              "&command=echo%20a%26b%3Dc%20%25%0A%2F%C3%A9&command="));
  const Asked asked = exec.server().asked().at(1);
  EXPECT_EQ("tcp://" + request_header(asked, "Host"), exec.server().address());
  EXPECT_THAT(request_header(asked, "Connection"), testing::StrCaseEq("upgrade"));
  EXPECT_EQ(request_header(asked, "Upgrade"), "websocket");
  EXPECT_EQ(request_header(asked, "Sec-WebSocket-Version"), "13");
  EXPECT_EQ(request_header(asked, "Sec-WebSocket-Protocol"), "v4.channel.k8s.io");
  EXPECT_THAT(request_header(asked, "User-Agent"), StartsWith("combu/"));
  EXPECT_EQ(request_header(asked, "Authorization"), "");
}

TEST(KubernetesExec, SendsTokenOrPassword) {
  PodExec token(accepts_and_sends(success()),
                [](kubernetes::Access& access) { access.account.token = "my-token"; });
  (void)token.open();
  EXPECT_EQ(request_header(token.server().asked().at(1), "Authorization"), "Bearer my-token");
  PodExec password(accepts_and_sends(success()), [](kubernetes::Access& access) {
    access.account.username = "me";
    access.account.password = "pass";
  });
  (void)password.open();
  EXPECT_EQ(request_header(password.server().asked().at(1), "Authorization"), "Basic bWU6cGFzcw==");
}

TEST(KubernetesExec, APodThatDoesNotRunIsAConflict) {
  PodExec exec(accepts_and_sends(success()), {}, ended_status(0));
  EXPECT_EQ(exec.fault().kind(), ErrorKind::conflict);
  EXPECT_EQ(exec.server().asked().size(), 1U);
}

TEST(KubernetesExec, TheServersStatusGivesTheErrorsKind) {
  const std::string refusal =
      R"(pods "a" is forbidden: User "me" cannot create resource "pods/exec" in API group "")";
  for (const auto& [status, kind] : {std::pair{400, ErrorKind::invalid},
                                     {403, ErrorKind::refused},
                                     {404, ErrorKind::not_found},
                                     {409, ErrorKind::conflict},
                                     {429, ErrorKind::unavailable},
                                     {500, ErrorKind::unavailable}}) {
    PodExec exec([&](const Asked&) { return failure(status, refusal); });
    const Error error = exec.fault();
    EXPECT_EQ(error.kind(), kind) << status;
    EXPECT_EQ(error.subject(), "a");
    EXPECT_THAT(error.message(), StartsWith(refusal));
  }
}

TEST(KubernetesExec, ARedirectionIsRefused) {
  PodExec exec([](const Asked&) { return whole(302, "", "Location: http://127.0.0.1:1/\r\n"); });
  const Error error = exec.fault();
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_THAT(error.message(), HasSubstr("redirection (status 302)"));
}

// A token file with the token "old". The server accepts only the token "new", and writes `next` into the file
// when it refuses the request for the program.
class RenewedToken {
 public:
  explicit RenewedToken(std::string next)
      : next_(std::move(next)),
        exec_(
            [this](const Asked& asked) {
              if (request_header(asked, "Authorization") == "Bearer new")
                return accepts_and_sends(stream_message(1, "hi") + success())(asked);
              std::ofstream(file_) << next_;
              return failure(401, "Unauthorized");
            },
            [this](kubernetes::Access& access) { access.account.token_file = file_; }) {}
  ~RenewedToken() { std::filesystem::remove(file_); }
  RenewedToken(const RenewedToken&) = delete;
  RenewedToken& operator=(const RenewedToken&) = delete;

  PodExec& exec() { return exec_; }
  // Returns the header Authorization of each request for the program.
  std::vector<std::string> tokens() {
    std::vector<std::string> tokens;
    for (const Asked& asked : exec_.server().asked())
      if (asked.number > 0) tokens.push_back(request_header(asked, "Authorization"));
    return tokens;
  }

 private:
  static std::string file_of(const std::string& token) {
    std::string file = (std::filesystem::temp_directory_path() / "combu-token-XXXXXX").string();
    ::close(::mkstemp(file.data()));
    std::ofstream(file) << token;
    return file;
  }

  const std::string next_;
  const std::string file_ = file_of("old");
  PodExec exec_;
};

TEST(KubernetesExec, After401TheRequestIsRepeatedOnceWithTheNewToken) {
  RenewedToken good("new");
  EXPECT_EQ(read_to_end(*good.exec().open()).text, "hi");
  EXPECT_THAT(good.tokens(), ElementsAre("Bearer old", "Bearer new"));
  RenewedToken bad("newer");
  const Error error = bad.exec().fault();
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_THAT(error.message(), HasSubstr("does not accept the credentials of the test: Unauthorized"));
  EXPECT_THAT(bad.tokens(), ElementsAre("Bearer old", "Bearer newer"));
}

TEST(KubernetesExec, AnAnswerThatIsNoWebSocketIsUnavailable) {
  const auto edited = [](const std::string& from, const std::string& to) {
    return [=](const Asked& asked) {
      std::string head = accepting(asked);
      return cut(head.replace(head.find(from), from.size(), to));
    };
  };
  const std::map<std::string, ScriptedDaemon::Handler> answers{
      {"no HTTP", [](const Asked&) { return cut("SSH-2.0-OpenSSH_9.2\r\n\r\n"); }},
      {"nothing", [](const Asked&) { return hang_up(); }},
      {"status 200", [](const Asked&) { return whole(200, "welcome"); }},
      {"status 204", [](const Asked&) { return bare(204); }},
      {"body is cut", [](const Asked&) { return cut("HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\nabc"); }},
      {"endless head", [](const Asked&) { return endless("HTTP/1.1 101 Yes\r\n", "X-A: 1234567890\r\n"); }},
      {"endless body",
       [](const Asked&) { return endless("HTTP/1.1 500 No\r\n\r\n", std::string(65536, 'x')); }},
      {"accept of another key", [](const Asked&) { return cut(accepting({})); }},
      {"no accept", edited("Sec-WebSocket-Accept", "X")},
      {"another protocol", edited("websocket", "SPDY/3.1")},
      {"no upgrade", edited("Upgrade: websocket\r\n", "")},
  };
  for (const auto& [what, answer] : answers) {
    PodExec exec(answer);
    EXPECT_EQ(exec.fault().kind(), ErrorKind::unavailable) << what;
    EXPECT_EQ(exec.server().asked().size(), 2U) << what;
  }
}

TEST(KubernetesExec, AStopEndsAHandshakeThatIsNotAnswered) {
  PodExec exec([](const Asked&) { return stall(); });
  std::stop_source stop;
  std::future<Error> error = std::async(
      std::launch::async, [&] { return error_in([&] { (void)exec.open({"cat"}, stop.get_token()); }); });
  exec.server().wait_for_requests(2);
  const auto begin = SteadyClock::now();
  stop.request_stop();
  EXPECT_EQ(error.get().kind(), ErrorKind::cancelled);
  EXPECT_LT(SteadyClock::now() - begin, k_promptly);
}

// ---- The streams

TEST(KubernetesExec, TheInputArrivesMaskedOnItsStream) {
  std::promise<std::vector<ClientFrame>> received;
  PodExec exec(accepts([&](int connection) {
    std::vector<ClientFrame> frames;
    for (std::size_t size = 0; size < 300'001; size += frames.back().payload.size() - 1)
      frames.push_back(take_frame(connection).value());
    received.set_value(std::move(frames));
    put(connection, success());
  }));
  const std::string bytes = pattern_of(300'000);
  const std::unique_ptr<ByteStream> stream = exec.open();
  stream->write("");
  stream->write(bytes);
  stream->write("!");
  EXPECT_FALSE(read_to_end(*stream).error);
  std::string input;
  for (const ClientFrame& frame : received.get_future().get()) {
    EXPECT_EQ(frame.first, k_binary);
    EXPECT_TRUE(frame.is_masked);
    EXPECT_EQ(frame.payload.substr(0, 1), std::string(1, '\0'));
    input += frame.payload.substr(1);
  }
  EXPECT_TRUE(input == bytes + "!");
}

TEST(KubernetesExec, OutputAndErrorsAreSeparate) {
  const std::string bytes = stream_message(1, "one") + stream_message(2, "bad\n") + stream_message(1, "") +
                            stream_message(1, "two") + stream_message(2, "\x1fnews ") + success();
  for (const std::size_t step : {1U, 2U, 5U, 100U}) {
    PodExec exec(accepts_and_sends(bytes));
    const std::unique_ptr<ByteStream> stream = exec.open();
    const ReadBytes all = read_to_end(*stream, step);
    EXPECT_EQ(all.text, "onetwo");
    EXPECT_FALSE(all.error);
    EXPECT_EQ(stream->errors(), "bad news");
    EXPECT_EQ(error_in([&] { stream->write("x"); }).kind(), ErrorKind::unavailable);
  }
}

TEST(KubernetesExec, KeepsTheEndOfTheStandardError) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += stream_message(2, "line " + std::to_string(i) + "\n");
  PodExec exec(accepts_and_sends(bytes + success()));
  const std::unique_ptr<ByteStream> stream = exec.open();
  EXPECT_EQ(read_to_end(*stream).text, "");
  EXPECT_LE(stream->errors().size(), 500U);
  EXPECT_TRUE(stream->errors().ends_with("line 998 line 999")) << stream->errors();
}

TEST(KubernetesExec, TheStatusGivesTheExitCode) {
  for (const auto& [status, code] : {std::pair{success(), "0"},
                                     {exit_status("3"), "3"},
                                     {exit_status("x"), "-1"},
                                     {status_message({{"reason", "NonZeroExitCode"}}), "-1"}}) {
    PodExec exec(accepts_and_sends(stream_message(1, "out") + status));
    const std::unique_ptr<ByteStream> stream = exec.open();
    const ReadBytes all = read_to_end(*stream);
    EXPECT_EQ(all.text, "out");
    EXPECT_FALSE(all.error);
    EXPECT_EQ(stream->errors(), std::string("the program has ended with exit code ") + code);
  }
}

TEST(KubernetesExec, AProgramThatCannotBeStartedIsRefusedOnce) {
  const json failure = {
      {"status", "Failure"}, {"reason", "InternalError"}, {"message", "exec failed:\n\"x\" not found"}};
  const std::string nothing = "the node has not started the program";
  for (const auto& [status, message] :
       {std::pair{failure.dump(), std::string("exec failed: \"x\" not found")},
        {R"({"status": "Failure"})", nothing},
        {"{", nothing},
        {"", nothing},
        {"[1]", nothing},
        {R"({"status": 7, "message": []})", nothing}}) {
    PodExec exec(accepts_and_sends(stream_message(1, "out") + stream_message(3, status)));
    const std::unique_ptr<ByteStream> stream = exec.open();
    const ReadBytes all = read_to_end(*stream);
    EXPECT_EQ(all.text, "out") << status;
    ASSERT_TRUE(all.error) << status;
    EXPECT_EQ(all.error->kind(), ErrorKind::refused);
    EXPECT_EQ(all.error->subject(), "a");
    EXPECT_EQ(all.error->message(), message);
    EXPECT_EQ(stream->errors(), message);
    EXPECT_FALSE(read_to_end(*stream).error);
  }
}

// ---- Broken streams

TEST(KubernetesExec, AStreamThatIsCutAnywhereHasNoNormalEnd) {
  const std::vector<std::pair<std::string, std::string>> messages{
      {stream_message(1, "one"), "one"},
      {server_frame(k_ping, "still there"), ""},
      {stream_message(2, "bad"), ""},
      {stream_message(1, std::string(130, 'x')), std::string(130, 'x')},
      {server_frame(0x02,
                    "\x01"
                    "fir"),
       ""},
      {server_frame(0x80, "st"), "first"},
      {success(), ""},
  };
  std::string bytes;
  for (const auto& [message, text] : messages) bytes += message;
  const std::size_t head = accepting({}).size();
  std::atomic<std::size_t> size = 0;
  PodExec exec([&](const Asked& asked) { return cut((accepting(asked) + bytes).substr(0, size)); });
  for (; size < head; ++size)
    EXPECT_EQ(exec.fault().kind(), ErrorKind::unavailable) << "cut after " << size << " bytes";
  for (; size < head + bytes.size(); ++size) {
    std::string text;
    std::size_t end = head;
    for (const auto& [message, added] : messages)
      if ((end += message.size()) <= size) text += added;
    const std::unique_ptr<ByteStream> stream = exec.open();
    expect_cut(read_to_end(*stream), text, "cut after " + std::to_string(size) + " bytes");
    EXPECT_EQ(read_to_end(*stream).text, "");
  }
  const std::unique_ptr<ByteStream> stream = exec.open();
  EXPECT_FALSE(read_to_end(*stream).error);
}

TEST(KubernetesExec, AMalformedFrameIsUnavailable) {
  const std::string payload("\x01xyz");
  const std::map<std::string, std::string> frames{
      {"masked", "\x82\x84" + std::string(4, '\0') + payload},
      {"reserved bit", server_frame(0xC2, payload)},
      {"reserved opcode", server_frame(0x83, payload)},
      {"reserved control opcode", server_frame(0x8B, payload)},
      {"continuation of nothing", server_frame(0x80, payload)},
      {"message within a message", server_frame(0x02, payload) + server_frame(k_binary, payload)},
      {"ping in fragments", server_frame(0x09, payload)},
      {"long ping", server_frame(k_ping, std::string(126, 'x'))},
      {"text that is not UTF-8", server_frame(k_text, "\x01\xFF")},
      {"length in a longer form", "\x82\x7E" + big_endian(payload.size(), 2) + payload},
      {"17 MiB", frame_header(k_binary, 17 * k_mebibyte) + payload},
      {"2^40 bytes", frame_header(k_binary, std::uint64_t{1} << 40U) + payload},
      {"2^63 bytes", frame_header(k_binary, std::uint64_t{1} << 63U) + payload},
      {"2^64 - 1 bytes", frame_header(k_binary, ~std::uint64_t{0}) + payload},
      {"closed", server_frame(k_closing, "")},
      {"closed with a code", server_frame(k_closing, big_endian(1000, 2) + "bye")},
      {"closed with half a code", server_frame(k_closing, "x")},
  };
  for (const auto& [what, frame] : frames) {
    // The server keeps the connection.
    PodExec exec(accepts([bytes = stream_message(1, "before") + frame](int connection) {
      put(connection, bytes);
      take_all(connection, [](std::string_view) {});
    }));
    const std::unique_ptr<ByteStream> stream = exec.open();
    const auto begin = SteadyClock::now();
    expect_cut(read_to_end(*stream), "before", what);
    EXPECT_LT(SteadyClock::now() - begin, k_promptly) << what;
  }
}

TEST(KubernetesExec, UnusualMessagesAreAccepted) {
  const std::map<std::string, std::string> frames{
      {"text", server_frame(k_text,
                            "\x01"
                            "after")},
      {"fragments", server_frame(0x02, "") +
                        server_frame(0x00,
                                     "\x01"
                                     "a") +
                        server_frame(0x00, "") + server_frame(k_ping, "") + server_frame(0x00, "ft") +
                        server_frame(0x80, "er")},
      {"empty", server_frame(k_binary, "") + stream_message(1, "after")},
      {"empty output", stream_message(1, "") + stream_message(2, "") + stream_message(1, "after")},
      {"unknown streams", stream_message(7, "x") + stream_message(0, "x") + stream_message(255, "x") +
                              stream_message(1, "after")},
      {"pong", server_frame(k_pong, "x") + stream_message(1, "after")},
  };
  for (const auto& [what, frame] : frames) {
    PodExec exec(accepts_and_sends(stream_message(1, "before ") + frame + success()));
    const std::unique_ptr<ByteStream> stream = exec.open();
    const ReadBytes all = read_to_end(*stream);
    EXPECT_EQ(all.text, "before after") << what;
    EXPECT_FALSE(all.error) << what;
  }
}

TEST(KubernetesExec, APingIsAnswered) {
  std::promise<std::optional<ClientFrame>> received;
  PodExec exec(accepts([&](int connection) {
    put(connection, server_frame(k_ping, "hello"));
    received.set_value(take_frame(connection));
    put(connection, success());
  }));
  EXPECT_FALSE(read_to_end(*exec.open()).error);
  const std::optional<ClientFrame> answer = received.get_future().get();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->first, k_pong);
  EXPECT_TRUE(answer->is_masked);
  EXPECT_EQ(answer->payload, "hello");
}

// ---- Large streams

TEST(KubernetesExec, ManySmallMessagesAndALargeMessageArrive) {
  const std::string large = pattern_of(8 * k_mebibyte);
  std::string bytes;
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    bytes += stream_message(1, std::to_string(i));
    text += std::to_string(i);
  }
  PodExec exec(accepts_and_sends(bytes + stream_message(1, large) + stream_message(1, "end") + success()));
  const std::unique_ptr<ByteStream> stream = exec.open();
  const ReadBytes all = read_to_end(*stream, 100'000);
  EXPECT_TRUE(all.text == text + large + "end");
  EXPECT_FALSE(all.error);
}

TEST(KubernetesExec, ASlowReaderStopsTheServer) {
  constexpr std::size_t k_messages = 1000;
  const std::string text = pattern_of(std::size_t{48} << 10U);
  std::promise<std::size_t> sent_at_stop;
  PodExec exec(accepts([&](int connection) {
    const std::string message = stream_message(1, text);
    bool is_stopped = false;
    for (std::size_t i = 0; i < k_messages; ++i) {
      // The client has stopped reading if the connection takes no byte for some time.
      pollfd writable{connection, POLLOUT, 0};
      if (!is_stopped && ::poll(&writable, 1, 300) == 0) {
        is_stopped = true;
        sent_at_stop.set_value(i * message.size());
      }
      if (!put(connection, message)) return;
    }
    if (!is_stopped) sent_at_stop.set_value(k_messages * message.size());
    put(connection, success());
  }));
  const std::unique_ptr<ByteStream> stream = exec.open();
  // 1 MiB, one message, and the buffers of the kernel.
  EXPECT_LT(sent_at_stop.get_future().get(), 24 * k_mebibyte);
  const ReadBytes all = read_to_end(*stream, 100'000);
  EXPECT_FALSE(all.error);
  ASSERT_EQ(all.text.size(), k_messages * text.size());
  for (std::size_t i = 0; i < k_messages; ++i)
    ASSERT_TRUE(std::string_view(all.text).substr(i * text.size(), text.size()) == text) << i;
}

TEST(KubernetesExec, ManyBytesPassInBothDirectionsAtOnce) {
  PodExec exec(accepts([&](int connection) {
    while (const auto frame = take_frame(connection)) {
      if (frame->first != k_binary) return;
      put(connection, stream_message(1, frame->payload.substr(1)));
    }
  }));
  const std::unique_ptr<ByteStream> stream = exec.open();
  expect_echo(*stream, pattern_of(8 * k_mebibyte));
}

// A program that does not read its input may end before combu has written all of it.
TEST(KubernetesExec, AWriteThatFailsLosesNoOutput) {
  const std::string first = pattern_of(k_mebibyte);
  PodExec exec(accepts([&](int connection) {
    (void)take_bytes(connection, 1);  // the client writes
    put(connection, stream_message(1, first) + stream_message(1, "rest") + success());
    int unacknowledged = 1;
    while (unacknowledged > 0 && ::ioctl(connection, SIOCOUTQ, &unacknowledged) == 0)
      std::this_thread::yield();
    ::shutdown(connection, SHUT_RD);
    const linger reset{.l_onoff = 1, .l_linger = 0};  // the writes of the client fail
    ::setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }));
  const std::unique_ptr<ByteStream> stream = exec.open();
  (void)error_of([&] { stream->write(std::string(32 * k_mebibyte, 'x')); });
  const ReadBytes all = read_to_end(*stream, 100'000);
  EXPECT_TRUE(all.text == first + "rest") << all.text.size();
  EXPECT_FALSE(all.error);
}

// ---- close()

TEST(KubernetesExec, CloseSendsTheRestOfTheInputAndTheEnd) {
  std::promise<std::vector<ClientFrame>> sent;
  PodExec exec(accepts([&](int connection) {
    std::vector<ClientFrame> frames;
    while (auto frame = take_frame(connection)) {
      frames.push_back(*std::move(frame));
      if (frames.back().first == k_closing) put(connection, server_frame(k_closing, big_endian(1000, 2)));
    }
    sent.set_value(std::move(frames));
  }));
  {
    const std::unique_ptr<ByteStream> stream = exec.open();
    stream->write("last words");
    stream->close();
    stream->close();
    EXPECT_EQ(error_in([&] { stream->write("x"); }).kind(), ErrorKind::unavailable);
    EXPECT_EQ(read_to_end(*stream).text, "");
  }
  const std::vector<ClientFrame> frames = sent.get_future().get();
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].payload, std::string(1, '\0') + "last words");
  EXPECT_EQ(frames[1].first, k_closing);
  EXPECT_EQ(frames[1].payload, big_endian(1000, 2));
}

// close() at a random moment of a write.
TEST(KubernetesExec, CloseAfterEachWriteEnds) {
  PodExec exec(accepts([&](int connection) {
    while (const auto frame = take_frame(connection))
      if (frame->first == k_closing) return;
  }));
  for (int i = 0; i < 200; ++i) {
    const std::unique_ptr<ByteStream> stream = exec.open();
    stream->write("x");
    if (i % 2 == 0) std::this_thread::yield();
    stream->close();
  }
}

// Closes the stream while a thread reads and another thread writes. The server sends `bytes`, and reads
// nothing.
void expect_prompt_close(const std::string& bytes) {
  std::promise<void> finished;
  PodExec exec(accepts([&, finish = finished.get_future().share()](int connection) {
    put(connection, bytes);
    finish.wait();
  }));
  const std::shared_ptr<void> at_end(nullptr, [&](void*) { finished.set_value(); });
  std::unique_ptr<ByteStream> stream = exec.open();
  std::future<ReadBytes> reader = std::async(std::launch::async, [&] { return read_to_end(*stream); });
  std::future<std::optional<Error>> writer = std::async(std::launch::async, [&] {
    const std::string input(64 * k_mebibyte, 'x');
    return error_of([&] { stream->write(input); });
  });
  EXPECT_EQ(writer.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(reader.wait_for(std::chrono::milliseconds(0)), std::future_status::timeout);
  EXPECT_EQ(stream->errors(), "");
  const auto begin = SteadyClock::now();
  stream->close();
  EXPECT_FALSE(reader.get().error);
  const std::optional<Error> error = writer.get();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
  stream.reset();
  EXPECT_LT(SteadyClock::now() - begin, k_promptly);
}

TEST(KubernetesExec, CloseEndsABlockedReadAndABlockedWrite) {
  expect_prompt_close("");
}

TEST(KubernetesExec, CloseEndsAReadInTheMiddleOfAMessage) {
  expect_prompt_close(frame_header(k_binary, 1000) + "\x01 half");
}

TEST(KubernetesExec, TheDestructorEndsAStreamThatNobodyHasRead) {
  std::promise<void> finished;
  PodExec exec(accepts([&, finish = finished.get_future().share()](int connection) {
    put(connection, stream_message(1, std::string(2 * k_mebibyte, 'x')));
    finish.wait();
  }));
  const std::shared_ptr<void> at_end(nullptr, [&](void*) { finished.set_value(); });
  std::unique_ptr<ByteStream> stream = exec.open();
  std::array<char, 1> buffer{};
  EXPECT_EQ(stream->read(buffer), 1U);
  const auto begin = SteadyClock::now();
  stream.reset();
  EXPECT_LT(SteadyClock::now() - begin, k_promptly);
}

}  // namespace
}  // namespace combu::wire
