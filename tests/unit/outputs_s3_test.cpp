// Tests of uploading outputs to a bucket: the requests to an S3 server, and server errors.
// tests/e2e/s3_test.py checks that real servers accept the signatures.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "combu/outputs.hpp"
#include "outputs/s3_account.hpp"
#include "outputs/s3_client.hpp"
#include "outputs/s3_entries.hpp"
#include "s3_bucket.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu {
namespace {

using test::fault;
using test::header;
using test::S3;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using wire::Asked;
using wire::Reply;

TEST_F(S3, HoldsAnyIsFalseWithoutFiles) {
  bring({}, "");
  EXPECT_FALSE(output_store_->holds_any());
  bring({{"out/empty", ""}});
  EXPECT_TRUE(output_store_->holds_any());
}

TEST_F(S3, FilesBecomeObjectsAndTheManifestIsWrittenLast) {
  bring({{"out/a.txt", "alpha"}, {"out/empty", ""}});
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/a.txt"], "alpha");
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/manifest.sha256"], "sums\n");
  EXPECT_THAT(keys(), ElementsAre("/lab/a/run/t/manifest.entries", "/lab/a/run/t/manifest.sha256",
                                  "/lab/a/run/t/out/a.txt", "/lab/a/run/t/out/empty"));
  EXPECT_EQ(server_.lines().back(), "PUT /lab/a/run/t/manifest.sha256");
  EXPECT_TRUE(output_store_->holds_any());
  for (const Asked& asked : server_.asked()) {
    EXPECT_EQ(header(asked, "x-amz-content-sha256"), sha256_of(asked.body)) << asked.target;
    EXPECT_THAT(header(asked, "Authorization"),
                AllOf(StartsWith("AWS4-HMAC-SHA256 Credential=the-key/"), HasSubstr("/us-east-1/s3/")));
    if (!asked.target.ends_with("a.txt")) continue;
    EXPECT_EQ(header(asked, "x-amz-meta-mode"), "0640");
    EXPECT_EQ(header(asked, "x-amz-meta-mtime"), "1000000000.500000000");
  }
}

TEST_F(S3, ALargeFileIsUploadedInParts) {
  std::string content((std::size_t{33} << 20U) + 5, 'x');
  for (std::size_t i = 0; i < content.size(); i += 4096) content[i] = static_cast<char>(i >> 12U);
  bring({{"big", content}, {"small", "s"}});
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/big"], content);
  EXPECT_THAT(bucket_.uploads, IsEmpty());
  EXPECT_THAT(server_.lines(), Contains("PUT /lab/a/run/t/big?partNumber=3&uploadId=id%2F1%2B"));
  EXPECT_EQ(server_.lines().back(), "PUT /lab/a/run/t/manifest.sha256");
}

TEST_F(S3, AServerThatOnlyClaimsToHaveJoinedThePartsIsDetected) {
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "POST" || asked.target.find("?uploadId=") == std::string::npos) return std::nullopt;
    return wire::whole(200, "<CompleteMultipartUploadResult/>");
  };
  const auto fault = fault_of([&] { bring({{"big", std::string(std::size_t{17} << 20U, 'x')}}); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::unavailable) << "all is sent again";
  EXPECT_THAT(
      fault->message(),
      HasSubstr("reported that the upload is complete, but the object is missing or has another size"));
  EXPECT_THAT(keys(), Not(Contains("/lab/a/run/t/manifest.sha256")));
}

TEST_F(S3, EntriesWithoutAnObjectAreInTheEntriesList) {
  const auto writer = output_store_->open("t", {});
  writer->add({.kind = OutputEntry::Kind::folder, .path = "out", .mode = 0750});
  add(*writer, "out/a", "alpha");
  writer->add({.kind = OutputEntry::Kind::symbolic_link, .path = "out/latest", .target = "a\xff"});
  writer->add({.kind = OutputEntry::Kind::hard_link, .path = "out/b", .target = "out/a"});
  writer->add({.kind = OutputEntry::Kind::hard_link, .path = "out/c", .target = "out/b"});
  writer->close("");
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/b"], "alpha") << "whoever knows nothing of links finds it";
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/c"], "alpha");
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/manifest.sha256"], "");
  std::istringstream lines(bucket_.objects["/lab/a/run/t/manifest.entries"]);
  std::vector<nlohmann::json> entries;
  for (std::string line; std::getline(lines, line);) entries.push_back(nlohmann::json::parse(line));
  ASSERT_THAT(entries, SizeIs(5));
  EXPECT_EQ(entries[0], nlohmann::json::parse(
                            R"({"path": "out", "kind": "folder", "mode": "0750", "mtime": "0.000000000"})"));
  EXPECT_EQ(entries[1]["kind"], "symbolic_link");
  EXPECT_EQ(entries[1]["target"], "a%FF");
  EXPECT_EQ(entries[1]["target_bytes"], "61ff");
  EXPECT_EQ(entries[2]["kind"], "hard_link");
  EXPECT_EQ(entries[2]["target"], "out/a");
  EXPECT_EQ(entries[4]["path"], "manifest.entries") << "it has all programs";
}

TEST_F(S3, ProgramsAreListed) {
  const auto writer = output_store_->open("t", {});
  add(*writer, "out/a", "alpha");
  writer->add({.path = "out/run", .mode = 0750, .size = 2});
  writer->write("#!");
  writer->close("");
  EXPECT_THAT(bucket_.objects["/lab/a/run/t/manifest.entries"],
              AllOf(HasSubstr(R"("path":"out/run","kind":"file","mode":"0750")"), Not(HasSubstr("out/a"))));
}

TEST_F(S3, OddNamesAreKept) {
  bring({{"out/a b+c=d&e%2F", "1"}, {"out/line\nend", "2"}, {"out/ümlaut", "3"}, {"out/\xff\xc3", "4"}});
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/a b+c=d&e%2F"], "1");
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/line\nend"], "2");
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/ümlaut"], "3");
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/%FF%C3"], "4") << "keys are UTF-8";
  EXPECT_THAT(bucket_.objects["/lab/a/run/t/manifest.entries"],
              HasSubstr(R"("path":"out/%FF%C3","kind":"file","path_bytes":"6f75742fffc3")"));
  EXPECT_THAT(server_.lines(), Contains("PUT /lab/a/run/t/out/a%20b%2Bc%3Dd%26e%252F"));
}

TEST_F(S3, DifferentNamesHaveDifferentKeys) {
  const std::vector<std::string> names{"\xff", "%FF", "%25FF", "%2525FF", "%\xff",
                                       "%ff",  "%7F", "%",     "%25",     "\x80%80"};
  std::set<std::string> keys;
  for (const std::string& name : names) keys.insert(outputs::as_key(name));
  EXPECT_THAT(keys, SizeIs(names.size()));
  EXPECT_EQ(outputs::as_key("%7F %ff %"), "%7F %ff %") << "as far as it can be told, as it is";
}

TEST_F(S3, AFileThatIsTooLargeForAnObjectIsTheAttemptsFault) {
  const auto writer = output_store_->open("t", {});
  const auto fault = fault_of([&] { writer->add({.path = "out/holes", .size = std::int64_t{1} << 60U}); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::invalid);
  EXPECT_EQ(fault->subject(), "out/holes");
}

TEST_F(S3, APathThatIsTooLongForS3IsTheAttemptsFault) {
  const auto fault = fault_of([&] { bring({{std::string(1100, 'n'), "x"}}); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::invalid);
  EXPECT_THAT(fault->message(), HasSubstr("S3 allows 1024 at most"));
}

TEST_F(S3, EarlierOutputsAreRemovedStartingWithTheManifest) {
  bring({{"out/a", "first"}, {"out/b", "first"}, {"out/c", "first"}});
  const std::size_t before = server_.lines().size();
  bring({{"out/a", "second"}}, "new sums\n");
  EXPECT_THAT(keys(), ElementsAre("/lab/a/run/t/manifest.entries", "/lab/a/run/t/manifest.sha256",
                                  "/lab/a/run/t/out/a"));
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/a"], "second");
  auto lines = server_.lines();
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(before));
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("GET"); });
  EXPECT_EQ(lines.front(), "DELETE /lab/a/run/t/manifest.sha256");
  EXPECT_EQ(lines.back(), "PUT /lab/a/run/t/manifest.sha256");
}

TEST_F(S3, EarlierOutputsWithOddNamesAreRemoved) {
  for (const bool encodes : {true, false}) {
    bucket_.encodes = encodes;
    bring({{"a b+c%41&amp;", "1"}, {"line\nend", "2"}, {"ümlaut", "3"}, {"\xff", "4"}});
    EXPECT_THAT(bucket_.objects, SizeIs(6));
    bring({});
    EXPECT_THAT(keys(), ElementsAre("/lab/a/run/t/manifest.entries", "/lab/a/run/t/manifest.sha256"));
  }
}

TEST_F(S3, OutputsOfOtherTrialsStay) {
  bucket_.objects["/lab/a/run/t2/manifest.sha256"] = "of t2";
  bring({{"out/a", "x"}});
  EXPECT_EQ(bucket_.objects["/lab/a/run/t2/manifest.sha256"], "of t2");
}

TEST_F(S3, AWriterWithoutCloseLeavesNothingThatLooksComplete) {
  bring({{"out/a", "first"}});
  {
    const auto writer = output_store_->open("t", {});
    add(*writer, "out/a", "second");
    add(*writer, "big", std::string(std::size_t{17} << 20U, 'x'));
    add(*writer, "after", "x");
  }
  EXPECT_FALSE(bucket_.objects.contains("/lab/a/run/t/manifest.sha256"));
  EXPECT_THAT(bucket_.uploads, IsEmpty()) << "parts that nobody sees cost money";
}

TEST_F(S3, EarlierOutputsStayUntilTheFirstEntryIsAdded) {
  bring({{"out/a", "first"}});
  { const auto writer = output_store_->open("t", {}); }
  EXPECT_TRUE(bucket_.objects.contains("/lab/a/run/t/manifest.sha256"));
}

TEST_F(S3, RequestsToAnOverloadedServerAreRepeated) {
  int refusals = 0;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (!asked.target.ends_with("out/a") || ++refusals > 3) return std::nullopt;
    return refusals == 1   ? wire::whole(503, fault("SlowDown"), "Retry-After: 7\r\n")
           : refusals == 2 ? wire::whole(429, "")
                           : wire::whole(400, fault("RequestTimeout"));
  };
  bring({{"out/a", "alpha"}});
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/a"], "alpha");
  EXPECT_THAT(clock_.waits(), ElementsAre(7, 1, 2)) << "as long as it asks for";
}

TEST_F(S3, ACutConnectionIsReplaced) {
  int cuts = 0;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (!asked.target.ends_with("out/a") || ++cuts > 2) return std::nullopt;
    return cuts == 1 ? wire::hang_up() : wire::cut("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  };
  bring({{"out/a", "alpha"}});
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/a"], "alpha");
  EXPECT_THAT(keys(), Contains("/lab/a/run/t/manifest.sha256"));
}

TEST_F(S3, AfterTooManyRetriesTheServerCountsAsUnavailable) {
  bring({{"out/a", "first"}});
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method == "PUT" && asked.target.ends_with("out/b")) return wire::whole(503, fault("SlowDown"));
    return std::nullopt;
  };
  const auto fault = fault_of([&] { bring({{"out/a", "second"}, {"out/b", "second"}}); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::unavailable);
  EXPECT_THAT(fault->what(),
              AllOf(HasSubstr("s3://lab/a/run/t/out/b: "), HasSubstr("answered 503 SlowDown")));
  EXPECT_THAT(clock_.waits(), ElementsAre(0.5, 1, 2, 4));
  EXPECT_FALSE(bucket_.objects.contains("/lab/a/run/t/manifest.sha256"));
  bucket_.trouble = nullptr;
  bring({{"out/a", "second"}, {"out/b", "second"}});
  EXPECT_TRUE(bucket_.objects.contains("/lab/a/run/t/manifest.sha256"));
}

TEST_F(S3, AnErrorInAnAnswerWithStatus200IsAnError) {
  int refusals = 0;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "POST" || asked.target.find("uploadId=") == std::string::npos || ++refusals > 1)
      return std::nullopt;
    return wire::whole(200, "\n \n" + fault("InternalError"));
  };
  bring({{"big", std::string(std::size_t{17} << 20U, 'x')}});
  EXPECT_EQ(refusals, 2);
  EXPECT_THAT(bucket_.objects["/lab/a/run/t/big"], SizeIs(std::size_t{17} << 20U));
}

TEST_F(S3, AStopEndsTheRetriesOfAnUpload) {
  std::stop_source stop;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "PUT") return std::nullopt;
    stop.request_stop();
    return wire::whole(503, fault("SlowDown"));
  };
  const auto fault = fault_of([&] {
    const auto writer = output_store_->open("t", stop.get_token());
    add(*writer, "a", "x");
    writer->close("");
  });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::cancelled);
  EXPECT_THAT(clock_.waits(), IsEmpty());
}

TEST_F(S3, ManyTrialsCanUploadManyFilesAtOnce) {
  std::vector<std::jthread> trials;
  for (int i = 0; i < 4; ++i) {
    trials.emplace_back([&, i] {
      const auto writer = output_store_->open("t" + std::to_string(i), {});
      for (int file = 0; file < 100; ++file) add(*writer, "out/" + std::to_string(file), std::to_string(i));
      writer->close("");
    });
  }
  trials.clear();
  EXPECT_THAT(bucket_.objects, SizeIs(4 * 102));
  EXPECT_EQ(bucket_.objects["/lab/a/run/t3/out/99"], "3");
}

// ---- Before the run

TEST_F(S3, ACheckLeavesNothing) {
  EXPECT_EQ(check(), "");
  EXPECT_THAT(bucket_.objects, IsEmpty());
  EXPECT_THAT(bucket_.uploads, IsEmpty());
}

TEST_F(S3, ACheckReportsTheCause) {
  Reply reply;
  bucket_.trouble = [&](const Asked& /*asked*/) { return reply; };
  reply = wire::whole(404, fault("NoSuchBucket"));
  EXPECT_EQ(check(), "s3://lab: there is no such bucket");
  reply = wire::whole(403, fault("InvalidAccessKeyId", "<AWSAccessKeyId>the-key</AWSAccessKeyId>"));
  EXPECT_EQ(check(), "s3://lab: the server does not know the access key from AWS_ACCESS_KEY_ID");
  reply = wire::whole(404, fault("XAdminUserNotFound"));
  EXPECT_EQ(check(), "s3://lab: the server does not know the access key from AWS_ACCESS_KEY_ID");
  reply = wire::whole(403, fault("SignatureDoesNotMatch"));
  EXPECT_EQ(check(), "s3://lab: the secret key does not belong to the access key from AWS_ACCESS_KEY_ID");
  reply = wire::whole(403, fault("ExpiredToken"));
  EXPECT_EQ(check(), "s3://lab: the session of the keys from AWS_ACCESS_KEY_ID has expired; log in again");
  reply = wire::whole(400, fault("AuthorizationHeaderMalformed", "<Region>eu-north-1</Region>"));
  EXPECT_EQ(check(), "s3://lab: the bucket is in the region eu-north-1; set AWS_REGION");
  reply = wire::whole(403, fault("AccessDenied"));
  EXPECT_EQ(check(), "s3://lab: the keys from AWS_ACCESS_KEY_ID do not allow s3:ListBucket");
  reply = wire::whole(403, fault("RequestTimeTooSkewed"), "Date: Sat, 01 Jan 2000 00:00:00 GMT\r\n");
  EXPECT_THAT(
      check(),
      AllOf(StartsWith("s3://lab: this machine's clock is "),
            EndsWith("ahead of the server's, and signatures are valid for 15 minutes; set the clock")));
  reply = wire::whole(400, fault("NoSuchThing"));
  EXPECT_THAT(check(), EndsWith(" answered 400 NoSuchThing: words"));
  EXPECT_THAT(clock_.waits(), IsEmpty());
  reply = wire::hang_up();
  EXPECT_THAT(check(), StartsWith("s3://lab: http://127.0.0.1:"));
  EXPECT_THAT(clock_.waits(), SizeIs(1));
}

TEST_F(S3, ACheckFailsWithoutWritePermission) {
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method == "GET") return std::nullopt;
    return wire::whole(403, fault("AccessDenied"));
  };
  EXPECT_EQ(check(), "s3://lab/a/run/.combu: the keys from AWS_ACCESS_KEY_ID do not allow s3:PutObject");
}

// ---- Single requests

TEST_F(S3, ObjectsAreReadBack) {
  outputs::S3Client client("lab", outputs::find_s3_account(caller_), 2, clock_);
  for (int i = 0; i < 5; ++i) client.put("p/" + std::to_string(i), std::string(i, 'x'), {}, {});
  std::vector<std::string> listed;
  client.list(
      "p/", [&](const outputs::S3Object& one) { listed.push_back(one.key + " " + std::to_string(one.size)); },
      {});
  EXPECT_THAT(listed, ElementsAre("p/0 0", "p/1 1", "p/2 2", "p/3 3", "p/4 4")) << "page by page";
  std::string bytes;
  const auto take = [&](std::string_view piece) { bytes += piece; };
  EXPECT_TRUE(client.get("p/3", take, {}));
  EXPECT_EQ(bytes, "xxx");
  EXPECT_FALSE(client.get("p/9", take, {}));
  EXPECT_FALSE(client.head("p/9", {}));
  ASSERT_TRUE(client.head("p/4", {}));
  EXPECT_EQ(client.head("p/4", {})->size, 4);

  int asked_for = 0;
  bytes.clear();
  bucket_.trouble = [&](const Asked& /*asked*/) {
    ++asked_for;
    return wire::cut("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  };
  EXPECT_TRUE(fault_of([&] { client.get("p/3", take, {}); }));
  EXPECT_EQ(bytes, "half") << "never twice";
  EXPECT_EQ(asked_for, 1);
}

TEST_F(S3, TheHostNameOfAmazonContainsTheBucket) {
  // The proxy gets the address of each request.
  ASSERT_EQ(setenv("https_proxy", ("http" + server_.address().substr(3)).c_str(), 1), 0);  // NOLINT
  bucket_.trouble = [](const Asked& /*asked*/) { return wire::whole(403, "no"); };
  variables_.erase("S3_ENDPOINT_URL");
  EXPECT_NE(check(), "");
  variables_["AWS_REGION"] = "cn-north-1";
  EXPECT_NE(check(), "");
  EXPECT_TRUE(fault_of([&] { check_s3("s3://lab.example.com", caller_, {}, clock_); }));
  unsetenv("https_proxy");  // NOLINT
  EXPECT_THAT(server_.lines(), AllOf(Contains("CONNECT lab.s3.us-east-1.amazonaws.com:443"),
                                     Contains("CONNECT lab.s3.cn-north-1.amazonaws.com.cn:443"),
                                     Contains("CONNECT s3.cn-north-1.amazonaws.com.cn:443")));
}

}  // namespace
}  // namespace combu
