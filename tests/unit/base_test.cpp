#include "combu/base.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace combu {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

std::string refusal_of_duration(std::string_view text) {
  try {
    (void)parse_duration(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_EQ(error.subject(), "");
    return error.message();
  }
  return "accepted";
}

std::string refusal_of_bytes(std::string_view text) {
  try {
    (void)parse_bytes(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_EQ(error.subject(), "");
    return error.message();
  }
  return "accepted";
}

TEST(ErrorText, NamesTheSubjectFirst) {
  EXPECT_STREQ(Error(ErrorKind::invalid, "[3].name", "is empty").what(), "[3].name: is empty");
  EXPECT_STREQ(Error(ErrorKind::invalid, "", "is empty").what(), "is empty");
  EXPECT_EQ(to_string(ErrorKind::not_found), "not_found");
}

TEST(Duration, ParserAcceptsUnitsAndPlainNumbers) {
  EXPECT_DOUBLE_EQ(parse_duration("90s").count(), 90);
  EXPECT_DOUBLE_EQ(parse_duration("1h30m").count(), 5400);
  EXPECT_DOUBLE_EQ(parse_duration("500ms").count(), 0.5);
  EXPECT_DOUBLE_EQ(parse_duration("1.5h").count(), 5400);
  EXPECT_DOUBLE_EQ(parse_duration("2d").count(), 172800);
  EXPECT_DOUBLE_EQ(parse_duration("250us").count(), 250e-6);
  EXPECT_DOUBLE_EQ(parse_duration("12").count(), 12);
  EXPECT_DOUBLE_EQ(parse_duration(" 0.25 ").count(), 0.25);
  EXPECT_DOUBLE_EQ(parse_duration("0").count(), 0);
}

TEST(Duration, AMalformedTextIsRefusedAndQuoted) {
  EXPECT_THAT(refusal_of_duration(""), HasSubstr("not a duration"));
  EXPECT_THAT(refusal_of_duration("soon"), HasSubstr("\"soon\" is not a duration"));
  EXPECT_THAT(refusal_of_duration("-5s"), HasSubstr("negative"));
  EXPECT_THAT(refusal_of_duration("5x"), HasSubstr("unknown unit \"x\""));
  EXPECT_THAT(refusal_of_duration("1h30"), HasSubstr("without a unit"));
  EXPECT_THAT(refusal_of_duration("1..5s"), HasSubstr("not a duration"));
  EXPECT_THAT(refusal_of_duration("101y"), HasSubstr("unknown unit"));
  EXPECT_THAT(refusal_of_duration("40000d"), HasSubstr("100 years"));
  EXPECT_THAT(refusal_of_duration(std::string(400, '9')), HasSubstr("\"999"));
  EXPECT_THAT(refusal_of_duration("inf"), HasSubstr("not a duration"));
  EXPECT_THAT(refusal_of_duration("nan"), HasSubstr("not a duration"));
}

TEST(ByteCount, UnitsArePowersOfTwoAsInDocker) {
  EXPECT_EQ(parse_bytes("512m").count, 512LL << 20);
  EXPECT_EQ(parse_bytes("2GiB").count, 2LL << 30);
  EXPECT_EQ(parse_bytes("2gb").count, 2LL << 30);
  EXPECT_EQ(parse_bytes("100k").count, 100LL << 10);
  EXPECT_EQ(parse_bytes("1 TB").count, 1LL << 40);
  EXPECT_EQ(parse_bytes("1.5g").count, 3LL << 29);
  EXPECT_EQ(parse_bytes("77").count, 77);
  EXPECT_EQ(parse_bytes("77b").count, 77);
  EXPECT_EQ(parse_bytes("9223372036854775807").count, 9223372036854775807LL);
}

TEST(ByteCount, AMalformedTextIsRefusedAndQuoted) {
  EXPECT_THAT(refusal_of_bytes(""), HasSubstr("not a size"));
  EXPECT_THAT(refusal_of_bytes("-1"), HasSubstr("negative"));
  EXPECT_THAT(refusal_of_bytes("much"), HasSubstr("\"much\" is not a size"));
  EXPECT_THAT(refusal_of_bytes("5q"), HasSubstr("unknown unit \"q\""));
  EXPECT_THAT(refusal_of_bytes("5kbb"), HasSubstr("unknown unit"));
  EXPECT_THAT(refusal_of_bytes("9223372036854775808"), HasSubstr("2^63"));
  EXPECT_THAT(refusal_of_bytes("8192p"), HasSubstr("2^63"));
  EXPECT_THAT(refusal_of_bytes("8192.5p"), HasSubstr("2^63"));
}

TEST(DurationText, IsRoundedForTheUser) {
  EXPECT_EQ(to_string(Seconds(0)), "0 ms");
  EXPECT_EQ(to_string(Seconds(0.85)), "850 ms");
  EXPECT_EQ(to_string(Seconds(0.9999)), "1.0 s");
  EXPECT_EQ(to_string(Seconds(3.2)), "3.2 s");
  EXPECT_EQ(to_string(Seconds(59.97)), "1m00s");
  EXPECT_EQ(to_string(Seconds(250)), "4m10s");
  EXPECT_EQ(to_string(Seconds(3599.9)), "1h00m");
  EXPECT_EQ(to_string(Seconds(7500)), "2h05m");
  EXPECT_EQ(to_string(Seconds(3 * 86400 + 7200)), "3d02h");
}

TEST(ByteText, IsRoundedForTheUser) {
  EXPECT_EQ(to_string(Bytes{0}), "0 B");
  EXPECT_EQ(to_string(Bytes{1023}), "1023 B");
  EXPECT_EQ(to_string(Bytes{512LL << 20}), "512 MiB");
  EXPECT_EQ(to_string(Bytes{3LL << 29}), "1.5 GiB");
  EXPECT_EQ(to_string(Bytes{(1LL << 20) - 1}), "1 MiB");
  EXPECT_EQ(to_string(Bytes{9223372036854775807LL}), "8 EiB");
}

TEST(RunIdText, OnlyCharactersOfLabelsAndFileNamesAreAccepted) {
  EXPECT_EQ(RunId("Night-1_b.2").text(), "Night-1_b.2");
  for (const std::string& wrong : {std::string(), std::string("-a"), std::string("a b"), std::string(65, 'a'),
                                   std::string("a\0b", 3), std::string("é")}) {
    EXPECT_THROW(RunId{wrong}, Error) << wrong;
  }
}

TEST(RunIdText, RandomIdsAreUnique) {
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const std::string text = RunId::random().text();
    EXPECT_EQ(text.size(), 12U);
    EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789"), std::string::npos) << text;
    seen.insert(text);
  }
  EXPECT_EQ(seen.size(), 200U);
}

TEST(Nearest, FindsTypingErrorsAndAbbreviations) {
  const std::vector<std::string_view> known{"name",     "image",   "ports", "volumes",
                                            "networks", "depends", "cmd"};
  EXPECT_EQ(nearest("nmae", known), "name");
  EXPECT_EQ(nearest("imag", known), "image");
  EXPECT_EQ(nearest("volume", known), "volumes");
  EXPECT_EQ(nearest("dependson", known), "depends");
  EXPECT_EQ(nearest("cm", known), "cmd");
  EXPECT_EQ(nearest("name", known), "name");
  EXPECT_EQ(nearest("img", known), "image");
  EXPECT_EQ(nearest("deps", known), "depends");
  EXPECT_EQ(nearest("colour", known), std::nullopt);
  EXPECT_EQ(nearest("dns", known), std::nullopt);
  EXPECT_EQ(nearest("", known), std::nullopt);
  EXPECT_EQ(nearest("a", {"q", "b"}), std::nullopt);
  EXPECT_EQ(nearest(std::string(100000, 'n'), known), std::nullopt);
}

TEST(Trimmed, RemovesBlanksAtBothEnds) {
  EXPECT_EQ(trimmed(" \t a b\r\n"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

TEST(ParseNumber, AcceptsANumberThatFillsTheText) {
  EXPECT_EQ(parse_number<int>("42"), 42);
  EXPECT_EQ(parse_number<int>("-7"), -7);
  EXPECT_EQ(parse_number<int>("007"), 7);
  EXPECT_EQ(parse_number<std::size_t>("18446744073709551615"), std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(parse_number<double>("-1.5e3"), -1500.0);
  EXPECT_EQ(parse_number<double>("-inf"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(parse_number<double>("nan").value()));
}

TEST(ParseNumber, RefusesAllOtherTexts) {
  for (const char* text :
       {"", " ", "x", "-", "+1", " 1", "1 ", "1x", "0x10", "1.5", "2147483648", "-2147483649"})
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  for (const char* text : {"-1", "-0", "4294967296"})
    EXPECT_EQ(parse_number<std::uint32_t>(text), std::nullopt) << text;
  for (const char* text : {"", ".", "+1.5", "1,5", "1e999", "1.5s"})
    EXPECT_EQ(parse_number<double>(text), std::nullopt) << text;
  EXPECT_EQ(parse_number<int>(std::string_view("1\0", 2)), std::nullopt);
}

TEST(ParseEnum, FindsTheEnumeratorByItsName) {
  constexpr std::size_t k_count = 8;
  EXPECT_EQ(parse_enum<ErrorKind>(to_string(ErrorKind::invalid), k_count), ErrorKind::invalid);
  EXPECT_EQ(parse_enum<ErrorKind>(to_string(ErrorKind::corrupt), k_count), ErrorKind::corrupt);
  EXPECT_EQ(parse_enum<ErrorKind>(to_string(ErrorKind::corrupt), k_count - 1), std::nullopt);
  EXPECT_EQ(parse_enum<ErrorKind>("", k_count), std::nullopt);
}

TEST(ListText, NamesTheFirstOnesAndCountsTheOthers) {
  EXPECT_EQ(list_text({}, 2), "");
  EXPECT_EQ(list_text({"a"}, 2), "a");
  EXPECT_EQ(list_text({"a", "b"}, 2), "a, b");
  EXPECT_EQ(list_text({"a", "b", "c"}, 2), "a, b and 1 more");
  EXPECT_EQ(list_text({"a", "b", "c", "d", "e"}, 1), "a and 4 more");
}

TEST(HoldsPath, ComparesWholeNames) {
  EXPECT_TRUE(holds_path("/a", "/a"));
  EXPECT_TRUE(holds_path("/a", "/a/b/c"));
  EXPECT_FALSE(holds_path("/a", "/ab"));
  EXPECT_FALSE(holds_path("/a/b", "/a"));
  EXPECT_TRUE(holds_path("", ""));
  EXPECT_TRUE(holds_path("", "a/b"));
}

TEST(FirstCharacter, DecodesValidUtf8) {
  const auto code_and_bytes = [](std::string_view text) {
    const Character character = first_character(text).value();
    return std::pair(character.code, character.bytes);
  };
  EXPECT_EQ(code_and_bytes("ab"), std::pair(U'a', std::size_t{1}));
  EXPECT_EQ(code_and_bytes(std::string_view("\0", 1)), std::pair(U'\0', std::size_t{1}));
  EXPECT_EQ(code_and_bytes("éb"), std::pair(U'é', std::size_t{2}));
  EXPECT_EQ(code_and_bytes("験"), std::pair(U'験', std::size_t{3}));
  EXPECT_EQ(code_and_bytes("\xF4\x8F\xBF\xBF"), std::pair(U'\U0010FFFF', std::size_t{4}));
}

TEST(FirstCharacter, RefusesInvalidUtf8) {
  for (const char* text : {"\x80", "\xC1\x81", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xC3", "\xC3x", "\xE9\xA8"})
    EXPECT_FALSE(first_character(text)) << testing::PrintToString(text);
}

TEST(IsUtf8, ChecksEachCharacter) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8(std::string_view("a\0é験", 7)));
  EXPECT_FALSE(is_utf8("a\xFF"));
  EXPECT_FALSE(is_utf8("é\xC3"));
}

TEST(Tail, KeepsTheLastBytesWithinTwiceItsSize) {
  std::string text;
  std::string all;
  for (int i = 0; i < 100; ++i) {
    const std::string more = std::to_string(i) + "\n";
    all += more;
    append_to_tail(text, more, 20);
    EXPECT_LE(text.size(), 40U);
    EXPECT_GE(text.size(), std::min<std::size_t>(all.size(), 20));
    EXPECT_TRUE(all.ends_with(text));
  }
}

TEST(Columns, AWideCharacterCountsTwo) {
  EXPECT_EQ(columns_of(""), 0U);
  EXPECT_EQ(columns_of("plain"), 5U);
  EXPECT_EQ(columns_of("é – └"), 5U);
  EXPECT_EQ(columns_of("実験🚀"), 6U);
  EXPECT_EQ(columns_of("a\xFF"), 2U);
}

TEST(RealClock, WaitsForTheDurationWithoutAStop) {
  const auto before = std::chrono::steady_clock::now();
  real_clock().wait(Seconds(0.02), {});
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(20));
  real_clock().wait(Seconds(-1), {});
}

TEST(RealClock, WaitEndsAtOnceWhenStopped) {
  std::stop_source stop;
  std::latch started(1);
  // Without the stop, this wait would exceed the time limit of every test.
  std::jthread waiter([&] {
    started.count_down();
    real_clock().wait(Seconds(1e9), stop.get_token());
  });
  started.wait();
  stop.request_stop();
  waiter.join();
  real_clock().wait(Seconds(1e9), stop.get_token());
}

TEST(Sha256, HashesMatchTheStandard) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 sum;
  sum.add("a");
  sum.add("bc");
  EXPECT_EQ(sum.text(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// ---- Folders

class FolderPathTest : public testing::Test {
 protected:
  FolderPathTest() { fs::create_directories(root_); }
  ~FolderPathTest() override { fs::remove_all(root_); }

  [[nodiscard]] Descriptor root() const { return Descriptor(::open(root_.c_str(), O_RDONLY | O_DIRECTORY)); }
  static std::size_t open_descriptors() {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
  }

  fs::path root_ = testing::TempDir() + "folder_path." + std::to_string(getpid());
};

TEST_F(FolderPathTest, ADeepPathNeedsFewDescriptors) {
  constexpr std::size_t k_deep = 3000;
  const std::size_t before = open_descriptors();
  FolderPath path(root());
  for (std::size_t i = 0; i < k_deep; ++i) {
    ASSERT_EQ(mkdirat(path.number(), "d", 0755), 0);
    ASSERT_TRUE(path.enter("d"));
  }
  EXPECT_EQ(path.depth(), k_deep);
  EXPECT_LE(open_descriptors(), before + FolderPath::k_open_max);
  while (path.depth() > 0) {
    ASSERT_TRUE(path.leave());
    ASSERT_EQ(unlinkat(path.number(), "d", AT_REMOVEDIR), 0);
  }
  EXPECT_LE(open_descriptors(), before + FolderPath::k_open_max);
}

TEST_F(FolderPathTest, FollowsNoLink) {
  fs::create_directories(root_ / "a");
  fs::create_directory_symlink("a", root_ / "link");
  FolderPath path(root());
  EXPECT_FALSE(path.enter("link"));
  EXPECT_EQ(errno, ENOTDIR);
  EXPECT_TRUE(path.enter("a"));
}

TEST_F(FolderPathTest, AFolderIsOpenedWithoutFollowingLinks) {
  const fs::path root = fs::canonical(root_);
  fs::create_directories(root / "a/b");
  fs::create_directory_symlink("a", root / "link");
  std::ofstream(root / "file") << "x";
  for (const fs::path& path : {fs::path("/"), root, root / "a/b", root / "a//b/"}) {
    const OpenedFolder opened = open_without_links(path);
    ASSERT_TRUE(opened.folder.is_open()) << path << opened.failed << opened.code;
    const Descriptor again = reopen(opened.folder, O_RDONLY | O_DIRECTORY);
    EXPECT_TRUE(list_folder(again.number())) << path;
  }
  const auto failure = [&](const fs::path& path) {
    const OpenedFolder opened = open_without_links(path);
    EXPECT_FALSE(opened.folder.is_open()) << path;
    return std::pair(fs::path(opened.failed), opened.code);
  };
  EXPECT_EQ(failure(root / "link"), std::pair(root / "link", ENOTDIR));
  EXPECT_EQ(failure(root / "link/b"), std::pair(root / "link", ENOTDIR));
  EXPECT_EQ(failure(root / "a/absent/b"), std::pair(root / "a/absent", ENOENT));
  EXPECT_EQ(failure(root / "file"), std::pair(root / "file", ENOTDIR));
}

TEST_F(FolderPathTest, MissingFoldersAreCreatedInTheirParents) {
  const fs::path root = fs::canonical(root_);
  std::vector<std::string> made;
  const auto make = [&](int above, const std::string& name) {
    made.push_back(name);
    return name == "not" ? EDQUOT : mkdirat(above, name.c_str(), 0700) == 0 ? 0 : errno;
  };
  EXPECT_TRUE(open_without_links(root / "a/b", make).folder.is_open());
  EXPECT_THAT(made, testing::ElementsAre("a", "b"));
  fs::create_directory_symlink("nowhere", root / "link");
  for (const auto& [path, code] :
       {std::pair(root / "link/b", ENOTDIR), std::pair(root / "a/not/b", EDQUOT)}) {
    const OpenedFolder opened = open_without_links(path, make);
    EXPECT_FALSE(opened.folder.is_open());
    EXPECT_EQ(fs::path(opened.failed), path.parent_path());
    EXPECT_EQ(opened.code, code);
  }
}

TEST_F(FolderPathTest, LeavingAMovedFolderFails) {
  fs::create_directories(root_ / "other");
  FolderPath path(root());
  fs::path deep = root_;
  for (std::size_t i = 0; i < 2 * FolderPath::k_open_max; ++i) {
    fs::create_directory(deep /= "d");
    ASSERT_TRUE(path.enter("d"));
  }
  fs::rename(root_ / "d/d", root_ / "other/d");
  while (path.depth() > 2) ASSERT_TRUE(path.leave());
  EXPECT_FALSE(path.leave());
  EXPECT_EQ(errno, ESTALE);
  EXPECT_EQ(path.depth(), 2U) << "it stays where it is";
}

TEST_F(FolderPathTest, ListsTheEntriesOfAFolder) {
  fs::create_directories(root_ / "folder");
  fs::create_symlink("nowhere", root_ / "link");
  std::ofstream(root_ / "file") << "x";
  const auto entries = list_folder(root().number());
  ASSERT_TRUE(entries);
  std::map<std::string, mode_t> kinds;
  for (const FolderEntry& entry : *entries) kinds[entry.name] = entry.kind;
  EXPECT_THAT(kinds, testing::ElementsAre(testing::Pair("file", testing::AnyOf(mode_t{S_IFREG}, mode_t{0})),
                                          testing::Pair("folder", testing::AnyOf(mode_t{S_IFDIR}, mode_t{0})),
                                          testing::Pair("link", testing::AnyOf(mode_t{S_IFLNK}, mode_t{0}))));
  EXPECT_FALSE(list_folder(-1));
}

TEST(InParallel, CallsTheBodyOnceForEachIndex) {
  for (const std::size_t width : {0, 1, 3, 64}) {
    std::vector<std::atomic<int>> calls(500);
    in_parallel(calls.size(), width, [&](std::size_t i) { ++calls[i]; });
    EXPECT_TRUE(std::all_of(calls.begin(), calls.end(), [](const auto& n) { return n == 1; })) << width;
  }
  in_parallel(0, 4, [](std::size_t) { FAIL(); });
}

TEST(InParallel, UsesExactlyTheGivenNumberOfThreads) {
  std::latch all_here(4);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  // Each of the first four calls waits for the others. With fewer than four threads this would block for
  // ever.
  in_parallel(40, 4, [&](std::size_t i) {
    if (i < 4) all_here.arrive_and_wait();
    const std::scoped_lock lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 4U);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 1U);
}

TEST(Controls, TerminalControlsAreEscaped) {
  EXPECT_EQ(escape_controls("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(escape_controls("\x1b[2J\r\a\x7f"), "\\u001b[2J\\u000d\\u0007\\u007f");
  EXPECT_EQ(escape_controls(std::string_view("\0", 1)), "\\u0000");
  EXPECT_EQ(escape_controls("\xc2\x80\xc2\x9f"), "\\u0080\\u009f");
  EXPECT_EQ(escape_controls("größe 実験 🚀 \xc2\xa0"), "größe 実験 🚀 \xc2\xa0");
}

TEST(Controls, BidirectionalControlsAreEscaped) {
  for (const char32_t code : {U'\x061C', U'\x200E', U'\x200F', U'\x202A', U'\x202E', U'\x2066', U'\x2069'})
    EXPECT_TRUE(is_control(code)) << static_cast<unsigned>(code);
  EXPECT_EQ(escape_controls("\xd8\x9c"), "\\u061c");
  EXPECT_EQ(escape_controls("\xe2\x80\xae"), "\\u202e");
  EXPECT_EQ(escape_controls("\xe2\x81\xa6"), "\\u2066");
  for (const char32_t code : {U' ', U'~', U'\x00A0', U'\x200D', U'\x2065', U'\x206A'})
    EXPECT_FALSE(is_control(code)) << static_cast<unsigned>(code);
}

TEST(Controls, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(escape_controls("\x9b"
                            "2J \xff \xc3"),
            "\\x9b2J \\xff \\xc3");
  EXPECT_EQ(escape_controls("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half a surrogate pair
}

TEST(Controls, TextIsCutBeforeAnIncompleteCharacter) {
  EXPECT_EQ(whole_characters(""), 0U);
  EXPECT_EQ(whole_characters("abc"), 3U);
  EXPECT_EQ(whole_characters("aß"), 3U);
  EXPECT_EQ(whole_characters("a\xc3"), 1U);
  EXPECT_EQ(whole_characters("a\xe2\x80"), 1U);
  EXPECT_EQ(whole_characters("a\xe2\x80\xae"), 4U);
  EXPECT_EQ(whole_characters("a\xf0\x9f\x9a"), 1U);
  EXPECT_EQ(whole_characters("\x80\x80\x80\x80"), 4U);
}

std::string refusal_of_file(const std::string& path) {
  try {
    (void)read_regular_file(path, Bytes{16});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_EQ(error.subject(), path);
    return error.message();
  }
  return "accepted";
}

TEST(ReadRegularFile, RefusesAllOtherKindsOfFiles) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "read_regular_file";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const auto path = [&](const char* name) { return (folder / name).string(); };
  std::ofstream(path("small")) << "16 bytes at most";
  std::ofstream(path("large")) << "more than 16 bytes";
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), S_IRUSR | S_IWUSR), 0);
  std::filesystem::create_symlink("pipe", path("link"));
  std::filesystem::create_symlink("loop", path("loop"));
  EXPECT_EQ(read_regular_file(path("small"), Bytes{16}), "16 bytes at most");
  EXPECT_EQ(read_regular_file(path("absent"), Bytes{16}), std::nullopt);
  EXPECT_EQ(read_regular_file(path("small/absent"), Bytes{16}), std::nullopt);
  EXPECT_EQ(refusal_of_file(path("large")), "is larger than 16 B");
  EXPECT_EQ(refusal_of_file("/proc/self/status"), "is larger than 16 B") << "it has no size";
  EXPECT_EQ(refusal_of_file(folder), "is a folder, not a file");
  EXPECT_EQ(refusal_of_file(path("loop")), "cannot be read: Too many levels of symbolic links");
  for (const std::string& other : {path("pipe"), path("link"), std::string("/dev/zero")})
    EXPECT_EQ(refusal_of_file(other), "is a pipe, a device or a socket; it must be a regular file");
  std::filesystem::remove_all(folder);
}

TEST(InParallel, RethrowsTheFirstExceptionAndStops) {
  std::atomic<int> calls = 0;
  EXPECT_THROW(in_parallel(1000, 1,
                           [&](std::size_t i) {
                             ++calls;
                             if (i == 10) throw std::runtime_error("no");
                           }),
               std::runtime_error);
  EXPECT_EQ(calls, 11);
  EXPECT_THROW(in_parallel(1000, 8, [](std::size_t) { throw Error(ErrorKind::refused, "x", "no"); }), Error);
}

TEST(Moment, ParserAcceptsRfc3339) {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  const Instant at(seconds(1'767'323'045));
  EXPECT_EQ(parse_timestamp("2026-01-02T03:04:05Z"), at);
  EXPECT_EQ(parse_timestamp("2026-01-02T03:04:05.25Z"), at + milliseconds(250));
  EXPECT_EQ(parse_timestamp("2026-01-02T05:34:05.250000000+02:30"), at + milliseconds(250));
  EXPECT_EQ(parse_timestamp("2026-01-01T22:04:05-05:00"), at);
  for (const char* text : {"", "0001-01-01T00:00:00Z", "2026-01-02T03:04:05", "2026-01-02T03:04:05X",
                           "2026-01-02T03:04:05+x", "yesterday"})
    EXPECT_EQ(parse_timestamp(text), std::nullopt) << text;
  EXPECT_EQ(parse_timestamp("2026-01-02"), Instant(seconds(1'767'312'000)));
}

TEST(OneLine, ReplacesBlanksAndIsLimited) {
  EXPECT_EQ(one_line(" a\r\n\t b\x1b c \n"), "a b c");
  EXPECT_EQ(one_line(""), "");
  EXPECT_EQ(one_line(std::string(499, 'a') + "äb"), std::string(499, 'a') + "…");
  EXPECT_EQ(one_line(std::string(500, 'a')), std::string(500, 'a'));
}

TEST(FileTime, IsLimitedToTheRangeOfInstant) {
  constexpr std::int64_t k_end = 9'223'372'035;
  const auto seconds_of = [](Instant time) {
    return std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count();
  };
  EXPECT_EQ(file_time(-2, 500'000'000), Instant(std::chrono::milliseconds(-1500)));
  EXPECT_EQ(file_time(7), Instant(std::chrono::seconds(7)));
  for (const std::int64_t late :
       {k_end, k_end + 1, std::int64_t{10'000'000'000}, std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(seconds_of(file_time(late, 999'999'999)), k_end) << late;
  for (const std::int64_t early :
       {-k_end, -k_end - 1, std::int64_t{-10'000'000'000}, std::numeric_limits<std::int64_t>::min()})
    EXPECT_EQ(seconds_of(file_time(early, 999'999'999)), -k_end) << early;
}

}  // namespace
}  // namespace combu
