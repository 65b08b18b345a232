#include <fmt/format.h>

#include <mutex>
#include <ostream>
#include <type_traits>
#include <utility>

#include "combu/engine.hpp"

namespace combu {

namespace {

class Trace : public Engine {
 public:
  Trace(Engine& engine, Clock& clock, std::ostream& out)
      : engine_(engine), clock_(clock), out_(out), began_(clock.now()) {}

  Facts facts(std::stop_token stop) override {
    return traced("facts", "", [&] { return engine_.facts(stop); });
  }

  std::vector<Finding> diagnose(std::stop_token stop) override {
    return traced("diagnose", "", [&] { return engine_.diagnose(stop); });
  }
  std::vector<Gpu> gpus(std::stop_token stop) override {
    return traced("gpus", "", [&] { return engine_.gpus(stop); });
  }
  std::vector<Error> check(const Run& run, std::stop_token stop) override {
    return traced("check", run.id.text(), [&] { return engine_.check(run, stop); });
  }
  bool copies_files() const override { return engine_.copies_files(); }
  bool gives_secrets() const override { return engine_.gives_secrets(); }
  std::vector<StartLimit> limits(const Run& run, const Slots& capacity) override {
    return engine_.limits(run, capacity);
  }
  std::vector<Error> prepare(const Run& run, const std::function<void(const Preparation&)>& on_progress,
                             std::stop_token stop) override {
    return traced("prepare", run.id.text(), [&] { return engine_.prepare(run, on_progress, stop); });
  }
  StartResult start(const Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    return traced("start", trial.name, [&] { return engine_.start(run, trial, attempt, stop); });
  }
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) override {
    traced("stop", key.trial, [&] { engine_.stop(key, grace, stop); });
  }
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    return traced("list", selector.experiment, [&] { return engine_.list(selector, detail, stop); });
  }
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    traced("watch", selector.experiment, [&] { engine_.watch(selector, on_change, stop); });
  }
  std::optional<Usage> usage(const std::string& id, std::stop_token stop) override {
    return traced("usage", id, [&] { return engine_.usage(id, stop); });
  }

  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token stop) override {
    traced("logs", key.trial, [&] { engine_.logs(key, options, on_piece, stop); });
  }
  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override {
    return traced("copy_out", key.trial + ":" + path,
                  [&] { return engine_.copy_out(key, path, on_bytes, stop); });
  }
  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override {
    return traced("exec", key.trial, [&] { return engine_.exec(key, argv, stop); });
  }
  void acknowledge(const std::vector<Key>& keys) override {
    traced("acknowledge", keys.empty() ? "" : keys.front().trial, [&] { engine_.acknowledge(keys); });
  }
  Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                   std::stop_token stop) override {
    return traced("release", selector.experiment, [&] { return engine_.release(selector, callbacks, stop); });
  }

 private:
  template <class Verb>
  std::invoke_result_t<Verb> traced(std::string_view verb, std::string_view subject, const Verb& call) {
    const Instant start = clock_.now();
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Verb>>) {
        call();
        write(verb, subject, start, "ok");
      } else {
        auto result = call();
        write(verb, subject, start, "ok");
        return result;
      }
    } catch (const Error& error) {
      write(verb, subject, start, fmt::format("{}: {}", to_string(error.kind()), error.what()));
      throw;
    }
  }

  void write(std::string_view verb, std::string_view subject, Instant start, std::string_view result) {
    const Instant end = clock_.now();
    const std::string line =
        escape_controls(fmt::format("{:.6f} {} {} {:.6f} {}\n", Seconds(end - began_).count(), verb,
                                    subject.empty() ? "-" : subject, Seconds(end - start).count(), result));
    const std::scoped_lock lock(mutex_);
    out_ << line << std::flush;
  }

  Engine& engine_;
  Clock& clock_;
  std::ostream& out_;
  Instant began_;
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<Engine> with_trace(Engine& engine, Clock& clock, std::ostream& out) {
  return std::make_unique<Trace>(engine, clock, out);
}

}  // namespace combu
