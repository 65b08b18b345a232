#include <gtest/gtest.h>

#include "combu/telemetry.hpp"

namespace combu {
namespace {

TEST(TelemetryTexts, GapsAndMissingMetricsAreExplained) {
  EXPECT_EQ(gaps_text({.gaps = 1}), "a part of its log is not kept: the engine had rotated it away before");
  EXPECT_EQ(gaps_text({.gaps = 2}),
            "2 parts of its log are not kept: the engine had rotated them away before");
  EXPECT_EQ(words_of_none({.json = true, .pattern = "x", .file = "/m.csv"}),
            "no line of its standard output is a JSON object with numbers, and in no line of its standard "
            "output does the pattern find a number, and no numbers are in /m.csv");
}

}  // namespace
}  // namespace combu
