#include "workers/results_file.hpp"

#include <algorithm>
#include <utility>

namespace combu::workers {

using agent::FrameReader;
using agent::FrameType;

// ---- The frames

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

// ---- The archive

// The tar format (pax, "ustar Interchange Format"). The frames show their own end, so that only the headers
// before the file's content matter. Returns false if the first entry that is not an extended header is not
// a regular file.
bool ResultsArchive::skip_headers(std::string_view& bytes) {
  constexpr std::size_t k_block = 512;
  constexpr std::size_t k_size = 124;
  constexpr std::size_t k_size_end = 136;
  constexpr std::size_t k_type = 156;
  while (!bytes.empty() && !is_in_file_) {
    const std::size_t skipped = std::min<std::uint64_t>(left_, bytes.size());
    left_ -= skipped;
    bytes.remove_prefix(skipped);
    const std::size_t taken = std::min(k_block - header_.size(), bytes.size());
    header_ += bytes.substr(0, taken);
    bytes.remove_prefix(taken);
    if (header_.size() < k_block) continue;
    const char type = header_[k_type];
    if (type != 'x' && type != 'g' && type != 'L' && type != 'K') {
      is_in_file_ = true;
      return type == '0' || type == '\0';
    }
    for (std::size_t i = k_size; i < k_size_end && header_[i] >= '0' && header_[i] <= '7'; ++i)
      left_ = left_ * 8 + static_cast<std::uint64_t>(header_[i] - '0');
    left_ = (left_ + k_block - 1) / k_block * k_block;
    header_.clear();
  }
  return true;
}

bool ResultsArchive::feed(std::string_view bytes, const std::function<bool(const agent::Frame&)>& take) {
  if (!skip_headers(bytes)) return false;
  frames_.feed(bytes);
  agent::Frame frame;
  FrameReader::Result result = FrameReader::Result::frame;
  while ((result = frames_.next(frame)) == FrameReader::Result::frame)
    if (!take(frame)) return false;
  return result == FrameReader::Result::incomplete;
}

bool read_results(Engine& engine, const Key& worker, const std::string& path,
                  const std::function<bool(const agent::Frame&)>& take, const std::stop_token& stop) {
  ResultsArchive archive;
  bool is_enough = false;
  const auto on_bytes = [&](std::string_view bytes) {
    if (archive.feed(bytes, take)) return;
    is_enough = true;
    throw Error(ErrorKind::cancelled, worker.trial, "cancelled");
  };
  try {
    return engine.copy_out(worker, path, on_bytes, stop);
  } catch (const Error&) {
    if (!is_enough) throw;
    return true;
  }
}

}  // namespace combu::workers
