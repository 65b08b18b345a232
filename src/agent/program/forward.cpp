#include "forward.hpp"

#include <unistd.h>

#include <cerrno>

#include "system.hpp"

namespace combu::agent {

bool Forward::write(Loop& loop, std::string_view bytes, const std::function<void()>& on_written) {
  queue_ += bytes;
  if (flush()) return true;
  if (watch_.is_active()) return false;
  const auto go_on = [this, on_written](std::uint32_t) {
    if (!flush()) return;
    watch_.stop();
    on_written();
  };
  if (watch_.start(loop, to_, EPOLLOUT, go_on)) return false;
  write_rest();
  return true;
}

// Returns true if the queue is empty.
bool Forward::flush() {
  std::string_view left = queue_;
  set_nonblocking(to_);
  while (!left.empty()) {
    const ssize_t count = ::write(to_, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) left = {};
    if (count <= 0) break;
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  queue_.erase(0, queue_.size() - left.size());
  return queue_.empty();
}

void Forward::write_rest() {
  set_blocking(to_);
  write_all(to_, queue_);
  queue_.clear();
}

}  // namespace combu::agent
