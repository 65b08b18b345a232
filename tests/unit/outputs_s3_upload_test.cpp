// Tests of uploads to a bucket: sizes at the limits of S3, aborted uploads, and permissions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/outputs.hpp"
#include "s3_bucket.hpp"

namespace combu {
namespace {

using test::fault;
using test::header;
using test::S3;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;
using wire::Asked;
using wire::Reply;

constexpr std::int64_t k_mebi = std::int64_t{1} << 20U;

class UploadS3 : public S3 {
 protected:
  // The bodies of the uploaded parts, in the order of the requests.
  [[nodiscard]] std::vector<std::string> parts() const {
    std::vector<std::string> parts;
    for (const Asked& asked : server_.asked())
      if (asked.target.find("?partNumber=") != std::string::npos) parts.push_back(asked.body);
    return parts;
  }
  [[nodiscard]] bool is_asked(const std::string& method, const std::string& words) const {
    for (const std::string& line : server_.lines())
      if (line.starts_with(method) && line.find(words) != std::string::npos) return true;
    return false;
  }
};

TEST_F(UploadS3, AnUploadWithoutEarlierOutputsRemovesNothing) {
  bring({{"out/a", "alpha"}, {"large", std::string(17 * k_mebi, 'x')}});
  EXPECT_FALSE(is_asked("DELETE", ""));
}

TEST_F(UploadS3, OnlyAFileThatIsLargerThanAPartIsUploadedInParts) {
  bring({{"small", std::string(16 * k_mebi, 'x')}, {"large", std::string(16 * k_mebi + 1, 'x')}});
  EXPECT_FALSE(is_asked("POST", "small"));
  EXPECT_TRUE(is_asked("POST", "large"));
}

TEST_F(UploadS3, TheCompletionNamesAllPartsInOrder) {
  bring({{"large", std::string(33 * k_mebi, 'x')}});
  std::string completion;
  for (const Asked& asked : server_.asked())
    if (asked.method == "POST" && asked.target.find("?uploadId=") != std::string::npos)
      completion = asked.body;
  std::string expected = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const std::string number : {"1", "2", "3"})
    expected += "<Part><PartNumber>" + number + "</PartNumber><ETag>\"tag-" + number + "\"</ETag></Part>";
  EXPECT_EQ(completion, expected + "</CompleteMultipartUpload>");
}

TEST_F(UploadS3, TheSizeOfPartsDoesNotDependOnTheSizeOfWrites) {
  std::string content(40 * k_mebi, 'x');
  for (std::size_t i = 0; i < content.size(); i += 4096) content[i] = static_cast<char>(i >> 12U);
  const auto writer = output_store_->open("t", {});
  writer->add({.path = "large", .size = 40 * k_mebi});
  constexpr std::size_t k_piece = 3 * k_mebi + 1;
  for (std::size_t at = 0; at < content.size(); at += k_piece) writer->write(content.substr(at, k_piece));
  writer->close("sums\n");
  EXPECT_TRUE(bucket_.objects["/lab/a/run/t/large"] == content);
  std::vector<std::size_t> sizes;
  for (const std::string& part : parts()) sizes.push_back(part.size());
  EXPECT_THAT(sizes, UnorderedElementsAre(16 * k_mebi, 16 * k_mebi, 8 * k_mebi));
}

// S3 allows at most 10,000 parts.
TEST_F(UploadS3, PartsOfAVeryLargeFileAreLarger) {
  constexpr std::int64_t k_size = 400 * 1024 * k_mebi;
  const auto writer = output_store_->open("t", {});
  writer->add({.path = "large", .size = k_size});
  const std::string piece(k_mebi, 'x');
  for (int i = 0; i < 50; ++i) writer->write(piece);
  std::size_t seen = server_.asked().size();
  while (parts().empty()) server_.wait_for_requests(++seen);
  const auto size = static_cast<std::int64_t>(parts().front().size());
  EXPECT_GE(size * 10'000, k_size);
  EXPECT_LT(size, 50 * k_mebi);
}

TEST_F(UploadS3, AnObjectHasAtMost5Tebibytes) {
  constexpr std::int64_t k_most = std::int64_t{5} << 40U;
  const auto writer = output_store_->open("t", {});
  writer->add({.path = "most", .size = k_most});
  const auto fault = fault_of([&] { writer->add({.path = "more", .size = k_most + 1}); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::invalid);
  EXPECT_EQ(fault->message(), "is larger than 5 TiB, the limit of an object in a bucket");
}

TEST_F(UploadS3, AKeyHasAtMost1024Bytes) {
  const std::string name(1024 - std::string("a/run/t/").size(), 'n');
  EXPECT_FALSE(fault_of([&] { bring({{name, "x"}}); }));
  EXPECT_TRUE(fault_of([&] { bring({{name + "n", "x"}}); }));
}

// A server copies at most 5 GiB.
TEST_F(UploadS3, AHardLinkIsACopyUpTo5Gibibytes) {
  constexpr std::int64_t k_most = std::int64_t{5} << 30U;
  const auto writer = output_store_->open("t", {});
  for (const std::int64_t more : {0, 1}) {
    const std::string name = more == 0 ? "most" : "more";
    writer->add({.path = name, .size = k_most + more});
    writer->add({.kind = OutputEntry::Kind::hard_link, .path = name + "-again", .target = name});
  }
  writer->close("sums\n");
  EXPECT_THAT(keys(), AllOf(Contains("/lab/a/run/t/most-again"), Not(Contains("/lab/a/run/t/more-again"))));
  EXPECT_THAT(bucket_.objects["/lab/a/run/t/manifest.entries"], HasSubstr("more-again"));
}

TEST_F(UploadS3, AnErrorEndsTheOtherUploads) {
  bucket_.trouble = [](const Asked& asked) -> std::optional<Reply> {
    if (asked.target.ends_with("out/stalls")) return wire::stall();
    if (asked.target.ends_with("out/refused")) return wire::whole(403, fault("AccessDenied"));
    return std::nullopt;
  };
  const auto fault = fault_of([&] { bring({{"out/stalls", "x"}, {"out/refused", "x"}}); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::refused) << "the first one is told";
}

TEST_F(UploadS3, AnErrorIsThrownBeforeAllFilesAreAdded) {
  bucket_.trouble = [](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "PUT") return std::nullopt;
    return wire::whole(403, fault("AccessDenied"));
  };
  const auto writer = output_store_->open("t", {});
  const auto fault = fault_of([&] {
    for (int i = 0; i < 1000; ++i) add(*writer, std::to_string(i), "x");
  });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::refused);
}

TEST_F(UploadS3, AWriterWithoutCloseDoesNotWaitForItsUploads) {
  bucket_.trouble = [](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "PUT") return std::nullopt;
    return wire::stall();
  };
  const auto writer = output_store_->open("t", {});
  add(*writer, "a", "x");
  add(*writer, "b", "x");
  server_.wait_for_requests(2);  // a listing, and the first file
}

TEST_F(UploadS3, AStopCountsAsCancelled) {
  std::stop_source stop;
  const auto writer = output_store_->open("t", stop.get_token());
  add(*writer, "a", "x");
  stop.request_stop();
  const auto fault = fault_of([&] { writer->close("sums\n"); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::cancelled);
  EXPECT_FALSE(bucket_.objects.contains("/lab/a/run/t/manifest.sha256"));
}

TEST_F(UploadS3, KeysThatChangeDuringARunTakeEffect) {
  bring({{"a", "x"}});
  EXPECT_THAT(header(server_.asked().back(), "Authorization"),
              StartsWith("AWS4-HMAC-SHA256 Credential=the-key/"));
  variables_["AWS_ACCESS_KEY_ID"] = "later-key";
  bring({{"a", "x"}});
  EXPECT_THAT(header(server_.asked().back(), "Authorization"),
              StartsWith("AWS4-HMAC-SHA256 Credential=later-key/"));
}

TEST_F(UploadS3, ACheckNeedsNoPermissionToRemove) {
  bucket_.trouble = [](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "DELETE") return std::nullopt;
    return wire::whole(403, fault("AccessDenied"));
  };
  EXPECT_EQ(check(), "");
}

TEST_F(UploadS3, AStopEndsACheck) {
  std::stop_source stop;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "DELETE") return std::nullopt;
    stop.request_stop();
    return wire::stall();
  };
  const auto fault = fault_of([&] { check_s3("s3://lab/a/run", caller_, stop.get_token(), clock_); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::cancelled);
}

}  // namespace
}  // namespace combu
