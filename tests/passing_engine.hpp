#pragma once

#include <functional>
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
  std::vector<Gpu> gpus(std::stop_token stop) override { return engine_.gpus(stop); }
  std::vector<Error> check(const combu::Run& run, std::stop_token stop) override {
    return engine_.check(run, stop);
  }
  std::vector<Error> prepare(const combu::Run& run, const std::function<void(const Preparation&)>& tell,
                             std::stop_token stop) override {
    return engine_.prepare(run, tell, stop);
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
  void watch(const Selector& selector, const std::function<void(const Change&)>& tell,
             std::stop_token stop) override {
    engine_.watch(selector, tell, stop);
  }
  std::optional<Usage> usage(const std::string& id, std::stop_token stop) override {
    return engine_.usage(id, stop);
  }
  void logs(const Key& key, const LogOptions& options, const LogTell& tell, std::stop_token stop) override {
    engine_.logs(key, options, tell, stop);
  }
  bool copy_out(const Key& key, const std::string& path, const std::function<void(std::string_view)>& tell,
                std::stop_token stop) override {
    return engine_.copy_out(key, path, tell, stop);
  }
  Released release(const Selector& selector, const Releasing& tell, std::stop_token stop) override {
    return engine_.release(selector, tell, stop);
  }

 protected:
  Engine& engine_;
};

}  // namespace combu::test
