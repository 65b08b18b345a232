#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <stop_token>
#include <thread>

#include "combu/system.hpp"

namespace combu {

struct Interrupts::Impl {
  explicit Impl(std::function<void()> leave_now) : leave(std::move(leave_now)) {
    sigemptyset(&watched);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGUSR2);  // sent only by the destructor, to end the signal thread
    pthread_sigmask(SIG_BLOCK, &watched, &before);
    thread = std::thread([this] { wait(); });
  }

  ~Impl() {
    pthread_kill(thread.native_handle(), SIGUSR2);
    thread.join();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void wait() {
    for (int number = 0; sigwait(&watched, &number) == 0 && number != SIGUSR2;) {
      int none = 0;
      if (first.compare_exchange_strong(none, number)) {
        stop.request_stop();
        continue;
      }
      if (leave) leave();
      _exit(128 + number);
    }
  }

  std::function<void()> leave;
  std::stop_source stop;
  std::atomic<int> first{0};
  sigset_t watched{};
  sigset_t before{};
  std::thread thread;
};

Interrupts::Interrupts(std::function<void()> leave) : impl_(std::make_unique<Impl>(std::move(leave))) {}
Interrupts::~Interrupts() = default;
std::stop_token Interrupts::token() const {
  return impl_->stop.get_token();
}
int Interrupts::signal() const {
  return impl_->first.load();
}

}  // namespace combu
