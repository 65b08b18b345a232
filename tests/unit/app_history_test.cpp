// Tests that read the history of a run from the record.

#include <gmock/gmock.h>

#include "app/history.hpp"
#include "app_record_fixture.hpp"
#include "error_of.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class AppHistory : public RecordedRunTest {
 protected:
  std::vector<std::string> events(const HistoryOptions& options, std::size_t count_max = 100) const {
    std::vector<std::string> events;
    read_events({}, options, [&](const EventEntry& event) {
      events.push_back(event.trial + " " + event.state);
      return events.size() < count_max;
    });
    return events;
  }
  static std::vector<std::string> names(const RunTimes& times) {
    std::vector<std::string> names;
    for (const TimedAttempt& attempt : times.attempts) names.push_back(attempt.entry.trial);
    return names;
  }
};

TEST_F(AppHistory, EventsComeInOrderUntilTheReaderStops) {
  record_run("run1", {"aa", "bb"});
  EXPECT_THAT(events({.run = "run1"}),
              ElementsAre("aa ready", "bb ready", "aa starting", "aa running", "aa ended", "aa succeeded",
                          "bb starting", "bb running", "bb ended", "bb succeeded"));
  EXPECT_THAT(events({.run = "run1", .trial = "bb"}),
              ElementsAre("bb ready", "bb starting", "bb running", "bb ended", "bb succeeded"));
  EXPECT_THAT(events({.run = "run1"}, 2), ElementsAre("aa ready", "bb ready"));
}

TEST_F(AppHistory, AnUnknownTrialIsAnErrorButATrialWithoutEventsIsNot) {
  Experiment experiment;
  experiment.trials.emplace_back().name = "waits";
  Record(state()).begin(entry_of({.id = RunId("run1"), .experiment = {.name = "lab"}}), experiment);
  EXPECT_THAT(events({.run = "run1", .trial = "waits"}), IsEmpty());
  const auto trial = error_of([&] { (void)events({.run = "run1", .trial = "other"}); });
  ASSERT_TRUE(trial);
  EXPECT_EQ(trial->kind(), ErrorKind::not_found);
  EXPECT_STREQ(trial->what(), "other: is not a trial of run run1");
  EXPECT_EQ(error_of([&] { (void)events({.run = "run2"}); })->kind(), ErrorKind::not_found);
}

TEST_F(AppHistory, ReadingDoesNotCreateARecord) {
  EXPECT_EQ(error_of([&] { (void)events({.run = "run1"}); })->kind(), ErrorKind::not_found);
  EXPECT_EQ(error_of([&] { (void)read_times({}, {.run = "run1"}); })->kind(), ErrorKind::not_found);
  EXPECT_FALSE(std::filesystem::exists(state()));
}

TEST_F(AppHistory, TimesAreReadForEachAttempt) {
  record_run("run1", {"aa", "bb"});
  const RunTimes times = read_times({}, {.run = "run1"});
  EXPECT_EQ(times.run.id.text(), "run1");
  EXPECT_THAT(names(times), ElementsAre("aa", "bb"));
  EXPECT_THAT(names(read_times({}, {.run = "run1", .trial = "bb"})), ElementsAre("bb"));
  const auto trial = error_of([&] { (void)read_times({}, {.run = "run1", .trial = "other"}); });
  ASSERT_TRUE(trial);
  EXPECT_EQ(trial->kind(), ErrorKind::not_found);
  EXPECT_STREQ(trial->what(), "other: has no attempt in run run1");
  EXPECT_EQ(error_of([&] { (void)read_times({}, {.run = "run2"}); })->kind(), ErrorKind::not_found);
}

}  // namespace
}  // namespace combu::test
