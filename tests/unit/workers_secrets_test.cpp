// Secrets on an engine that does not give them to programs, with the real agent in containers that are
// processes of this machine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <future>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "unit/workers_pods.hpp"

namespace combu::workers {
namespace {

using test::error_in;
using testing::AllOf;
using testing::HasSubstr;

class AgentSecretsTest : public test::SupervisedTest {
 protected:
  AgentSecretsTest() {
    pods_->does_copy_files = true;
    pods_->places = false;
    auto values = std::make_shared<SecretValues>();
    values->emplace("token", SecretValue("the token\n"));
    values->emplace("password", SecretValue("the password"));
    run_.secrets = std::move(values);
  }
  // Adds a trial whose program needs secrets, and runs this shell script.
  Trial& add_secret(const std::string& name, const std::string& script) {
    Trial& trial = add(name, script);
    trial.outputs.clear();
    std::filesystem::create_directories(path(name));
    trial.container.secrets = std::vector<Secret>{{.source = "token", .target = path(name + "/token")},
                                                  {.source = "password", .variable = "PASSWORD"}};
    return trial;
  }
  StartResult start_now(const std::string& name, const std::stop_token& stop = {}) {
    return engine_->start(run_, *std::ranges::find(run_.experiment.trials, name, &Trial::name), 1, stop);
  }
  // Writes the secrets to path("NAME/got"), and a line for each time that the program begins.
  [[nodiscard]] std::string script_for(const std::string& name) const {
    const std::string folder = path(name);
    return "cat " + folder + "/token >> " + folder + "/got; echo \"$PASSWORD\" >> " + folder + "/got";
  }
  [[nodiscard]] std::string got(const std::string& name) const { return agent::text_of(path(name + "/got")); }
  // Starts a container whose agent waits, and leaves it to another owner, as a combu that is killed.
  Key leave_without_secrets(const std::string& name) {
    add_secret(name, script_for(name));
    pods_->refuse_exec(ErrorKind::unavailable);
    std::stop_source stop;
    const std::jthread canceller([&] {
      agent::await_state([&] { return pods_->execs > 0; });
      stop.request_stop();
    });
    EXPECT_EQ(error_in([&] { start_now(name, stop.get_token()); }).kind(), ErrorKind::cancelled);
    change_owner();
    return key_of(name);
  }
  void change_owner() {
    end_watch();
    engine_.reset();
    pods_->refuse_exec(std::nullopt);
    engine_ = decorate();
    EXPECT_TRUE(engine_->check(run_, {}).empty());
  }
};

constexpr const char* k_got = "the token\nthe password\n";

TEST_F(AgentSecretsTest, TheProgramBeginsWithItsSecrets) {
  add_secret("a", script_for("a") + "; exit 3");
  const StartResult result = start_now("a");
  ASSERT_TRUE(std::holds_alternative<Running>(result));
  EXPECT_EQ(pods_->exit_code(key_of("a")), 3);
  EXPECT_EQ(got("a"), k_got);
  struct stat file {};
  ASSERT_EQ(::stat(path("a/token").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0444U);
}

TEST_F(AgentSecretsTest, SecretVariablesNeedNoFile) {
  add_secret("a", "test \"$PASSWORD\" = 'the password'").container.secrets =
      std::vector<Secret>{{.source = "password", .variable = "PASSWORD"}};
  (void)start_now("a");
  EXPECT_EQ(pods_->exit_code(key_of("a")), 0);
}

// While the program runs, the engine below serves it, and no connection is left.
TEST_F(AgentSecretsTest, TheEngineServesAProgramThatHasBegun) {
  add_secret("a", script_for("a") + "; " + until("go"));
  watch();
  (void)start_now("a");
  const Key key = key_of("a");
  const Observation running =
      await(key, [](const Observation& seen) { return seen.phase == Phase::running; });
  EXPECT_FALSE(running.start_took) << "only start() knows it";
  agent::await_state([&] { return pods_->connections() == 0; });
  EXPECT_EQ(listed(key).phase, Phase::running);
  EXPECT_EQ(text_of_log(key), "from the engine\n");
  EXPECT_EQ(engine_->usage("a-1", {})->memory, Bytes{1});
  EXPECT_EQ(error_in([&] { (void)collect(key, "/x"); }).message(), "not possible");
  engine_->acknowledge({key});
  EXPECT_TRUE(pods_->acknowledged.contains(key));
  engine_->stop(key, std::nullopt, {});
  EXPECT_EQ(pods_->stops, 1);
  const Observation end = await_end(key);
  EXPECT_EQ(end.exit_code, 128 + SIGTERM);
  EXPECT_TRUE(end.stopped);
  EXPECT_EQ(pods_->execs, 1);
}

TEST_F(AgentSecretsTest, ARepeatedStartSendsNothingAgain) {
  add_secret("a", script_for("a") + "; " + until("go"));
  (void)start_now("a");
  EXPECT_TRUE(std::holds_alternative<Running>(start_now("a")));
  allow("go");
  EXPECT_EQ(pods_->exit_code(key_of("a")), 0);
  EXPECT_EQ(got("a"), k_got);
}

TEST_F(AgentSecretsTest, AProgramThatDoesNotExistIsRefused) {
  add_secret("a", "").process.cmd = std::vector<std::string>{"/no/program"};
  watch();
  const Error error = error_in([&] { start_now("a"); });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_EQ(error.subject(), "a");
  EXPECT_THAT(error.message(), AllOf(HasSubstr("/no/program"), testing::Not(HasSubstr("the password"))));
  EXPECT_EQ(await_end(key_of("a")).placement.start_error, error.message());
  const auto began_at = std::chrono::steady_clock::now();
  EXPECT_EQ(pods_->exit_code(key_of("a")), 127);
  EXPECT_LT(std::chrono::steady_clock::now() - began_at, std::chrono::milliseconds(1500))
      << "the agent does not wait for combu to hang up, since the next attempt has the same name";
  const Observation seen = listed(key_of("a"));
  EXPECT_EQ(seen.placement.start_error, error.message());
  EXPECT_FALSE(seen.exit_code);
}

// The connection breaks at the beginning, inside the messages of each side, and after them.
TEST_F(AgentSecretsTest, ABrokenConnectionIsTriedAgain) {
  int number = 0;
  const auto start_with_cut = [&](std::atomic<std::int64_t>& cut, std::int64_t after) {
    const std::string name = "a" + std::to_string(++number);
    add_secret(name, script_for(name));
    const int before = pods_->execs;
    cut = after;
    (void)start_now(name);
    EXPECT_EQ(pods_->exit_code(key_of(name)), 0) << after;
    EXPECT_EQ(got(name), k_got) << after;
    return pods_->execs - before;
  };
  for (const std::int64_t after : {0, 5, 30, 100, 700}) {
    EXPECT_GT(start_with_cut(pods_->cut_to_agent, after), 1) << after;
  }
  for (const std::int64_t after : {0, 5, 30}) {
    EXPECT_GT(start_with_cut(pods_->cut_from_agent, after), 1) << after;
  }
}

TEST_F(AgentSecretsTest, AnEngineThatIsAwayIsTriedAgain) {
  add_secret("a", script_for("a"));
  pods_->refuse_exec(ErrorKind::unavailable);
  const std::jthread recovery([&] {
    agent::await_state([&] { return pods_->execs >= 2; });
    pods_->refuse_exec(std::nullopt);
  });
  (void)start_now("a");
  EXPECT_EQ(pods_->exit_code(key_of("a")), 0);
  EXPECT_EQ(got("a"), k_got);
}

TEST_F(AgentSecretsTest, AnAgentThatDoesNotAnswerIsReported) {
  limits_.begin_max = Seconds(0.05);
  engine_ = decorate();
  add_secret("a", script_for("a"));
  pods_->refuse_exec(ErrorKind::unavailable);
  const Error error = error_in([&] { start_now("a"); });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_EQ(error.message(), "the secrets could not be sent within 0.05 s: no exec");
  EXPECT_EQ(pods_->exit_code(key_of("a")), 128 + SIGTERM) << "the container is stopped";
  pods_->is_away = true;
  add_secret("b", "true");
  EXPECT_EQ(error_in([&] { start_now("b"); }).kind(), ErrorKind::unavailable);
}

TEST_F(AgentSecretsTest, AContainerThatEndsBeforeItHasItsSecretsIsNoError) {
  add_secret("a", script_for("a"));
  pods_->is_mute = true;
  auto started = std::async(std::launch::async, [&] { return start_now("a"); });
  agent::await_state([&] { return pods_->execs > 0; });
  pods_->kill(key_of("a"));
  EXPECT_TRUE(std::holds_alternative<Running>(started.get()));
  EXPECT_EQ(listed(key_of("a")).phase, Phase::ended);
  EXPECT_EQ(got("a"), "");
}

// The agent does not answer, and the engine is away.
TEST_F(AgentSecretsTest, AStopTokenCancels) {
  for (const bool is_away : {false, true}) {
    const std::string name = is_away ? "a" : "b";
    add_secret(name, "true");
    pods_->is_mute = !is_away;
    if (is_away) pods_->refuse_exec(ErrorKind::unavailable);
    std::stop_source stop;
    const int before = pods_->execs;
    const std::jthread canceller([&] {
      agent::await_state([&] { return pods_->execs > before; });
      stop.request_stop();
    });
    EXPECT_EQ(error_in([&] { start_now(name, stop.get_token()); }).kind(), ErrorKind::cancelled) << is_away;
  }
}

TEST_F(AgentSecretsTest, ALaterOwnerRepeatsAStartWithoutSecrets) {
  const Key key = leave_without_secrets("a");
  EXPECT_EQ(listed(key).phase, Phase::created);
  (void)start_now("a");
  EXPECT_EQ(pods_->exit_code(key), 0);
  EXPECT_EQ(got("a"), k_got);
}

TEST_F(AgentSecretsTest, ALaterOwnerFindsARunningProgram) {
  add_secret("a", script_for("a") + "; " + until("go") + "; exit 4");
  (void)start_now("a");
  const int before = pods_->execs;
  change_owner();
  watch();
  EXPECT_EQ(listed(key_of("a")).phase, Phase::running);
  agent::await_state([&] { return pods_->execs > before && pods_->connections() == 0; });
  EXPECT_EQ(listed(key_of("a")).phase, Phase::running);
  allow("go");
  const Observation end = await_end(key_of("a"));
  EXPECT_EQ(end.exit_code, 4);
  EXPECT_EQ(end.lost, "");
}

}  // namespace
}  // namespace combu::workers
