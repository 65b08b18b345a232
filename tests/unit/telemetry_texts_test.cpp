#include <gtest/gtest.h>

#include "combu/telemetry.hpp"

namespace combu {
namespace {

TEST(TelemetryTexts, GapsAndMissingMetricsAreExplained) {
  EXPECT_EQ(gaps_text({.gaps = 1}),
            "a part of the log is missing: the engine removed it by log rotation before combu read it, or "
            "the agent could not store it");
  EXPECT_EQ(gaps_text({.gaps = 2}),
            "2 parts of the log are missing: the engine removed them by log rotation before combu read them, "
            "or the agent could not store them");
  EXPECT_EQ(words_of_none({.json = true, .pattern = "x", .file = "/m.csv"}),
            "no line of the standard output is a JSON object with numbers, and the pattern finds no number "
            "in the standard output, and the file /m.csv has no numbers");
}

}  // namespace
}  // namespace combu
