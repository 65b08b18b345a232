// Tests of tables and JSON lines of the parts of attempts' times.

#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "combu/view.hpp"

namespace combu {
namespace {

using std::chrono::seconds;

const Instant k_began = *parse_timestamp("2026-01-31T12:00:00Z");

TimedAttempt timed(int number, double place, double running) {
  TimedAttempt attempt{.entry = {.trial = "solver", .attempt = number}, .times = {}};
  attempt.times.at(static_cast<std::size_t>(AttemptPart::place)) = Seconds(place);
  attempt.times.at(static_cast<std::size_t>(AttemptPart::running)) = Seconds(running);
  return attempt;
}

const std::vector<TimedAttempt> k_attempts{timed(1, 1, 10), timed(2, 3, 20)};

std::string times_table(const TableForm& form) {
  std::ostringstream out;
  print_attempt_times(out, k_attempts, form);
  return out.str();
}

TEST(PrintTimes, SumsUpThePartsThatOccur) {
  RunEntry run;
  run.id = RunId("r1");
  run.began_at = k_began;
  std::ostringstream out;
  print_times(out, run, k_attempts, k_began + seconds(60));
  EXPECT_EQ(out.str(),
            "run r1: 2 attempts in 1m00s\n"
            "                             MEDIAN       90 %       MOST        SUM\n"
            "waiting for slots             3.0 s      3.0 s      3.0 s      4.0 s\n"
            "running                      20.0 s     20.0 s     20.0 s     30.0 s\n");
  run.ended_at = k_began + seconds(30);
  run.evaluated_in = Seconds(1);
  run.prepared_in = Seconds(2);
  out.str("");
  print_times(out, run, {}, k_began + seconds(60));
  EXPECT_EQ(out.str(),
            "run r1: 0 attempts in 30.0 s; before the run, evaluated in 1.0 s, images and networks prepared "
            "in 2.0 s\n"
            "                             MEDIAN       90 %       MOST        SUM\n");
}

TEST(PrintAttemptTimes, HasAColumnForEachPart) {
  EXPECT_EQ(times_table({}),
            "TRIAL                    ATTEMPT   DEPENDS     RETRY     SLOTS     COMBU"
            "  CREATING  STARTING   RUNNING   COLLECT\n"
            "solver                         1         -         -     1.0 s         -"
            "         -         -    10.0 s         -\n"
            "solver                         2         -         -     3.0 s         -"
            "         -         -    20.0 s         -\n");
}

TEST(PrintAttemptTimes, FitsATerminalAndCountsTheRowsThatAreLeftOut) {
  EXPECT_EQ(times_table({.columns = 80, .rows = 1}),
            "TRIAL        ATTEMPT DEPENDS RETRY SLOTS COMBU CREATING STARTING RUNNING COLLECT\n"
            "solver             1       -     - 1.0 s     -        -        -  10.0 s       -\n"
            "… and 1 more; --limit 0 shows all\n");
}

TEST(PrintAttemptTimes, JsonHasThePartsThatOccur) {
  std::ostringstream out;
  print_attempt_times_json(out, k_attempts, {.rows = 1});
  EXPECT_EQ(out.str(), R"({"trial":"solver","attempt":1,"place":1.0,"running":10.0})"
                       "\n");
}

}  // namespace
}  // namespace combu
