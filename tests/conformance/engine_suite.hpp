#pragma once
// One suite for every engine: the promises of include/combu/engine.hpp, one test each. A program includes
// this once, implements Subject for its engine, and instantiates EngineSuite with a function that makes one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"

namespace combu::conformance {

// What the suite must know of the engine under test. A new one for each test; what a test leaves on the
// engine is released by the suite, strangers by the subject's destructor.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual Engine& engine() = 0;

  // Trials of an image that the engine has, with name and image set, which do what is said.
  virtual Trial runs_until_stopped(const std::string& name) = 0;  // and ends at once on its stop signal
  virtual Trial exits_with(const std::string& name, int code) = 0;
  virtual Trial says(const std::string& name, const std::vector<std::string>& out,
                     const std::vector<std::string>& err) = 0;  // lines, then exits with 0
  virtual Trial turns(const std::string& name,
                      Health health) = 0;  // runs; its health becomes healthy or unhealthy soon
  virtual Trial cannot_start(const std::string& name) = 0;  // the engine refuses its start
  // Needs so much memory, or is killed.
  virtual Trial eats(const std::string& name, Bytes memory) = 0;

  virtual Trial leaves(const std::string& name) = 0;  // "kept" and a line's end in /out/a, then exits with 0

  // What is not ours: a running container, with this host port (0: none) published.
  virtual void make_stranger(const std::string& name, std::uint16_t host_port) = 0;
  virtual bool stranger_runs(const std::string& name) = 0;
  virtual void make_strange_network(const std::string& name) = 0;
  virtual bool has_network(const std::string& name) = 0;

  // Called again and again while the suite waits for a change; where time is virtual, some of it passes.
  virtual void let_time_pass() {}
};

struct Flavour {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;
  friend std::ostream& operator<<(std::ostream& out, const Flavour& flavour) { return out << flavour.name; }
};

// Watches on a thread of its own, keeps what it is told, and waits for what a test expects.
class Watcher {
 public:
  Watcher(Subject& subject, Selector selector) : subject_(subject) {
    thread_ =
        std::jthread([this, selector = std::move(selector)](std::stop_token stop) { watch(selector, stop); });
    until("the subscription", [this] { return watching_; });
  }

  // Waits for a change that `wanted` accepts, past ones included; nullopt and a failure of the test after a
  // minute.
  std::optional<Sighting> wait_for(const std::string& what,
                                   const std::function<bool(const Sighting&)>& wanted) {
    std::optional<Sighting> found;
    until(what, [&] {
      const auto at = std::find_if(seen_.begin(), seen_.end(), wanted);
      if (at != seen_.end()) found = *at;
      return found.has_value();
    });
    return found;
  }
  std::optional<Sighting> wait_for(const std::string& trial, Phase phase) {
    return wait_for(trial + " " + std::string(to_string(phase)),
                    [&](const Sighting& seen) { return seen.key.trial == trial && seen.phase == phase; });
  }
  std::optional<Sighting> wait_for(const std::string& trial, Health health) {
    return wait_for(trial + " " + std::string(to_string(health)),
                    [&](const Sighting& seen) { return seen.key.trial == trial && seen.health == health; });
  }

  [[nodiscard]] std::vector<Sighting> seen() const {
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
    if (const auto* sighting = std::get_if<Sighting>(&change)) {
      seen_.push_back(*sighting);
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
  std::vector<Sighting> seen_;
  std::jthread thread_;  // last: it ends before what it uses
};

class EngineSuite : public testing::TestWithParam<Flavour> {
 protected:
  using Run = combu::Run;  // not testing::Test::Run
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

  // A run of these trials, its images and networks made ready.
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

  void start_all(const Run& run) {
    for (const Trial& trial : run.experiment.trials) engine().start(run, trial, 1, {});
  }

  std::vector<Sighting> list_all(const std::string& experiment) {
    Selector selector;
    selector.experiment = experiment;
    return engine().list(selector, Look::closely, {});
  }

  // What is listed once `settled` is true of all of it: an engine's listing may lag behind its events by a
  // moment (moby/moby: the "die" event goes out before the state that listings read is written).
  std::vector<Sighting> list_settled(const std::string& experiment,
                                     const std::function<bool(const Sighting&)>& settled) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (true) {
      std::vector<Sighting> listed = list_all(experiment);
      if (std::all_of(listed.begin(), listed.end(), settled)) return listed;
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "never listed as it was told: " << experiment;
        return listed;
      }
      subject().let_time_pass();
    }
  }
  static bool has_ended(const Sighting& sighting) { return sighting.phase == Phase::ended; }

  std::vector<std::string> names(const Selector& selector) {
    std::vector<std::string> names;
    for (const Sighting& sighting : engine().list(selector, Look::closely, {}))
      names.push_back(sighting.key.trial);
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

inline std::string flavour_name(const testing::TestParamInfo<Flavour>& info) {
  return info.param.name;
}

TEST_P(EngineSuite, FactsTellWhatTheEngineIs) {
  const Facts facts = engine().facts({});
  EXPECT_NE(facts.engine, "");
  EXPECT_NE(facts.address, "");
  EXPECT_GT(facts.capacity.cpus.nano, 0);
  EXPECT_GT(facts.capacity.memory.count, 0);
}

// ---- start

TEST_P(EngineSuite, AStartedTrialRunsAndIsListed) {
  const Run run = ready("started", {subject().runs_until_stopped("started-a")});
  Watcher watcher(subject(), all_of(run));
  const StartResult result = engine().start(run, run.experiment.trials[0], 1, {});
  ASSERT_TRUE(std::holds_alternative<Running>(result));
  EXPECT_EQ(std::get<Running>(result).observation.phase, Phase::running);
  const std::optional<Sighting> watched = watcher.wait_for("started-a", Phase::running);
  ASSERT_TRUE(watched);
  EXPECT_EQ(watched->key, key_of(run, "started-a"));
  EXPECT_EQ(watched->experiment, "started");

  const std::vector<Sighting> listed = list_all("started");
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].key, key_of(run, "started-a"));
  EXPECT_EQ(listed[0].experiment, "started");
  EXPECT_EQ(listed[0].file, run.experiment.file);
  EXPECT_EQ(listed[0].phase, Phase::running);
  EXPECT_EQ(listed[0].health, Health::none);
  EXPECT_FALSE(listed[0].exit_code);
  EXPECT_NE(listed[0].id, "");
  EXPECT_EQ(listed[0].id, watched->id);
  EXPECT_NE(listed[0].status, "");
  EXPECT_NE(listed[0].created_at, Instant{});
}

TEST_P(EngineSuite, AnEndIsToldWithItsExitCode) {
  const Run run =
      ready("ends", {subject().exits_with("ends-well", 0), subject().exits_with("ends-badly", 3)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto well = watcher.wait_for("ends-well", Phase::ended);
  const auto badly = watcher.wait_for("ends-badly", Phase::ended);
  ASSERT_TRUE(well && badly);
  EXPECT_EQ(well->exit_code, 0);
  EXPECT_EQ(badly->exit_code, 3);
  for (const Sighting& sighting : list_settled("ends", has_ended)) {
    EXPECT_EQ(sighting.exit_code, sighting.key.trial == "ends-well" ? 0 : 3);
  }
}

TEST_P(EngineSuite, AFullLookTellsWhenItRan) {
  const Run run =
      ready("times", {subject().exits_with("times-over", 3), subject().runs_until_stopped("times-on")});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("times-over", Phase::ended));
  for (const Sighting& sighting : engine().list(all_of(run), Look::fully, {})) {
    const bool is_over = sighting.key.trial == "times-over";
    ASSERT_TRUE(sighting.ran_at) << sighting.key.trial;
    // An engine may round when it was created to a second.
    EXPECT_GE(*sighting.ran_at, sighting.created_at) << sighting.key.trial;
    ASSERT_EQ(sighting.ended_at.has_value(), is_over);
    if (!is_over) continue;
    EXPECT_EQ(sighting.exit_code, 3);
    EXPECT_GE(*sighting.ended_at, *sighting.ran_at);
    EXPECT_LT(*sighting.ended_at - *sighting.ran_at, std::chrono::minutes(1));
  }
}

// The names and contents of an archive's files follow each other as they are.
TEST_P(EngineSuite, WhatAnAttemptHasLeftIsAnArchive) {
  const Run run = ready("leaves", {subject().leaves("leaves-a")});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("leaves-a", Phase::ended));
  const Key key{.run = run.id, .trial = "leaves-a"};
  const auto archive = [&](const std::string& path) {
    std::string bytes;
    const bool found = engine().copy_out(key, path, [&](std::string_view piece) { bytes += piece; }, {});
    EXPECT_EQ(found, !bytes.empty()) << path;
    return bytes;
  };
  const std::string folder = archive("/out");
  EXPECT_THAT(folder, testing::StartsWith("out/"));
  EXPECT_THAT(folder, testing::HasSubstr("out/a"));
  EXPECT_THAT(folder, testing::HasSubstr("kept\n"));
  const std::string file = archive("/out/a");
  EXPECT_EQ(file.substr(0, 2), std::string("a\0", 2));
  EXPECT_THAT(file, testing::HasSubstr("kept\n"));
  EXPECT_EQ(archive("/no/such"), "");
  EXPECT_EQ(archive("/out/b"), "");
}

// Files of this machine that a trial is given.
class Given {
 public:
  Given() : folder_(testing::TempDir() + "given." + RunId::random().text()) {
    std::filesystem::create_directories(folder_ + "/sub");
    put("sub/a", "first\n");
    put("b", "second\n");
  }
  ~Given() { std::filesystem::remove_all(folder_); }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
  [[nodiscard]] const std::string& folder() const { return folder_; }
  void put(const std::string& path, const std::string& content) const {
    std::ofstream(folder_ + '/' + path) << content;
  }

 private:
  std::string folder_;
};

TEST_P(EngineSuite, InputsAreThereWhenAnAttemptStarts) {
  const Given given;
  Trial trial = subject().exits_with("given-a", 3);
  trial.inputs = {{.from = given.folder(), .to = "/in/deep/data"},
                  {.from = given.folder() + "/b", .to = "/b"}};
  const Run run = ready("given", {trial});
  Watcher watcher(subject(), all_of(run));
  const auto content = [&](int attempt, const std::string& path) {
    std::string bytes;
    const Key key{.run = run.id, .trial = "given-a", .attempt = attempt};
    (void)engine().copy_out(key, path, [&](std::string_view piece) { bytes += piece; }, {});
    return bytes;
  };
  start_all(run);
  EXPECT_THAT(content(1, "/in/deep/data/sub/a"), testing::HasSubstr("first\n"));
  EXPECT_THAT(content(1, "/b"), testing::HasSubstr("second\n"));
  ASSERT_TRUE(watcher.wait_for("given-a", Phase::ended));
  given.put("b", "another\n");
  (void)engine().start(run, run.experiment.trials[0], 2, {});
  EXPECT_THAT(content(2, "/in/deep/data/sub/a"), testing::HasSubstr("first\n"));
  EXPECT_THAT(content(2, "/b"), testing::HasSubstr("another\n"));
}

TEST_P(EngineSuite, AnInputThatIsNotThereIsARefusal) {
  const Given given;
  Trial trial = subject().exits_with("given-none", 0);
  trial.inputs = {{.from = given.folder() + "/none", .to = "/in"}};
  const Run run = ready("given-none", {trial});
  try {
    start_all(run);
    ADD_FAILURE() << "it was started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::refused);
    EXPECT_EQ(error.message(), given.folder() + "/none is not there");
  }
}

TEST_P(EngineSuite, NothingIsCopiedOutOfWhatIsNotThere) {
  const Run run = ready("leaves-other", {subject().leaves("leaves-other-a")});
  start_all(run);
  for (const Key& key :
       {Key{.run = run.id, .trial = "nobody"}, Key{.run = run.id, .trial = "leaves-other-a", .attempt = 2},
        Key{.run = RunId("another"), .trial = "leaves-other-a"}}) {
    EXPECT_EQ(kind_of([&] { (void)engine().copy_out(key, "/out", [](std::string_view) {}, {}); }),
              ErrorKind::not_found)
        << key.trial;
  }
}

TEST_P(EngineSuite, ARepeatedStartAdoptsWhatRuns) {
  const Run run = ready("adopt", {subject().runs_until_stopped("adopt-a")});
  start_all(run);
  const std::vector<Sighting> before = list_all("adopt");
  start_all(run);
  const std::vector<Sighting> after = list_all("adopt");
  ASSERT_EQ(before.size(), 1U);
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(before[0].id, after[0].id);
}

TEST_P(EngineSuite, ARepeatedStartLeavesWhatHasEnded) {
  const Run run = ready("adopt-ended", {subject().exits_with("adopt-ended-a", 4)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto ended = watcher.wait_for("adopt-ended-a", Phase::ended);
  ASSERT_TRUE(ended);
  start_all(run);
  const std::vector<Sighting> listed = list_settled("adopt-ended", has_ended);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].id, ended->id);
  EXPECT_EQ(listed[0].phase, Phase::ended);
  EXPECT_EQ(listed[0].exit_code, 4);
}

TEST_P(EngineSuite, TheNextAttemptTakesTheNameOfOneThatIsOver) {
  const Run run = ready("again", {subject().exits_with("again-a", 4)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("again-a", Phase::ended));
  engine().start(run, run.experiment.trials[0], 2, {});
  const std::vector<Sighting> listed = list_settled("again", has_ended);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].key.attempt, 2);
}

TEST_P(EngineSuite, TheNextAttemptLeavesOneThatRuns) {
  const Run run = ready("alive", {subject().runs_until_stopped("alive-a")});
  start_all(run);
  EXPECT_EQ(kind_of([&] { engine().start(run, run.experiment.trials[0], 2, {}); }), ErrorKind::conflict);
  const std::vector<Sighting> listed = list_all("alive");
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].key.attempt, 1);
  EXPECT_EQ(listed[0].phase, Phase::running);
}

TEST_P(EngineSuite, WhatTakesMoreThanItsMemoryIsToldAsOutOfMemory) {
  Trial trial = subject().eats("eats-a", Bytes{std::int64_t{256} << 20});
  trial.slots.memory = Bytes{std::int64_t{32} << 20};
  const Run run = ready("eats", {trial});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto ended = watcher.wait_for("eats-a", Phase::ended);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->oom);
  EXPECT_FALSE(ended->stopped);
  EXPECT_EQ(ended->exit_code, 137);
  const std::vector<Sighting> listed = list_settled("eats", has_ended);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_TRUE(listed[0].oom);
}

TEST_P(EngineSuite, WhatAnAttemptUsesIsToldWhileItRuns) {
  const Run run = ready("usage", {subject().runs_until_stopped("usage-a")});
  const Trial& trial = run.experiment.trials[0];
  const std::string id = std::get<Running>(engine().start(run, trial, 1, {})).observation.id;
  const auto usage = engine().usage(id, {});
  ASSERT_TRUE(usage);
  EXPECT_GT(usage->memory.count, 0);
  EXPECT_GE(usage->cpu.count(), 0);
  engine().stop(key_of(run, "usage-a"), Seconds(0), {});
  ASSERT_FALSE(list_settled("usage", has_ended).empty());
  EXPECT_FALSE(engine().usage(id, {}));
  EXPECT_FALSE(engine().usage("0123456789ab", {}));
}

TEST_P(EngineSuite, WhatWasStoppedIsToldAsStopped) {
  const Run run = ready("halted", {subject().runs_until_stopped("halted-a")});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  engine().stop(key_of(run, "halted-a"), Seconds(5), {});
  const auto ended = watcher.wait_for("halted-a", Phase::ended);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->stopped);
  EXPECT_FALSE(ended->oom);
}

TEST_P(EngineSuite, StartsFromManyThreads) {
  constexpr std::size_t k_count = 12;
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < k_count; ++i)
    trials.push_back(subject().runs_until_stopped("many-" + std::to_string(i)));
  const Run run = ready("many", std::move(trials));
  in_parallel(k_count, 6, [&](std::size_t i) { engine().start(run, run.experiment.trials[i], 1, {}); });
  EXPECT_EQ(list_all("many").size(), k_count);
}

TEST_P(EngineSuite, AnAbsentImageIsNotFound) {
  Trial trial = subject().runs_until_stopped("imageless-a");
  trial.image = "combu-test-absent:never";
  const Run run = described("imageless", {trial});
  EXPECT_EQ(kind_of([&] { engine().start(run, trial, 1, {}); }), ErrorKind::not_found);
}

TEST_P(EngineSuite, ADefiniteRefusalIsRefused) {
  const Run run = ready("refused", {subject().cannot_start("refused-a")});
  EXPECT_EQ(kind_of([&] { start_all(run); }), ErrorKind::refused);
  for (const Sighting& sighting : list_all("refused")) EXPECT_NE(sighting.phase, Phase::running);
}

TEST_P(EngineSuite, AStrangersNameIsAConflict) {
  subject().make_stranger("conflict-a", 0);
  const Run run = ready("conflict", {subject().runs_until_stopped("conflict-a")});
  EXPECT_EQ(kind_of([&] { start_all(run); }), ErrorKind::conflict);
  EXPECT_TRUE(subject().stranger_runs("conflict-a"));
  EXPECT_THAT(list_all("conflict"), testing::IsEmpty());
}

// ---- health

TEST_P(EngineSuite, HealthIsToldAndListed) {
  const Run run = ready("health", {subject().turns("health-good", Health::healthy),
                                   subject().turns("health-bad", Health::unhealthy)});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  EXPECT_TRUE(watcher.wait_for("health-good", Health::healthy));
  EXPECT_TRUE(watcher.wait_for("health-bad", Health::unhealthy));
  const auto as_told = [](const Sighting& sighting) {
    return sighting.health == (sighting.key.trial == "health-good" ? Health::healthy : Health::unhealthy);
  };
  for (const Sighting& sighting : list_settled("health", as_told)) EXPECT_EQ(sighting.phase, Phase::running);
}

// ---- stop

TEST_P(EngineSuite, StopEndsATrial) {
  const Run run =
      ready("stop", {subject().runs_until_stopped("stop-a"), subject().runs_until_stopped("stop-b")});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  engine().stop(key_of(run, "stop-a"), Seconds{5}, {});
  EXPECT_TRUE(watcher.wait_for("stop-a", Phase::ended));
  const std::vector<Sighting> listed = list_settled(
      "stop", [](const Sighting& sighting) { return sighting.key.trial != "stop-a" || has_ended(sighting); });
  for (const Sighting& sighting : listed) {
    EXPECT_EQ(sighting.phase, sighting.key.trial == "stop-a" ? Phase::ended : Phase::running);
  }
}

TEST_P(EngineSuite, StopOfWhatEndedOrIsAbsentIsSuccess) {
  const Run run = ready("stop-twice", {subject().runs_until_stopped("stop-twice-a")});
  start_all(run);
  for (int i = 0; i < 2; ++i) engine().stop(key_of(run, "stop-twice-a"), Seconds{5}, {});
  engine().stop(key_of(run, "never-started"), std::nullopt, {});
  EXPECT_EQ(list_settled("stop-twice", has_ended).at(0).phase, Phase::ended);
}

TEST_P(EngineSuite, StopGoesByTheKeyNotTheName) {
  const Run run = ready("stop-key", {subject().runs_until_stopped("stop-key-a")});
  start_all(run);
  engine().stop({RunId("another"), "stop-key-a", 1}, Seconds{5}, {});
  engine().stop({run.id, "stop-key-a", 2}, Seconds{5}, {});
  EXPECT_EQ(list_all("stop-key").at(0).phase, Phase::running);
  subject().make_stranger("stop-key-stranger", 0);
  engine().stop(key_of(run, "stop-key-stranger"), Seconds{5}, {});
  EXPECT_TRUE(subject().stranger_runs("stop-key-stranger"));
}

// ---- list and watch

TEST_P(EngineSuite, ListSelectsByLabels) {
  subject().make_stranger("select-stranger", 0);
  const Run first =
      ready("select-1", {subject().runs_until_stopped("select-a"), subject().exits_with("select-b", 0)});
  const Run second = ready("select-2", {subject().runs_until_stopped("select-c")});
  start_all(first);
  start_all(second);
  using testing::UnorderedElementsAre;
  Selector selector;
  selector.experiment = "select-1";
  EXPECT_THAT(names(selector), UnorderedElementsAre("select-a", "select-b"));
  selector.trials = {"select-b", "select-c"};
  EXPECT_THAT(names(selector), UnorderedElementsAre("select-b"));
  selector = {};
  selector.file = second.experiment.file;
  EXPECT_THAT(names(selector), UnorderedElementsAre("select-c"));
  selector = {};
  selector.run = first.id;
  EXPECT_THAT(names(selector), UnorderedElementsAre("select-a", "select-b"));
  selector.experiment = "select-2";
  EXPECT_THAT(names(selector), testing::IsEmpty());
  EXPECT_THAT(names({}), testing::AllOf(testing::IsSupersetOf({"select-a", "select-b", "select-c"}),
                                        testing::Not(testing::Contains("select-stranger"))));
}

TEST_P(EngineSuite, WatchSelectsToo) {
  const Run watched = ready("watched", {subject().runs_until_stopped("watched-a")});
  const Run other = ready("unwatched", {subject().runs_until_stopped("unwatched-a")});
  Watcher watcher(subject(), all_of(watched));
  start_all(other);
  start_all(watched);
  EXPECT_TRUE(watcher.wait_for("watched-a", Phase::running));
  for (const Sighting& sighting : watcher.seen()) EXPECT_EQ(sighting.experiment, "watched");
}

// ---- release

TEST_P(EngineSuite, ReleaseRemovesWhatIsSelectedAndNothingElse) {
  subject().make_stranger("release-stranger", 0);
  const Run run =
      ready("release", {subject().runs_until_stopped("release-a"), subject().exits_with("release-b", 1)});
  const Run other = ready("release-other", {subject().runs_until_stopped("release-c")});
  start_all(run);
  start_all(other);
  Watcher watcher(subject(), all_of(run));
  std::pair<std::size_t, std::size_t> progress;
  std::size_t found = 0;
  const Released released = engine().release(all_of(run),
                                             {.found =
                                                  [&](const std::vector<Sighting>& attempts) {
                                                    found = attempts.size();
                                                    return std::set<Key>();
                                                  },
                                              .removed =
                                                  [&](std::size_t done, std::size_t all) {
                                                    progress = {done, all};
                                                  }},
                                             {});
  EXPECT_EQ(released.attempts, 2U);
  EXPECT_THAT(words(released.left), testing::IsEmpty());
  EXPECT_EQ(progress, std::pair(std::size_t{2}, std::size_t{2}));
  EXPECT_TRUE(watcher.wait_for("release-a", Phase::gone));
  EXPECT_TRUE(watcher.wait_for("release-b", Phase::gone));
  EXPECT_THAT(list_all("release"), testing::IsEmpty());
  EXPECT_EQ(list_all("release-other").at(0).phase, Phase::running);
  EXPECT_TRUE(subject().stranger_runs("release-stranger"));

  const Released again = engine().release(all_of(run), {}, {});
  EXPECT_EQ(again.attempts, 0U);
  EXPECT_THAT(words(again.left), testing::IsEmpty());
}

TEST_P(EngineSuite, ReleaseLeavesWhatIsToBeKeptAndItsNetworks) {
  Trial kept = subject().leaves("kept-over");
  Trial running = subject().runs_until_stopped("kept-running");
  Trial gone = subject().runs_until_stopped("kept-gone");
  kept.networks = {"combu-net-kept"};
  gone.networks = {"combu-net-kept", "combu-net-gone"};
  const Run run = ready("release-kept", {kept, running, gone});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("kept-over", Phase::ended));
  const Releasing keeping{.found = [&](const std::vector<Sighting>& attempts) {
    EXPECT_EQ(attempts.size(), 3U);
    return std::set<Key>{key_of(run, "kept-over"), key_of(run, "kept-running")};
  }};
  const Released released = engine().release(all_of(run), keeping, {});
  EXPECT_EQ(released.attempts, 1U);
  EXPECT_EQ(released.networks, 1U);
  EXPECT_THAT(released.experiments, testing::ElementsAre("release-kept"));
  EXPECT_THAT(words(released.left), testing::IsEmpty());
  ASSERT_EQ(released.in_use.size(), 1U);
  EXPECT_EQ(released.in_use[0].subject(), "combu-net-kept");
  EXPECT_THAT(names(all_of(run)), testing::UnorderedElementsAre("kept-over", "kept-running"));
  EXPECT_TRUE(subject().has_network("combu-net-kept"));
  EXPECT_FALSE(subject().has_network("combu-net-gone"));
  for (const Sighting& seen : list_all("release-kept"))
    EXPECT_EQ(seen.phase, seen.key.trial == "kept-over" ? Phase::ended : Phase::running) << seen.key.trial;
  std::string archive;
  EXPECT_TRUE(engine().copy_out(key_of(run, "kept-over"), "/out",
                                [&](std::string_view piece) { archive += piece; }, {}));
  EXPECT_THAT(archive, testing::HasSubstr("kept\n"));

  const Released rest = engine().release(all_of(run), {}, {});
  EXPECT_EQ(rest.attempts, 2U);
  EXPECT_EQ(rest.networks, 1U);
  EXPECT_FALSE(subject().has_network("combu-net-kept"));
}

TEST_P(EngineSuite, ReleaseOfTrialsLeavesTheOthers) {
  const Run run =
      ready("release-some", {subject().runs_until_stopped("some-a"), subject().runs_until_stopped("some-b")});
  start_all(run);
  Selector selector = all_of(run);
  selector.trials = {"some-b", "unknown"};
  EXPECT_EQ(engine().release(selector, {}, {}).attempts, 1U);
  EXPECT_THAT(names(all_of(run)), testing::ElementsAre("some-a"));
}

TEST_P(EngineSuite, ReleaseOfARunLeavesOtherRuns) {
  const Run first = ready("release-run", {subject().runs_until_stopped("run-a")});
  const Run second = ready("release-run", {subject().runs_until_stopped("run-b")});
  start_all(first);
  start_all(second);
  Selector selector;
  selector.run = first.id;
  EXPECT_EQ(engine().release(selector, {}, {}).attempts, 1U);
  EXPECT_THAT(names(all_of(second)), testing::ElementsAre("run-b"));
}

// ---- networks

TEST_P(EngineSuite, NetworksComeWithPrepareAndGoWithRelease) {
  Trial trial = subject().runs_until_stopped("net-a");
  trial.networks = {"combu-net-1", "combu-net-2"};
  const Run run = ready("net", {trial});
  EXPECT_TRUE(subject().has_network("combu-net-1"));
  EXPECT_TRUE(subject().has_network("combu-net-2"));
  start_all(run);
  Selector one = all_of(run);
  one.trials = {"net-a"};
  EXPECT_EQ(engine().release(one, {}, {}).networks, 0U);
  EXPECT_TRUE(subject().has_network("combu-net-1"));
  EXPECT_EQ(engine().release(all_of(run), {}, {}).networks, 2U);
  EXPECT_FALSE(subject().has_network("combu-net-1"));
  EXPECT_FALSE(subject().has_network("combu-net-2"));
}

TEST_P(EngineSuite, StrangersNetworksAreSharedAndLeft) {
  subject().make_strange_network("combu-net-strange");
  Trial trial = subject().runs_until_stopped("net-shared-a");
  trial.networks = {"combu-net-strange"};
  const Run run = ready("net-shared", {trial});
  start_all(run);
  const Released released = engine().release(all_of(run), {}, {});
  EXPECT_EQ(released.attempts, 1U);
  EXPECT_EQ(released.networks, 0U);
  EXPECT_TRUE(subject().has_network("combu-net-strange"));
}

TEST_P(EngineSuite, ANetworkInUseIsLeftAndNamed) {
  Trial mine = subject().runs_until_stopped("net-mine");
  Trial guest = subject().runs_until_stopped("net-guest");
  mine.networks = guest.networks = {"combu-net-used"};
  const Run run = ready("net-used", {mine});
  const Run visitor = ready("net-visitor", {guest});
  start_all(run);
  start_all(visitor);
  const Released released = engine().release(all_of(run), {}, {});
  EXPECT_EQ(released.attempts, 1U);
  EXPECT_EQ(released.networks, 0U);
  EXPECT_THAT(words(released.left), testing::IsEmpty());
  ASSERT_EQ(released.in_use.size(), 1U);
  EXPECT_EQ(released.in_use[0].subject(), "combu-net-used");
  EXPECT_TRUE(subject().has_network("combu-net-used"));
  EXPECT_EQ(list_all("net-visitor").at(0).phase, Phase::running);
  const Released last = engine().release(all_of(visitor), {}, {});
  EXPECT_EQ(last.attempts, 1U);
  EXPECT_EQ(last.networks, 1U) << "nothing is left of the experiment that it was made for";
  EXPECT_FALSE(subject().has_network("combu-net-used"));
}

TEST_P(EngineSuite, ANetworkOfAnExperimentThatStandsIsNotReleasedWithAGuest) {
  Trial mine = subject().runs_until_stopped("net-host");
  Trial guest = subject().runs_until_stopped("net-caller");
  guest.networks = {"combu-net-lent"};
  Trial alone = subject().runs_until_stopped("net-alone");
  alone.networks = {"combu-net-lent"};
  const Run run = ready("net-lender", {mine, alone});
  const Run visitor = ready("net-borrower", {guest});
  engine().start(run, mine, 1, {});
  start_all(visitor);
  EXPECT_EQ(engine().release(all_of(visitor), {}, {}).networks, 0U);
  EXPECT_TRUE(subject().has_network("combu-net-lent"));
}

// ---- check and prepare

TEST_P(EngineSuite, CheckFindsNothingWrongWithWhatCanRun) {
  Trial trial = subject().runs_until_stopped("check-a");
  trial.ports = {Port{.host_ip = "", .host = 38471, .container = 80}};
  const Run run = described("check", {trial});
  EXPECT_THAT(words(engine().check(run, {})), testing::IsEmpty());
}

TEST_P(EngineSuite, CheckNamesWhatStrangersHold) {
  subject().make_stranger("check-stranger", 38472);
  Trial same_name = subject().runs_until_stopped("check-stranger");
  Trial same_port = subject().runs_until_stopped("check-port");
  same_port.ports = {Port{.host_ip = "", .host = 38472, .container = 80}};
  const Run run =
      described("check-taken", {same_name, subject().runs_until_stopped("check-fine"), same_port});
  const std::vector<Error> errors = engine().check(run, {});
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors[0].kind(), ErrorKind::conflict);
  EXPECT_EQ(errors[0].subject(), "check-stranger");
  EXPECT_EQ(errors[1].kind(), ErrorKind::conflict);
  EXPECT_EQ(errors[1].subject(), "check-port");
  EXPECT_THAT(errors[1].message(),
              testing::AllOf(testing::HasSubstr("38472"), testing::HasSubstr("check-stranger")));
}

TEST_P(EngineSuite, PrepareCanBeRepeated) {
  Trial trial = subject().runs_until_stopped("again-a");
  trial.networks = {"combu-net-again"};
  const Run run = ready("again", {trial});
  EXPECT_THAT(words(engine().prepare(run, [](const Preparation&) {}, {})), testing::IsEmpty());
}

TEST_P(EngineSuite, PrepareNamesEachMissingImageOnce) {
  Trial first = subject().runs_until_stopped("missing-a");
  first.image = "combu-test-absent:never";
  first.pull = Pull::never;
  Trial second = first;
  second.name = "missing-b";
  const Run run = described("missing", {first, second, subject().runs_until_stopped("missing-c")});
  const std::vector<Error> errors = engine().prepare(run, [](const Preparation&) {}, {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].kind(), ErrorKind::not_found);
  EXPECT_THAT(errors[0].what(),
              testing::AllOf(testing::HasSubstr("combu-test-absent:never"), testing::HasSubstr("missing-a"),
                             testing::HasSubstr("missing-b")));
}

TEST_P(EngineSuite, PrepareNamesANeedOfHealthThatCannotBeMet) {
  Trial service = subject().runs_until_stopped("healthless");
  Trial client = subject().exits_with("healthless-client", 0);
  client.depends = {{.trial = "healthless", .condition = Condition::healthy, .path = "[1].depends[0]"}};
  const Run run = described("healthless", {service, client});
  const std::vector<Error> errors = engine().prepare(run, [](const Preparation&) {}, {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].kind(), ErrorKind::invalid);
  EXPECT_THAT(errors[0].what(), testing::HasSubstr("healthless"));
}

// ---- logs

TEST_P(EngineSuite, LogsTellBothStreams) {
  const Run run = ready("logs", {subject().says("logs-a", {"one", "two", "three"}, {"oops"})});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  watcher.wait_for("logs-a", Phase::ended);
  EXPECT_EQ(logs_of(run, "logs-a", {}, LogStream::out), "one\ntwo\nthree\n");
  EXPECT_EQ(logs_of(run, "logs-a", {}, LogStream::err), "oops\n");
  LogOptions follow;
  follow.follow = true;  // ends with the attempt
  EXPECT_EQ(logs_of(run, "logs-a", follow, LogStream::out), "one\ntwo\nthree\n");
}

TEST_P(EngineSuite, LogsHaveATail) {
  const Run run = ready("tail", {subject().says("tail-a", {"one", "two", "three"}, {})});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  watcher.wait_for("tail-a", Phase::ended);
  LogOptions options;
  options.tail = 2;
  EXPECT_EQ(logs_of(run, "tail-a", options, LogStream::out), "two\nthree\n");
  options.tail = 0;
  EXPECT_EQ(logs_of(run, "tail-a", options, LogStream::out), "");
  LogOptions later;
  later.since = std::chrono::system_clock::now() + std::chrono::hours(24 * 365);
  EXPECT_EQ(logs_of(run, "tail-a", later, LogStream::out), "");
}

TEST_P(EngineSuite, LogsAreToldWithTheirTimesAndFromOne) {
  const Run run = ready("timed", {subject().says("timed-a", {"one", "two", "three"}, {})});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  watcher.wait_for("timed-a", Phase::ended);
  std::vector<std::pair<Instant, std::string>> all;
  const auto take = [&](auto& pieces) {
    return [&pieces](const LogPiece& piece) { pieces.emplace_back(piece.at, piece.text); };
  };
  LogOptions options{.timed = true};
  engine().logs(key_of(run, "timed-a"), options, take(all), {});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].second, "one\n");
  EXPECT_GT(all[0].first, Instant{});
  EXPECT_LE(all[0].first, all[2].first);
  // What came at that very moment is told once more.
  options.since = all[1].first;
  std::vector<std::pair<Instant, std::string>> later;
  engine().logs(key_of(run, "timed-a"), options, take(later), {});
  ASSERT_GE(later.size(), 2U);
  EXPECT_TRUE(std::ranges::equal(later, std::span(all).last(later.size())));
}

TEST_P(EngineSuite, LogsOfNobodyAreNotFound) {
  const Run run = described("nobody", {});
  EXPECT_EQ(kind_of([&] { logs_of(run, "nobody-a", {}, LogStream::out); }), ErrorKind::not_found);
}

// ---- stop tokens

TEST_P(EngineSuite, ASetStopTokenEndsEveryVerb) {
  const Run run = ready("cancel", {subject().runs_until_stopped("cancel-a")});
  start_all(run);
  const Key key = key_of(run, "cancel-a");
  const auto tell_log = [](const LogPiece&) {};
  EXPECT_EQ(kind_of([&] { (void)engine().facts(stopped()); }), ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { (void)engine().check(run, stopped()); }), ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] {
              (void)engine().prepare(
                  run, [](const Preparation&) {}, stopped());
            }),
            ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { engine().start(run, run.experiment.trials[0], 1, stopped()); }),
            ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { engine().stop(key, Seconds{1}, stopped()); }), ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { (void)engine().list(all_of(run), Look::closely, stopped()); }),
            ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { engine().logs(key, {}, tell_log, stopped()); }), ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] { engine().release(all_of(run), {}, stopped()); }), ErrorKind::cancelled);
  EXPECT_EQ(kind_of([&] {
              engine().watch(
                  all_of(run), [](const Change&) {}, stopped());
            }),
            std::nullopt);
  EXPECT_EQ(list_all("cancel").at(0).phase, Phase::running);
}

TEST_P(EngineSuite, AStopTokenEndsAWatchAndAFollow) {
  const Run run = ready("follow", {subject().runs_until_stopped("follow-a")});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  watcher.wait_for("follow-a", Phase::running);
  LogOptions options;
  options.follow = true;
  std::stop_source stop;
  auto following = std::async(std::launch::async, [&] {
    return kind_of([&] {
      engine().logs(
          key_of(run, "follow-a"), options, [](const LogPiece&) {}, stop.get_token());
    });
  });
  stop.request_stop();
  EXPECT_EQ(following.get(), ErrorKind::cancelled);
  // The watcher's own thread is ended by its stop token, or this test never ends.
}

}  // namespace combu::conformance
