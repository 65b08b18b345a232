#pragma once
// Builders for archives, an engine that returns them, and a fixture for tests of outputs in a folder.

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/outputs.hpp"
#include "combu/simulated.hpp"
#include "passing_engine.hpp"
#include "raw_archive.hpp"
#include "record_folder.hpp"

namespace combu::test {

namespace fs = std::filesystem;

inline std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  if (!fs::exists(folder)) return names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// Builds a tar archive as engines do, but also with entries that no engine should write.
class Tar {
 public:
  Tar() : writer_(archive_write_new()) {
    archive_write_set_format_pax(writer_);
    archive_write_set_options(writer_, "hdrcharset=BINARY");
    archive_write_open(
        writer_, &bytes_, nullptr,
        [](archive*, void* bytes, const void* from, std::size_t size) {
          static_cast<std::string*>(bytes)->append(static_cast<const char*>(from), size);
          return static_cast<la_ssize_t>(size);
        },
        nullptr);
  }
  ~Tar() { archive_write_free(writer_); }
  Tar(const Tar&) = delete;
  Tar& operator=(const Tar&) = delete;

  Tar& folder(const std::string& path, unsigned mode = 0755) { return add(path, AE_IFDIR, mode, "", ""); }
  Tar& file(const std::string& path, const std::string& content, unsigned mode = 0644) {
    return add(path, AE_IFREG, mode, content, "");
  }
  Tar& link(const std::string& path, const std::string& target) {
    return add(path, AE_IFLNK, 0777, "", target);
  }
  Tar& hard_link(const std::string& path, const std::string& target) {
    return add(path, 0, 0644, "", target);
  }
  // Sets the time of the entries that are added after this call.
  Tar& dated(std::int64_t seconds) {
    seconds_ = seconds;
    return *this;
  }
  Tar& pipe(const std::string& path) { return add(path, AE_IFIFO, 0644, "", ""); }

  std::string bytes() {
    archive_write_close(writer_);
    return bytes_;
  }

 private:
  Tar& add(const std::string& path, unsigned type, unsigned mode, const std::string& content,
           const std::string& target) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, path.c_str());
    archive_entry_set_perm(entry, static_cast<__LA_MODE_T>(mode));
    archive_entry_set_mtime(entry, seconds_, 500000000);
    archive_entry_set_uid(entry, 0);
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry, type == 0 ? AE_IFREG : type);
    if (type == AE_IFLNK) archive_entry_set_symlink(entry, target.c_str());
    if (type == 0) archive_entry_set_hardlink(entry, target.c_str());
    EXPECT_GE(archive_write_header(writer_, entry), ARCHIVE_WARN) << archive_error_string(writer_);
    archive_write_data(writer_, content.data(), content.size());
    archive_entry_free(entry);
    return *this;
  }

  archive* writer_;
  std::string bytes_;
  std::int64_t seconds_ = 1'000'000'000;
};

// An engine whose copy_out() returns these archives.
class Shelf : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  bool copy_out(const Key& /*key*/, const std::string& path,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token /*stop*/) override {
    const auto archive = archives.find(path);
    if (archive == archives.end()) return false;
    if (before) before();
    constexpr std::size_t k_piece = 1000;
    const std::string_view bytes = archive->second;
    for (std::size_t at = 0; at < bytes.size(); at += k_piece) {
      if (at >= cut_after) throw Error(ErrorKind::unavailable, "engine", "cut off");
      on_bytes(bytes.substr(at, k_piece));
    }
    return true;
  }

  std::map<std::string, std::string> archives;  // by path
  std::function<void()> before;                 // called before an archive is copied out
  std::size_t cut_after = SIZE_MAX;             // in bytes
};

class Outputs : public testing::Test {
 protected:
  CollectionResult take(const std::vector<Output>& outputs) {
    return collect_outputs(shelf_, {.run = RunId("run"), .trial = "t"}, outputs, *output_store_, {});
  }
  CollectionResult take(const std::string& path) { return take({Output{.path = path}}); }
  std::optional<Error> fault_of(const std::vector<Output>& outputs) {
    try {
      (void)take(outputs);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
  [[nodiscard]] fs::path trial_folder() const { return fs::path(folder_.path()) / "t"; }
  // True if `sha256sum -c` accepts the manifest.
  [[nodiscard]] bool manifest_holds() const {
    const std::string command =
        "cd '" + trial_folder().string() + "' && sha256sum --quiet --strict -c manifest.sha256";
    return std::system(command.c_str()) == 0;  // NOLINT(concurrency-mt-unsafe)
  }

  test::Folder folder_{"outputs"};
  World world_{{}};
  std::unique_ptr<Engine> engine_ = open_simulated(world_, 0);
  Shelf shelf_{*engine_};
  std::unique_ptr<OutputStore> output_store_ = open_folder(folder_.path());
};

}  // namespace combu::test
