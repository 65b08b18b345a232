// The diagnosis of the engine and the state folder.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "app/doctor.hpp"
#include "app_fixture.hpp"

namespace combu::test {
namespace {

using Kind = Finding::Kind;

class DiagnosisTest : public AppTest {
 protected:
  std::vector<Finding> findings() {
    std::vector<Finding> findings;
    with_session([&](Session& session) { findings = examine(session, invocation); });
    return findings;
  }
};

TEST_F(DiagnosisTest, TheEngineComesFirstAndThenTheStateFolder) {
  const std::vector<Finding> seen = findings();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].kind, Kind::good);
  EXPECT_EQ(seen[0].text, "simulated engine at simulated:");
  EXPECT_EQ(seen[1].subject, "disk");
  EXPECT_THAT(seen[1].text, testing::EndsWith("are free on the disk of " + state()));
}

TEST_F(DiagnosisTest, AFolderThatOthersWriteToIsAFault) {
  std::filesystem::create_directories(state());
  std::filesystem::permissions(state(), std::filesystem::perms::all);
  const std::vector<Finding> seen = findings();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[1].kind, Kind::fault);
  EXPECT_EQ(seen[1].subject, "state");
  EXPECT_THAT(seen[1].text, testing::HasSubstr("other users can write to it"));
  EXPECT_EQ(combu::result_of(seen), Result::failed);
}

TEST_F(DiagnosisTest, ADamagedRecordIsAFaultOfTheStateFolder) {
  std::filesystem::create_directories(state());
  std::ofstream(state() + "/record.sqlite") << std::string(8192, 'x');
  const std::vector<Finding> seen = findings();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[1].kind, Kind::fault);
  EXPECT_THAT(seen[1].text, testing::HasSubstr("record.sqlite"));
  EXPECT_EQ(combu::result_of(seen), Result::failed);
}

TEST_F(DiagnosisTest, TheStateFolderIsExaminedAlsoWithoutAnEngine) {
  class Absent final : public PassingEngine {
   public:
    using PassingEngine::PassingEngine;
    std::vector<Finding> diagnose(std::stop_token /*token*/) override {
      return {{.kind = Kind::fault, .subject = "socket", .text = "no", .is_unreachable = true}};
    }
  };
  Absent absent(*simulated);
  engine = &absent;
  const std::vector<Finding> seen = findings();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[1].subject, "disk");
  EXPECT_EQ(combu::result_of(seen), Result::no_engine);
}

TEST(DiagnosisResult, IsTheWorstOfTheFaults) {
  const Finding warning{.kind = Kind::warning};
  const Finding fault{.kind = Kind::fault};
  const Finding unreachable{.kind = Kind::fault, .is_unreachable = true};
  EXPECT_EQ(result_of(std::vector<Finding>{{}, warning}), Result::succeeded);
  EXPECT_EQ(result_of(std::vector<Finding>{fault, warning}), Result::failed);
  EXPECT_EQ(result_of(std::vector<Finding>{unreachable, fault}), Result::no_engine);
}

}  // namespace
}  // namespace combu::test
