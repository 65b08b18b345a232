// Tests of collecting outputs from archives that are cut off, and of names that a manifest must escape.

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "combu/outputs.hpp"
#include "combu/simulated.hpp"
#include "outputs/manifest.hpp"
#include "passing_engine.hpp"
#include "record_folder.hpp"

namespace combu {
namespace {

// Returns a tar archive of one file.
std::string tar_of_file(const std::string& path, const std::string& content) {
  std::string bytes(content.size() + (1U << 16U), '\0');
  archive* writer = archive_write_new();
  archive_write_set_format_pax(writer);
  archive_write_set_options(writer, "hdrcharset=BINARY");
  std::size_t used = 0;
  EXPECT_EQ(archive_write_open_memory(writer, bytes.data(), bytes.size(), &used), ARCHIVE_OK);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, path.c_str());
  archive_entry_set_perm(entry, 0644);
  archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
  archive_entry_set_filetype(entry, AE_IFREG);
  EXPECT_GE(archive_write_header(writer, entry), ARCHIVE_WARN);
  archive_write_data(writer, content.data(), content.size());
  archive_entry_free(entry);
  archive_write_close(writer);
  archive_write_free(writer);
  bytes.resize(used);
  return bytes;
}

// Copies out an archive in pieces, and then throws `fault` if that is set.
class Copier final : public test::PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  bool copy_out(const Key& /*key*/, const std::string& /*path*/,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token /*stop*/) override {
    for (std::size_t at = 0; at < bytes.size(); at += 1000)
      on_bytes(std::string_view(bytes).substr(at, 1000));
    if (fault) throw Error(*fault);
    return true;
  }
  std::string bytes;
  std::optional<Error> fault;
};

class Archives : public testing::Test {
 protected:
  CollectionResult take() {
    return collect_outputs(copier_, {.run = RunId("run"), .trial = "t"}, {Output{.path = "/out"}},
                           *output_store_, {});
  }
  [[nodiscard]] std::string manifest() const {
    std::ostringstream text;
    text << std::ifstream(folder_.path() + "/t/manifest.sha256", std::ios::binary).rdbuf();
    return text.str();
  }

  test::Folder folder_{"outputs_archive"};
  World world_{{}};
  std::unique_ptr<Engine> engine_ = open_simulated(world_, 0);
  Copier copier_{*engine_};
  std::unique_ptr<OutputStore> output_store_ = open_folder(folder_.path());
};

TEST_F(Archives, AnErrorWithinAnArchiveIsReportedUnchanged) {
  copier_.fault.emplace(ErrorKind::unavailable, "engine", "cut off");
  for (const std::size_t size : {300U, 30000U}) {
    copier_.bytes = tar_of_file("out", std::string(50000, 'x')).substr(0, size);
    try {
      (void)take();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::unavailable);
      EXPECT_EQ(error.message(), "cut off");
    }
    EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/t"));
  }
}

TEST_F(Archives, AnErrorBeforeTheFirstByteIsReportedUnchanged) {
  copier_.fault.emplace(ErrorKind::not_found, "t", "is gone");
  try {
    (void)take();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
  }
}

TEST_F(Archives, TheManifestNamesTheFile) {
  copier_.bytes = tar_of_file("out", "x");
  (void)take();
  EXPECT_THAT(manifest(), testing::MatchesRegex("[0-9a-f]{64}  out\n"));
}

TEST(Manifest, NamesAreReadAsSha256sumWritesThem) {
  EXPECT_THAT(
      outputs::sums_in_manifest("aa  plain\nbb  not\\nescaped\n\\cc  line\\nend\\r and \\\\\n"
                                "\\dd  end\\\nno sum\nee  two  blanks\nff  last"),
      testing::ElementsAre(testing::Pair("end\\", "dd"), testing::Pair("last", "ff"),
                           testing::Pair("line\nend\r and \\", "cc"), testing::Pair("not\\nescaped", "bb"),
                           testing::Pair("plain", "aa"), testing::Pair("two  blanks", "ee")));
}

TEST(Manifest, LinesAreInTheOrderOfTheirPaths) {
  const outputs::Checksums sums{{"out/b", "1"}, {"out/a\n", "2"}, {"out/c\\", "3"}, {"log", "4"}};
  const std::string text = outputs::manifest_of(sums);
  EXPECT_EQ(text, "4  log\n\\2  out/a\\n\n1  out/b\n\\3  out/c\\\\\n");
  EXPECT_EQ(outputs::sums_in_manifest(text), sums);
}

TEST_F(Archives, ACarriageReturnInANameIsEscaped) {
  copier_.bytes = tar_of_file("out/a\rb", "x");
  (void)take();
  EXPECT_THAT(manifest(), testing::StartsWith("\\"));
  EXPECT_THAT(manifest(), testing::EndsWith("  out/a\\rb\n"));
}

}  // namespace
}  // namespace combu
