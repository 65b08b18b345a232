// Tests of resumed downloads from a bucket: no file is downloaded twice.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "combu/outputs.hpp"
#include "outputs/s3_fetch.hpp"
#include "outputs/s3_listing.hpp"
#include "outputs_system.hpp"
#include "s3_fetched.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

using test::content_of;
using test::fault;
using test::FetchS3;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using wire::Asked;
using wire::Reply;

class ResumedS3 : public FetchS3 {
 protected:
  static std::string large(char letter) { return std::string(std::size_t{2} << 20U, letter); }
  static Reply half(const std::string& content) {
    return wire::cut("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(content.size()) + "\r\n\r\n" +
                     content.substr(0, content.size() / 2));
  }
  // The number of requests for an object.
  [[nodiscard]] std::ptrdiff_t requests(const std::string& name) const {
    return std::ranges::count(server_.lines(), "GET /lab/a/run/t/" + name);
  }
};

TEST_F(ResumedS3, LargeFilesAreFetchedOneByOne) {
  bring_whole({{"out/a", large('a')}, {"out/b", large('b')}, {"out/c", large('c')}});
  int asked_for = 0;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "GET" || !asked.target.ends_with("out/b")) return std::nullopt;
    if (++asked_for == 1) return half(large('b'));
    if (asked_for < 8) return wire::whole(503, fault("SlowDown"));
    return std::nullopt;
  };
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a", "out/b", "out/c"));
  const std::string out = output_store_->fetch("t", "/out", {}) + "/out/";
  for (const char letter : {'a', 'b', 'c'}) EXPECT_TRUE(content_of(out + letter) == large(letter)) << letter;
  EXPECT_EQ(requests("out/a"), 1);
  EXPECT_EQ(requests("out/c"), 1);
}

TEST_F(ResumedS3, FilesFetchedBeforeAStopAreNotFetchedAgain) {
  bring_whole({{"out/a", large('a')}, {"out/b", large('b')}, {"out/small", "small"}});
  std::stop_source stop;
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "GET" || !asked.target.ends_with("out/b") || stop.stop_requested())
      return std::nullopt;
    stop.request_stop();
    return wire::stall();
  };
  const auto fault = fault_of([&] { (void)output_store_->fetch("t", "/out", stop.get_token()); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::cancelled);
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a", "out/b", "out/small"));
  EXPECT_EQ(requests("out/a"), 1);
  EXPECT_EQ(requests("out/small"), 1);
}

TEST_F(ResumedS3, ASmallFileThatIsCutIsRequestedThreeTimesWithoutPause) {
  const std::string content(1000, 'x');
  bring_whole({{"out/a", content}});
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "GET" || !asked.target.ends_with("out/a")) return std::nullopt;
    return half(content);
  };
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("s3://lab/a/run/t/out/a: "));
  EXPECT_THAT(clock_.waits(), ElementsAre(5, 10, 20, 40, 80)) << "until the server is back";
  EXPECT_EQ(requests("out/a"), 3 * 6);
}

TEST_F(ResumedS3, ASmallFileThatIsRefusedIsRequestedOnce) {
  bring_whole({{"out/a", "alpha"}});
  bucket_.trouble = [&](const Asked& asked) -> std::optional<Reply> {
    if (asked.method != "GET" || !asked.target.ends_with("out/a")) return std::nullopt;
    return wire::whole(403, fault("AccessDenied"));
  };
  EXPECT_THAT(fetch_fault("/out"), HasSubstr("do not allow s3:GetObject"));
  EXPECT_EQ(requests("out/a"), 1);
}

TEST_F(ResumedS3, OnlyRequestedFoldersAreMade) {
  bring_whole({{"out/model/a", "x"}},
              {{.kind = OutputEntry::Kind::folder, .path = "out/model/none", .mode = 0755},
               {.kind = OutputEntry::Kind::folder, .path = "out/other", .mode = 0755}});
  const fs::path folder = output_store_->fetch("t", "/out/model", {});
  EXPECT_TRUE(fs::is_directory(folder / "out/model/none"));
  EXPECT_FALSE(fs::exists(folder / "out/other"));
}

TEST_F(ResumedS3, FetchedOutputsOfAnotherTrialStay) {
  bring_whole({{"out/a", "alpha"}});
  for (const std::string name : {"out/a", "manifest.sha256", "manifest.entries"})
    bucket_.objects["/lab/a/run/u/" + name] = bucket_.objects["/lab/a/run/t/" + name];
  const std::string first = output_store_->fetch("u", "/out", {});
  bring_whole({{"out/a", "later"}});
  const std::size_t asked = server_.lines().size();
  EXPECT_EQ(output_store_->fetch("u", "/out", {}), first);
  EXPECT_EQ(server_.lines().size(), asked);
  EXPECT_EQ(content_of(output_store_->fetch("t", "/out", {}) + "/out/a"), "later");
}

TEST_F(ResumedS3, TheErrorForAFullDiskNamesTmpdir) {
  bring_whole({{"out/a", "alpha"}});
  {
    test::SystemFaults system;
    system->is_disk_full = true;
    const std::string text = fetch_fault("/out");
    EXPECT_THAT(text, StartsWith(folder_.path() + "/combu-"));
    EXPECT_THAT(text, EndsWith("/out/a: cannot be written: No space left on device; set TMPDIR"));
  }
  EXPECT_THAT(fetch("/out"), ElementsAre("out/a"));
}

// ---- Concurrent calls for the same path

class FetchedTest : public testing::Test {
 protected:
  std::string at(const std::function<void(outputs::Fetch&)>& fetch) {
    return fetched_.at("t", "", "a/run/t/", std::make_shared<outputs::BucketOutputs>(), fetch, {});
  }

  test::Folder folder_{"fetched"};
  outputs::Fetched fetched_{(fs::create_directories(folder_.path()), folder_.path())};
};

TEST_F(FetchedTest, AnUnexpectedExceptionPassesThroughAndTheNextCallStartsAgain) {
  EXPECT_THROW(at([](outputs::Fetch&) { throw std::runtime_error("odd"); }), std::runtime_error);
  int calls = 0;
  const std::string folder = at([&](outputs::Fetch&) { ++calls; });
  EXPECT_EQ(at([&](outputs::Fetch&) { ++calls; }), folder);
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(test::names_in(fs::path(folder).parent_path()), ElementsAre(".combu-lock"))
      << "of what was given up, nothing is left";
}

TEST_F(FetchedTest, ConcurrentCallsShareOneDownload) {
  constexpr std::size_t k_others = 8;
  std::atomic<std::size_t> waiting = 0;
  std::atomic<int> calls = 0;
  std::vector<std::future<std::string>> others;
  const std::string folder = at([&](outputs::Fetch&) {
    for (std::size_t i = 0; i < k_others; ++i)
      others.push_back(std::async(std::launch::async, [&] {
        ++waiting;
        return at([&](outputs::Fetch&) { ++calls; });
      }));
    while (waiting < k_others) std::this_thread::yield();
  });
  for (auto& other : others) EXPECT_EQ(other.get(), folder);
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace combu
