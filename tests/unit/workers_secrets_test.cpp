// deliver_secrets(), with the real agent in containers that are processes of this machine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "unit/workers_pods.hpp"
#include "workers/secret_delivery.hpp"
#include "workers/supervised_container.hpp"

namespace combu::workers {
namespace {

using test::error_in;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SecretDeliveryTest : public test::SupervisedTest {
 protected:
  // Starts a container whose program needs secrets, and runs this shell script.
  Key start_container(const std::string& name, const std::string& script) {
    return start_program(name, {"sh", "-c", script});
  }
  Key start_program(const std::string& name, const std::vector<std::string>& argv) {
    Trial trial = test::trial(name, "");
    trial.process.entrypoint = argv;
    trial.process.cmd = std::vector<std::string>();
    trial.container.secrets = std::vector<Secret>{{.source = "token", .target = path(name + "/token")},
                                                  {.source = "password", .variable = "PASSWORD"}};
    trial_ = trial;
    const auto program = std::make_shared<const ProvidedProgram>();
    (void)pods_->start(run_, supervised_container(trial, Supervision::secrets, {}, program, {}), 1, {});
    return key_of(name);
  }
  void deliver(const Key& key, const std::stop_token& stop = {}) {
    const std::string target = path(key.trial + "/token");
    std::filesystem::create_directories(path(key.trial));
    deliver_secrets(
        *pods_, key, trial_,
        {.files = {{target, "the token\n"}}, .variables = {{"PASSWORD", "the password"}}},
        [&](const std::string& reason) {
          refusals_.push_back(reason);
          phase_at_refusal_ = pods_->container(key).phase;
        },
        stop);
  }
  // Writes the secrets to path("NAME/got"), and a line for each time that the program begins.
  [[nodiscard]] std::string script_for(const std::string& name) const {
    const std::string folder = path(name);
    return "cat " + folder + "/token >> " + folder + "/got; echo \"$PASSWORD\" >> " + folder + "/got";
  }
  [[nodiscard]] std::string got(const std::string& name) const { return agent::text_of(path(name + "/got")); }

  Trial trial_;
  std::vector<std::string> refusals_;
  Phase phase_at_refusal_ = Phase::gone;
};

constexpr const char* k_got = "the token\nthe password\n";

TEST_F(SecretDeliveryTest, TheProgramBeginsWithItsSecrets) {
  const Key key = start_container("a", script_for("a") + "; exit 3");
  deliver(key);
  EXPECT_EQ(pods_->exit_code(key), 3);
  EXPECT_EQ(got("a"), k_got);
  struct stat file {};
  ASSERT_EQ(::stat(path("a/token").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777U, 0444U);
  EXPECT_THAT(refusals_, IsEmpty());
}

TEST_F(SecretDeliveryTest, AProgramThatHasBegunGetsNothing) {
  const Key key = start_container("a", script_for("a") + "; " + until("go"));
  deliver(key);
  deliver(key);
  allow("go");
  EXPECT_EQ(pods_->exit_code(key), 0);
  EXPECT_EQ(got("a"), k_got);
}

TEST_F(SecretDeliveryTest, AProgramThatDoesNotExistIsRefusedBeforeTheContainerEnds) {
  const Key key = start_program("a", {"/no/program"});
  const Error error = error_in([&] { deliver(key); });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_EQ(error.subject(), "a");
  EXPECT_THAT(refusals_, ElementsAre(error.message()));
  EXPECT_THAT(error.message(), AllOf(HasSubstr("/no/program"), testing::Not(HasSubstr("the password"))));
  EXPECT_EQ(phase_at_refusal_, Phase::running);
  EXPECT_EQ(pods_->exit_code(key), 127);
}

// The connection breaks at the beginning, inside the messages of each side, and after them.
TEST_F(SecretDeliveryTest, ABrokenConnectionIsTriedAgain) {
  int number = 0;
  const auto deliver_with_cut = [&](std::atomic<std::int64_t>& cut, std::int64_t after) {
    const std::string name = "a" + std::to_string(++number);
    const Key key = start_container(name, script_for(name));
    const int before = pods_->execs;
    cut = after;
    deliver(key);
    EXPECT_EQ(pods_->exit_code(key), 0) << after;
    EXPECT_EQ(got(name), k_got) << after;
    EXPECT_GE(pods_->execs - before, 1);
    return pods_->execs - before;
  };
  for (const std::int64_t after : {0, 5, 30, 100, 700}) {
    EXPECT_GT(deliver_with_cut(pods_->cut_to_agent, after), 1) << after;
  }
  for (const std::int64_t after : {0, 5, 30}) {
    EXPECT_GT(deliver_with_cut(pods_->cut_from_agent, after), 1) << after;
  }
}

TEST_F(SecretDeliveryTest, AnEngineThatIsAwayIsTriedAgain) {
  const Key key = start_container("a", script_for("a"));
  pods_->refuse_exec(ErrorKind::unavailable);
  const std::jthread recovery([&] {
    agent::await_state([&] { return pods_->execs >= 2; });
    pods_->refuse_exec(std::nullopt);
  });
  deliver(key);
  EXPECT_EQ(pods_->exit_code(key), 0);
  EXPECT_EQ(got("a"), k_got);
}

TEST_F(SecretDeliveryTest, AContainerThatHasEndedIsNoError) {
  const Key key = start_container("a", script_for("a"));
  pods_->kill(key);
  deliver(key);
  deliver(key_of("absent"));
  EXPECT_THAT(refusals_, IsEmpty());
  EXPECT_EQ(got("a"), "");
}

// The agent does not answer, and the engine is away.
TEST_F(SecretDeliveryTest, AStopTokenCancels) {
  for (const bool is_away : {false, true}) {
    const Key key = start_container(is_away ? "a" : "b", "true");
    pods_->is_mute = !is_away;
    if (is_away) pods_->refuse_exec(ErrorKind::unavailable);
    std::stop_source stop;
    const int before = pods_->execs;
    const std::jthread canceller([&] {
      agent::await_state([&] { return pods_->execs > before; });
      stop.request_stop();
    });
    EXPECT_EQ(error_in([&] { deliver(key, stop.get_token()); }).kind(), ErrorKind::cancelled) << is_away;
  }
}

}  // namespace
}  // namespace combu::workers
