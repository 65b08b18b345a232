#pragma once
// The conformance suite over workers: the attempts of another Subject's trials run in workers.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "combu/workers.hpp"
#include "conformance/engine_suite.hpp"

namespace combu::conformance {

class WorkersSubject : public Subject {
 public:
  WorkersSubject(std::unique_ptr<Subject> below, AgentPrograms programs)
      : below_(std::move(below)), engine_(with_workers(below_->engine(), std::move(programs))) {}

  Engine& engine() override { return *engine_; }

  Trial runs_until_stopped(const std::string& name) override {
    return in_worker(below_->runs_until_stopped(name));
  }
  Trial exits_with(const std::string& name, int code) override {
    return in_worker(below_->exits_with(name, code));
  }
  Trial says(const std::string& name, const std::vector<std::string>& out,
             const std::vector<std::string>& err) override {
    return in_worker(below_->says(name, out, err));
  }
  Trial turns(const std::string& name, Health health) override {
    return in_worker(below_->turns(name, health));
  }
  Trial cannot_start(const std::string& name) override { return in_worker(below_->cannot_start(name)); }
  Trial eats(const std::string& name, Bytes memory) override { return in_worker(below_->eats(name, memory)); }
  Trial leaves(const std::string& name) override { return in_worker(below_->leaves(name)); }
  Trial repeats(const std::string& name, const std::string& path) override {
    return in_worker(below_->repeats(name, path));
  }
  void make_stranger(const std::string& name, std::uint16_t host_port) override {
    below_->make_stranger(name, host_port);
  }
  bool stranger_runs(const std::string& name) override { return below_->stranger_runs(name); }
  void make_strange_network(const std::string& name) override { below_->make_strange_network(name); }
  bool has_network(const std::string& name) override { return below_->has_network(name); }
  void let_time_pass() override { below_->let_time_pass(); }

 private:
  static Trial in_worker(Trial trial) {
    trial.worker = WorkerSettings{.on = true};
    return trial;
  }

  std::unique_ptr<Subject> below_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace combu::conformance
