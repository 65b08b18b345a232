#include "loop.hpp"

#include <utility>

namespace combu::agent {

Loop::Loop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

void Loop::turn(int timeout_ms) {
  const int count = epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()),
                               timeout_ms < 0 ? -1 : timeout_ms);
  count_ = count > 0 ? static_cast<std::size_t>(count) : 0;
  for (std::size_t i = 0; i < count_; ++i) {
    const epoll_event event = events_[i];
    if (event.data.ptr != nullptr) static_cast<Watch*>(event.data.ptr)->handler_(event.events);
  }
  count_ = 0;
}

void Loop::forget(const Watch& watch) {
  for (std::size_t i = 0; i < count_; ++i)
    if (events_[i].data.ptr == &watch) events_[i].data.ptr = nullptr;
}

bool Watch::start(Loop& loop, int descriptor, std::uint32_t events, Handler handler) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = this;
  if (epoll_ctl(loop.epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) return false;
  loop_ = &loop;
  descriptor_ = descriptor;
  events_ = events;
  handler_ = std::move(handler);
  return true;
}

void Watch::want(std::uint32_t events) {
  if (loop_ == nullptr || events == events_) return;
  epoll_event event{};
  event.events = events;
  event.data.ptr = this;
  epoll_ctl(loop_->epoll_.get(), EPOLL_CTL_MOD, descriptor_, &event);
  events_ = events;
}

void Watch::stop() {
  if (loop_ == nullptr) return;
  epoll_ctl(loop_->epoll_.get(), EPOLL_CTL_DEL, descriptor_, nullptr);
  loop_->forget(*this);
  loop_ = nullptr;
}

}  // namespace combu::agent
