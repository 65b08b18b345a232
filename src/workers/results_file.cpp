#include "workers/results_file.hpp"

#include <algorithm>
#include <utility>

namespace combu::workers {

using agent::FrameReader;
using agent::FrameType;

bool EndsReader::take(const agent::Frame& frame) {
  constexpr std::size_t k_ends_max = std::size_t{64} << 20U;
  size_ += frame.payload.size();
  if (size_ > k_ends_max) return false;
  switch (frame.type) {
    case FrameType::started:
      return agent::decode(frame.payload, started_);
    case FrameType::ended: {
      Result result{.started = std::exchange(started_, {}), .ended = {}, .number = ++ends_};
      if (!agent::decode(frame.payload, result.ended)) return false;
      if (!result.ended.id.empty() && result.ended.id == result.started.id)
        results.push_back(std::move(result));
      return true;
    }
    case FrameType::listed:
      is_whole = true;
      return false;
    default:
      return true;
  }
}

bool ResultLogReader::take(const agent::Frame& frame) {
  if (frame.type == FrameType::log) {
    agent::Log log;
    if (!agent::decode(frame.payload, log)) return false;
    if (log.request == number_) std::ranges::for_each(log.chunks, sink_);
  } else if (frame.type == FrameType::done) {
    agent::Done done;
    if (!agent::decode(frame.payload, done)) return false;
    if (done.request != number_) return true;
    is_whole = done.status == agent::Done::ok;
    return false;
  }
  return true;
}

bool read_results(Engine& engine, const Key& worker, const std::string& path,
                  const std::function<bool(const agent::Frame&)>& take, const std::stop_token& stop) {
  const auto read = [&](const NextBytes& next, Instant /*modified*/) {
    FrameReader frames;
    agent::Frame frame;
    FrameReader::Result result = FrameReader::Result::incomplete;
    while (result == FrameReader::Result::incomplete) {
      const std::string_view bytes = next();
      if (bytes.empty()) return;
      frames.feed(bytes);
      while ((result = frames.next(frame)) == FrameReader::Result::frame)
        if (!take(frame)) return;
    }
  };
  return read_file(engine, worker, path, read, stop);
}

}  // namespace combu::workers
