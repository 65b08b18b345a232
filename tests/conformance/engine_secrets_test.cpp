// Secrets of attempts.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "combu/base.hpp"
#include "conformance/engine_suite.hpp"

namespace combu::conformance {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* k_file = "/run/secrets/token";

// A value of each secret: no other text contains these values.
struct Values {
  std::string token = "token-" + RunId::random().text() + "\nwith lines\n";
  std::string password = "password-" + RunId::random().text();

  [[nodiscard]] std::shared_ptr<const SecretValues> to_give() const {
    auto values = std::make_shared<SecretValues>();
    values->emplace("token", SecretValue(std::string(token)));
    values->emplace("password", SecretValue(std::string(password)));
    return values;
  }
  // Expects that the text contains no value, neither as text nor as Base64.
  void expect_none_in(const std::string& text) const {
    for (const std::string& value : {token, password}) {
      EXPECT_THAT(text, Not(HasSubstr(value)));
      EXPECT_THAT(text, Not(HasSubstr(encode_base64(value))));
    }
  }
};

void give_variable(Trial& trial) {
  std::vector<Secret> secrets = *trial.container.secrets;
  secrets.push_back({.source = "password", .variable = "PASSWORD"});
  trial.container.secrets = std::move(secrets);
}

void give_file(Trial& trial) {
  std::vector<Secret> secrets = *trial.container.secrets;
  secrets.push_back({.source = "token", .target = k_file});
  trial.container.secrets = std::move(secrets);
}

std::string texts_of(const Observation& seen) {
  std::string text = seen.key.trial + '\n' + seen.experiment + '\n' + seen.file + '\n' + seen.id + '\n' +
                     seen.image + '\n' + seen.status + '\n' + seen.lost + '\n' + seen.digest + '\n' +
                     seen.placement.host + '\n' + seen.placement.pending_reason + '\n' +
                     seen.placement.start_error + '\n' + seen.placement.supervisor_report.value_or("");
  for (const std::string& input : seen.inputs) text += '\n' + input;
  return text;
}

// Names the sources of the secrets, and prepares the run with the values.
void prepare_with(Engine& engine, Run& run, std::shared_ptr<const SecretValues> values) {
  run.experiment.secrets = {{.name = "token", .file = "/token"}, {.name = "password", .file = "/password"}};
  run.secrets = std::move(values);
  EXPECT_TRUE(engine.prepare(run, [](const Preparation&) {}, {}).empty());
}

TEST_P(SecretSuite, AnAttemptGetsAVariable) {
  const Values values;
  Trial trial = subject().tells_secrets("variable-a", "/dev/null", "PASSWORD");
  give_variable(trial);
  Run run = described("secret-variable", {trial});
  prepare_with(engine(), run, values.to_give());
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto ended = watcher.wait_for("variable-a", Phase::ended);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->exit_code, 0);
  EXPECT_THAT(logs_of(run, "variable-a", {}, LogStream::out), HasSubstr(values.password + "\n"));
}

// The program runs as a user that is not root.
TEST_P(SecretFileSuite, EveryUserCanReadAFileAndNoUserCanWriteToIt) {
  const Values values;
  Trial trial = subject().tells_secrets("file-a", k_file, "PASSWORD");
  trial.process.user = "65534:65534";
  give_file(trial);
  give_variable(trial);
  Run run = described("secret-file", {trial});
  prepare_with(engine(), run, values.to_give());
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto ended = watcher.wait_for("file-a", Phase::ended);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->exit_code, 0);
  EXPECT_EQ(logs_of(run, "file-a", {}, LogStream::out), values.token + "444\n" + values.password + "\n");
}

TEST_P(SecretSuite, NoObservationOrErrorContainsAValue) {
  const Values values;
  Trial running = subject().runs_until_stopped("unseen-running");
  Trial refused = subject().cannot_start("unseen-refused");
  for (Trial* trial : {&running, &refused}) give_variable(*trial);
  Run run = described("secret-unseen", {running, refused});
  prepare_with(engine(), run, values.to_give());
  Watcher watcher(subject(), all_of(run));
  (void)engine().start(run, running, 1, {});
  ASSERT_TRUE(watcher.wait_for("unseen-running", Phase::running));
  try {
    (void)engine().start(run, refused, 1, {});
    ASSERT_TRUE(watcher.wait_for("unseen-refused", Phase::ended));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::refused) << error.what();
    values.expect_none_in(error.what());
  }
  std::vector<Observation> all = watcher.seen();
  const std::vector<Observation> listed = engine().list(all_of(run), ListDetail::full, {});
  EXPECT_FALSE(listed.empty());
  all.insert(all.end(), listed.begin(), listed.end());
  for (const Observation& seen : all) values.expect_none_in(texts_of(seen));
}

// A process that does not start trials has no values.
TEST_P(SecretSuite, AnAttemptWithoutItsValueIsNotStarted) {
  Trial trial = subject().runs_until_stopped("unknown-a");
  give_variable(trial);
  Run run = described("secret-unknown", {trial});
  prepare_with(engine(), run, nullptr);
  for (const auto& values : {std::shared_ptr<const SecretValues>(), std::make_shared<const SecretValues>()}) {
    run.secrets = values;
    EXPECT_EQ(kind_of([&] { (void)engine().start(run, trial, 1, {}); }), ErrorKind::refused);
    EXPECT_THAT(list_all("secret-unknown"), testing::IsEmpty());
  }
}

}  // namespace
}  // namespace combu::conformance
