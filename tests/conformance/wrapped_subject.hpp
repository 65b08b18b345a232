#pragma once
// The conformance suite over engines of the room `workers`, which run the trials of another Subject.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "combu/workers.hpp"
#include "conformance/engine_suite.hpp"

namespace combu::conformance {

class WrappedSubject : public Subject {
 public:
  // `engine` runs on the engine of `below`. `change` changes each trial.
  WrappedSubject(std::unique_ptr<Subject> below, std::unique_ptr<Engine> engine,
                 std::function<void(Trial&)> change)
      : below_(std::move(below)), engine_(std::move(engine)), change_(std::move(change)) {}

  Engine& engine() override { return *engine_; }

  Trial runs_until_stopped(const std::string& name) override {
    return changed(below_->runs_until_stopped(name));
  }
  Trial exits_with(const std::string& name, int code) override {
    return changed(below_->exits_with(name, code));
  }
  Trial says(const std::string& name, const std::vector<std::string>& out,
             const std::vector<std::string>& err) override {
    return changed(below_->says(name, out, err));
  }
  Trial turns(const std::string& name, Health health) override {
    return changed(below_->turns(name, health));
  }
  Trial cannot_start(const std::string& name) override { return changed(below_->cannot_start(name)); }
  Trial tells_secrets(const std::string& name, const std::string& path,
                      const std::string& variable) override {
    return changed(below_->tells_secrets(name, path, variable));
  }
  Trial eats(const std::string& name, Bytes memory) override { return changed(below_->eats(name, memory)); }
  Trial leaves(const std::string& name) override { return changed(below_->leaves(name)); }
  Trial repeats(const std::string& name, const std::string& path) override {
    return changed(below_->repeats(name, path));
  }
  void make_stranger(const std::string& name, std::uint16_t host_port) override {
    below_->make_stranger(name, host_port);
  }
  bool stranger_runs(const std::string& name) override { return below_->stranger_runs(name); }
  void make_strange_network(const std::string& name) override { below_->make_strange_network(name); }
  bool has_network(const std::string& name) override { return below_->has_network(name); }
  void let_time_pass() override { below_->let_time_pass(); }

 private:
  [[nodiscard]] Trial changed(Trial trial) const {
    change_(trial);
    return trial;
  }

  std::unique_ptr<Subject> below_;
  std::unique_ptr<Engine> engine_;
  std::function<void(Trial&)> change_;
};

// The trials run in workers.
inline std::unique_ptr<Subject> in_workers(std::unique_ptr<Subject> below, AgentPrograms programs) {
  auto engine = with_workers(below->engine(), std::move(programs));
  return std::make_unique<WrappedSubject>(std::move(below), std::move(engine),
                                          [](Trial& trial) { trial.worker = WorkerSettings{.on = true}; });
}

// The trials run under the agent, which is the first process of their containers.
inline std::unique_ptr<Subject> supervised(std::unique_ptr<Subject> below, AgentPrograms programs) {
  auto engine = with_supervision(below->engine(), std::move(programs));
  return std::make_unique<WrappedSubject>(std::move(below), std::move(engine), [](Trial& trial) {
    trial.outputs = {{.path = "/out", .required = false}};
  });
}

}  // namespace combu::conformance
