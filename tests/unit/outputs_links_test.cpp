// Tests with symbolic links in place of a run's folders: a container that has the results mounted may create
// such links.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outputs_fixture.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

using test::content_of;
using test::names_in;
using test::Tar;
using testing::ElementsAre;
using testing::HasSubstr;

class OutputLinks : public test::Outputs {
 protected:
  OutputLinks() {
    fs::create_directories(elsewhere() / "t/precious");
    shelf_.archives["/out"] = Tar().folder("out/").file("out/a", "x").bytes();
  }
  ~OutputLinks() override {
    EXPECT_THAT(names_in(elsewhere()), ElementsAre("t")) << "nothing changes behind a link";
    EXPECT_THAT(names_in(elsewhere() / "t"), ElementsAre("precious"));
  }
  [[nodiscard]] fs::path results() const { return fs::canonical(folder_.path()) / "results"; }
  [[nodiscard]] fs::path elsewhere() const { return fs::path(folder_.path()) / "elsewhere"; }
  // Makes `name` in the results folder a link to elsewhere().
  void put_link(const std::string& name) const {
    const fs::path link = results() / name;
    fs::create_directories(link.parent_path());
    fs::create_directory_symlink(elsewhere(), link);
  }
  void open() {
    output_store_ = open_folder(results() / "lab/run", Owner{.uid = geteuid(), .gid = getegid()});
  }
  static void expect_refused(const std::optional<Error>& fault, const fs::path& link) {
    ASSERT_TRUE(fault) << link;
    EXPECT_EQ(fault->kind(), ErrorKind::refused);
    EXPECT_EQ(fault->subject(), link);
    EXPECT_THAT(fault->message(), HasSubstr("cannot be opened: it must be a folder"));
  }
};

TEST_F(OutputLinks, NothingIsWrittenThroughALink) {
  for (const std::string name : {"lab/run", "lab"}) {
    put_link(name);
    open();
    expect_refused(fault_of({Output{.path = "/out"}}), results() / name);
    fs::remove_all(results());
  }
}

TEST_F(OutputLinks, NothingIsRemovedThroughALink) {
  put_link("lab/run");
  open();
  try {
    output_store_->remove("t");
    ADD_FAILURE() << "it is refused";
  } catch (const Error& error) {
    expect_refused(error, results() / "lab/run");
  }
}

TEST_F(OutputLinks, NothingIsSharedThroughALink) {
  open();
  (void)take("/out");
  const std::string from = results() / "lab/run/t";
  put_link("lab/other");
  const auto into = open_folder(results() / "lab/other");
  EXPECT_THAT(into->share(std::vector<Sharing>{{.trial = "t", .from = from}}),
              ElementsAre(HasSubstr("lab/other: cannot be opened: it must be a folder")));
  fs::rename(results() / "lab/run", results() / "real");
  fs::create_directory_symlink(results() / "real", results() / "lab/run");
  const auto third = open_folder(results() / "lab/third");
  EXPECT_THAT(third->share(std::vector<Sharing>{{.trial = "t", .from = from}}),
              ElementsAre(HasSubstr("lab/run: cannot be opened")));
}

TEST_F(OutputLinks, TheResultsFolderMayBeBehindALinkOfTheUser) {
  fs::create_directories(results());
  fs::create_directory_symlink("results", fs::path(folder_.path()) / "link");
  open();
  (void)take("/out");
  const std::string from = fs::path(folder_.path()) / "link/lab/run/t";
  const auto third = open_folder(results() / "lab/third");
  EXPECT_THAT(third->share(std::vector<Sharing>{{.trial = "t", .from = from}}), ElementsAre(""));
  EXPECT_EQ(content_of(results() / "lab/third/t/out/a"), "x");
}

}  // namespace
}  // namespace combu
