// The text of values. Both evaluators must give the same text.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jsonnet/format.hpp"
#include "jsonnet/number.hpp"
#include "unit/jsonnet_scratch.hpp"

namespace combu {
namespace {

struct Case {
  std::string code;
  std::string expected;
};

// Checks all cases in one evaluation.
void expect_all(const std::vector<Case>& cases) {
  std::string code = "[\n";
  for (const Case& one : cases) code += one.code + ",\n";
  const Scratch scratch;
  const auto texts =
      nlohmann::json::parse(evaluate(evaluation_of(scratch.write("e.jsonnet", code + "]"))).json);
  ASSERT_EQ(texts.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(texts[i], cases[i].expected) << cases[i].code;
}

std::string by_c(const std::string& directive, double value) {
  std::array<char, 2048> text{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg,cert-err33-c)
  std::snprintf(text.data(), text.size(), directive.c_str(), value);
  return text.data();
}

std::string by_c(std::string directive, long long value) {
  std::array<char, 2048> text{};
  directive.insert(directive.size() - 1, "ll");
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg,cert-err33-c)
  std::snprintf(text.data(), text.size(), directive.c_str(), value);
  return text.data();
}

// Returns enough digits for any double, in a form that Jsonnet's parsers read.
std::string code_of(double value) {
  return fmt::format("{:.17g}", value);
}

TEST(NumberTest, ANumberHasTheFewestDigitsThatIdentifyIt) {
  const std::vector<std::pair<double, std::string>> numbers{
      {0, "0"},
      {-0.0, "-0"},
      {0.1, "0.1"},
      {-0.1, "-0.1"},
      {1.0 / 3, "0.3333333333333333"},
      {1e-5, "0.00001"},
      {1.5e-7, "0.00000015"},
      {100, "100"},
      {123.25, "123.25"},
      {1e15, "1000000000000000"},
      {1e16, "10000000000000000"},
      {1e17, "100000000000000000"},
      {123456789012345678, "123456789012345680"},
      {1e21, "1" + std::string(21, '0')},
      {1e22, "1" + std::string(22, '0')},
      {1e23, "1" + std::string(23, '0')},
      {1e300, "1" + std::string(300, '0')},
      {-1e300, "-1" + std::string(300, '0')},
      {9007199254740991, "9007199254740991"},
      {716777726421152.25, "716777726421152.3"},
      {-716777726421152.75, "-716777726421152.8"},
      {70368744177664.125, "70368744177664.13"},
      {70368744177664.375, "70368744177664.38"},
      {std::numeric_limits<double>::max(), "17976931348623157" + std::string(292, '0')},
      {std::numeric_limits<double>::denorm_min(), "0." + std::string(323, '0') + "5"}};
  std::vector<Case> cases;
  for (const auto& [number, text] : numbers) {
    const std::string code = number == 0 && std::signbit(number) ? "-0" : code_of(number);
    EXPECT_EQ(text_of_number(number), text);
    for (const std::string form :
         {"'' + {}", "{} + ''", "std.toString({})", "'%s' % {}", "std.manifestJsonEx({}, '')",
          "std.manifestYamlDoc({})", "std.manifestPython({})"}) {
      cases.push_back({std::string(form).replace(form.find("{}"), 2, "(" + code + ")"), text});
    }
    cases.push_back({"std.toString([" + code + "])", "[" + text + "]"});
    cases.push_back({"'%s' % [{ a: [" + code + "] }]", "{\"a\": [" + text + "]}"});
  }
  expect_all(cases);
}

TEST(NumberTest, NumbersInTheResultHaveTheSameText) {
  EXPECT_EQ(value_of("[0.1, -0, 1e17, 1e22, 1.5e-7, 1e5, 2.50]"),
            "[0.1,-0,100000000000000000,10000000000000000000000,0.00000015,100000,2.5]");
}

// The hash is the same with both evaluators. The values cover quotes and escapes in all forms of the library.
TEST(TextTest, BothEvaluatorsGiveTheSameTextOfOtherValues) {
  EXPECT_EQ(value_of(R"(
local all = [std.char(i) for i in std.range(1, 300)] + [std.char(i) for i in [8232, 8233, 65279, 65535, 128512]];
local values = [all] + [
  [std.toString([c]), std.escapeStringJson(c), std.manifestJsonEx({ ['k' + c]: c, b: [], c: {}, d: [{}], e: null, f: true }, '  '),
   std.manifestPython([c, true, null, 0.1]), std.escapeStringBash(c), std.manifestYamlDoc([c, 'a\nb', { x: 1, y: [1, [2]] }, {}, []])]
  for c in all
] + [
  std.manifestPythonVars({ x: 0.1, y: [1e20] }),
  std.manifestIni({ main: { a: 0.1, b: [1, 2.5] }, sections: { s: { x: 1e17 } } }),
  std.manifestXmlJsonml(['a', { b: 0.1 }, 'x', ['c']]),
  std.manifestYamlStream([0.1, { a: 1e20 }]),
  std.join(',', ['' + x for x in [1, 0.5]]),
  std.toString({ a: [], b: {}, c: 'x' }),
  std.parseJson('[0.1, 1e21]'),
];
std.md5(std.toString(values)))"),
            R"("8da113e11ea501af21bfd4c7ace1d4ce")");
}

TEST(NumberTest, TheTextParsesToTheSameNumber) {
  std::mt19937_64 random(6);  // NOLINT(cert-msc32-c,cert-msc51-cpp): fixed seed
  for (int i = 0; i < 100'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const std::string text = text_of_number(value);
    double again = 0;
    std::from_chars(text.data(), text.data() + text.size(), again);
    ASSERT_EQ(again, value);
  }
}

// Returns a case for each combination, with the text that C's printf gives.
template <typename Value>
std::vector<Case> cases_by_c(const std::vector<std::string>& flags, const std::vector<std::string>& sizes,
                             const std::string& conversions, const std::vector<Value>& values) {
  std::vector<Case> cases;
  for (const std::string& flag : flags) {
    for (const std::string& size : sizes) {
      for (const char conversion : conversions) {
        const std::string directive = fmt::format("%{}{}{}", flag, size, conversion);
        for (const Value value : values) {
          cases.push_back({fmt::format("'{}|' % {}", directive, code_of(static_cast<double>(value))),
                           by_c(directive, value) + "|"});
        }
      }
    }
  }
  return cases;
}

// Numbers of any size, and numbers to which two shortest texts are equally near.
TEST(NumberTest, BothEvaluatorsGiveTheSameText) {
  std::mt19937_64 random(7);  // NOLINT(cert-msc32-c,cert-msc51-cpp): fixed seed
  std::vector<Case> cases;
  for (int i = 0; i < 5000; ++i) {
    const double halves = std::ldexp(static_cast<double>(random() >> 11U), -static_cast<int>(random() % 12));
    const double any = std::abs(std::bit_cast<double>(random()));
    for (const double number : {halves, any})
      if (std::isfinite(number)) cases.push_back({"'' + " + code_of(number), text_of_number(number)});
  }
  expect_all(cases);
}

TEST(FormatTest, FractionsAreFormattedAsByPrintf) {
  expect_all(cases_by_c<double>(
      {"", "-", "0", "+", " ", "+0", " 0", "-+", "-0"}, {"", ".0", ".1", "12", "8.3", "20.15"}, "fFeE",
      {0,      1,         -1,     0.5,      1.5,    2.5,      -2.5,       0.25,
       0.35,   0.125,     0.375,  1e5,      999999, 999999.5, 1e6,        1e7,
       1e10,   1e15,      1e16,   1e17,     1e22,   1e23,     1e100,      1e300,
       1e-5,   1e-6,      1e-100, 5e-324,   0.1,    1.0 / 3,  123456.789, 0.0001234,
       99.995, 9.9999995, -0.01,  0.049999, 1.005,  1e21,     2e-15,      4503599627370497.5}));
}

// Only cases in which a 0 before the point costs no digit and rounding does not lengthen the number.
TEST(FormatTest, SignificantDigitsAreFormattedAsByPrintf) {
  expect_all(cases_by_c<double>(
      {"", "+", "-"}, {"", ".3", ".10", "14", "14.7"}, "gG",
      {0, 1, 0.5, 0.25, 100, 1e5, 1e6, 123456, 1234567, 1e-5, 1.5e-7, 1e300, -3.25, -1e-300, 31.25}));
}

TEST(FormatTest, IntegersAreFormattedAsByPrintf) {
  const std::vector<long long> numbers{0, 1, 7, 8, 9, 255, 1000000, 4294967296, 9007199254740991};
  expect_all(cases_by_c<long long>({"", "-", "0", "-0"}, {"", "12"}, "diuoxX", numbers));
  expect_all(cases_by_c<long long>({"", "-"}, {".5", "12.5", ".20"}, "diuoxX", numbers));
  expect_all(cases_by_c<long long>({"+", " ", "+0", " 0", "-+"}, {"", "12"}, "di",
                                   {0, 1, -1, 42, -42, 9007199254740991, -9007199254740991}));
  expect_all(cases_by_c<long long>({"#", "#-", "#0"}, {"", "12"}, "oxX", {1, 8, 255, 9007199254740991}));
}

TEST(FormatTest, DifferencesFromPrintfFollowJsonnet) {
  expect_all({
      // Strings.
      {"'%s' % 'a'", "a"},
      {"'%s-%s' % ['a', 'b']", "a-b"},
      {"'%.1s' % 'abc'", "abc"},
      {"'%5s|%-5s|%05s|' % ['ab', 'ab', 'ab']", "   ab|ab   |   ab|"},
      {"'%5s|%-5s|%5s|' % ['\u00e4\u00f6', '\u20ac', '\U0001F600']",
       "   \u00e4\u00f6|\u20ac    |    \U0001F600|"},
      {"'%c%c%c' % ['x', 8364, 128512]", "x\u20ac\U0001F600"},
      {"'%3c|%-3c|' % ['x', 65.9]", "  x|A  |"},
      {"'%s %s %s' % [null, true, false]", "null true false"},
      {"'%s' % [[1, 'a', null, [], {}]]", "[1, \"a\", null, [ ], { }]"},
      {"'%s' % [{ b: 0.1, a: [1.5], h:: 1 }]", R"({"a": [1.5], "b": 0.1})"},
      {"'%10s|' % [[1]]", "       [1]|"},
      {R"('%s' % ["\"\\\n\u0001\t/\u007f\u2028"])", "\"\\\n\u0001\t/\u007f\u2028"},
      {R"('%s' % [["\"\\\n\u0001\t/\u2028"]])", "[\"\\\"\\\\\\n\\u0001\\t/\u2028\"]"},
      {R"("a\u0000%s" % "b\u0000")", std::string("a\0b\0", 4)},
      {R"('%s' % "[1, ]]{}\"")", "[1, ]]{}\""},
      // The format string itself.
      {"'' % []", ""},
      {"'%%' % []", "%"},
      {"'100%% %s' % 'a'", "100% a"},
      {"'%5%|%-5%|' % []", "    %|%    |"},
      {"'%ld %hd %Lf' % [1, 2, 3]", "1 2 3.000000"},
      {"'%*d|%-*d|%.*f|%*.*e' % [5, 1, 3, 2, 1, 0.25, 10, 1, 12345]", "    1|2  |0.2|   1.2e+04"},
      // Named fields.
      {"'%(a)s %(b)05.1f %(a)s' % { a: 'x', b: 2.25, c: error 'not asked for' }", "x 002.2 x"},
      {"'%(h)s%%' % { h:: 'hidden' }", "hidden%"},
      {"'%(two words)s' % { 'two words': 2 }", "2"},
      {"local o = { a: 1, b: $.a + 1 }; '%(b)d' % (o { a: 2 })", "3"},
      {"'%(a)s %(b)s' % [1, 2]", "1 2"},
      // Integers are cut towards 0. Octal and hexadecimal numbers have a sign instead of two's complement.
      {"'%d %d %d %d' % [3.99, -3.99, -0.5, -0]", "3 -3 0 0"},
      {"'%x %o %X' % [-255, -8, -0.1]", "-ff -10 0"},
      {"'%+x % x %+o' % [255, 255, 8]", "+ff  ff +10"},
      {"'%#x %#o %#X' % [0, 0, 0]", "0x0 0 0X0"},
      {"'%#010x|%#8x|%-#8x|' % [255, 255, 255]", "0x000000ff|    0xff|0xff    |"},
      {"'%08.5d' % 42", "00000042"},
      {"'%d' % 1e23", "1" + std::string(23, '0')},
      {"'%x' % 1e23", "152d02c7e14af6000000"},
      {"'%d' % 1152921504606846976", "1152921504606847000"},
      {"'%.0f' % 1152921504606846976", "1152921504606846976"},
      {"'%.1f %e' % [-0, -0]", "0.0 0.000000e+00"},
      {"'%#.0f %#.0e %#g' % [3, 3, 3]", "3. 3.e+00 3.00000"},
      // A 0 before the point counts as a digit. The exponent is that of the number before rounding.
      {"'%g %g %g' % [0.00012345, 0.0123456789, 0.1]", "0.00012 0.01235 0.1"},
      {"'%.3g %.0g %.1g' % [0.5555, 0.5, 25]", "0.56 0 2e+01"},
      {"'%g %.2g' % [999999.5, 99.9]", "1000000 100"},
  });
}

TEST(FormatTest, StdFormatAndStdModDoTheSame) {
  expect_all({
      {"std.format('%d-%s', [1, 'a'])", "1-a"},
      {"std.format(vals={ a: 0.25 }, str='%(a).1f')", "0.2"},
      {"std.mod('%.1f', 0.25)", "0.2"},
      {"'' + 7 % 4 + -7 % 4 + 7.5 % 2 + std.mod(7, 4)", "3-31.53"},
  });
}

// Numbers of any size, and numbers halfway between two texts.
TEST(FormatTest, BothEvaluatorsGiveTheSameText) {
  std::mt19937_64 random(6);  // NOLINT(cert-msc32-c,cert-msc51-cpp): fixed seed
  const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  std::vector<Case> cases;
  for (int i = 0; i < 4000; ++i) {
    double number = 0;
    switch (below(5)) {
      case 0:
        number = std::bit_cast<double>(random());
        break;
      case 1:
        number = static_cast<double>(below(2'000'000)) / 64 - 9999;
        break;
      case 2:
        number = static_cast<double>(below(10'000)) * std::pow(10, below(40)) / 1e20;
        break;
      case 3:
        number = std::ldexp(static_cast<double>(random() % (1ULL << 53U)), -static_cast<int>(below(12)));
        break;
      default:
        number = std::pow(10, below(30)) / 1e10 - (below(2) == 0 ? 0 : 1e-10);
        break;
    }
    if (!std::isfinite(number)) continue;
    std::string directive = "%";
    for (const char flag : std::string("#0- +"))
      if (below(3) == 0) directive += flag;
    if (below(2) == 0) directive += std::to_string(1 + below(30));
    if (below(2) == 0) directive += "." + std::to_string(below(20));
    directive += std::string("diuoxXeEfFgGs")[below(13)];
    const std::string value = code_of(number);
    cases.push_back({fmt::format("'{}' % {}", directive, value),
                     format(fmt::format("[\"{}\", [{}]]", directive,
                                        directive.back() == 's' ? text_of_number(number) : value))});
  }
  expect_all(cases);
}

// A file can pass any text through std.native.
TEST(FormatTest, TextThatIsNotJsonDoesNotCrash) {
  std::mt19937_64 random(6);  // NOLINT(cert-msc32-c,cert-msc51-cpp): fixed seed
  constexpr std::string_view k_letters = R"([]{},"\u%d*.(a)s10 -e)";
  std::size_t refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string call = random() % 4 == 0 ? "" : R"(["%d %s", [)";
    for (auto length = random() % 20; length > 0; --length) call += k_letters[random() % k_letters.size()];
    try {
      (void)format(call);
      (void)format_fields(call);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid);
      ++refused;
    }
  }
  EXPECT_GT(refused, 50'000U);
  EXPECT_LT(refused, 100'000U);
}

TEST(FormatTest, InfiniteNumbersAreRefused) {
  for (const char* call : {R"(["%x", [inf]])", R"(["%f", [-inf]])"})
    EXPECT_THROW((void)format(call), Error) << call;
}

TEST(FormatTest, ErrorsPointToTheLine) {
  const Scratch scratch;
  const std::vector<Case> cases{
      {"'%d' % 'x'", "'i' / 'd' formatting requires a number, got string"},
      {"'%d' % true", "'i' / 'd' formatting requires a number, got boolean"},
      {"'%f' % null", "'f' / 'F' formatting requires a number, got null"},
      {"'%g' % [[]]", "'g' / 'G' formatting requires a number, got array"},
      {"'%c' % 'ab'", "'c' formatting requires a string of length 1, got 2"},
      {"'%c' % 55296", "55296 is not a valid unicode codepoint"},
      {"'%c' % -1", "-1 is not a valid unicode codepoint"},
      {"'%d %d' % [1]", "not enough array items for format, got 1"},
      {"'%d' % [1, 2]", "too many array items for format: expected 1, got 2"},
      {"'a' % 1", "too many array items for format: expected 0, got 1"},
      {"'%*d' % ['a', 1]", "format field width must be a number, got string"},
      {"'%*d' % [-1, 1]", "invalid format field width value: -1"},
      {"'%.*f' % [{}, 1]", "format precision must be a number, got object"},
      {"'%.70000f' % 1", "format precision is too large"},
      {"'%5000000000d' % 1", "format field width is too large"},
      {"'%.f' % 1", "missing format precision digits"},
      {"'%' % 1", "truncated format code"},
      {"'%(a' % { a: 1 }", "truncated format code"},
      {"'%y' % 1", "invalid format conversion code 'y'"},
      {"'%\u20ac' % 1", "invalid format conversion code '\u20ac'"},
      {"'%s' % { a: 1 }", "mapping keys are required with object formatting"},
      {"'%(a)*d' % { a: 1 }", "'*' field width cannot be used with object formatting"},
      {"'%(b)s' % { a: 1 }", "missing field \"b\" in object formatting"},
      {"{} % 'x'", "binary operator % requires matching types, got object and string."},
      {"1 % 0", "division by zero."},
  };
  for (const Case& one : cases) {
    const Evaluation evaluation = evaluation_of(scratch.write("e.jsonnet", "[1,\n {a: " + one.code + "}]"));
    const Error error = refusal_of(evaluation);
    EXPECT_EQ(error.subject(), evaluation.file + ":2:6") << one.code;
    EXPECT_EQ(std::string(error.message()).substr(0, one.expected.size()), one.expected) << one.code;
  }
}

TEST(FormatTest, ImportedFilesUseItAndImportedTextsStayUnchanged) {
  const Scratch scratch;
  const std::string text = "{\n  mod(a, b):: '%.1f' % 0.25,\n  format(str, vals)::\n    1,\n\n  last: 1 }";
  scratch.write("std.jsonnet", text);
  scratch.write("lib.libsonnet", "{ name(x):: '%.1f' % x }");
  const Evaluation evaluation = evaluation_of(scratch.write(
      "e.jsonnet",
      "[(import 'lib.libsonnet').name(0.25), importstr 'std.jsonnet', importstr 'lib.libsonnet']"));
  const auto values = nlohmann::json::parse(evaluate(evaluation).json);
  EXPECT_EQ(values[0], "0.2");
  EXPECT_EQ(values[1], text);
  EXPECT_EQ(values[2], "{ name(x):: '%.1f' % x }");
}

TEST(FormatTest, AFileMayRedefineStd) {
  EXPECT_EQ(value_of("local std = std_ + {}, std_ = { mod(a, b):: a }; 1"), "1");
  EXPECT_EQ(value_of("local f(std) = std + 1; [f(1), '%.1f' % 0.25]"), "[2,\"0.2\"]");
  EXPECT_EQ(value_of("local own = std + { twice(x):: x + x }; [own.twice(2), own.format('%.1f', 0.25)]"),
            "[4,\"0.2\"]");
  EXPECT_EQ(value_of("local s = std; local std = s + { twice(x):: x + x }; [std.twice(2), '%.1f' % 0.25]"),
            "[4,\"0.2\"]");
}

TEST(FormatTest, FormattingIsFast) {
  const Scratch scratch;
  Evaluation evaluation = evaluation_of(scratch.write(
      "e.jsonnet",
      "std.makeArray(10000, function(i) { name: 'a-%s-%d' % ['a', i], cmd: 'c %d %s' % [i, 'b'] })"));
  evaluation.time_max = Seconds(30);  // libjsonnet's own std.format needs 150 s
  EXPECT_EQ(nlohmann::json::parse(evaluate(evaluation).json).at(9999).at("name"), "a-a-9999");
}

}  // namespace
}  // namespace combu
