// Tests that send results to an MLflow server.

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/mlflow.hpp"
#include "app/outputs.hpp"
#include "app/run_results.hpp"
#include "app_record_fixture.hpp"
#include "error_of.hpp"

namespace combu::test {
namespace {

class AppMlflow : public RecordedRunTest {
 protected:
  AppMlflow() { unsetenv("MLFLOW_TRACKING_URI"); }
  OpenSession no_session = [](const Invocation&) { return std::shared_ptr<Session>(); };
};

TEST_F(AppMlflow, AMissingServerIsAnError) {
  record_run("run1", {"aa"});
  keep_log("run1", "aa", "one\n");
  const std::vector<Results> runs =
      read_run_results({}, {.ids = {"run1"}, .where = {}}, no_session, *progress);
  const auto error = error_of([&] { send_to_mlflow({}, runs, "", *progress, {}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid);
  EXPECT_EQ(error->subject(), "--to");
}

TEST_F(AppMlflow, OutputsThatExistHaveAPlace) {
  const std::string results = path("results");
  const RunEntry run = record_run(
      "run1", {"aa", "bb", "cc"},
      [&](const std::string& trial) { return trial == "cc" ? "" : R"(,"outputs":["/out"])"; },
      R"("collect":{"to":")" + results + R"("},)");
  Record record(state());
  const auto place_of = output_places(record, run.id, *progress);
  const auto entry = [&](const std::string& name) { return record.trials(run.id, name).at(0); };
  EXPECT_EQ(place_of(entry("aa")), "");
  for (const char* name : {"aa", "cc"}) {
    const std::string place = results + "/lab/run1/" + name;
    std::filesystem::create_directories(place);
    std::ofstream(place + "/" + std::string(k_manifest_name)) << "{}";
  }
  EXPECT_EQ(place_of(entry("aa")), results + "/lab/run1/aa");
  EXPECT_EQ(place_of(entry("bb")), "");
  EXPECT_EQ(place_of(entry("cc")), "");  // `cc` declares no outputs
}

}  // namespace
}  // namespace combu::test
