// Tests of collecting outputs from an archive into a folder.

#include "combu/outputs.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "outputs_fixture.hpp"

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
using testing::UnorderedElementsAre;

TEST_F(Outputs, HoldsAnyIsFalseWithoutFiles) {
  EXPECT_FALSE(output_store_->holds_any());
  (void)take({Output{.path = "/out", .required = false}});
  EXPECT_TRUE(fs::exists(trial_folder() / "manifest.sha256"));
  EXPECT_FALSE(output_store_->holds_any());
  EXPECT_TRUE(fault_of({Output{.path = "/out"}}));
  EXPECT_FALSE(output_store_->holds_any());
  shelf_.archives["/out"] = Tar().file("out", "alpha").bytes();
  (void)take("/out");
  EXPECT_TRUE(output_store_->holds_any());
}

TEST_F(Outputs, AFolderIsCollectedWithAllItsContent) {
  shelf_.archives["/data/out"] = Tar()
                                     .folder("out/")
                                     .file("out/a.txt", "alpha")
                                     .folder("out/sub/", 0700)
                                     .file("out/sub/empty", "")
                                     .file("out/run.sh", "#!/bin/sh\n", 0755)
                                     .bytes();
  const CollectionResult collection = take("/data/out");
  EXPECT_EQ(collection.files, 3U);
  EXPECT_EQ(collection.size.count, 15);
  EXPECT_EQ(content_of(trial_folder() / "data/out/a.txt"), "alpha");
  EXPECT_TRUE(fs::is_empty(trial_folder() / "data/out/sub/empty"));
  EXPECT_EQ(fs::status(trial_folder() / "data/out/run.sh").permissions(), fs::perms(0755));
  EXPECT_EQ(fs::status(trial_folder() / "data/out/sub").permissions(), fs::perms(0700));
  EXPECT_EQ(fs::status(trial_folder() / k_manifest_name).permissions(), fs::perms(0644));
  struct stat info {};
  ASSERT_EQ(stat((trial_folder() / "data/out/a.txt").c_str(), &info), 0);
  EXPECT_EQ(info.st_mtim.tv_sec, 1000000000);
  EXPECT_EQ(info.st_mtim.tv_nsec, 500000000);
  EXPECT_EQ(info.st_uid, geteuid());
  ASSERT_EQ(stat((trial_folder() / "data/out/sub").c_str(), &info), 0);
  EXPECT_EQ(info.st_mtim.tv_sec, 1000000000) << "a folder's time, too, though something was made in it since";
  EXPECT_TRUE(manifest_holds());
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("t")) << "nothing unfinished is left";
}

TEST_F(Outputs, AFileIsCollectedToItsOwnPath) {
  shelf_.archives["/result.json"] = Tar().file("result.json", "{}").bytes();
  take("/result.json");
  EXPECT_EQ(content_of(trial_folder() / "result.json"), "{}");
}

// If the path is a link in the container, the archive has the name of the link's target.
TEST_F(Outputs, TheTargetOfALinkIsCollectedToTheLinksPath) {
  shelf_.archives["/out"] = Tar().folder("out-7/").file("out-7/a", "x").bytes();
  take("/out");
  EXPECT_EQ(content_of(trial_folder() / "out/a"), "x");
}

TEST_F(Outputs, OddNamesAreKept) {
  const std::vector<std::string> names{"with blanks",    "line\nend", "back\\slash",        "ümlaut",
                                       "\xff\xfe bytes", "-rf",       std::string(200, 'n')};
  Tar tar;
  tar.folder("out/");
  for (const std::string& name : names) tar.file("out/" + name, name);
  shelf_.archives["/out"] = tar.bytes();
  EXPECT_EQ(take("/out").files, names.size());
  for (const std::string& name : names) EXPECT_EQ(content_of(trial_folder() / "out" / name), name);
  EXPECT_TRUE(manifest_holds());
}

TEST_F(Outputs, LinksAreKeptAndNeverFollowed) {
  const test::Folder elsewhere("outputs-elsewhere");
  fs::create_directories(elsewhere.path());
  shelf_.archives["/out"] = Tar()
                                .folder("out/")
                                .link("out/latest", "a.txt")
                                .link("out/dangling", "/no/such")
                                .file("out/a.txt", "alpha")
                                .hard_link("out/b.txt", "out/a.txt")
                                .bytes();
  take("/out");
  EXPECT_EQ(fs::read_symlink(trial_folder() / "out/latest"), "a.txt");
  EXPECT_EQ(fs::read_symlink(trial_folder() / "out/dangling"), "/no/such");
  EXPECT_EQ(content_of(trial_folder() / "out/b.txt"), "alpha");
  EXPECT_EQ(fs::hard_link_count(trial_folder() / "out/a.txt"), 2U);

  shelf_.archives["/out"] =
      Tar().folder("out/").link("out/door", elsewhere.path()).file("out/door/owned", "x").bytes();
  EXPECT_TRUE(fault_of({Output{.path = "/out"}}));
  EXPECT_THAT(names_in(elsewhere.path()), IsEmpty());
}

TEST_F(Outputs, PathsThatLeadOutAreRefused) {
  for (const std::string path : {"../evil", "out/../../evil", "/evil", "out/../../../evil", ".."}) {
    shelf_.archives["/out"] = Tar().folder("out/").file(path, "x").bytes();
    const auto fault = fault_of({Output{.path = "/out"}});
    ASSERT_TRUE(fault) << path;
    EXPECT_EQ(fault->kind(), ErrorKind::corrupt);
    EXPECT_THAT(names_in(folder_.path()), IsEmpty()) << path;
  }
  shelf_.archives["/out"] = Tar().folder("out/").hard_link("out/a", "../../../etc/passwd").bytes();
  EXPECT_TRUE(fault_of({Output{.path = "/out"}}));
}

TEST_F(Outputs, SetUserIdBitsAreDropped) {
  shelf_.archives["/out"] = Tar().folder("out/", 0).file("out/a", "x", 06777).file("out/b", "y", 0).bytes();
  take("/out");
  EXPECT_EQ(fs::status(trial_folder() / "out/a").permissions(), fs::perms(0777));
  EXPECT_EQ(fs::status(trial_folder() / "out/b").permissions(), fs::perms(0600)) << "its owner may read it";
  EXPECT_EQ(fs::status(trial_folder() / "out").permissions(), fs::perms(0700));
}

// Files must belong to the calling user if combu runs under sudo to reach the engine.
TEST_F(Outputs, AllFilesBelongToTheOwner) {
  const Owner owner =
      geteuid() == 0 ? Owner{.uid = 4000, .gid = 4001} : Owner{.uid = geteuid(), .gid = getegid()};
  output_store_ = open_folder(folder_.path() + "/lab/run", owner);
  shelf_.archives["/data/out"] = Tar()
                                     .folder("out/")
                                     .file("out/a", "x")
                                     .link("out/link", "/etc/passwd")
                                     .folder("out/sub/")
                                     .file("out/sub/b", "y")
                                     .bytes();
  take("/data/out");
  std::size_t seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
    struct stat info {};
    ASSERT_EQ(lstat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_uid, owner.uid) << entry.path();
    EXPECT_EQ(info.st_gid, owner.gid) << entry.path();
    ++seen;
  }
  EXPECT_EQ(seen, 10U) << "lab, run, t, data, out, a, link, sub, b, and the manifest";
  struct stat info {};
  ASSERT_EQ(stat("/etc/passwd", &info), 0);
  EXPECT_EQ(info.st_uid, 0U) << "a link is not followed";
}

TEST_F(Outputs, APipeIsSkippedAndReported) {
  shelf_.archives["/out"] = Tar().folder("out/").pipe("out/pipe").file("out/a", "x").bytes();
  const CollectionResult collection = take("/out");
  EXPECT_THAT(collection.left, ElementsAre("out/pipe"));
  EXPECT_EQ(collection.files, 1U);
}

// Engines write every further link to an entry of any kind as a hard link.
TEST_F(Outputs, AHardLinkToAPipeIsSkippedToo) {
  shelf_.archives["/out"] = Tar()
                                .folder("out/")
                                .pipe("out/pipe")
                                .hard_link("out/pipe-again", "out/pipe")
                                .hard_link("out/of-nothing", "out/never-came")
                                .hard_link("out/of-folder", "out")
                                .file("out/a", "x")
                                .hard_link("out/b", "out/a")
                                .hard_link("out/c", "out/b")
                                .bytes();
  const CollectionResult collection = take("/out");
  EXPECT_THAT(collection.left, ElementsAre("out/pipe", "out/pipe-again", "out/of-nothing", "out/of-folder"));
  EXPECT_THAT(names_in(trial_folder() / "out"), UnorderedElementsAre("a", "b", "c"));
  EXPECT_EQ(fs::hard_link_count(trial_folder() / "out/c"), 3U);
  EXPECT_TRUE(manifest_holds());
}

TEST_F(Outputs, AHardLinkToASymbolicLinkIsASymbolicLink) {
  const auto archive = Tar()
                           .folder("out/")
                           .link("out/latest", "run-7")
                           .hard_link("out/again", "out/latest")
                           .hard_link("out/once-more", "out/again")
                           .bytes();
  shelf_.archives["/out"] = archive;
  EXPECT_THAT(take("/out").left, IsEmpty());
  for (const std::string name : {"latest", "again", "once-more"})
    EXPECT_EQ(fs::read_symlink(trial_folder() / "out" / name), "run-7") << name;
}

TEST_F(Outputs, HolesStayHoles) {
  std::string content(std::size_t{64} << 20U, '\0');
  content[5000] = 'a';
  content.back() = 'z';
  shelf_.archives["/big"] = Tar().file("big", content).bytes();
  take("/big");
  EXPECT_EQ(content_of(trial_folder() / "big"), content);
  struct stat info {};
  ASSERT_EQ(stat((trial_folder() / "big").c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, std::int64_t{1} << 20U);
  EXPECT_TRUE(manifest_holds());
}

// The digest of a large file is computed on a separate thread.
TEST_F(Outputs, ALargeFileIsCollectedUnchanged) {
  std::string content;
  for (unsigned i = 0; content.size() < (std::size_t{9} << 20U); ++i) content += std::to_string(i * i);
  shelf_.archives["/out"] =
      Tar().folder("out/").file("out/a", content).file("out/b", "small").file("out/c", content).bytes();
  EXPECT_EQ(take("/out").files, 3U);
  EXPECT_EQ(content_of(trial_folder() / "out/a"), content);
  EXPECT_EQ(content_of(trial_folder() / "out/c"), content);
  EXPECT_TRUE(manifest_holds());
}

// A large number of files is not synced one by one.
TEST_F(Outputs, ManyFilesAreCollected) {
  constexpr std::size_t k_many = 1000;
  Tar tar;
  tar.folder("out/");
  for (std::size_t i = 0; i < k_many; ++i) tar.file("out/" + std::to_string(i), std::to_string(i));
  shelf_.archives["/out"] = tar.bytes();
  EXPECT_EQ(take("/out").files, k_many);
  EXPECT_EQ(names_in(trial_folder() / "out").size(), k_many);
  EXPECT_TRUE(manifest_holds());
}

TEST_F(Outputs, PartialOutputsAreBesideTheCompleteOutputs) {
  const Key key{.run = RunId("run"), .trial = "t"};
  const std::vector<Output> outputs{Output{.path = "/out"}, Output{.path = "/late"}};
  const fs::path so_far = fs::path(folder_.path()) / partial_place("t");
  shelf_.archives["/out"] = Tar().folder("out/").file("out/a", "1").file("out/b", "1").bytes();
  EXPECT_EQ(collect_partial(shelf_, key, outputs, *output_store_, {}).files, 2U)
      << "one may still be missing";
  EXPECT_FALSE(fs::exists(trial_folder()));
  shelf_.archives["/out"] = Tar().folder("out/").file("out/a", "2").bytes();
  collect_partial(shelf_, key, outputs, *output_store_, {});
  EXPECT_EQ(content_of(so_far / "out/a"), "2");
  EXPECT_FALSE(fs::exists(so_far / "out/b"));

  shelf_.cut_after = 0;
  EXPECT_THROW(collect_partial(shelf_, key, outputs, *output_store_, {}), Error);
  EXPECT_EQ(content_of(so_far / "out/a"), "2") << "the last one stays";
  shelf_.cut_after = SIZE_MAX;

  take("/out");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("t", "t@so-far"));
  output_store_->remove(partial_place("t"));
  output_store_->remove(partial_place("t"));
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("t"));
}

// If a file becomes shorter while the engine reads it, the archive ends within that file.
TEST_F(Outputs, AnArchiveThatEndsWithinAFileIsRefused) {
  const std::string whole = Tar().folder("out/").file("out/a", std::string(100000, 'a')).bytes();
  shelf_.archives["/out"] = whole.substr(0, 60000);
  const auto fault = fault_of({Output{.path = "/out"}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::corrupt);
  EXPECT_THAT(names_in(folder_.path()), IsEmpty());
}

TEST_F(Outputs, AMissingRequiredOutputIsTheAttemptsFault) {
  shelf_.archives["/a"] = Tar().file("a", "x").bytes();
  const auto fault = fault_of({Output{.path = "/a"}, Output{.path = "/b"}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::invalid);
  EXPECT_EQ(std::string(fault->what()), "/b: there is no such output");
  EXPECT_THAT(names_in(folder_.path()), IsEmpty()) << "nothing half-taken";
  EXPECT_EQ(take({Output{.path = "/a"}, Output{.path = "/b", .required = false}}).files, 1U);
  EXPECT_THAT(names_in(trial_folder()), UnorderedElementsAre("a", "manifest.sha256"));
}

TEST_F(Outputs, AnOutputThatIsTooLargeIsTheAttemptsFault) {
  shelf_.archives["/out"] =
      Tar().folder("out/").file("out/a", std::string(600, 'x')).file("out/b", std::string(600, 'x')).bytes();
  EXPECT_EQ(take({Output{.path = "/out", .size_max = Bytes{1200}}}).size.count, 1200);
  const auto fault = fault_of({Output{.path = "/out", .size_max = Bytes{1024}}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::invalid);
  EXPECT_THAT(fault->what(), HasSubstr("/out: is larger than its max_size of 1 KiB"));
}

constexpr int k_deep = 60;

// Returns an archive of a file in so many nested folders that no system call accepts its whole path.
std::string deep_archive(const std::string& content) {
  Tar tar;
  std::string path = "out";
  for (int i = 0; i < k_deep; ++i) tar.folder((path += '/' + std::string(88, 'd')) + '/');
  return tar.file(path + "/leaf", content).bytes();
}

// Returns the content of that file below `place`.
std::string deep_content(const fs::path& place) {
  Descriptor folder(::open((place / "out").c_str(), O_RDONLY | O_DIRECTORY));
  for (int i = 0; i < k_deep; ++i)
    folder = Descriptor(openat(folder.number(), std::string(88, 'd').c_str(), O_RDONLY | O_DIRECTORY));
  const Descriptor file(openat(folder.number(), "leaf", O_RDONLY));
  std::string content(100, '\0');
  const ssize_t count = read(file.number(), content.data(), content.size());
  content.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return content;
}

TEST_F(Outputs, AFileBelowManyFoldersIsCollectedReplacedSharedAndRemoved) {
  shelf_.archives["/out"] = deep_archive("first");
  (void)take("/out");
  EXPECT_EQ(deep_content(trial_folder()), "first");
  shelf_.archives["/out"] = deep_archive("second");
  (void)take("/out");
  EXPECT_EQ(deep_content(trial_folder()), "second");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("t")) << "what was there before is gone";
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(output_store_->share(std::vector<Sharing>{{.trial = "u", .from = trial_folder()}}),
                ElementsAre(""));
  EXPECT_EQ(deep_content(fs::path(folder_.path()) / "u"), "second");
  output_store_->remove("t");
  output_store_->remove("u");
  EXPECT_THAT(names_in(folder_.path()), IsEmpty());
}

TEST_F(Outputs, ANameThatIsTooLongIsTheAttemptsFault) {
  const std::string name(300, 'n');
  for (const std::string& archive :
       {Tar().folder("out/").file("out/" + name, "x").bytes(), Tar().folder("out/" + name + '/').bytes(),
        Tar().file("out/" + name + "/a", "x").bytes(), Tar().link("out", std::string(5000, 'l')).bytes()}) {
    shelf_.archives["/out"] = archive;
    const auto fault = fault_of({Output{.path = "/out"}});
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind(), ErrorKind::invalid) << fault->what();
    EXPECT_THAT(fault->what(), AllOf(HasSubstr("out"), HasSubstr(folder_.path())));
    EXPECT_LT(std::string_view(fault->what()).size(), 250 + folder_.path().size()) << fault->what();
    EXPECT_THAT(names_in(folder_.path()), IsEmpty());
  }
}

TEST_F(Outputs, EarlierOutputsStayUntilTheNewOutputsAreComplete) {
  shelf_.archives["/out"] = Tar().folder("out/").file("out/a", "first").file("out/only-first", "x").bytes();
  take("/out");
  shelf_.archives["/out"] =
      Tar().folder("out/").file("out/a", "second").file("out/b", std::string(100000, 'b')).bytes();
  shelf_.cut_after = 50000;
  const auto fault = fault_of({Output{.path = "/out"}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::unavailable) << fault->what();
  EXPECT_EQ(content_of(trial_folder() / "out/a"), "first");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("t"));
  shelf_.cut_after = SIZE_MAX;
  take("/out");
  EXPECT_EQ(content_of(trial_folder() / "out/a"), "second");
  EXPECT_THAT(names_in(trial_folder() / "out"), UnorderedElementsAre("a", "b")) << "of one attempt alone";
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("t"));
}

TEST_F(Outputs, AnArchiveThatEndsEarlyIsRefused) {
  const std::string whole = Tar().folder("out/").file("out/a", std::string(10000, 'a')).bytes();
  shelf_.archives["/out"] = whole.substr(0, 5000);
  const auto fault = fault_of({Output{.path = "/out"}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::corrupt);
  EXPECT_THAT(names_in(folder_.path()), IsEmpty());
  shelf_.archives["/out"] = "this is no archive at all, but it is long enough to look like one";
  EXPECT_TRUE(fault_of({Output{.path = "/out"}}));
}

TEST_F(Outputs, LeftoversOfADeadProcessAreReplaced) {
  fs::create_directories(fs::path(folder_.path()) / ".t.unfinished/out");
  std::ofstream(fs::path(folder_.path()) / ".t.unfinished/out/a") << "half";
  shelf_.archives["/out"] = Tar().folder("out/").file("out/b", "whole").bytes();
  take("/out");
  EXPECT_THAT(names_in(trial_folder() / "out"), ElementsAre("b"));
}

TEST_F(Outputs, AFolderThatCannotBeMadeIsRefused) {
  std::ofstream(folder_.path()) << "a file where the folder should be";
  shelf_.archives["/out"] = Tar().folder("out/").bytes();
  const auto fault = fault_of({Output{.path = "/out"}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::refused);
  EXPECT_THAT(fault->what(), HasSubstr(folder_.path()));
  fs::remove(folder_.path());
}

TEST_F(Outputs, AnErrorOfTheWriterEndsTheCopyFromTheEngine) {
  // Removes the folder during the collection, like a disk failure: the first file cannot be created.
  shelf_.archives["/out"] =
      Tar().folder("out/").file("out/a", std::string(std::size_t{16} << 20U, 'a')).bytes();
  shelf_.before = [&] { fs::remove_all(fs::path(folder_.path()) / ".t.unfinished"); };
  const auto fault = fault_of({Output{.path = "/out"}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), ErrorKind::refused) << fault->what();
}

}  // namespace
}  // namespace combu
