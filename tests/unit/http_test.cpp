#include "combu/http.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "unit/http_request.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu {
namespace {

using test::get;
using testing::ElementsAre;
using testing::HasSubstr;
using wire::Asked;
using wire::Reply;
using wire::ScriptedDaemon;

// Returns the error of sending `request` to `address`. Fails the test if there is no error.
Error failure(const std::string& address, const HttpRequest& request, const std::stop_token& stop = {}) {
  Channel channel(parse_address(address));
  try {
    channel.send(request, stop);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorKind::invalid, "", ""};
}

TEST(ParseAddress, ReadsTheFormsThatDockerUses) {
  EXPECT_EQ(parse_address("unix:///run/docker.sock").path, "/run/docker.sock");
  EXPECT_EQ(parse_address("tcp://127.0.0.1:2375").port, 2375);
  EXPECT_EQ(parse_address("http://localhost:80/").host, "localhost");
  EXPECT_EQ(parse_address("tcp://[::1]:2375").text(), "tcp://[::1]:2375");
}

TEST(ParseAddress, ErrorsNameUnsupportedSchemes) {
  for (const std::string text : {"ssh://host", "https://host:2376"}) {
    try {
      (void)parse_address(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid);
      EXPECT_EQ(error.subject(), text);
      EXPECT_THAT(error.message(), HasSubstr("not supported yet"));
    }
  }
}

TEST(ParseAddress, RefusesNonsense) {
  for (const std::string text : {"", "docker.sock", "unix://relative", "tcp://host", "tcp://host:0",
                                 "tcp://host:70000", "tcp://:80", "tcp://host:80/path"}) {
    EXPECT_THROW((void)parse_address(text), Error) << text;
  }
}

TEST(PercentEncode, LeavesOnlyUnreservedCharacters) {
  EXPECT_EQ(percent_encode("aZ9-._~"), "aZ9-._~");
  EXPECT_EQ(percent_encode("a/b:c d\xc3\xa9{\""), "a%2Fb%3Ac%20d%C3%A9%7B%22");
}

class ChannelTest : public testing::TestWithParam<ScriptedDaemon::Kind> {};
INSTANTIATE_TEST_SUITE_P(, ChannelTest,
                         testing::Values(ScriptedDaemon::Kind::unix_socket, ScriptedDaemon::Kind::tcp));

TEST_P(ChannelTest, SendsAndReadsOverOneConnection) {
  ScriptedDaemon daemon([](const Asked& asked) { return wire::whole(201, asked.body + "!"); }, GetParam());
  Channel channel(parse_address(daemon.address()));
  HttpRequest request;
  request.method = "POST";
  request.target = "/a%20b?c=d%2Ce";
  request.body = "hello";
  for (int i = 0; i < 3; ++i) {
    const HttpResponse response = channel.send(request);
    EXPECT_EQ(response.status, 201);
    EXPECT_EQ(response.body, "hello!");
    EXPECT_EQ(response.content_type, "application/json");
  }
  EXPECT_EQ(daemon.connections(), 1U);
  EXPECT_EQ(daemon.asked().front().target, "/a%20b?c=d%2Ce");
}

HttpRequest put(std::function<void(const HttpRequest::Send&)> source) {
  HttpRequest request = get("/archive");
  request.method = "PUT";
  request.content_type = "application/x-tar";
  request.source = std::move(source);
  return request;
}

TEST_P(ChannelTest, SendsABodyPieceByPiece) {
  ScriptedDaemon daemon([](const Asked&) { return wire::whole(200, ""); }, GetParam(),
                        ScriptedDaemon::Bodies::whole);
  Channel channel(parse_address(daemon.address()));
  const std::string large(50'000, 'x');
  for (int i = 0; i < 2; ++i) {
    const HttpResponse response = channel.send(put([&](const HttpRequest::Send& send) {
      EXPECT_TRUE(send("one"));
      EXPECT_TRUE(send(""));
      EXPECT_TRUE(send(large));
    }));
    EXPECT_EQ(response.status, 200);
  }
  EXPECT_EQ(daemon.connections(), 1U);
  const Asked asked = daemon.asked().back();
  EXPECT_THAT(asked.head, HasSubstr("Content-Type: application/x-tar\r\n"));
  EXPECT_THAT(asked.head, testing::Not(HasSubstr("Content-Length")));
  EXPECT_EQ(asked.body, wire::chunk("one") + wire::chunk(large.substr(0, 32768)) +
                            wire::chunk(large.substr(32768)) + "0\r\n\r\n");
}

// The daemon stops reading, like an engine whose disk is full.
TEST_P(ChannelTest, AResponseBeforeTheEndOfTheBodyIsRead) {
  ScriptedDaemon daemon([](const Asked&) { return wire::whole(500, "no space left on device"); }, GetParam());
  Channel channel(parse_address(daemon.address()));
  const std::string piece(1 << 20, 'x');
  std::size_t reported = 0;
  constexpr std::size_t k_most = 1000;
  const HttpResponse response = channel.send(put([&](const HttpRequest::Send& send) {
    while (reported < k_most && send(piece)) ++reported;
  }));
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body, "no space left on device");
  EXPECT_LT(reported, k_most);
}

TEST_P(ChannelTest, AnExceptionOfTheSourceIsRethrown) {
  ScriptedDaemon daemon([](const Asked&) { return wire::whole(200, ""); }, GetParam(),
                        ScriptedDaemon::Bodies::whole);
  Channel channel(parse_address(daemon.address()));
  EXPECT_THROW(channel.send(put([](const HttpRequest::Send& send) {
    send("one");
    throw Error(ErrorKind::refused, "/data", "is not there");
  })),
               Error);
  EXPECT_EQ(channel.send(put([](const HttpRequest::Send& send) { send("two"); })).status, 200);
  ASSERT_EQ(daemon.asked().size(), 1U);
  EXPECT_THAT(daemon.asked().front().body, HasSubstr("two"));
}

TEST_P(ChannelTest, AConnectionCutDuringTheBodyIsUnavailable) {
  ScriptedDaemon daemon([](const Asked&) { return wire::hang_up(); }, GetParam());
  const std::string piece(1 << 20, 'x');
  const Error error = failure(daemon.address(), put([&](const HttpRequest::Send& send) {
                                for (int i = 0; i < 1000 && send(piece); ++i) {
                                }
                              }));
  EXPECT_EQ(error.kind(), ErrorKind::unavailable);
}

TEST_P(ChannelTest, StreamsAnAnswerPieceByPiece) {
  ScriptedDaemon daemon(
      [](const Asked&) {
        return wire::ended(wire::stream({"one", "two"}, Reply::Then::keep));
      },
      GetParam());
  Channel channel(parse_address(daemon.address()));
  std::vector<std::string> seen;
  HttpRequest request = get("/");
  request.method = "POST";
  request.on_open = [&] { seen.emplace_back("open"); };
  request.sink = [&](std::string_view piece) {
    seen.emplace_back(piece);
    return true;
  };
  EXPECT_EQ(channel.send(request).body, "");
  EXPECT_THAT(seen, ElementsAre("open", "one", "two"));
}

TEST_P(ChannelTest, TheSinkDoesNotReceiveTheBodyOfARefusal) {
  ScriptedDaemon daemon([](const Asked&) { return wire::whole(500, "no"); }, GetParam());
  Channel channel(parse_address(daemon.address()));
  HttpRequest request = get("/");
  request.sink = [](std::string_view) { return ADD_FAILURE(), true; };
  request.on_open = [] { ADD_FAILURE(); };
  EXPECT_EQ(channel.send(request).body, "no");
}

TEST_P(ChannelTest, AnswersWithoutABodyEndAtOnce) {
  ScriptedDaemon daemon([](const Asked& asked) { return wire::bare(asked.number % 2 == 0 ? 304 : 204); },
                        GetParam());
  Channel channel(parse_address(daemon.address()));
  EXPECT_EQ(channel.send(get("/")).status, 304);
  EXPECT_EQ(channel.send(get("/")).status, 204);
}

TEST_P(ChannelTest, ConnectsAgainAfterTheOtherSideClosed) {
  ScriptedDaemon daemon(
      [](const Asked&) {
        Reply reply = wire::whole(200, "x");
        reply.then = Reply::Then::close;
        return reply;
      },
      GetParam());
  Channel channel(parse_address(daemon.address()));
  EXPECT_EQ(channel.send(get("/1")).body, "x");
  // The daemon may not have closed the connection yet. In that case this call fails, and is not sent twice.
  try {
    EXPECT_EQ(channel.send(get("/2")).body, "x");
    EXPECT_THAT(daemon.lines(), ElementsAre("GET /1", "GET /2"));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
  }
}

TEST_P(ChannelTest, ACutAnswerIsUnavailableAndNotSentAgain) {
  const std::vector<Reply> cuts = {
      wire::hang_up(),
      wire::cut("HTTP/1.1 200 OK\r\nContent-Le"),
      wire::cut("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
      wire::cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
      wire::cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab"),
      wire::cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r"),
      wire::cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"),
      wire::cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n"),
  };
  for (const Reply& cut : cuts) {
    ScriptedDaemon daemon(
        [&](const Asked& asked) { return asked.target == "/cut" ? cut : wire::whole(200, ""); }, GetParam());
    Channel channel(parse_address(daemon.address()));
    channel.send(get("/first"));
    try {
      channel.send(get("/cut"));
      ADD_FAILURE() << testing::PrintToString(cut.pieces);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable) << error.what();
      EXPECT_EQ(error.subject(), daemon.address());
    }
    EXPECT_THAT(daemon.lines(), ElementsAre("GET /first", "GET /cut"));
    EXPECT_EQ(channel.send(get("/again")).status, 200);
  }
}

TEST_P(ChannelTest, AResponseThatIsNotHttpIsCorrupt) {
  ScriptedDaemon daemon([](const Asked&) { return wire::cut("SSH-2.0-OpenSSH_9.2\r\n"); }, GetParam());
  const Error error = failure(daemon.address(), get("/"));
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_EQ(error.message(), "the answer is not HTTP; is this a Docker Engine's address?");
}

TEST_P(ChannelTest, SilenceIsATimeout) {
  for (const Reply& reply : {wire::stall(), wire::stream({"a"}, Reply::Then::stall)}) {
    ScriptedDaemon daemon([&](const Asked&) { return reply; }, GetParam());
    HttpRequest request = get("/slow");
    request.silence_max = Seconds{0.05};
    const Error error = failure(daemon.address(), request);
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
    EXPECT_THAT(error.message(), HasSubstr("/slow was not answered within"));
  }
}

TEST_P(ChannelTest, AStopEndsACallThatWaits) {
  for (const Reply& reply : {wire::stall(), wire::stream({"a"}, Reply::Then::stall)}) {
    ScriptedDaemon daemon([&](const Asked&) { return reply; }, GetParam());
    HttpRequest request = get("/");
    request.silence_max = std::nullopt;
    std::stop_source stop;
    auto result = std::async(std::launch::async,
                             [&] { return failure(daemon.address(), request, stop.get_token()).kind(); });
    daemon.wait_for_requests(1);
    stop.request_stop();
    EXPECT_EQ(result.get(), ErrorKind::cancelled);
  }
}

TEST_P(ChannelTest, AStopEndsACallThatSends) {
  ScriptedDaemon daemon([](const Asked&) { return wire::whole(200, ""); }, GetParam());
  std::stop_source stop;
  const HttpRequest request = put([&](const HttpRequest::Send& send) {
    stop.request_stop();
    while (send("a")) continue;
  });
  EXPECT_EQ(failure(daemon.address(), request, stop.get_token()).kind(), ErrorKind::cancelled);
}

TEST_P(ChannelTest, AStopIsNeverLost) {
  ScriptedDaemon daemon([](const Asked&) { return wire::stall(); }, GetParam());
  HttpRequest request = get("/");
  request.silence_max = std::nullopt;
  for (int i = 0; i < 300; ++i) {
    std::stop_source stop;
    std::atomic<bool> going = false;
    std::thread stopper([&] {
      going = true;
      for (int spin = 0; spin < i * 50; ++spin) going = true;
      stop.request_stop();
    });
    while (!going) std::this_thread::yield();
    EXPECT_EQ(failure(daemon.address(), request, stop.get_token()).kind(), ErrorKind::cancelled);
    stopper.join();
  }
}

TEST_P(ChannelTest, TheCallersOwnErrorsPassThrough) {
  ScriptedDaemon daemon([](const Asked&) { return wire::ended(wire::stream({"a"}, Reply::Then::keep)); },
                        GetParam());
  Channel channel(parse_address(daemon.address()));
  HttpRequest request = get("/");
  request.sink = [](std::string_view) -> bool { throw Error(ErrorKind::corrupt, "mine", "own"); };
  EXPECT_THROW(
      {
        try {
          channel.send(request);
        } catch (const Error& error) {
          EXPECT_EQ(error.subject(), "mine");
          throw;
        }
      },
      Error);
  request.sink = [](std::string_view) { return false; };
  EXPECT_EQ(failure(daemon.address(), request).kind(), ErrorKind::cancelled);
}

TEST(Channel, AnAddressWithoutServerIsUnavailable) {
  const Error absent = failure("unix:///nonexistent/docker.sock", get("/"));
  EXPECT_EQ(absent.kind(), ErrorKind::unavailable);
  EXPECT_EQ(std::string(absent.what()),
            "unix:///nonexistent/docker.sock: the socket cannot be found: No such file or directory; is the "
            "engine running?");
  EXPECT_THAT(failure("unix:///etc/passwd", get("/")).message(), HasSubstr("must be a socket"));
  EXPECT_THAT(failure("unix:///" + std::string(200, 'x'), get("/")).message(), HasSubstr("longer than"));
  EXPECT_EQ(failure("tcp://127.0.0.1:1", get("/")).kind(), ErrorKind::unavailable);
}

}  // namespace
}  // namespace combu
