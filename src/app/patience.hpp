#pragma once

#include <functional>
#include <stop_token>
#include <thread>

#include "combu/base.hpp"

namespace combu {

// A stop token for calls to an engine that may not answer: it is set when `stop` is, or when `patience` has
// passed.
class Patience {
 public:
  Patience(const std::stop_token& stop, Seconds patience)
      : on_stop_(stop, [this] { source_.request_stop(); }),
        timer_([this, patience](const std::stop_token& quit) {
          real_clock().wait(patience, quit);
          if (!quit.stop_requested()) source_.request_stop();
        }) {}
  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::stop_callback<std::function<void()>> on_stop_;
  std::jthread timer_;
};

}  // namespace combu
