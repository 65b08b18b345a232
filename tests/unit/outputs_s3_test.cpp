// Outputs on their way into a bucket: what is asked of an S3 server, and what comes of its faults. Whether
// real ones take the signatures is tests/e2e/s3_test.py's.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "combu/inputs.hpp"
#include "combu/outputs.hpp"
#include "outputs/s3_account.hpp"
#include "outputs/s3_client.hpp"
#include "outputs/s3_entries.hpp"
#include "record_folder.hpp"
#include "wire/scripted_daemon.hpp"

namespace {
std::atomic<int> syncs = 0;  // of files and file systems
}

// In the place of the system's.
extern "C" int fsync(int file) {
  ++syncs;
  return static_cast<int>(syscall(SYS_fsync, file));
}
extern "C" int syncfs(int file) noexcept {
  ++syncs;
  return static_cast<int>(syscall(SYS_syncfs, file));
}

namespace combu {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;
using wire::Asked;
using wire::Reply;

// Waits for nothing, and keeps how long it was asked to.
class Impatient final : public Clock {
 public:
  Instant now() override { return real_clock().now(); }
  void wait(Seconds duration, std::stop_token /*stop*/) override {
    const std::scoped_lock lock(mutex_);
    waits_.push_back(duration.count());
  }
  [[nodiscard]] std::vector<double> waits() const {
    const std::scoped_lock lock(mutex_);
    return waits_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<double> waits_;
};

std::string header(const Asked& asked, const std::string& name) {
  std::istringstream lines(asked.head);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ": ")) return line.substr(name.size() + 2, line.size() - name.size() - 3);
  return "";
}

std::string fault(const std::string& code, const std::string& more = "") {
  return "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>words</Message>" + more +
         "</Error>";
}

// The bucket `lab` of a server, as far as the depot needs one.
class Bucket {
 public:
  // A reply of its own to a request; nullopt lets the bucket answer.
  using Trouble = std::function<std::optional<Reply>(const Asked&)>;

  Reply answer(const Asked& asked) {
    Reply reply = whole_answer(asked);
    if (asked.method == "HEAD" && reply.pieces.size() == 1) {
      std::string& text = reply.pieces.front();
      text.erase(text.find("\r\n\r\n") + 4);
    }
    return reply;
  }

  std::map<std::string, std::string> objects;                 // by "/lab/KEY"
  std::map<std::string, std::string> metadata;                // headers of theirs
  std::map<std::string, std::string> written;                 // when
  std::map<std::string, std::map<int, std::string>> uploads;  // that have not been completed
  Trouble trouble;
  bool encodes = true;  // the keys of a listing, as it is asked to
  bool knows_ranges = true;

 private:
  Reply whole_answer(const Asked& asked) {
    if (trouble)
      if (auto reply = trouble(asked)) return *reply;
    const std::size_t mark = asked.target.find('?');
    const std::string key = plain(asked.target.substr(0, mark));
    const std::string query = mark == std::string::npos ? "" : asked.target.substr(mark + 1);
    if (key == "/lab/") return list(query);
    if (query.starts_with("uploads=")) {
      uploads[key];
      metadata[key] = metadata_of(asked);
      return wire::whole(200, "<R><UploadId>" + std::string("id/1+") + "</UploadId></R>");
    }
    if (query.starts_with("partNumber=")) {
      uploads.at(key)[std::atoi(query.c_str() + 11)] = asked.body;
      return wire::whole(200, "", "ETag: \"tag-" + query.substr(11, query.find('&') - 11) + "\"\r\n");
    }
    if (query.starts_with("uploadId=")) return end_upload(asked, key);
    if (asked.method == "DELETE") {
      objects.erase(key);
      return wire::bare(204);
    }
    if (asked.method == "GET" || asked.method == "HEAD") {
      if (!objects.contains(key)) return wire::whole(404, fault("NoSuchKey"));
      const std::string range = header(asked, "range");
      if (range.empty() || !knows_ranges) return wire::whole(200, objects[key], metadata[key]);
      const std::size_t from = std::stoul(range.substr(std::string("bytes=").size()));
      if (from >= objects[key].size()) return wire::whole(416, fault("InvalidRange"));
      return wire::whole(206, objects[key].substr(from), metadata[key]);
    }
    const std::string source = plain(header(asked, "x-amz-copy-source"));
    metadata[key] = source.empty() ? metadata_of(asked) : metadata[source];
    std::array<char, 40> now{};
    std::snprintf(now.data(), now.size(), "2026-01-01T%02d:%02d:%02d.000Z", ticks_ / 3600, ticks_ / 60 % 60,
                  ticks_ % 60);
    ++ticks_;
    written[key] = now.data();
    objects[key] = source.empty() ? asked.body : objects.at(source);
    return wire::whole(200, source.empty() ? "" : "<CopyObjectResult></CopyObjectResult>", "ETag: \"x\"\r\n");
  }

  static std::string metadata_of(const Asked& asked) {
    std::string lines;
    for (const char* const name : {"x-amz-meta-mode", "x-amz-meta-mtime"})
      if (const std::string value = header(asked, name); !value.empty())
        lines += std::string(name) + ": " + value + "\r\n";
    return lines;
  }

  static std::string plain(const std::string& text) {
    std::string bytes;
    for (std::size_t i = 0; i < text.size(); ++i) {
      bytes += text[i] == '%' ? static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)) : text[i];
      if (text[i] == '%') i += 2;
    }
    return bytes;
  }

  // As MinIO and Amazon do, or as versitygw does.
  [[nodiscard]] std::string listed(const std::string& key) const {
    std::string text;
    for (const char letter : key) {
      if (encodes) {
        text += letter == ' '    ? "+"
                : letter == '+'  ? "%2B"
                : letter == '\n' ? "%0A"
                : letter == '&'  ? "%26"
                : letter == '%'  ? "%25"
                                 : std::string(1, letter);
      } else {
        text += letter == '&' ? "&amp;" : letter == '\n' ? "&#xA;" : std::string(1, letter);
      }
    }
    return text;
  }

  // Two on a page.
  Reply list(const std::string& query) {
    const std::string prefix = "/lab/" + plain(query.substr(query.find("prefix=") + 7));
    const bool goes_on = query.starts_with("continuation-token=");
    const std::string from = goes_on ? plain(query.substr(19, query.find('&') - 19)) : "";
    std::string xml = encodes ? "<ListBucketResult><EncodingType>url</EncodingType>"
                              : "<ListBucketResult><EncodingType></EncodingType>";
    std::size_t count = 0;
    for (const auto& [key, content] : objects) {
      if (!key.starts_with(prefix) || key < from) continue;
      if (++count > 2) {
        xml += "<IsTruncated>true</IsTruncated><NextContinuationToken>" + key + "</NextContinuationToken>";
        break;
      }
      xml += "<Contents><Key>" + listed(key.substr(5)) + "</Key><Size>" + std::to_string(content.size()) +
             "</Size><LastModified>" + written[key] + "</LastModified></Contents>";
    }
    return wire::whole(200, xml + "</ListBucketResult>");
  }

  Reply end_upload(const Asked& asked, const std::string& key) {
    if (!uploads.contains(key)) return wire::whole(404, fault("NoSuchUpload"));
    if (asked.method == "POST") {
      objects[key].clear();
      for (const auto& [number, part] : uploads[key]) {
        EXPECT_THAT(asked.body,
                    HasSubstr("<PartNumber>" + std::to_string(number) + "</PartNumber><ETag>\"tag-" +
                              std::to_string(number) + "\"</ETag>"));
        objects[key] += part;
      }
    }
    uploads.erase(key);
    return asked.method == "POST" ? wire::whole(200, "<CompleteMultipartUploadResult/>") : wire::bare(204);
  }

  int ticks_ = 0;  // a second for each object
};

std::string content_of(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

std::string sha256(const std::string& bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    std::array<char, 3> byte{};
    std::snprintf(byte.data(), byte.size(), "%02x", digest.at(i));
    text += byte.data();
  }
  return text;
}

class S3 : public testing::Test {
 protected:
  using Contents = std::vector<std::pair<std::string, std::string>>;

  S3() {
    variables_ = {{"AWS_ACCESS_KEY_ID", "the-key"},
                  {"AWS_SECRET_ACCESS_KEY", "the-secret"},
                  {"S3_ENDPOINT_URL", "http" + server_.address().substr(3)}};
    caller_.env = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      if (found == variables_.end()) return std::nullopt;
      return found->second;
    };
    caller_.home = folder_.path();
  }

  static void add(Parcel& parcel, const std::string& path, const std::string& content, unsigned mode = 0640) {
    parcel.add({.path = path,
                .mode = mode,
                .modified = Instant(std::chrono::milliseconds(1000000000500)),
                .size = static_cast<std::int64_t>(content.size())});
    parcel.write(content);
  }
  void bring(const Contents& contents, const std::string& manifest = "sums\n") {
    const auto parcel = depot_->open("t", {});
    for (const auto& [path, content] : contents) add(*parcel, path, content);
    parcel->close(manifest);
  }
  std::optional<Error> fault_of(const std::function<void()>& what) {
    try {
      what();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), Not(AnyOf(HasSubstr("the-secret"), HasSubstr("the-key"))));
      return error;
    }
    return std::nullopt;
  }
  std::string check() {
    const auto fault = fault_of([&] { check_s3("s3://lab/a/run", caller_, {}, clock_); });
    return fault ? fault->what() : "";
  }
  [[nodiscard]] std::vector<std::string> keys() const {
    std::vector<std::string> keys;
    for (const auto& [key, content] : bucket_.objects) keys.push_back(key);
    return keys;
  }

  test::Folder folder_{"s3"};
  Impatient clock_;
  Bucket bucket_;
  wire::ScriptedDaemon server_{[this](const Asked& asked) { return bucket_.answer(asked); },
                               wire::ScriptedDaemon::Kind::tcp};
  std::map<std::string, std::string> variables_;
  Caller caller_;
  std::unique_ptr<Depot> depot_;
  // After its members are there.
  void SetUp() override { depot_ = open_s3("s3://lab/a/run", caller_, clock_); }
};

TEST_F(S3, NothingHasComeWhereNothingWasLeft) {
  bring({}, "");
  EXPECT_FALSE(depot_->holds_any());
  bring({{"out/empty", ""}});
  EXPECT_TRUE(depot_->holds_any());
}

TEST_F(S3, FilesBecomeObjectsAndTheListOfThemComesLast) {
  bring({{"out/a.txt", "alpha"}, {"out/empty", ""}});
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/a.txt"], "alpha");
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/manifest.sha256"], "sums\n");
  EXPECT_THAT(keys(), ElementsAre("/lab/a/run/t/manifest.entries", "/lab/a/run/t/manifest.sha256",
                                  "/lab/a/run/t/out/a.txt", "/lab/a/run/t/out/empty"));
  EXPECT_EQ(server_.lines().back(), "PUT /lab/a/run/t/manifest.sha256");
  EXPECT_TRUE(depot_->holds_any());
  for (const Asked& asked : server_.asked()) {
    EXPECT_EQ(header(asked, "x-amz-content-sha256"), sha256(asked.body)) << asked.target;
    EXPECT_THAT(header(asked, "Authorization"),
                AllOf(StartsWith("AWS4-HMAC-SHA256 Credential=the-key/"), HasSubstr("/us-east-1/s3/")));
    if (!asked.target.ends_with("a.txt")) continue;
    EXPECT_EQ(header(asked, "x-amz-meta-mode"), "0640");
    EXPECT_EQ(header(asked, "x-amz-meta-mtime"), "1000000000.500000000");
  }
}

TEST_F(S3, ALargeFileComesInParts) {
  std::string content((std::size_t{33} << 20U) + 5, 'x');
  for (std::size_t i = 0; i < content.size(); i += 4096) content[i] = static_cast<char>(i >> 12U);
  bring({{"big", content}, {"small", "s"}});
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/big"], content);
  EXPECT_THAT(bucket_.uploads, IsEmpty());
  EXPECT_THAT(server_.lines(), Contains("PUT /lab/a/run/t/big?partNumber=3&uploadId=id%2F1%2B"));
  EXPECT_EQ(server_.lines().back(), "PUT /lab/a/run/t/manifest.sha256");
}

TEST_F(S3, AServerThatOnlySaysThatPartsAreOneFileIsNotBelieved) {
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "POST" || asked.target.find("?uploadId=") == std::string::npos) return std::nullopt;
    return wire::whole(200, "<CompleteMultipartUploadResult/>");
  };
  const auto fault = fault_of([&] { bring({{"big", std::string(std::size_t{17} << 20U, 'x')}}); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::unavailable) << "all is sent again";
  EXPECT_THAT(fault->message(), HasSubstr("says that it is complete, and it is not"));
  EXPECT_THAT(keys(), Not(Contains("/lab/a/run/t/manifest.sha256")));
}

TEST_F(S3, WhatHasNoObjectIsListedBesideThem) {
  const auto parcel = depot_->open("t", {});
  parcel->add({.kind = OutputEntry::Kind::folder, .path = "out", .mode = 0750});
  add(*parcel, "out/a", "alpha");
  parcel->add({.kind = OutputEntry::Kind::symbolic_link, .path = "out/latest", .target = "a\xff"});
  parcel->add({.kind = OutputEntry::Kind::hard_link, .path = "out/b", .target = "out/a"});
  parcel->add({.kind = OutputEntry::Kind::hard_link, .path = "out/c", .target = "out/b"});
  parcel->close("");
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
  const auto parcel = depot_->open("t", {});
  add(*parcel, "out/a", "alpha");
  parcel->add({.path = "out/run", .mode = 0750, .size = 2});
  parcel->write("#!");
  parcel->close("");
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

TEST_F(S3, NoTwoNamesAreOneKey) {
  const std::vector<std::string> names{"\xff", "%FF", "%25FF", "%2525FF", "%\xff",
                                       "%ff",  "%7F", "%",     "%25",     "\x80%80"};
  std::set<std::string> keys;
  for (const std::string& name : names) keys.insert(outputs::as_key(name));
  EXPECT_THAT(keys, SizeIs(names.size()));
  EXPECT_EQ(outputs::as_key("%7F %ff %"), "%7F %ff %") << "as far as it can be told, as it is";
}

TEST_F(S3, APathThatS3HasNoRoomForIsTheAttemptsFault) {
  const auto fault = fault_of([&] { bring({{std::string(1100, 'n'), "x"}}); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::invalid);
  EXPECT_THAT(fault->message(), HasSubstr("S3 has room for 1024"));
}

TEST_F(S3, WhatAnEarlierAttemptLeftGoesAndItsListGoesFirst) {
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

TEST_F(S3, OddNamesAreFoundAgain) {
  for (const bool encodes : {true, false}) {
    bucket_.encodes = encodes;
    bring({{"a b+c%41&amp;", "1"}, {"line\nend", "2"}, {"ümlaut", "3"}, {"\xff", "4"}});
    EXPECT_THAT(bucket_.objects, SizeIs(6));
    bring({});
    EXPECT_THAT(keys(), ElementsAre("/lab/a/run/t/manifest.entries", "/lab/a/run/t/manifest.sha256"));
  }
}

TEST_F(S3, OfAnotherTrialNothingIsTouched) {
  bucket_.objects["/lab/a/run/t2/manifest.sha256"] = "of t2";
  bring({{"out/a", "x"}});
  EXPECT_EQ(bucket_.objects["/lab/a/run/t2/manifest.sha256"], "of t2");
}

TEST_F(S3, AnAttemptThatIsGivenUpLeavesNothingThatLooksWhole) {
  bring({{"out/a", "first"}});
  {
    const auto parcel = depot_->open("t", {});
    add(*parcel, "out/a", "second");
    add(*parcel, "big", std::string(std::size_t{17} << 20U, 'x'));
    add(*parcel, "after", "x");
  }
  EXPECT_FALSE(bucket_.objects.contains("/lab/a/run/t/manifest.sha256"));
  EXPECT_THAT(bucket_.uploads, IsEmpty()) << "parts that nobody sees cost money";
}

TEST_F(S3, NothingOfAnOldOneIsTouchedBeforeThereIsANewOne) {
  bring({{"out/a", "first"}});
  { const auto parcel = depot_->open("t", {}); }
  EXPECT_TRUE(bucket_.objects.contains("/lab/a/run/t/manifest.sha256"));
}

TEST_F(S3, AServerThatHasTooMuchToDoIsAskedAgain) {
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

TEST_F(S3, AConnectionThatIsCutIsMadeAgain) {
  int cuts = 0;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (!asked.target.ends_with("out/a") || ++cuts > 2) return std::nullopt;
    return cuts == 1 ? wire::hang_up() : wire::cut("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
  };
  bring({{"out/a", "alpha"}});
  EXPECT_EQ(bucket_.objects["/lab/a/run/t/out/a"], "alpha");
  EXPECT_THAT(keys(), Contains("/lab/a/run/t/manifest.sha256"));
}

TEST_F(S3, WhereItStaysThatWayAllIsTriedAgainLater) {
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

TEST_F(S3, AnErrorBehind200IsAnError) {
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

TEST_F(S3, AStopEndsTheTriesOfAnUpload) {
  std::stop_source stop;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "PUT") return std::nullopt;
    stop.request_stop();
    return wire::whole(503, fault("SlowDown"));
  };
  const auto fault = fault_of([&] {
    const auto parcel = depot_->open("t", stop.get_token());
    add(*parcel, "a", "x");
    parcel->close("");
  });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::cancelled);
  EXPECT_THAT(clock_.waits(), IsEmpty());
}

TEST_F(S3, ManyFilesAtOnceFromManyTrials) {
  std::vector<std::jthread> trials;
  for (int i = 0; i < 4; ++i) {
    trials.emplace_back([&, i] {
      const auto parcel = depot_->open("t" + std::to_string(i), {});
      for (int file = 0; file < 100; ++file) add(*parcel, "out/" + std::to_string(file), std::to_string(i));
      parcel->close("");
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

TEST_F(S3, ACheckSaysWhatIsWrong) {
  Reply reply;
  bucket_.trouble = [&](const Asked& /*asked*/) { return reply; };
  reply = wire::whole(404, fault("NoSuchBucket"));
  EXPECT_EQ(check(), "s3://lab: there is no such bucket");
  reply = wire::whole(403, fault("InvalidAccessKeyId", "<AWSAccessKeyId>the-key</AWSAccessKeyId>"));
  EXPECT_EQ(check(), "s3://lab: the server does not know the access key that AWS_ACCESS_KEY_ID gives");
  reply = wire::whole(404, fault("XAdminUserNotFound"));
  EXPECT_EQ(check(), "s3://lab: the server does not know the access key that AWS_ACCESS_KEY_ID gives");
  reply = wire::whole(403, fault("SignatureDoesNotMatch"));
  EXPECT_EQ(check(), "s3://lab: the secret key that AWS_ACCESS_KEY_ID gives is not the access key's");
  reply = wire::whole(403, fault("ExpiredToken"));
  EXPECT_EQ(check(), "s3://lab: the session of the keys that AWS_ACCESS_KEY_ID gives is over: log in again");
  reply = wire::whole(400, fault("AuthorizationHeaderMalformed", "<Region>eu-north-1</Region>"));
  EXPECT_EQ(check(), "s3://lab: the bucket is in the region eu-north-1: set AWS_REGION");
  reply = wire::whole(403, fault("AccessDenied"));
  EXPECT_EQ(check(), "s3://lab: the keys that AWS_ACCESS_KEY_ID gives do not allow s3:ListBucket");
  reply = wire::whole(403, fault("RequestTimeTooSkewed"), "Date: Sat, 01 Jan 2000 00:00:00 GMT\r\n");
  EXPECT_THAT(check(),
              AllOf(StartsWith("s3://lab: this machine's clock is "),
                    EndsWith("ahead of the server's, and signatures are good for 15 minutes: set it")));
  reply = wire::whole(400, fault("NoSuchThing"));
  EXPECT_THAT(check(), EndsWith(" answered 400 NoSuchThing: words"));
  EXPECT_THAT(clock_.waits(), IsEmpty());
  reply = wire::hang_up();
  EXPECT_THAT(check(), StartsWith("s3://lab: http://127.0.0.1:"));
  EXPECT_THAT(clock_.waits(), SizeIs(1));
}

TEST_F(S3, ACheckFindsThatNothingMayBeWritten) {
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method == "GET") return std::nullopt;
    return wire::whole(403, fault("AccessDenied"));
  };
  EXPECT_EQ(check(),
            "s3://lab/a/run/.combu: the keys that AWS_ACCESS_KEY_ID gives do not allow s3:PutObject");
}

// ---- What has been left there comes back

class FetchS3 : public S3 {
 protected:
  FetchS3() {
    fs::create_directories(folder_.path());
    variables_["TMPDIR"] = folder_.path();
  }

  // With the manifest that belongs to it.
  void bring_whole(const Contents& contents, const std::vector<OutputEntry>& more = {},
                   const Contents& programs = {}) {
    const auto parcel = depot_->open("t", {});
    std::string manifest;
    const auto bring = [&](const Contents& files, unsigned mode) {
      for (const auto& [path, content] : files) {
        add(*parcel, path, content, mode);
        manifest += sha256(content) + "  " + path + "\n";
      }
    };
    bring(contents, 0640);
    bring(programs, 0750);
    for (const OutputEntry& entry : more) parcel->add(entry);
    parcel->close(manifest);
  }
  // All that there is on this machine of what was fetched, without what tells of it.
  std::vector<std::string> fetch(const std::string& path) {
    const fs::path folder = depot_->fetch("t", path, {});
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().lexically_relative(folder);
      if ((entry.is_symlink() || !entry.is_directory()) && name != k_manifest_name) found.push_back(name);
    }
    std::ranges::sort(found);
    return found;
  }
  std::string fetch_fault(const std::string& path) {
    const auto fault = fault_of([&] { (void)fetch(path); });
    if (!fault) return "";
    EXPECT_EQ(fault->kind(), ErrorKind::refused) << "the engine is not what is away";
    return fault->what();
  }
  // Folders of fetched things.
  [[nodiscard]] std::vector<std::string> here() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename());
    return names;
  }
};

TEST_F(FetchS3, AsItWas) {
  const std::string large = std::string(std::size_t{20} << 20U, 'x') + "end";
  bring_whole({{"out/a", "alpha"}, {"out/sub/empty", ""}, {"out/large", large}},
              {{.kind = OutputEntry::Kind::folder, .path = "out/none", .mode = 0750},
               {.kind = OutputEntry::Kind::symbolic_link, .path = "out/latest", .target = "sub/../\xff"},
               {.kind = OutputEntry::Kind::hard_link, .path = "out/b", .target = "out/a"}});
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a", "out/b", "out/large", "out/latest", "out/sub/empty"));
  const fs::path out = depot_->fetch("t", "/out", {}) + "/out";
  EXPECT_TRUE(content_of(out / "large") == large);
  EXPECT_EQ(fs::read_symlink(out / "latest"), "sub/../\xff");
  EXPECT_TRUE(fs::equivalent(out / "a", out / "b"));
  EXPECT_TRUE(fs::is_directory(out / "none"));
  for (const char* const name : {"a", "large"}) {
    EXPECT_EQ(fs::status(out / name).permissions(), fs::perms(0640)) << name;
    struct stat seen {};
    ASSERT_EQ(stat((out / name).c_str(), &seen), 0);
    EXPECT_EQ(seen.st_mtim.tv_sec, 1000000000);
    EXPECT_EQ(seen.st_mtim.tv_nsec, 500000000);
  }
}

TEST_F(FetchS3, OddNamesToo) {
  bring_whole({{"out/a b+c=d&e%2F", "1"}, {"out/\xff\xc3", "2"}});
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a b+c=d&e%2F", "out/\xff\xc3"));
}

TEST_F(FetchS3, NamesThatLookLikeEachOther) {
  bring_whole({{"out/\xff", "a byte"}, {"out/%FF", "three letters"}, {"out/%25FF", "five"}});
  EXPECT_THAT(fetch("/out"), ElementsAre("out/%25FF", "out/%FF", "out/\xff"));
  const std::string out = depot_->fetch("t", "/out", {}) + "/out/";
  EXPECT_EQ(content_of(out + "\xff"), "a byte");
  EXPECT_EQ(content_of(out + "%FF"), "three letters");
  EXPECT_EQ(content_of(out + "%25FF"), "five");
}

TEST_F(FetchS3, OnlyWhatIsWanted) {
  bring_whole({{"out/model", "m"}, {"out/models/1", "1"}, {"out/model.txt", "t"}});
  EXPECT_THAT(fetch("/out/model"), ElementsAre("out/model"));
  EXPECT_THAT(fetch("/out/models/"), ElementsAre("out/models/1"));
  EXPECT_THAT(fetch("/out/model/../models"), SizeIs(3)) << "whatever that means";
}

TEST_F(FetchS3, OfWhatHasLinksAllIsWanted) {
  bring_whole({{"out/run-7/a", "x"}},
              {{.kind = OutputEntry::Kind::symbolic_link, .path = "out/latest", .target = "run-7"}});
  EXPECT_THAT(fetch("/out/latest"), ElementsAre("out/latest", "out/run-7/a"));
}

TEST_F(FetchS3, OnceForAllWhoWantIt) {
  bring_whole({{"out/a", "alpha"}});
  const std::string folder = depot_->fetch("t", "/out", {});
  const std::size_t asked = server_.lines().size();
  EXPECT_EQ(depot_->fetch("t", "/out", {}), folder);
  EXPECT_EQ(server_.lines().size(), asked);
  bring_whole({{"out/b", "beta"}});
  EXPECT_THAT(fetch("/out"), ElementsAre("out/b")) << "of a later attempt";
  EXPECT_THAT(here(), SizeIs(1));
  depot_.reset();
  EXPECT_THAT(here(), IsEmpty());
}

TEST_F(FetchS3, NothingThatIsNotWhole) {
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("manifest.sha256: is not in the bucket any more"));
  bring_whole({{"out/a", "alpha"}, {"out/large", std::string(std::size_t{2} << 20U, 'x')}});
  bucket_.objects["/lab/a/run/t/out/a"] = "alphabet";
  EXPECT_THAT(fetch_fault("/out"),
              HasSubstr("out/a: is not what its manifest says: somebody has changed it"));
  bucket_.objects["/lab/a/run/t/out/a"] = "alpha";
  bucket_.objects["/lab/a/run/t/out/large"].back() = 'y';
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("out/large: is not what its manifest says"));
  bucket_.objects.erase("/lab/a/run/t/out/large");
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("out/large: is not in the bucket any more"));
  bucket_.objects["/lab/a/run/t/manifest.entries"] = "no JSON\n";
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("manifest.entries: cannot be read"));
}

TEST_F(FetchS3, WhichFileItIsIsToldHoweverDeepItIs) {
  const std::string name = "out/" + std::string(80, 'x') + "/sub/b";
  bring_whole({{name, "beta"}});
  bucket_.objects["/lab/a/run/t/" + name] = "changed";
  EXPECT_THAT(fetch_fault("/out"), StartsWith("…/sub/b: is not what its manifest says"));
}

TEST_F(FetchS3, NothingThatWouldLandElsewhere) {
  for (const std::string path : {"../above", "out/../../above", "/above", "./above"}) {
    bring_whole({{"out/a", "x"}});
    bucket_.objects["/lab/a/run/t/" + path] = "x";
    bucket_.objects["/lab/a/run/t/manifest.sha256"] = sha256("x") + "  " + path + "\n";
    EXPECT_THAT(fetch_fault("/out/../out"), HasSubstr("names a path out of it")) << path;
    depot_ = open_s3("s3://lab/a/run", caller_, clock_);
  }
  const std::vector<std::string> entries{
      R"({"path": "../above", "kind": "folder"})",
      R"({"path": "..\u0000/above", "kind": "folder"})",
      R"({"path": "out/x", "path_bytes": "2e2e2f78", "kind": "symbolic_link", "target": "a"})",
      R"({"path": "out/x", "path_bytes": "2e2e002f78", "kind": "hard_link", "target": "out/a"})",
      R"({"path": "out/x", "kind": "hard_link", "target": "../../x"})",
      R"({"path": "out/x", "kind": "hard_link", "target": "..\u0000/x"})"};
  for (const std::string& entry : entries) {
    bring_whole({{"out/a", "x"}});
    bucket_.objects["/lab/a/run/t/manifest.entries"] = entry + "\n";
    EXPECT_THAT(fetch_fault("/out/../out"), HasSubstr("names a path out of it")) << entry;
    depot_ = open_s3("s3://lab/a/run", caller_, clock_);
  }
  EXPECT_THAT(here(), IsEmpty());
}

TEST_F(FetchS3, AServerThatIsAwayIsWaitedFor) {
  bring_whole({{"out/a", "alpha"}});
  int refused = 0;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (!asked.target.ends_with("out/a") || ++refused > 10) return std::nullopt;
    return wire::whole(503, fault("SlowDown"));
  };
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a"));
  EXPECT_THAT(clock_.waits(), ElementsAre(0.5, 1, 2, 4, 5, 0.5, 1, 2, 4, 10));
  bucket_.trouble = [](const Asked& /*asked*/) { return wire::whole(503, fault("SlowDown")); };
  EXPECT_THAT(fetch_fault("/out/a"), HasSubstr("answered 503 SlowDown"));
}

TEST_F(FetchS3, WhatIsCutGoesOnWhereItWas) {
  const std::string large = std::string(std::size_t{1} << 20U, 'x') + std::string(std::size_t{1} << 20U, 'y');
  Contents contents{{"out/large", large}};
  for (int i = 0; i < 100; ++i) contents.emplace_back("out/" + std::to_string(i), std::to_string(i));
  bring_whole(contents);
  std::map<std::string, std::vector<std::string>> ranges;  // by what was asked for
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    auto& asked_for = ranges[asked.method + " " + asked.target.substr(0, asked.target.find('?'))];
    asked_for.push_back(header(asked, "range"));
    const std::size_t count = asked_for.size();
    if (asked.method != "GET") return std::nullopt;
    const bool is_large = asked.target.ends_with("out/large");
    if (is_large && count == 1)
      return wire::cut("HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n" + large.substr(0, 1500000));
    if ((is_large && count <= 6) || (asked.target.ends_with("out/77") && count <= 5))
      return wire::whole(503, fault("SlowDown"));
    return std::nullopt;
  };
  EXPECT_THAT(fetch("/out"), SizeIs(101));
  EXPECT_TRUE(content_of(depot_->fetch("t", "/out", {}) + "/out/large") == large);
  EXPECT_THAT(clock_.waits(), ElementsAre(0.5, 1, 2, 4, 5, 0.5, 1, 2, 4, 10));
  const auto of_large = std::exchange(ranges["GET /lab/a/run/t/out/large"], {""});
  EXPECT_EQ(of_large.front(), "");
  EXPECT_THAT(std::vector(of_large.begin() + 1, of_large.end()), AllOf(SizeIs(6), Each("bytes=1500000-")));
  EXPECT_THAT(std::exchange(ranges["GET /lab/a/run/t/out/77"], {""}), SizeIs(6));
  ranges.erase("GET /lab/");  // page by page
  for (const auto& [what, asked_for] : ranges) EXPECT_THAT(asked_for, SizeIs(1)) << what;
  EXPECT_THAT(ranges, SizeIs(100 + 2 + 2)) << "all, the large one twice, and two lists";
}

TEST_F(FetchS3, WhatHasComeToItsLastByteIsNotAskedForAgain) {
  const std::string large(std::size_t{2} << 20U, 'x');
  bring_whole({{"out/large", large}});
  int cuts = 0;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "GET" || !asked.target.ends_with("out/large") || ++cuts > 1) return std::nullopt;
    return wire::cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n" + large + "\r\n");
  };
  EXPECT_THAT(fetch("/out"), ElementsAre("out/large"));
  EXPECT_EQ(cuts, 1);
}

TEST_F(FetchS3, AServerWithoutRangesTellsItAllAgain) {
  const std::string large = std::string(std::size_t{1} << 20U, 'x') + std::string(std::size_t{1} << 20U, 'y');
  bring_whole({{"out/large", large}, {"out/small", "small"}});
  bucket_.knows_ranges = false;
  std::set<std::string> cut;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "GET" || asked.target.find("/out/") == std::string::npos) return std::nullopt;
    if (!cut.insert(asked.target).second) return std::nullopt;
    const std::string& bytes = bucket_.objects[asked.target];
    return wire::cut("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(bytes.size()) + "\r\n\r\n" +
                     bytes.substr(0, bytes.size() / 2));
  };
  EXPECT_THAT(fetch("/out"), ElementsAre("out/large", "out/small"));
  const std::string out = depot_->fetch("t", "/out", {}) + "/out/";
  EXPECT_TRUE(content_of(out + "large") == large);
  EXPECT_EQ(content_of(out + "small"), "small");
  EXPECT_THAT(cut, SizeIs(2));
  EXPECT_THAT(clock_.waits(), IsEmpty());
}

TEST_F(FetchS3, AStopEndsIt) {
  bring_whole({{"out/a", "alpha"}});
  std::atomic<bool> stalls = true;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (!stalls || !asked.target.ends_with("out/a")) return std::nullopt;
    return wire::stall();
  };
  const std::size_t before = server_.asked().size();
  const auto fetch_until = [this](std::stop_token stop) {
    const auto fault = fault_of([&] { (void)depot_->fetch("t", "/out", stop); });
    return fault && fault->kind() == ErrorKind::cancelled;
  };
  std::stop_source first;
  auto one = std::async(std::launch::async, fetch_until, first.get_token());
  server_.wait_for_requests(before + 4);  // the two lists, the listing, and the file
  // Who waits for another one's.
  std::stop_source second;
  auto other = std::async(std::launch::async, fetch_until, second.get_token());
  second.request_stop();
  EXPECT_EQ(other.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_NE(one.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  // Who waits for the server.
  first.request_stop();
  EXPECT_TRUE(one.get());
  EXPECT_TRUE(other.get());
  // Nobody is the worse for it.
  stalls = false;
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a"));
}

TEST_F(FetchS3, NothingIsForcedToTheDisk) {
  bring_whole({{"out/a", "alpha"}});
  syncs = 0;
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a"));
  EXPECT_EQ(syncs, 0);
  const auto depot = open_folder(folder_.path() + "/lasting");
  const auto parcel = depot->open("t", {});
  add(*parcel, "a", "alpha");
  parcel->close("");
  EXPECT_GT(syncs, 0) << "what is to last is";
}

TEST_F(FetchS3, WhatADeadProcessHasLeftGoes) {
  const auto make = [this](const std::string& name, bool is_ours) {
    const std::string folder = folder_.path() + "/" + name;
    fs::create_directories(folder + "/1/out");
    std::ofstream(folder + "/1/out/a") << "left";
    if (is_ours) std::ofstream(folder + "/.combu-lock") << "";
    return folder;
  };
  (void)make("combu-dead00", true);
  (void)make("combu-backup", false);
  const std::string alive = make("combu-alive0", true);
  const int lock = ::open((alive + "/.combu-lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  bring_whole({{"out/a", "alpha"}});
  const std::string own = fs::path(depot_->fetch("t", "/out", {})).parent_path().filename();
  EXPECT_THAT(here(), UnorderedElementsAre("combu-alive0", "combu-backup", own));
  // Another process's, while this one lives.
  const auto other = open_s3("s3://lab/a/run", caller_, clock_);
  const std::string others = fs::path(other->fetch("t", "/out", {})).parent_path().filename();
  EXPECT_THAT(here(), UnorderedElementsAre("combu-alive0", "combu-backup", own, others));
  ::close(lock);
}

TEST_F(FetchS3, WhatIsSharedTakesThePlaceOfWhatWasFetched) {
  bring_whole({{"out/a", "own"}});
  EXPECT_EQ(content_of(depot_->fetch("t", "/out", {}) + "/out/a"), "own");
  for (const std::string name : {"out/a", "manifest.entries"})
    bucket_.objects["/lab/a/other/t/" + name] = name == "out/a" ? "another's" : "";
  bucket_.objects["/lab/a/other/t/manifest.sha256"] = sha256("another's") + "  out/a\n";
  EXPECT_THAT(depot_->share(std::vector<Sharing>{{.trial = "t", .from = "s3://lab/a/other/t"}}),
              ElementsAre(""));
  EXPECT_EQ(content_of(depot_->fetch("t", "/out", {}) + "/out/a"), "another's");
}

// ---- What one trial has left as another one's

class SharedS3 : public FetchS3 {
 protected:
  void SetUp() override {
    FetchS3::SetUp();
    bring_whole({{"out/a", "alpha"}, {"out/b%FF &+", "beta"}},
                {{.kind = OutputEntry::Kind::hard_link, .path = "out/again", .target = "out/a"},
                 {.kind = OutputEntry::Kind::hard_link, .path = "out/thrice", .target = "out/again"}});
  }
  std::string share(const std::string& trial, const std::string& from = "t") {
    return depot_->share(std::vector<Sharing>{{.trial = trial, .from = "s3://lab/a/run/" + from}}).at(0);
  }
  // Names without the manifest's and the entries'.
  [[nodiscard]] std::vector<std::string> left_by(const std::string& trial) const {
    std::vector<std::string> names;
    for (const auto& [key, content] : bucket_.objects)
      if (const std::string place = "/lab/a/run/" + trial + "/out/"; key.starts_with(place))
        names.push_back(key.substr(place.size()));
    return names;
  }
  // By somebody, later.
  void edit(const std::string& name, const std::string& content) {
    bucket_.objects["/lab/a/run/" + name] = content;
    bucket_.written["/lab/a/run/" + name] = "2026-01-02T00:00:00.000Z";
  }
  [[nodiscard]] std::size_t requests(const std::string& line) const {
    return static_cast<std::size_t>(std::ranges::count(server_.lines(), line));
  }
};

TEST_F(SharedS3, AllOfItAlongAChain) {
  EXPECT_EQ(share("u"), "");
  EXPECT_EQ(share("v", "u"), "");
  for (const std::string trial : {"u", "v"}) {
    EXPECT_THAT(left_by(trial), UnorderedElementsAre("a", "b%25FF &+", "again", "thrice"));
    EXPECT_EQ(server_.lines().back(), "PUT /lab/a/run/v/manifest.sha256");
  }
  EXPECT_EQ(requests("GET /lab/a/run/t/out/a"), 0U) << "nothing is read";
}

TEST_F(SharedS3, WhatWasEditedIsNotShared) {
  EXPECT_EQ(share("u"), "");
  for (const std::string name : {"out/a", "out/b%25FF &+", "out/thrice"}) {
    const std::string before = bucket_.objects["/lab/a/run/u/" + name];
    edit("u/" + name, "edited");
    EXPECT_EQ(share("v", "u"),
              "a/run/u/" + name + ": is not what its manifest says: somebody has changed it");
    EXPECT_THAT(left_by("v"), IsEmpty());
    edit("u/" + name, before);
    EXPECT_EQ(share("v", "u"), "") << "it is what it was";
    EXPECT_THAT(left_by("v"), SizeIs(4));
    depot_->remove("v");
  }
}

TEST_F(SharedS3, WhatSomebodyHasAddedIsNotTaken) {
  edit("t/out/notes", "mine");
  EXPECT_EQ(share("u"), "");
  EXPECT_THAT(left_by("u"), UnorderedElementsAre("a", "b%25FF &+", "again", "thrice"));
}

// Servers leave decimals out as they like.
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
    EXPECT_THAT(share("u"), HasSubstr("somebody has changed it")) << manifest << " " << file;
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

TEST_F(SharedS3, WhatIsNotThereIsNotShared) {
  bucket_.objects.erase("/lab/a/run/t/out/a");
  EXPECT_EQ(share("u"), "a/run/t/out/a: is not in the bucket any more");
  bucket_.objects.erase("/lab/a/run/t/manifest.sha256");
  EXPECT_EQ(share("u"), "a/run/t/manifest.sha256: is not in the bucket any more");
}

TEST_F(SharedS3, OneThatFailsHalfWayLeavesNothing) {
  bucket_.trouble = [](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "PUT" || !asked.target.ends_with("/thrice")) return std::nullopt;
    return wire::whole(403, fault("AccessDenied"));
  };
  EXPECT_THAT(share("u"), HasSubstr("do not allow s3:PutObject"));
  EXPECT_THAT(keys(), Each(StartsWith("/lab/a/run/t/")));
}

// A server copies no more than 5 GiB at once.
TEST_F(SharedS3, WhatIsTooLargeToBeCopiedIsNotShared) {
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

// ---- What it holds, without its being brought

class DigestS3 : public FetchS3 {
 protected:
  void SetUp() override {
    FetchS3::SetUp();
    bring_whole({{"out/a", "alpha"},
                 {"out/sub/b", "beta"},
                 {"out/sub-1", "before sub/, as text goes"},
                 {"out/sub.d/c", "gamma"},
                 {"out/sub/\xff", "odd"},
                 {"out/%FF", "odd, too"},
                 {"data", "on top"}},
                {{.kind = OutputEntry::Kind::folder, .path = "out", .mode = 0755},
                 {.kind = OutputEntry::Kind::folder, .path = "out/none/at/all", .mode = 0755},
                 {.kind = OutputEntry::Kind::symbolic_link, .path = "out/latest", .target = "sub/../sub"},
                 {.kind = OutputEntry::Kind::symbolic_link, .path = "out/dangling", .target = "/nowhere\xff"},
                 {.kind = OutputEntry::Kind::hard_link, .path = "out/again", .target = "out/a"},
                 {.kind = OutputEntry::Kind::hard_link, .path = "out/thrice", .target = "out/again"}},
                {{"out/run", "#!"}});
  }
  // What find_inputs() makes of it.
  [[nodiscard]] std::string brought(const std::string& path) {
    Trial trial{.inputs = {Input{.from = path, .trial = "t", .to = "/in"}}};
    find_inputs(trial, [this](const std::string& left_by, const std::string& at) {
      return depot_->fetch(left_by, at, {});
    });
    return content_digest(trial.inputs[0].from);
  }
};

TEST_F(DigestS3, IsThatOfWhatComes) {
  std::map<std::string, std::string> digests;
  const std::vector<std::string> paths{
      "/out",      "/out/",         "/out/sub", "/out/latest", "/out/latest/b", "/out/again",   "/out/run",
      "/out/none", "/out/sub/\xff", "/data",    "/out/thrice", "/out/sub.d",    "/out/../out/a"};
  for (const std::string& path : paths) {
    const auto digest = depot_->digest("t", path, {});
    ASSERT_TRUE(digest) << path;
    digests[path] = *digest;
  }
  EXPECT_THAT(here(), IsEmpty()) << "nothing was brought";
  for (const std::string& path : paths) EXPECT_EQ(digests[path], brought(path)) << path;
  EXPECT_EQ(digests["/out/sub"], digests["/out/latest"]);
  EXPECT_NE(digests["/out/a"], digests["/out/run"]);
}

TEST_F(DigestS3, IsAskedForOnce) {
  const std::size_t before = server_.lines().size();
  (void)depot_->digest("t", "/out", {});
  (void)depot_->digest("t", "/out/a", {});
  auto lines = server_.lines();
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(before));
  EXPECT_THAT(lines, ElementsAre("GET /lab/a/run/t/manifest.sha256", "GET /lab/a/run/t/manifest.entries"));
  bring_whole({{"out/a", "of a later attempt"}});
  EXPECT_EQ(depot_->digest("t", "/out/a", {}), brought("/out/a"));
}

TEST_F(DigestS3, IsNotToldWhereItsListsAreOfAnEarlierKind) {
  std::string& entries = bucket_.objects["/lab/a/run/t/manifest.entries"];
  entries.erase(entries.find(R"({"path":"manifest.entries")"));
  EXPECT_EQ(depot_->digest("t", "/out", {}), std::nullopt);
}

TEST_F(DigestS3, OfWhatIsNotThereThereIsNone) {
  for (const std::string path : {"/out/never", "/out/dangling", "/out/a/b"}) {
    const auto fault = fault_of([&] { (void)depot_->digest("t", path, {}); });
    ASSERT_TRUE(fault) << path;
    EXPECT_EQ(fault->kind(), ErrorKind::refused);
    EXPECT_THAT(fault->message(), HasSubstr("`t` has left no " + path + " that could be an input")) << path;
  }
}

// ---- Its requests, by themselves

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

TEST_F(S3, AmazonsBucketsAreInTheHostsName) {
  // A proxy sees where it is to go.
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

// ---- Who asks

class S3Account : public S3 {
 protected:
  void write(const std::string& name, const std::string& text) {
    fs::create_directories(folder_.path() + "/.aws");
    std::ofstream(folder_.path() + "/.aws/" + name) << text;
  }
  [[nodiscard]] outputs::S3Account find() const { return outputs::find_s3_account(caller_); }
  std::string refusal() {
    const auto fault = fault_of([&] { (void)find(); });
    return fault ? fault->what() : "";
  }
};

TEST_F(S3Account, TheEnvironmentComesFirst) {
  write("credentials", "[default]\naws_access_key_id = of-file\naws_secret_access_key = of-file\n");
  variables_["AWS_SESSION_TOKEN"] = "token";
  variables_["AWS_DEFAULT_REGION"] = "eu-west-3";
  EXPECT_EQ(find().key, "the-key");
  EXPECT_EQ(find().token, "token");
  EXPECT_EQ(find().region, "eu-west-3");
  variables_["AWS_REGION"] = "eu-west-1";
  EXPECT_EQ(find().region, "eu-west-1");
  variables_.erase("AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(refusal(), "AWS_SECRET_ACCESS_KEY: is not set, and AWS_ACCESS_KEY_ID is");
}

TEST_F(S3Account, AProfileIsFoundInBothFiles) {
  write("credentials",
        "# keys\n[default]\naws_access_key_id=of-default\naws_secret_access_key=secret\n"
        "[lab]\naws_access_key_id = of-lab\naws_secret_access_key = a=b\naws_session_token = t\n");
  write("config",
        "[default]\nregion = eu-central-1\n[profile lab]\nregion = eu-north-1\nservices = own\n"
        "endpoint_url = http://all:1\n[services own]\ndynamodb =\n  endpoint_url = http://other:3\n"
        "s3 =\n  endpoint_url = http://s3:2/\n[profile sso]\nsso_session = x\n");
  variables_.clear();
  EXPECT_EQ(find().key, "of-default");
  EXPECT_EQ(find().region, "eu-central-1");
  EXPECT_EQ(find().endpoint, "");
  variables_["AWS_PROFILE"] = "lab";
  EXPECT_EQ(find().key, "of-lab");
  EXPECT_EQ(find().secret, "a=b");
  EXPECT_EQ(find().token, "t");
  EXPECT_EQ(find().region, "eu-north-1");
  EXPECT_EQ(find().endpoint, "http://s3:2");
  EXPECT_EQ(find().source, "the AWS profile `lab`");
  variables_["AWS_ENDPOINT_URL"] = "http://env:4";
  EXPECT_EQ(find().endpoint, "http://env:4");
  variables_["AWS_ENDPOINT_URL_S3"] = "http://env:5";
  EXPECT_EQ(find().endpoint, "http://env:5");
  variables_["AWS_PROFILE"] = "nobody";
  EXPECT_EQ(refusal(), "the AWS profile `nobody`: is neither in ~/.aws/credentials nor in ~/.aws/config");
  variables_["AWS_PROFILE"] = "sso";
  EXPECT_THAT(refusal(), HasSubstr("aws configure export-credentials"));
}

TEST_F(S3Account, WithoutAnyItSaysHowToGiveOne) {
  variables_.clear();
  EXPECT_EQ(refusal(),
            "S3: no keys are given: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in "
            "~/.aws/credentials");
}

TEST_F(S3Account, AnEndpointIsAnAddress) {
  for (const std::string endpoint : {"127.0.0.1:9000", "ftp://x", "http://me:pass@x"}) {
    variables_["S3_ENDPOINT_URL"] = endpoint;
    EXPECT_EQ(refusal(),
              "the S3 endpoint: must be an address such as https://s3.example.com or http://127.0.0.1:9000");
  }
}

}  // namespace
}  // namespace combu
