// Tests of the channel between two processes. Here, the two processes are two threads.

#include "combu/control.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>

#include "control/socket.hpp"
#include "experiments.hpp"
#include "record_folder.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

// Records everything that it is shown, as text. Another thread may wait for a line.
class Shown : public Progress {
 public:
  void phase(std::string_view text) override { add("phase " + std::string(text)); }
  void preparation(const Preparation& it) override {
    add((it.finished ? "pulled " : "pulling ") + it.name + " " + std::to_string(it.done.count));
  }
  void counted(std::string_view verb, std::size_t count, std::size_t total) override {
    add(std::string(verb) + " " + std::to_string(count) + " of " + std::to_string(total));
  }
  void note(std::string_view line) override { add("note " + std::string(line)); }
  void error(std::string_view line) override { add("error " + std::string(line)); }
  void begin(const Run& run) override {
    run_ = &run;
    add("begin " + run.id.text() + " " + std::to_string(run.experiment.trials.size()));
  }
  void fact(const Fact& fact) override {
    std::string text = name(fact.trial) + " " + std::string(to_string(fact.state));
    if (fact.attempt > 1) text += "#" + std::to_string(fact.attempt);
    if (fact.cause != Cause::none) text += " " + std::string(to_string(fact.cause));
    if (fact.exit_code) text += " " + std::to_string(*fact.exit_code);
    if (const std::string reason = reason_text(fact); !reason.empty()) text += " (" + reason + ")";
    if (fact.root) text += " by " + name(*fact.root);
    {
      const std::scoped_lock lock(mutex_);
      facts_.push_back(fact);
    }
    add(text);
  }
  void failure(const Fact& fact, const std::vector<std::string>& tail) override {
    add(name(fact.trial) + " " + std::string(to_string(fact.state)) + " | " +
        (tail.empty() ? "" : tail.front()));
  }
  void snapshot(const Snapshot& snapshot) override {
    const std::scoped_lock lock(mutex_);
    last = snapshot;
    lines_.push_back("snapshot " + std::to_string(snapshot.started) +
                     (snapshot.settings.paused ? " paused" : ""));
    changed_.notify_all();
  }
  void end() override {}

  void wait_for(const std::string& line) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::ranges::find(lines_, line) != lines_.end(); });
  }
  [[nodiscard]] std::vector<std::string> lines() {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }
  [[nodiscard]] std::vector<Fact> facts() {
    const std::scoped_lock lock(mutex_);
    return facts_;
  }
  [[nodiscard]] const std::string& name(TrialIndex trial) const {
    return run_->experiment.trials[trial].name;
  }
  Snapshot last;

 private:
  void add(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    lines_.push_back(line);
    changed_.notify_all();
  }

  const Run* run_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  std::vector<Fact> facts_;
};

// A client that follows the run in a thread of its own.
class Follower {
 public:
  explicit Follower(const std::string& path)
      : client_(path), code_(std::async(std::launch::async, [this] {
          return client_.follow(shown, run_, stop.get_token());
        })) {}
  ~Follower() { stop.request_stop(); }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;
  [[nodiscard]] std::optional<int> code() { return code_.get(); }
  Shown shown;
  std::stop_source stop;

 private:
  Run run_;
  ControlClient client_;
  std::future<std::optional<int>> code_;
};

// A client that may send any bytes.
class Stranger {
 public:
  explicit Stranger(const std::string& path) : file_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(connect(file_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Stranger() { close(file_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  // Returns true if the whole text was sent.
  [[nodiscard]] bool say(const std::string& text) const {
    return send(file_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // Returns the next line, or the rest at the end of the stream.
  [[nodiscard]] std::string hear() const {
    std::string line;
    for (char letter = 0; recv(file_, &letter, 1, 0) == 1 && letter != '\n';) line += letter;
    return line;
  }

 private:
  int file_;
};

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class ControlTest : public testing::Test {
 protected:
  ControlTest() {
    auto shown = std::make_unique<Shown>();
    shown_ = shown.get();
    progress_ = std::make_unique<SharedProgress>(std::move(shown), *server_);
  }
  void open() {
    server_->open(
        path_,
        [this](const Adjust& adjust, Steering::Answer answer) {
          return steering_.post(adjust, std::move(answer));
        },
        [this] { return steering_.leave(); });
  }
  void tell_started(std::size_t started) {
    Snapshot snapshot;
    snapshot.trials = run_.experiment.trials.size();
    snapshot.started = started;
    snapshot.starting = {1};
    progress_->snapshot(snapshot);
  }

  test::Folder folder_{"control"};
  std::string path_ = folder_.path() + "/channel";
  combu::Run run_ = test::run("a b c");
  Steering steering_{{.parallel_max = 3}};
  std::unique_ptr<ControlServer> server_ = std::make_unique<ControlServer>();
  Shown* shown_ = nullptr;
  std::unique_ptr<SharedProgress> progress_;
};

TEST_F(ControlTest, AFollowerIsShownWhatTheProcessShows) {
  open();
  progress_->phase("checking");
  Follower follower(path_);
  follower.shown.wait_for("phase checking");
  progress_->preparation({.kind = Preparation::Kind::image, .name = "x", .done = {7}, .total = {9}});
  progress_->counted("removed", 1, 2);
  progress_->begin(run_);
  progress_->fact({.trial = 0, .state = TrialState::starting});
  const Fact failed{.trial = 0, .state = TrialState::retrying, .cause = Cause::oom, .exit_code = 137};
  progress_->fact(failed);
  progress_->failure(failed, {"last words"});
  progress_->fact({.trial = 2,
                   .state = TrialState::blocked,
                   .attempt = 2,
                   .reason = "depends on `a`",
                   .root = TrialIndex{0}});
  progress_->note("a note");
  progress_->error("an error");
  tell_started(2);
  server_->done(3);
  EXPECT_EQ(follower.code(), 3);
  EXPECT_THAT(
      follower.shown.lines(),
      ElementsAre("phase checking", "pulling x 7", "removed 1 of 2", "begin run1 3", "a starting",
                  "a retrying oom 137", "a retrying | last words", "c blocked#2 (depends on `a`) by a",
                  "note a note", "error an error", "snapshot 2"));
  EXPECT_EQ(shown_->lines().size(), 11U);
}

// Otherwise, a follower could not recognize equal failures: their reasons would differ by the number of the
// attempt.
TEST_F(ControlTest, AFollowerGetsTheReasonOfAFactInItsParts) {
  open();
  progress_->phase("checking");
  Follower follower(path_);
  follower.shown.wait_for("phase checking");
  progress_->begin(run_);
  const Fact failed{.trial = 0,
                    .state = TrialState::retrying,
                    .attempt = 2,
                    .cause = Cause::stopped,
                    .reason = "by alice",
                    .details = {.stopper = Stopper::person,
                                .outputs_fault = "/out: none",
                                .next = Next::attempt,
                                .pause = Seconds(1.5),
                                .next_why = "why"}};
  progress_->fact(failed);
  progress_->fact({.trial = 1, .state = TrialState::failed, .reason = "exit code 3"});
  server_->done(0);
  EXPECT_EQ(follower.code(), 0);
  const std::vector<Fact> facts = follower.shown.facts();
  ASSERT_EQ(facts.size(), 2U);
  EXPECT_EQ(facts[0].reason, failed.reason);
  EXPECT_EQ(facts[0].details, failed.details);
  EXPECT_EQ(facts[1].reason, "exit code 3");
  EXPECT_EQ(facts[1].details, EndDetails{});
}

TEST_F(ControlTest, AFollowerGetsAllFieldsOfASnapshot) {
  open();
  progress_->begin(run_);
  Snapshot snapshot;
  snapshot.trials = 3;
  snapshot.counts[static_cast<std::size_t>(TrialState::running)] = 2;
  snapshot.started = 2;
  snapshot.elapsed = Seconds(1.5);
  snapshot.left = Seconds(3);
  snapshot.running = {{.trial = 2, .age = Seconds(250.5)}, {.trial = 0, .age = Seconds(12)}};
  snapshot.interrupted = true;
  snapshot.settings = {.parallel_max = 5, .starts_in_flight_max = 6, .paused = true};
  snapshot.held = {.cpus = parse_cpus("1.5"), .memory = parse_bytes("1GiB")};
  snapshot.capacity = Slots{.cpus = parse_cpus("4"), .memory = parse_bytes("8GiB")};
  progress_->snapshot(snapshot);
  server_->done(0);
  Follower follower(path_);
  EXPECT_EQ(follower.code(), 0);
  const Snapshot& seen = follower.shown.last;
  EXPECT_EQ(seen.counts, snapshot.counts);
  EXPECT_EQ(seen.elapsed, snapshot.elapsed);
  EXPECT_EQ(seen.left, snapshot.left);
  ASSERT_EQ(seen.running.size(), 2U);
  EXPECT_EQ(follower.shown.name(seen.running[0].trial), "c");
  EXPECT_EQ(seen.running[0].age, Seconds(250.5));
  EXPECT_EQ(follower.shown.name(seen.running[1].trial), "a");
  EXPECT_EQ(seen.running[1].age, Seconds(12));
  EXPECT_TRUE(seen.interrupted);
  EXPECT_EQ(seen.settings.parallel_max, 5U);
  EXPECT_EQ(seen.settings.starts_in_flight_max, 6U);
  EXPECT_TRUE(seen.settings.paused);
  EXPECT_EQ(seen.held, snapshot.held);
  EXPECT_EQ(seen.capacity, snapshot.capacity);
}

TEST_F(ControlTest, ALateFollowerGetsTheStateOfTheRun) {
  open();
  progress_->phase("checking");
  progress_->begin(run_);
  for (int i = 0; i < 30; ++i) progress_->fact({.trial = 0, .state = TrialState::starting});
  progress_->fact({.trial = 1, .state = TrialState::failed, .cause = Cause::error, .exit_code = 3});
  tell_started(1);
  tell_started(2);
  Follower follower(path_);
  follower.shown.wait_for("snapshot 2");
  EXPECT_THAT(follower.shown.lines(), ElementsAre("begin run1 3", "b failed error 3", "snapshot 2"));
}

TEST_F(ControlTest, TwoFollowersGetTheSameLines) {
  open();
  progress_->begin(run_);
  tell_started(0);
  Follower one(path_);
  Follower two(path_);
  one.shown.wait_for("snapshot 0");
  two.shown.wait_for("snapshot 0");
  progress_->fact({.trial = 2, .state = TrialState::succeeded, .exit_code = 0});
  server_->done(1);
  EXPECT_EQ(one.code(), 1);
  EXPECT_EQ(two.code(), 1);
  EXPECT_THAT(one.shown.lines(), IsSupersetOf({"c succeeded 0"}));
  EXPECT_EQ(one.shown.lines(), two.shown.lines());
}

TEST_F(ControlTest, TheServerContinuesWhenAFollowerLeaves) {
  open();
  progress_->begin(run_);
  Follower one(path_);
  one.shown.wait_for("begin run1 3");
  one.stop.request_stop();
  EXPECT_EQ(one.code(), std::nullopt);
  tell_started(1);
  EXPECT_EQ(ControlClient(path_).adjust({}, {}).parallel_max, 3U);
}

TEST_F(ControlTest, AFollowerGetsNoExitCodeIfTheServerEnds) {
  open();
  progress_->begin(run_);
  Follower follower(path_);
  follower.shown.wait_for("begin run1 3");
  server_.reset();
  EXPECT_EQ(follower.code(), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(path_));
  try {
    const ControlClient client(path_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
  }
}

TEST_F(ControlTest, AnAdjustmentReturnsTheNewSettings) {
  open();
  ControlClient client(path_);
  EXPECT_TRUE(client.adjust({.paused = true}, {}).paused);
  const Settings settings = client.adjust({.parallel_max = 20, .starts_in_flight_max = 2}, {});
  EXPECT_EQ(settings.parallel_max, 20U);
  EXPECT_EQ(settings.starts_in_flight_max, 2U);
  EXPECT_TRUE(settings.paused);
}

TEST_F(ControlTest, ANumberOutOfRangeIsRefused) {
  open();
  try {
    (void)ControlClient(path_).adjust({.starts_in_flight_max = 0}, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_STREQ(error.what(), "starts_in_flight: must be a whole number from 1 to 1000");
  }
}

TEST_F(ControlTest, AClientKeepsTheRunUntilItIsDestroyed) {
  open();
  std::binary_semaphore asked{0};
  steering_.connect([&](const Steering::Order& order) {
    if (order.leave) asked.release();
  });
  std::atomic<bool> is_back{false};
  std::jthread process([&] {
    asked.acquire();
    EXPECT_TRUE(server_->hand_over({}, std::chrono::minutes(1)));
    is_back = true;
  });
  {
    ControlClient client(path_);
    client.take_over({});
    EXPECT_FALSE(is_back);
    EXPECT_THAT(error_of([&] { ControlClient(path_).take_over({}); }),
                HasSubstr("another process is about to change"));
    EXPECT_FALSE(is_back);
  }
  process.join();
  EXPECT_TRUE(is_back);
}

TEST_F(ControlTest, ARunIsTakenBackFromASlowClient) {
  open();
  std::binary_semaphore asked{0};
  steering_.connect([&](const Steering::Order& order) {
    if (order.leave) asked.release();
  });
  std::atomic<bool> is_back{false};
  std::jthread process([&] {
    asked.acquire();
    EXPECT_FALSE(server_->hand_over({}, std::chrono::milliseconds(500)));
    is_back = true;
  });
  ControlClient client(path_);
  client.take_over({});
  if (!is_back) client.expect_the_run();
  process.join();
  EXPECT_THAT(error_of([&] { client.expect_the_run(); }), HasSubstr("has waited too long"));
}

TEST_F(ControlTest, ARunThatIsNotDrivenCannotBeTakenOver) {
  open();
  EXPECT_THAT(error_of([&] { ControlClient(path_).take_over({}); }), HasSubstr("starts or ends"));
}

TEST_F(ControlTest, AnAdjustmentIsRefusedAfterTheEndOfTheRun) {
  open();
  steering_.disconnect(std::nullopt);
  try {
    (void)ControlClient(path_).adjust({.paused = true}, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::refused);
    EXPECT_THAT(error.what(), HasSubstr("about to end"));
  }
}

TEST_F(ControlTest, AnInvalidRequestGetsAnErrorAndChangesNothing) {
  open();
  const Stranger stranger(path_);
  for (const std::string line :
       {"", "no JSON", "[]", "7", "\"ask\"", "{}", R"({"ask":7})", R"({"ask":"kill"})",
        R"({"ask":"adjust","parallel":-1})", R"({"ask":"adjust","parallel":"many"})",
        R"({"ask":"adjust","parallel":1e99})", R"({"ask":"adjust","starts_in_flight":0})",
        R"({"ask":"adjust","starts_in_flight":1001})", R"({"ask":"adjust","paused":1})",
        R"({"ask":"adjust","stopping":"a"})", R"({"ask":"adjust","stopping":[1]})",
        R"({"ask":"adjust","stopper":1})", R"({"ask":"adjust","order":"random"})",
        "{\"ask\":\"\xff\xfe\"}"}) {
    ASSERT_TRUE(stranger.say(line + "\n"));
    EXPECT_THAT(stranger.hear(), HasSubstr(R"("answer":"error")")) << line;
  }
  ASSERT_TRUE(stranger.say(R"({"ask":"adjust"})" + std::string("\n")));
  EXPECT_THAT(stranger.hear(), HasSubstr(R"("parallel":3)"));
}

TEST_F(ControlTest, AClientThatSendsAnEndlessLineIsDisconnected) {
  open();
  const Stranger stranger(path_);
  const std::string piece(std::size_t{64} << 10U, 'x');
  while (stranger.say(piece)) {
  }
  EXPECT_EQ(ControlClient(path_).adjust({}, {}).parallel_max, 3U);
}

TEST_F(ControlTest, AClientThatNeverReadsDoesNotBlockOthers) {
  open();
  progress_->begin(run_);
  const Stranger deaf(path_);
  ASSERT_TRUE(deaf.say("{\"ask\":\"follow\"}\n"));
  Follower other(path_);
  other.shown.wait_for("begin run1 3");
  // More than the buffers of the socket and of the server for one client.
  const std::string words(std::size_t{1} << 20U, 'x');
  for (int i = 0; i < 24; ++i) {
    progress_->note(words);
    progress_->note("piece " + std::to_string(i));
    other.shown.wait_for("note piece " + std::to_string(i));
  }
  server_->done(0);
  EXPECT_EQ(other.code(), 0);
  // Lines that were already sent arrive, but the last line does not.
  std::string last;
  for (std::string line = deaf.hear(); !line.empty(); line = deaf.hear()) last = line;
  EXPECT_EQ(last.find("\"done\""), std::string::npos);
}

// Follows a process that answers with `bytes`, and returns the error. If `endless`, the process repeats
// `bytes`.
std::string error_of_following(const std::string& path, const std::string& bytes, bool endless = false) {
  const Descriptor listening = control::listen_at(path);
  std::thread process([&] {
    pollfd wanted{listening.number(), POLLIN, 0};
    (void)poll(&wanted, 1, -1);
    const Descriptor client(accept4(listening.number(), nullptr, nullptr, SOCK_CLOEXEC));
    // The client must find the connection open when it sends its request. Otherwise, it reports that the
    // process has ended.
    std::array<char, 256> request{};
    (void)recv(client.number(), request.data(), request.size(), 0);
    while (send(client.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0 && endless) {
    }
  });
  const std::string error = error_of([&] {
    Shown shown;
    combu::Run run;
    ControlClient client(path);
    (void)client.follow(shown, run, {});
  });
  process.join();
  return error;
}

TEST_F(ControlTest, AnInvalidLineOfTheServerIsAnError) {
  const auto begin = [](const std::string& trials) {
    return R"({"event":"begin","run":"r","experiment":"e","file":"/f","trials":)" + trials + "}\n";
  };
  const auto fact = [](const std::string& trial) {
    return R"({"event":"fact","trial":")" + trial + R"(","state":"running","attempt":1})" + "\n";
  };
  EXPECT_THAT(error_of_following(path_, begin("1000000000000")),
              HasSubstr("sent an impossible number of trials: 1000000000000"));
  EXPECT_THAT(error_of_following(path_, begin("2") + fact("a") + fact("b") + begin("1") + fact("b")),
              HasSubstr("sent an impossible number of trials: 1"));
  EXPECT_THAT(error_of_following(path_, R"({"event":"done","exit_code":1e300})" + std::string("\n")),
              HasSubstr("must be a whole number"));
  EXPECT_THAT(error_of_following(path_, std::string(500'000, '[') + "\n"),
              HasSubstr("nested deeper than 512 levels"));
  EXPECT_THAT(error_of_following(path_, std::string(64 << 10, 'x'), /*endless=*/true),
              HasSubstr("the combu process that owns the run sent a line of more than 16 MiB"));
}

TEST_F(ControlTest, ASocketOfADeadProcessIsReplaced) {
  std::filesystem::create_directories(folder_.path());
  {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    const int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    close(dead);
  }
  EXPECT_THROW(ControlClient{path_}, Error);
  open();
  EXPECT_EQ(ControlClient(path_).adjust({}, {}).parallel_max, 3U);
}

TEST_F(ControlTest, OnlyThisUserMayConnect) {
  const mode_t before = umask(0);
  open();
  umask(before);
  struct stat it {};
  ASSERT_EQ(stat(path_.c_str(), &it), 0);
  EXPECT_EQ(it.st_mode & 0777U, 0600U);
}

TEST_F(ControlTest, TheFolderOfASocketMayHaveALongName) {
  path_ = folder_.path() + "/" + std::string(200, 'x') + "/channel";
  open();
  EXPECT_EQ(ControlClient(path_).adjust({}, {}).parallel_max, 3U);
}

TEST_F(ControlTest, AFolderThatCannotBeCreatedIsAnError) {
  path_ = "/proc/nothing/channel";
  try {
    open();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::refused);
  }
}

TEST_F(ControlTest, ASharedProgressCanShowOnAnotherOne) {
  progress_->note("here");
  auto later = std::make_unique<Shown>();
  Shown& there = *later;
  progress_->show_on(std::move(later));
  progress_->note("there");
  EXPECT_THAT(shown_->lines(), ElementsAre("note here"));
  EXPECT_THAT(there.lines(), ElementsAre("note there"));
}

}  // namespace
}  // namespace combu
