#include "connection.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "shared_buffer.hpp"

namespace combu::agent {
namespace {

constexpr std::size_t k_queue_max = std::size_t{4} << 20U;
constexpr std::size_t k_queue_kept = std::size_t{16} << 10U;  // capacity that an empty queue keeps

}  // namespace

Connection::Connection(std::uint64_t number, Descriptor in, Descriptor out, Descriptor control)
    : last_frame_at(steady_time()),
      number_(number),
      in_(std::move(in)),
      out_(std::move(out)),
      control_(std::move(control)) {}

bool Connection::start(Loop& loop, std::function<void()> readable) {
  set_nonblocking(in_.get());
  set_nonblocking(out_.get());
  return in_watch_.start(loop, in_.get(), EPOLLIN, [readable = std::move(readable)](std::uint32_t) {
    readable();
  }) && out_watch_.start(loop, out_.get(), 0, [this](std::uint32_t events) {
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) close();
    if (is_closed_) out_watch_.stop();
  }) && control_watch_.start(loop, control_.get(), EPOLLIN | EPOLLRDHUP, [this](std::uint32_t) {
    char byte = 0;
    const ssize_t count = recv(control_.get(), &byte, 1, MSG_DONTWAIT);
    if (count > 0 || (count < 0 && errno == EAGAIN)) return;
    close();
    control_watch_.stop();
  });
}

void Connection::receive() {
  const ssize_t count = read(in_.get(), shared_buffer().data(), shared_buffer().size());
  if (count > 0) {
    reader_.feed({shared_buffer().data(), static_cast<std::size_t>(count)});
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    close();
    in_watch_.stop();
  }
}

void Connection::check_queue() {
  if (queued() > k_queue_max) close();
}

void Connection::flush() {
  while (queue_begin_ < queue_.size()) {
    const ssize_t count = write(out_.get(), queue_.data() + queue_begin_, queue_.size() - queue_begin_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) close();
    if (count < 0) break;
    queue_begin_ += static_cast<std::size_t>(count);
  }
  const bool is_empty = queue_begin_ == queue_.size();
  if (is_empty) {
    queue_.clear();
    if (queue_.capacity() > k_queue_kept) std::string().swap(queue_);
    queue_begin_ = 0;
  } else if (queue_begin_ > queue_.size() / 2) {
    queue_.erase(0, queue_begin_);
    queue_begin_ = 0;
  }
  out_watch_.want(is_empty ? 0U : std::uint32_t{EPOLLOUT});
}

}  // namespace combu::agent
