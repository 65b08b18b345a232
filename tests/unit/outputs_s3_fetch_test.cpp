// Tests of fetch() and digest() of outputs in a bucket.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "combu/inputs.hpp"
#include "combu/outputs.hpp"
#include "outputs/s3_entries.hpp"
#include "outputs_system.hpp"
#include "s3_fetched.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

using test::content_of;
using test::fault;
using test::FetchS3;
using test::header;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;
using wire::Asked;
using wire::Reply;

TEST_F(FetchS3, OutputsAreFetchedUnchanged) {
  const std::string large = std::string(std::size_t{20} << 20U, 'x') + "end";
  bring_whole({{"out/a", "alpha"}, {"out/sub/empty", ""}, {"out/large", large}},
              {{.kind = OutputEntry::Kind::folder, .path = "out/none", .mode = 0750},
               {.kind = OutputEntry::Kind::symbolic_link, .path = "out/latest", .target = "sub/../\xff"},
               {.kind = OutputEntry::Kind::hard_link, .path = "out/b", .target = "out/a"}});
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a", "out/b", "out/large", "out/latest", "out/sub/empty"));
  const fs::path out = output_store_->fetch("t", "/out", {}) + "/out";
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

TEST_F(FetchS3, FilesWithOddNamesAreFetched) {
  bring_whole({{"out/a b+c=d&e%2F", "1"}, {"out/\xff\xc3", "2"}});
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a b+c=d&e%2F", "out/\xff\xc3"));
}

TEST_F(FetchS3, SimilarNamesAreNotConfused) {
  bring_whole({{"out/\xff", "a byte"}, {"out/%FF", "three letters"}, {"out/%25FF", "five"}});
  EXPECT_THAT(fetch("/out"), ElementsAre("out/%25FF", "out/%FF", "out/\xff"));
  const std::string out = output_store_->fetch("t", "/out", {}) + "/out/";
  EXPECT_EQ(content_of(out + "\xff"), "a byte");
  EXPECT_EQ(content_of(out + "%FF"), "three letters");
  EXPECT_EQ(content_of(out + "%25FF"), "five");
}

TEST_F(FetchS3, OnlyTheRequestedPathIsFetched) {
  bring_whole({{"out/model", "m"}, {"out/models/1", "1"}, {"out/model.txt", "t"}});
  EXPECT_THAT(fetch("/out/model"), ElementsAre("out/model"));
  EXPECT_THAT(fetch("/out/models/"), ElementsAre("out/models/1"));
  EXPECT_THAT(fetch("/out/model/../models"), SizeIs(3)) << "whatever that means";
}

TEST_F(FetchS3, OutputsWithLinksAreFetchedCompletely) {
  bring_whole({{"out/run-7/a", "x"}},
              {{.kind = OutputEntry::Kind::symbolic_link, .path = "out/latest", .target = "run-7"}});
  EXPECT_THAT(fetch("/out/latest"), ElementsAre("out/latest", "out/run-7/a"));
}

TEST_F(FetchS3, OutputsAreFetchedOnce) {
  bring_whole({{"out/a", "alpha"}});
  const std::string folder = output_store_->fetch("t", "/out", {});
  const std::size_t asked = server_.lines().size();
  EXPECT_EQ(output_store_->fetch("t", "/out", {}), folder);
  EXPECT_EQ(server_.lines().size(), asked);
  bring_whole({{"out/b", "beta"}});
  EXPECT_THAT(fetch("/out"), ElementsAre("out/b")) << "of a later attempt";
  EXPECT_THAT(here(), SizeIs(1));
  output_store_.reset();
  EXPECT_THAT(here(), IsEmpty());
}

TEST_F(FetchS3, IncompleteOutputsAreRefused) {
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("manifest.sha256: is not in the bucket any more"));
  bring_whole({{"out/a", "alpha"}, {"out/large", std::string(std::size_t{2} << 20U, 'x')}});
  bucket_.objects["/lab/a/run/t/out/a"] = "alphabet";
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("out/a: does not match its manifest: the file was changed after "
                                             "it was collected; restore the file, or run the trial again"));
  bucket_.objects["/lab/a/run/t/out/a"] = "alpha";
  bucket_.objects["/lab/a/run/t/out/large"].back() = 'y';
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("out/large: does not match its manifest"));
  bucket_.objects.erase("/lab/a/run/t/out/large");
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("out/large: is not in the bucket any more"));
  bucket_.objects["/lab/a/run/t/manifest.entries"] = "no JSON\n";
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("manifest.entries: cannot be read"));
}

TEST_F(FetchS3, TheErrorNamesADeepFile) {
  const std::string name = "out/" + std::string(80, 'x') + "/sub/b";
  bring_whole({{name, "beta"}});
  bucket_.objects["/lab/a/run/t/" + name] = "changed";
  EXPECT_THAT(fetch_fault("/out"), StartsWith("…/sub/b: does not match its manifest"));
}

TEST_F(FetchS3, PathsThatLeadOutAreRefused) {
  for (const std::string path : {"../above", "out/../../above", "/above", "./above"}) {
    bring_whole({{"out/a", "x"}});
    bucket_.objects["/lab/a/run/t/" + path] = "x";
    bucket_.objects["/lab/a/run/t/manifest.sha256"] = sha256_of("x") + "  " + path + "\n";
    EXPECT_THAT(fetch_fault("/out/../out"), HasSubstr("contains an entry with a path outside this folder"))
        << path;
    output_store_ = open_s3("s3://lab/a/run", caller_, clock_);
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
    EXPECT_THAT(fetch_fault("/out/../out"), HasSubstr("contains an entry with a path outside this folder"))
        << entry;
    output_store_ = open_s3("s3://lab/a/run", caller_, clock_);
  }
  EXPECT_THAT(here(), IsEmpty());
}

TEST_F(FetchS3, FetchRetriesWhileTheServerIsUnavailable) {
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

TEST_F(FetchS3, AnInterruptedDownloadIsResumed) {
  const std::string large = std::string(std::size_t{1} << 20U, 'x') + std::string(std::size_t{1} << 20U, 'y');
  Contents contents{{"out/large", large}};
  for (int i = 0; i < 100; ++i) contents.emplace_back("out/" + std::to_string(i), std::to_string(i));
  bring_whole(contents);
  std::map<std::string, std::vector<std::string>> ranges;  // by method and object
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
  EXPECT_TRUE(content_of(output_store_->fetch("t", "/out", {}) + "/out/large") == large);
  EXPECT_THAT(clock_.waits(), ElementsAre(0.5, 1, 2, 4, 5, 0.5, 1, 2, 4, 10));
  const auto of_large = std::exchange(ranges["GET /lab/a/run/t/out/large"], {""});
  EXPECT_EQ(of_large.front(), "");
  EXPECT_THAT(std::vector(of_large.begin() + 1, of_large.end()), AllOf(SizeIs(6), Each("bytes=1500000-")));
  EXPECT_THAT(std::exchange(ranges["GET /lab/a/run/t/out/77"], {""}), SizeIs(6));
  ranges.erase("GET /lab/");  // the listing is requested page by page
  for (const auto& [what, asked_for] : ranges) EXPECT_THAT(asked_for, SizeIs(1)) << what;
  EXPECT_THAT(ranges, SizeIs(100 + 2 + 2)) << "all, the large one twice, and two lists";
}

TEST_F(FetchS3, ACompleteFileIsNotFetchedAgainAfterACut) {
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

TEST_F(FetchS3, AServerWithoutRangesSendsTheWholeFileAgain) {
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
  const std::string out = output_store_->fetch("t", "/out", {}) + "/out/";
  EXPECT_TRUE(content_of(out + "large") == large);
  EXPECT_EQ(content_of(out + "small"), "small");
  EXPECT_THAT(cut, SizeIs(2));
  EXPECT_THAT(clock_.waits(), IsEmpty());
}

TEST_F(FetchS3, AStopEndsAFetch) {
  bring_whole({{"out/a", "alpha"}});
  std::atomic<bool> stalls = true;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (!stalls || !asked.target.ends_with("out/a")) return std::nullopt;
    return wire::stall();
  };
  const std::size_t before = server_.asked().size();
  const auto fetch_until = [this](std::stop_token stop) {
    const auto fault = fault_of([&] { (void)output_store_->fetch("t", "/out", stop); });
    return fault && fault->kind() == ErrorKind::cancelled;
  };
  std::stop_source first;
  auto one = std::async(std::launch::async, fetch_until, first.get_token());
  server_.wait_for_requests(before + 4);  // the two lists, the listing, and the file
  // The second thread waits for the download of the first thread.
  std::stop_source second;
  auto other = std::async(std::launch::async, fetch_until, second.get_token());
  second.request_stop();
  EXPECT_EQ(other.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_NE(one.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  // The first thread waits for the server.
  first.request_stop();
  EXPECT_TRUE(one.get());
  EXPECT_TRUE(other.get());
  // Later calls are not affected.
  stalls = false;
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a"));
}

// Small files are downloaded in parallel, large files one by one.
TEST_F(FetchS3, AStopEndsAFetchWithinABody) {
  const std::string large = std::string(std::size_t{2} << 20U, 'x');
  bring_whole({{"out/large", large}});
  bring_whole({{"out/large", large}, {"out/small", "alpha"}});
  for (const std::string name : {"out/small", "out/large"}) {
    std::stop_source stop;
    bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
      if (asked.method != "GET" || !asked.target.ends_with(name)) return std::nullopt;
      Reply reply = wire::stall();
      reply.pieces.push_back("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nbegun");
      stop.request_stop();
      return reply;
    };
    const auto fault = fault_of([&] { (void)output_store_->fetch("t", "/" + name, stop.get_token()); });
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind(), ErrorKind::cancelled) << fault->what();
    EXPECT_THAT(clock_.waits(), IsEmpty());
  }
}

TEST_F(FetchS3, FetchedFilesAreNotSynced) {
  bring_whole({{"out/a", "alpha"}});
  test::SystemFaults system;
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a"));
  EXPECT_THAT(system->synced, IsEmpty());
  EXPECT_EQ(system->file_systems_synced, 0);
}

TEST_F(FetchS3, FoldersOfDeadProcessesAreRemoved) {
  const auto make = [this](const std::string& name, bool is_ours) {
    const std::string folder = folder_.path() + "/" + name;
    fs::create_directories(folder + "/1/out");
    std::ofstream(folder + "/1/out/a") << "left";
    if (is_ours) std::ofstream(folder + "/.combu-lock") << "";
    return folder;
  };
  (void)make("combu-dead00", true);
  (void)make("combu-backup", false);
  (void)make("others-dead", true);
  const std::string alive = make("combu-alive0", true);
  const int lock = ::open((alive + "/.combu-lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  bring_whole({{"out/a", "alpha"}});
  const std::string own = fs::path(output_store_->fetch("t", "/out", {})).parent_path().filename();
  EXPECT_THAT(here(), UnorderedElementsAre("combu-alive0", "combu-backup", "others-dead", own));
  // The folder of another process, while the first process lives.
  const auto other = open_s3("s3://lab/a/run", caller_, clock_);
  const std::string others = fs::path(other->fetch("t", "/out", {})).parent_path().filename();
  EXPECT_THAT(here(), UnorderedElementsAre("combu-alive0", "combu-backup", "others-dead", own, others));
  ::close(lock);
}

TEST_F(FetchS3, SharedOutputsReplaceFetchedOutputs) {
  bring_whole({{"out/a", "own"}});
  EXPECT_EQ(content_of(output_store_->fetch("t", "/out", {}) + "/out/a"), "own");
  for (const std::string name : {"out/a", "manifest.entries"})
    bucket_.objects["/lab/a/other/t/" + name] = name == "out/a" ? "another's" : "";
  bucket_.objects["/lab/a/other/t/manifest.sha256"] = sha256_of("another's") + "  out/a\n";
  EXPECT_THAT(output_store_->share(std::vector<Sharing>{{.trial = "t", .from = "s3://lab/a/other/t"}}),
              ElementsAre(""));
  EXPECT_EQ(content_of(output_store_->fetch("t", "/out", {}) + "/out/a"), "another's");
}

// ---- Digests without a download

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
  // Returns the digest of the downloaded output.
  [[nodiscard]] std::string brought(const std::string& path) {
    Trial trial{.inputs = {Input{.from = path, .trial = "t", .to = "/in"}}};
    find_inputs(trial, {}, [this](const std::string& left_by, const std::string& at) {
      return output_store_->fetch(left_by, at, {});
    });
    return content_digest(trial.inputs[0]);
  }
};

TEST_F(DigestS3, EqualsTheDigestOfTheFetchedOutput) {
  std::map<std::string, std::string> digests;
  const std::vector<std::string> paths{
      "/out",      "/out/",         "/out/sub", "/out/latest", "/out/latest/b", "/out/again",   "/out/run",
      "/out/none", "/out/sub/\xff", "/data",    "/out/thrice", "/out/sub.d",    "/out/../out/a"};
  for (const std::string& path : paths) {
    const auto digest = output_store_->digest("t", path, {});
    ASSERT_TRUE(digest) << path;
    digests[path] = *digest;
  }
  EXPECT_THAT(here(), IsEmpty()) << "nothing was brought";
  for (const std::string& path : paths) EXPECT_EQ(digests[path], brought(path)) << path;
  EXPECT_EQ(digests["/out/sub"], digests["/out/latest"]);
  EXPECT_NE(digests["/out/a"], digests["/out/run"]);
}

TEST_F(DigestS3, TheListsAreRequestedOnce) {
  const std::size_t before = server_.lines().size();
  (void)output_store_->digest("t", "/out", {});
  (void)output_store_->digest("t", "/out/a", {});
  auto lines = server_.lines();
  lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(before));
  EXPECT_THAT(lines, ElementsAre("GET /lab/a/run/t/manifest.sha256", "GET /lab/a/run/t/manifest.entries"));
  bring_whole({{"out/a", "of a later attempt"}});
  EXPECT_EQ(output_store_->digest("t", "/out/a", {}), brought("/out/a"));
}

TEST_F(DigestS3, IsUnknownIfTheListDoesNotNameAllPrograms) {
  std::string& entries = bucket_.objects["/lab/a/run/t/manifest.entries"];
  entries.erase(entries.find(R"({"path":"manifest.entries")"));
  EXPECT_EQ(output_store_->digest("t", "/out", {}), std::nullopt);
}

TEST_F(DigestS3, IsRefusedForAMissingOutput) {
  for (const std::string path : {"/out/never", "/out/dangling", "/out/a/b"}) {
    const auto fault = fault_of([&] { (void)output_store_->digest("t", path, {}); });
    ASSERT_TRUE(fault) << path;
    EXPECT_EQ(fault->kind(), ErrorKind::refused);
    EXPECT_THAT(fault->message(), HasSubstr("the outputs of `t` must contain " + path)) << path;
  }
}

}  // namespace
}  // namespace combu
