// Tests of SharedCacheIndex: all users of a bucket share its entries (markers).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "combu/outputs.hpp"
#include "s3_bucket.hpp"

namespace combu {
namespace {

class MarkersS3 : public test::S3 {
 protected:
  void put(const std::string& place, const std::string& telemetry = "", bool needs_telemetry = false) {
    cache_index_->put("key", place, [&] { return telemetry; }, needs_telemetry, {});
  }
  void leave(const std::string& place, const std::string& content = "sums") {
    bucket_.objects["/lab/a/" + place + "/manifest.sha256"] = content;
    bucket_.metadata["/lab/a/" + place + "/manifest.sha256"] = "ETag: \"" + content + "\"\r\n";
  }
  [[nodiscard]] std::string found() {
    const auto mark = cache_index_->find("key", {});
    return mark ? mark->place : "none";
  }
  [[nodiscard]] std::optional<std::string> telemetry(Bytes size_max = Bytes{100}) {
    return cache_index_->telemetry(cache_index_->find("key", {}).value(), size_max, {});
  }

  std::unique_ptr<SharedCacheIndex> cache_index_;
  void SetUp() override {
    S3::SetUp();
    cache_index_ = open_s3_cache_index("s3://lab", caller_, clock_);
    leave("run1/train");
  }
};

TEST_F(MarkersS3, TheFirstWriterWins) {
  EXPECT_EQ(found(), "none");
  put("s3://lab/a/run1/train");
  EXPECT_EQ(found(), "s3://lab/a/run1/train");
  leave("run2/train");
  put("s3://lab/a/run2/train");
  EXPECT_EQ(found(), "s3://lab/a/run1/train");
}

TEST_F(MarkersS3, AMarkerOfReplacedOutputsIsReplaced) {
  put("s3://lab/a/run1/train");
  leave("run1/train", "others");
  EXPECT_EQ(found(), "none");
  leave("run2/train");
  // The object of the marker still exists.
  bucket_.trouble = [](const wire::Asked& asked) -> std::optional<wire::Reply> {
    if (test::header(asked, "if-none-match").empty()) return std::nullopt;
    return wire::whole(412, test::fault("PreconditionFailed"));
  };
  put("s3://lab/a/run2/train");
  EXPECT_EQ(found(), "s3://lab/a/run2/train");
}

TEST_F(MarkersS3, MissingOutputsGetNoMarker) {
  const auto fault = fault_of([&] { put("s3://lab/a/run9/train"); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::not_found);
  EXPECT_EQ(found(), "none");
}

// Another process writes its marker first.
TEST_F(MarkersS3, AMarkerThatAnotherProcessWritesFirstStays) {
  leave("run2/train");
  bucket_.trouble = [&](const wire::Asked& asked) -> std::optional<wire::Reply> {
    if (test::header(asked, "if-none-match").empty()) return std::nullopt;
    bucket_.objects["/lab/.combu/done/key"] = "a/run2/train\nsums";
    return wire::whole(412, test::fault("PreconditionFailed"));
  };
  put("s3://lab/a/run1/train");
  EXPECT_EQ(found(), "s3://lab/a/run2/train");
}

TEST_F(MarkersS3, NoTelemetryIsStoredIfThereIsNone) {
  put("s3://lab/a/run1/train");
  for (const std::string& key : keys()) EXPECT_EQ(key.find("/told/"), std::string::npos) << key;
}

TEST_F(MarkersS3, TelemetryIsReturnedUnlessItIsTooLarge) {
  put("s3://lab/a/run1/train", "metrics");
  EXPECT_EQ(telemetry(), "metrics");
  EXPECT_EQ(telemetry(Bytes{7}), "metrics");
  EXPECT_TRUE(fault_of([&] { (void)telemetry(Bytes{6}); }));
}

TEST_F(MarkersS3, AMarkerWithRequiredTelemetryReplacesAMarkerWithout) {
  put("s3://lab/a/run1/train");
  EXPECT_EQ(telemetry(), std::nullopt);
  leave("run2/train");
  put("s3://lab/a/run2/train", "metrics", true);
  EXPECT_EQ(found(), "s3://lab/a/run2/train");
  EXPECT_EQ(telemetry(), "metrics");
  leave("run3/train");
  put("s3://lab/a/run3/train", "others", true);
  EXPECT_EQ(found(), "s3://lab/a/run2/train");
}

}  // namespace
}  // namespace combu
