// The file of the record: its versions, its size, several processes that write to it, and invalid files.

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <latch>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "record/schema.hpp"
#include "record_fixture.hpp"

namespace combu::test {
namespace {

using testing::HasSubstr;

// Overrides TearDown(), because most of these files cannot be read as a record.
class RecordFileTest : public RecordTest {
 protected:
  void TearDown() override {}
};

TEST_F(RecordFileTest, RemovingARunShrinksTheFile) {
  constexpr std::size_t k_large = std::size_t{4} << 20U;
  {
    Record record(folder.path());
    RunEntry entry = entry_of(run);
    entry.text.source = std::string(k_large, 'x');
    record.begin(entry, run.experiment);
  }
  EXPECT_GT(std::filesystem::file_size(path()), k_large);
  {
    Record record(folder.path());
    record.remove(std::vector{run.id});
  }
  EXPECT_LT(std::filesystem::file_size(path()), k_large / 10);
}

TEST_F(RecordFileTest, ARunIsRemovedWhileAnotherConnectionReads) {
  Record record(folder.path());
  RunEntry entry = entry_of(run);
  entry.text.source = std::string(std::size_t{4} << 20U, 'x');
  record.begin(entry, run.experiment);
  SQLite::Database other(path(), SQLite::OPEN_READONLY);
  SQLite::Statement reading(other, "SELECT 1 FROM runs");
  ASSERT_TRUE(reading.executeStep());
  record.remove(std::vector{run.id});
  EXPECT_TRUE(record.runs({}, 1).empty());
}

TEST_F(RecordFileTest, SeveralRecordsWriteAtTheSameTime) {
  constexpr int k_writers = 4;
  constexpr int k_facts = 100;
  std::vector<std::jthread> writers;
  writers.reserve(k_writers);
  for (int writer = 0; writer < k_writers; ++writer) {
    writers.emplace_back([this, writer] {
      Record record(folder.path());
      combu::Run mine{.id = RunId("run" + std::to_string(writer)), .experiment = experiment({"one"})};
      record.begin(entry_of(mine), mine.experiment);
      for (int attempt = 1; attempt <= k_facts; ++attempt)
        record.append(mine.id, std::vector{fact(0, TrialState::starting, attempt)});
    });
  }
  writers.clear();
  Record record(folder.path());
  ASSERT_EQ(record.runs({}, 10).size(), static_cast<std::size_t>(k_writers));
  for (const RunEntry& entry : record.runs({}, 10)) EXPECT_EQ(record.trials(entry.id)[0].attempt, k_facts);
}

TEST_F(RecordFileTest, AnOlderDatabaseIsUpgraded) {
  constexpr std::array<std::string_view, 1> k_old{"CREATE TABLE a (x); INSERT INTO a VALUES (7)"};
  constexpr std::array<std::string_view, 2> k_new{"CREATE TABLE a (x); INSERT INTO a VALUES (7)",
                                                  "ALTER TABLE a ADD COLUMN y DEFAULT 8"};
  std::filesystem::create_directories(folder.path());
  (void)database::open(path(), {record::schema().application_id, k_old});
  SQLite::Database database = database::open(path(), {record::schema().application_id, k_new});
  EXPECT_EQ(database.execAndGet("SELECT x + y FROM a").getInt(), 15);
  EXPECT_EQ(database.execAndGet("PRAGMA user_version").getInt(), 2);
}

TEST_F(RecordFileTest, ARecordOfTheFirstVersionKeepsItsRuns) {
  std::filesystem::create_directories(folder.path());
  database::open(path(), {record::schema().application_id, record::schema().steps.first(1)})
      .exec(
          "INSERT INTO experiments VALUES (1, 'lab');"
          "INSERT INTO runs VALUES (7, 'old', 1, '/f', '/', 'the source', '[]', '[]', '{}', '', 0, "
          "'unix:///e', "
          "'e', 'u', 'm', 'p', 1000000, 1000000, 0, 3000000);"
          "INSERT INTO trials VALUES (7, 0, 'one', 'lab/x', '{}', 1, 'failed', 3000000, 'exit code 3', NULL);"
          "INSERT INTO attempts VALUES (7, 0, 1, 'c', 0, 0, 1000000, 1000000, 2000000, NULL, 3000000, 3, "
          "'error', 'exit code 3')");
  Record record(folder.path());
  const RunEntry entry = record.run(RunId("old"));
  EXPECT_EQ(entry.text.source, "the source");
  EXPECT_EQ(entry.text.evaluated, "[]");
  EXPECT_EQ(entry.engine.address, "unix:///e");
  EXPECT_EQ(entry.evaluated_in, std::nullopt);
  const TrialEntry one = record.trials(entry.id, "one").at(0);
  EXPECT_EQ(one.exit_code, 3);
  EXPECT_EQ(one.digest, "");
  EXPECT_EQ(record.attempts(entry.id, {}).at(0).created_in, std::nullopt);
  record.remove(std::vector{entry.id});
  EXPECT_THAT(record.runs({}, 1), testing::IsEmpty());
}

TEST_F(RecordFileTest, SeveralRecordsCreateTheSameFileAtOnce) {
  constexpr std::size_t k_together = 6;
  for (int round = 0; round < 40; ++round) {
    const std::string place = folder.path() + "/" + std::to_string(round);
    std::latch ready(k_together);
    std::vector<std::string> faults(k_together);
    in_parallel(k_together, k_together, [&](std::size_t i) {
      ready.arrive_and_wait();
      try {
        Record record(place);
        combu::Run own = run;
        own.id = RunId("run" + std::to_string(i));
        record.begin(entry_of(own), own.experiment);
      } catch (const Error& error) {
        faults[i] = error.what();
      }
    });
    EXPECT_THAT(faults, testing::Each("")) << round;
  }
}

TEST_F(RecordFileTest, AFailedUpgradeLeavesTheOlderVersion) {
  constexpr std::array<std::string_view, 1> k_old{"CREATE TABLE a (x)"};
  constexpr std::array<std::string_view, 3> k_new{"CREATE TABLE a (x)", "CREATE TABLE b (x)", "nonsense"};
  std::filesystem::create_directories(folder.path());
  (void)database::open(path(), {record::schema().application_id, k_old});
  EXPECT_EQ(error_in([&] {
              (void)database::open(path(), {record::schema().application_id, k_new});
            }).kind(),
            ErrorKind::invalid);
  SQLite::Database database = database::open(path(), {record::schema().application_id, k_old});
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM sqlite_master").getInt(), 1);
}

TEST_F(RecordFileTest, ANewerRecordIsRefusedAndNotChanged) {
  constexpr std::array<std::string_view, 9> k_newer{"CREATE TABLE a (x)", "", "", "", "", "", "", "", ""};
  std::filesystem::create_directories(folder.path());
  (void)database::open(path(), {record::schema().application_id, k_newer});
  const std::string before = bytes();
  const Error error = error_in([&] { Record{folder.path()}; });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_EQ(error.subject(), path());
  EXPECT_THAT(error.message(), HasSubstr("newer combu"));
  EXPECT_EQ(bytes(), before);
}

TEST_F(RecordFileTest, ADamagedRecordIsRefusedAndNotChanged) {
  write(std::string(8192, 'x'));
  const Error error = error_in([&] { Record{folder.path()}; });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_THAT(error.message(), HasSubstr("damaged"));
  EXPECT_EQ(bytes(), std::string(8192, 'x'));
}

TEST_F(RecordFileTest, ADatabaseOfAnotherProgramIsRefusedAndNotChanged) {
  std::filesystem::create_directories(folder.path());
  SQLite::Database(path(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE).exec("CREATE TABLE theirs (x)");
  const std::string before = bytes();
  const Error error = error_in([&] { Record{folder.path()}; });
  EXPECT_EQ(error.kind(), ErrorKind::invalid);
  EXPECT_THAT(error.message(), HasSubstr("another program"));
  EXPECT_EQ(bytes(), before);
}

TEST_F(RecordFileTest, TheErrorNamesAFolderThatCannotBeCreated) {
  write("a file");
  const Error error = error_in([&] { Record{path() + "/below"}; });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_EQ(error.subject(), path() + "/below");
  EXPECT_THAT(error.message(), HasSubstr("COMBU_HOME"));
}

}  // namespace
}  // namespace combu::test
