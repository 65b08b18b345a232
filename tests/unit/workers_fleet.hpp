#pragma once
// Workers of the simulated engine, with faults between them and the client.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "combu/simulated.hpp"
#include "combu/workers.hpp"
#include "experiments.hpp"
#include "passing_engine.hpp"
#include "raw_archive.hpp"

namespace combu::test {

// The connections to agents break when the test wants.
class CuttingEngine : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token stop) override {
    if (is_unreachable) throw Error(ErrorKind::unavailable, key.trial, "unreachable");
    ++connections;
    auto stream = std::make_unique<Stream>(*this, key.trial, engine_.exec(key, argv, stop));
    if (after_exec) after_exec(key);
    const std::scoped_lock lock(mutex_);
    streams_.push_back(stream.get());
    return stream;
  }
  // Cuts the connections to all workers, or to one.
  void cut(const std::string& worker = "") {
    const std::scoped_lock lock(mutex_);
    for (Stream* stream : streams_)
      if (worker.empty() || stream->worker() == worker) stream->close();
  }

  std::vector<Observation> list(const Selector& selector, ListDetail detail, std::stop_token stop) override {
    std::vector<Observation> listed = engine_.list(selector, detail, stop);
    if (!selector.trials.empty() && is_worker_name(selector.trials.front())) ++inspections;
    for (Observation& one : listed)
      if (is_worker_killed && is_worker_name(one.key.trial) && one.phase == Phase::ended) one.exit_code = 137;
    return listed;
  }
  Released release(const Selector& selector, const ReleaseCallbacks& callbacks,
                   std::stop_token stop) override {
    if (keeps_containers) throw Error(ErrorKind::unavailable, "test", "unreachable");
    std::vector<Error> left;
    const auto keep = [&](const std::vector<Observation>& containers) {
      std::set<Key> kept = callbacks.found ? callbacks.found(containers) : std::set<Key>();
      for (const Observation& one : containers) {
        if (one.key.trial != left_worker || !kept.insert(one.key).second) continue;
        left.emplace_back(ErrorKind::refused, left_worker, "busy");
      }
      return kept;
    };
    Released released = engine_.release(selector, {.found = keep, .removed = callbacks.removed}, stop);
    released.left.insert(released.left.end(), left.begin(), left.end());
    return released;
  }
  bool copy_out(const Key& key, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token stop) override {
    if (results.empty() || !path.ends_with("/results")) return engine_.copy_out(key, path, on_bytes, stop);
    constexpr std::size_t k_header = 512;
    const std::string archive = raw_entry("results", '0', results) + std::string(1024, '\0');
    on_bytes(archive.substr(0, missing > 0 ? k_header + results.size() - missing : archive.size()));
    return true;
  }

  std::atomic<bool> is_unreachable{false};
  std::atomic<bool> is_silent{false};  // nothing that is sent arrives
  std::atomic<bool> is_mute{false};    // nothing that the agents send arrives
  std::atomic<bool> is_slow{false};    // the client reads a few bytes at a time
  std::atomic<bool> is_unread{false};  // the agents do not read: writes block
  std::string unread_worker;           // of `is_unread`; empty: all workers
  std::atomic<int> blocked_writes{0};
  std::atomic<bool> is_worker_killed{false};  // workers that have ended were killed
  std::atomic<bool> keeps_containers{false};
  std::string left_worker;  // this worker cannot be removed
  std::string results;      // the content of the workers' files of results, if not empty
  std::size_t missing = 0;  // number of bytes at the end of `results` that the engine's archive lacks
  std::function<void(const Key&)> after_exec;
  std::atomic<int> connections{0};
  std::atomic<int> inspections{0};             // listings of one worker
  std::atomic<int> writes_before_cut{-1};      // the write after these breaks its connection; -1: none
  std::atomic<int> writes_before_give_up{-1};  // the write after these requests a stop of `give_up`; -1: none
  std::stop_source give_up;

 private:
  class Stream final : public ByteStream {
   public:
    Stream(CuttingEngine& engine, std::string worker, std::unique_ptr<ByteStream> stream)
        : engine_(engine), worker_(std::move(worker)), stream_(std::move(stream)) {}
    ~Stream() override {
      const std::scoped_lock lock(engine_.mutex_);
      std::erase(engine_.streams_, this);
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    std::size_t read(std::span<char> buffer) override {
      constexpr std::size_t k_few = 8;
      if (engine_.is_slow) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        buffer = buffer.first(std::min(buffer.size(), k_few));
      }
      const std::size_t count = stream_->read(buffer);
      while ((engine_.is_silent || engine_.is_mute) && !is_closed_)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return count;
    }
    void write(std::string_view bytes) override {
      if (engine_.writes_before_give_up >= 0 && engine_.writes_before_give_up-- == 0)
        engine_.give_up.request_stop();
      if (engine_.is_silent) return;
      ++engine_.blocked_writes;
      while (engine_.is_unread && !is_closed_ &&
             (engine_.unread_worker.empty() || engine_.unread_worker == worker_))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --engine_.blocked_writes;
      if (engine_.writes_before_cut >= 0 && engine_.writes_before_cut-- == 0) {
        stream_->close();
        throw Error(ErrorKind::unavailable, "test", "cut");
      }
      stream_->write(bytes);
    }
    void close() override {
      is_closed_ = true;
      stream_->close();
    }
    std::string errors() override { return ""; }
    [[nodiscard]] const std::string& worker() const { return worker_; }

   private:
    CuttingEngine& engine_;
    const std::string worker_;
    std::unique_ptr<ByteStream> stream_;
    std::atomic<bool> is_closed_{false};
  };

  std::mutex mutex_;
  std::vector<Stream*> streams_;
};

class FleetTest : public testing::Test {
 protected:
  static constexpr double k_speed = 50;

  void add(const std::string& name, const std::string& command, WorkerSettings worker = {}) {
    Trial one = trial(name, command);
    worker.on = true;
    one.worker = worker;
    run_.experiment.trials.push_back(std::move(one));
  }
  Observation start(std::size_t trial, int attempt = 1) {
    const StartResult result = engine_->start(run_, run_.experiment.trials.at(trial), attempt, {});
    if (!std::holds_alternative<Running>(result)) throw Error(ErrorKind::conflict, "test", "slots are taken");
    return std::get<Running>(result).observation;
  }
  std::vector<Observation> list() { return engine_->list({.run = run_.id}, ListDetail::consistent, {}); }
  void restart() {
    engine_ = with_workers(cutting_, [](std::string_view) { return "agent"; });
  }
  // Waits at most ten seconds.
  static void until(const std::string& what, const std::function<bool()>& holds) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "never: " << what;
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  void await_end(std::size_t trial, int attempt = 1) {
    const std::string& name = run_.experiment.trials.at(trial).name;
    until(name + " ends", [&] {
      return std::ranges::any_of(list(), [&](const Observation& seen) {
        return seen.key.trial == name && seen.key.attempt == attempt && seen.phase == Phase::ended;
      });
    });
  }
  Key key(std::size_t trial, int attempt = 1) {
    return {.run = run_.id, .trial = run_.experiment.trials.at(trial).name, .attempt = attempt};
  }
  // The containers of workers that run.
  std::set<std::string> workers() {
    std::set<std::string> names;
    for (const Observation& seen : simulated_->list({}, ListDetail::basic, {}))
      if (is_worker_name(seen.key.trial) && seen.phase == Phase::running) names.insert(seen.key.trial);
    return names;
  }

  combu::Run run_{.id = RunId("run1"), .experiment = {.name = "fleet", .file = "/fleet"}};
  World world_{{.start_takes = Seconds(0.01)}};
  std::unique_ptr<Engine> simulated_ = open_simulated(world_, k_speed);
  CuttingEngine cutting_{*simulated_};
  std::unique_ptr<Engine> engine_ = with_workers(cutting_, [](std::string_view) { return "agent"; });
};

}  // namespace combu::test
