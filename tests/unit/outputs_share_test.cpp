// Tests of share() in a folder: outputs of one trial become those of another trial.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "combu/outputs.hpp"
#include "outputs_fixture.hpp"
#include "outputs_system.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

using test::content_of;
using test::names_in;
using test::Outputs;
using test::System;
using test::SystemFaults;
using test::Tar;

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing::UnorderedElementsAre;

// A trial `t` with outputs, which the tests share with other trials.
class Shared : public Outputs {
 protected:
  void SetUp() override {
    shelf_.archives["/out"] = Tar()
                                  .folder("out/", 0750)
                                  .file("out/a.txt", "alpha")
                                  .folder("out/sub/")
                                  .file("out/sub/odd\\ na\nme", "odd")
                                  .file("out/run.sh", "#!/bin/sh\n", 0755)
                                  .bytes();
    (void)take("/out");
    fs::create_symlink("nowhere", trial_folder() / "out/link");
  }
  [[nodiscard]] std::vector<std::string> share(const std::vector<Sharing>& wanted) const {
    return open_folder(there())->share(wanted);
  }
  [[nodiscard]] std::string there() const { return folder_.path() + "/other/run"; }
  // Changes a file after the manifest was written.
  void edit(const fs::path& file, const std::string& content) const {
    std::ofstream(file) << content;
    fs::last_write_time(file,
                        fs::last_write_time(trial_folder() / k_manifest_name) + std::chrono::seconds(1));
  }
};

TEST_F(Shared, AllFilesOfTheManifestAreShared) {
  EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}, {.trial = "v", .from = trial_folder()}}),
              ElementsAre("", ""));
  EXPECT_THAT(names_in(there()), UnorderedElementsAre("u", "v"));
  for (const char* trial : {"u", "v"}) {
    const fs::path place = fs::path(there()) / trial;
    EXPECT_EQ(content_of(place / "out/a.txt"), "alpha");
    EXPECT_EQ(content_of(place / "out/sub/odd\\ na\nme"), "odd");
    EXPECT_EQ(content_of(place / "manifest.sha256"), content_of(trial_folder() / "manifest.sha256"));
    EXPECT_EQ(fs::read_symlink(place / "out/link"), "nowhere");
    EXPECT_EQ(fs::status(place / "out/run.sh").permissions(), fs::perms(0755));
    EXPECT_EQ(fs::status(place / "out").permissions(), fs::perms(0750));
    for (const std::string name : {"out", "out/sub", "out/a.txt"})
      EXPECT_EQ(fs::last_write_time(place / name), fs::last_write_time(trial_folder() / name)) << name;
    struct stat before {};
    struct stat seen {};
    ASSERT_EQ(lstat((trial_folder() / "out/link").c_str(), &before), 0);
    ASSERT_EQ(lstat((place / "out/link").c_str(), &seen), 0);
    EXPECT_EQ(seen.st_mtim.tv_sec, before.st_mtim.tv_sec);
    EXPECT_EQ(seen.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
  }
}

TEST_F(Shared, EarlierOutputsAreReplaced) {
  fs::create_directories(fs::path(there()) / "u/old");
  fs::create_directories(fs::path(there()) / ".u.unfinished/older");
  EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}}), ElementsAre(""));
  EXPECT_THAT(names_in(fs::path(there()) / "u"), UnorderedElementsAre("out", "manifest.sha256"));
  EXPECT_THAT(names_in(there()), UnorderedElementsAre("u"));
}

TEST_F(Shared, IncompleteOutputsAreNotShared) {
  fs::remove(trial_folder() / "out/sub/odd\\ na\nme");
  EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}}),
              ElementsAre(HasSubstr("does not exist any more")));
  fs::remove(trial_folder() / "manifest.sha256");
  EXPECT_THAT(
      share({{.trial = "u", .from = trial_folder()}, {.trial = "v", .from = folder_.path() + "/none"}}),
      ElementsAre(HasSubstr("not exist any more"), HasSubstr("not exist any more")));
  EXPECT_THAT(names_in(there()), IsEmpty());
}

// This also holds for shared outputs: links and clones keep the manifest's time.
TEST_F(Shared, EditedOutputsAreNotShared) {
  const fs::path file = trial_folder() / "out/a.txt";
  edit(file, "ALPHA");
  EXPECT_THAT(
      share({{.trial = "u", .from = trial_folder()}}),
      ElementsAre(AllOf(HasSubstr("t/out/a.txt"), HasSubstr("the file was changed after it was collected"))));
  EXPECT_THAT(names_in(there()), IsEmpty());

  edit(file, "alpha");
  EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}}), ElementsAre("")) << "it is what it was";
  const fs::path shared = fs::path(there()) / "u";
  EXPECT_EQ(fs::last_write_time(shared / k_manifest_name),
            fs::last_write_time(trial_folder() / k_manifest_name));
  edit(shared / "out/sub/odd\\ na\nme", "ODD");
  EXPECT_THAT(share({{.trial = "v", .from = shared}}),
              ElementsAre(HasSubstr("the file was changed after it was collected")));
}

TEST_F(Shared, FilesNotNewerThanTheManifestAreNotCompared) {
  const fs::path file = trial_folder() / "out/a.txt";
  for (const auto time : {fs::last_write_time(file), fs::last_write_time(trial_folder() / k_manifest_name)}) {
    edit(file, "ALPHA");
    fs::last_write_time(file, time);
    EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}}), ElementsAre(""));
    EXPECT_EQ(content_of(fs::path(there()) / "u/out/a.txt"), "ALPHA");
  }
}

TEST_F(Shared, AddedFilesAreNotShared) {
  edit(trial_folder() / "out/notes", "mine");
  EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}}), ElementsAre(""));
  EXPECT_THAT(names_in(fs::path(there()) / "u/out"), UnorderedElementsAre("a.txt", "link", "run.sh", "sub"));
}

// The manifest does not name hard links.
TEST_F(Shared, HardLinksStayHardLinksAlongAChain) {
  const fs::path other_disk = "/dev/shm/combu-shared." + std::to_string(getpid());
  ASSERT_TRUE(fs::exists("/dev/shm")) << "there is no other file system";
  fs::create_hard_link(trial_folder() / "out/a.txt", trial_folder() / "out/again");
  edit(trial_folder() / "out/again", "alpha");
  std::string from = trial_folder();
  for (const std::string& to : {other_disk.string(), there(), other_disk.string() + "/more"}) {
    EXPECT_THAT(open_folder(to)->share(std::vector<Sharing>{{.trial = "u", .from = from}}), ElementsAre(""));
    from = to + "/u";
    EXPECT_EQ(content_of(from + "/out/again"), "alpha");
    EXPECT_TRUE(fs::equivalent(from + "/out/again", from + "/out/a.txt"));
  }
  fs::remove_all(other_disk);
}

TEST_F(Shared, AFolderThatCannotBeMadeIsReported) {
  std::ofstream(folder_.path() + "/other") << "a file";
  EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}}), ElementsAre(HasSubstr("/other")));
}

TEST_F(Shared, CopiesOnAnotherFileSystemAreComplete) {
  const fs::path elsewhere = "/dev/shm/combu-shared." + std::to_string(getpid());
  ASSERT_TRUE(fs::exists("/dev/shm")) << "there is no other file system";
  EXPECT_THAT(open_folder(elsewhere)->share(std::vector<Sharing>{{.trial = "u", .from = trial_folder()}}),
              ElementsAre(""));
  EXPECT_EQ(content_of(elsewhere / "u/out/a.txt"), "alpha");
  EXPECT_EQ(fs::status(elsewhere / "u/out/run.sh").permissions(), fs::perms(0755));
  EXPECT_EQ(fs::last_write_time(elsewhere / "u/out/a.txt"),
            fs::last_write_time(trial_folder() / "out/a.txt"));
  fs::remove_all(elsewhere);
}

TEST_F(Shared, FilesAreLinkedIfTheFileSystemHasNoClones) {
  SystemFaults system;
  system->clones = System::Clones::none;
  EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}}), ElementsAre(""));
  for (const std::string name : {"out/a.txt", "out/run.sh", "out/sub/odd\\ na\nme"})
    EXPECT_TRUE(fs::equivalent(trial_folder() / name, fs::path(there()) / "u" / name)) << name;
  EXPECT_EQ(system->clones_wanted, 1) << "the file system is asked once";
}

TEST_F(Shared, FilesAreClonedIfTheFileSystemHasClones) {
  SystemFaults system;
  system->clones = System::Clones::all;
  EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}}), ElementsAre(""));
  const fs::path place = fs::path(there()) / "u";
  EXPECT_EQ(content_of(place / "out/a.txt"), "alpha");
  EXPECT_FALSE(fs::equivalent(trial_folder() / "out/a.txt", place / "out/a.txt"))
      << "each can be edited by itself";
  EXPECT_EQ(fs::status(place / "out/run.sh").permissions(), fs::perms(0755));
  EXPECT_EQ(fs::last_write_time(place / "out/a.txt"), fs::last_write_time(trial_folder() / "out/a.txt"));
}

// If the file were a hard link, another user would own a file among these outputs.
TEST_F(Shared, AFileOfAnotherOwnerIsCopied) {
  const bool is_root = geteuid() == 0;  // only root can change the owner of a file
  SystemFaults system;
  system->clones = System::Clones::none;
  const fs::path others = trial_folder() / "out/a.txt";
  const Owner owner = is_root ? Owner{.uid = 4002, .gid = 4003} : Owner{.uid = geteuid(), .gid = getegid()};
  ASSERT_TRUE(!is_root || chown(others.c_str(), 4000, 4001) == 0);
  ASSERT_EQ(chown((trial_folder() / "out/run.sh").c_str(), owner.uid, owner.gid), 0);
  const auto output_store = open_folder(there(), owner);
  EXPECT_THAT(output_store->share(std::vector<Sharing>{{.trial = "u", .from = trial_folder()}}),
              ElementsAre(""));
  const fs::path place = fs::path(there()) / "u";
  EXPECT_EQ(fs::equivalent(others, place / "out/a.txt"), !is_root);
  EXPECT_TRUE(fs::equivalent(trial_folder() / "out/run.sh", place / "out/run.sh"));
  std::vector<std::string> shared{place};
  for (const auto& entry : fs::recursive_directory_iterator(place)) shared.push_back(entry.path());
  for (const std::string& path : shared) {
    struct stat seen {};
    ASSERT_EQ(lstat(path.c_str(), &seen), 0);
    EXPECT_EQ(seen.st_uid, owner.uid) << path;
    EXPECT_EQ(seen.st_gid, owner.gid) << path;
  }
}

TEST_F(Shared, OutputsThatCannotBeSyncedAreNotShared) {
  SystemFaults system;
  const std::vector<Sharing> wanted{{.trial = "u", .from = trial_folder()},
                                    {.trial = "v", .from = trial_folder()}};
  system->fails_to_sync_all = true;
  EXPECT_THAT(share(wanted), Each(there() + ": cannot be written: Input/output error"));
  EXPECT_THAT(names_in(there()), IsEmpty());
  system->fails_to_sync_all = false;
  system->fails_to_sync = true;
  EXPECT_THAT(share(wanted), Each(there() + ": cannot be written: Input/output error"));
  EXPECT_THAT(share({{.trial = "u", .from = folder_.path() + "/none"}}),
              ElementsAre(HasSubstr("the outputs do not exist any more")))
      << "what was wrong first is told";
}

TEST_F(Shared, AFailedShareDoesNotAffectTheOthers) {
  EXPECT_THAT(
      share({{.trial = "u", .from = folder_.path() + "/none"}, {.trial = "v", .from = trial_folder()}}),
      ElementsAre(HasSubstr("the outputs do not exist any more"), ""));
  EXPECT_THAT(names_in(there()), ElementsAre("v"));
}

TEST_F(Shared, AFileThatCannotBeRemovedIsReportedOnce) {
  SystemFaults system;
  const fs::path unfinished = fs::path(there()) / ".u.unfinished";
  fs::create_directories(unfinished);
  std::ofstream(unfinished / "left") << "of a process that died";
  system->unremovable = "left";
  EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}}),
              ElementsAre(unfinished.string() + "/left: cannot be removed: Operation not permitted"));
  system->unremovable.clear();
  EXPECT_THAT(share({{.trial = "u", .from = trial_folder()}}), ElementsAre(""));

  system->unremovable = "link";
  fs::remove(trial_folder() / "out/run.sh");
  EXPECT_THAT(share({{.trial = "w", .from = trial_folder()}}),
              ElementsAre(AllOf(
                  StartsWith((trial_folder() / "out/run.sh").string() + ": does not exist any more"),
                  HasSubstr("; " + there() + "/.w.unfinished/"), HasSubstr("/link: cannot be removed"))));
}

TEST_F(Shared, IsWholeIfTheManifestExists) {
  EXPECT_TRUE(output_store_->is_whole(trial_folder()));
  fs::remove(trial_folder() / k_manifest_name);
  EXPECT_FALSE(output_store_->is_whole(trial_folder()));
}

}  // namespace
}  // namespace combu
