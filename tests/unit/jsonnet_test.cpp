#include "combu/jsonnet.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "jsonnet/child.hpp"
#include "unit/jsonnet_scratch.hpp"

namespace combu {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* k_endless = "local f(x) = f(x + 1) tailstrict; f(0)";

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

bool has_children() {
  return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

// Replaces a standard stream with a file while this object exists.
class Redirected {
 public:
  Redirected(int stream, const std::string& file, int flags) : stream_(stream), saved_(::dup(stream)) {
    const int descriptor = ::open(file.c_str(), flags | O_CLOEXEC, 0600);
    ::dup2(descriptor, stream_);
    ::close(descriptor);
  }
  ~Redirected() {
    ::dup2(saved_, stream_);
    ::close(saved_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  int stream_;
  int saved_;
};

// NOLINTBEGIN(concurrency-mt-unsafe): these tests have one thread
class JsonnetPath {
 public:
  explicit JsonnetPath(const std::string& value) { ::setenv("JSONNET_PATH", value.c_str(), 1); }
  ~JsonnetPath() { ::unsetenv("JSONNET_PATH"); }
  JsonnetPath(const JsonnetPath&) = delete;
  JsonnetPath& operator=(const JsonnetPath&) = delete;
};
// NOLINTEND(concurrency-mt-unsafe)

TEST(Evaluate, ReturnsTheJsonAndTheOriginalSource) {
  const Scratch scratch;
  const std::string source =
      "local uuid = \"UUID\";\n[{ name: 'a-' + uuid, run: std.extVar('combu.run') }]\n";
  const Evaluated evaluated = evaluate(evaluation_of(scratch.write("e.jsonnet", source)));
  EXPECT_EQ(compact(evaluated.json), R"([{"name":"a-0123456789ab","run":"0123456789ab"}])");
  EXPECT_EQ(evaluated.source, source);
}

TEST(Evaluate, ReturnsTheImportsAndDetectsTheirChanges) {
  const Scratch scratch;
  const std::string text = scratch.write("text", "abc");
  const std::string library = scratch.write("lib.libsonnet", "{ a: importstr 'text' }");
  const std::string file = scratch.write(
      "e.jsonnet", "[(import 'lib.libsonnet').a, importstr 'text', std.isObject(import 'combu.libsonnet')]");
  const Evaluated evaluated = evaluate(evaluation_of(file));
  EXPECT_EQ(compact(evaluated.json), R"(["abc","abc",true])");
  ASSERT_EQ(evaluated.imports.size(), 2U);
  EXPECT_EQ(evaluated.imports[0].path, library);
  EXPECT_EQ(evaluated.imports[1].path, text);
  EXPECT_EQ(evaluated.imports[1].sha256, sha256_of("abc"));
  const auto is_same = [&] { return is_unchanged(file, evaluated.source, evaluated.imports); };
  EXPECT_TRUE(is_same());
  scratch.write("text", "abd");
  EXPECT_FALSE(is_same());
  scratch.write("text", "abc");
  EXPECT_TRUE(is_same());
  scratch.write("e.jsonnet", "\xEF\xBB\xBF" + evaluated.source);  // a byte order mark is not part of the text
  EXPECT_TRUE(is_same());
  scratch.write("e.jsonnet", evaluated.source + " ");
  EXPECT_FALSE(is_same());
  std::filesystem::remove(file);
  EXPECT_FALSE(is_same());
}

TEST(Evaluate, PassesVariablesAndArguments) {
  const Scratch scratch;
  Evaluation evaluation = evaluation_of(scratch.write(
      "e.jsonnet", "function(n, list) { n: n, list: list, v: std.extVar('v'), c: std.extVar('c') }"));
  evaluation.ext_str = {{"v", "1 + 1"}, {"combu.run", "not this"}};
  evaluation.ext_code = {{"c", "1 + 1"}};
  evaluation.tla_str = {{"n", "2 + 2"}};
  evaluation.tla_code = {{"list", "[2 + 2, std.extVar('combu.run')]"}};
  EXPECT_EQ(value_of(evaluation), R"({"c":2,"list":[4,"0123456789ab"],"n":"2 + 2","v":"1 + 1"})");
}

TEST(Evaluate, ReadsStandardInputToItsEnd) {
  const Scratch scratch;
  // More than the capacity of a pipe or a buffer.
  const Redirected input(STDIN_FILENO,
                         scratch.write("e.jsonnet", repeated("# a comment\n", 20000) + "{ a: 1 }"), O_RDONLY);
  EXPECT_EQ(value_of(evaluation_of("-")), R"({"a":1})");
}

TEST(Evaluate, NamesStandardInputInErrors) {
  const Scratch scratch;
  const Redirected input(STDIN_FILENO, scratch.write("e.jsonnet", "{ a: b }"), O_RDONLY);
  EXPECT_EQ(refusal_of(evaluation_of("-")).subject(), "<stdin>:1:6");
}

TEST(Evaluate, ReturnsLargeResultsCompletely) {
  const std::string json = value_of("local x = std.repeat('x', 1000); [x for i in std.range(1, 5000)]");
  EXPECT_EQ(json.size(), 5000U * 1003 + 1);
  EXPECT_EQ(json.back(), ']');
}

TEST(Evaluate, LeavesNoDescriptorAndNoChildBehind) {
  const Scratch scratch;
  const std::size_t before = open_descriptors();
  const std::string good = scratch.write("good.jsonnet", "[1]");
  const std::string bad = scratch.write("bad.jsonnet", "[");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(value_of(evaluation_of(good)), "[1]");
    EXPECT_THAT(value_of(evaluation_of(bad)), StartsWith("error"));
  }
  Evaluation endless = evaluation_of(scratch.write("endless.jsonnet", k_endless));
  endless.time_max = Seconds(0.05);
  EXPECT_THAT(value_of(endless), StartsWith("error"));
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_FALSE(has_children());
}

TEST(Evaluate, CallsSlowOnce) {
  const Scratch scratch;
  int reported = 0;
  const auto began = std::chrono::steady_clock::now();
  (void)evaluate(evaluation_of(scratch.write("quick.jsonnet", "1")), [&] { ++reported; });
  const Seconds took = std::chrono::steady_clock::now() - began;
  if (took < Seconds(1)) {
    EXPECT_EQ(reported, 0);
  }
  reported = 0;
  Evaluation evaluation = evaluation_of(scratch.write("endless.jsonnet", k_endless));
  evaluation.time_max = Seconds(1.2);
  EXPECT_THROW((void)evaluate(evaluation, [&] { ++reported; }), Error);
  EXPECT_EQ(reported, 1);
}

TEST(Evaluate, KillsTheChildIfSlowThrows) {
  const Scratch scratch;
  const Evaluation evaluation = evaluation_of(scratch.write("endless.jsonnet", k_endless));
  EXPECT_THROW((void)evaluate(evaluation, [] { throw std::runtime_error("no terminal"); }),
               std::runtime_error);
  EXPECT_FALSE(has_children());
}

TEST(Child, ASecondChildGetsOnlyTheRemainingTime) {
  const ChildLimits limits{Bytes{std::int64_t{1} << 30U}, timestamp_after(Seconds(0.05))};
  const auto end_of = [&](const ChildWork& work) {
    return run_in_child(limits, Traces::dropped, work, {}).kind;
  };
  EXPECT_EQ(end_of([](const Write&) {
              for (;;) ::pause();
            }),
            ChildEnd::Kind::timed_out);
  EXPECT_EQ(end_of([](const Write& write) { write("at once"); }), ChildEnd::Kind::timed_out);
}

// ---- Imports

TEST(Import, IsRelativeToTheImportingFile) {
  const Scratch scratch;
  scratch.write("lib/a.libsonnet", "import 'deep/b.libsonnet'");
  scratch.write("lib/deep/b.libsonnet", "importstr '../c.txt'");
  scratch.write("lib/c.txt", "it's c");
  EXPECT_EQ(value_of(evaluation_of(scratch.write("e.jsonnet", "import 'lib/a.libsonnet'"))), "\"it's c\"");
}

TEST(Import, SearchesTheLastFolderFirstThenThePath) {
  const Scratch scratch;
  for (const std::string folder : {"one", "two", "three", "four"}) {
    scratch.write(folder + "/everywhere", "'" + folder + "'");
    if (folder != "two") scratch.write(folder + "/not-in-two", "'" + folder + "'");
    if (folder == "three" || folder == "four") scratch.write(folder + "/in-path", "'" + folder + "'");
  }
  const JsonnetPath path(scratch.path("three") + "::" + scratch.path("four"));
  Evaluation evaluation = evaluation_of(
      scratch.write("e.jsonnet", "[import 'everywhere', import 'not-in-two', import 'in-path']"));
  evaluation.import_dirs = {scratch.path("one"), scratch.path("two") + "/"};
  EXPECT_EQ(value_of(evaluation), R"(["two","one","three"])");
  scratch.write("everywhere", "'beside the file'");
  EXPECT_EQ(value_of(evaluation), R"(["beside the file","one","three"])");
}

TEST(Import, FindsTheEmbeddedLibraryLastOfAll) {
  const Scratch scratch;
  scratch.write("sub/name.libsonnet", "import 'combu.libsonnet'");
  const Evaluation evaluation =
      evaluation_of(scratch.write("e.jsonnet", "std.objectHasAll(import 'sub/name.libsonnet', 'grid')"));
  EXPECT_EQ(value_of(evaluation), "true");
  scratch.write("sub/combu.libsonnet", "{}");
  EXPECT_EQ(value_of(evaluation), "false");
}

TEST(Import, AnAbsentFileIsReportedWithTheSearchedFolders) {
  const Scratch scratch;
  Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", "{\n  a: import 'no.libsonnet',\n}"));
  evaluation.import_dirs = {"/one", "/two"};
  const Error error = refusal_of(evaluation);
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), evaluation.file + ":2:6");
  EXPECT_THAT(error.message(),
              StartsWith("couldn't open import \"no.libsonnet\": no such file in " + scratch.path("") +
                         ", /two, /one; add folders with -J or JSONNET_PATH\n"));
}

TEST(Import, AnUnreadableFileIsReportedByName) {
  const Scratch scratch;
  scratch.write("folder/file", "");
  scratch.write("nul.txt", std::string("a\0b", 3));
  scratch.write("latin1.txt", "caf\xe9");
  const auto refusal = [&](const std::string& code) {
    return value_of(evaluation_of(scratch.write("e.jsonnet", code)));
  };
  EXPECT_THAT(refusal("import 'folder'"), HasSubstr(scratch.path("folder") + ": is a folder, not a file"));
  EXPECT_THAT(refusal("importstr 'nul.txt'"), HasSubstr(scratch.path("nul.txt") + ": contains a NUL byte"));
  EXPECT_THAT(refusal("importstr 'latin1.txt'"),
              HasSubstr(scratch.path("latin1.txt") + ": is not UTF-8 (byte 4)"));
  EXPECT_THAT(refusal("import '/no/such/file'"), HasSubstr("\"/no/such/file\": no such file"));
  EXPECT_THAT(refusal("import ''"), HasSubstr("names no file"));
  std::filesystem::create_symlink("loop", scratch.path("loop"));
  EXPECT_THAT(refusal("import 'loop'"), HasSubstr("loop: cannot be read: Too many levels of symbolic links"));
}

TEST(Import, APipeOrDeviceIsRefusedWithoutOpeningIt) {
  const Scratch scratch;
  ASSERT_EQ(::mkfifo(scratch.path("pipe").c_str(), 0600), 0);
  for (const std::string& path :
       {scratch.path("pipe"), std::string("/dev/zero"), std::string("/dev/stdin")}) {
    const std::string file = scratch.write("e.jsonnet", "importstr '" + path + "'");
    Evaluation evaluation = evaluation_of(file);
    evaluation.time_max = Seconds(20);
    EXPECT_THAT(value_of(evaluation), HasSubstr(path + ": is a pipe, a device or a socket"));
    EXPECT_FALSE(is_unchanged(file, "importstr '" + path + "'", {{.path = path, .sha256 = ""}}));
  }
}

TEST(BadFile, APipeIsReadToItsEnd) {
  const Scratch scratch;
  const std::string pipe = scratch.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int end = ::open(pipe.c_str(), O_WRONLY | O_CLOEXEC);
    ::_exit(::write(end, "[1]", 3) == 3 ? 0 : 1);
  }
  EXPECT_EQ(value_of(evaluation_of(pipe)), "[1]");
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_unchanged(pipe, "[1]", {}));
}

TEST(Import, AFileThatImportsItselfForeverIsAnError) {
  const Scratch scratch;
  const Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", "(import 'e.jsonnet') + 1"));
  EXPECT_THAT(value_of(evaluation), StartsWith("error: "));
}

// ---- Faulty files

TEST(BadFile, AnAbsentFileIsNotFound) {
  const Error error = refusal_of(evaluation_of("/no/such/experiment.jsonnet"));
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  EXPECT_EQ(error.subject(), "/no/such/experiment.jsonnet");
}

TEST(BadFile, AFolderOrAnEmptyFileIsReported) {
  const Scratch scratch;
  EXPECT_EQ(value_of(evaluation_of(scratch.path("."))),
            "error: " + scratch.path(".") + ": is a folder, not a file");
  for (const std::string nothing : {"", " \n\t\r\n"}) {
    const Error error = refusal_of(evaluation_of(scratch.write("e.jsonnet", nothing)));
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_THAT(error.message(), HasSubstr("empty"));
  }
  EXPECT_THAT(value_of("// only a comment\n"), HasSubstr("e.jsonnet:2:1: unexpected end of file"));
}

TEST(BadFile, TextThatIsNotUtf8IsReportedWithItsPlace) {
  const Scratch scratch;
  const std::string nul = scratch.write("nul.jsonnet", std::string("[\n 1,\0 2]", 9));
  EXPECT_EQ(refusal_of(evaluation_of(nul)).subject(), nul + ":2:4");
  for (const std::string bad :
       {"\xe9", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xf0\x80\x80\x80", "\xe2\x82"}) {
    const std::string file = scratch.write("bad.jsonnet", "\n'é" + bad + "'");
    const Error error = refusal_of(evaluation_of(file));
    EXPECT_EQ(error.subject(), file + ":2:4");
    EXPECT_THAT(error.message(), HasSubstr("is not UTF-8"));
  }
  EXPECT_EQ(value_of("'é€😀'"), "\"é€😀\"");
}

TEST(BadFile, ASyntaxErrorNamesLineAndColumn) {
  const Scratch scratch;
  const std::string file = scratch.write("e.jsonnet", "[\n  { name: 'a' image: 'b' },\n]");
  const Error error = refusal_of(evaluation_of(file));
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), file + ":2:15");
  EXPECT_EQ(error.message(),
            "expected a comma before next field.\n"
            "      { name: 'a' image: 'b' },\n"
            "                  ^");
}

TEST(BadFile, ARunTimeErrorNamesLineAndColumn) {
  const Scratch scratch;
  const std::string file = scratch.write("e.jsonnet",
                                         "local trial(i) = {\n"
                                         "  name: if i > 1 then error 'no more' else 'a',\n"
                                         "};\n"
                                         "std.map(function(x) x, [trial(1), trial(2)])\n");
  const Error error = refusal_of(evaluation_of(file));
  EXPECT_EQ(error.subject(), file + ":2:23");
  EXPECT_THAT(error.message(), StartsWith("no more\n"));
}

TEST(BadFile, AnErrorInACallShowsTheCallers) {
  const Scratch scratch;
  const std::string file = scratch.write("e.jsonnet",
                                         "local half(x) = x / 0;\n"
                                         "local both(x) = [half(x), 1];\n"
                                         "{ all: both(3) }\n");
  const Error error = refusal_of(evaluation_of(file));
  EXPECT_EQ(error.subject(), file + ":1:17");
  EXPECT_EQ(error.message(),
            "division by zero.\n"
            "    local half(x) = x / 0;\n"
            "                    ^\n"
            "  from " +
                file + ":2:18: local both(x) = [half(x), 1];\n  in all[0]");
}

TEST(BadFile, AnEndlessRecursionGivesAShortError) {
  const std::string text = value_of("local f(x) = 1 + f(x + 1);\n\n[f(0)]");
  EXPECT_THAT(text, HasSubstr("e.jsonnet:1:18: max stack frames exceeded"));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 11);
}

TEST(BadFile, ColumnsAreCorrectInALineWithTheIdentifier) {
  const Scratch scratch;
  const auto subject = [&](const std::string& code, const std::string& run = "0123456789ab") {
    Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", code));
    evaluation.run = RunId(run);
    const std::string whole = refusal_of(evaluation).subject();
    return whole.substr(whole.rfind("e.jsonnet") + 10);
  };
  EXPECT_EQ(subject("local u = \"UUID\"; [x]"), "1:20");
  EXPECT_EQ(subject("local u = \"UUID\"; [x]", "r"), "1:20");
  EXPECT_EQ(subject("local u = 'UUID', v = 'UUID'; [x]"), "1:32");
  EXPECT_EQ(subject("[x, local u = 'UUID'; u]"), "1:2");
  EXPECT_EQ(subject("local u = 'UUID';\n[x]"), "2:2");
  EXPECT_EQ(subject("\nlocal u = 'UUID'; std.length(1, 2)"), "2:19");
  EXPECT_EQ(subject("local u = 'UUID'; error 'a'"), "1:19");
}

TEST(BadFile, AResultThatIsNotUtf8IsReported) {
  // One evaluator refuses to create such a character. The other one creates bytes that are not UTF-8.
  EXPECT_THAT(
      value_of("[{ name: 'é', cmd: 'a' + std.char(55296) }]"),
      AnyOf(
          AllOf(HasSubstr("e.jsonnet: the result is not UTF-8 after `\"cmd\": \"a`"), HasSubstr("std.char")),
          AllOf(HasSubstr("e.jsonnet:1:27: "), HasSubstr("55296 is not"), HasSubstr("in [0].cmd"))));
  EXPECT_EQ(value_of("std.char(0) + 'a'"), R"("\u0000a")");
}

TEST(BadFile, AFunctionAsResultIsAnError) {
  EXPECT_THAT(value_of("{ f: function(x) x }"), HasSubstr("couldn't manifest function"));
  EXPECT_THAT(value_of("function(x) x"), HasSubstr("function parameter x not bound"));
  EXPECT_THAT(value_of("std.extVar('nothing')"),
              HasSubstr("e.jsonnet:1:1: undefined external variable: nothing"));
}

// ---- Inputs that would crash or block the evaluator

TEST(Limit, TheTimeLimitEndsAnEndlessRecursion) {
  const Scratch scratch;
  Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", k_endless));
  evaluation.time_max = Seconds(0.3);
  const Error error = refusal_of(evaluation);
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), evaluation.file);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("limit of 300 ms"), HasSubstr("--evaluate-time")));
}

TEST(Limit, TheMemoryLimitEndsAGrowingArray) {
  const Scratch scratch;
  Evaluation evaluation =
      evaluation_of(scratch.write("e.jsonnet", "local grow(a) = grow(a + a) tailstrict; grow([1, 2])"));
  evaluation.memory_max = Bytes{96LL << 20};
  const Error error = refusal_of(evaluation);
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), evaluation.file);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("96 MiB of memory"), HasSubstr("--evaluate-memory")));
}

TEST(Limit, TheMemoryLimitEndsAGrowingText) {
  const Scratch scratch;
  Evaluation evaluation =
      evaluation_of(scratch.write("e.jsonnet", "local grow(a) = grow(a + a) tailstrict; grow('ab')"));
  evaluation.memory_max = Bytes{96LL << 20};
  EXPECT_THAT(value_of(evaluation), HasSubstr("96 MiB of memory"));
}

TEST(Limit, TheMemoryLimitAppliesToTheResult) {
  const Scratch scratch;
  Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", "std.repeat('x', 33 * 1024 * 1024)"));
  evaluation.memory_max = Bytes{256LL << 20};
  const std::string reported = value_of(evaluation);
  if (evaluator().starts_with("rsjsonnet")) {
    EXPECT_THAT(reported, AllOf(HasSubstr("the result is 33"), HasSubstr("more than 32 MiB")));
  } else {
    EXPECT_THAT(reported, HasSubstr("needs more than 256 MiB of memory"));  // libjsonnet fails earlier
  }
}

TEST(Limit, TheCallersOwnLimitsStay) {
  rlimit before{};
  rlimit after{};
  ::getrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(value_of("1"), "1");
  ::getrlimit(RLIMIT_AS, &after);
  EXPECT_EQ(before.rlim_cur, after.rlim_cur);
}

// A value and an error are both acceptable. The caller must not crash or wait forever.
TEST(Limit, DeepNestingWorksOrIsAnError) {
  const Scratch scratch;
  Evaluation evaluation =
      evaluation_of(scratch.write("e.jsonnet", repeated("[", 10000) + repeated("]", 10000)));
  evaluation.time_max = Seconds(20);
  EXPECT_THAT(value_of(evaluation),
              AnyOf(StartsWith("[[[[["), HasSubstr("max stack frames"), HasSubstr("nested too deeply")));
}

TEST(Limit, ACrashByDeepNestingIsAnError) {
  const Scratch scratch;
  Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", repeated("[", 200000)));
  evaluation.memory_max = Bytes{80LL << 20};  // also limits the growth of the stack
  const Error error = refusal_of(evaluation);
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), evaluation.file);
  EXPECT_THAT(error.message(), AnyOf(HasSubstr("nested too deeply"), HasSubstr("80 MiB of memory")));
}

TEST(Limit, AMillionTermsWorkOrAreAnError) {
  const Scratch scratch;
  Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", repeated("1+", 999999) + "1"));
  evaluation.time_max = Seconds(10);
  EXPECT_THAT(value_of(evaluation), AnyOf(StartsWith("1000000"), HasSubstr("nested too deeply"),
                                          HasSubstr("of memory"), HasSubstr("limit of")));
}

// ---- Evaluators that give up

TEST(GivingUp, AnAbortIsReportedOnceAndNotAsLackOfMemory) {
  const Scratch scratch;
  if (evaluator().starts_with("rsjsonnet")) {  // rsjsonnet is not known to give up
    const Error error = refusal_of(evaluation_of(scratch.write("e.jsonnet", "std.parseJson('1e999')")));
    EXPECT_EQ(error.subject(), scratch.path("e.jsonnet") + ":1:1");
    EXPECT_THAT(error.message(), Not(HasSubstr("gave up")));
    return;
  }
  const Redirected errors(STDERR_FILENO, scratch.path("errors"), O_WRONLY | O_CREAT | O_TRUNC);
  const auto refusal = [&](const std::string& code) {
    return refusal_of(evaluation_of(scratch.write("e.jsonnet", code)));
  };
  constexpr const char* k_advice =
      "; check the arguments of std.parseJson and std.parseYaml, or use the released binary, which has "
      "another "
      "evaluator";
  const Error number = refusal("std.parseJson('1e999')");
  EXPECT_EQ(number.kind(), ErrorKind::invalid);
  EXPECT_EQ(number.subject(), scratch.path("e.jsonnet"));
  EXPECT_EQ(number.message(),
            evaluator() +
                " cannot evaluate the file: [json.exception.out_of_range.406] number overflow parsing "
                "'1e999'" +
                k_advice);
  EXPECT_EQ(refusal("std.parseYaml('a: &x 1\nb: *x\n')").message(),
            evaluator() + " cannot evaluate the file: no anchor processing for JSON" + k_advice);
  EXPECT_THAT(refusal("std.parseYaml('- a\nb: \x1B[1m')").message(),
              AllOf(HasSubstr(" cannot evaluate the file: ERROR parsing yml: parse error, line 2: 'b: [1m'"),
                    EndsWith(k_advice), Not(HasSubstr("\n"))));
  EXPECT_EQ(scratch.read("errors"), "");
}

TEST(GivingUp, AnAbortForLackOfMemoryIsReportedAsSuch) {
  const Scratch scratch;
  scratch.write("large.yml", repeated("- xxxxxxxx\n", 1000000));
  Evaluation evaluation =
      evaluation_of(scratch.write("e.jsonnet", "std.length(std.parseYaml(importstr 'large.yml'))"));
  const std::int64_t megabytes = evaluator().starts_with("rsjsonnet") ? 80 : 160;
  evaluation.memory_max = Bytes{megabytes << 20};
  EXPECT_THAT(value_of(evaluation),
              HasSubstr("needs more than " + std::to_string(megabytes) + " MiB of memory"));
}

TEST(Trace, ATraceIsShownOnceAndCompletely) {
  const Scratch scratch;
  const Redirected errors(STDERR_FILENO, scratch.path("errors"), O_WRONLY | O_CREAT | O_TRUNC);
  const std::string file = scratch.write(
      "e.jsonnet", "[std.trace('one\nmore', 1), std.trace('last\nof all', 2)] + [error 'no' for x in [1]]");
  EXPECT_THAT(refusal_of(evaluation_of(file)).message(), EndsWith("in [2]"));
  std::string shown = scratch.read("errors");
  for (std::size_t at = shown.find(file); at != std::string::npos; at = shown.find(file, at))
    shown.erase(at, shown.find(' ', at) - at);
  EXPECT_EQ(shown, "TRACE:  one\nmore\nTRACE:  last\nof all\n");
}

TEST(Trace, TracesOfAStoppedEvaluationAreShown) {
  const Scratch scratch;
  const Redirected errors(STDERR_FILENO, scratch.path("errors"), O_WRONLY | O_CREAT | O_TRUNC);
  Evaluation evaluation =
      evaluation_of(scratch.write("e.jsonnet", "std.trace('at\nfirst', 1) + " + std::string(k_endless)));
  // The first limit may pass before the evaluation begins.
  for (Seconds limit(0.5); scratch.read("errors").empty() && limit < Seconds(60); limit *= 4) {
    evaluation.time_max = limit;
    EXPECT_THAT(refusal_of(evaluation).message(), HasSubstr("limit of " + to_string(limit)));
  }
  EXPECT_THAT(scratch.read("errors"), AllOf(StartsWith("TRACE: "), EndsWith("at\nfirst\n")));
}

TEST(Trace, ALargeTraceIsShownCompletely) {
  const Scratch scratch;
  const Redirected errors(STDERR_FILENO, scratch.path("errors"), O_WRONLY | O_CREAT | O_TRUNC);
  EXPECT_EQ(
      value_of(evaluation_of(scratch.write(
          "e.jsonnet", "std.foldl(function(a, i) std.trace(std.repeat('x\n#', 30000), a), [1, 2, 3], 'v')"))),
      "\"v\"");
  const std::string shown = scratch.read("errors");
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '#'), 90000);
}

// Standard error is a pipe that no process reads, which acts like a stopped terminal.
TEST(Trace, AnUnreadTraceDoesNotDelayTheLimits) {
  const Scratch scratch;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  Evaluation evaluation = evaluation_of(scratch.write(
      "e.jsonnet",
      "std.foldl(function(a, i) std.trace(std.repeat('x', 1000), a) + i, std.range(1, 1000000), 0)"));
  evaluation.time_max = Seconds(2);
  const std::string message = refusal_of(evaluation).message();
  ::dup2(saved, STDERR_FILENO);
  for (const int end : {saved, ends[0], ends[1]}) ::close(end);
  EXPECT_THAT(message, HasSubstr("limit of 2.0 s"));
}

// ---- Signals

sigset_t only(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  return set;
}

TEST(Interrupt, ABlockedSignalEndsTheChildAndStaysPending) {
  const Scratch scratch;
  const Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", k_endless));
  const sigset_t held = only(SIGINT);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &held, nullptr), 0);
  try {
    // evaluate() calls this after one second, when the evaluation has surely begun. The signal reaches only
    // this process, as from kill(1).
    (void)evaluate(evaluation, [] { ::kill(::getpid(), SIGINT); });
    ADD_FAILURE() << "an endless evaluation ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
    EXPECT_EQ(error.subject(), evaluation.file);
  }
  // The signal is still pending for the caller.
  int taken = 0;
  ASSERT_EQ(::sigwait(&held, &taken), 0);
  EXPECT_EQ(taken, SIGINT);
  ASSERT_EQ(::pthread_sigmask(SIG_UNBLOCK, &held, nullptr), 0);
  EXPECT_FALSE(has_children());
}

// A terminal's Ctrl-C reaches the child too, even if the parent handles the signal.
TEST(Interrupt, ASignalToTheProcessGroupCancelsTheEvaluation) {
  const Scratch scratch;
  const Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", k_endless));
  const pid_t group = ::fork();
  if (group == 0) {
    ::setpgid(0, 0);
    ::signal(SIGINT, [](int) {});
    ErrorKind kind = ErrorKind::corrupt;
    try {
      (void)evaluate(evaluation, [] { ::kill(0, SIGINT); });
    } catch (const Error& error) {
      kind = error.kind();
    }
    ::_exit(kind == ErrorKind::cancelled && !has_children() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(group, &status, 0), group);
  EXPECT_EQ(status, 0);
}

TEST(Interrupt, KillingTheCallerEndsTheChild) {
  const Scratch scratch;
  const Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", k_endless));
  // The child inherits the writing end of the pipe and closes it only by ending.
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t caller = ::fork();
  if (caller == 0) {
    ::close(ends[0]);
    try {
      (void)evaluate(evaluation, [] { ::kill(::getpid(), SIGKILL); });
    } catch (const Error&) {
      ::_exit(1);
    }
    ::_exit(2);
  }
  ::close(ends[1]);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);
  ::close(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(caller, &status, 0), caller);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(Interrupt, OtherSignalsDoNotDisturb) {
  const Scratch scratch;
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};  // without SA_RESTART, each signal interrupts a blocking call
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  constexpr itimerval k_each_millisecond{{0, 1000}, {0, 1000}};
  constexpr itimerval k_never{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &k_each_millisecond, nullptr), 0);
  const std::string value = value_of(
      evaluation_of(scratch.write("e.jsonnet", "std.foldl(function(a, b) a + b, std.range(1, 20000), 0)")));
  ASSERT_EQ(::setitimer(ITIMER_REAL, &k_never, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
  EXPECT_EQ(value, "200010000");
}

}  // namespace
}  // namespace combu
