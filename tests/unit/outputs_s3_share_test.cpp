// Tests of share() in a bucket: outputs of one trial are copied to another trial.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "combu/outputs.hpp"
#include "outputs/s3_listing.hpp"
#include "s3_fetched.hpp"

namespace combu {
namespace {

using test::fault;
using test::FetchS3;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;
using wire::Asked;
using wire::Reply;

class SharedS3 : public FetchS3 {
 protected:
  void SetUp() override {
    FetchS3::SetUp();
    bring_whole({{"out/a", "alpha"}, {"out/b%FF &+", "beta"}},
                {{.kind = OutputEntry::Kind::hard_link, .path = "out/again", .target = "out/a"},
                 {.kind = OutputEntry::Kind::hard_link, .path = "out/thrice", .target = "out/again"}});
  }
  std::string share(const std::string& trial, const std::string& from = "t") {
    return output_store_->share(std::vector<Sharing>{{.trial = trial, .from = "s3://lab/a/run/" + from}})
        .at(0);
  }
  // The names of the trial's outputs, without the manifest and the list of entries.
  [[nodiscard]] std::vector<std::string> left_by(const std::string& trial) const {
    std::vector<std::string> names;
    for (const auto& [key, content] : bucket_.objects)
      if (const std::string place = "/lab/a/run/" + trial + "/out/"; key.starts_with(place))
        names.push_back(key.substr(place.size()));
    return names;
  }
  // Changes a file after the manifest was written.
  void edit(const std::string& name, const std::string& content) {
    bucket_.objects["/lab/a/run/" + name] = content;
    bucket_.written["/lab/a/run/" + name] = "2026-01-02T00:00:00.000Z";
  }
  [[nodiscard]] std::size_t requests(const std::string& line) const {
    return static_cast<std::size_t>(std::ranges::count(server_.lines(), line));
  }
};

TEST_F(SharedS3, AllOutputsAreSharedAlongAChain) {
  EXPECT_EQ(share("u"), "");
  EXPECT_EQ(share("v", "u"), "");
  for (const std::string trial : {"u", "v"}) {
    EXPECT_THAT(left_by(trial), UnorderedElementsAre("a", "b%25FF &+", "again", "thrice"));
    EXPECT_EQ(server_.lines().back(), "PUT /lab/a/run/v/manifest.sha256");
  }
  EXPECT_EQ(requests("GET /lab/a/run/t/out/a"), 0U) << "nothing is read";
}

TEST_F(SharedS3, EditedOutputsAreNotShared) {
  EXPECT_EQ(share("u"), "");
  for (const std::string name : {"out/a", "out/b%25FF &+", "out/thrice"}) {
    const std::string before = bucket_.objects["/lab/a/run/u/" + name];
    edit("u/" + name, "edited");
    EXPECT_EQ(
        share("v", "u"),
        "a/run/u/" + name + ": does not match its manifest: the file was changed after it was collected");
    EXPECT_THAT(left_by("v"), IsEmpty());
    edit("u/" + name, before);
    EXPECT_EQ(share("v", "u"), "") << "it is what it was";
    EXPECT_THAT(left_by("v"), SizeIs(4));
    output_store_->remove("v");
  }
}

TEST_F(SharedS3, AddedObjectsAreNotShared) {
  edit("t/out/notes", "mine");
  EXPECT_EQ(share("u"), "");
  EXPECT_THAT(left_by("u"), UnorderedElementsAre("a", "b%25FF &+", "again", "thrice"));
}

// Servers omit decimals of times in different ways.
TEST_F(SharedS3, TimesAreComparedAsTimes) {
  const auto set = [&](const std::string& manifest, const std::string& file) {
    bucket_.objects["/lab/a/run/t/out/a"] = "edited";
    for (auto& [key, time] : bucket_.written) time = "2026-01-01T00:00:00Z";
    bucket_.written["/lab/a/run/t/manifest.sha256"] = "2026-01-02T00:00:" + manifest;
    bucket_.written["/lab/a/run/t/out/a"] = "2026-01-02T00:00:" + file;
  };
  for (const auto& [manifest, file] :
       Contents{{"00.12Z", "00.123Z"}, {"00Z", "00.1Z"}, {"00.000Z", "00.001Z"}, {"09.9Z", "10Z"}}) {
    set(manifest, file);
    EXPECT_THAT(share("u"), HasSubstr("the file was changed after it was collected"))
        << manifest << " " << file;
  }
  for (const auto& [manifest, file] : Contents{{"00.123Z", "00.12Z"},
                                               {"00.1Z", "00Z"},
                                               {"00Z", "00.000Z"},
                                               {"00.100Z", "00.1Z"},
                                               {"10Z", "09.9Z"}}) {
    set(manifest, file);
    EXPECT_EQ(share("u"), "") << manifest << " " << file;
  }
}

TEST_F(SharedS3, MissingOutputsAreNotShared) {
  bucket_.objects.erase("/lab/a/run/t/out/a");
  EXPECT_EQ(share("u"), "a/run/t/out/a: is not in the bucket any more");
  bucket_.objects.erase("/lab/a/run/t/manifest.sha256");
  EXPECT_EQ(share("u"), "a/run/t/manifest.sha256: is not in the bucket any more");
}

TEST_F(SharedS3, AShareThatFailsHalfWayLeavesNothing) {
  bucket_.trouble = [](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "PUT" || !asked.target.ends_with("/thrice")) return std::nullopt;
    return wire::whole(403, fault("AccessDenied"));
  };
  EXPECT_THAT(share("u"), HasSubstr("do not allow s3:PutObject"));
  EXPECT_THAT(keys(), Each(StartsWith("/lab/a/run/t/")));
}

// A server copies at most 5 GiB at once.
TEST_F(SharedS3, ObjectsTooLargeToCopyAreNotShared) {
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (!asked.target.starts_with("/lab/?")) return std::nullopt;
    std::string xml = "<ListBucketResult>";
    for (const auto& [key, content] : bucket_.objects)
      xml += "<Contents><Key>" + key.substr(5) + "</Key><Size>" +
             (key.ends_with("/a") ? "5368709121" : "5368709120") + "</Size></Contents>";
    return wire::whole(200, xml + "</ListBucketResult>");
  };
  EXPECT_THAT(share("u"), AllOf(HasSubstr("t/out/a"), HasSubstr("5 GiB")));
  EXPECT_THAT(keys(), Each(StartsWith("/lab/a/run/t/")));
}

TEST_F(SharedS3, EarlierOutputsAreReplaced) {
  bucket_.objects["/lab/a/run/u/out/old"] = "of an earlier attempt";
  EXPECT_EQ(share("u"), "");
  EXPECT_THAT(left_by("u"), UnorderedElementsAre("a", "b%25FF &+", "again", "thrice"));
}

TEST_F(SharedS3, OutputsListedWithoutTheirManifestAreNotShared) {
  bucket_.trouble = [](const Asked& asked) -> std::optional<Reply> {
    if (!asked.target.starts_with("/lab/?")) return std::nullopt;
    return wire::whole(200, "<R><Contents><Key>a/run/t/out/a</Key><Size>5</Size></Contents></R>");
  };
  EXPECT_EQ(share("u"), "a/run/t/manifest.sha256: is not in the bucket any more");
}

TEST_F(SharedS3, ReadingEndsIfAnEditedFileIsLargerThanItsListingSays) {
  edit("t/out/a", "alphabet");
  bucket_.trouble = [](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "GET" || !asked.target.ends_with("out/a")) return std::nullopt;
    return wire::endless("HTTP/1.1 200 OK\r\n\r\n", std::string(std::size_t{1} << 16U, 'x'));
  };
  EXPECT_EQ(share("u"),
            "a/run/t/out/a: does not match its manifest: the file was changed after it was collected");
}

TEST_F(SharedS3, HoldsAnyIsTrueOnlyIfFilesWereShared) {
  bring_whole({});
  output_store_ = open_s3("s3://lab/a/run", caller_, clock_);
  EXPECT_EQ(share("u"), "");
  EXPECT_FALSE(output_store_->holds_any());
  bring_whole({{"out/a", "alpha"}});
  output_store_ = open_s3("s3://lab/a/run", caller_, clock_);
  EXPECT_EQ(share("u"), "");
  EXPECT_TRUE(output_store_->holds_any());
}

TEST_F(SharedS3, IsWholeIfTheManifestIsInThisBucket) {
  EXPECT_TRUE(output_store_->is_whole("s3://lab/a/run/t"));
  EXPECT_FALSE(output_store_->is_whole("s3://lab/a/run/never"));
  EXPECT_FALSE(output_store_->is_whole("s3://other/a/run/t"));
}

TEST_F(SharedS3, RemovalStartsWithTheManifest) {
  const std::size_t before = server_.lines().size();
  output_store_->remove("t");
  EXPECT_THAT(bucket_.objects, IsEmpty());
  auto lines = server_.lines();
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(before));
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("GET"); });
  ASSERT_THAT(lines, SizeIs(6));
  EXPECT_EQ(lines.front(), "DELETE /lab/a/run/t/manifest.sha256");
  lines.erase(lines.begin());
  EXPECT_THAT(lines, Not(Contains("DELETE /lab/a/run/t/manifest.sha256"))) << "once";
  output_store_->remove("never");
}

TEST(EndOfKey, ReturnsAShortKeyAndTheLastNamesOfALongKey) {
  const std::string key = "a/run/t/out/" + std::string(30, 'n') + "/model.10";
  ASSERT_EQ(key.size(), 51U);
  EXPECT_EQ(outputs::end_of_key(key.substr(0, 50)), key.substr(0, 50));
  EXPECT_EQ(outputs::end_of_key(key), "…/run/t/out/" + std::string(30, 'n') + "/model.10");
}

}  // namespace
}  // namespace combu
