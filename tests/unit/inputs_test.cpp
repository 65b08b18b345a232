// Tests of packing inputs, of finding them, and of their digests.

#include "combu/inputs.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "inputs/walk.hpp"
#include "soft_limit.hpp"

namespace {
int pipes_opened = 0;  // for reading or writing
int counted(int file, int how) {
  struct stat status {};
  if (file >= 0 && (how & O_PATH) == 0 && fstat(file, &status) == 0 && S_ISFIFO(status.st_mode))
    ++pipes_opened;
  return file;
}
}  // namespace

// Replaces the function of the system.
extern "C" int openat(int folder, const char* name, int how, ...) {
  std::va_list rest;
  va_start(rest, how);
  const auto mode = va_arg(rest, mode_t);
  va_end(rest);
  return counted(static_cast<int>(syscall(SYS_openat, folder, name, how, mode)), how);
}

namespace combu {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr std::int64_t k_modified = 1'000'000'000;

class InputsTest : public testing::Test {
 protected:
  InputsTest() {
    fs::create_directories(root_);
    umask(022);
  }
  ~InputsTest() override { fs::remove_all(root_); }

  [[nodiscard]] std::string at(const std::string& path) const { return root_ / path; }

  void file(const std::string& path, const std::string& content, mode_t mode = 0644) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << content;
    chmod(at(path).c_str(), mode);
  }
  void link(const std::string& path, const std::string& target) const {
    fs::create_symlink(target, root_ / path);
  }
  void date(const std::string& path) const {
    const timespec times[2] = {{k_modified, 0}, {k_modified, 0}};
    utimensat(AT_FDCWD, at(path).c_str(), times, AT_SYMLINK_NOFOLLOW);
  }
  [[nodiscard]] Input input(const std::string& from, const std::string& to) const {
    return {.from = at(from), .to = to};
  }

 private:
  fs::path root_ = testing::TempDir() + "inputs." + std::to_string(getpid());
};

std::string digest_of(const std::string& path) {
  return content_digest({.from = path});
}

std::string packed(const std::vector<Input>& inputs, const InputOwner& owner = {}) {
  std::string bytes;
  EXPECT_TRUE(pack_inputs(inputs, owner, [&](std::string_view piece) {
    bytes += piece;
    return true;
  }));
  return bytes;
}

struct Entry {
  std::string text;  // "path mode uid:gid content or target"
  std::int64_t modified = 0;
};

std::vector<Entry> entries_of(const std::string& bytes) {
  std::vector<Entry> entries;
  const std::unique_ptr<archive, decltype(&archive_read_free)> reader(archive_read_new(), &archive_read_free);
  archive_read_support_format_tar(reader.get());
  archive_read_open_memory(reader.get(), bytes.data(), bytes.size());
  archive_entry* entry = nullptr;
  while (archive_read_next_header(reader.get(), &entry) == ARCHIVE_OK) {
    std::string content(static_cast<std::size_t>(archive_entry_size(entry)), '\0');
    EXPECT_EQ(archive_read_data(reader.get(), content.data(), content.size()),
              static_cast<la_ssize_t>(content.size()));
    if (const char* target = archive_entry_symlink(entry)) content = "-> " + std::string(target);
    char mode[16];
    std::snprintf(mode, sizeof mode, "%o", archive_entry_mode(entry));
    entries.push_back({.text = archive_entry_pathname(entry) + std::string(" ") + mode + " " +
                               std::to_string(archive_entry_uid(entry)) + ":" +
                               std::to_string(archive_entry_gid(entry)) + " " + content,
                       .modified = archive_entry_mtime(entry)});
  }
  return entries;
}

std::vector<std::string> texts_of(const std::vector<Entry>& entries) {
  std::vector<std::string> texts;
  for (const Entry& entry : entries) texts.push_back(entry.text);
  return texts;
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorKind::corrupt, "", ""};
}

TEST_F(InputsTest, AFolderIsPackedUnderItsNewName) {
  file("data/b", "bee", 0600);
  file("data/a/run", "#!", 0755);
  file("data/a-b", "");
  link("data/link", "a/run");
  link("data/dangling", "/no/such");
  const auto entries = entries_of(packed({input("data", "/in/data")}, {.uid = 1000, .gid = 50}));
  EXPECT_THAT(
      texts_of(entries),
      ElementsAre("in/data/ 40755 1000:50 ", "in/data/a/ 40755 1000:50 ", "in/data/a/run 100755 1000:50 #!",
                  "in/data/a-b 100644 1000:50 ", "in/data/b 100600 1000:50 bee",
                  "in/data/dangling 120777 1000:50 -> /no/such", "in/data/link 120777 1000:50 -> a/run"));
}

TEST_F(InputsTest, SeveralInputsAreOneArchive) {
  file("one", "1");
  file("more/two", "2");
  EXPECT_THAT(texts_of(entries_of(packed({input("one", "/uno"), input("more", "/due")}))),
              ElementsAre("uno 100644 0:0 1", "due/ 40755 0:0 ", "due/two 100644 0:0 2"));
}

TEST_F(InputsTest, TimesAreKept) {
  file("data/a", "x");
  date("data/a");
  date("data");
  for (const Entry& entry : entries_of(packed({input("data", "/in")})))
    EXPECT_EQ(entry.modified, k_modified) << entry.text;
}

TEST_F(InputsTest, LinksOfAnInputAreResolvedWhenTheRunBegins) {
  file("disk/data/a", "x");
  file("other/a", "y");
  link("work", "disk");
  link("file", "work/data/a");
  Experiment experiment;
  experiment.trials.push_back(
      {.inputs = {input("work/data", "/in"), input("file", "/file"), input("work/none/b", "/none")}});
  experiment.collect.to = at("work/results");
  const HostPaths began = resolved_host_paths(experiment);
  EXPECT_THAT(began, testing::UnorderedElementsAre(Pair(at("work/data"), at("disk/data")),
                                                   Pair(at("file"), at("disk/data/a")),
                                                   Pair(at("work/none/b"), at("disk/none/b")),
                                                   Pair(at("work/results"), at("disk/results"))));
  fs::remove(at("work"));
  link("work", "other");
  Trial& trial = experiment.trials.front();
  find_inputs(trial, began, {});
  trial.inputs.pop_back();
  EXPECT_THAT(texts_of(entries_of(packed(trial.inputs))),
              ElementsAre("in/ 40755 0:0 ", "in/a 100644 0:0 x", "file 100644 0:0 x"));
}

TEST_F(InputsTest, ALinkThatReplacesAnInputIsNotFollowed) {
  file("secrets/result", "the secret", 0600);
  file("work/dir/result", "x");
  const HostPaths began{{at("work/dir/result"), at("work/dir/result")}, {at("work/dir"), at("work/dir")}};
  const auto expect_refused = [&](const std::string& from, const std::string& named) {
    Trial trial{.inputs = {input(from, "/in")}};
    find_inputs(trial, began, {});
    for (const auto& read : std::vector<std::function<void()>>{
             [&] { (void)packed(trial.inputs); }, [&] { (void)content_digest(trial.inputs.front()); },
             [&] { (void)read_input(trial.inputs.front(), Bytes{1000}, {}); }}) {
      const Error error = error_of(read);
      EXPECT_EQ(error.kind(), ErrorKind::refused);
      EXPECT_THAT(error.message(),
                  HasSubstr(at(named) + " cannot be read: it was replaced by a symbolic link"));
    }
  };
  fs::remove(at("work/dir/result"));
  link("work/dir/result", at("secrets/result"));
  expect_refused("work/dir/result", "work/dir/result");
  fs::remove_all(at("work/dir"));
  link("work/dir", at("secrets"));
  expect_refused("work/dir/result", "work/dir");
  expect_refused("work/dir", "work/dir");
}

TEST_F(InputsTest, NamesAreBytes) {
  const std::string odd = "line\nend \xff\xc3\xbc";
  const std::string long_name(250, 'n');
  file("data/" + odd, "x");
  file("data/" + long_name + "/" + long_name, "y");
  EXPECT_THAT(texts_of(entries_of(packed({input("data", "/in")}))),
              ElementsAre("in/ 40755 0:0 ", "in/" + odd + " 100644 0:0 x", "in/" + long_name + "/ 40755 0:0 ",
                          "in/" + long_name + "/" + long_name + " 100644 0:0 y"));
}

TEST_F(InputsTest, HolesAreZeros) {
  file("holes", "");
  fs::resize_file(at("holes"), 3'000'000);
  const auto entries = entries_of(packed({input("holes", "/holes")}));
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].text, "holes 100644 0:0 " + std::string(3'000'000, '\0'));
}

TEST_F(InputsTest, TheErrorNamesTheEntryThatCannotBePacked) {
  file("data/a", "x");
  mkfifo(at("data/pipe").c_str(), 0644);
  const auto pack = [&](const std::string& from) {
    return error_of([&] { (void)packed({input(from, "/in")}); });
  };
  EXPECT_THAT(pack("data").message(),
              HasSubstr(at("data/pipe") + " must be a file, folder or symbolic link"));
  EXPECT_EQ(pack("data").kind(), ErrorKind::refused);
  EXPECT_EQ(pack("none").message(), at("none") + " is not there");
}

TEST_F(InputsTest, PackingReturnsTheDigestsOfTheInputs) {
  file("data/sub/a", "x");
  file("one", "y");
  const auto digests =
      pack_inputs({input("data", "/in"), input("one", "/b")}, {}, [](std::string_view) { return true; });
  ASSERT_TRUE(digests);
  EXPECT_EQ(*digests, (std::vector{digest_of(at("data")), digest_of(at("one"))}));
}

TEST_F(InputsTest, PackingEndsIfTellReturnsFalse) {
  file("large", std::string(1 << 20, 'x'));
  file("none-of-it", "");
  int pieces = 0;
  EXPECT_FALSE(pack_inputs({input("large", "/a"), input("none-of-it", "/b")}, {},
                           [&](std::string_view) { return ++pieces < 3; }));
  EXPECT_EQ(pieces, 3);
  // No further call after an exception of `tell` either.
  EXPECT_THROW(pack_inputs({input("large", "/a")}, {},
                           [](std::string_view) -> bool { throw std::runtime_error("no"); }),
               std::runtime_error);
}

TEST_F(InputsTest, TheOwnerIsANumericUserOrRoot) {
  const auto owner = [](const std::string& user) { return input_owner({.process = {.user = user}}); };
  EXPECT_EQ(owner(""), (InputOwner{0, 0}));
  EXPECT_EQ(owner("nobody:1000"), (InputOwner{0, 0}));
  EXPECT_EQ(owner("1000"), (InputOwner{1000, 0}));
  EXPECT_EQ(owner("1000:50"), (InputOwner{1000, 50}));
  EXPECT_EQ(owner("1000:staff"), (InputOwner{1000, 0}));
}

TEST_F(InputsTest, FilesCanBeRead) {
  file("data/sub/a", "x");
  link("data/link", "sub/a");
  EXPECT_THAT(read_input(input("data", "/in"), Bytes{100}), ElementsAre(Pair("/in/sub/a", "x")));
  EXPECT_THAT(read_input(input("data/sub/a", "/b"), Bytes{100}), ElementsAre(Pair("/b", "x")));
}

TEST_F(InputsTest, ALargeFileIsCutAtTheSizeLimit) {
  file("data/a", "abcdef");
  file("data/b", "gh");
  fs::resize_file(at("data/a"), std::uintmax_t{1} << 40U);
  EXPECT_THAT(read_input(input("data", "/in"), Bytes{3}),
              ElementsAre(Pair("/in/a", "abc"), Pair("/in/b", "gh")));
}

TEST_F(InputsTest, ReadingCanBeStopped) {
  file("data/a", "x");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_of([&] { (void)read_input(input("data", "/in"), Bytes{100}, stop.get_token()); }).kind(),
            ErrorKind::cancelled);
}

// ---- Folders that another process changes

constexpr const char* k_secret = "the secret";

// A fixture with a folder `data`, beside a file and a folder that contain a secret.
class ChangingTest : public InputsTest {
 protected:
  ChangingTest() {
    file("secrets/x", k_secret, 0600);
    file("secret", k_secret, 0600);
  }

  // renameat2() exchanges both names atomically, so that neither is ever missing.
  void exchange(const std::string& one, const std::string& other) const {
    ASSERT_EQ(renameat2(AT_FDCWD, at(one).c_str(), AT_FDCWD, at(other).c_str(), RENAME_EXCHANGE), 0);
  }
  // Packs `data`. Calls `change` as soon as the content of the first file is packed.
  [[nodiscard]] std::string pack_while(const std::function<void()>& change) const {
    std::string bytes;
    bool is_changed = false;
    (void)pack_inputs({input("data", "/in")}, {}, [&](std::string_view piece) {
      bytes += piece;
      if (!is_changed && bytes.find("first") != std::string::npos) {
        is_changed = true;
        change();
      }
      return true;
    });
    EXPECT_TRUE(is_changed);
    return bytes;
  }
  [[nodiscard]] static std::string first_content() { return "first" + std::string(1 << 20, '.'); }
};

TEST_F(ChangingTest, AFileThatBecameALinkIsRefused) {
  file("data/a", first_content());
  file("data/b", "legal");
  link("link", at("secret"));
  const Error error = error_of([&] { (void)pack_while([&] { exchange("data/b", "link"); }); });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_THAT(error.message(), HasSubstr(at("data/b") + " changed while it was read"));
}

TEST_F(ChangingTest, AFileThatBecameAPipeIsRefusedAndNotOpened) {
  file("data/a", first_content());
  file("data/b", "legal");
  mkfifo(at("pipe").c_str(), 0644);
  pipes_opened = 0;
  const Error error = error_of([&] { (void)pack_while([&] { exchange("data/b", "pipe"); }); });
  EXPECT_THAT(error.message(), HasSubstr(at("data/b") + " changed while it was read"));
  EXPECT_EQ(pipes_opened, 0);
}

TEST_F(ChangingTest, AFileThatBecameAFolderIsRefused) {
  file("data/a", first_content());
  file("data/b", "legal");
  const Error error = error_of([&] { (void)pack_while([&] { exchange("data/b", "secrets"); }); });
  EXPECT_THAT(error.message(), HasSubstr(at("data/b") + " changed while it was read"));
}

TEST_F(ChangingTest, AFolderThatBecameALinkIsRefused) {
  file("data/a", first_content());
  file("data/sub/x", "legal");
  link("link", at("secrets"));
  const Error error = error_of([&] { (void)pack_while([&] { exchange("data/sub", "link"); }); });
  EXPECT_THAT(error.message(), HasSubstr(at("data/sub") + " changed while it was read"));
}

TEST_F(ChangingTest, ALinkThatBecameAFileIsRefused) {
  file("data/a", first_content());
  link("data/b", "a");
  const Error error = error_of([&] { (void)pack_while([&] { exchange("data/b", "secret"); }); });
  EXPECT_THAT(error.message(), HasSubstr(at("data/b") + " changed while it was read"));
}

TEST_F(ChangingTest, AParentFolderThatBecameALinkIsNotFollowed) {
  file("data/sub/a", first_content());
  file("data/sub/x", "legal");
  link("link", at("secrets"));
  const std::string bytes = pack_while([&] { exchange("data/sub", "link"); });
  EXPECT_EQ(bytes.find(k_secret), std::string::npos);
  EXPECT_EQ(texts_of(entries_of(bytes)).back(), "in/sub/x 100644 0:0 legal");
}

TEST_F(ChangingTest, ReadFileReadsTheVisitedFile) {
  file("data/a", "legal");
  link("link", at("secret"));
  std::string content;
  inputs::walk(input("data", "/in"), [&](const inputs::Found& found) {
    if (!S_ISREG(found.status.st_mode)) return true;
    exchange("data/a", "link");
    return inputs::read_file(found, [&](std::string_view bytes) {
      content += bytes;
      return true;
    });
  });
  EXPECT_EQ(content, "legal");
}

TEST_F(ChangingTest, ASecretIsNeverPackedWhileAnotherProcessExchangesNames) {
  for (int i = 0; i < 20; ++i) file("data/plain" + std::to_string(i), "legal");
  file("data/file", "legal");
  file("data/sub/x", "legal");
  link("file", at("secret"));
  link("sub", at("secrets"));
  const pid_t child = fork();  // a process rather than a thread, because this program has no threads
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) {
      renameat2(AT_FDCWD, at("data/file").c_str(), AT_FDCWD, at("file").c_str(), RENAME_EXCHANGE);
      renameat2(AT_FDCWD, at("data/sub").c_str(), AT_FDCWD, at("sub").c_str(), RENAME_EXCHANGE);
    }
  }
  int packs = 0;
  int refusals = 0;
  int leaks = 0;
  for (; packs < 2000; ++packs) {
    std::string bytes;
    try {
      (void)pack_inputs({input("data", "/in")}, {}, [&](std::string_view piece) {
        bytes += piece;
        return true;
      });
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("changed while it was read"));
      ++refusals;
    }
    if (bytes.find(k_secret) != std::string::npos) ++leaks;
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(leaks, 0) << "of " << packs << " packs, " << refusals << " of which were refused";
}

// ---- Deep folders

class DeepTest : public InputsTest {
 protected:
  ~DeepTest() override {
    while (path_ && path_->depth() > 0) {
      if (!path_->leave()) break;
      unlinkat(path_->number(), "d", AT_REMOVEDIR);
    }
  }
  // Makes data/d/d/…/leaf.
  void make_deep(int folders) {
    fs::create_directories(at("data"));
    path_.emplace(Descriptor(::open(at("data").c_str(), O_RDONLY | O_DIRECTORY)));
    for (int i = 0; i < folders; ++i) {
      ASSERT_EQ(mkdirat(path_->number(), "d", 0755), 0);
      ASSERT_TRUE(path_->enter("d"));
    }
    const Descriptor leaf(openat(path_->number(), "leaf", O_WRONLY | O_CREAT, 0644));
    ASSERT_EQ(write(leaf.number(), "x", 1), 1);
    leaf_folder_ = Descriptor(dup(path_->number()));
  }
  void remove_leaf() const { unlinkat(leaf_folder_.number(), "leaf", 0); }

 private:
  std::optional<FolderPath> path_;
  Descriptor leaf_folder_;
};

TEST_F(DeepTest, TheDepthOfAnInputMayExceedTheNumberOfDescriptors) {
  constexpr int k_deep = 5000;  // the path is longer than PATH_MAX
  const test::SoftLimit few(RLIMIT_NOFILE, 256);
  make_deep(k_deep);
  file("shallow/a", "x");
  std::size_t longest = 0;
  int folders = 0;
  inputs::walk(input("data", "/in"), [&](const inputs::Found& found) {
    longest = std::max(longest, found.name.size());
    if (S_ISDIR(found.status.st_mode)) ++folders;
    return true;
  });
  EXPECT_EQ(folders, k_deep + 1);
  EXPECT_EQ(longest, 2U * k_deep + std::string("/leaf").size());
  std::size_t size = 0;
  const auto digests = pack_inputs({input("data", "/in")}, {}, [&](std::string_view piece) {
    size += piece.size();
    return true;
  });
  ASSERT_TRUE(digests);
  EXPECT_EQ(*digests, (std::vector{digest_of(at("data"))}));
  EXPECT_GT(size, k_deep * std::size_t{k_deep});  // every name in the archive is a full path
  remove_leaf();
}

// ---- Outputs of another trial

class LeftTest : public InputsTest {
 protected:
  LeftTest() {
    experiment_.name = ".lab/one";
    experiment_.collect.to = at("results");
  }

  [[nodiscard]] std::string left(const std::string& path) const {
    return at("results/_lab-one/r1/first" + path);
  }
  [[nodiscard]] std::string found(const std::string& path) const {
    Trial trial;
    trial.inputs = {{.from = path, .trial = "first", .to = "/in"}};
    find_inputs(trial, {}, [this](const std::string& left_by, const std::string& /*path*/) {
      return resolved_results_folder(experiment_, RunId("r1"), host_paths_) + "/" + left_by;
    });
    return trial.inputs[0].from;
  }

  HostPaths host_paths_;

 private:
  Experiment experiment_;
};

TEST_F(LeftTest, OutputsAreFoundInTheResultsFolder) {
  file("results/_lab-one/r1/first/out/a", "x");
  EXPECT_EQ(found("/out/a"), left("/out/a"));
  EXPECT_EQ(found("/out"), left("/out"));
  Trial own;
  own.inputs = {{.from = "/data", .to = "/in"}};
  find_inputs(own, {}, {});
  EXPECT_EQ(own.inputs[0].from, "/data");
}

TEST_F(LeftTest, LinksAreResolvedAsInTheContainer) {
  file("results/_lab-one/r1/first/out/run-7/a", "x");
  const std::string out = "results/_lab-one/r1/first/out/";
  link(out + "latest", "run-7");
  link(out + "absolute", "/out/latest");
  link(out + "up", "../../../../../../../out/run-7/a");
  link(out + "elsewhere", "/etc");
  link(out + "round", "round");
  link(out + "all", "..");
  EXPECT_EQ(found("/out/latest/a"), left("/out/run-7/a"));
  EXPECT_EQ(found("/out/absolute"), left("/out/run-7"));
  EXPECT_EQ(found("/out/up"), left("/out/run-7/a"));
  for (const std::string path : {"/out/elsewhere/passwd", "/out/round", "/out/none", "/out/all"}) {
    const Error error = error_of([&] { (void)found(path); });
    EXPECT_EQ(error.kind(), ErrorKind::refused) << path;
    EXPECT_THAT(error.message(), HasSubstr("the outputs of `first` must contain " + path));
  }
}

TEST_F(LeftTest, AnOutputThatBecameALinkIsNotFollowed) {
  file("results/_lab-one/r1/first/out/a", "x");
  file("results/_lab-one/r1/first/out/sub/b", "x");
  file("secret/b", "the secret");
  const Input whole{.from = found("/out/a"), .trial = "first", .to = "/in"};
  const Input below{.from = found("/out/sub/b"), .trial = "first", .to = "/in"};
  fs::remove(left("/out/a"));
  fs::remove_all(left("/out/sub"));
  link("results/_lab-one/r1/first/out/a", at("secret/b"));
  link("results/_lab-one/r1/first/out/sub", at("secret"));
  for (const Input& input : {whole, below}) {
    EXPECT_EQ(error_of([&] { (void)packed({input}); }).kind(), ErrorKind::refused);
    EXPECT_EQ(error_of([&] { (void)content_digest(input); }).kind(), ErrorKind::refused);
    EXPECT_EQ(error_of([&] { (void)read_input(input, Bytes{100}); }).kind(), ErrorKind::refused);
  }
}

TEST_F(LeftTest, TheResultsFolderMayBeBehindALink) {
  file("elsewhere/_lab-one/r1/first/out/a", "x");
  link("results", "elsewhere");
  const Input input{.from = found("/out/a"), .trial = "first", .to = "/in"};
  EXPECT_THAT(texts_of(entries_of(packed({input}))), ElementsAre("in 100644 0:0 x"));
}

TEST_F(LeftTest, ThePathOfTheResultsIsResolvedWhenTheRunBegins) {
  file("elsewhere/_lab-one/r1/first/out/a", "x");
  file("secrets/_lab-one/r1/first/out/a", "the secret");
  link("results", "secrets");
  host_paths_ = {{at("results"), at("elsewhere")}};
  const Input input{.from = found("/out/a"), .trial = "first", .to = "/in"};
  EXPECT_THAT(texts_of(entries_of(packed({input}))), ElementsAre("in 100644 0:0 x"));
}

TEST_F(LeftTest, AResultsFolderThatBecameALinkIsNotFollowed) {
  file("secrets/out/a", "the secret");
  fs::create_directories(at("results/_lab-one/r1"));
  link("results/_lab-one/r1/first", at("secrets"));
  const Input input{.from = found("/out/a"), .trial = "first", .to = "/in"};
  EXPECT_THAT(error_of([&] { (void)packed({input}); }).message(),
              HasSubstr("r1/first cannot be read: it was replaced by a symbolic link"));
}

// ---- Digests

TEST_F(InputsTest, EqualContentHasTheSameDigest) {
  file("one/b", "2");
  file("one/a", "1", 0644);
  file("two/a", "1", 0600);
  file("two/b", "2");
  date("two/a");
  const std::string digest = digest_of(at("one"));
  EXPECT_THAT(digest, testing::MatchesRegex("sha256:[0-9a-f]{64}"));
  EXPECT_EQ(digest_of(at("two")), digest);
  link("three", "two");
  EXPECT_EQ(digest_of(resolved(at("three"))), digest);
}

TEST_F(InputsTest, EveryDifferenceChangesTheDigest) {
  file("it/a", "1");
  link("it/link", "a");
  std::set<std::string> digests{digest_of(at("it"))};
  const auto expect_new = [&](const std::string& what) {
    EXPECT_TRUE(digests.insert(digest_of(at("it"))).second) << what;
  };
  file("it/a", "2");
  expect_new("bytes");
  file("it/a", "2", 0755);
  expect_new("may be executed");
  fs::rename(at("it/a"), at("it/b"));
  expect_new("a name");
  fs::create_directory(at("it/empty"));
  expect_new("an empty folder");
  fs::remove(at("it/link"));
  expect_new("no link");
  link("it/link", "b");
  expect_new("where it leads");
  EXPECT_EQ(digests.size(), 7U);
}

TEST_F(InputsTest, AListHasTheDigestOfTheListedFiles) {
  file("place/out/a", "alpha");
  file("place/out/sub/b", "beta", 0755);
  file("place/out/sub-1", "");
  fs::create_directory(at("place/out/none"));
  link("place/out/latest", "/out/sub");
  using Kind = ContentEntry::Kind;
  const FolderContent left{{"out", {}},
                           {"out/a", {.kind = Kind::file, .text = sha256_of("alpha")}},
                           {"out/latest", {.kind = Kind::link, .text = "/out/sub"}},
                           {"out/none", {}},
                           {"out/sub", {}},
                           {"out/sub/b", {.kind = Kind::file, .text = sha256_of("beta"), .is_program = true}},
                           {"out/sub-1", {.kind = Kind::file, .text = sha256_of("")}}};
  for (const std::string path : {"out", "out/sub", "out/a", "out/none", "out/sub/b"})
    EXPECT_EQ(content_digest(left, "first", "/" + path), digest_of(at("place/" + path))) << path;
  EXPECT_EQ(content_digest(left, "first", "/out/latest"), digest_of(at("place/out/sub")));
  EXPECT_THAT(error_of([&] { (void)content_digest(left, "first", "/out/b"); }).message(),
              HasSubstr("the outputs of `first` must contain /out/b"));
}

TEST_F(InputsTest, ADigestCanBeCancelled) {
  file("data/a", "x");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_of([&] { (void)content_digest(input("data", "/in"), stop.get_token()); }).kind(),
            ErrorKind::cancelled);
}

}  // namespace
}  // namespace combu
