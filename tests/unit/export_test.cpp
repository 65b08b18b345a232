// Tests of results exported to files for other programs.

#include "combu/export.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "results_fixture.hpp"

namespace combu {
namespace {

using testing::HasSubstr;

TEST(ExportCsv, QuotesCellsThatNeedQuotes) {
  Results results = run_of("mine", {"note"}, {"loss"});
  add(results, "a", {"one, \"two\"\nthree"}, {k_infinite});
  add(results, "b", {std::monostate()}, {k_no_number});
  std::ostringstream out;
  export_csv(out, std::vector{results});
  EXPECT_EQ(out.str(),
            "run,trial,attempt,state,seconds,exit_code,cause,image,digest,note,loss,loss.least,loss.greatest,"
            "loss.points\n"
            "mine,a,1,succeeded,,,,,,\"one, \"\"two\"\"\nthree\",inf,inf,inf,3\n"
            "mine,b,1,succeeded,,,,,,,nan,nan,nan,3\n");
}

std::string first_line(const Results& results) {
  std::ostringstream out;
  export_csv(out, std::vector{results});
  const std::string text = out.str();
  return text.substr(text.find("digest,") + 7, text.find('\n') - text.find("digest,") - 7);
}

TEST(ExportCsv, GivesColumnsDistinctNames) {
  EXPECT_EQ(first_line(run_of("mine", {"lr", "state"}, {"lr"})),
            "lr,params.state,metrics.lr,metrics.lr.least,metrics.lr.greatest,metrics.lr.points");
  EXPECT_EQ(first_line(run_of("mine", {"", "LR", "Run", "State", "lr", "params.lr"}, {})),
            "params.,LR,params.Run,params.State,params.lr,params.params.lr");
  EXPECT_EQ(first_line(run_of("mine", {"X", "params.x", "x"}, {})), "X,params.x,params.x_2");
  EXPECT_EQ(first_line(run_of("mine", {"loss.points"}, {"loss"})),
            "loss.points,metrics.loss,metrics.loss.least,metrics.loss.greatest,metrics.loss.points");
  EXPECT_EQ(first_line(run_of("mine", {}, {"a", "a.least"})),
            "a,a.least,a.greatest,a.points,metrics.a.least,metrics.a.least.least,metrics.a.least.greatest,"
            "metrics.a.least.points");
}

TEST(ExportCsv, WritesEachValueInItsColumn) {
  Results one = run_of("one", {"LR", "lr"}, {"lr"});
  add(one, "a", {1.0, 2.0}, {3.0});
  Results two = run_of("two", {}, {"lr"});
  add(two, "a", {}, {4.0});
  std::ostringstream out;
  export_csv(out, std::vector{one, two});
  EXPECT_THAT(out.str(), HasSubstr("digest,LR,params.lr,metrics.lr,metrics.lr.least,"));
  EXPECT_THAT(out.str(), HasSubstr("\none,a,1,succeeded,,,,,,1,2,3,0.3,30,3\n"));
  EXPECT_THAT(out.str(), HasSubstr("\ntwo,a,1,succeeded,,,,,,,,4,0.4,40,3\n"));
}

TEST(ExportJson, KeepsTheTypesOfParams) {
  Results results = run_of("mine", {"deep", "layers"});
  ResultRow& row = add(results, "a", {"true", "[64,64]"}, {k_infinite});
  row.trial.params = R"({"deep":true,"layers":[64,64]})";
  std::ostringstream out;
  export_json(out, std::vector{results});
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["deep"], true);
  EXPECT_EQ(json["layers"], nlohmann::json::parse("[64,64]"));
  EXPECT_EQ(json["loss"], nullptr);
  EXPECT_EQ(json["loss.points"], 3);
}

}  // namespace
}  // namespace combu
