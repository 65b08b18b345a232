#include "combu/spec.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;
using namespace combu;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

using Words = std::vector<std::string>;

Caller caller_in(const std::string& folder) {
  Caller caller;
  caller.file = folder + "/experiment.jsonnet";
  caller.folder = folder;
  caller.home = "/home/ada";
  caller.uid = 1000;
  caller.gid = 1000;
  caller.env = [](const std::string&) { return std::optional<std::string>(); };
  return caller;
}

Reading read(std::string_view json) {
  return read_experiment(json, caller_in("/lab"));
}

// Returns the only trial of a file without errors.
Trial only_trial(std::string_view fields) {
  Reading reading = read(fmt::format(R"([{{"name": "solver", "image": "lab/solver", {}}}])", fields));
  for (const Error& error : reading.errors) ADD_FAILURE() << error.what();
  return reading.experiment.trials.at(0);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "combu-spec-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
  }

 private:
  std::string path_;
};

// ---- Words of a command

TEST(SplitWords, SplitsAtBlanks) {
  EXPECT_EQ(split_words("  make\tall \n -j 2 "), (Words{"make", "all", "-j", "2"}));
  EXPECT_THAT(split_words(""), IsEmpty());
  EXPECT_THAT(split_words(" \n\t"), IsEmpty());
}

TEST(SplitWords, KeepsQuotedTextUnchanged) {
  EXPECT_EQ(split_words(R"(sh -c 'a "b" \c $D')"), (Words{"sh", "-c", R"(a "b" \c $D)"}));
  EXPECT_EQ(split_words(R"("a b"'c d'e)"), (Words{"a bc de"}));
  EXPECT_EQ(split_words(R"(a '' "" b)"), (Words{"a", "", "", "b"}));
}

TEST(SplitWords, TreatsBackslashesAsAShellDoes) {
  EXPECT_EQ(split_words(R"(a\ b \' \\)"), (Words{"a b", "'", "\\"}));
  EXPECT_EQ(split_words(R"("\" \\ \$ \` \n")"), (Words{R"(" \ $ ` \n)"}));
  EXPECT_EQ(split_words("a\\\nb \\\n c \"d\\\ne\""), (Words{"ab", "c", "de"}));
  EXPECT_EQ(split_words("a\\"), (Words{"a\\"}));
}

TEST(SplitWords, ExpandsAndOmitsNothing) {
  EXPECT_EQ(split_words("echo $HOME * # text | ; &"),
            (Words{"echo", "$HOME", "*", "#", "text", "|", ";", "&"}));
}

TEST(SplitWords, RefusesAnUnterminatedQuote) {
  for (const std::string_view line : {"echo 'a", R"(echo "a)", "'", R"(")", R"("a\")", R"('a\'b')"}) {
    EXPECT_THROW(static_cast<void>(split_words(line)), Error) << line;
  }
}

TEST(FindShellSyntax, FindsSyntaxThatAShellWouldInterpret) {
  const std::vector<std::pair<std::string_view, std::string_view>> lines{
      {"make && make test", "&&"},
      {"a||b", "||"},
      {"yes | head", "|"},
      {"sort <in", "<"},
      {"train >out 2>&1", ">"},
      {"echo a; echo b", ";"},
      {"echo $HOME", "$HOME"},
      {"echo ${RUN_1}/out", "${RUN_1}"},
      {R"(echo "to $HOME")", "$HOME"},
      {R"(echo '&&' "|" $A > b)", "$A"},
  };
  for (const auto& [line, syntax] : lines) EXPECT_EQ(find_shell_syntax(line), syntax) << line;
}

TEST(FindShellSyntax, IgnoresQuotedAndUnlistedSyntax) {
  for (const std::string_view line :
       {"", "make test", "sh -c 'a && b > $C'", R"(echo "a && b | c > d; e")", R"(echo \$HOME a\;b \&\&)",
        R"(echo "\$HOME")", "a & b", "price $5 $", "x=$(date)", "100% #1 *.csv"}) {
    EXPECT_EQ(find_shell_syntax(line), "") << line;
  }
  EXPECT_THROW(static_cast<void>(find_shell_syntax("a && 'b")), Error);
}

// ---- Warnings

std::vector<std::string> warnings_of(std::string_view json) {
  const Reading reading = read(json);
  for (const Error& error : reading.errors) ADD_FAILURE() << error.what();
  return reading.warnings;
}

std::vector<std::string> warnings_of_trial(std::string_view fields) {
  return warnings_of(fmt::format(R"([{{"name": "solver", "image": "lab/solver", {}}}])", fields));
}

TEST(Warnings, ACommandWithShellSyntaxNeedsAShell) {
  EXPECT_THAT(
      warnings_of_trial(R"("cmd": "make && make test > out")"),
      ElementsAre("solver: cmd: contains `&&`, but no shell is used; write [\"sh\", \"-c\", \"...\"]"));
  for (const std::string_view fine :
       {R"("cmd": ["make", "&&", "make"])", R"("cmd": "sh -c 'a && b'")", R"("cmd": "/bin/bash -c a && b")",
        R"("cmd": "a && b", "entrypoint": ["/bin/sh", "-c"])", R"("cmd": "grep 'a|b' \"c;d\"")",
        R"("cmd": "make")"}) {
    EXPECT_THAT(warnings_of_trial(fine), IsEmpty()) << fine;
  }
}

TEST(Warnings, AFaultOfTheDefaultsNamesTheTrialsThatUseThem) {
  EXPECT_THAT(warnings_of(R"({"defaults": {"image": "i", "cmd": "a | b"}, "trials": [
                  {"name": "one"}, {"name": "two"}, {"name": "three", "cmd": "c"}, {"name": "four"}]})"),
              ElementsAre(HasSubstr("one and 2 more: cmd: contains `|`")));
  EXPECT_THAT(warnings_of(R"({"defaults": {"image": "i", "cmd": "a | b"}, "trials": [
                  {"name": "one", "entrypoint": ["sh", "-c"]}]})"),
              IsEmpty());
}

TEST(Warnings, AnUnreplacedUuidCausesAWarning) {
  for (const auto& [fields, where] : std::vector<std::pair<std::string_view, std::string_view>>{
           {R"("env": {"A": "1", "U": "UUID"})", "env.U"},
           {R"("env": ["A=UUID"])", "env[0]"},
           {R"("cmd": ["echo", "run-UUID"])", "cmd[1]"},
           {R"("cmd": "train --run=UUID")", "cmd"},
           {R"("volumes": ["./results/UUID/:/results"])", "volumes[0]"},
           {R"("params": {"run": {"id": "UUID"}})", "params.run.id"},
           {R"("docker": {"Hostname": "UUID"})", "docker.Hostname"}}) {
    EXPECT_THAT(
        warnings_of_trial(fields),
        ElementsAre(testing::StartsWith(fmt::format("solver: {}: the text UUID is not replaced", where))))
        << fields;
  }
  for (const std::string_view fine :
       {R"("cmd": "make UUID=k3j9x0q2m8aa")", R"("env": ["UUID"])", R"("env": {"UUID": "k3j9x0q2m8aa"})",
        R"("cmd": ["sh", "-c", "echo $UUID ${UUID}"])", R"("x-note": "UUID")", R"("cmd": "MYUUID UUIDS")"}) {
    EXPECT_THAT(warnings_of_trial(fine), IsEmpty()) << fine;
  }
  EXPECT_THAT(warnings_of(R"({"collect": {"to": "results/UUID"}, "defaults": {"env": {"U": "UUID"}},
                              "trials": [{"name": "one", "image": "i"}]})"),
              ElementsAre(testing::StartsWith("collect.to and 1 more: the text UUID is not replaced")));
}

TEST(Warnings, ACacheWithAMountedFolderCausesAWarning) {
  EXPECT_THAT(
      warnings_of_trial(R"("cache": true, "volumes": ["./data:/data:ro"])"),
      ElementsAre(testing::StartsWith("solver: cache: the content of /lab/data (`volumes`) is not part")));
  for (const std::string_view fine :
       {R"("cache": true, "volumes": ["data:/data"])", R"("cache": false, "volumes": ["./data:/data"])",
        R"("cache": {"key": ["cmd"]}, "volumes": ["./data:/data"])", R"("cache": true)",
        R"("volumes": ["./data:/data"])"}) {
    EXPECT_THAT(warnings_of_trial(fine), IsEmpty()) << fine;
  }
}

TEST(Warnings, EachKindCausesOneLineForAnyNumberOfTrials) {
  std::string trials;
  for (int i = 0; i < 100; ++i)
    trials += fmt::format(R"({}{{"name": "s-{}", "image": "i", "cmd": "echo {} > UUID", "cache": true,
                              "volumes": ["./data-{}:/data"]}})",
                          i == 0 ? "" : ",", i, i, i);
  EXPECT_THAT(warnings_of("[" + trials + "]"),
              ElementsAre(testing::StartsWith("s-0 and 99 more: cmd: contains `>`"),
                          testing::StartsWith("s-0 and 99 more: cmd: the text UUID"),
                          testing::StartsWith("s-0 and 99 more: cache: the content of /lab/data-0")));
}

// ---- Cases that golden files cannot cover: the environment, sizes, files

TEST(ReadExperiment, OutputsArePathsOrObjects) {
  const Experiment experiment =
      read(R"({"collect": {"on": "success"}, "defaults": {"outputs": ["/out"]}, "trials": [
      {"name": "aa", "image": "i"},
      {"name": "bb", "image": "i", "outputs": ["/out//a/../b/", {"path": "/c", "required": false, "max_size": "2g"}]},
      {"name": "cc", "image": "i", "outputs": null}]})")
          .experiment;
  EXPECT_EQ(experiment.collect.to, "/lab/results");
  EXPECT_EQ(experiment.collect.on, CollectOn::success);
  EXPECT_THAT(experiment.trials[0].outputs, ElementsAre(Output{.path = "/out"}));
  EXPECT_THAT(experiment.trials[1].outputs,
              ElementsAre(Output{.path = "/out/b"},
                          Output{.path = "/c", .required = false, .size_max = Bytes{std::int64_t{2} << 30}}));
  EXPECT_THAT(experiment.trials[2].outputs, IsEmpty());
  EXPECT_EQ(read(R"({"collect": {"to": "../home"}, "trials": [{"name": "aa", "image": "i"}]})")
                .experiment.collect.to,
            "/home");
}

TEST(ReadExperiment, OutputsAreCollectedInAFolderOrABucket) {
  const auto place = [](const std::string& to) {
    const Reading reading = read_experiment(
        fmt::format(R"({{"collect": {{"to": "{}"}}, "trials": [{{"name": "aa", "image": "i"}}]}})", to),
        caller_in("/lab"));
    return reading.errors.empty() ? reading.experiment.collect.to : std::string(reading.errors[0].what());
  };
  EXPECT_EQ(place("s3://lab"), "s3://lab");
  EXPECT_EQ(place("s3://lab.example-1/"), "s3://lab.example-1");
  EXPECT_EQ(place("s3://lab//a b/ü/"), "s3://lab/a b/ü");
  EXPECT_EQ(place("s3://lab/a/../b"),
            "collect.to: \"s3://lab/a/../b\": a path in a bucket must not contain `..`");
  EXPECT_EQ(place("s3:/lab/a"),
            "collect.to: \"s3:/lab/a\" is not supported: name a folder, or s3://BUCKET/PREFIX");
  EXPECT_EQ(place("$HOME/lab"),
            "collect.to: \"$HOME/lab\": variables are not expanded; write ~/… for your home folder");
  EXPECT_EQ(
      place("~bob/lab"),
      "collect.to: \"~bob/lab\": only your own home folder, `~/`, is supported; write an absolute path");
  for (const std::string wrong : {"s3://", "s3:///a", "s3://My_Lab/a", "s3://ab", "s3://me:pass@lab/a"})
    EXPECT_THAT(place(wrong), HasSubstr("must be s3://BUCKET or s3://BUCKET/PREFIX")) << wrong;
}

TEST(ReadExperiment, TheStepOfMetricsCanBeNamed) {
  EXPECT_EQ(only_trial(R"("metrics": "json")").metrics->step, "step");
  EXPECT_EQ(*only_trial(R"("metrics": {"stdout": "json", "step": "epoch"})").metrics,
            (Metrics{.json = true, .step = "epoch"}));
  EXPECT_EQ(*only_trial(R"("metrics": {"file": "/m.csv", "step": "train.step"})").metrics,
            (Metrics{.file = "/m.csv", .step = "train.step"}));
  EXPECT_EQ(*only_trial(R"("metrics": {"step": "epoch"})").metrics, (Metrics{.json = true, .step = "epoch"}))
      << "a name alone is of lines of JSON";
  EXPECT_EQ(*only_trial(R"-("metrics": {"stdout": "(?P<step>.)(?P<epoch>.)", "step": "epoch"})-").metrics,
            (Metrics{.pattern = "(?P<step>.)(?P<epoch>.)", .step = "epoch"}));
  const Reading wrong = read(R"-([
      {"name": "only-step", "image": "i", "metrics": {"stdout": "(?P<epoch>.)", "step": "epoch"}},
      {"name": "empty", "image": "i", "metrics": {"stdout": "json", "step": ""}},
      {"name": "kind", "image": "i", "metrics": {"stdout": "json", "step": 3}}])-");
  ASSERT_THAT(wrong.errors, SizeIs(3));
  EXPECT_THAT(wrong.errors[0].what(), HasSubstr("names no metric"));
  EXPECT_THAT(wrong.errors[1].what(), HasSubstr("[1].metrics.step: the step's name is empty"));
  EXPECT_THAT(wrong.errors[2].what(), HasSubstr("[2].metrics.step: must be a string"));
}

TEST(ReadExperiment, AnExperimentIsNamedByItsFieldOrItsFile) {
  EXPECT_EQ(read(R"([{"name": "aa", "image": "i"}])").experiment.name, "/lab/experiment.jsonnet");
  EXPECT_EQ(read(R"({"experiment": "lorenz", "trials": [{"name": "aa", "image": "i"}]})").experiment.name,
            "lorenz");
}

TEST(ReadExperiment, ElementsKnowTheirLocationInTheFile) {
  const std::string_view list =
      R"([{"name": "aa", "image": "i"}, {"name": "bb", "image": "i", "depends": ["aa"], "volumes": ["./x:/x"]}])";
  const Reading array = read(list);
  EXPECT_EQ(array.experiment.trials.at(1).path, "[1]");
  EXPECT_EQ(array.experiment.trials.at(1).depends.at(0).path, "[1].depends[0]");
  EXPECT_EQ(array.experiment.trials.at(1).container.volumes.at(0).path, "[1].volumes[0]");
  const Reading object = read(fmt::format(R"({{"trials": {}}})", list));
  EXPECT_EQ(object.experiment.trials.at(1).path, "trials[1]");
  EXPECT_EQ(object.experiment.trials.at(1).depends.at(0).path, "trials[1].depends[0]");
}

TEST(ReadExperiment, AnInvalidTrialDoesNotHideOtherErrors) {
  const Reading reading = read(
      R"([{"name": "aa", "image": "i", "ports": [0]}, 5, {"name": "bb", "image": 7}, {"name": "cc", "image": "i"}])");
  ASSERT_THAT(reading.errors, SizeIs(3));
  EXPECT_EQ(reading.errors[0].subject(), "[0].ports[0]");
  EXPECT_EQ(reading.errors[1].subject(), "[1]");
  EXPECT_EQ(reading.errors[2].subject(), "[2].image");
  for (const Error& error : reading.errors) EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_THAT(reading.errors[2].message(), HasSubstr("`bb`"));
}

TEST(ReadExperiment, NumbersAreWrittenWithTheFewestDigits) {
  const Trial trial =
      only_trial(R"("cmd": [0.1, 1e-5, 3.0, 100000, 1e5, 1e22, 0.30000000000000004, -2, 9007199254740993])");
  EXPECT_EQ(trial.process.cmd, (Words{"0.1", "1e-05", "3", "100000", "100000", "1e+22", "0.30000000000000004",
                                      "-2", "9007199254740993"}));
}

TEST(ReadExperiment, ALongInitialPauseIsNotShortened) {
  const Retries retries = only_trial(R"("retries": {"max": 1, "backoff": {"initial": "10m"}})").retries;
  EXPECT_EQ(retries.pause, Seconds(600));
  EXPECT_EQ(retries.pause_max, Seconds(600));
}

TEST(ReadExperiment, ANullFieldCountsAsAbsent) {
  const Trial trial = only_trial(R"("cmd": null, "env": null, "workdir": null)");
  EXPECT_EQ(trial.process.cmd, std::nullopt);
  EXPECT_THAT(trial.process.env, IsEmpty());
}

TEST(ReadExperiment, AnEmptyMapKeepsTheDefaultsAndNullRemovesThem) {
  const Reading reading = read(R"({"defaults": {"image": "i", "env": {"A": 1}, "cmd": "x"},
      "trials": [{"name": "kept", "env": {}}, {"name": "gone", "env": null, "cmd": null}]})");
  EXPECT_THAT(reading.experiment.trials.at(0).process.env, ElementsAre(Pair("A", "1")));
  EXPECT_THAT(reading.experiment.trials.at(1).process.env, IsEmpty());
  EXPECT_EQ(reading.experiment.trials.at(1).process.cmd, std::nullopt);
}

TEST(ReadExperiment, ManyVariablesKeepTheirOrderAndTheirLastValue) {
  std::string defaults;
  std::string own;
  for (int i = 0; i < 100; ++i) defaults += fmt::format(R"({}"V{}": {})", i == 0 ? "" : ",", i, i);
  for (int i = 50; i < 150; ++i) own += fmt::format(R"({}"V{}": "own")", i == 50 ? "" : ",", i);
  const Reading reading = read(fmt::format(
      R"({{"defaults": {{"env": {{{}}}}}, "trials": [{{"name": "aa", "image": "i", "env": {{{}}}}}]}})",
      defaults, own));
  const Pairs& env = reading.experiment.trials.at(0).process.env;
  ASSERT_THAT(env, SizeIs(150));
  for (int i = 0; i < 150; ++i) {
    EXPECT_EQ(env.at(i), std::pair(fmt::format("V{}", i), i < 50 ? std::to_string(i) : std::string("own")));
  }
}

TEST(ReadExperiment, ReadsAnEnvFileOnceForAllTrials) {
  const TemporaryFolder folder;
  folder.write("shared.env", "A=1\n");
  const Reading good = read_experiment(
      R"({"defaults": {"image": "i", "env_file": "shared.env"}, "trials": [{"name": "aa"}, {"name": "bb", "env_file": ["shared.env"]}]})",
      caller_in(folder.path()));
  EXPECT_THAT(good.errors, IsEmpty());
  for (const Trial& trial : good.experiment.trials)
    EXPECT_THAT(trial.process.env, ElementsAre(Pair("A", "1")));
  const Reading absent = read_experiment(
      R"([{"name": "aa", "image": "i", "env_file": "no.env"}, {"name": "bb", "image": "i", "env_file": "no.env"}])",
      caller_in(folder.path()));
  EXPECT_THAT(absent.errors, SizeIs(1)) << "one absent file is one fault";
}

TEST(ReadExperiment, AnAbsentEnvFileIsNotedInTheTrialsIfAllowed) {
  const TemporaryFolder folder;
  folder.write("there.env", "A=1\n");
  Caller caller = caller_in(folder.path());
  caller.may_lack_env_files = true;
  const Reading reading = read_experiment(
      R"({"defaults": {"image": "i", "env_file": "no.env"}, "trials": [{"name": "aa"}, {"name": "bb", "env_file": ["there.env", "no.env"]}, {"name": "cc", "env_file": "there.env"}]})",
      caller);
  EXPECT_THAT(reading.errors, IsEmpty());
  const std::vector<Trial>& trials = reading.experiment.trials;
  ASSERT_THAT(trials, SizeIs(3));
  EXPECT_THAT(trials[0].env_fault, testing::HasSubstr("no.env: No such file"));
  EXPECT_EQ(trials[1].env_fault, trials[0].env_fault);
  EXPECT_EQ(trials[2].env_fault, "");
  for (const std::size_t i : {1U, 2U}) EXPECT_THAT(trials[i].process.env, ElementsAre(Pair("A", "1")));
}

TEST(ReadExperiment, LaterEnvFilesOverrideEarlierOnes) {
  const TemporaryFolder folder;
  folder.write("a.env",
               "\xEF\xBB\xBF"
               "A=1\r\nB=1");
  folder.write("b.env", "B=2\n#C=3\n");
  const Reading reading = read_experiment(R"([{"name": "aa", "image": "i", "env_file": ["a.env", "b.env"]}])",
                                          caller_in(folder.path()));
  EXPECT_THAT(reading.experiment.trials.at(0).process.env, ElementsAre(Pair("A", "1"), Pair("B", "2")));
}

TEST(ReadExperiment, ReadsManyTrials) {
  std::string json = "[";
  for (int i = 0; i < 20'000; ++i) {
    json +=
        fmt::format(R"({}{{"name": "t{}", "image": "lab/solver", "cmd": "make ID={}", "depends": ["t0"]}})",
                    i == 0 ? "" : ",", i, i);
  }
  const Reading reading = read(json + "]");
  EXPECT_THAT(reading.errors, IsEmpty());
  ASSERT_THAT(reading.experiment.trials, SizeIs(20'000));
  EXPECT_EQ(reading.experiment.trials.back().process.cmd, (Words{"make", "ID=19999"}));
}

TEST(ReadExperiment, InvalidTextNeverThrows) {
  const std::string whole =
      R"({"defaults":{"env":{"A":1}},"trials":[{"name":"aa","image":"i","ports":["1:2"],"cmd":"a 'b'"}]})";
  for (std::size_t end = 0; end < whole.size(); ++end) {
    EXPECT_FALSE(read(std::string_view(whole).substr(0, end)).errors.empty()) << end;
  }
  EXPECT_THAT(read(whole).errors, IsEmpty());
  EXPECT_FALSE(read("\xFF\xFE").errors.empty());
  EXPECT_FALSE(read("[" + std::string(100'000, '[')).errors.empty());
}

// ---- Host folders

HostFolders make(const std::string& folder, const std::string& volumes) {
  const Caller caller = caller_in(folder);
  const Reading reading =
      read_experiment(fmt::format(R"([{{"name": "aa", "image": "i", "volumes": [{}]}}])", volumes), caller);
  for (const Error& error : reading.errors) ADD_FAILURE() << error.what();
  return make_host_folders(reading.experiment, caller);
}

TEST(MakeHostFolders, CreatesAndListsAbsentFolders) {
  const TemporaryFolder folder;
  folder.write("config", "x");
  const HostFolders first =
      make(folder.path(), R"("./a/b/:/b", "./a/c:/c", "./config:/config", "named:/named", "./a/b:/again")");
  EXPECT_THAT(first.errors, IsEmpty());
  EXPECT_THAT(first.made, ElementsAre(folder.path() + "/a/b", folder.path() + "/a/c"));
  EXPECT_TRUE(fs::is_directory(folder.path() + "/a/b"));
  EXPECT_FALSE(fs::exists(folder.path() + "/named"));
  EXPECT_THAT(make(folder.path(), R"("./a/b/:/b")").made, IsEmpty()) << "made already";
}

TEST(MakeHostFolders, ReportsAFileInPlaceOfAFolder) {
  const TemporaryFolder folder;
  folder.write("data", "x");
  const HostFolders meant = make(folder.path(), R"("./data:/file", "./data/:/data")");
  ASSERT_THAT(meant.errors, SizeIs(1));
  EXPECT_EQ(meant.errors[0].subject(), "[0].volumes[1]");
  EXPECT_THAT(meant.errors[0].message(), HasSubstr(folder.path() + "/data is a file"));
  EXPECT_THAT(meant.errors[0].message(), HasSubstr("`aa`"));
  const HostFolders in_the_way = make(folder.path(), R"("./data/inner:/inner")");
  ASSERT_THAT(in_the_way.errors, SizeIs(1));
  EXPECT_THAT(in_the_way.errors[0].message(), HasSubstr(folder.path() + "/data is a file"));
}

TEST(MakeHostFolders, ReportsAFolderThatCannotBeCreated) {
  // Nobody can create a folder in /proc, not even root.
  const HostFolders result = make("/lab", R"("/proc/combu-test/x:/x", "/proc/combu-test/x:/again")");
  ASSERT_THAT(result.errors, SizeIs(1));
  EXPECT_THAT(result.errors[0].message(),
              HasSubstr("/proc/combu-test/x does not exist and cannot be created: "));
  EXPECT_THAT(result.made, IsEmpty());
}

TEST(CheckHostPaths, ReportsAResultsFolderThatIsAFile) {
  const TemporaryFolder folder;
  folder.write("results", "x");
  const auto faults = [&](const std::string& to) {
    const Reading reading = read_experiment(
        fmt::format(
            R"({{"collect": {{"to": "{}"}}, "trials": [{{"name": "aa", "image": "i", "outputs": "/out"}}]}})",
            to),
        caller_in(folder.path()));
    std::string text;
    for (const Error& error : check_host_paths(reading.experiment, EngineHost::this_machine))
      text += error.what();
    return text;
  };
  EXPECT_EQ(faults("results"),
            fmt::format("collect.to: {}/results must be a folder for outputs, but is a file", folder.path()));
  EXPECT_THAT(faults("results/more"), HasSubstr("results is a file"));
  EXPECT_EQ(faults("other/folder"), "");
  EXPECT_EQ(faults("."), "");
}

TEST(CheckHostPaths, RefusesAnAbsentReadOnlyFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/there");
  folder.write("there/file", "x");
  const auto faults = [&](const std::string& volumes, const std::string& other = "",
                          EngineHost host = EngineHost::this_machine) {
    const Reading reading = read_experiment(fmt::format(R"({{"collect": {{"to": "results"}}, "trials": [
          {{"name": "aa", "image": "i", "volumes": [{}]}}, {{"name": "bb", "image": "i"{}}}]}})",
                                                        volumes, other),
                                            caller_in(folder.path()));
    EXPECT_THAT(reading.errors, IsEmpty());
    std::vector<std::string> paths;
    for (const Error& error : check_host_paths(reading.experiment, host)) {
      EXPECT_THAT(error.what(), HasSubstr("does not exist, and is mounted read-only"));
      paths.push_back(error.subject());
    }
    return paths;
  };
  EXPECT_THAT(faults(R"("./data:/d:ro", "./there:/t:ro", "./there/file:/f:ro")"),
              ElementsAre("trials[0].volumes[0]"));
  EXPECT_THAT(faults(R"("./data:/d:ro")", "", EngineHost::another), IsEmpty());
  EXPECT_THAT(faults(R"("./data:/d")"), IsEmpty());
  // The run itself may fill these folders.
  EXPECT_THAT(faults(R"("./data:/d:ro")", R"(, "volumes": ["./data:/w"])"), IsEmpty());
  EXPECT_THAT(faults(R"("./data/sub:/d:ro")", R"(, "volumes": ["./data:/w"])"), IsEmpty());
  EXPECT_THAT(faults(R"("./data:/d:ro")", R"(, "volumes": ["./data/sub:/w"])"), IsEmpty());
  EXPECT_THAT(faults(R"("./data:/d:ro")", R"(, "volumes": ["./data2:/w"])"), SizeIs(1));
  EXPECT_THAT(faults(R"("./results/x:/d:ro")", R"(, "outputs": "/out")"), IsEmpty());
  EXPECT_THAT(faults(R"("./results/x:/d:ro")"), SizeIs(1));
}

TEST(MakeHostFolders, TheCallerOwnsFoldersThatRootCreates) {
  const TemporaryFolder folder;
  Caller caller = caller_in(folder.path());
  // Only root can change the owner of a folder. Any other user owns the folders anyway.
  caller.uid = geteuid() == 0 ? 1234 : getuid();
  caller.gid = geteuid() == 0 ? 2345 : getgid();
  const Reading reading =
      read_experiment(R"([{"name": "aa", "image": "i", "volumes": ["./a/b:/b"]}])", caller);
  EXPECT_THAT(make_host_folders(reading.experiment, caller).made, SizeIs(1));
  for (const std::string made : {"/a", "/a/b"}) {
    struct stat status {};
    ASSERT_EQ(stat((folder.path() + made).c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, caller.uid);
    EXPECT_EQ(status.st_gid, caller.gid);
  }
}

// ---- Conditions

bool fulfils(const std::map<std::string, std::string>& values, const char* condition) {
  return Filter(condition).matches(
      [&](std::string_view name, std::string_view /*wanted*/) -> std::optional<std::string> {
        const auto found = values.find(std::string(name));
        return found == values.end() ? std::nullopt : std::optional(found->second);
      });
}

TEST(Filter, ComparesNumbersAsNumbersAndOtherValuesAsText) {
  const std::map<std::string, std::string> values = {{"lr", "0.01"}, {"n", "10"}, {"mode", "fast"}};
  for (const char* condition :
       {"lr=0.010", "lr<0.1", "lr <= 1e-2", "n>9", "n>=10", "n!=9", "mode==fast", "mode='fast'", "mode=f*",
        "mode!=slow*", "mode>a", "n=10 && mode=fast", "other!=1"})
    EXPECT_TRUE(fulfils(values, condition)) << condition;
  for (const char* condition :
       {"lr>0.01", "n<9", "n=2*", "mode=Fast", "mode!=f*", "n=10 && mode=slow", "other=1", "other<1"})
    EXPECT_FALSE(fulfils(values, condition)) << condition;
}

TEST(Filter, RefusesAnOrderBetweenANumberAndText) {
  const std::map<std::string, std::string> values = {{"lr", "0.01"}, {"mode", "fast"}};
  for (const char* condition : {"lr<1e", "lr>=fast", "mode=fast && lr>1,5"})
    EXPECT_THROW((void)fulfils(values, condition), Error) << condition;
  for (const char* condition : {"lr=1e", "mode<3", "other<1e"})
    EXPECT_FALSE(fulfils(values, condition)) << condition;
  try {
    (void)fulfils(values, "lr<1e");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "`lr` is 0.01, a number, and cannot be compared with \"1e\", which is not a number");
  }
}

TEST(Gpus, ARequestForZeroGpusIsUnset) {
  EXPECT_FALSE(only_trial(R"("gpus": {"count": 0, "kind": "a100"})").gpus);
  EXPECT_TRUE(only_trial(R"("gpus": "all")").gpus);
}

TEST(Filter, ReadsQuotesPatternsAndBlanks) {
  const std::map<std::string, std::string> values = {
      {"name", "a && b"}, {"said", "it's <3"}, {"id", "s-a-7"}, {"rate", "nan"}, {"gpus", "0,1"}};
  for (const char* condition : {"name=\"a && b\"", "name='a && b'&&id!=x", "said=\"it's <3\"", "id=s-a-[!0]",
                                " id = s-* ", "rate=nan", "rate!=1", "gpus=0,1", "name!=''"})
    EXPECT_TRUE(fulfils(values, condition)) << condition;
  for (const char* condition : {"rate>1", "rate<1", "rate>=nan", "rate<=x", "rate=1"})
    EXPECT_FALSE(fulfils(values, condition)) << condition << ": NaN is neither more nor less than anything";
}

TEST(Filter, ReadsNamesInQuotes) {
  const std::map<std::string, std::string> values = {
      {"v loss", "2"}, {"a,b", "3"}, {"a<b", "4"}, {"it's", "5"}, {"a\"b", "6"}};
  for (const char* condition :
       {"\"v loss\" > 1", "'v loss'=2&&'a,b'=3", "'a<b'<=4", "\"it's\"=5", "'a\"b'!='7'"})
    EXPECT_TRUE(fulfils(values, condition)) << condition;
  EXPECT_FALSE(fulfils(values, "'v loss'<2"));
}

TEST(Filter, RefusesTextThatIsNotACondition) {
  for (const char* text :
       {"", "lr", "lr<", "=3", "lr<1 &&", "&& lr<1", "lr<1 && x", "a=1 b", "a='1", "a=1\"", "a=it's",
        "a='1'b", "not state=failed", "a b=1", "a!1", "'a=1", "'a'", "''=1", "'a'b=1"})
    EXPECT_THROW((void)Filter(text), Error) << text;
}

std::string refusal(const std::string& condition) {
  try {
    (void)Filter(condition);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Filter, ErrorsHintAtTheIntendedSyntax) {
  constexpr std::string_view k_joint = "conditions must be joined by &&";
  constexpr std::string_view k_no_or = "conditions can be joined only by &&; there is no `or`";
  const std::vector<std::pair<std::string, std::string_view>> hints = {
      {"lr<0.01 and state=running", k_joint},
      {"a=1 & b=2", k_joint},
      {"a=1, b=2", k_joint},
      {"a=1 || b=2", k_no_or},
      {"a=1 or b=2", k_no_or},
      {"lr=<1", "write <= for \"at most\""},
      {"lr=>1", "write >= for \"at least\""},
      {"lr<>1", "write != for \"not equal\""},
      {"v loss>1", "a name with blanks or operators must be in quotes"},
      {"lr<<3", "write NAME=VALUE (or != < <= > >= instead of =), and join several conditions by &&"},
      {"reason=exit code 3", "a value with blanks or operators must be in quotes"}};
  for (const auto& [text, hint] : hints)
    EXPECT_EQ(refusal(text), "\"" + text + "\" is not a condition: " + std::string(hint));
  EXPECT_EQ(refusal("a=1 && lr=<1"), "\"lr=<1\" is not a condition: write <= for \"at most\"");
}

}  // namespace
