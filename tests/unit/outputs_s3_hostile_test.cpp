// Tests with an S3 server whose answers are endless or too slow.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "outputs/s3_client.hpp"
#include "outputs/s3_listing.hpp"
#include "s3_bucket.hpp"
#include "s3_requests.hpp"

namespace combu::outputs {
namespace {

using test::Hurried;
using test::requests_for_objects;
using test::S3;
using test::S3Request;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using wire::Asked;
using wire::Reply;

const std::string k_text(64 << 10, 'x');
const std::string k_ok = "HTTP/1.1 200 OK\r\n";

std::vector<Reply> without_end(const std::string& begin, const std::string& again) {
  return {wire::endless(k_ok + "Content-Length: 10000000000\r\n\r\n" + begin, again),
          wire::endless(k_ok + "Transfer-Encoding: chunked\r\n\r\n" + wire::chunk(begin), wire::chunk(again)),
          wire::endless(k_ok + "\r\n" + begin, again)};
}

class HostileS3 : public S3 {
 protected:
  std::unique_ptr<S3Client> client(Clock& clock) {
    return std::make_unique<S3Client>("lab", find_s3_account(caller_), 1, clock);
  }
  std::unique_ptr<S3Client> client() { return client(clock_); }

  void expect_refused(const std::function<void(S3Client&)>& what, const std::string& message) {
    const auto connection = client();
    const auto error = fault_of([&] { what(*connection); });
    ASSERT_TRUE(error) << message;
    EXPECT_EQ(error->kind(), ErrorKind::refused);
    EXPECT_THAT(error->subject(), StartsWith("s3://lab"));
    EXPECT_THAT(error->message(), HasSubstr(message));
    EXPECT_THAT(clock_.waits(), SizeIs(0)) << "it is not asked again";
  }
  static void list(S3Client& client) {
    client.list("a/", [](const S3Object&) {}, {});
  }
};

// All requests whose answer is kept in memory.
std::vector<S3Request> requests_with_answers() {
  std::vector<S3Request> requests = requests_for_objects();
  requests.emplace_back("list", [](S3Client& client) { client.list("a/", [](const S3Object&) {}, {}); });
  requests.emplace_back("check_list", [](S3Client& client) { client.check_list("a/", {}); });
  requests.emplace_back("remove", [](S3Client& client) { client.remove("a", {}); });
  requests.emplace_back("abort", [](S3Client& client) { client.abort("a", "u", {}); });
  return requests;
}

TEST(LeadsOut, IsTrueForNamesThatAreNotPathsBelowTheTrialsFolder) {
  for (const char* name : {"", "/", "/out", "..", "out/..", "../out", "out/../x", ".", "./out", "out/.",
                           "out/", "out//x", "out//", "//out"})
    EXPECT_TRUE(outputs::leads_out(name)) << name;
  EXPECT_TRUE(outputs::leads_out(std::string("out\0x", 5)));
  for (const char* name : {"out", "out/x", "out/..x", "out/x..", "out/...", "out/.x", "out/x y\\"})
    EXPECT_FALSE(outputs::leads_out(name)) << name;
}

TEST(AsListed, ANameThatCombuCannotHaveWrittenMakesTheDigestUnknown) {
  const std::string sum = sha256_of("x");
  const std::string entries = R"({"path":"manifest.entries","kind":"file","mode":"0644","mtime":"0"})"
                              "\n";
  EXPECT_TRUE(outputs::as_listed(sum + "  out/x\n", entries).known);
  EXPECT_FALSE(outputs::as_listed(sum + "  out//x\n", entries).known);
}

TEST_F(HostileS3, AnEndlessAnswerIsRefused) {
  for (const Reply& reply : without_end("<a>", k_text)) {
    answer(reply);
    expect_refused(&list, "the answer of http://127.0.0.1:");
  }
  for (const auto& [name, request] : requests_with_answers()) {
    SCOPED_TRACE(name);
    answer(without_end("<a>", k_text)[1]);
    expect_refused(request, "is larger than 16 MiB");
  }
}

TEST_F(HostileS3, EndlessHeadersAreRefused) {
  const std::string line = "X-Header: " + std::string(1000, 'x') + "\r\n";
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
  auto requests = requests_with_answers();
  requests.emplace_back("head", [](S3Client& client) { (void)client.head("a", {}); });
  requests.emplace_back("get", [](S3Client& client) { (void)client.get("a", [](std::string_view) {}, {}); });
  for (const auto& [name, request] : requests) {
    SCOPED_TRACE(name);
    answer({{k_ok, line}, Reply::Then::close, [line] { return line; }});
    expect_refused(request, "has more than 256 KiB of headers");
  }
  answer(wire::endless(interim, interim));
  expect_refused(&list, "has more than 256 KiB of headers");
}

TEST_F(HostileS3, AnAnswerKeptInMemoryHasATimeLimit) {
  Hurried clock;
  answer(wire::endless(k_ok + "Content-Length: 10000000000\r\n\r\n", "x"));
  const auto connection = client(clock);
  const auto error = fault_of([&] { list(*connection); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->message(), HasSubstr("was not complete within 10m00s"));
}

TEST_F(HostileS3, AnUploadMayTakeLongerThanAnAnswer) {
  Hurried clock;
  const std::string content(std::size_t{32} << 20U, 'x');
  const auto error = fault_of([&] { client(clock)->put("a", content, {}, {}); });
  EXPECT_EQ(error ? error->what() : std::string(), "");
  ASSERT_THAT(server_.asked(), SizeIs(1));
  EXPECT_THAT(server_.asked().front().head, HasSubstr("Expect: 100-continue"));
  EXPECT_EQ(bucket_.objects["/lab/a"].size(), content.size());
}

TEST_F(HostileS3, AnswersThatArriveByteByByteAreParsed) {
  bucket_.objects = {{"/lab/a/1", "one"}, {"/lab/a/2", "two"}, {"/lab/a/3", "three"}};
  bool is_within = false;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (is_within) return std::nullopt;
    is_within = true;
    Reply reply = wire::dripped(bucket_.answer(asked));
    is_within = false;
    return reply;
  };
  const auto connection = client();
  std::vector<std::string> keys;
  connection->list("a/", [&](const S3Object& object) { keys.push_back(object.key); }, {});
  EXPECT_THAT(keys, testing::ElementsAre("a/1", "a/2", "a/3"));
  EXPECT_EQ(connection->get_text("a/3", 5, {}), "three");
  EXPECT_EQ(connection->get_text("a/4", 5, {}), std::nullopt);
}

TEST_F(HostileS3, EndlessListingsAreRefused) {
  const auto page = [](const std::string& contents, const std::string& token) {
    return wire::whole(200, "<R>" + contents + "<IsTruncated>true</IsTruncated><NextContinuationToken>" +
                                token + "</NextContinuationToken></R>");
  };
  answer(page("<Contents><Key>a/1</Key></Contents>", "same"));
  expect_refused(&list, "the server lists the same page again and again");
  bucket_.trouble = [&](const Asked& asked) { return page("", std::to_string(asked.number)); };
  expect_refused(&list, "the server lists more than 1000 pages without an object");
  std::string many;
  for (int i = 0; i < 500'000; ++i) many += "<Contents></Contents>";
  bucket_.trouble = [&](const Asked& asked) { return page(many, std::to_string(asked.number)); };
  expect_refused(&list, "the server lists more than 2000000 objects");
}

TEST_F(HostileS3, ATextAboveItsSizeLimitIsRefused) {
  for (const Reply& reply : without_end("x", k_text)) {
    answer(reply);
    expect_refused([](S3Client& client) { (void)client.get_text("a", 1 << 20, {}); }, "is larger than 1 MiB");
  }
  const auto cache_index = open_s3_cache_index("s3://lab/a", caller_, clock_);
  EXPECT_THAT(fault_of([&] { (void)cache_index->find("key", {}); })->what(),
              HasSubstr("is larger than 2 KiB"));
  bucket_.trouble = [](const Asked& asked) -> std::optional<Reply> {
    if (asked.method == "HEAD") return Reply{{k_ok + "Content-Length: 9\r\n\r\n"}, Reply::Then::keep};
    return without_end("x", k_text).back();
  };
  const SharedCacheIndex::Mark mark{.key = "key", .place = "s3://lab/a/run/t", .version = "1"};
  EXPECT_THAT(fault_of([&] { (void)cache_index->telemetry(mark, Bytes{1000}, {}); })->what(),
              HasSubstr("is larger than 1000"));
}

TEST_F(HostileS3, ManyAmpersandsAreParsedInLinearTime) {
  const std::string key(1 << 20, '&');
  answer(wire::whole(200, "<R><Contents><Key>" + key + "</Key></Contents></R>"));
  std::string listed;
  client()->list("a/", [&](const S3Object& object) { listed = object.key; }, {});
  EXPECT_EQ(listed.size(), key.size());
}

TEST_F(HostileS3, AFetchEndsIfAnObjectIsLargerThanItsListingSays) {
  const std::string sum = sha256_of("small");
  for (const std::size_t size : {std::size_t{5}, std::size_t{2} << 20U}) {
    bucket_.objects = {{"/lab/a/run/t/manifest.sha256", sum + "  out/file\n"},
                       {"/lab/a/run/t/manifest.entries", ""},
                       {"/lab/a/run/t/out/file", std::string(size, 'x')}};
    bucket_.trouble = [](const Asked& asked) -> std::optional<Reply> {
      if (asked.method != "GET" || !asked.target.ends_with("out/file")) return std::nullopt;
      return without_end("x", k_text).back();
    };
    std::filesystem::create_directories(folder_.path());
    variables_["TMPDIR"] = folder_.path();
    const auto output_store = open_s3("s3://lab/a/run", caller_, clock_);
    const auto error = fault_of([&] { (void)output_store->fetch("t", "out/file", {}); });
    ASSERT_TRUE(error) << size;
    EXPECT_THAT(error->message(), HasSubstr("does not match its manifest"));
  }
}

}  // namespace
}  // namespace combu::outputs
