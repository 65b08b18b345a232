// Channel::upgrade() and RawConnection.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "combu/http.hpp"
#include "error_of.hpp"
#include "unit/http_request.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu {
namespace {

using test::error_of;
using test::get;
using wire::Asked;
using wire::Reply;
using wire::ScriptedDaemon;

HttpRequest upgrade_request() {
  HttpRequest request = get("/exec/1/start");
  request.method = "POST";
  request.headers = {{"Connection", "Upgrade"}, {"Upgrade", "tcp"}};
  request.body = "{}";
  return request;
}

class Upgrade : public testing::TestWithParam<ScriptedDaemon::Kind> {
 protected:
  // Opens a connection to a daemon that answers with `reply`.
  Upgraded upgrade(Reply reply, const HttpRequest& request = upgrade_request(), std::stop_token stop = {}) {
    daemon_ = std::make_unique<ScriptedDaemon>([reply = std::move(reply)](const Asked&) { return reply; },
                                               GetParam());
    return Channel(parse_address(daemon_->address())).upgrade(request, stop);
  }
  std::unique_ptr<RawConnection> open(Reply reply) {
    Upgraded upgraded = upgrade(std::move(reply));
    EXPECT_TRUE(upgraded.connection);
    return std::move(upgraded.connection);
  }
  [[nodiscard]] ScriptedDaemon& daemon() const { return *daemon_; }

  static std::string read(RawConnection& connection, std::size_t size) {
    std::string text(size, '\0');
    std::size_t filled = 0;
    while (filled < size) {
      const std::size_t count = connection.read(std::span(text).subspan(filled));
      if (count == 0) break;
      filled += count;
    }
    text.resize(filled);
    return text;
  }

 private:
  std::unique_ptr<ScriptedDaemon> daemon_;
};
INSTANTIATE_TEST_SUITE_P(, Upgrade,
                         testing::Values(ScriptedDaemon::Kind::unix_socket, ScriptedDaemon::Kind::tcp),
                         [](const testing::TestParamInfo<ScriptedDaemon::Kind>& kind) {
                           return kind.param == ScriptedDaemon::Kind::tcp ? "tcp" : "unix";
                         });

const std::string k_101 = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";

Reply echo() {
  return wire::upgraded([](int connection) {
    wire::take_all(connection, [&](std::string_view bytes) { wire::put(connection, bytes); });
  });
}

TEST_P(Upgrade, PassesBytesInBothDirections) {
  const std::unique_ptr<RawConnection> connection = open(echo());
  EXPECT_THAT(daemon().asked().at(0).head, testing::HasSubstr("Upgrade: tcp\r\n"));
  EXPECT_EQ(daemon().asked().at(0).body, "{}");
  for (const std::string text : {"one", "GET / HTTP/1.1\r\n\r\n", "three"}) {
    connection->write(text);
    EXPECT_EQ(read(*connection, text.size()), text);
  }
  connection->close();
}

TEST_P(Upgrade, KeepsTheBytesThatFollowTheHeaders) {
  for (const std::string& head : {k_101, std::string("HTTP/1.1 200 OK\r\nContent-Type: x\r\n\r\n")}) {
    for (const Reply& reply :
         {wire::cut(head + "first second"), Reply{{head, "first", " second"}, Reply::Then::close},
          wire::dripped(wire::cut(head + "first second"))}) {
      const std::unique_ptr<RawConnection> connection = open(reply);
      EXPECT_EQ(read(*connection, 3), "fir");
      EXPECT_EQ(read(*connection, 100), "st second");
      EXPECT_EQ(read(*connection, 100), "");
    }
  }
}

TEST_P(Upgrade, ARefusalIsAnAnswer) {
  const Upgraded upgraded = upgrade(wire::whole(409, "no"));
  EXPECT_FALSE(upgraded.connection);
  EXPECT_EQ(upgraded.response.status, 409);
  EXPECT_EQ(upgraded.response.body, "no");
}

TEST_P(Upgrade, FiftyMebibytesPassInBothDirectionsAtOnce) {
  const std::unique_ptr<RawConnection> connection = open(echo());
  std::string bytes(std::size_t{50} << 20U, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i >> 7U);
  std::jthread writer([&] { connection->write(bytes); });
  EXPECT_TRUE(read(*connection, bytes.size()) == bytes);
  connection->close();
}

TEST_P(Upgrade, CloseEndsABlockedReadAndABlockedWrite) {
  // The server reads nothing. It does not wait for the end of the stream either: over TCP, the end follows
  // the bytes that the server does not read.
  std::promise<void> is_over;
  const std::unique_ptr<RawConnection> connection =
      open(wire::upgraded([over = is_over.get_future().share()](int) { over.wait(); }));
  std::future<std::string> reader = std::async(std::launch::async, [&] { return read(*connection, 1); });
  std::future<std::optional<Error>> writer = std::async(std::launch::async, [&] {
    const std::string bytes(std::size_t{64} << 20U, 'x');
    return error_of([&] { connection->write(bytes); });
  });
  EXPECT_EQ(writer.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  connection->close();
  EXPECT_EQ(reader.get(), "");
  const std::optional<Error> error = writer.get();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
  EXPECT_EQ(error->subject(), daemon().address());
  EXPECT_TRUE(error_of([&] { connection->write("x"); }));
  EXPECT_EQ(read(*connection, 1), "");
  is_over.set_value();
}

TEST_P(Upgrade, AWriteAfterTheOtherSideClosedIsUnavailable) {
  const std::unique_ptr<RawConnection> connection = open(wire::upgraded([](int) {}));
  EXPECT_EQ(read(*connection, 1), "");
  std::optional<Error> error;
  while (!error) error = error_of([&] { connection->write("x"); });
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
}

TEST_P(Upgrade, ACutHeadIsUnavailable) {
  for (std::size_t size = 0; size < k_101.size(); size += 7) {
    const auto error = error_of([&] { (void)upgrade(wire::cut(k_101.substr(0, size))); });
    ASSERT_TRUE(error) << size;
    EXPECT_EQ(error->kind(), size == 0 || size >= 7 ? ErrorKind::unavailable : ErrorKind::corrupt) << size;
  }
}

TEST_P(Upgrade, AHeadWithoutEndIsCorrupt) {
  const auto error = error_of([&] {
    (void)upgrade(
        wire::endless(k_101.substr(0, k_101.size() - 2), "X-More: " + std::string(1000, 'x') + "\r\n"));
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::corrupt);
  EXPECT_EQ(error->message(), "the answer to POST /exec/1/start has more than 256 KiB of headers");
}

TEST_P(Upgrade, SilenceIsATimeoutAndAStopCancels) {
  HttpRequest request = upgrade_request();
  request.silence_max = Seconds{0.05};
  const auto late = error_of([&] { (void)upgrade(wire::stall(), request); });
  ASSERT_TRUE(late);
  EXPECT_EQ(late->kind(), ErrorKind::timeout);
  std::stop_source stop;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop.request_stop();
  });
  const auto cancelled = error_of([&] { (void)upgrade(wire::stall(), upgrade_request(), stop.get_token()); });
  ASSERT_TRUE(cancelled);
  EXPECT_EQ(cancelled->kind(), ErrorKind::cancelled);
}

// The time limits of the request do not hold for the connection.
TEST_P(Upgrade, AQuietConnectionStaysOpen) {
  HttpRequest request = upgrade_request();
  request.silence_max = Seconds{0.1};
  request.answer_max = Seconds{0.1};
  const Upgraded upgraded = upgrade(wire::upgraded([](int connection) {
                                      std::this_thread::sleep_for(std::chrono::milliseconds(300));
                                      wire::put(connection, "late");
                                    }),
                                    request);
  ASSERT_TRUE(upgraded.connection);
  EXPECT_EQ(read(*upgraded.connection, 4), "late");
}

TEST_P(Upgrade, TheChannelOpensAnotherConnectionAfterwards) {
  ScriptedDaemon server(
      [](const Asked& asked) { return asked.method == "POST" ? echo() : wire::whole(200, "x"); }, GetParam());
  Channel channel(parse_address(server.address()));
  EXPECT_EQ(channel.send(get("/")).body, "x");
  const Upgraded upgraded = channel.upgrade(upgrade_request());
  ASSERT_TRUE(upgraded.connection);
  EXPECT_EQ(channel.send(get("/")).body, "x");
  upgraded.connection->write("still open");
  EXPECT_EQ(read(*upgraded.connection, 10), "still open");
  upgraded.connection->close();
  EXPECT_EQ(server.connections(), 2U);
}

}  // namespace
}  // namespace combu
