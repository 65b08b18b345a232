// read_archive() and read_file() over an engine whose containers have one path.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "combu/engine.hpp"
#include "error_of.hpp"
#include "passing_engine.hpp"
#include "raw_archive.hpp"

namespace combu {
namespace {

const Key k_key{.run = RunId("r"), .trial = "t", .attempt = 1};

// An engine whose copy_out() delivers `archive` again and again, `repeats` times.
class OnePath : public test::PassingEngine {
 public:
  explicit OnePath(std::string archive, std::size_t repeats = 1)
      : PassingEngine(static_cast<Engine&>(*this)), archive_(std::move(archive)), repeats_(repeats) {}
  bool copy_out(const Key& /*key*/, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token /*stop*/) override {
    if (path != "/path") return false;
    for (std::size_t i = 0; i < repeats_; ++i) {
      on_bytes(archive_);
      sent += archive_.size();
    }
    if (fault) throw Error(*fault);
    return true;
  }

  std::size_t sent = 0;
  std::optional<Error> fault;  // after the archive

 private:
  std::string archive_;
  std::size_t repeats_;
};

std::string archive_of(const std::string& content) {
  return test::raw_entry("path", '0', content) + std::string(1024, '\0');
}

struct Read {
  std::string text;
  bool found = false;
  std::optional<Error> error;
};
Read read(Engine& engine, const std::string& path = "/path") {
  Read it;
  it.error = test::error_of([&] {
    it.found = read_file(engine, k_key, path,
                         [&](const NextBytes& next, Instant modified) {
                           EXPECT_EQ(modified, Instant());
                           for (std::string_view bytes = next(); !bytes.empty(); bytes = next())
                             it.text += bytes;
                         },
                         {});
  });
  return it;
}

TEST(ReadFile, TheContentOfTheFileIsRead) {
  for (const std::size_t size : {1UL, 511UL, 512UL, 1'000'000UL, 20'000'000UL}) {
    const std::string content(size, 'x');
    OnePath engine(archive_of(content));
    const Read it = read(engine);
    EXPECT_TRUE(it.found && !it.error);
    EXPECT_TRUE(it.text == content) << size;
  }
}

TEST(ReadFile, AMissingPathIsNotFound) {
  OnePath engine(archive_of("text"));
  const Read it = read(engine, "/other");
  EXPECT_FALSE(it.found || it.error);
  EXPECT_EQ(it.text, "");
}

TEST(ReadFile, AFolderAndAnInvalidArchiveAreErrors) {
  OnePath folder(test::raw_entry("path/", '5', "") + std::string(1024, '\0'));
  EXPECT_EQ(read(folder).error.value().kind(), ErrorKind::invalid);
  OnePath garbage(std::string(2000, 'x'));
  EXPECT_EQ(read(garbage).error.value().kind(), ErrorKind::corrupt);
  OnePath empty("");
  EXPECT_EQ(read(empty).error.value().kind(), ErrorKind::corrupt);
}

TEST(ReadFile, AnIncompleteArchiveIsReadToItsLastByte) {
  OnePath engine(archive_of("the whole text").substr(0, 512 + 3));
  const Read it = read(engine);
  EXPECT_EQ(it.text, "the");
  EXPECT_EQ(it.error.value().kind(), ErrorKind::corrupt);
}

TEST(ReadFile, AHoleIsReadAsZeros) {
  OnePath engine(test::sparse_archive("path", 1'000'000));
  EXPECT_TRUE(read(engine).text == std::string(999'999, '\0') + "x");
}

TEST(ReadFile, TheTimeOfTheFileIsGiven) {
  OnePath engine(test::raw_entry("pax", 'x', "14 mtime=12.5\n") + archive_of("text"));
  Instant at;
  EXPECT_TRUE(read_file(engine, k_key, "/path",
                        [&](const NextBytes& /*next*/, Instant modified) { at = modified; }, {}));
  EXPECT_EQ(at, Instant(std::chrono::milliseconds(12'500)));
}

TEST(ReadFile, AnErrorOfTheEngineIsThrownAfterTheLastByte) {
  OnePath engine(archive_of("text").substr(0, 512 + 2));
  engine.fault = Error(ErrorKind::unavailable, "engine", "the connection was cut");
  const Read it = read(engine);
  EXPECT_EQ(it.text, "te");
  EXPECT_EQ(it.error.value().kind(), ErrorKind::unavailable);
}

TEST(ReadFile, AnErrorOfTheEngineAfterTheContentIsNone) {
  OnePath engine(archive_of("text"));
  engine.fault = Error(ErrorKind::unavailable, "engine", "the connection was cut");
  const Read it = read(engine);
  EXPECT_EQ(it.text, "text");
  EXPECT_FALSE(it.error);
}

TEST(ReadArchive, NoMoreIsRequestedAfterTheReaderHasReturned) {
  constexpr std::size_t k_repeats = 1'000'000;
  const std::string archive = archive_of("text");
  OnePath engine(archive, k_repeats);
  EXPECT_TRUE(
      read_archive(engine, k_key, "/path", [](const NextBytes& next) { EXPECT_FALSE(next().empty()); }, {}));
  EXPECT_LT(engine.sent, archive.size() * k_repeats);
}

TEST(ReadArchive, AnExceptionOfTheReaderIsThrown) {
  OnePath engine(archive_of("text"), 1'000'000);
  const Error error = test::error_in([&] {
    (void)read_archive(
        engine, k_key, "/path",
        [](const NextBytes& /*next*/) { throw Error(ErrorKind::refused, "disk", "it is full"); }, {});
  });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
}

}  // namespace
}  // namespace combu
