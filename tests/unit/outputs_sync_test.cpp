// Tests that outputs are on disk before they get their final name: after a crash of the machine, they are
// complete or missing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "outputs/folder.hpp"
#include "outputs_fixture.hpp"
#include "outputs_system.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

using test::Outputs;
using test::SystemFaults;

using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Pair;

constexpr int k_synced_alone_max = 64;  // files, folders and links, including the manifest

class Synced : public Outputs {
 protected:
  std::unique_ptr<OutputWriter> open() { return output_store_->open("t", {}); }
  static void add_files(OutputWriter& writer, int count, const std::string& folder = "") {
    for (int i = 0; i < count; ++i) {
      writer.add({.path = folder + std::to_string(i), .size = 1});
      writer.write("x");
    }
  }
  static ino_t number_of(const fs::path& path) {
    struct stat seen {};
    EXPECT_EQ(lstat(path.c_str(), &seen), 0) << path;
    return seen.st_ino;
  }
  // The inode numbers of all files and folders of the outputs, and of the folder that contains them.
  [[nodiscard]] std::set<ino_t> all() const {
    std::set<ino_t> numbers{number_of(folder_.path()), number_of(trial_folder())};
    for (const auto& entry : fs::recursive_directory_iterator(trial_folder()))
      if (!entry.is_symlink()) numbers.insert(number_of(entry.path()));
    return numbers;
  }

  SystemFaults system_;
};

TEST_F(Synced, AFewEntriesAreSyncedOneByOne) {
  const auto writer = open();
  writer->add({.kind = OutputEntry::Kind::folder, .path = "out", .mode = 0755});
  writer->add({.kind = OutputEntry::Kind::symbolic_link, .path = "out/link", .target = "a"});
  add_files(*writer, k_synced_alone_max - 3, "out/sub/");
  writer->close("sums\n");
  EXPECT_THAT(system_->synced, IsSupersetOf(all()));
  EXPECT_EQ(system_->file_systems_synced, 0) << "what others write is not waited for";
}

TEST_F(Synced, ManyEntriesAreSyncedTogether) {
  const auto writer = open();
  add_files(*writer, k_synced_alone_max);
  writer->close("sums\n");
  EXPECT_EQ(system_->file_systems_synced, 1);
  EXPECT_THAT(system_->synced, ElementsAre(number_of(folder_.path()))) << "after the outputs have their name";
}

TEST_F(Synced, FewEntriesInManyFoldersAreSyncedTogether) {
  std::string folders;
  for (int i = 0; i < k_synced_alone_max - 1; ++i) folders += "d/";  // the trial's own folder counts, too
  auto writer = open();
  add_files(*writer, 1, folders);
  writer->close("sums\n");
  EXPECT_THAT(system_->synced, IsSupersetOf(all()));
  EXPECT_EQ(system_->file_systems_synced, 0);
  writer.reset();
  writer = open();
  add_files(*writer, 1, folders + "d/");
  writer->close("sums\n");
  EXPECT_EQ(system_->file_systems_synced, 1);
}

TEST_F(Synced, OutputsThatCannotBeSyncedAreNotCollected) {
  const auto fault = [&](int files) {
    try {
      const auto writer = open();
      add_files(*writer, files);
      writer->close("sums\n");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::refused) << "it is retried";
      return std::string(error.what());
    }
    return std::string();
  };
  system_->fails_to_sync = true;
  EXPECT_EQ(fault(1), trial_folder().string() + "/0: cannot be written: Input/output error");
  system_->fails_to_sync_all = true;
  EXPECT_EQ(fault(100), folder_.path() + "/.t.unfinished: cannot be written: Input/output error");
  EXPECT_THAT(test::names_in(folder_.path()), IsEmpty());
}

TEST_F(Synced, DownloadsAreNotSynced) {
  fs::create_directories(folder_.path());
  const auto writer = outputs::open_passing(folder_.path(), "t");
  add_files(*writer, 1);
  writer->close("sums\n");
  EXPECT_THAT(system_->synced, IsEmpty());
  EXPECT_EQ(system_->file_systems_synced, 0);
}

TEST_F(Synced, ALargeFileIsWrittenToDiskWhileItArrives) {
  const auto writer = open();
  constexpr off_t k_step = off_t{8} << 20U;
  writer->add({.path = "large", .size = 2 * k_step + 1});
  const std::string piece(std::size_t{1} << 20U, 'x');
  for (int i = 0; i < 16; ++i) writer->write(piece);
  EXPECT_THAT(system_->written_out, ElementsAre(Pair(0, k_step), Pair(k_step, k_step)));
}

}  // namespace
}  // namespace combu
