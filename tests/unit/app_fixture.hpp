#pragma once
// Fixtures that call the use cases of the room app in the test's process. Each test has a folder of its own,
// with the state folder and the experiment's file. AppTest also has a simulated engine, which all use cases
// of the test share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/resume.hpp"
#include "app/run_owner.hpp"
#include "app/start.hpp"
#include "combu/session.hpp"
#include "combu/simulated.hpp"
#include "error_of.hpp"
#include "passing_engine.hpp"
#include "record_folder.hpp"

namespace combu::test {

// The lines that were shown. Another thread may wait for a line.
class Printed {
 public:
  void add(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    lines_.push_back(line);
    changed_.notify_all();
  }
  [[nodiscard]] std::vector<std::string> lines() {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }
  [[nodiscard]] std::string text() {
    std::string text;
    for (const std::string& line : lines()) text += line + "\n";
    return text;
  }
  // Returns the lines of one kind ("note", "error", "phase"), without the kind.
  [[nodiscard]] std::vector<std::string> of(const std::string& kind) {
    std::vector<std::string> some;
    for (const std::string& line : lines())
      if (line.starts_with(kind + " ")) some.push_back(line.substr(kind.size() + 1));
    return some;
  }
  [[nodiscard]] bool wait_for(const std::string& line) {
    constexpr std::chrono::seconds k_patience{60};
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, k_patience,
                             [&] { return std::ranges::find(lines_, line) != lines_.end(); });
  }
  void clear() {
    const std::scoped_lock lock(mutex_);
    lines_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

// Adds each event to a Printed: "note …", "error …", "phase …"; a fact as "NAME STATE".
class Shown final : public Progress {
 public:
  explicit Shown(Printed& printed) : printed_(printed) {}

  void phase(std::string_view text) override { printed_.add("phase " + std::string(text)); }
  void preparation(const Preparation& it) override { printed_.add("preparation " + it.name); }
  void counted(std::string_view verb, std::size_t count, std::size_t total) override {
    printed_.add(std::string(verb) + " " + std::to_string(count) + " of " + std::to_string(total));
  }
  void note(std::string_view line) override { printed_.add("note " + std::string(line)); }
  void error(std::string_view line) override { printed_.add("error " + std::string(line)); }
  void begin(const combu::Run& run) override {
    names_.clear();
    for (const Trial& trial : run.experiment.trials) names_.push_back(trial.name);
    printed_.add("begin " + run.id.text());
  }
  void fact(const Fact& fact) override {
    printed_.add(names_.at(fact.trial) + " " + std::string(to_string(fact.state)));
  }
  void snapshot(const Snapshot& /*snapshot*/) override {}
  void end() override {}

 private:
  Printed& printed_;
  std::vector<std::string> names_;
};

// Returns a trial as Jsonnet. `fields`: further fields.
inline std::string trial_text(const std::string& name, const std::string& cmd = "true",
                              const std::string& fields = "") {
  return "{name: '" + name + "', image: 'lab/x', cmd: " + (cmd.empty() ? "null" : "\"" + cmd + "\"") + ", " +
         fields + "},\n";
}
// A trial that runs until it is stopped.
inline constexpr const char* k_endless_trial = "{name: 'goes', image: 'lab/x', cmd: 'sleep 100000'},";
// Returns the text of a file. `trials`: the concatenated results of several calls of trial_text().
inline std::string file_text(const std::string& trials, const std::string& fields = "") {
  return "{experiment: 'lab', " + fields + "\ntrials: [\n" + trials + "]}";
}

inline NewRun new_run(const std::string& id) {
  NewRun run;
  run.id = id;
  return run;
}
// Returns a run whose process stays until all trials have ended (--wait).
inline NewRun waiting_run(const std::string& id) {
  NewRun run = new_run(id);
  run.options.wait = true;
  return run;
}

// A simulated engine that behaves like a real engine: its containers outlive the process that started them.
// Several use cases share the engine.
class KeptEngine final : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  Facts facts(std::stop_token token) override {
    Facts facts = PassingEngine::facts(std::move(token));
    facts.is_simulated = false;
    return facts;
  }
};

class StateFolderTest : public testing::Test {
 protected:
  StateFolderTest() {
    std::filesystem::remove_all(folder.path());
    std::filesystem::create_directories(folder.path());
    setenv("COMBU_HOME", state().c_str(), 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  }
  ~StateFolderTest() override {
    unsetenv("COMBU_HOME");  // NOLINT(concurrency-mt-unsafe): there is one thread
  }

  [[nodiscard]] std::string path(const std::string& name) const { return folder.path() + "/" + name; }
  [[nodiscard]] std::string state() const { return path("state"); }
  [[nodiscard]] Invocation invocation_of(const std::string& file) const {
    return {.arguments = {"combu", "run"},
            .file = path(file),
            .check_sections = [](const Experiment& /*experiment*/) { return std::vector<Error>(); }};
  }

  void write_file(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  // Writes the experiment's file.
  void write(const std::string& text) const { write_file("experiment.jsonnet", text); }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  Folder folder{"combu-app"};
  std::stop_source stop;
};

class AppTest : public StateFolderTest {
 protected:
  [[nodiscard]] OpenSession opener(Progress& progress, std::stop_token token) {
    return [this, &progress, token = std::move(token)](const Invocation& given) {
      return std::make_shared<Session>(progress, *engine,
                                       EngineName{.address = address, .given = given.engine}, token);
    };
  }
  [[nodiscard]] OpenSession opener() { return opener(shown, stop.get_token()); }
  // Shows the error of a use case that has opened a session. If the session was not opened, throws the error
  // to the test.
  static Result result_of(const OpenSession& open_session, Progress& progress,
                          const std::function<Result(const OpenSession&)>& use_case) {
    bool was_opened = false;
    try {
      return use_case([&](const Invocation& given) {
        was_opened = true;
        return open_session(given);
      });
    } catch (const Error& error) {
      if (!was_opened) throw;
      progress.error(error.what());
      return error.kind() == ErrorKind::cancelled ? Result::interrupted : combu::result_of(error.kind());
    }
  }
  Result result_of(const std::function<Result(const OpenSession&)>& use_case) {
    return result_of(opener(), shown, use_case);
  }
  Result in_session(const std::function<Result(Session&)>& body) {
    return result_of([&](const OpenSession& open_session) { return body(*open_session(invocation)); });
  }
  void with_session(const std::function<void(Session&)>& body) {
    (void)in_session([&](Session& session) {
      body(session);
      return Result::succeeded;
    });
  }

  Result start(const NewRun& wanted) {
    RunOwner owner(nullptr);
    return result_of([&](const OpenSession& open_session) {
      return start_run(invocation, wanted, shown, open_session, owner);
    });
  }
  Result start(const std::string& text, const NewRun& wanted) {
    write(text);
    return start(wanted);
  }
  Result resume(const Resumption& resumption = {}) {
    RunOwner owner(nullptr);
    return result_of([&](const OpenSession& open_session) {
      return resume_run({invocation, shown, open_session, owner}, resumption);
    });
  }
  Result retry(const RetryOptions& options) {
    RunOwner owner(nullptr);
    return result_of([&](const OpenSession& open_session) {
      return retry_trials({invocation, shown, open_session, owner}, options);
    });
  }

  // A process that runs `text`, simulated by a thread with a progress and a stop token of its own.
  class Process {
   public:
    Process(AppTest& test, const std::string& text, const NewRun& wanted) {
      test.write(text);
      done_ = std::async(std::launch::async, [this, &test, wanted] {
        RunOwner owner(nullptr);
        const auto progress = owner.share(std::make_unique<Shown>(printed));
        const Result result = result_of(
            test.opener(*progress, stop.get_token()), *progress, [&](const OpenSession& open_session) {
              return start_run(test.invocation, wanted, *progress, open_session, owner);
            });
        (void)owner.done(static_cast<int>(result));
        return result;
      });
    }
    ~Process() { stop.request_stop(); }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    [[nodiscard]] Result result() { return done_.get(); }
    Printed printed;
    std::stop_source stop;

   private:
    std::future<Result> done_;
  };

  // Advances the engine's clock by an hour, so that `sleep 100` ends without a process that observes the end.
  void pass_an_hour() { world.advance(real_clock().now() + std::chrono::hours(1)); }
  // Stops a container directly on the engine, without combu.
  void stop_container(const std::string& run, const std::string& trial, int attempt = 1) {
    simulated->stop({.run = RunId(run), .trial = trial, .attempt = attempt}, std::nullopt, {});
  }
  void remove_container(const std::string& run, const std::string& trial) {
    (void)simulated->release({.run = RunId(run), .trials = {trial}}, {}, {});
  }
  [[nodiscard]] std::vector<std::string> containers() {
    std::vector<std::string> names;
    for (const Observation& seen : simulated->list({}, ListDetail::basic, {}))
      names.push_back(seen.key.trial);
    std::ranges::sort(names);
    return names;
  }

  [[nodiscard]] Record record() const { return Record(state()); }
  [[nodiscard]] RunEntry entry(const std::string& run) const { return record().run(RunId(run)); }
  [[nodiscard]] TrialEntry trial_of(const std::string& run, const std::string& trial) const {
    return record().trials(RunId(run), trial).at(0);
  }
  // Returns the state of each trial, such as "succeeded", or "succeeded 2" for a second attempt.
  [[nodiscard]] std::map<std::string, std::string> states(const std::string& run) const {
    std::map<std::string, std::string> states;
    for (const TrialEntry& trial : record().trials(RunId(run)))
      states[trial.name] = std::string(to_string(trial.state)) +
                           (trial.attempt > 1 ? " " + std::to_string(trial.attempt) : "");
    return states;
  }
  [[nodiscard]] Caller caller() const { return caller_for(invocation); }

  World world{{.start_takes = Seconds(0), .gpus = 2}};
  std::unique_ptr<Engine> simulated = open_simulated(world, 1);
  KeptEngine kept_engine{*simulated};
  Engine* engine = &kept_engine;  // the engine that sessions get
  std::string address = "unix:///run/lab.sock";
  Printed printed;
  Shown shown{printed};
  Invocation invocation = invocation_of("experiment.jsonnet");
};

}  // namespace combu::test
