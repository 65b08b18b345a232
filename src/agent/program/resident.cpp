#include "resident.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "shared_buffer.hpp"

namespace combu::agent {
namespace {

constexpr std::size_t k_queue_max = std::size_t{4} << 20U;

}  // namespace

Resident::Resident(Loop& loop, Descriptor calls, Descriptor returns, Answer answer)
    : answer_(std::move(answer)), calls_(std::move(calls)), returns_(std::move(returns)) {
  set_nonblocking(calls_.get());
  set_nonblocking(returns_.get());
  write_watch_.start(loop, calls_.get(), 0, [this](std::uint32_t events) {
    if ((events & EPOLLERR) == 0) {
      flush();
      return;
    }
    write_watch_.stop();  // the program has closed its end
    calls_.close();
    queue_.clear();
    queue_begin_ = 0;
  });
  read_watch_.start(loop, returns_.get(), EPOLLIN, [this](std::uint32_t) {
    if (!read_some() && returns_.is_open()) {
      read_watch_.stop();
      returns_.close();
    }
    take_values();
  });
}

Returned::Status Resident::call(std::uint64_t number, std::string_view bytes) {
  if (!calls_.is_open()) return Returned::not_running;
  if (bytes.size() > k_value_max) return Returned::too_large;
  if (queue_.size() - queue_begin_ + bytes.size() > k_queue_max) return Returned::busy;
  Encoder encoder(queue_);
  auto size = static_cast<std::uint32_t>(bytes.size());
  encoder(size, number);
  queue_ += bytes;
  flush();
  return Returned::ok;
}

void Resident::flush() {
  if (!calls_.is_open()) return;
  while (queue_begin_ < queue_.size()) {
    const ssize_t count = write(calls_.get(), queue_.data() + queue_begin_, queue_.size() - queue_begin_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    queue_begin_ += static_cast<std::size_t>(count);
  }
  if (queue_begin_ == queue_.size()) {
    std::string().swap(queue_);
    queue_begin_ = 0;
  } else if (queue_begin_ > queue_.size() / 2) {
    queue_.erase(0, queue_begin_);
    queue_begin_ = 0;
  }
  write_watch_.want(queue_.empty() ? 0U : std::uint32_t{EPOLLOUT});
}

// Reads once. Returns false at the end of the stream.
bool Resident::read_some() {
  const ssize_t count = read(returns_.get(), shared_buffer().data(), shared_buffer().size());
  if (count > 0) input_.append(shared_buffer().data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

void Resident::take_values() {
  std::size_t begin = 0;
  while (true) {
    const std::size_t skipped = std::min<std::uint64_t>(skipped_, input_.size() - begin);
    begin += skipped;
    skipped_ -= skipped;
    const std::string_view left = std::string_view(input_).substr(begin);
    if (left.size() < k_call_header_size) break;
    std::uint32_t size = 0;
    std::uint64_t number = 0;
    Decoder decoder(left.substr(0, k_call_header_size));
    decoder(size, number);
    if (size > k_value_max) {
      skipped_ = size;
      begin += k_call_header_size;
      answer_(number, Returned::too_large, {});
      continue;
    }
    if (left.size() < k_call_header_size + size) break;
    answer_(number, Returned::ok, std::string(left.substr(k_call_header_size, size)));
    begin += k_call_header_size + size;
  }
  input_.erase(0, begin);
  if (input_.empty()) std::string().swap(input_);
}

void Resident::drain() {
  constexpr int k_reads_max = 64;
  for (int i = 0; i < k_reads_max && returns_.is_open(); ++i) {
    const std::size_t before = input_.size();
    if (!read_some() || input_.size() == before) break;
    take_values();
  }
}

}  // namespace combu::agent
