// Tests that read the values of secrets: when, from where, and the errors. tests/cli/secrets_test.py looks
// for values in the files that combu writes.

#include "app/apply.hpp"
#include "app_fixture.hpp"

namespace combu::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;

// Notes the secrets with which each attempt is started, such as "one: /run/secrets/a=x, A=y".
class NotingEngine final : public PassingEngine {
 public:
  explicit NotingEngine(Engine& inner) : PassingEngine(inner) {}
  StartResult start(const combu::Run& run, const Trial& trial, int attempt, std::stop_token token) override {
    const RevealedSecrets secrets = reveal_secrets(run, trial);
    std::string line = trial.name + ":";
    for (const auto* places : {&secrets.files, &secrets.variables})
      for (const auto& [place, value] : *places) line += " " + std::string(place) + "=" + std::string(value);
    {
      const std::scoped_lock lock(mutex_);
      started.push_back(line);
    }
    StartResult result = PassingEngine::start(run, trial, attempt, std::move(token));
    if (trial.name == interrupted_after) stop.request_stop();
    return result;
  }

  std::vector<std::string> started;
  std::string interrupted_after;
  std::stop_source stop{std::nostopstate};

 private:
  std::mutex mutex_;
};

class SecretsTest : public AppTest {
 protected:
  SecretsTest() { engine = &noting; }

  static std::string text(const std::string& sources, const std::string& trials) {
    return file_text(trials, "secrets: {" + sources + "}, ");
  }
  // Starts a run whose only trial has the secret `a` as a file.
  Result start_with(const std::string& source) {
    return start(text("a: " + source, trial_text("one", "true", "secrets: ['a']")), waiting_run("r1"));
  }
  std::string error_with(const std::string& source) {
    EXPECT_EQ(start_with(source), Result::invalid);
    EXPECT_THAT(printed.of("note"), ElementsAre("nothing was started"));
    EXPECT_THAT(noting.started, IsEmpty());
    EXPECT_THAT(printed.of("error"), SizeIs(1));
    return printed.of("error").at(0);
  }

  NotingEngine noting{kept_engine};
};

TEST_F(SecretsTest, ValuesComeFromFilesVariablesAndCommands) {
  write_file("token", "of file\n");
  setenv("COMBU_TEST_SECRET", "of variable", 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  EXPECT_EQ(
      start(text("a: {file: 'token'}, b: {env: 'COMBU_TEST_SECRET'}, c: {command: ['sh', '-c', 'cat token']}",
                 trial_text("one", "true", "secrets: ['a', 'b', {source: 'c', env: 'C'}]")),
            waiting_run("r1")),
      Result::succeeded);
  EXPECT_THAT(noting.started,
              ElementsAre("one: /run/secrets/a=of file\n /run/secrets/b=of variable C=of file"));
  EXPECT_THAT(printed.of("phase"),
              ElementsAre("checking", "reading secrets", "preparing images and networks"));
}

TEST_F(SecretsTest, OneLineEndOfACommandIsNotPartOfTheValue) {
  EXPECT_EQ(start_with(R"({command: ['printf', 'x\\n\\n']})"), Result::succeeded);
  EXPECT_THAT(noting.started, ElementsAre("one: /run/secrets/a=x\n"));
}

TEST_F(SecretsTest, OnlySecretsThatTrialsHaveAreRead) {
  EXPECT_EQ(start(text("a: {file: 'missing'}, b: {command: 'false'}", trial_text("one")), waiting_run("r1")),
            Result::succeeded);
}

TEST_F(SecretsTest, ASourceThatFailsIsFoundBeforeTheFirstStart) {
  EXPECT_THAT(error_with("{file: 'missing'}"),
              HasSubstr("secrets.a.file: " + path("missing") + " does not exist; create the file"));
}

TEST_F(SecretsTest, AFolderIsNoFile) {
  EXPECT_THAT(error_with("{file: '.'}"), HasSubstr("is a folder, not a file"));
}

TEST_F(SecretsTest, AnEmptyValueIsAnError) {
  write_file("token", "");
  EXPECT_THAT(error_with("{file: 'token'}"), HasSubstr("secrets.a.file: " + path("token") + " is empty"));
}

TEST_F(SecretsTest, ACommandThatPrintsNothingIsAnError) {
  EXPECT_THAT(error_with("{command: 'echo'}"),
              HasSubstr("secrets.a.command: the command prints nothing: echo"));
}

TEST_F(SecretsTest, AMissingVariableIsAnError) {
  EXPECT_THAT(error_with("{env: 'COMBU_TEST_ABSENT'}"),
              HasSubstr("secrets.a.env: the variable COMBU_TEST_ABSENT is not set"));
}

TEST_F(SecretsTest, TheErrorOfACommandShowsNothingThatItPrints) {
  write_file("get", "#!/bin/sh\necho hunter1\necho hunter2 >&2\nexit 3\n");
  std::filesystem::permissions(path("get"), std::filesystem::perms::owner_all);
  EXPECT_THAT(error_with("{command: ['./get', 'a b']}"),
              AllOf(HasSubstr("secrets.a.command: the command failed with exit code 3; run the command in "),
                    HasSubstr("./get 'a b'")));
  EXPECT_THAT(printed.lines(), Each(Not(HasSubstr("hunter"))));
}

TEST_F(SecretsTest, ACommandThatCannotBeRunIsAnError) {
  EXPECT_THAT(error_with("{command: './absent'}"), HasSubstr("the command cannot be run: No such file"));
}

TEST_F(SecretsTest, TheValuesHaveALimit) {
  EXPECT_THAT(error_with("{command: ['head', '-c', '1048577', '/dev/zero']}"),
              HasSubstr("the output is larger than 1 MiB"));
}

TEST_F(SecretsTest, AllErrorsAreShownAtOnce) {
  write_file("half", std::string(600'000, 'x'));
  write_file("nul", std::string("a\0b", 3));
  EXPECT_EQ(start(text("a: {file: 'missing'}, b: {file: 'half'}, c: {command: 'cat half'}, d: {file: 'nul'}",
                       trial_text("one", "true", "secrets: ['a', 'b', 'c', {source: 'd', env: 'D'}]") +
                           trial_text("two", "true", "secrets: [{source: 'b', env: 'B'}]")),
                  waiting_run("r1")),
            Result::invalid);
  EXPECT_THAT(printed.of("error"),
              ElementsAre(HasSubstr("secrets.a.file: "),
                          HasSubstr("trials[1].secrets[0]: the value is too large for a variable"),
                          HasSubstr("trials[0].secrets[3]: the value has a NUL character"),
                          HasSubstr("secrets: the values are larger than 1 MiB together")));
}

TEST_F(SecretsTest, ALineEndInAVariableIsNoted) {
  write_file("token", "x\n");
  EXPECT_EQ(start(text("a: {file: 'token'}", trial_text("one", "true", "secrets: [{source: 'a', env: 'A'}]")),
                  waiting_run("r1")),
            Result::succeeded);
  EXPECT_THAT(printed.of("note"),
              Contains(HasSubstr("trials[0].secrets[0]: the value ends with a line end")));
  EXPECT_THAT(noting.started, ElementsAre("one: A=x\n"));
}

TEST_F(SecretsTest, AnInterruptEndsACommand) {
  std::jthread interrupt([this] {
    (void)printed.wait_for("phase reading secrets");
    stop.request_stop();
  });
  EXPECT_EQ(start_with("{command: 'sleep 100'}"), Result::interrupted);
  EXPECT_THAT(printed.of("note"), Contains("interrupted: nothing was started"));
}

class SecretsOfInterruptedRunTest : public SecretsTest {
 protected:
  // `one` ends, and `two` does not start.
  void interrupt(const std::string& of_one, const std::string& of_two) {
    noting.interrupted_after = "one";
    noting.stop = stop;
    EXPECT_EQ(start(text("a: {file: 'a'}, b: {file: 'b'}",
                         trial_text("one", "sleep 0.5", "secrets: [" + of_one + "]") +
                             trial_text("two", "true",
                                        "depends: [{trial: 'one', condition: 'succeeded'}], secrets: [" +
                                            of_two + "]")),
                    waiting_run("r1")),
              Result::interrupted);
    noting.interrupted_after.clear();
    noting.started.clear();
    stop = {};
    printed.clear();
  }
};

TEST_F(SecretsOfInterruptedRunTest, AResumedRunReadsTheValuesAgain) {
  write_file("a", "old");
  write_file("b", "old");
  interrupt("'a'", "'b'");
  write_file("b", "new");
  EXPECT_EQ(resume(), Result::succeeded);
  EXPECT_THAT(noting.started, ElementsAre("two: /run/secrets/b=new"));
}

TEST_F(SecretsOfInterruptedRunTest, AResumedRunNeedsOnlyTheSecretsOfTrialsThatMayStart) {
  write_file("a", "x");
  write_file("b", "x");
  interrupt("'a'", "'b'");
  std::filesystem::remove(path("a"));
  EXPECT_EQ(resume(), Result::succeeded);
  EXPECT_THAT(states("r1"), Contains(Pair("two", "succeeded")));
}

TEST_F(SecretsOfInterruptedRunTest, AResumedRunFindsASourceThatFails) {
  write_file("a", "x");
  write_file("b", "x");
  interrupt("'a'", "'b'");
  std::filesystem::remove(path("b"));
  EXPECT_EQ(resume(), Result::invalid);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("secrets.b.file: ")));
  EXPECT_THAT(noting.started, IsEmpty());
}

TEST_F(SecretsTest, ARetryReadsTheValuesAgain) {
  write_file("a", "old");
  EXPECT_EQ(start(text("a: {file: 'a'}", trial_text("one", "exit 1", "secrets: ['a']")), waiting_run("r1")),
            Result::failed);
  write_file("a", "new");
  EXPECT_EQ(retry({.wait = true}), Result::failed);
  EXPECT_THAT(noting.started, ElementsAre("one: /run/secrets/a=old", "one: /run/secrets/a=new"));
}

TEST_F(SecretsTest, TheOwnerReadsTheSecretsOfAnAppliedFile) {
  write_file("a", "x");
  const std::string sources = "a: {file: 'a'}, b: {file: 'b'}";
  Process process(*this, text(sources, k_endless_trial), waiting_run("r1"));
  ASSERT_TRUE(process.printed.wait_for("goes running"));
  RunOwner owner(nullptr);
  const auto apply = [&](const std::string& trials) {
    write(text(sources, trials));
    return result_of([&](const OpenSession& open_session) {
      return combu::apply(invocation, "", {}, shown, open_session, owner);
    });
  };
  EXPECT_EQ(apply(k_endless_trial + trial_text("two", "true", "secrets: ['b']")), Result::invalid);
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("secrets.b.file: ")));
  EXPECT_EQ(apply(k_endless_trial + trial_text("two", "true", "secrets: ['a']")), Result::succeeded);
  EXPECT_TRUE(process.printed.wait_for("two succeeded"));
  EXPECT_THAT(noting.started, Contains("two: /run/secrets/a=x"));
  process.stop.request_stop();
  EXPECT_EQ(process.result(), Result::interrupted);
}

}  // namespace
}  // namespace combu::test
