#pragma once
// Builders for archives, an engine that returns them, and a fixture for tests of outputs in a folder.

#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
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

// Returns an archive entry in the format of POSIX (pax, "ustar Interchange Format").
inline std::string raw_entry(const std::string& path, char type, const std::string& content) {
  constexpr std::size_t k_block = 512;
  std::string header(k_block, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  const auto octal = [](std::size_t value, int digits) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%0*zo", digits, value);
    return std::string(text.data());
  };
  put(0, path);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal(content.size(), 11));
  put(136, octal(0, 11));
  put(148, "        ");
  put(156, std::string(1, type));
  put(257, std::string("ustar\00000", 8));
  std::size_t sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, octal(sum, 6));
  header[154] = '\0';
  const std::size_t rest = content.size() % k_block;
  return header + content + std::string(rest == 0 ? 0 : k_block - rest, '\0');
}

// Returns an archive of one file that is a hole except for its last byte (GNU tar's manual, "Storing Sparse
// Files": version 1.0).
inline std::string sparse_archive(const std::string& path, std::int64_t size) {
  std::string records;
  const auto record = [&](const std::string& name, const std::string& value) {
    const std::string text = " " + name + "=" + value + "\n";
    std::size_t length = text.size() + 1;
    while (std::to_string(length).size() + text.size() != length) ++length;
    records += std::to_string(length) + text;
  };
  record("GNU.sparse.major", "1");
  record("GNU.sparse.minor", "0");
  record("GNU.sparse.name", path);
  record("GNU.sparse.realsize", std::to_string(size));
  std::string map = "1\n" + std::to_string(size - 1) + "\n1\n";
  map.resize(512);
  return raw_entry("pax", 'x', records) + raw_entry("GNUSparseFile.0/" + path, '0', map + "x") +
         std::string(1024, '\0');
}

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
