// Finding completed trials with the same cache key in the record.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "record_fixture.hpp"

namespace combu::test {
namespace {

using testing::ElementsAre;

TEST_F(RecordTest, CompletedTrialsAreFoundByTheirHash) {
  Record record(folder.path());
  const auto cache_result = [](TrialIndex trial, const std::string& hash) {
    return CacheResult{.trial = trial, .hash = hash, .parts = R"({"cmd":"x"})"};
  };
  for (const char* id : {"run1", "run2"}) {
    run.id = RunId(id);
    RunEntry entry = entry_of(run);
    entry.results = std::string("/results/") + id;
    record.begin(entry, run.experiment);
    const std::vector<CacheResult> known{cache_result(0, "aa"), cache_result(1, "bb"), cache_result(2, "aa")};
    record.append(
        run.id,
        std::vector<Fact>{fact(0, TrialState::skipped), failure(1, TrialState::failed, 1, Cause::error, 3)},
        {}, {}, known);
  }
  const std::vector<DoneEntry> done = record.done("aa", 8);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].run, RunId("run2"));
  EXPECT_EQ(done[0].trial, "one");
  EXPECT_EQ(done[0].place, "/results/run2/one");
  EXPECT_EQ(done[1].run, RunId("run1"));
  EXPECT_EQ(record.done("aa", 1).size(), 1U);
  EXPECT_TRUE(record.done("bb", 8).empty()) << "it has failed";
  EXPECT_TRUE(record.done("cc", 8).empty());
  EXPECT_EQ(record.known_before(run.id, "one", 8).size(), 1U) << "of an earlier run";
  record.remove(std::vector<RunId>{RunId("run2")});
  EXPECT_EQ(record.done("aa", 8).size(), 1U);
}

TEST_F(RecordTest, ASkippedTrialNamesTheTrialThatWasExecuted) {
  Record record(folder.path());
  const auto begin = [&](const char* id, TrialState state, const CacheResult& known) {
    run.id = RunId(id);
    RunEntry entry = entry_of(run);
    entry.results = std::string("/results/") + id;
    record.begin(entry, run.experiment);
    record.append(run.id, std::vector<Fact>{fact(0, state)}, {}, {}, std::vector<CacheResult>{known});
  };
  const CacheResult known{.trial = 0, .hash = "aa", .parts = "{}"};
  begin("run1", TrialState::succeeded, known);
  CacheResult equal = known;
  equal.run = "run1";
  equal.name = "one";
  begin("run2", TrialState::skipped, equal);
  const std::vector<DoneEntry> done = record.done("aa", 8);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].run, RunId("run1"));
  EXPECT_EQ(done[0].telemetry_run, RunId("run2"));
  EXPECT_EQ(done[0].telemetry_trial, "one");
  EXPECT_EQ(done[0].place, "/results/run2/one") << "where it was shared from";
  EXPECT_EQ(done[1].place, "/results/run1/one");
}

TEST_F(RecordTest, AChangedImageOrInputRemovesTheCacheKey) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  std::vector<CacheResult> known;
  known.reserve(3);
  for (TrialIndex trial = 0; trial < 3; ++trial)
    known.push_back({.trial = trial,
                     .hash = "aa",
                     .parts = R"({"image":"sha256:1","inputs":{}})",
                     .inputs = {"sha256:x", "sha256:y"}});
  record.append(run.id, {}, {}, {}, known);
  record.append(run.id,
                std::vector<Fact>{fact(0, TrialState::succeeded), fact(1, TrialState::succeeded),
                                  fact(2, TrialState::succeeded)},
                std::vector<Started>{{.trial = 0, .inputs = {"sha256:x", "sha256:y"}, .digest = "sha256:1"},
                                     {.trial = 1, .inputs = {"sha256:x", "sha256:z"}, .digest = "sha256:1"},
                                     {.trial = 2, .inputs = {"sha256:x", "sha256:y"}, .digest = "sha256:2"}});
  const std::vector<DoneEntry> done = record.done("aa", 8);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].trial, run.experiment.trials[0].name);
  EXPECT_FALSE(record.known(run.id, run.experiment.trials[1].name)) << "its inputs were others";
  EXPECT_FALSE(record.known(run.id, run.experiment.trials[2].name)) << "its image was another";
  EXPECT_THAT(record.inputs(run.id, run.experiment.trials[1].name), ElementsAre("sha256:x", "sha256:z"));
}

TEST_F(RecordTest, AChangedImageOfAnUnwatchedTrialRemovesTheCacheKey) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, {}, {}, {},
                std::vector<CacheResult>{{.trial = 0, .hash = "aa", .parts = R"({"image":"sha256:1"})"},
                                         {.trial = 1, .hash = "aa", .parts = R"({"image":"sha256:1"})"}});
  ASSERT_TRUE(record.append_unwatched(
      run.id, std::vector<Fact>{fact(0, TrialState::succeeded), fact(1, TrialState::succeeded)},
      record.stamp(run.id), Record::RunEnds::no,
      std::vector<Started>{{.trial = 0, .digest = "sha256:1"}, {.trial = 1, .digest = "sha256:2"}}));
  const std::vector<DoneEntry> done = record.done("aa", 8);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].trial, run.experiment.trials[0].name);
}

TEST_F(RecordTest, AnInputOutsideTheCacheKeyMayChange) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  record.append(run.id, {}, {}, {},
                std::vector<CacheResult>{
                    {.trial = 0, .hash = "aa", .parts = R"({"image":"sha256:1"})", .inputs = {"sha256:x"}}});
  record.append(run.id, std::vector<Fact>{fact(0, TrialState::succeeded)},
                std::vector<Started>{{.trial = 0, .inputs = {"sha256:y"}, .digest = "sha256:1"}});
  EXPECT_EQ(record.done("aa", 8).size(), 1U);
}

TEST_F(RecordTest, TheLatestCacheLookupReplacesTheEarlierOne) {
  Record record(folder.path());
  record.begin(entry_of(run), run.experiment);
  EXPECT_FALSE(record.known(run.id, "one"));
  record.append(run.id, {}, {}, {}, std::vector<CacheResult>{{.trial = 0, .hash = "aa", .parts = "{}"}});
  record.append(run.id, {}, {}, {},
                std::vector<CacheResult>{
                    {.trial = 0, .hash = "bb", .parts = R"({"cmd":"x"})", .run = "run0", .name = "zero"}});
  const auto known = record.known(run.id, "one");
  ASSERT_TRUE(known);
  EXPECT_EQ(known->hash, "bb");
  EXPECT_EQ(known->parts, R"({"cmd":"x"})");
  EXPECT_EQ(known->equal_run, RunId("run0"));
  EXPECT_EQ(known->equal_trial, "zero");
}

}  // namespace
}  // namespace combu::test
