#include <utility>

#include "combu/base.hpp"

namespace combu {
namespace {

constexpr std::size_t k_chunk = std::size_t{256} << 10U;     // bytes
constexpr std::size_t k_piece_max = std::size_t{16} << 10U;  // larger writes make a chunk grow
constexpr std::size_t k_chunks_max = 32;

}  // namespace

bool BytePipe::write(std::string_view bytes) {
  filling_ += bytes;
  return filling_.size() < k_chunk || flush();
}

void BytePipe::end(std::exception_ptr fault) {
  flush();
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  fault_ = std::move(fault);
  changed_.notify_all();
}

bool BytePipe::await_bytes() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !chunks_.empty() || ended_; });
  return !chunks_.empty();
}

std::string_view BytePipe::read() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !chunks_.empty() || ended_; });
  if (chunks_.empty() && fault_) std::rethrow_exception(fault_);
  if (chunks_.empty()) return {};
  if (reading_.capacity() > 0) spare_.push_back(std::exchange(reading_, {}));
  reading_ = std::move(chunks_.front());
  chunks_.pop_front();
  changed_.notify_all();
  return reading_;
}

void BytePipe::leave() {
  const std::scoped_lock lock(mutex_);
  left_ = true;
  changed_.notify_all();
}

bool BytePipe::flush() {
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

}  // namespace combu
