// Tests of S3Client: the result of each request for each kind of answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outputs/s3_answers.hpp"
#include "outputs/s3_client.hpp"
#include "s3_bucket.hpp"
#include "s3_requests.hpp"

namespace combu::outputs {
namespace {

using test::fault;
using test::header;
using test::Hurried;
using test::requests_for_objects;
using test::S3;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;
using wire::Asked;
using wire::Reply;

// A clock that always returns the same time.
class Standing final : public Clock {
 public:
  explicit Standing(std::int64_t seconds) : now_(std::chrono::seconds(seconds)) {}
  Instant now() override { return now_; }
  void wait(Seconds /*duration*/, std::stop_token /*stop*/) override {}

 private:
  Instant now_;
};

class ClientS3 : public S3 {
 protected:
  void SetUp() override { client_ = std::make_unique<S3Client>("lab", find_s3_account(caller_), 2, clock_); }
  std::string fault_text(const std::function<void()>& what, ErrorKind kind) {
    const auto error = fault_of(what);
    if (!error) return "";
    EXPECT_EQ(error->kind(), kind);
    return error->what();
  }
  std::string get(const std::string& key) {
    std::string bytes;
    EXPECT_TRUE(client_->get(key, [&](std::string_view piece) { bytes += piece; }, {}));
    return bytes;
  }

  std::unique_ptr<S3Client> client_;
};

TEST_F(ClientS3, EveryRequestToAMissingBucketIsRefused) {
  auto requests = requests_for_objects();
  requests.emplace_back("list", [](S3Client& client) { client.list("", [](const S3Object&) {}, {}); });
  requests.emplace_back("check_list", [](S3Client& client) { client.check_list("", {}); });
  for (const Reply& reply : {wire::whole(404, fault("NoSuchBucket")), wire::whole(404, "")}) {
    answer(reply);
    for (const auto& [name, request] : requests)
      EXPECT_EQ(fault_text([&] { request(*client_); }, ErrorKind::refused),
                "s3://lab: there is no such bucket")
          << name;
  }
}

TEST_F(ClientS3, ALostUploadCountsAsUnavailable) {
  answer(wire::whole(404, fault("NoSuchUpload")));
  for (const auto& [name, request] : requests_for_objects())
    EXPECT_EQ(fault_text([&] { request(*client_); }, ErrorKind::unavailable),
              "s3://lab/a: the server no longer has the object or upload (NoSuchUpload)")
        << name;
  EXPECT_FALSE(fault_of([&] { client_->remove("a", {}); })) << "what is gone need not be removed";
  EXPECT_FALSE(fault_of([&] { client_->abort("a", "u", {}); }));
  answer(wire::whole(200, "<R></R>"));
  EXPECT_EQ(fault_text([&] { (void)client_->begin("a", {}, {}); }, ErrorKind::unavailable),
            "s3://lab/a: the server's answer contains no UploadId");
}

TEST_F(ClientS3, PutNewWritesOnlyIfTheKeyDoesNotExist) {
  int condition = 0;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (header(asked, "if-none-match") != "*" || condition == 200) return std::nullopt;
    return wire::whole(condition, fault("Condition"));
  };
  const auto put_new = [&](const std::string& bytes) { return client_->put_new("a", bytes, {}, {}); };
  for (condition = 412; condition > 0; condition = condition == 412 ? 409 : 0)
    EXPECT_FALSE(put_new("refused")) << condition;
  EXPECT_THAT(bucket_.objects, IsEmpty());
  condition = 200;
  EXPECT_TRUE(put_new("new"));
  EXPECT_EQ(bucket_.objects["/lab/a"], "new");
  EXPECT_THAT(server_.lines(), SizeIs(3));
  condition = 501;
  EXPECT_TRUE(put_new("of a server that cannot tell"));
  EXPECT_EQ(bucket_.objects["/lab/a"], "of a server that cannot tell");
  EXPECT_THAT(server_.lines(), SizeIs(5));
  condition = 403;
  EXPECT_THAT(fault_text([&] { (void)put_new("x"); }, ErrorKind::refused), HasSubstr("do not allow"));
}

TEST_F(ClientS3, AnUnexpectedConditionalStatusIsAnError) {
  for (const int status : {409, 412}) {
    answer(wire::whole(status, fault("Conflict")));
    EXPECT_THAT(fault_text([&] { client_->put("a", "x", {}, {}); }, ErrorKind::refused),
                EndsWith(" answered " + std::to_string(status) + " Conflict: words"));
  }
}

TEST_F(ClientS3, RequestsToAServerInTroubleAreRepeated) {
  for (const Reply& reply : {wire::whole(500, ""), wire::whole(408, ""), wire::whole(429, ""),
                             wire::whole(400, fault("BadDigest")), wire::whole(200, fault("SlowDown"))}) {
    bucket_.trouble = [&, asked = 0](const Asked&) mutable -> std::optional<Reply> {
      return ++asked > 1 ? std::nullopt : std::optional(reply);
    };
    client_->put("a", "x", {}, {});
    EXPECT_EQ(bucket_.objects["/lab/a"], "x") << reply.pieces[0];
    bucket_.objects.clear();
  }
  answer(wire::whole(503, ""));
  EXPECT_THAT(fault_text([&] { client_->put("a", "x", {}, {}); }, ErrorKind::unavailable),
              EndsWith(" answered 503 to every try"));
  answer(wire::hang_up());
  EXPECT_THAT(fault_text([&] { client_->put("a", "x", {}, {}); }, ErrorKind::unavailable),
              EndsWith(": Empty reply from server"));
}

TEST_F(ClientS3, AnErrorAnswerIsNotTakenForAnObject) {
  for (const int status : {300, 301, 400}) {
    answer(wire::whole(status, fault("PermanentRedirect")));
    EXPECT_THAT(fault_text([&] { EXPECT_EQ(get("a"), ""); }, ErrorKind::refused),
                EndsWith(" answered " + std::to_string(status) + " PermanentRedirect: words"));
  }
  answer(wire::whole(300, ""));
  EXPECT_THAT(fault_text([&] { client_->put("a", "x", {}, {}); }, ErrorKind::refused),
              HasSubstr(" answered 300"));
  answer(wire::whole(400, "<Error><Code>Odd</Code></Error>"));
  EXPECT_THAT(fault_text([&] { (void)get("a"); }, ErrorKind::refused), EndsWith(" answered 400 Odd"));
}

TEST_F(ClientS3, TheErrorNamesTheRegionOfTheBucket) {
  answer(wire::whole(301, "", "X-Amz-Bucket-Region:eu-north-1\r\n"));
  EXPECT_EQ(fault_text([&] { (void)client_->head("a", {}); }, ErrorKind::refused),
            "s3://lab/a: the bucket is in the region eu-north-1; set AWS_REGION");
  answer(wire::whole(301, "<R><Region>elsewhere</Region></R>", "x-amz-bucket-region: eu-north-1\r\n"));
  EXPECT_EQ(fault_text([&] { (void)get("a"); }, ErrorKind::refused),
            "s3://lab/a: the bucket is in the region eu-north-1; set AWS_REGION");
  answer(wire::whole(403, fault("AccessDenied", "<Region>us-east-1</Region>")));
  EXPECT_EQ(fault_text([&] { client_->remove("a", {}); }, ErrorKind::refused),
            "s3://lab/a: the keys from AWS_ACCESS_KEY_ID do not allow s3:DeleteObject");
}

TEST_F(ClientS3, HeaderNamesAreCaseInsensitive) {
  bucket_.objects["/lab/a"] = "alpha";
  bucket_.metadata["/lab/a"] =
      "ETAG:\"tag\" \r\nX-Amz-Meta-Mode: 0640\r\nx-amz-meta-mtime:\t1.5\r\nDate-Of: x\r\n";
  const auto object = client_->head("a", {});
  ASSERT_TRUE(object);
  EXPECT_EQ(object->tag, "\"tag\"");
  EXPECT_EQ(object->mode, "0640");
  EXPECT_EQ(object->mtime, "1.5");
  EXPECT_EQ(object->size, 5);
}

TEST_F(ClientS3, TheErrorForAWrongClockNamesTheDifference) {
  const auto skewed = [&](std::int64_t now, const std::string& date) {
    answer(wire::whole(403, fault("RequestTimeTooSkewed"), date));
    Standing clock(now);
    S3Client client("lab", find_s3_account(caller_), 0, clock);
    return fault_text([&] { client.remove("a", {}); }, ErrorKind::refused);
  };
  const std::string date = "Date: Sat, 01 Jan 2000 00:00:00 GMT\r\n";
  constexpr std::int64_t k_date = 946'684'800;
  const std::string rest = " the server's, and signatures are valid for 15 minutes; set the clock";
  const std::string unknown =
      "s3://lab/a: the server reports that this machine's clock is wrong; set the clock";
  EXPECT_EQ(skewed(k_date + 60, date), "s3://lab/a: this machine's clock is 1m00s ahead of" + rest);
  EXPECT_EQ(skewed(k_date - 3600, date), "s3://lab/a: this machine's clock is 1h00m behind" + rest);
  EXPECT_EQ(skewed(k_date + 59, date), unknown);
  EXPECT_EQ(skewed(k_date, ""), unknown);
}

TEST_F(ClientS3, ASessionTokenIsSentIfThereIsOne) {
  client_->put("a", "x", {}, {});
  EXPECT_EQ(server_.asked().back().head.find("x-amz-security-token"), std::string::npos);
  variables_["AWS_SESSION_TOKEN"] = "the-token";
  client_->use(find_s3_account(caller_));
  client_->put("a", "x", {}, {});
  EXPECT_EQ(header(server_.asked().back(), "x-amz-security-token"), "the-token");
}

TEST_F(ClientS3, AnEmptyPageDoesNotEndAListing) {
  const auto page = [](const std::string& contents, const std::string& next) {
    return wire::whole(200, "<R>" + contents + "<IsTruncated>" + (next.empty() ? "false" : "true") +
                                "</IsTruncated><NextContinuationToken>" + next +
                                "</NextContinuationToken></R>");
  };
  const std::vector<Reply> pages{page("<Contents><Key>a</Key></Contents>", "1"), page("", "2"), page("", "3"),
                                 page("<Contents><Key>b</Key></Contents>", "")};
  bucket_.trouble = [&](const Asked& asked) { return pages.at(asked.number); };
  std::vector<std::string> listed;
  client_->list("", [&](const S3Object& object) { listed.push_back(object.key); }, {});
  EXPECT_THAT(listed, ElementsAre("a", "b"));
}

TEST_F(ClientS3, ConnectionsAreReused) {
  for (int i = 0; i < 5; ++i) client_->put("a", "x", {}, {});
  EXPECT_EQ(server_.connections(), 1U);
}

TEST_F(ClientS3, PermanentErrorsAreNotRetried) {
  const auto fault_at = [&](const std::string& endpoint) {
    variables_["S3_ENDPOINT_URL"] = endpoint;
    client_->use(find_s3_account(caller_));
    const std::string text = fault_text([&] { client_->put("a", "x", {}, {}); }, ErrorKind::refused);
    EXPECT_THAT(text, StartsWith("s3://lab/a: " + endpoint + ": "));
    EXPECT_THAT(clock_.waits(), IsEmpty());
    return text;
  };
  (void)fault_at("http://[::1");
  variables_["AWS_CA_BUNDLE"] = "/no/such/bundle";
  EXPECT_THAT(fault_at("https" + server_.address().substr(3)), HasSubstr("/no/such/bundle"));
}

TEST_F(ClientS3, ADownloadHasNoTimeLimit) {
  Hurried clock;
  S3Client client("lab", find_s3_account(caller_), 0, clock);
  bucket_.trouble = [](const Asked&) { return wire::dripped(wire::whole(200, std::string(1000, 'x'))); };
  EXPECT_EQ(client.get_text("a", 1000, {}), std::string(1000, 'x'));
}

// ---- Texts

TEST(Answers, EntitiesAreDecoded) {
  const auto element_of = [](const std::string& text) { return element("<A>" + text + "</A>", "A"); };
  EXPECT_EQ(element_of("&lt;&gt;&quot;&apos;&amp;"), "<>\"'&");
  EXPECT_EQ(element_of("&#65;&#x42;&#x7f;"), "AB\x7f");
  for (const std::string text :
       {"&", "&;", "&#;", "&#x;", "&#12a;", "&#128;", "&#x80;", "&none;", "a&b", "&amp"})
    EXPECT_EQ(element_of(text), text);
  EXPECT_EQ(element_of("&amp;amp;"), "&amp;");
  EXPECT_EQ(element("<A>1</A><B>2</B>", "B"), "2");
  for (const std::string xml : {"", "<A>", "</A>", "<A>1</B>"}) EXPECT_EQ(element(xml, "A"), "") << xml;
}

TEST(Answers, APageOfAListingIsParsed) {
  const S3Page page = read_page(
      "<R><EncodingType>url</EncodingType>"
      "<Contents><Key>a+b%2B</Key><Size>12</Size><LastModified>2026-01-02T03:04:05.600Z</LastModified></"
      "Contents>"
      "<Contents><Key>c</Key><Size>none</Size><LastModified>2026-01-02T03:04:50Z</LastModified></Contents>"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken></R>");
  ASSERT_THAT(page.objects, SizeIs(2));
  EXPECT_EQ(page.objects[0].key, "a b+");
  EXPECT_EQ(page.objects[0].size, 12);
  EXPECT_EQ(page.objects[0].written, "2026-01-02T03:04:05.6");
  EXPECT_EQ(page.objects[1].size, 0);
  EXPECT_EQ(page.objects[1].written, "2026-01-02T03:04:50");
  EXPECT_EQ(page.next, "more");
  EXPECT_EQ(read_page("<NextContinuationToken>more</NextContinuationToken>").next, "") << "it is the last";
}

}  // namespace
}  // namespace combu::outputs
