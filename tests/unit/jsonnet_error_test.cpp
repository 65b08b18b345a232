// The errors of files that cannot be evaluated. Both evaluators must give the same text.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "unit/jsonnet_scratch.hpp"

namespace combu {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

// Returns the error's text without the path of the scratch folder.
std::string shown(const Scratch& scratch, const Evaluation& evaluation) {
  std::string text = refusal_of(evaluation).what();
  const std::string folder = scratch.path("");
  for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder, at))
    text.erase(at, folder.size());
  return "\n" + text + "\n";
}

std::string shown(const std::string& code) {
  const Scratch scratch;
  return shown(scratch, evaluation_of(scratch.write("e.jsonnet", code)));
}

bool has_rsjsonnet() {
  return evaluator().starts_with("rsjsonnet ");
}

TEST(ShownError, AnErrorShowsItsLineItsCallersAndItsPlaceInTheResult) {
  EXPECT_EQ(shown(R"(local lr(i) =
  if i > 2 then error 'no more' else i;
local trial(i) = {
  name: 'a-' + i,
  command: ['train', '--lr=' + lr(i)],
};
{
  trials: [trial(i) for i in std.range(0, 5)],
}
)"),
            R"(
e.jsonnet:2:17: no more
      if i > 2 then error 'no more' else i;
                    ^
  from e.jsonnet:5:32: command: ['train', '--lr=' + lr(i)],
  in trials[3].command[1]
)");
}

TEST(ShownError, ASyntaxErrorShowsItsLine) {
  EXPECT_EQ(shown("[\n\t{ name: 'ä', cmd: 'b },\n]\n"), R"(
e.jsonnet:2:21: unterminated string
     { name: 'ä', cmd: 'b },
                       ^
)");
  EXPECT_EQ(shown("[1, 2 3]"), R"(
e.jsonnet:1:7: expected a comma before next array element.
    [1, 2 3]
          ^
)");
  EXPECT_EQ(shown("f(1 2)"), R"(
e.jsonnet:1:5: expected a comma before next function argument.
    f(1 2)
        ^
)");
  EXPECT_EQ(shown("{ a: 1,\n  a: 2 }"), R"(
e.jsonnet:2:3: duplicate field: a
      a: 2 }
      ^
)");
  EXPECT_EQ(shown("[1, 2"), R"(
e.jsonnet:1:6: unexpected end of file
    [1, 2
         ^
)");
}

TEST(ShownError, AnUnknownNameShowsItsLine) {
  EXPECT_EQ(shown("[\n  { name: nmae },\n]"), R"(
e.jsonnet:2:11: Unknown variable: nmae
      { name: nmae },
              ^
)");
}

TEST(ShownError, ANamedValueShowsWhereItIsUsed) {
  EXPECT_EQ(shown(R"({ trials: [
  { name: 'a', 'a b': y, local y = self.missing },
] }
)"),
            R"(
e.jsonnet:2:36: field does not exist: missing
      { name: 'a', 'a b': y, local y = self.missing },
                                       ^
  from e.jsonnet:2:23: { name: 'a', 'a b': y, local y = self.missing },
  in trials[0]["a b"]
)");
}

TEST(ShownError, AFailedAssertPointsToItsBeginning) {
  const std::string with_message = R"(
e.jsonnet:1:20: above 3, please
    local check(v) = { assert v > 3 : 'above 3, please', v: v };
                       ^
  in [1].b
)";
  EXPECT_EQ(
      shown("local check(v) = { assert v > 3 : 'above 3, please', v: v };\n[{ a: 1 }, { b: check(2) }]"),
      with_message);
  EXPECT_EQ(shown("[{\n  assert\n    self.a > 1,\n  a: 1 }]"), R"(
e.jsonnet:2:3: Assertion failed.
      assert
      ^
  in [0]
)");
  EXPECT_EQ(shown("local f(x) = assert x > 1 : 'small'; x;\n[f(0)]"), R"(
e.jsonnet:1:14: small
    local f(x) = assert x > 1 : 'small'; x;
                 ^
  from e.jsonnet:2:2: [f(0)]
  in [0]
)");
}

TEST(ShownError, AFailedAssertPointsToNoSimilarWord) {
  EXPECT_EQ(shown(R"({
  assert true,
  my_assert: { assert self.b, b: true },
  assert /* assert */ [2, self.a][1] == 1 : 'assert ' + (local x = 'asserted'; assert true; x),
  a: 2,
})"),
            R"(
e.jsonnet:4:3: assert asserted
      assert /* assert */ [2, self.a][1] == 1 : 'assert ' + (local x = 'asserted'; assert true; x),
      ^
)");
  EXPECT_EQ(shown("{ assert f(1) == 1, local f(x) = assert x > 0; -x, assertion: 'assert' }"), R"(
e.jsonnet:1:3: Assertion failed.
    { assert f(1) == 1, local f(x) = assert x > 0; -x, assertion: 'assert' }
      ^
)");
}

TEST(ShownError, AFailedAssertWithLocalsPointsToItsBeginning) {
  EXPECT_EQ(shown("{\n  local z = 1,\n  assert local x = z, y = 2; x == y : 'no ' + 'msg',\n}"), R"(
e.jsonnet:3:3: no msg
      assert local x = z, y = 2; x == y : 'no ' + 'msg',
      ^
)");
}

TEST(ShownError, ATypeErrorNamesTheTypes) {
  EXPECT_EQ(shown("[{ a: 1,\n  b: 'é' + {} - 2 }]"), R"(
e.jsonnet:2:6: binary operator - requires matching types, got string and number.
      b: 'é' + {} - 2 }]
         ^
  in [0].b
)");
  EXPECT_EQ(shown("{ 'x-y': [-'a'] }"), R"(
e.jsonnet:1:11: unary operator - does not operate on type string
    { 'x-y': [-'a'] }
              ^
  in ["x-y"][0]
)");
}

TEST(ShownError, CallersAreFoundThroughLibraryFunctions) {
  EXPECT_EQ(shown(R"(local x = 1 + { a: error 'boo' }.a;
local y = std.map(function(i) i + x, [1, 2]);
std.foldl(function(a, b) a + b, y, 0)
)"),
            R"(
e.jsonnet:1:20: boo
    local x = 1 + { a: error 'boo' }.a;
                       ^
  from e.jsonnet:2:35: local y = std.map(function(i) i + x, [1, 2]);
  from e.jsonnet:3:30: std.foldl(function(a, b) a + b, y, 0)
  from e.jsonnet:3:1: std.foldl(function(a, b) a + b, y, 0)
)");
}

TEST(ShownError, AnErrorInAnImportedFileShowsItsLineThere) {
  const Scratch scratch;
  scratch.write("lib/l.libsonnet", "local f(x) = x.a;\n{ f(x):: f(x) }\n");
  const auto of = [&](const std::string& code) {
    return shown(scratch, evaluation_of(scratch.write("e.jsonnet", code)));
  };
  EXPECT_EQ(of("local l = import 'lib/l.libsonnet';\n[{ name: 'a' }, { name: l.f({}) }]\n"), R"(
lib/l.libsonnet:1:14: field does not exist: a
    local f(x) = x.a;
                 ^
  from lib/l.libsonnet:2:10: { f(x):: f(x) }
  from e.jsonnet:2:25: [{ name: 'a' }, { name: l.f({}) }]
  in [1].name
)");
  scratch.write("bad.libsonnet", "{ a: 1\n  b: 2 }");
  EXPECT_EQ(of("[import 'bad.libsonnet']"), R"(
bad.libsonnet:2:3: expected a comma before next field.
      b: 2 }
      ^
)");
  EXPECT_EQ(of("[import 'no.libsonnet']"), R"(
e.jsonnet:1:2: couldn't open import "no.libsonnet": no such file in ; add folders with -J or JSONNET_PATH
    [import 'no.libsonnet']
     ^
  in [0]
)");
}

TEST(ShownError, AFileThatIsAFunctionShowsThePlaceInItsResult) {
  const Scratch scratch;
  Evaluation evaluation =
      evaluation_of(scratch.write("e.jsonnet", "function(n, more=[])\n  [1, { a: n / 0 }] + more\n"));
  evaluation.tla_code = {{"n", "4"}};
  EXPECT_EQ(shown(scratch, evaluation), R"(
e.jsonnet:2:12: division by zero.
      [1, { a: n / 0 }] + more
               ^
  in [1].a
)");
}

TEST(ShownError, AFunctionInTheResultIsLocated) {
  EXPECT_THAT(shown("[{ a: 1, f: function(x) x }]"),
              AllOf(HasSubstr("couldn't manifest function in JSON output."), EndsWith("\n  in [0].f\n")));
}

TEST(ShownError, ALongLineIsCut) {
  const std::string filler(500, 'x');
  const std::string text = shown("['" + filler + "', 'é', 1 / 0, '" + filler + "']");
  EXPECT_THAT(text,
              MatchesRegex(
                  "\ne.jsonnet:1:512: division by zero.\n    …x+', 'é', 1 / 0, 'x+…\n +\\^\n  in \\[2\\]\n"));
  // The caret must be below the 1.
  const auto begin_of = [&](char last) { return text.rfind('\n', text.find(last)); };
  const std::string line = text.substr(text.find("    …"), text.find("1 / 0") - text.find("    …"));
  const auto continued = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) == 0x80; });
  EXPECT_EQ(text.find('^') - begin_of('^') - 1, line.size() - static_cast<std::size_t>(continued));
  EXPECT_LT(text.size(), 400U);
}

TEST(ShownError, TheCaretIsCorrectAfterWideCharacters) {
  EXPECT_EQ(shown("{ a: '実験', b: 1 / 0 }"), R"(
e.jsonnet:1:19: division by zero.
    { a: '実験', b: 1 / 0 }
                    ^
  in b
)");
}

TEST(ShownError, AnErrorShowsAtMostEightCallers) {
  std::string code = "local f0(x) = error 'deep';\n";
  for (int i = 1; i <= 20; ++i)
    code += "local f" + std::to_string(i) + "(x) = 1 + f" + std::to_string(i - 1) + "(x);\n";
  const std::string text = shown(code + "[f20(1)]");
  EXPECT_THAT(text, HasSubstr("  from e.jsonnet:9:19: local f8(x) = 1 + f7(x);\n  from …\n  in [0]\n"));
  EXPECT_THAT(text, Not(HasSubstr("e.jsonnet:10:")));
}

TEST(ShownError, TheColumnIsCorrectAfterTheIdentifier) {
  EXPECT_EQ(shown("local u = 'UUID'; [u + nothing]"), R"(
e.jsonnet:1:24: Unknown variable: nothing
    local u = 'UUID'; [u + nothing]
                           ^
)");
}

// ---- Messages that look like the evaluator's own, and features that one evaluator lacks

TEST(ShownError, AMessageKeepsLinesThatBeginWithATab) {
  EXPECT_EQ(shown(R"(error "none of:\n\t- one\n\t- two")"), R"(
e.jsonnet:1:1: none of:
	- one
	- two
    error "none of:\n\t- one\n\t- two"
    ^
)");
}

// A message can look like a line of the stack.
TEST(ShownError, ALargeFileNamedInAMessageIsNotRead) {
  const Scratch scratch;
  scratch.write("large", std::string(std::size_t{5} << 20, 'x'));
  const std::string code = "error 'no\\n\\t" + scratch.path("large") + ":1:3\\tfunction <f>'";
  EXPECT_THAT(shown(scratch, evaluation_of(scratch.write("e.jsonnet", code))), Not(HasSubstr("xxx")));
}

TEST(ShownError, AMessageThatLooksLikeALongPathIsShortened) {
  const std::string text = shown(
      "error std.join('\\n', ['no'] + std.makeArray(200000, function(i) '\\tfield <aaaaaaaaaaaaaaaaaaaa>'))");
  EXPECT_THAT(text, HasSubstr("e.jsonnet:1:1: no"));
  EXPECT_LT(text.size(), 1000U);
}

TEST(ShownError, AMessageThatLooksLikeASyntaxErrorShowsItsLine) {
  EXPECT_THAT(shown("error 'STATIC ERROR: no'"), HasSubstr("e.jsonnet:1:1: STATIC ERROR: no"));
}

TEST(ShownError, AMessageIsShownAtLeastUpToItsNulByte) {
  const std::string text = shown(R"([{ name: error "no\u0000more" }])");
  if (has_rsjsonnet()) {
    EXPECT_THAT(text, AllOf(HasSubstr(R"(e.jsonnet:1:10: no\u0000more)"), EndsWith("\n  in [0].name\n")));
    return;
  }
  EXPECT_EQ(text, R"(
e.jsonnet: no… (the message contains a NUL byte; libjsonnet reports neither the rest nor the line)
  in [0].name
)");
}

TEST(ShownError, AWordInACommentIsNotUnsupportedSyntax) {
  EXPECT_THAT(shown("// as importbin\n'a' - 1"), Not(HasSubstr("this build's evaluator")));
}

TEST(UnsupportedFunction, TheErrorNamesTheBuildThatHasIt) {
  const std::string code = "[{\n  name: std.trim(' a '),\n}]";
  if (has_rsjsonnet()) {
    EXPECT_EQ(value_of(code), R"([{"name":"a"}])");
    EXPECT_EQ(
        value_of(
            "[std.sum([1, 2]), std.avg([1, 3]), std.maxArray([1, 3]), std.all([true]), std['round'](1.6)]"),
        "[3,2,3,true,2]");
    return;
  }
  EXPECT_EQ(shown(code), "\ne.jsonnet:2:9: std.trim is not supported by this build's evaluator, " +
                             evaluator() +
                             "; use the released binary, or a build with -DCOMBU_JSONNET=rsjsonnet\n"
                             "      name: std.trim(' a '),\n"
                             "            ^\n"
                             "  in [0].name\n");
  EXPECT_THAT(shown("std['round'](1.6)"),
              HasSubstr("e.jsonnet:1:1: std.round is not supported by this build's evaluator"));
}

TEST(UnsupportedFunction, ItIsRecognisedUnderALocalNameOfStd) {
  const std::string code = "local a = 1, s = std; [s.trim(' a '), s['trim']('b')]";
  if (has_rsjsonnet()) {
    EXPECT_EQ(value_of(code), R"(["a","b"])");
    return;
  }
  EXPECT_THAT(shown(code), HasSubstr("e.jsonnet:1:24: std.trim is not supported by this build's evaluator"));
  EXPECT_THAT(shown("local s = std; [s['trim']('b')]"),
              HasSubstr("e.jsonnet:1:17: std.trim is not supported by this build's evaluator"));
  EXPECT_THAT(shown("local s = { std: std }; [s.trim(' a ')]"),
              HasSubstr("e.jsonnet:1:26: field does not exist: trim\n"));
}

TEST(UnsupportedFunction, FieldsOfOtherObjectsAreNotConfusedWithIt) {
  EXPECT_THAT(shown("local o = {}; [o.trim]"), HasSubstr("e.jsonnet:1:16: field does not exist: trim\n"));
  EXPECT_THAT(shown("[std.tirm(' a')]"), HasSubstr("e.jsonnet:1:2: field does not exist: tirm\n"));
}

TEST(UnsupportedFunction, AnImportedFileMayCallIt) {
  const Scratch scratch;
  scratch.write("l.libsonnet", "{ f(x)::\n    std.sum(x) }");
  const Evaluation evaluation =
      evaluation_of(scratch.write("e.jsonnet", "[(import 'l.libsonnet').f([1, 2])]"));
  if (has_rsjsonnet()) {
    EXPECT_EQ(value_of(evaluation), "[3]");
    return;
  }
  EXPECT_THAT(shown(scratch, evaluation),
              HasSubstr("\nl.libsonnet:2:5: std.sum is not supported by this build's evaluator, "));
}

TEST(UnsupportedSyntax, TheErrorNamesTheBuildThatHasIt) {
  const Scratch scratch;
  scratch.write("bytes", std::string("\0\xff", 2));
  const auto of = [&](const std::string& code) {
    return value_of(evaluation_of(scratch.write("e.jsonnet", code)));
  };
  const std::string bytes = of("[1,\n importbin 'bytes']");
  const std::string number = of("[1_000, 2]");
  const std::string block = of("|||-\n  a\n|||");
  if (has_rsjsonnet()) {
    EXPECT_EQ(bytes, "[1,[0,255]]");
    EXPECT_EQ(number, "[1000,2]");
    EXPECT_EQ(block, R"("a")");
    return;
  }
  EXPECT_THAT(bytes, HasSubstr("e.jsonnet:2:12: importbin is not supported by this build's evaluator, " +
                               evaluator()));
  EXPECT_THAT(
      number,
      HasSubstr("e.jsonnet:1:3: a number with _ between its digits, such as 1_000, is not supported by "));
  EXPECT_THAT(block, HasSubstr("e.jsonnet:1:1: |||- is not supported by this build's evaluator, "));
}

TEST(Evaluator, IsNamedWithItsVersion) {
  EXPECT_THAT(evaluator(), MatchesRegex("(libjsonnet|rsjsonnet) [0-9]+\\.[0-9]+\\.[0-9]+.*"));
}

}  // namespace
}  // namespace combu
