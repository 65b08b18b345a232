#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/engine.hpp"

namespace combu::test {

// Forwards every function to another engine; tests override the functions that they need.
class PassingEngine : public Engine {
 public:
  explicit PassingEngine(Engine& engine) : engine_(engine) {}

  Facts facts(std::stop_token stop) override { return engine_.facts(stop); }
  std::vector<Finding> diagnose(std::stop_token stop) override { return engine_.diagnose(stop); }
  std::vector<Gpu> gpus(std::stop_token stop) override { return engine_.gpus(stop); }
  std::vector<Error> check(const combu::Run& run, std::stop_token stop) override {
    return engine_.check(run, stop);
  }
  std::vector<StartLimit> limits(const combu::Run& run, const Slots& capacity) override {
    return engine_.limits(run, capacity);
  }
  std::vector<Error> prepare(const combu::Run& run,
                             const std::function<void(const Preparation&)>& on_progress,
                             std::stop_token stop) override {
    return engine_.prepare(run, on_progress, stop);
  }
  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token stop) override {
    return engine_.start(run, trial, attempt, stop);
  }
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token stop) override {
    engine_.stop(key, grace, stop);
  }
  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    return engine_.list(selector, detail, stop);
  }
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    engine_.watch(selector, on_change, stop);
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
    return engine_.release(selector, callbacks, stop);
  }

 protected:
  Engine& engine_;
};

}  // namespace combu::test
