// The embedded combu.libsonnet, used as an experiment file uses it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "unit/jsonnet_scratch.hpp"

namespace combu {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string value_with(const std::string& code) {
  return value_of("local combu = import 'combu.libsonnet';\n" + code);
}

TEST(Grid, TheLastFieldVariesFastest) {
  EXPECT_EQ(
      value_with("combu.grid({ b: ['x', 'y'], a: [1, 2, 3] })"),
      R"([{"a":1,"b":"x"},{"a":1,"b":"y"},{"a":2,"b":"x"},{"a":2,"b":"y"},{"a":3,"b":"x"},{"a":3,"b":"y"}])");
  EXPECT_EQ(value_with("combu.grid({ a: [{ deep: [1] }, null] })"), R"([{"a":{"deep":[1]}},{"a":null}])");
  EXPECT_EQ(value_with("combu.grid({})"), "[{}]");
  EXPECT_EQ(value_with("combu.grid({ a: [1, 2], b: [] })"), "[]");
}

TEST(Grid, HasEachPointOnce) {
  EXPECT_EQ(value_with("local g = combu.grid({ a: [0, 1, 2], b: [0, 1], c: [0, 1, 2, 3, 4] });\n"
                       "[p.a * 10 + p.b * 5 + p.c for p in g] == std.range(0, 29)"),
            "true");
}

TEST(Sample, ASeedAlwaysGivesTheSameSample) {
  EXPECT_EQ(value_with("combu.sample(3, { opt: ['sgd', 'adam'], layers: { min: 1, max: 8, int: true },\n"
                       "  p: { min: 0, max: 0.5 } }, 1) == [\n"
                       "  { layers: 1, opt: 'adam', p: 0.39340771175920963 },\n"
                       "  { layers: 6, opt: 'adam', p: 0.30669918772764504 },\n"
                       "  { layers: 5, opt: 'adam', p: 0.12714043480809778 }]"),
            "true");
  EXPECT_EQ(value_with("[p.lr for p in combu.sample(4, { lr: { min: 1e-5, max: 0.1, log: true } }, 'night')] "
                       "== [0.00534196, 0.00324517, 0.00082366, 0.00377931]"),
            "true");
}

TEST(Sample, ValuesOfAFieldDependOnNoOtherField) {
  EXPECT_EQ(value_with("local a = { min: 0, max: 1 };\n"
                       "local alone = [p.a for p in combu.sample(20, { a: a }, 7)];\n"
                       "local more = [p.a for p in combu.sample(30, { a: a, b: a, '0': [1, 2] }, 7)];\n"
                       "alone == more[0:20]"),
            "true");
  EXPECT_EQ(value_with("local s = combu.sample(20, { a: { min: 0, max: 1 }, b: { min: 0, max: 1 } }, 7);\n"
                       "[p.a for p in s] == [p.b for p in s]"),
            "false");
}

TEST(Sample, StaysWithinItsBoundsAndReachesThem) {
  EXPECT_EQ(
      value_with("local s = combu.sample(300, { i: { min: -2, max: 2, int: true }, u: { min: 3, max: 4 },\n"
                 "  l: { min: 0.001, max: 10, log: true }, n: { min: 1, max: 100, log: true, int: true },\n"
                 "  one: { min: 5, max: 5 } }, 3);\n"
                 "local below(f, x) = std.length([0 for p in s if p[f] < x]);\n"
                 "[std.set([p.i for p in s]),\n"
                 " [0 for p in s if p.u < 3 || p.u >= 4 || p.l < 0.001 || p.l > 10 || p.n < 1 || p.n > 100 "
                 "|| p.one != 5],\n"
                 " std.abs(below('u', 3.5) - 150) < 45,\n"
                 " std.abs(below('l', 0.1) - 150) < 45,\n"
                 " std.abs(below('n', 10) - 150) < 45]"),
      "[[-2,-1,0,1,2],[],true,true,true]");
}

TEST(Sample, HasSixDigitsOnALogarithmicScale) {
  EXPECT_EQ(value_with("[std.abs(p.x * 1e11 - std.floor(p.x * 1e11 + 0.5)) < 1e-6\n"
                       " for p in combu.sample(3, { x: { min: 1e-6, max: 9e-6, log: true } }, 1)]"),
            "[true,true,true]");
  EXPECT_EQ(value_with("combu.sample(2, { x: { min: 1e-320, max: 1e-319, log: true } }, 1)[0].x < 1e-318"),
            "true");
  EXPECT_EQ(value_with("combu.sample(2, { x: { min: 1e300, max: 1e308, log: true } }, 1)[0].x >= 1e300"),
            "true");
}

TEST(Shuffle, IsAPermutationFixedByItsSeed) {
  EXPECT_EQ(value_with("combu.shuffle(std.range(0, 9), 0)"), "[4,9,5,0,3,8,7,2,6,1]");
  EXPECT_EQ(value_with("combu.shuffle(std.range(0, 9), 1)"), "[7,1,2,0,3,6,4,9,8,5]");
  EXPECT_EQ(value_with("combu.shuffle(std.range(0, 9), '2')"), "[4,7,3,9,1,8,2,0,5,6]");
  EXPECT_EQ(value_with("combu.shuffle(std.range(0, 9), 'a')"), "[8,7,6,5,0,2,4,3,9,1]");
  EXPECT_EQ(value_with("local s = combu.shuffle(std.range(1, 500), -3); [std.sort(s) == std.range(1, 500), s "
                       "== std.range(1, 500)]"),
            "[true,false]");
  EXPECT_EQ(value_with("[combu.shuffle([], 1), combu.shuffle([{ a: 1 }, { a: 1 }], 1)]"),
            R"([[],[{"a":1},{"a":1}]])");
}

TEST(Shuffle, EachPositionIsEquallyLikely) {
  // With 600 seeds, each of the three values should come first about 200 times. A difference of 60 is more
  // than 5 standard deviations.
  EXPECT_EQ(value_with("local firsts = [combu.shuffle([0, 1, 2], seed)[0] for seed in std.range(1, 600)];\n"
                       "[std.abs(std.count(firsts, v) - 200) < 60 for v in [0, 1, 2]]"),
            "[true,true,true]");
}

TEST(Chunk, CoversTheListInOrderAndEvenly) {
  EXPECT_EQ(value_with("combu.chunk(std.range(0, 9), 3)"), "[[0,1,2,3],[4,5,6],[7,8,9]]");
  EXPECT_EQ(value_with("combu.chunk(['a'], 3)"), R"([["a"],[],[]])");
  EXPECT_EQ(
      value_with("[local parts = combu.chunk(std.range(1, n), k);\n"
                 " [std.length(parts) == k, std.flattenArrays(parts) == std.range(1, n)]\n"
                 " for n in [0, 1, 17, 64] for k in [1, 7, 64]] == [[true, true] for i in std.range(1, 12)]"),
      "true");
}

TEST(Folds, LeaveEachPartOutOnce) {
  EXPECT_EQ(
      value_with("combu.folds(3)"),
      R"([{"fold":0,"test":0,"train":[1,2]},{"fold":1,"test":1,"train":[0,2]},{"fold":2,"test":2,"train":[0,1]}])");
}

TEST(Library, TenThousandValuesNeedNoDeepStack) {
  EXPECT_EQ(value_with("std.length(combu.grid({ a: std.range(1, 100), b: std.range(1, 100) }))"), "10000");
  EXPECT_EQ(value_with("local s = combu.shuffle(std.range(1, 10000), 1);\n"
                       "std.foldl(function(sum, value) sum + value, s, 0)"),
            "50005000");
  EXPECT_EQ(value_with("local s = combu.sample(10000, { a: { min: 5, max: 6 } }, 1);\n"
                       "std.foldl(function(low, point) std.min(low, point.a), s, 9) < 5.01"),
            "true");
  EXPECT_EQ(value_with("std.length(combu.chunk(std.range(1, 10000), 5000)[4999])"), "2");
}

TEST(Library, WrongArgumentsAreErrorsAtTheCallersLine) {
  const auto refused = [](const std::string& call, const std::string& why) {
    EXPECT_THAT(value_with("\n[" + call + "]"), AllOf(HasSubstr("e.jsonnet:3:2: combu."), HasSubstr(why)))
        << call;
  };
  refused("combu.grid([1])", "grid: needs an object of arrays, not an array");
  refused("combu.grid({ a: 1 })", "grid: a must be an array, not 1");
  refused("combu.grid({ a: std.range(1, 2000), b: std.range(1, 2000) })",
          "grid: has 4000000 points, but must have at most 1000000");
  refused("combu.sample(-1, {}, 1)", "sample: n must be a whole number from 0 to 1000000, not -1");
  refused("combu.sample('3', {}, 1)", "sample: n must be a whole number from 0 to 1000000, not a string");
  refused("combu.sample(1, [], 1)", "sample: space must be an object, not an array");
  refused("combu.sample(1, { a: 'x' }, 1)",
          "sample: a must be an array of values or an object with min and max");
  refused("combu.sample(1, { a: [] }, 1)", "sample: a has no values");
  refused("combu.sample(1, { a: { min: 1 } }, 1)",
          "sample: a must be an array of values or have min and max");
  refused("combu.sample(1, { a: { min: 1, max: 0 } }, 1)", "sample: a.min is larger than its max");
  refused("combu.sample(1, { a: { min: 0, max: 1, log: true } }, 1)",
          "sample: a.min must be above 0 for log");
  refused("combu.sample(1, { a: { min: 0.5, max: 1, int: true } }, 1)",
          "sample: a.min and max must be whole numbers");
  refused("combu.sample(1, { a: { min: 0, max: 1, int: 1 } }, 1)",
          "sample: a.int must be true or false, not 1");
  refused("combu.sample(1, { a: { min: 0, max: 1, lgo: true } }, 1)", "sample: a has the unknown field lgo");
  refused("combu.sample(1, { a: [1] }, null)", "sample: seed must be a whole number or a string, not null");
  refused("combu.shuffle({}, 1)", "shuffle: list must be an array, not an object");
  refused("combu.shuffle([1], 1.5)", "shuffle: seed must be a whole number or a string, not 1.5");
  refused("combu.chunk('abc', 1)", "chunk: list must be an array, not a string");
  refused("combu.chunk([1], 0)", "chunk: k must be a whole number from 1");
  refused("combu.folds(1)", "folds: k must be a whole number from 2");
}

}  // namespace
}  // namespace combu
