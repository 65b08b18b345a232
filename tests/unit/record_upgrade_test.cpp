// Upgrading a record of an earlier schema.

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "combu/database.hpp"
#include "combu/record.hpp"
#include "record/schema.hpp"
#include "record_folder.hpp"

namespace combu::test {
namespace {

// The cases are all texts in which earlier versions stored EndDetails as a part of the reason.
TEST(RecordUpgrade, ReasonsOfTheSeventhVersionAreSplitIntoColumns) {
  struct Old {
    std::string reason;
    EndDetails details;
    std::string plain;
    int attempt = 1;
    std::string shown;  // empty: same as `reason`
  };
  const auto next = [](Next what, double pause = 0, std::string why = "") {
    return EndDetails{.next = what, .pause = Seconds(pause), .next_why = std::move(why)};
  };
  const std::vector<Old> of_attempts{
      {"exit code 1; attempt 2 in 0 ms", next(Next::attempt, 0), "exit code 1"},
      {"exit code 1; attempt 3 in 250 ms", next(Next::attempt, 0.25), "exit code 1", 2},
      {"exit code 1; attempt 2 in 5.5 s", next(Next::attempt, 5.5), "exit code 1"},
      {"exit code 1; attempt 2 in 1m30s", next(Next::attempt, 90), "exit code 1"},
      {"exit code 1; attempt 2 in 2h05m", next(Next::attempt, 7500), "exit code 1"},
      {"exit code 1; attempt 12 in 3d04h", next(Next::attempt, 273600), "exit code 1", 11},
      {"could not be started: no port in it; use another; attempt 2 in 1.0 s", next(Next::attempt, 1),
       "could not be started: no port in it; use another"},
      {"stopped from outside (exit code 143, SIGTERM); tried again if the engine is being restarted",
       {.stopper = Stopper::outside, .next = Next::verdict},
       "from outside (exit code 143, SIGTERM)",
       1,
       "stopped from outside (exit code 143, SIGTERM); retried if the engine is being restarted"},
      {"its outputs are not home: disk full", next(Next::collect, 0, "disk full"), "", 1,
       "its outputs are not collected yet: disk full"},
      {"exit code 3; its outputs are not home: a: disk; full", next(Next::collect, 0, "a: disk; full"),
       "exit code 3", 1, "exit code 3; its outputs are not collected yet: a: disk; full"},
      {"exit code 3; outputs: /out: none, after 2 attempts",
       {.outputs_fault = "/out: none", .next = Next::spent},
       "exit code 3",
       2},
      {"exit code 3; outputs: /out: none; attempt 2 in 1.0 s",
       {.outputs_fault = "/out: none", .next = Next::attempt, .pause = Seconds(1)},
       "exit code 3"},
      {"stopped by alice with `combu stop`", {.stopper = Stopper::person}, "by alice with `combu stop`"},
      {"stopped: the run's deadline of 5.0 s has passed",
       {.stopper = Stopper::run},
       "the run's deadline of 5.0 s has passed"},
      {"exit code 1, after 2 attempts of ours", {}, "exit code 1, after 2 attempts of ours", 2},
      {"exit code 1", {}, "exit code 1"}};
  const std::vector<Old> of_trials{
      {"exit code 3; outputs: /out: none, after 2 attempts",
       {.outputs_fault = "/out: none", .next = Next::spent},
       "exit code 3",
       2},
      {"exit code 1; not tried again: stopped by alice with `combu stop`",
       next(Next::given_up, 0, "stopped by alice with `combu stop`"), "exit code 1", 1,
       "exit code 1; not retried: stopped by alice with `combu stop`"},
      {"stopped from outside (exit code 143, SIGTERM)",
       {.stopper = Stopper::outside},
       "from outside (exit code 143, SIGTERM)"},
      {"stopped by alice with `combu stop`", {.stopper = Stopper::person}, "by alice with `combu stop`"},
      {"stopped: late", {.stopper = Stopper::run}, "late"},
      {"depends on `a`, which did not succeed", {}, "depends on `a`, which did not succeed"}};
  const Folder folder("combu-record-upgrade");
  const std::string path = folder.path() + "/record.sqlite";
  std::filesystem::create_directories(folder.path());
  {
    SQLite::Database old =
        database::open(path, {record::schema().application_id, record::schema().steps.first(7)});
    old.exec(
        "INSERT INTO experiments VALUES (1, 'lab');"
        "INSERT INTO runs (number, id, experiment, file, folder, arguments, options, revision, "
        "revision_dirty, address, engine, user, machine, program, began_at, working_since) "
        "VALUES (7, 'old', 1, '/f', '/', '[]', '{}', '', 0, 'unix:///e', 'e', 'u', 'm', 'p', 1, 1)");
    database::Sql add_trial(old,
                            "INSERT INTO trials (run, trial, name, image, params, over, over_at, reason) "
                            "VALUES (7, ?, ?, '', '', ?, 3, ?)");
    database::Sql add_attempt(old,
                              "INSERT INTO attempts (run, trial, attempt, nano_cpus, memory, ready_at, "
                              "started_at, ended_at, reason) VALUES (7, ?, ?, 0, 0, 1, 1, 2, ?)");
    const std::optional<std::string> none;
    int trial = 0;
    for (const Old& one : of_attempts) {
      add_trial(trial, std::to_string(trial), none, none);
      add_attempt(trial++, one.attempt, one.reason);
    }
    for (const Old& one : of_trials) {
      add_trial(trial, std::to_string(trial), std::string("failed"), one.reason);
      add_attempt(trial++, one.attempt, std::string("before"));
    }
  }
  Record record(folder.path());
  const std::vector<RestoredTrial> restored = record.restored_trials(RunId("old"));
  const std::vector<TrialEntry> trials = record.trials(RunId("old"));
  std::vector<Old> all = of_attempts;
  all.insert(all.end(), of_trials.begin(), of_trials.end());
  ASSERT_EQ(restored.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(restored[i].reason, all[i].plain);
    EXPECT_EQ(restored[i].details, all[i].details) << all[i].reason;
    const std::string& shown = all[i].shown.empty() ? all[i].reason : all[i].shown;
    EXPECT_EQ(reason_text(restored[i]), shown);
    EXPECT_EQ(reason_text(trials[i]), shown);
    EXPECT_EQ(trials[i].reason, all[i].plain);
  }
}

}  // namespace
}  // namespace combu::test
