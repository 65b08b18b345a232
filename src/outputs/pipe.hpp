#pragma once
// A bounded queue of bytes between a writer thread and a reader thread.

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace combu::outputs {

class Pipe {
 public:
  // Blocks while the queue is full. Returns false if the reader has called leave().
  bool write(std::string_view bytes) {
    filling_ += bytes;
    return filling_.size() < k_chunk || flush();
  }

  // Ends the stream; no write() may follow. `fault`: the exception that cut the stream; null: the stream is
  // complete.
  void end(std::exception_ptr fault) {
    if (!fault) flush();
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    fault_ = std::move(fault);
    changed_.notify_all();
  }

  // Blocks until bytes are available and returns them; returns an empty view at the end of the stream. The
  // view is valid until the next call. Throws the exception that the writer passed to end().
  std::string_view read() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !chunks_.empty() || ended_; });
    if (fault_) std::rethrow_exception(fault_);
    if (chunks_.empty()) return {};
    if (reading_.capacity() > 0) spare_.push_back(std::exchange(reading_, {}));
    reading_ = std::move(chunks_.front());
    chunks_.pop_front();
    changed_.notify_all();
    return reading_;
  }

  // Ends reading: the reader will not call read() again.
  void leave() {
    const std::scoped_lock lock(mutex_);
    left_ = true;
    changed_.notify_all();
  }

 private:
  static constexpr std::size_t k_chunk = std::size_t{256} << 10U;
  // bytes; writes above it make a chunk grow
  static constexpr std::size_t k_piece_max = std::size_t{16} << 10U;
  static constexpr std::size_t k_chunks_max = 32;

  bool flush() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return chunks_.size() < k_chunks_max || left_; });
    if (left_) return false;
    if (!filling_.empty()) chunks_.push_back(std::exchange(filling_, {}));
    if (!spare_.empty()) {
      filling_ = std::move(spare_.back());
      spare_.pop_back();
      filling_.clear();
    }
    filling_.reserve(k_chunk + k_piece_max);
    changed_.notify_all();
    return true;
  }

  std::string filling_;  // used only by the writer's thread
  std::string reading_;  // used only by the reader's thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> chunks_;
  std::vector<std::string> spare_;  // buffers for reuse: page faults of new memory take longer than copying
  bool ended_ = false;
  bool left_ = false;
  std::exception_ptr fault_;
};

}  // namespace combu::outputs
