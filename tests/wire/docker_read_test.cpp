// list(), stop(), logs() and copy_out().

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wire/docker_fixture.hpp"

namespace combu::wire {
namespace {

using testing::HasSubstr;

TEST(List, InspectsAttemptsThatALateListingCallsRunning) {
  json listed = json::array();
  for (int i = 0; i < 40; ++i) {
    json labels = example_labels();
    labels["combu.trial"] = "t" + std::to_string(i);
    listed.push_back({{"Id", "id" + std::to_string(i)},
                      {"Names", {"/t" + std::to_string(i)}},
                      {"Image", "img"},
                      {"State", "running"},
                      {"Status", "Up 1 second"},
                      {"Created", 1},
                      {"Labels", labels}});
  }
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.target.find("/containers/json") != std::string::npos) return whole(200, listed.dump());
    if (asked.target.find("/id7/") != std::string::npos) return whole(404, message("no such container"));
    return whole(200, inspected("exited", example_labels()));
  }));
  const std::vector<Observation> seen =
      open_at(daemon.address())->list({.experiment = "exp"}, ListDetail::consistent, {});
  EXPECT_EQ(seen.size(), 39U) << "one is gone";
  for (const Observation& one : seen) {
    EXPECT_EQ(one.phase, Phase::ended);
    EXPECT_TRUE(one.exit_code);
  }
}

TEST(List, ReadsAListingInPiecesOfAnySize) {
  const std::string body = listed("exited", "Exited (137) 2 hours ago");
  std::vector<std::string> letters;
  for (const char letter : body) letters.emplace_back(1, letter);
  ScriptedDaemon daemon(after_ping([&](const Asked&) { return ended(stream(letters, Reply::Then::keep)); }));
  const std::vector<Observation> observations = open_at(daemon.address())->list({}, ListDetail::basic, {});
  ASSERT_EQ(observations.size(), 1U);
  EXPECT_EQ(observations[0].phase, Phase::ended);
  EXPECT_EQ(observations[0].exit_code, 137);
  EXPECT_EQ(observations[0].created_at, Instant(std::chrono::seconds(1700000000)));
}

TEST(Stop, AContainerThatEndsOrVanishesMeanwhileIsSuccess) {
  for (const int status : {204, 304, 404}) {
    ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
      if (asked.method == "GET") return whole(200, listed("running", "Up 1 second"));
      return status == 404 ? whole(404, message("No such container")) : bare(status);
    }));
    open_at(daemon.address())->stop({RunId("run1"), "a", 1}, Seconds{2.5}, {});
    EXPECT_EQ(daemon.lines().back(), "POST /v1.41/containers/" + k_id + "/stop?t=3");
  }
}

TEST(Logs, TheTerminalFlagDecidesThatFramesAreRead) {
  const std::string frames = std::string("\1\0\0\0\0\0\0\3one", 11) + std::string("\2\0\0\0\0\0\0\4oops", 12);
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.target.find("/json?") != std::string::npos) return whole(200, listed("running", "Up 1 second"));
    if (asked.target.ends_with("/json")) return whole(200, inspected("running", example_labels()));
    return ended(stream({frames.substr(0, 5), frames.substr(5, 8), frames.substr(13)}, Reply::Then::keep));
  }));
  std::string out;
  std::string err;
  open_at(daemon.address())
      ->logs({RunId("run1"), "a", 1}, {},
             [&](const LogPiece& piece) { (piece.stream == LogStream::out ? out : err) += piece.text; }, {});
  EXPECT_EQ(out, "one");
  EXPECT_EQ(err, "oops");
}

// An answer to HEAD has no body, whatever its Content-Length is.
Reply head_answer(int status) {
  return {{"HTTP/1.1 " + std::to_string(status) + " Word\r\nContent-Length: 165\r\n\r\n"}, Reply::Then::keep};
}

// Returns the error of copy_out() if the engine cannot describe the path: the engine answers HEAD with status
// `head`, and GET with `get`.
std::optional<Error> copy_error(int head, const Reply& get, std::optional<bool>* found = nullptr) {
  ScriptedDaemon daemon(after_ping([&](const Asked& asked) {
    if (asked.method == "HEAD") return head_answer(head);
    if (asked.target.find("/archive?") != std::string::npos) return get;
    return whole(200, inspected("exited", example_labels()));
  }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  return error_of([&] {
    const bool is_there = engine->copy_out({RunId("run1"), "a", 1}, "/out", [](std::string_view) {}, {});
    if (found != nullptr) *found = is_there;
  });
}

struct PathFault {
  std::string name;
  std::string reported;  // the engine's message
  std::string words;
};
class UnreadablePath : public testing::TestWithParam<PathFault> {};
INSTANTIATE_TEST_SUITE_P(
    , UnreadablePath,
    testing::ValuesIn(std::vector<PathFault>{
        {"ALoop20", "evalSymlinksInScope: too many links in /var/lib/docker/overlay2/0a/merged/out",
         "/out: cannot be read: the path's symbolic links form a loop, or there are too many of them"},
        {"ALoop29", "evalSymlinksInScope: too many links in /out",
         "/out: cannot be read: the path's symbolic links form a loop, or there are too many of them"},
        {"ALoopOnTheWay", "lstat /out/sub: too many levels of symbolic links",
         "/out: cannot be read: the path's symbolic links form a loop, or there are too many of them"},
        {"AFileOnTheWay", "lstat /var/lib/docker/overlay2/0a/merged/f/x: not a directory",
         "/out: cannot be read: a part of the path is not a folder"},
        {"ALongName", "lstat /" + std::string(3000, 'a') + ": file name too long",
         "/out: cannot be read: a name in the path, or in the target of a link, is too long"}}),
    [](const auto& fault) { return fault.param.name; });

TEST_P(UnreadablePath, IsInvalid) {
  const std::optional<Error> error = copy_error(500, whole(500, message(GetParam().reported)));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid);
  EXPECT_EQ(std::string(error->what()), GetParam().words);
}

TEST(CopyOut, AFailureOfTheEngineIsNotTheFaultOfThePath) {
  for (const char* reported :
       {"lstat /out: input/output error", "lstat /out/a: not a directory/x: permission denied", ""}) {
    const std::optional<Error> error = copy_error(500, whole(500, message(reported)));
    ASSERT_TRUE(error) << reported;
    EXPECT_EQ(error->kind(), ErrorKind::refused) << reported;
    EXPECT_THAT(error->what(), HasSubstr(reported));
  }
  EXPECT_EQ(copy_error(503, whole(503, message("starting")))->kind(), ErrorKind::unavailable);
  EXPECT_EQ(std::string(copy_error(400, whole(400, message("bad parameter")))->what()),
            "/out: bad parameter");
}

TEST(CopyOut, ALinkToTheRootIsInvalid) {
  ScriptedDaemon daemon(after_ping([](const Asked& asked) {
    // the header contains {"linkTarget":"/"}
    if (asked.method == "HEAD")
      return Reply{{"HTTP/1.1 200 OK\r\nX-Docker-Container-Path-Stat: eyJsaW5rVGFyZ2V0IjoiLyJ9\r\n\r\n"},
                   Reply::Then::keep};
    return whole(200, inspected("exited", example_labels()));
  }));
  const std::unique_ptr<Engine> engine = open_at(daemon.address());
  const std::optional<Error> error = error_of([&] {
    (void)engine->copy_out({RunId("run1"), "a", 1}, "/out", [](std::string_view) {}, {});
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid);
}

TEST(CopyOut, ReadsOnlyTheBeginningOfTheArchiveAfterAFailedHead) {
  for (const std::string& body : {std::string(), std::string("an archive")}) {
    const std::optional<Error> error = copy_error(500, whole(200, body));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::unavailable);
    EXPECT_EQ(
        std::string(error->what()),
        "/out: the engine answered the request HEAD with status 500, but GET for the same path with 200");
  }
  constexpr std::size_t k_pieces = 1024;
  const std::string piece(std::size_t{1} << 16U, 'a');
  std::atomic<std::size_t> sent = 0;
  Reply large = whole(200, "");
  large.pieces = {"HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(k_pieces * piece.size()) +
                  "\r\n\r\n"};
  large.more = [&] { return sent++ < k_pieces ? piece : std::string(); };
  const std::optional<Error> error = copy_error(500, large);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::unavailable);
  EXPECT_LT(sent, k_pieces);
}

TEST(CopyOut, APathThatVanishesBeforeTheSecondRequestIsNotFound) {
  std::optional<bool> found;
  EXPECT_FALSE(copy_error(500, whole(404, message("no such path")), &found));
  EXPECT_EQ(found, false);
  found.reset();
  EXPECT_FALSE(copy_error(404, whole(500, message("never asked")), &found));
  EXPECT_EQ(found, false);
}

}  // namespace
}  // namespace combu::wire
