#include "workers/subscriptions.hpp"

#include <exception>
#include <thread>

namespace combu::workers {

void watch_with(
    Subscription& subscription, const std::function<void(const Change&)>& on_change,
    const std::stop_token& stop,
    const std::function<void(const std::function<void(const Change&)>&, const std::stop_token&)>& watch_below,
    const std::function<void()>& unsubscribe) {
  std::mutex mutex;  // calls of `on_change` do not overlap
  const auto pass_on = [&](const Change& change) {
    const std::scoped_lock lock(mutex);
    on_change(change);
  };
  std::stop_source inner;
  const std::stop_callback on_stop(stop, [&inner] { inner.request_stop(); });
  std::exception_ptr thrown;
  std::jthread passer([&] {
    try {
      for (std::vector<Observation> changes; !(changes = subscription.take()).empty();)
        std::ranges::for_each(changes, pass_on);
    } catch (...) {
      thrown = std::current_exception();
      inner.request_stop();
    }
  });
  const auto leave = [&] {
    unsubscribe();
    subscription.end();
    passer.join();
  };
  try {
    watch_below(pass_on, inner.get_token());
  } catch (...) {
    leave();
    throw;
  }
  leave();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace combu::workers
