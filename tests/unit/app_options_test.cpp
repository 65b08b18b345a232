// Tests of the options and values of a command line that runs have on record.

#include "app/attach.hpp"
#include "app/capacity.hpp"
#include "app/load.hpp"
#include "app/log_place.hpp"
#include "app/run_options.hpp"
#include "app/values.hpp"
#include "app_fixture.hpp"
#include "combu/session.hpp"

namespace combu::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(RunOptions, OptionsAreReadBackFromJson) {
  const RunOptions options{.wait = true,
                           .starts_in_flight = 3,
                           .parallel = 0,
                           .reserve = "2,4GiB",
                           .cache = false,
                           .monitored = true};
  EXPECT_EQ(run_options_of(to_json(options)), options);
  EXPECT_EQ(run_options_of(to_json({})), RunOptions());
}

TEST(RunOptions, MissingOptionsHaveDefaults) {
  EXPECT_EQ(run_options_of("{}"), RunOptions());
  EXPECT_EQ(run_options_of(R"({"parallel": null, "unknown": 1})"), RunOptions());
  // Options without `watched`, as an earlier version of combu recorded them.
  EXPECT_TRUE(run_options_of(R"({"wait": true})").monitored);
}

TEST(RunOptions, OptionsAreAdjusted) {
  RunEntry entry;
  entry.options = to_json({.wait = true, .parallel = 4});
  EXPECT_EQ(adjusted_options(entry, {}), run_options_of(entry.options));
  const RunOptions adjusted = adjusted_options(entry, [](RunOptions& options) { options.parallel = 2; });
  EXPECT_EQ(adjusted.parallel, 2U);
  EXPECT_TRUE(adjusted.wait);
  Experiment experiment{.parallel_max = 7};
  override_fields(experiment, {});
  EXPECT_EQ(experiment.parallel_max, 7U);
  override_fields(experiment, adjusted);
  EXPECT_EQ(experiment.parallel_max, 2U);
}

TEST(LogPlace, EachPieceIsNewOnce) {
  LogPlace place;
  const LogOptions wanted{.tail = 2};
  EXPECT_EQ(place.next(wanted).tail, 2);
  EXPECT_TRUE(place.next(wanted).timed);
  EXPECT_FALSE(place.has_begun());
  const Instant first{std::chrono::seconds(100)};
  EXPECT_TRUE(place.is_new({.stream = LogStream::out, .text = "a\n", .at = first}));
  EXPECT_TRUE(place.is_new({.stream = LogStream::out, .text = "b\n", .at = first}));
  EXPECT_TRUE(place.has_begun());
  const LogOptions again = place.next(wanted);
  EXPECT_EQ(again.tail, std::nullopt);
  EXPECT_EQ(again.since, first);
  EXPECT_FALSE(place.is_new({.stream = LogStream::out, .text = "a\n", .at = first}));
  EXPECT_FALSE(place.is_new({.stream = LogStream::out, .text = "b\n", .at = first}));
  EXPECT_TRUE(place.is_new({.stream = LogStream::err, .text = "c\n", .at = first}));
  const Instant later = first + std::chrono::seconds(5);
  EXPECT_TRUE(place.is_new({.stream = LogStream::out, .text = "d\n", .at = later}));
  EXPECT_EQ(place.next(wanted).since, later - k_log_disorder_max);
}

class Values : public AppTest {
 protected:
  static RunEntry entry_with(const std::string& values, const std::string& arguments = "[]") {
    RunEntry entry;
    entry.id = RunId("r1");
    entry.file = "/lab/experiment.jsonnet";
    entry.text.values = values;
    entry.arguments = arguments;
    return entry;
  }
};

TEST_F(Values, ValuesDefaultToTheValuesOfTheRun) {
  Invocation given;
  given.ext_str = {"mode=a"};
  given.ext_code = {"n=1"};
  given.tla_str = {"name=b"};
  given.tla_code = {"m=2"};
  given.import_dirs = {folder.path() + "/lib/../other"};
  const RunEntry entry = entry_with(values_text(given));

  const Invocation known = invocation_for(entry, {});
  EXPECT_EQ(known.file, "/lab/experiment.jsonnet");
  EXPECT_TRUE(known.must_be_regular);
  EXPECT_EQ(known.ext_str, given.ext_str);
  EXPECT_EQ(known.ext_code, given.ext_code);
  EXPECT_EQ(known.tla_str, given.tla_str);
  EXPECT_EQ(known.tla_code, given.tla_code);
  EXPECT_THAT(known.import_dirs, ElementsAre(folder.path() + "/other"));

  const Invocation others = invocation_for(entry, {.file = "b.jsonnet", .ext_str = {"mode=z"}});
  EXPECT_EQ(others.file, "b.jsonnet");
  EXPECT_FALSE(others.must_be_regular);
  EXPECT_THAT(others.ext_str, ElementsAre("mode=z"));
  EXPECT_THAT(others.tla_code, IsEmpty());
  EXPECT_THAT(others.import_dirs, ElementsAre(folder.path() + "/other"));
}

TEST_F(Values, UnrecordedValuesMustBeGivenAgain) {
  const RunEntry entry = entry_with("", R"(["combu", "run", "-V", "mode=a b", "--tla-code=n=1", "-A"])");
  const Error error = error_in([&] { (void)invocation_for(entry, {}); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("-V 'mode=a b'"), HasSubstr("--tla-code=n=1 -A`")));
  EXPECT_NO_THROW(expect_values(entry, {.tla_str = {"n=2"}}));
  EXPECT_NO_THROW(expect_values(entry_with("", R"(["combu", "run"])"), {}));
  EXPECT_EQ(invocation_for(entry_with(""), {}).file, "/lab/experiment.jsonnet");
}

class LoadErrors : public AppTest {
 protected:
  std::vector<std::string> errors_of(const std::string& text) {
    write(text);
    EXPECT_FALSE(load(invocation, RunId("r1"), shown));
    return printed.of("error");
  }
};

TEST_F(LoadErrors, AnErrorNamesTheFileAndThePlace) {
  EXPECT_THAT(errors_of("["), ElementsAre(AllOf(HasSubstr(path("experiment.jsonnet") + ":"))));
}

TEST_F(LoadErrors, ErrorsComeInTheOrderOfTheFile) {
  const std::vector<std::string> errors = errors_of(
      "[{name: 'one', image: 'x', depends: ['nobody']}, {name: 'two', image: 'x', cpus: 'many'}, {name: "
      "'three'}]");
  ASSERT_EQ(errors.size(), 3U);
  EXPECT_THAT(errors[0], AllOf(HasSubstr("[0]"), HasSubstr("nobody")));
  EXPECT_THAT(errors[1], HasSubstr("[1].cpus"));
  EXPECT_THAT(errors[2], HasSubstr("[2]"));
  EXPECT_THAT(errors, Each(testing::StartsWith(path("experiment.jsonnet") + ": ")));
}

TEST_F(LoadErrors, ErrorsOfSectionsAreIncluded) {
  invocation.check_sections = [](const Experiment& experiment) {
    return std::vector<Error>{{ErrorKind::invalid, "[0].docker", experiment.trials.at(0).name}};
  };
  EXPECT_THAT(errors_of("[{name: 'one', image: 'x'}]"), ElementsAre(HasSubstr("[0].docker: one")));
}

TEST_F(LoadErrors, WithoutAProgressTheFirstErrorIsThrown) {
  write("[{name: 'one'}]");
  const Error error = error_in([&] { (void)load_or_throw(invocation, RunId("r1"), [] {}); });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_THAT(error.what(), HasSubstr(path("experiment.jsonnet") + ": [0]"));
  write("[{name: 'one', image: 'x'}]");
  EXPECT_EQ(load_or_throw(invocation, RunId("r1"), [] {}).run.experiment.trials.size(), 1U);
}

TEST_F(LoadErrors, AMissingFileIsAnError) {
  EXPECT_FALSE(load(invocation, RunId("r1"), shown));
  EXPECT_THAT(printed.of("error"), ElementsAre(HasSubstr("no such file")));
}

TEST_F(LoadErrors, WarningsAreNotes) {
  write("[{name: 'one', image: 'x', cache: true, volumes: ['./data/:/data']}]");
  EXPECT_TRUE(load(invocation, RunId("r1"), shown));
  EXPECT_THAT(printed.of("note"), ElementsAre(HasSubstr("experiment.jsonnet: warning: ")));
}

TEST_F(LoadErrors, AnErrorInAValueNamesTheOption) {
  write("[{name: std.extVar('name'), image: 'x'}]");
  const auto load_with = [&](const std::string& value) {
    invocation.ext_str = {value};
    return load(invocation, RunId("r1"), shown);
  };
  EXPECT_EQ(load_with("name=alpha")->run.experiment.trials.at(0).name, "alpha");
  EXPECT_THAT(error_in([&] { (void)load_with("=alpha"); }).message(), HasSubstr("must begin with a name"));
  EXPECT_THAT(error_in([&] { (void)load_with("COMBU_TEST_UNSET"); }).message(),
              HasSubstr("is not in the environment"));
  setenv("name", "beta", 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  EXPECT_EQ(load_with("name")->run.experiment.trials.at(0).name, "beta");
  unsetenv("name");  // NOLINT(concurrency-mt-unsafe): there is one thread
  invocation.evaluate_time = "soon";
  EXPECT_EQ(error_in([&] { (void)load_with("name=alpha"); }).subject(), "--evaluate-time");
}

TEST_F(LoadErrors, WithoutAFileTheDefaultFileIsUsed) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const Invocation none{.check_sections = invocation.check_sections};
  EXPECT_EQ(with_default_file(none).file, "");
  EXPECT_THAT(error_in([&] { (void)load(none, RunId("r1"), shown); }).message(),
              HasSubstr("no experiment file is given"));
  write_file("docker/experiment.jsonnet", "[{name: 'inner', image: 'x'}]");
  EXPECT_EQ(load(none, RunId("r1"), shown)->run.experiment.trials.at(0).name, "inner");
  write("[{name: 'outer', image: 'x'}]");
  EXPECT_EQ(with_default_file(none).file, "experiment.jsonnet");
  EXPECT_EQ(with_default_file(invocation).file, invocation.file);
  std::filesystem::current_path(before);
}

// --reserve, and the capacity that remains.
class Reserved : public AppTest {
 protected:
  std::optional<Capacity> capacity(const std::string& reserve, const Experiment& experiment) {
    Session session(shown, *engine, {.address = address}, {});
    return capacity_for(session, session.engine().facts(session.stop()), experiment, {.reserve = reserve});
  }
  std::string fault(const std::string& reserve) {
    return error_in([&] { (void)capacity(reserve, with_gpu()); }).message();
  }
  static Experiment with_gpu() {
    Experiment experiment;
    experiment.trials.emplace_back().gpus = GpuRequest{.count = 1};
    return experiment;
  }
};

TEST_F(Reserved, ReservedSlotsAreNotAvailable) {
  const auto left = capacity("2,4GiB,gpu=0", with_gpu());
  ASSERT_TRUE(left);
  EXPECT_EQ(left->slots.cpus, parse_cpus("6"));
  EXPECT_EQ(left->slots.memory, parse_bytes("12GiB"));
  EXPECT_THAT(left->slots.gpus, ElementsAre("1"));
  EXPECT_EQ(capacity("", with_gpu())->gpus.size(), 2U);
  Experiment with_cpus;
  with_cpus.trials.emplace_back().slots.cpus = parse_cpus("1");
  EXPECT_THAT(capacity("", with_cpus)->gpus, IsEmpty());
  EXPECT_FALSE(capacity("2", Experiment()));
}

TEST_F(Reserved, TheEngineMustHaveTheReservedSlots) {
  EXPECT_THAT(fault("9"), HasSubstr("the engine has only 8"));
  EXPECT_THAT(fault("17GiB"), HasSubstr("the engine has only 16"));
  EXPECT_THAT(fault("gpu=7"), AllOf(HasSubstr("no GPU 7"), HasSubstr("it has 0, 1, whose UUIDs are not")));
  EXPECT_THAT(fault("gpu=0,gpu=0"), HasSubstr("given twice"));
  EXPECT_THAT(fault("gpu=0,gpu=nvidia.com/gpu=0"), Not(IsEmpty()));
  EXPECT_THAT(fault("gpu="), HasSubstr("must name a GPU"));
  EXPECT_THAT(fault("1,2"), HasSubstr("for memory, add a unit, for example 2GiB"));
  EXPECT_THAT(fault("1GiB,2GiB"), HasSubstr("memory is given twice"));
  EXPECT_THAT(fault("many"), HasSubstr("must be CPUs, memory or a GPU"));
  EXPECT_THAT(fault("2,"), HasSubstr("must be CPUs, memory or a GPU"));
}

}  // namespace
}  // namespace combu::test
