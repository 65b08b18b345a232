// AgentClient on a stream that the test controls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "error_of.hpp"
#include "workers/agent_client.hpp"

namespace combu::workers {
namespace {

using testing::HasSubstr;

ErrorKind kind_of(const std::function<void()>& call) {
  return test::error_in(call).kind();
}

// Both ends of a connection; the test is the agent.
class Wire {
 public:
  template <class Message>
  void answer(const Message& message) {
    std::string bytes;
    agent::append(bytes, message);
    answer_bytes(bytes);
  }
  void answer_bytes(const std::string& bytes) {
    const std::scoped_lock lock(mutex_);
    to_client_ += bytes;
    changed_.notify_all();
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }
  // Blocks until the client has sent a message of this type, and returns it.
  template <class Message>
  Message expect() {
    std::unique_lock lock(mutex_);
    agent::Frame frame = next(lock);
    while (frame.type != Message::k_type) frame = next(lock);
    Message message;
    EXPECT_TRUE(agent::decode(frame.payload, message));
    return message;
  }
  // Blocks until the client has sent a message, and returns its type.
  agent::FrameType expect_any() {
    std::unique_lock lock(mutex_);
    return next(lock).type;
  }

  class Stream final : public ByteStream {
   public:
    explicit Stream(Wire& wire) : wire_(wire) {}
    std::size_t read(std::span<char> buffer) override {
      std::unique_lock lock(wire_.mutex_);
      wire_.changed_.wait(lock, [&] { return !wire_.to_client_.empty() || wire_.is_closed_; });
      const std::size_t count = std::min(buffer.size(), wire_.to_client_.size());
      std::copy_n(wire_.to_client_.begin(), count, buffer.begin());
      wire_.to_client_.erase(0, count);
      return count;
    }
    void write(std::string_view bytes) override {
      std::unique_lock lock(wire_.mutex_);
      wire_.changed_.wait(lock, [&] { return !wire_.is_frozen || wire_.is_closed_; });
      if (wire_.is_closed_) throw Error(ErrorKind::unavailable, "wire", "closed");
      wire_.from_client_ += bytes;
      wire_.changed_.notify_all();
    }
    void close() override { wire_.end(); }
    std::string errors() override { return wire_.errors; }

   private:
    Wire& wire_;
  };

  std::string errors;
  bool is_frozen = false;  // a write blocks until the client closes the connection

 private:
  agent::Frame next(std::unique_lock<std::mutex>& lock) {
    agent::Frame frame;
    while (reader_.next(frame) != agent::FrameReader::Result::frame) {
      changed_.wait(lock, [&] { return !from_client_.empty() || is_closed_; });
      if (from_client_.empty()) throw Error(ErrorKind::unavailable, "test", "the client has closed");
      reader_.feed(std::exchange(from_client_, {}));
    }
    return frame;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string to_client_;
  std::string from_client_;
  agent::FrameReader reader_;
  bool is_closed_ = false;
};

class ClientTest : public testing::Test {
 protected:
  ClientTest()
      : client_(std::make_unique<Wire::Stream>(wire_), "worker-1",
                {.on_welcome = [this](agent::Welcome&& welcome) { boot_ = welcome.boot; },
                 .on_started = [this](agent::Started&&) { ++started_; },
                 .on_refused = [](agent::Refused&&) {},
                 .on_ended = [](agent::Ended&&) {},
                 .on_listed = [] {},
                 .on_broken = [this](const std::string& why) { broken_.set_value(why); }}) {
    client_.begin();
    (void)wire_.expect<agent::Hello>();
    wire_.answer(agent::Welcome{.version = agent::k_version, .boot = "boot"});
  }
  // Blocks until the connection has ended, and returns why.
  std::string why() { return broken_.get_future().get(); }

  Wire wire_;
  std::promise<std::string> broken_;
  std::string boot_;
  std::atomic<int> started_{0};
  AgentClient client_;
};

TEST_F(ClientTest, GarbageEndsTheConnection) {
  wire_.answer_bytes("this is no frame of the protocol");
  EXPECT_THAT(why(), HasSubstr("not part of the protocol"));
  EXPECT_EQ(kind_of([&] { client_.sync({}); }), ErrorKind::unavailable);
}

TEST_F(ClientTest, AMalformedFrameEndsTheConnection) {
  std::string bytes;
  agent::append_frame(bytes, agent::FrameType::welcome, "short");
  wire_.answer_bytes(bytes);
  EXPECT_THAT(why(), HasSubstr("malformed frame"));
}

TEST_F(ClientTest, ACutFrameIsNotReported) {
  std::string bytes;
  agent::append(bytes, agent::Started{.id = "a/1"});
  wire_.answer_bytes(bytes + bytes.substr(0, bytes.size() - 1));
  wire_.errors = "the container was killed";
  wire_.end();
  EXPECT_THAT(why(), HasSubstr("the container was killed"));
  EXPECT_EQ(started_, 1);
}

TEST_F(ClientTest, AFaultOfTheAgentIsTheReason) {
  wire_.answer(agent::Fault{.text = "bad\x1b client"});
  const std::string text = why();
  EXPECT_THAT(text, HasSubstr("client"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\x1b")));
}

TEST_F(ClientTest, ACancelledRequestIsCancelledAtTheAgent) {
  std::stop_source stop;
  auto reading = std::async(std::launch::async, [&] {
    return kind_of([&] {
      client_.read_log(
          "a/1", {.follow = true}, [](const agent::LogChunk&) {}, stop.get_token());
    });
  });
  const auto request = wire_.expect<agent::ReadLog>();
  stop.request_stop();
  EXPECT_EQ(reading.get(), ErrorKind::cancelled);
  EXPECT_EQ(wire_.expect<agent::Cancel>().request, request.request);
  // A late answer has no effect.
  wire_.answer(agent::Log{.request = request.request, .chunks = {{.at = 1, .stream = 1, .bytes = "late"}}});
  wire_.answer(agent::Done{.request = request.request});
  auto syncing = std::async(std::launch::async, [&] { client_.sync({}); });
  wire_.answer(agent::Pong{.number = wire_.expect<agent::Ping>().number});
  syncing.get();
}

TEST_F(ClientTest, AnAgentThatDoesNotAnswerThePingIsNoticed) {
  EXPECT_EQ(client_.silence(), Seconds(0));
  client_.ping();
  const auto ping = wire_.expect<agent::Ping>();
  EXPECT_GT(client_.silence(), Seconds(0));
  client_.ping();  // sends nothing
  wire_.answer(agent::Pong{.number = ping.number});
  auto syncing = std::async(std::launch::async, [&] { client_.sync({}); });
  wire_.answer(agent::Pong{.number = wire_.expect<agent::Ping>().number});
  syncing.get();
  EXPECT_EQ(client_.silence(), Seconds(0));
}

TEST_F(ClientTest, AnAgentThatDoesNotReadIsNoticed) {
  wire_.is_frozen = true;
  auto writing =
      std::async(std::launch::async, [&] { return kind_of([&] { client_.send(agent::Put{.id = "a/1"}); }); });
  std::stop_source stop;
  auto syncing =
      std::async(std::launch::async, [&] { return kind_of([&] { client_.sync(stop.get_token()); }); });
  client_.forget({"b/1"});  // none of these calls blocks
  client_.ping();
  EXPECT_GT(client_.silence(), Seconds(0));
  stop.request_stop();
  EXPECT_EQ(syncing.get(), ErrorKind::cancelled);
  client_.close();
  EXPECT_EQ(writing.get(), ErrorKind::unavailable);
}

TEST_F(ClientTest, MessagesThatWaitPrecedeALaterStart) {
  client_.forget({"a/1"});
  client_.send(agent::Start{.id = "a/1"});
  EXPECT_EQ(wire_.expect_any(), agent::FrameType::forget);
  EXPECT_EQ(wire_.expect_any(), agent::FrameType::start);
}

TEST_F(ClientTest, ConcurrentRequestsGetTheirOwnAnswers) {
  constexpr int k_count = 8;
  std::vector<std::future<std::string>> readers;
  for (int i = 0; i < k_count; ++i)
    readers.push_back(std::async(std::launch::async, [this, i] {
      std::string text;
      client_.read_log("t/" + std::to_string(i + 1), LogOptions{},
                       [&](const agent::LogChunk& chunk) { text += chunk.bytes; }, {});
      return text;
    }));
  std::vector<agent::ReadLog> requests;
  for (int i = 0; i < k_count; ++i) requests.push_back(wire_.expect<agent::ReadLog>());
  for (int part = 0; part < 2; ++part)
    for (const agent::ReadLog& request : requests)
      wire_.answer(agent::Log{.request = request.request,
                              .chunks = {{.at = part, .stream = 1, .bytes = request.id + ";"}}});
  for (const agent::ReadLog& request : requests) wire_.answer(agent::Done{.request = request.request});
  for (int i = 0; i < k_count; ++i) {
    const std::string id = "t/" + std::to_string(i + 1) + ";";
    EXPECT_EQ(readers[static_cast<std::size_t>(i)].get(), id + id);
  }
}

TEST_F(ClientTest, AnIncompleteLogIsReported) {
  for (const auto status : {agent::Done::ok, agent::Done::incomplete}) {
    std::string text;
    auto reading = std::async(std::launch::async, [&] {
      return client_.read_log("a/1", LogOptions{}, [&](const agent::LogChunk& chunk) { text += chunk.bytes; },
                              {});
    });
    const auto request = wire_.expect<agent::ReadLog>().request;
    wire_.answer(agent::Log{.request = request, .chunks = {{.at = 1, .stream = 1, .bytes = "a part"}}});
    wire_.answer(agent::Done{.request = request, .status = status});
    EXPECT_EQ(reading.get(), status == agent::Done::ok);
    EXPECT_EQ(text, "a part");
  }
}

TEST_F(ClientTest, TheStatusOfARequestDecidesItsResult) {
  const auto collect_with = [this](agent::Done done) {
    auto collecting = std::async(std::launch::async, [this] {
      AgentClient::Position begin;
      return client_.collect("a/1", "out", begin, [](std::string_view) {}, {});
    });
    done.request = wire_.expect<agent::Collect>().request;
    wire_.answer(done);
    return collecting;
  };
  EXPECT_TRUE(collect_with({.status = agent::Done::ok}).get());
  EXPECT_FALSE(collect_with({.status = agent::Done::absent}).get());
  const auto kind_with = [&](agent::Done::Status status) {
    auto collecting = collect_with({.status = status, .text = "why"});
    return kind_of([&] { (void)collecting.get(); });
  };
  EXPECT_EQ(kind_with(agent::Done::unknown_attempt), ErrorKind::not_found);
  EXPECT_EQ(kind_with(agent::Done::unreadable), ErrorKind::invalid);
  EXPECT_EQ(kind_with(agent::Done::failed), ErrorKind::unavailable);
}

TEST_F(ClientTest, TheEndOfTheConnectionEndsEveryRequest) {
  auto usage =
      std::async(std::launch::async, [this] { return kind_of([&] { (void)client_.usage("a/1", {}); }); });
  (void)wire_.expect<agent::GetUsage>();
  wire_.end();
  EXPECT_EQ(usage.get(), ErrorKind::unavailable);
}

}  // namespace
}  // namespace combu::workers
