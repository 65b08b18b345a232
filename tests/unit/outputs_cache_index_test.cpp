// Tests of SharedCacheIndex in a bucket that others can write to: the entries (markers) may be invalid.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "combu/outputs.hpp"
#include "s3_bucket.hpp"

namespace combu::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class SharedCacheIndexTest : public S3 {
 protected:
  void SetUp() override {
    cache_index_ = open_s3_cache_index("s3://lab/a", caller_, clock_);
    bucket_.objects["/lab/a/model/run1/t1/manifest.sha256"] = "sums\n";
    cache_index_->put("key", "s3://lab/a/model/run1/t1", [] { return "packed"; }, true, {});
  }

  std::string& marker() { return bucket_.objects.at("/lab/a/.combu/done/key"); }
  std::string fault_of_find() {
    const auto fault = fault_of([&] { EXPECT_FALSE(cache_index_->find("key", {})); });
    if (!fault) return "";
    EXPECT_EQ(fault->kind(), ErrorKind::corrupt);
    return fault->what();
  }

  std::unique_ptr<SharedCacheIndex> cache_index_;
};

TEST_F(SharedCacheIndexTest, AMarkerNamesTheRunAndTheTrial) {
  EXPECT_EQ(marker(), "model/run1/t1\n-");
  const auto mark = cache_index_->find("key", {});
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->place, "s3://lab/a/model/run1/t1");
  EXPECT_EQ(mark->run, RunId("run1"));
  EXPECT_EQ(mark->trial, "t1");
  EXPECT_EQ(mark->telemetry_at, "s3://lab/a/.combu/told/key--");
  EXPECT_EQ(cache_index_->telemetry_size(*mark, {}), Bytes{6});
  EXPECT_EQ(cache_index_->telemetry(*mark, Bytes{6}, {}), "packed");
}

TEST_F(SharedCacheIndexTest, AMarkerThatCombuCannotHaveWrittenIsRefused) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "no second line"},
      {"model/run1/t1", "no second line"},
      {"\n-", "\"\" is not EXPERIMENT/RUN/TRIAL"},
      {"t1\n-", "\"t1\" is not EXPERIMENT/RUN/TRIAL"},
      {"run1/t1\n-", "is not EXPERIMENT/RUN/TRIAL"},
      {"/t1\n-", "\"/t1\" is not EXPERIMENT/RUN/TRIAL"},
      {"/run1/t1\n-", "the experiment's name is empty"},
      {"//\n-", "the experiment's name is empty"},
      {"more/model/run1/t1\n-", "\"more/model\" is not the folder of an experiment"},
      {"../run1/t1\n-", "\"..\" is not the folder of an experiment"},
      {".combu/run1/t1\n-", "\".combu\" is not the folder of an experiment"},
      {"mo\x1b[31mdel/run1/t1\n-", "the experiment's name must be one line"},
      {"model//t1\n-", "\"\" is not a run id"},
      {"model/../t1\n-", "\"..\" is not a run id"},
      {"model/run 1/t1\n-", "is not a run id"},
      {"model/\x1b]0;owned\x07/t1\n-", "is not a run id"},
      {"model/" + std::string(65, 'r') + "/t1\n-", "is not a run id"},
      {"model/run1/\n-", "is empty"},
      {"model/run1/..\n-", "is not a name"},
      {"model/run1/t\x1b[2J\n-", "is not a name"},
      {"model/run1/t1\r\n-", "is not a name"},
      {std::string("model/run1/t1\0x\n-", 17), "is not a name"},
      {"model/run1/t\xC3\xA9\n-", "is not a name"},
      {"model/run1/t1\n", "not the ETag of an object"},
      {"model/run1/t1\n-\n", "not the ETag of an object"},
      {"model/run1/t1\n\x1b[2J", "not the ETag of an object"},
      {"model/run1/t1\na b", "not the ETag of an object"},
      {"model/run1/t1\n" + std::string(257, 'e'), "not the ETag of an object"},
  };
  for (const auto& [text, reason] : cases) {
    marker() = text;
    EXPECT_THAT(fault_of_find(),
                AllOf(StartsWith("s3://lab/a/.combu/done/key: the marker of a cached trial is invalid: "),
                      HasSubstr(reason), Not(HasSubstr("\x1b"))))
        << testing::PrintToString(text);
  }
}

TEST_F(SharedCacheIndexTest, AMarkerHasTheETagOfTheServer) {
  for (const std::string& version : {std::string("!~"), std::string(256, 'e')}) {
    bucket_.metadata["/lab/a/model/run1/t1/manifest.sha256"] = "ETag: \"" + version + "\"\r\n";
    marker() = "model/run1/t1\n" + version;
    EXPECT_TRUE(cache_index_->find("key", {})) << version;
    marker() += "e";
    EXPECT_TRUE(version.size() == 256 || !cache_index_->find("key", {})) << "it is of something else";
  }
}

TEST_F(SharedCacheIndexTest, AMarkerIsNotReplacedWhileTheServerIsUnavailable) {
  const std::string before = marker();
  bucket_.trouble = [](const wire::Asked& asked) -> std::optional<wire::Reply> {
    if (asked.method != "GET") return std::nullopt;
    return wire::whole(503, fault("SlowDown"));
  };
  const auto fault = fault_of(
      [&] { cache_index_->put("key", "s3://lab/a/model/run1/t1", [] { return "others"; }, true, {}); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::unavailable);
  EXPECT_EQ(marker(), before);
}

TEST_F(SharedCacheIndexTest, AMarkerAboveTheSizeLimitIsRefused) {
  marker() = std::string(100U << 20U, 'x');
  EXPECT_EQ(fault_of_find(), "s3://lab/a/.combu/done/key: is larger than 2 KiB");
}

TEST_F(SharedCacheIndexTest, AMarkerOfMissingOutputsIsNotFound) {
  bucket_.objects.erase("/lab/a/model/run1/t1/manifest.sha256");
  marker() = "model/run1/t1\nolder";
  EXPECT_EQ(fault_of_find(), "");
}

TEST_F(SharedCacheIndexTest, AnInvalidMarkerIsReplaced) {
  marker() = "model/\x1b[2J/t1\n-";
  bucket_.objects["/lab/a/model/run2/t2/manifest.sha256"] = "sums\n";
  cache_index_->put("key", "s3://lab/a/model/run2/t2", [] { return ""; }, false, {});
  EXPECT_EQ(marker(), "model/run2/t2\n-");
}

TEST_F(SharedCacheIndexTest, TelemetryAboveTheSizeLimitIsRefused) {
  const auto mark = cache_index_->find("key", {});
  ASSERT_TRUE(mark);
  bucket_.objects["/lab/a/.combu/told/key--"] = std::string(1U << 20U, 'x');
  const auto fault = fault_of([&] { (void)cache_index_->telemetry(*mark, Bytes{1000}, {}); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::corrupt);
  EXPECT_THAT(fault->what(), HasSubstr("s3://lab/a/.combu/told/key--: is larger than 1000 B"));
  bucket_.objects.erase("/lab/a/.combu/told/key--");
  EXPECT_FALSE(cache_index_->telemetry_size(*mark, {}));
  EXPECT_FALSE(cache_index_->telemetry(*mark, Bytes{1000}, {}));
}

}  // namespace
}  // namespace combu::test
