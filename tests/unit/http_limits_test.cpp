// Responses that are endless or arrive too slowly. Each one ends with an error that names the limit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "combu/http.hpp"
#include "unit/http_request.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu {
namespace {

using test::get;
using wire::Asked;
using wire::Reply;
using wire::ScriptedDaemon;

const std::string k_chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

class HttpLimits : public testing::TestWithParam<ScriptedDaemon::Kind> {
 protected:
  // Returns the error of sending `request` to a daemon that answers with `reply`.
  static std::optional<Error> error_of(const Reply& reply, const HttpRequest& request) {
    ScriptedDaemon daemon([&](const Asked&) { return reply; }, GetParam());
    Channel channel(parse_address(daemon.address()));
    try {
      channel.send(request);
    } catch (const Error& error) {
      EXPECT_EQ(error.subject(), daemon.address());
      return error;
    }
    return std::nullopt;
  }

  static void expect_corrupt(const Reply& reply, const HttpRequest& request, const std::string& message) {
    const std::optional<Error> error = error_of(reply, request);
    ASSERT_TRUE(error) << message;
    EXPECT_EQ(error->kind(), ErrorKind::corrupt);
    EXPECT_EQ(error->message(), message);
  }
};
INSTANTIATE_TEST_SUITE_P(, HttpLimits,
                         testing::Values(ScriptedDaemon::Kind::unix_socket, ScriptedDaemon::Kind::tcp),
                         [](const testing::TestParamInfo<ScriptedDaemon::Kind>& kind) {
                           return kind.param == ScriptedDaemon::Kind::tcp ? "tcp" : "unix";
                         });

TEST_P(HttpLimits, AStoredBodyIsLimited) {
  const std::string text(64 << 10, 'x');
  const std::string piece = wire::chunk(text);
  for (const int status : {200, 500}) {
    const std::string head = "HTTP/1.1 " + std::to_string(status) + " Word\r\n";
    for (const Reply& reply :
         {wire::endless(head + "Content-Length: 10000000000\r\n\r\n", text),
          wire::endless(head + "Transfer-Encoding: chunked\r\n\r\n", piece),
          wire::endless(head + "\r\n", text)})  // the end of the connection ends the body
      expect_corrupt(reply, get("/big?query"), "the answer to GET /big is larger than 16 MiB");
  }
  HttpRequest request = get("/big");
  request.body_max = text.size();
  EXPECT_FALSE(error_of(wire::whole(200, text), request));
  expect_corrupt(wire::whole(200, text + "x"), request, "the answer to GET /big is larger than 64 KiB");
}

TEST_P(HttpLimits, AStreamedBodyIsLimitedOnlyInARefusal) {
  HttpRequest request = get("/stream");
  std::size_t come = 0;
  request.sink = [&](std::string_view bytes) {
    come += bytes.size();
    return come < std::size_t{64} << 20U;
  };
  const std::string text(64 << 10, 'x');
  const std::optional<Error> error = error_of(wire::endless(k_chunked, wire::chunk(text)), request);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::cancelled) << "by the sink";
  expect_corrupt(wire::endless("HTTP/1.1 500 Word\r\n\r\n", text), request,
                 "the answer to GET /stream is larger than 16 MiB");
}

TEST_P(HttpLimits, HeadersAndFramingAreLimited) {
  const std::string line = "X-Header: " + std::string(1000, 'x') + "\r\n";
  const std::string letters(1000, 'x');
  const std::string headers = "the answer to GET / has more than 256 KiB of headers";
  const std::string framing = "the answer to GET / has more than 256 KiB of chunk sizes or trailers";
  const std::string cut_off = k_chunked.substr(0, k_chunked.size() - 2);
  expect_corrupt(wire::endless(cut_off, line), get("/"), headers);
  expect_corrupt(wire::endless(cut_off + "X-Header: ", letters), get("/"), headers);
  expect_corrupt(wire::endless("HTTP/1.1 200 ", letters), get("/"), headers);
  expect_corrupt(wire::endless("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"), get("/"),
                 headers);
  expect_corrupt(wire::endless(k_chunked + "1;", letters), get("/"), framing);
  expect_corrupt(wire::endless(k_chunked + wire::chunk("abc") + "1;", letters), get("/"), framing);
  // Some versions of cpp-httplib refuse trailers.
  EXPECT_TRUE(error_of(wire::endless(k_chunked + "0\r\n", line), get("/")));
}

TEST_P(HttpLimits, AResponseMayArriveByteByByte) {
  ScriptedDaemon daemon(
      [](const Asked& asked) {
        return wire::dripped(asked.target == "/chunked"
                                 ? wire::ended(wire::stream({"ab", "c"}, Reply::Then::keep))
                                 : wire::whole(200, "abc", "X-More: y\r\n"));
      },
      GetParam());
  Channel channel(parse_address(daemon.address()));
  EXPECT_EQ(channel.send(get("/whole")).body, "abc");
  EXPECT_EQ(channel.send(get("/whole")).header("x-more"), "y");
  EXPECT_EQ(channel.send(get("/chunked")).body, "abc");
  EXPECT_EQ(daemon.connections(), 1U);
}

TEST_P(HttpLimits, AResponseThatArrivesTooSlowlyIsATimeout) {
  HttpRequest request = get("/slow");
  request.answer_max = Seconds{0.05};
  for (const Reply& reply :
       {wire::endless(k_chunked, wire::chunk("a")), wire::endless("HTTP/1.1 200 OK\r\n\r\n", "a")}) {
    const std::optional<Error> error = error_of(reply, request);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::timeout);
    EXPECT_EQ(error->message(), "the answer to GET /slow was not complete within 50 ms");
  }
}

TEST_P(HttpLimits, AStopEndsAnEndlessResponse) {
  HttpRequest request = get("/stream");
  request.answer_max = std::nullopt;
  std::stop_source stop;
  std::size_t pieces = 0;
  request.sink = [&](std::string_view) {
    if (++pieces == 100) stop.request_stop();
    return true;
  };
  ScriptedDaemon daemon([](const Asked&) { return wire::endless(k_chunked, wire::chunk("a")); }, GetParam());
  Channel channel(parse_address(daemon.address()));
  try {
    channel.send(request, stop.get_token());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  }
}

}  // namespace
}  // namespace combu
