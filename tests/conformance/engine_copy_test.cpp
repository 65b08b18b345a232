// Inputs, and copy_out().

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/engine_suite.hpp"

namespace combu::conformance {
namespace {

// Returns the names in a tar archive (ustar, POSIX.1-1988) without those of extended headers (pax).
std::vector<std::string> names_in(const std::string& archive) {
  constexpr std::size_t k_block = 512;
  constexpr std::size_t k_name_size = 100;
  constexpr std::size_t k_size_at = 124;
  constexpr std::size_t k_type_at = 156;
  std::vector<std::string> names;
  for (std::size_t at = 0; at + k_block <= archive.size() && archive[at] != '\0';) {
    const char type = archive[at + k_type_at];
    const std::string name = archive.substr(at, k_name_size);
    if (type != 'x' && type != 'g') names.emplace_back(name.c_str());
    const std::size_t size = std::strtoull(archive.substr(at + k_size_at, 12).c_str(), nullptr, 8);
    at += k_block + (size + k_block - 1) / k_block * k_block;
  }
  return names;
}

// In an archive, the contents of files are stored unchanged.
TEST_P(FileSuite, CopyOutReturnsOutputsAsAnArchive) {
  const Run run = ready("leaves", {subject().leaves("leaves-a")});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("leaves-a", Phase::ended));
  const Key key{.run = run.id, .trial = "leaves-a"};
  const auto archive = [&](const std::string& path) {
    std::string bytes;
    const bool found = engine().copy_out(key, path, [&](std::string_view piece) { bytes += piece; }, {});
    EXPECT_EQ(found, !bytes.empty()) << path;
    return bytes;
  };
  const std::string folder = archive("/out");
  EXPECT_THAT(names_in(folder), testing::Each(testing::StartsWith("out/")));
  EXPECT_THAT(names_in(folder), testing::Contains("out/a"));
  EXPECT_THAT(folder, testing::HasSubstr("kept\n"));
  const std::string file = archive("/out/a");
  EXPECT_THAT(names_in(file), testing::ElementsAre("a"));
  EXPECT_THAT(file, testing::HasSubstr("kept\n"));
  EXPECT_EQ(archive("/no/such"), "");
  EXPECT_EQ(archive("/out/b"), "");
}

// Files on this machine that serve as inputs.
class Given {
 public:
  Given() : folder_(testing::TempDir() + "given." + RunId::random().text()) {
    std::filesystem::create_directories(folder_ + "/sub");
    put("sub/a", "first\n");
    put("b", "second\n");
  }
  ~Given() { std::filesystem::remove_all(folder_); }
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
  [[nodiscard]] const std::string& folder() const { return folder_; }
  void put(const std::string& path, const std::string& content) const {
    std::ofstream(folder_ + '/' + path) << content;
  }

 private:
  std::string folder_;
};

TEST_P(FileSuite, InputsAreStagedBeforeAnAttemptStarts) {
  const Given given;
  Trial trial = subject().exits_with("given-a", 3);
  trial.inputs = {{.from = given.folder(), .to = "/in/deep/data"},
                  {.from = given.folder() + "/b", .to = "/b"}};
  const Run run = ready("given", {trial});
  const auto content = [&](int attempt, const std::string& path) {
    std::string bytes;
    const Key key{.run = run.id, .trial = "given-a", .attempt = attempt};
    (void)engine().copy_out(key, path, [&](std::string_view piece) { bytes += piece; }, {});
    return bytes;
  };
  start_all(run);
  EXPECT_THAT(content(1, "/in/deep/data/sub/a"), testing::HasSubstr("first\n"));
  EXPECT_THAT(content(1, "/b"), testing::HasSubstr("second\n"));
}

// A worker keeps the inputs with which it was created.
TEST_P(ContainerSuite, EachAttemptGetsTheInputsOfItsStart) {
  const Given given;
  Trial trial = subject().exits_with("given-next", 3);
  trial.inputs = {{.from = given.folder(), .to = "/in/deep/data"},
                  {.from = given.folder() + "/b", .to = "/b"}};
  const Run run = ready("given-next", {trial});
  Watcher watcher(subject(), all_of(run));
  const auto content = [&](int attempt, const std::string& path) {
    std::string bytes;
    const Key key{.run = run.id, .trial = "given-next", .attempt = attempt};
    (void)engine().copy_out(key, path, [&](std::string_view piece) { bytes += piece; }, {});
    return bytes;
  };
  start_all(run);
  EXPECT_THAT(content(1, "/in/deep/data/sub/a"), testing::HasSubstr("first\n"));
  EXPECT_THAT(content(1, "/b"), testing::HasSubstr("second\n"));
  ASSERT_TRUE(watcher.wait_for("given-next", Phase::ended));
  given.put("b", "another\n");
  (void)engine().start(run, run.experiment.trials[0], 2, {});
  EXPECT_THAT(content(2, "/in/deep/data/sub/a"), testing::HasSubstr("first\n"));
  EXPECT_THAT(content(2, "/b"), testing::HasSubstr("another\n"));
}

// Several times as many bytes as an agent sends before its client has consumed some.
TEST_P(FileSuite, LargeLogsAndOutputsAreWhole) {
  const Given given;
  std::string content;
  constexpr int k_lines = 850;
  for (int i = 0; i < k_lines; ++i) content += std::to_string(i) + std::string(1000, '.') + '\n';
  given.put("large", content);
  Trial trial = subject().repeats("large-a", "/large");
  trial.inputs = {{.from = given.folder() + "/large", .to = "/large"}};
  const Run run = ready("large", {trial});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("large-a", Phase::ended));
  const std::string log = logs_of(run, "large-a", {}, LogStream::out);
  EXPECT_EQ(log.size(), 2 * content.size());
  EXPECT_TRUE(log == content + content);
  std::string archive;
  EXPECT_TRUE(engine().copy_out(key_of(run, "large-a"), "/out/a",
                                [&](std::string_view piece) { archive += piece; }, {}));
  EXPECT_GT(archive.size(), 2 * content.size());
  EXPECT_NE(archive.find(content + content), std::string::npos);
}

TEST_P(FileSuite, AMissingInputIsARefusal) {
  const Given given;
  Trial trial = subject().exits_with("given-none", 0);
  trial.inputs = {{.from = given.folder() + "/none", .to = "/in"}};
  const Run run = ready("given-none", {trial});
  try {
    start_all(run);
    ADD_FAILURE() << "it was started";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::refused);
    EXPECT_EQ(error.message(), given.folder() + "/none is not there");
  }
}

TEST_P(FileSuite, CopyOutOfAnAbsentAttemptIsNotFound) {
  const Run run = ready("leaves-other", {subject().leaves("leaves-other-a")});
  start_all(run);
  for (const Key& key :
       {Key{.run = run.id, .trial = "nobody"}, Key{.run = run.id, .trial = "leaves-other-a", .attempt = 2},
        Key{.run = RunId("another"), .trial = "leaves-other-a"}}) {
    EXPECT_EQ(kind_of([&] { (void)engine().copy_out(key, "/out", [](std::string_view) {}, {}); }),
              ErrorKind::not_found)
        << key.trial;
  }
}

}  // namespace
}  // namespace combu::conformance
