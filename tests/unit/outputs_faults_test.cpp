// Tests of hostile outputs and of system errors: which errors end an attempt, and which are retried.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "outputs/s3_entries.hpp"
#include "outputs_fixture.hpp"
#include "outputs_system.hpp"
#include "soft_limit.hpp"

namespace {

using combu::test::System;
using combu::test::system_mutex;
using combu::test::the_system;

int failed(int code) {
  errno = code;
  return -1;
}

template <class... Arguments>
int call(long number, Arguments... arguments) {
  return static_cast<int>(syscall(number, arguments...));
}

// Copies bytes in place of FICLONE.
int clone(int to, int from) {
  struct stat seen {};
  if (fstat(from, &seen) != 0) return -1;
  off_t at = 0;
  while (at < seen.st_size)
    if (sendfile(to, from, &at, static_cast<std::size_t>(seen.st_size - at)) <= 0) return -1;
  return 0;
}

}  // namespace

// The following functions replace those of the system.
extern "C" int open(const char* name, int how, ...) {
  std::va_list rest;
  va_start(rest, how);
  const auto mode = va_arg(rest, mode_t);
  va_end(rest);
  return the_system.is_out_of_descriptors ? failed(EMFILE) : call(SYS_openat, AT_FDCWD, name, how, mode);
}
extern "C" int openat(int folder, const char* name, int how, ...) {
  std::va_list rest;
  va_start(rest, how);
  const auto mode = va_arg(rest, mode_t);
  va_end(rest);
  return the_system.is_out_of_descriptors ? failed(EMFILE) : call(SYS_openat, folder, name, how, mode);
}
extern "C" int unlinkat(int folder, const char* name, int how) noexcept {
  if (!the_system.unremovable.empty() && name == the_system.unremovable) return failed(EPERM);
  return call(SYS_unlinkat, folder, name, how);
}
extern "C" int symlinkat(const char* target, int folder, const char* name) noexcept {
  return the_system.has_links ? call(SYS_symlinkat, target, folder, name) : failed(EPERM);
}
extern "C" ssize_t pwrite(int file, const void* bytes, size_t size, off_t at) {
  return the_system.is_disk_full ? failed(ENOSPC) : syscall(SYS_pwrite64, file, bytes, size, at);
}
extern "C" int renameat2(int folder, const char* name, int other_folder, const char* other,
                         unsigned how) noexcept {
  return the_system.has_exchange ? call(SYS_renameat2, folder, name, other_folder, other, how)
                                 : failed(EINVAL);
}
extern "C" int fsync(int file) {
  struct stat seen {};
  const std::scoped_lock lock(system_mutex);
  if (fstat(file, &seen) == 0) the_system.synced.insert(seen.st_ino);
  return the_system.fails_to_sync ? failed(EIO) : call(SYS_fsync, file);
}
extern "C" int syncfs(int file) noexcept {
  const std::scoped_lock lock(system_mutex);
  ++the_system.file_systems_synced;
  return the_system.fails_to_sync_all ? failed(EIO) : call(SYS_syncfs, file);
}
extern "C" int sync_file_range(int file, off64_t from, off64_t size, unsigned how) {
  const std::scoped_lock lock(system_mutex);
  the_system.written_out.emplace_back(from, size);
  return call(SYS_sync_file_range, file, from, size, how);
}
// A struct of that name exists.
extern "C" int flock_of_tests(int file, int how) noexcept __asm__("flock");
extern "C" int flock_of_tests(int file, int how) noexcept {
  if (const auto before = std::exchange(the_system.before_lock, nullptr)) before();
  return call(SYS_flock, file, how);
}
extern "C" int ioctl(int file, unsigned long request, ...) noexcept {
  std::va_list more;
  va_start(more, request);
  const long value = va_arg(more, long);
  va_end(more);
  if (request != FICLONE || the_system.clones == System::Clones::as_they_are)
    return call(SYS_ioctl, file, request, value);
  const std::scoped_lock lock(system_mutex);
  ++the_system.clones_wanted;
  return the_system.clones == System::Clones::none ? failed(EOPNOTSUPP)
                                                   : clone(file, static_cast<int>(value));
}

namespace combu {
namespace {

namespace fs = std::filesystem;

using test::content_of;
using test::names_in;
using test::Outputs;
using test::Tar;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string nested_path(int folders) {
  std::string path = "out";
  for (int i = 0; i < folders; ++i) path += "/d";
  return path;
}

// Returns an archive of `folders` nested folders, each with its own entry. The innermost folder has a file,
// and out/leaf is a hard link to that file.
std::string nested_archive(int folders, const std::string& content) {
  Tar tar;
  std::string path = "out/";
  tar.folder(path);
  for (int i = 0; i < folders; ++i) tar.folder(path += "d/");
  return tar.file(path + "leaf", content).hard_link("out/leaf", path + "leaf").bytes();
}

// Returns the number of nested folders "d" below `place`/out if the innermost has a file "leaf"; otherwise
// -1.
int nested_in(const fs::path& place) {
  Descriptor out(::open((place / "out").c_str(), O_RDONLY | O_DIRECTORY));
  if (!out.is_open()) return -1;
  FolderPath path(std::move(out));
  int folders = 0;
  while (path.enter("d")) ++folders;
  return faccessat(path.number(), "leaf", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? folders : -1;
}

class NestedOutputs : public Outputs, public testing::WithParamInterface<int> {};

TEST_P(NestedOutputs, AreCollectedReplacedSharedAndRemovedWithFewDescriptors) {
  const test::SoftLimit few(RLIMIT_NOFILE, 256);
  for (const std::string content : {"first", "second"}) {
    shelf_.archives["/out"] = nested_archive(GetParam(), content);
    const CollectionResult collection = take("/out");
    EXPECT_EQ(collection.unremoved, "");
    EXPECT_EQ(nested_in(trial_folder()), GetParam());
    EXPECT_EQ(content_of(trial_folder() / "out/leaf"), content) << "by its other name";
    EXPECT_THAT(names_in(folder_.path()), ElementsAre("t"));
  }
  const fs::path shared = fs::path(folder_.path()) / "u";
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(output_store_->share(std::vector<Sharing>{{.trial = "u", .from = trial_folder()}}),
                ElementsAre(""));
    EXPECT_EQ(nested_in(shared), GetParam());
  }
  output_store_->remove("t");
  output_store_->remove("u");
  EXPECT_THAT(names_in(folder_.path()), IsEmpty());
}

TEST_P(NestedOutputs, LeaveNothingIfTheArchiveIsCut) {
  const test::SoftLimit few(RLIMIT_NOFILE, 256);
  const std::string whole = nested_archive(GetParam(), "x");
  shelf_.archives["/out"] = whole;
  shelf_.cut_after = whole.size() - 3000;
  for (int i = 0; i < 2; ++i) {
    const auto fault = fault_of({Output{.path = "/out"}});
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind(), ErrorKind::unavailable) << fault->what();
    EXPECT_THAT(names_in(folder_.path()), IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Depths, NestedOutputs, testing::Values(1500, 5000));

TEST_F(Outputs, AFileBelowManyFoldersWithoutEntriesIsCollectedWithFewDescriptors) {
  const test::SoftLimit few(RLIMIT_NOFILE, 256);
  constexpr int k_folders = 1500;
  shelf_.archives["/out"] = Tar().file(nested_path(k_folders) + "/leaf", "x").bytes();
  (void)take("/out");
  EXPECT_EQ(nested_in(trial_folder()), k_folders);
  output_store_->remove("t");
}

TEST_F(Outputs, RunningOutOfDescriptorsIsNotTheAttemptsFault) {
  shelf_.archives["/out"] = Tar().folder("out/").file("out/a", "x").bytes();
  test::SystemFaults faults;
  faults->is_out_of_descriptors = true;
  const auto fault = fault_of({Output{.path = "/out"}});
  faults->is_out_of_descriptors = false;
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::refused);
  EXPECT_THAT(fault->what(), HasSubstr("Too many open files"));
  (void)take("/out");
  EXPECT_EQ(content_of(trial_folder() / "out/a"), "x");
}

TEST_F(Outputs, EarlierOutputsThatCannotBeRemovedAreReported) {
  shelf_.archives["/out"] = Tar().folder("out/").file("out/a", "x").file("out/kept/b", "x").bytes();
  (void)take("/out");
  shelf_.archives["/out"] = Tar().folder("out/").file("out/a", "y").bytes();
  test::SystemFaults faults;
  faults->unremovable = "b";
  const CollectionResult collection = take("/out");
  EXPECT_THAT(collection.unremoved, AllOf(HasSubstr(folder_.path() + "/.t.unfinished/out/kept/b"),
                                          HasSubstr("cannot be removed: Operation not permitted")));
  EXPECT_EQ(content_of(trial_folder() / "out/a"), "y");
  EXPECT_THAT(names_in(fs::path(folder_.path()) / ".t.unfinished/out"), ElementsAre("kept"))
      << "the rest is gone";
  // The leftover makes the next collection fail, with a message about it.
  const auto fault = fault_of({Output{.path = "/out"}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::refused);
  EXPECT_EQ(fault->subject(), folder_.path() + "/.t.unfinished/out/kept/b");
  faults->unremovable.clear();
  EXPECT_EQ(take("/out").unremoved, "");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("t"));
}

TEST_F(Outputs, OutputsWithConflictingPathsAreTheAttemptsFault) {
  for (const std::string& archive : {Tar().folder("out/").file("out/a", "x").file("out/a", "y").bytes(),
                                     Tar().folder("out/").file("out/a", "x").file("out/a/b", "y").bytes(),
                                     Tar().folder("out/").link("out/a", "..").file("out/a/b", "y").bytes(),
                                     Tar().folder("out/").file("out/a", "x").link("out/a", "y").bytes(),
                                     Tar().folder("out/").file("out/a", "x").folder("out/a/").bytes()}) {
    shelf_.archives["/out"] = archive;
    const auto fault = fault_of({Output{.path = "/out"}});
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind(), ErrorKind::invalid) << fault->what();
    EXPECT_THAT(fault->what(), AllOf(HasSubstr("out/a"), HasSubstr("another output has the same path")));
    EXPECT_THAT(names_in(folder_.path()), IsEmpty());
  }
}

TEST_F(Outputs, ALinkThatTheFileSystemDoesNotSupportIsTheAttemptsFault) {
  shelf_.archives["/out"] = Tar().folder("out/").link("out/a", "b").bytes();
  test::SystemFaults faults;
  faults->has_links = false;
  const auto fault = fault_of({Output{.path = "/out"}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::invalid);
  EXPECT_THAT(fault->what(),
              HasSubstr("out/a: cannot be made: the file system does not support this kind of link"));
}

TEST_F(Outputs, TheErrorForAFullDiskNamesTheTrialAndItsFolder) {
  shelf_.archives["/out"] = Tar().folder("out/").file("out/a", "x").bytes();
  test::SystemFaults faults;
  faults->is_disk_full = true;
  const auto fault = fault_of({Output{.path = "/out"}});
  faults->is_disk_full = false;
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::refused) << "it is retried";
  EXPECT_EQ(std::string(fault->what()),
            trial_folder().string() + "/out/a: cannot be written: No space left on device");
  (void)take("/out");
  EXPECT_EQ(content_of(trial_folder() / "out/a"), "x");
}

TEST_F(Outputs, WithoutExchangeOfNamesTheOutputsAreRenamedOneByOne) {
  test::SystemFaults faults;
  faults->has_exchange = false;
  fs::create_directories(fs::path(folder_.path()) / ".t.old/out");  // left by a process that died
  for (const std::string content : {"first", "second"}) {
    shelf_.archives["/out"] = Tar().folder("out/").file("out/" + content, content).bytes();
    EXPECT_EQ(take("/out").unremoved, "");
    EXPECT_THAT(names_in(trial_folder() / "out"), ElementsAre(content));
    EXPECT_THAT(names_in(folder_.path()), ElementsAre("t"));
  }
}

TEST_F(Outputs, AFileThatIsTooLargeForTheFileSystemIsRefusedBeforeItsFirstByte) {
  constexpr std::int64_t k_size = std::int64_t{1} << 30U;
  const auto writer = output_store_->open("t", {});
  writer->add({.path = "out", .size = k_size});
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const test::SoftLimit small(RLIMIT_FSIZE, k_size / 2);
  try {
    output_store_->open("u", {})->add({.path = "out", .size = k_size});
    ADD_FAILURE() << "it is begun";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    EXPECT_THAT(error.what(), HasSubstr("the file is larger than the file system allows"));
  }
  (void)std::signal(SIGXFSZ, ignored);
}

// The digest of a large file is computed on a separate thread.
TEST_F(Outputs, ALargeFileThatIsCutOffDoesNotBlock) {
  const std::string whole = Tar().file("out", std::string(std::size_t{3} << 20U, 'x')).bytes();
  shelf_.archives["/out"] = whole;
  shelf_.cut_after = std::size_t{2} << 20U;
  const auto fault = fault_of({Output{.path = "/out"}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::unavailable);
}

TEST_F(Outputs, TheRestOfAnInterruptedRemovalIsRemoved) {
  shelf_.archives["/out"] = Tar().folder("out/").file("out/a", "x").bytes();
  (void)take("/out");
  fs::create_directories(fs::path(folder_.path()) / ".t.unfinished/out");
  output_store_->remove("t");
  EXPECT_THAT(names_in(folder_.path()), IsEmpty());
  fs::create_directories(fs::path(folder_.path()) / ".t.unfinished/out");
  output_store_->remove("t");
  EXPECT_THAT(names_in(folder_.path()), IsEmpty()) << "of nothing else";
}

// ---- Times

constexpr std::int64_t k_least = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t k_most = std::numeric_limits<std::int64_t>::max();

std::int64_t seconds_of(Instant time) {
  return std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count();
}

// Keeps the entries that a writer gets.
class MemoryStore final : public OutputStore {
 public:
  std::unique_ptr<OutputWriter> open(const std::string& /*place*/, const std::stop_token& /*stop*/) override {
    return std::make_unique<Box>(*this);
  }
  void remove(const std::string& /*place*/) override {}
  bool holds_any() override { return false; }
  bool is_whole(const std::string& /*place*/) override { return false; }
  std::vector<std::string> share(std::span<const Sharing> /*wanted*/) override { return {}; }
  std::string fetch(const std::string& /*trial*/, const std::string& /*path*/,
                    const std::stop_token& /*stop*/) override {
    return "";
  }

  std::vector<OutputEntry> entries;
  std::function<void(std::string_view)> on_write;

 private:
  class Box final : public OutputWriter {
   public:
    explicit Box(MemoryStore& kept) : kept_(kept) {}
    void add(const OutputEntry& entry) override { kept_.entries.push_back(entry); }
    void write(std::string_view bytes) override {
      if (kept_.on_write) kept_.on_write(bytes);
    }
    std::string close(const std::string& /*manifest*/) override { return ""; }

   private:
    MemoryStore& kept_;
  };
};

// Collects outputs into memory, to check the unpacked entries.
class Unpacked : public Outputs {
 protected:
  void unpack(const Output& output, const std::stop_token& stop = {}) {
    (void)collect_outputs(shelf_, {.run = RunId("run"), .trial = "t"}, {output}, kept_, stop);
  }

  MemoryStore kept_;
};

TEST_F(Unpacked, TimesOutsideTheRangeOfInstantAreClamped) {
  Tar tar;
  for (const std::int64_t time :
       {std::int64_t{99'999'999'999}, k_most, std::int64_t{-99'999'999'999}, k_least})
    tar.dated(time).file("out/" + std::to_string(time), "x");
  shelf_.archives["/out"] = tar.bytes();
  unpack({.path = "/out"});
  std::vector<std::int64_t> years;
  for (const OutputEntry& entry : kept_.entries)
    years.push_back(static_cast<int>(
        std::chrono::year_month_day(std::chrono::floor<std::chrono::days>(entry.modified)).year()));
  EXPECT_THAT(years, ElementsAre(2262, 2262, 1677, 1677));
  // The range of times of a file system may be smaller.
  (void)take("/out");
}

TEST(Entries, TimesOutsideTheRangeOfInstantAreClamped) {
  const auto seconds = [](const std::string& mtime) {
    return seconds_of(outputs::file_entry("a", {.key = "a", .mtime = mtime}).modified);
  };
  EXPECT_EQ(seconds("1000000000.5"), 1'000'000'000);
  EXPECT_EQ(outputs::file_entry("a", {.key = "a", .mtime = "1.5"}).modified,
            Instant(std::chrono::milliseconds(1500)));
  for (const char* const late : {"99999999999.0", "9223372036854775807", "99999999999999999999999"})
    EXPECT_EQ(seconds(late), 9'223'372'035) << late;
  for (const char* const early : {"-99999999999.0", "-9223372036854775808", "-99999999999999999999999"})
    EXPECT_EQ(seconds(early), -9'223'372'035) << early;
  EXPECT_EQ(seconds("12.-99999999"), 12);
}

TEST_F(Unpacked, AStopEndsAnArchiveOfManySmallFiles) {
  Tar tar;
  for (int i = 0; i < 100; ++i) tar.file("out/" + std::to_string(i), "");
  shelf_.archives["/out"] = tar.bytes();
  std::stop_source stop;
  stop.request_stop();
  try {
    unpack({.path = "/out"}, stop.get_token());
    ADD_FAILURE() << "it has come to its end";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled) << error.what();
  }
  EXPECT_THAT(kept_.entries, IsEmpty());
}

TEST_F(Unpacked, PathsAreNormalized) {
  shelf_.archives["/out"] =
      test::raw_entry("./out/./a", '0', "x") + test::raw_entry("out//b", '0', "y") + std::string(1024, '\0');
  unpack({.path = "/out"});
  std::vector<std::string> paths;
  for (const OutputEntry& entry : kept_.entries) paths.push_back(entry.path);
  EXPECT_THAT(paths, ElementsAre("out/a", "out/b"));
}

TEST_F(Unpacked, TheErrorSaysWhyAnArchiveIsRefused) {
  const auto fault = [&](const std::string& archive) {
    shelf_.archives["/out"] = archive;
    try {
      unpack({.path = "/out"});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(fault(Tar().file("../evil", "x").bytes()),
            "/out: the engine's archive of this output has an entry outside the output: ../evil");
  EXPECT_THAT(fault(Tar().file("out", std::string(10000, 'x')).bytes().substr(0, 5000)),
              HasSubstr("the engine's archive of this output cannot be read: Truncated"));
}

// ---- Holes

TEST_F(Unpacked, AStopEndsAFileOfHoles) {
  constexpr std::int64_t k_size = std::int64_t{1} << 50U;
  shelf_.archives["/out"] = test::sparse_archive("out", k_size);
  std::stop_source stop;
  std::size_t after_stop = 0;
  kept_.on_write = [&](std::string_view bytes) {
    if (!stop.request_stop()) after_stop += bytes.size();
    if (after_stop > (std::size_t{16} << 20U)) throw Error(ErrorKind::corrupt, "t", "it goes on");
  };
  try {
    unpack({.path = "/out"}, stop.get_token());
    ADD_FAILURE() << "it has come to its end";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled) << error.what();
  }
}

TEST_F(Unpacked, HolesCountTowardsTheLimit) {
  kept_.on_write = [](std::string_view) { throw Error(ErrorKind::corrupt, "t", "it is begun"); };
  for (const auto& [archive, limit, words] : std::vector<std::tuple<std::string, Bytes, std::string>>{
           {test::sparse_archive("out", std::int64_t{1} << 40U), Bytes{1 << 30U}, "its max_size of 1 GiB"},
           {test::sparse_archive("out", std::int64_t{1} << 62U), Bytes{}, "larger than 1 EiB"}}) {
    shelf_.archives["/out"] = archive;
    try {
      unpack({.path = "/out", .size_max = limit});
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid);
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }
}

TEST_F(Unpacked, SizesAreAddedWithoutOverflow) {
  kept_.on_write = [](std::string_view bytes) {
    if (bytes.size() != 1) throw Error(ErrorKind::corrupt, "t", "the second file is begun");
  };
  shelf_.archives["/out"] = test::raw_entry("out/a", '0', "x") + test::sparse_archive("out/b", k_most);
  try {
    unpack({.path = "/out", .size_max = Bytes{k_most}});
    ADD_FAILURE() << "it has come to its end";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid) << error.what();
  }
}

}  // namespace
}  // namespace combu
