// Tests of Scratch beside the folders of other processes, alive or dead.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "outputs/scratch.hpp"
#include "outputs_fixture.hpp"
#include "outputs_system.hpp"

namespace combu::outputs {
namespace {

namespace fs = std::filesystem;

using test::names_in;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class ScratchTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_.path()); }
  std::string fault() {
    try {
      const Scratch scratch(folder_.path());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::refused);
      return error.what();
    }
    return "";
  }

  test::Folder folder_{"scratch"};
  test::SystemFaults system_;
};

TEST_F(ScratchTest, TheDestructorRemovesTheFolderAndItsContent) {
  {
    const Scratch scratch(folder_.path());
    fs::create_directories(scratch.path() + "/1/out");
    EXPECT_THAT(names_in(folder_.path()), SizeIs(1));
  }
  EXPECT_THAT(names_in(folder_.path()), IsEmpty());
}

TEST_F(ScratchTest, TheNextScratchRemovesALeftover) {
  const fs::path dead = fs::path(folder_.path()) / "combu-dead00";
  fs::create_directories(dead / "1/out");
  for (const std::string name : {".combu-lock", "1/out/a", "1/out/b"}) std::ofstream(dead / name) << "";
  system_->unremovable = "a";
  { const Scratch scratch(folder_.path()); }
  EXPECT_THAT(names_in(dead / "1/out"), ElementsAre("a"));
  EXPECT_TRUE(fs::exists(dead / ".combu-lock")) << "by which the next one knows it";
  system_->unremovable.clear();
  { const Scratch scratch(folder_.path()); }
  EXPECT_THAT(names_in(folder_.path()), IsEmpty());
}

// The new folder is not locked yet, so another process mistakes it for a leftover and removes it.
TEST_F(ScratchTest, AFolderThatIsRemovedBeforeItIsLockedIsMadeAgain) {
  std::string removed;
  system_->before_lock = [&] {
    removed = *names_in(folder_.path()).begin();
    fs::remove_all(fs::path(folder_.path()) / removed);
  };
  const Scratch scratch(folder_.path());
  EXPECT_THAT(names_in(folder_.path()), ElementsAre(fs::path(scratch.path()).filename()));
  EXPECT_NE(fs::path(scratch.path()).filename(), removed);
  EXPECT_THAT(names_in(scratch.path()), ElementsAre(".combu-lock"));
}

// Another process locks the new folder and is about to remove it.
TEST_F(ScratchTest, AFolderThatAnotherProcessHasLockedIsReplaced) {
  std::optional<Descriptor> other;
  system_->before_lock = [&] {
    const std::string name = *names_in(folder_.path()).begin();
    other.emplace(::open((folder_.path() + "/" + name + "/.combu-lock").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(flock(other->number(), LOCK_EX), 0);
  };
  const Scratch scratch(folder_.path());
  EXPECT_THAT(names_in(folder_.path()), ElementsAre(fs::path(scratch.path()).filename()));
}

TEST_F(ScratchTest, TheErrorSaysWhyNoFolderCanBeMade) {
  const std::string begin = folder_.path() + ": making a folder for downloads from the bucket failed: ";
  system_->is_out_of_descriptors = true;
  EXPECT_EQ(fault(), begin + "Too many open files; set TMPDIR");
  system_->is_out_of_descriptors = false;
  fs::remove_all(folder_.path());
  EXPECT_EQ(fault(), begin + "No such file or directory; set TMPDIR");
}

}  // namespace
}  // namespace combu::outputs
