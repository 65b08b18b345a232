#include "workers/agent_client.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <vector>

#include "workers/attempt.hpp"

namespace combu::workers {

using agent::FrameReader;
using agent::FrameType;

// A request under way. The destructor forgets the answers that arrive later.
class AgentClient::Request {
 public:
  explicit Request(AgentClient& client) : client_(client) {
    const std::scoped_lock lock(client_.mutex_);
    number_ = ++client_.last_request_;
    client_.requests_.try_emplace(number_);
  }
  ~Request() {
    bool is_open = false;
    {
      const std::scoped_lock lock(client_.mutex_);
      const auto request = client_.requests_.extract(number_);
      is_open = !request.mapped().done && !client_.broken_;
    }
    if (!is_open) return;
    try {
      client_.send(agent::Cancel{.request = number_});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the request ends with the connection
    }
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  [[nodiscard]] std::uint32_t number() const { return number_; }

  // Call this for each part of a log or archive that the caller has consumed: the agent then sends more.
  void consumed(std::size_t bytes) {
    consumed_ += bytes;
    if (consumed_ < agent::k_more) return;
    client_.send(agent::More{.request = number_, .bytes = std::exchange(consumed_, 0)});
  }

  // Blocks until an answer has arrived, and removes and returns all answers.
  Answers take(const std::stop_token& stop) {
    std::unique_lock lock(client_.mutex_);
    Answers& answers = client_.requests_.at(number_);
    const auto has_any = [&] {
      return !answers.chunks.empty() || !answers.data.empty() || answers.usage || answers.done ||
             client_.broken_;
    };
    if (!client_.changed_.wait(lock, stop, has_any))
      throw Error(ErrorKind::cancelled, client_.subject_, "cancelled");
    Answers taken = std::move(answers);
    answers = {.chunks = {}, .data = {}, .usage = {}, .done = taken.done};
    if (!taken.done && !taken.usage && taken.chunks.empty() && taken.data.empty()) client_.throw_broken();
    return taken;
  }

 private:
  AgentClient& client_;
  std::uint32_t number_ = 0;
  std::uint64_t consumed_ = 0;
};

AgentClient::AgentClient(std::unique_ptr<ByteStream> stream, std::string subject, AgentEvents events)
    : stream_(std::move(stream)), subject_(std::move(subject)), events_(std::move(events)) {}

void AgentClient::begin() {
  send(agent::Hello{});
  reader_ = std::jthread([this] { read(); });
  writer_ = std::jthread([this](const std::stop_token& stop) { write_posted(stop); });
}

AgentClient::~AgentClient() {
  stream_->close();
}

void AgentClient::write(std::string_view bytes) {
  const std::scoped_lock lock(write_mutex_);
  std::string posted;
  {
    const std::scoped_lock posted_lock(mutex_);
    posted.swap(posted_);
  }
  if (!posted.empty()) stream_->write(posted);
  if (!bytes.empty()) stream_->write(bytes);
}

void AgentClient::write_posted(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (has_posted_.wait(lock, stop, [this] { return !posted_.empty(); })) {
    lock.unlock();
    try {
      write({});
    } catch (const Error&) {
      stream_->close();  // the reader reports the end of the connection
      return;
    }
    lock.lock();
  }
}

void AgentClient::throw_broken() const {
  throw Error(ErrorKind::unavailable, subject_, *broken_);
}

// ---- The reading thread

void AgentClient::read() {
  constexpr std::size_t k_buffer = std::size_t{256} << 10U;
  std::vector<char> buffer(k_buffer);
  FrameReader reader;
  std::string why;
  try {
    while (const std::size_t count = stream_->read(buffer)) {
      reader.feed({buffer.data(), count});
      agent::Frame frame;
      FrameReader::Result result = FrameReader::Result::frame;
      while ((result = reader.next(frame)) == FrameReader::Result::frame) take(frame);
      if (result == FrameReader::Result::corrupt)
        throw Error(ErrorKind::corrupt, subject_, "the agent sent bytes that are not part of the protocol");
    }
    const std::string errors = stream_->errors();
    why = fmt::format("the connection to the agent has ended{}{}", errors.empty() ? "" : ": ", errors);
  } catch (const Error& error) {
    why = error.message();
  }
  stream_->close();
  end_with(why);
}

void AgentClient::end_with(const std::string& why) {
  {
    const std::scoped_lock lock(mutex_);
    broken_ = why;
  }
  changed_.notify_all();
  events_.on_broken(why);
}

template <class Message>
Message AgentClient::decoded(const agent::Frame& frame) const {
  Message message;
  if (!agent::decode(frame.payload, message))
    throw Error(
        ErrorKind::corrupt, subject_,
        fmt::format("the agent sent a malformed frame of type {}", static_cast<unsigned>(frame.type)));
  return message;
}

void AgentClient::take(const agent::Frame& frame) {
  const auto answer = [&](std::uint32_t request, const auto& add) {
    {
      const std::scoped_lock lock(mutex_);
      const auto found = requests_.find(request);
      if (found == requests_.end()) return;
      add(found->second);
    }
    changed_.notify_all();
  };
  if (!is_welcomed_ && frame.type != FrameType::welcome && frame.type != FrameType::fault)
    throw Error(ErrorKind::corrupt, subject_, "the agent has not sent Welcome first");
  switch (frame.type) {
    case FrameType::welcome:
      is_welcomed_ = true;
      return events_.on_welcome(decoded<agent::Welcome>(frame));
    case FrameType::started:
      return events_.on_started(decoded<agent::Started>(frame));
    case FrameType::refused:
      return events_.on_refused(decoded<agent::Refused>(frame));
    case FrameType::ended:
      return events_.on_ended(decoded<agent::Ended>(frame));
    case FrameType::listed:
      return events_.on_listed();
    case FrameType::log: {
      auto log = decoded<agent::Log>(frame);
      return answer(log.request,
                    [&](Answers& to) { std::ranges::move(log.chunks, std::back_inserter(to.chunks)); });
    }
    case FrameType::data: {
      auto data = decoded<agent::Data>(frame);
      return answer(data.request, [&](Answers& to) { to.data.push_back(std::move(data.bytes)); });
    }
    case FrameType::usage: {
      const auto usage = decoded<agent::UsageAnswer>(frame);
      return answer(usage.request, [&](Answers& to) { to.usage = usage; });
    }
    case FrameType::done: {
      const auto done = decoded<agent::Done>(frame);
      return answer(done.request, [&](Answers& to) { to.done = done; });
    }
    case FrameType::pong: {
      const auto pong = decoded<agent::Pong>(frame);
      {
        const std::scoped_lock lock(mutex_);
        ponged_ = std::max(ponged_, pong.number);
      }
      changed_.notify_all();
      return;
    }
    case FrameType::fault:
      throw Error(ErrorKind::corrupt, subject_,
                  "the agent refused a frame: " + shortened(decoded<agent::Fault>(frame).text));
    default:
      return;  // a later version of the protocol may add types of frames
  }
}

// ---- Requests

bool AgentClient::read_log(const std::string& id, const LogOptions& options,
                           const std::function<void(const agent::LogChunk&)>& sink,
                           const std::stop_token& stop) {
  Request request(*this);
  send(agent::ReadLog{.request = request.number(),
                      .id = id,
                      .since = options.since ? nanoseconds_of(*options.since) : 0,
                      .is_follow = options.follow ? std::uint8_t{1} : std::uint8_t{0}});
  while (true) {
    const Answers answers = request.take(stop);
    for (const agent::LogChunk& chunk : answers.chunks) {
      sink(chunk);
      request.consumed(chunk.bytes.size());
    }
    if (!answers.done) continue;
    if (answers.done->status == agent::Done::unknown_attempt)
      throw Error(ErrorKind::not_found, subject_, "the agent does not know the attempt");
    if (answers.done->status != agent::Done::ok && answers.done->status != agent::Done::incomplete)
      throw Error(ErrorKind::unavailable, subject_,
                  "the log cannot be read: " + shortened(answers.done->text));
    return answers.done->status == agent::Done::ok;
  }
}

bool AgentClient::collect(const std::string& id, const std::string& path, Position& position,
                          const std::function<void(std::string_view)>& sink, const std::stop_token& stop) {
  Request request(*this);
  if (position.bytes == 0)
    send(agent::Collect{.request = request.number(), .id = id, .path = path});
  else
    send(agent::CollectRest{
        .request = request.number(), .id = id, .path = path, .skip = position.bytes, .crc = position.crc});
  while (true) {
    const Answers answers = request.take(stop);
    for (const std::string& bytes : answers.data) {
      position.bytes += bytes.size();
      position.crc = agent::crc_after(position.crc, bytes);
      sink(bytes);
      request.consumed(bytes.size());
    }
    if (!answers.done) continue;
    const std::string text = shortened(answers.done->text);
    switch (answers.done->status) {
      case agent::Done::ok:
        return true;
      case agent::Done::absent:
        return false;
      case agent::Done::unknown_attempt:
        throw Error(ErrorKind::not_found, subject_, "the agent does not know the attempt");
      case agent::Done::unreadable:
        throw Error(ErrorKind::invalid, path, text);
      case agent::Done::changed:
        throw Error(ErrorKind::corrupt, path, "the file or folder has changed while it was read");
      default:
        throw Error(ErrorKind::unavailable, path, "the archive was cut off: " + text);
    }
  }
}

std::optional<Usage> AgentClient::usage(const std::string& id, const std::stop_token& stop) {
  Request request(*this);
  send(agent::GetUsage{.request = request.number(), .id = id});
  const Answers answers = request.take(stop);
  if (!answers.usage) return std::nullopt;
  return Usage{.memory = Bytes{static_cast<std::int64_t>(answers.usage->memory)},
               .cpu = std::chrono::nanoseconds(answers.usage->cpu_ns)};
}

void AgentClient::forget(const std::vector<std::string>& ids) {
  agent::Forget message;
  std::size_t size = 0;
  for (const std::string& id : ids) {
    if (size + id.size() > agent::k_part_max) {
      post(std::exchange(message, {}));
      size = 0;
    }
    message.ids.push_back(id);
    size += id.size() + sizeof(std::uint32_t);
  }
  if (!message.ids.empty()) post(std::move(message));
}

void AgentClient::ping() {
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (ponged_ < expected_pong_) return;
    number = expected_pong_ = ++pinged_;
    pinged_at_ = std::chrono::steady_clock::now();
  }
  post(agent::Ping{.number = number});
}

Seconds AgentClient::silence() {
  const std::scoped_lock lock(mutex_);
  return ponged_ < expected_pong_ ? std::chrono::steady_clock::now() - pinged_at_ : Seconds(0);
}

void AgentClient::sync(const std::stop_token& stop) {
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    number = ++pinged_;
  }
  post(agent::Ping{.number = number});
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, stop, [&] { return ponged_ >= number || broken_; }))
    throw Error(ErrorKind::cancelled, subject_, "cancelled");
  if (ponged_ < number) throw_broken();
}

}  // namespace combu::workers
