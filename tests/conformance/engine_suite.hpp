#pragma once
// One suite for every engine: it tests the contracts of include/combu/engine.hpp, with one test for each. The
// tests are in engine_*_test.cpp, which every program of the suite compiles. A program implements Subject for
// its engine, and instantiates EngineSuite with a function that creates a Subject.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"

namespace combu::conformance {

// The suite's access to the engine under test. Each test creates a new Subject. The suite releases what a
// test leaves on the engine; the Subject's destructor removes containers and networks that combu did not
// create.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual Engine& engine() = 0;

  // Returns trials with the behaviour that the name says. Each has a name, and an image that the engine has.
  virtual Trial runs_until_stopped(const std::string& name) = 0;  // ends at once on its stop signal
  virtual Trial exits_with(const std::string& name, int code) = 0;
  // Writes these lines, then exits with 0.
  virtual Trial says(const std::string& name, const std::vector<std::string>& out,
                     const std::vector<std::string>& err) = 0;
  // Runs; its health becomes healthy or unhealthy soon.
  virtual Trial turns(const std::string& name, Health health) = 0;
  virtual Trial cannot_start(const std::string& name) = 0;  // the engine refuses its start
  // Writes to standard output: the file `path`; its mode in octal digits, and the end of the line; the value
  // of the environment variable, and the end of the line. Then exits with 0.
  virtual Trial tells_secrets(const std::string& /*name*/, const std::string& /*path*/,
                              const std::string& /*variable*/) {
    throw std::logic_error("only for engines of SecretSuite");
  }
  // Uses so much memory, or is killed.
  virtual Trial eats(const std::string& name, Bytes memory) = 0;

  // Writes "kept" and a line end to /out/a, then exits with 0.
  virtual Trial leaves(const std::string& name) = 0;
  // Writes the file `path` twice to standard output and twice to /out/a, then exits with 0.
  virtual Trial repeats(const std::string& name, const std::string& path) = 0;

  // Creates a running container that combu did not create, and publishes this host port (0: none).
  virtual void make_stranger(const std::string& name, std::uint16_t host_port) = 0;
  virtual bool stranger_runs(const std::string& name) = 0;
  virtual void make_strange_network(const std::string& name) = 0;
  virtual bool has_network(const std::string& name) = 0;

  // Called repeatedly while the suite waits for a change. If time is simulated, some time passes.
  virtual void let_time_pass() {}
};

// EngineSuite holds for every engine. HostSuite holds for engines that start attempts on one host, which they
// know: start() starts a container at once, the host has the images, and networks belong to the host.
// PlacingSuite holds for engines with Facts::places_attempts. FileSuite holds for engines that copy files
// into attempts and out of them. HealthSuite holds for engines that run health checks. ContainerSuite holds
// for engines that give each attempt a container of its own: the attempt's name is the container's name, and
// the attempt can have ports, a health check, networks of its own and any files. An attempt in a worker
// shares all of these with other attempts. ExecSuite holds for engines with exec() whose containers have the
// programs `sh`, `cat` and `sleep`. SecretSuite holds for engines that give attempts secrets as variables,
// and SecretFileSuite for those that also give files. The simulated engine ignores secrets.
struct Flavour {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;
  friend std::ostream& operator<<(std::ostream& out, const Flavour& flavour) { return out << flavour.name; }
};

// Watches in its own thread, stores the reported changes, and waits for expected changes.
class Watcher {
 public:
  Watcher(Subject& subject, Selector selector) : subject_(subject) {
    thread_ =
        std::jthread([this, selector = std::move(selector)](std::stop_token stop) { watch(selector, stop); });
    until("the subscription", [this] { return watching_; });
  }

  // Waits for a change that `wanted` accepts, including past changes. After a minute, fails the test and
  // returns nullopt.
  std::optional<Observation> wait_for(const std::string& what,
                                      const std::function<bool(const Observation&)>& wanted) {
    std::optional<Observation> found;
    until(what, [&] {
      const auto at = std::find_if(seen_.begin(), seen_.end(), wanted);
      if (at != seen_.end()) found = *at;
      return found.has_value();
    });
    return found;
  }
  std::optional<Observation> wait_for(const std::string& trial, Phase phase) {
    return wait_for(trial + " " + std::string(to_string(phase)),
                    [&](const Observation& seen) { return seen.key.trial == trial && seen.phase == phase; });
  }
  std::optional<Observation> wait_for(const std::string& trial, Health health) {
    return wait_for(trial + " " + std::string(to_string(health)), [&](const Observation& seen) {
      return seen.key.trial == trial && seen.health == health;
    });
  }

  [[nodiscard]] std::vector<Observation> seen() const {
    const std::scoped_lock lock(mutex_);
    return seen_;
  }

 private:
  void watch(const Selector& selector, std::stop_token stop) {
    try {
      subject_.engine().watch(
          selector, [this](const Change& change) { take(change); }, stop);
    } catch (const Error& error) {
      ADD_FAILURE() << "watch: " << error.what();
    }
  }

  void take(const Change& change) {
    const std::scoped_lock lock(mutex_);
    if (const auto* observation = std::get_if<Observation>(&change)) {
      seen_.push_back(*observation);
    } else {
      watching_ = true;
    }
    changed_.notify_all();
  }

  void until(const std::string& what, const std::function<bool()>& done) {
    constexpr std::chrono::milliseconds k_step{5};
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, k_step, done)) {
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "never told: " << what;
        return;
      }
      lock.unlock();
      subject_.let_time_pass();
      lock.lock();
    }
  }

  Subject& subject_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool watching_ = false;
  std::vector<Observation> seen_;
  std::jthread thread_;  // last: must end before the members that it uses are destroyed
};

class EngineSuite : public testing::TestWithParam<Flavour> {
 protected:
  using Run = combu::Run;  // hides testing::Test::Run
  void SetUp() override { subject_ = GetParam().make(); }

  void TearDown() override {
    if (!subject_) return;
    for (const std::string& name : experiments_) {
      Selector selector;
      selector.experiment = name;
      EXPECT_THAT(engine().release(selector, {}, {}).left, testing::IsEmpty());
    }
  }

  Subject& subject() { return *subject_; }
  Engine& engine() { return subject_->engine(); }

  // Returns a run of these trials whose images and networks are prepared.
  Run ready(std::string experiment, std::vector<Trial> trials) {
    Run run = described(std::move(experiment), std::move(trials));
    EXPECT_THAT(words(engine().prepare(run, [](const Preparation&) {}, {})), testing::IsEmpty());
    return run;
  }

  Run described(std::string experiment, std::vector<Trial> trials) {
    Run run;
    run.id = RunId::random();
    run.experiment.name = experiment;
    run.experiment.file = "/folder/of/" + experiment + ".jsonnet";
    run.experiment.trials = std::move(trials);
    experiments_.push_back(std::move(experiment));
    return run;
  }

  // Starts all trials. Returns when all of them run or have run.
  void start_all(const Run& run) {
    std::set<std::string> accepted;
    for (const Trial& trial : run.experiment.trials)
      if (std::holds_alternative<Accepted>(engine().start(run, trial, 1, {}))) accepted.insert(trial.name);
    if (accepted.empty()) return;
    (void)list_settled(run.experiment.name, [&](const Observation& seen) {
      return seen.key.run != run.id || !accepted.contains(seen.key.trial) || has_run(seen.phase);
    });
  }

  std::vector<Observation> list_all(const std::string& experiment) {
    Selector selector;
    selector.experiment = experiment;
    return engine().list(selector, ListDetail::consistent, {});
  }

  // Returns the listing as soon as `settled` is true for every attempt. An engine's listing may lag behind
  // its events by a moment (moby/moby: the "die" event is sent before the state that listings read is
  // written).
  std::vector<Observation> list_settled(const std::string& experiment,
                                        const std::function<bool(const Observation&)>& settled) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (true) {
      std::vector<Observation> listed = list_all(experiment);
      if (std::all_of(listed.begin(), listed.end(), settled)) return listed;
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "never listed as it was told: " << experiment;
        return listed;
      }
      subject().let_time_pass();
    }
  }
  static bool has_ended(const Observation& observation) { return observation.phase == Phase::ended; }

  std::vector<std::string> names(const Selector& selector) {
    std::vector<std::string> names;
    for (const Observation& observation : engine().list(selector, ListDetail::consistent, {}))
      names.push_back(observation.key.trial);
    return names;
  }

  static Key key_of(const Run& run, const std::string& trial) { return {run.id, trial, 1}; }
  static Selector all_of(const Run& run) {
    Selector selector;
    selector.experiment = run.experiment.name;
    return selector;
  }
  static std::vector<std::string> words(const std::vector<Error>& errors) {
    std::vector<std::string> words;
    for (const Error& error : errors) words.emplace_back(error.what());
    return words;
  }
  template <typename Verb>
  static std::optional<ErrorKind> kind_of(const Verb& verb) {
    try {
      verb();
    } catch (const Error& error) {
      return error.kind();
    }
    return std::nullopt;
  }
  static std::stop_token stopped() {
    std::stop_source source;
    source.request_stop();
    return source.get_token();
  }

  std::string logs_of(const Run& run, const std::string& trial, const LogOptions& options, LogStream wanted) {
    std::string text;
    engine().logs(key_of(run, trial), options,
                  [&](const LogPiece& piece) {
                    if (piece.stream == wanted) text += piece.text;
                  },
                  {});
    return text;
  }

 private:
  std::unique_ptr<Subject> subject_;
  std::vector<std::string> experiments_;
};

class HostSuite : public EngineSuite {};
class FileSuite : public EngineSuite {};
class HealthSuite : public EngineSuite {};
class PlacingSuite : public EngineSuite {};
class SecretSuite : public EngineSuite {};
class SecretFileSuite : public EngineSuite {};
// Tests of attempts that have containers of their own.
class ContainerSuite : public EngineSuite {};

// Tests of exec(). The trials of the engine must have the programs `sh`, `cat` and `sleep`.
class ExecSuite : public EngineSuite {
 protected:
  // Returns a run of one attempt, which runs.
  Run running(const std::string& trial) {
    Run run = ready("exec-" + trial, {subject().runs_until_stopped(trial)});
    start_all(run);
    return run;
  }

  std::unique_ptr<ByteStream> exec(const Run& run, const std::vector<std::string>& argv) {
    return engine().exec(key_of(run, run.experiment.trials.at(0).name), argv, {});
  }

  // Returns the next `size` bytes, or all bytes until the end of the stream if there are fewer.
  static std::string read(ByteStream& stream, std::size_t size) {
    std::string text;
    std::string buffer(std::size_t{64} << 10U, '\0');
    while (text.size() < size) {
      const std::size_t count =
          stream.read(std::span(buffer.data(), std::min(buffer.size(), size - text.size())));
      if (count == 0) break;
      text.append(buffer, 0, count);
    }
    return text;
  }
  static std::string read_all(ByteStream& stream) { return read(stream, std::string::npos); }

  // Returns true if the stream ends without bytes, or because of a broken connection.
  static bool ends(ByteStream& stream) {
    std::array<char, 100> buffer{};
    try {
      return stream.read(buffer) == 0;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::unavailable;
    }
  }
};

inline std::string flavour_name(const testing::TestParamInfo<Flavour>& info) {
  return info.param.name;
}

}  // namespace combu::conformance
