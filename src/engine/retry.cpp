#include <algorithm>
#include <type_traits>
#include <utility>

#include "combu/engine.hpp"

namespace combu {

namespace {

class Retry : public Engine {
 public:
  Retry(Engine& engine, RetryPolicy policy, Clock& clock, std::function<void(const Error&, Seconds)> on_retry)
      : engine_(engine), policy_(policy), clock_(clock), on_retry_(std::move(on_retry)) {}

  Facts facts(std::stop_token stop) override { return engine_.facts(stop); }
  std::vector<Finding> diagnose(std::stop_token stop) override { return engine_.diagnose(stop); }
  std::vector<Gpu> gpus(std::stop_token stop) override { return engine_.gpus(stop); }

  std::vector<Error> check(const Run& run, std::stop_token stop) override {
    return repeat(stop, [&] { return engine_.check(run, stop); });
  }

  bool copies_files() const override { return engine_.copies_files(); }
  bool gives_secrets() const override { return engine_.gives_secrets(); }
  std::vector<StartLimit> limits(const Run& run, const Slots& capacity) override {
    return engine_.limits(run, capacity);
  }

  std::vector<Error> prepare(const Run& run, const std::function<void(const Preparation&)>& on_progress,
                             std::stop_token stop) override {
    return repeat(stop, [&] { return engine_.prepare(run, on_progress, stop); });
  }

  StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    return repeat(stop, [&] { return engine_.start(run, trial, attempt, stop); });
  }

  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) override {
    repeat(stop, [&] { engine_.stop(key, grace, stop); });
  }

  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    return repeat(stop, [&] { return engine_.list(selector, detail, stop); });
  }

  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    Attempts attempts(*this, stop);
    while (!stop.stop_requested()) {
      try {
        engine_.watch(
            selector,
            [&](const Change& change) {
              attempts.succeeded();
              on_change(change);
            },
            stop);
        return;
      } catch (const Error& error) {
        attempts.failed(error);
      }
    }
  }

  std::optional<Usage> usage(const std::string& id, std::stop_token stop) override {
    return engine_.usage(id, stop);
  }

  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override {
    engine_.logs(key, options, on_piece, stop);
  }

  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override {
    return engine_.copy_out(key, path, on_bytes, stop);
  }

  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override {
    return engine_.exec(key, argv, stop);
  }

  void acknowledge(const std::vector<Key>& keys) override { engine_.acknowledge(keys); }

  Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                   std::stop_token stop) override {
    return repeat(stop, [&] { return engine_.release(selector, callbacks, stop); });
  }

 private:
  // The consecutive failures of one call.
  class Attempts {
   public:
    Attempts(Retry& retry, std::stop_token stop)
        : retry_(retry), stop_(std::move(stop)), pause_(retry.policy_.pause) {}

    // Call failed() inside the `catch` block. Rethrows the error if a repeat would not help, or if
    // RetryPolicy::give_up has passed since the first failure. Otherwise pauses before the repeat.
    void failed(const Error& error) {
      if (error.kind() != ErrorKind::unavailable && error.kind() != ErrorKind::timeout) throw;
      const Instant now = retry_.clock_.now();
      if (!first_) first_ = now;
      if (now - *first_ >= retry_.policy_.give_up) throw;
      if (retry_.on_retry_) retry_.on_retry_(error, pause_);
      retry_.clock_.wait(pause_, stop_);
      if (stop_.stop_requested()) throw Error(ErrorKind::cancelled, error.subject(), "cancelled");
      pause_ = std::min(pause_ * retry_.policy_.factor, retry_.policy_.pause_max);
    }

    void succeeded() {
      first_.reset();
      pause_ = retry_.policy_.pause;
    }

   private:
    Retry& retry_;
    std::stop_token stop_;
    Seconds pause_;
    std::optional<Instant> first_;
  };

  template <class Verb>
  std::invoke_result_t<Verb> repeat(const std::stop_token& stop, const Verb& verb) {
    Attempts attempts(*this, stop);
    while (true) {
      try {
        return verb();
      } catch (const Error& error) {
        attempts.failed(error);
      }
    }
  }

  Engine& engine_;
  RetryPolicy policy_;
  Clock& clock_;
  std::function<void(const Error&, Seconds)> on_retry_;
};

}  // namespace

std::unique_ptr<Engine> with_retry(Engine& engine, RetryPolicy policy, Clock& clock,
                                   std::function<void(const Error&, Seconds)> on_retry) {
  return std::make_unique<Retry>(engine, policy, clock, std::move(on_retry));
}

}  // namespace combu
