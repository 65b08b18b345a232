#pragma once
// A fixture for tests that download outputs from a bucket.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "combu/outputs.hpp"
#include "outputs_fixture.hpp"
#include "s3_bucket.hpp"

namespace combu::test {

class FetchS3 : public S3 {
 protected:
  FetchS3() {
    fs::create_directories(folder_.path());
    variables_["TMPDIR"] = folder_.path();
  }

  // Uploads outputs of trial `t` with a matching manifest.
  void bring_whole(const Contents& contents, const std::vector<OutputEntry>& more = {},
                   const Contents& programs = {}) {
    const auto writer = output_store_->open("t", {});
    std::string manifest;
    const auto bring = [&](const Contents& files, unsigned mode) {
      for (const auto& [path, content] : files) {
        add(*writer, path, content, mode);
        manifest += sha256_of(content) + "  " + path + "\n";
      }
    };
    bring(contents, 0640);
    bring(programs, 0750);
    for (const OutputEntry& entry : more) writer->add(entry);
    writer->close(manifest);
  }
  // Fetches `path` and returns all downloaded paths except folders and the manifest.
  std::vector<std::string> fetch(const std::string& path) {
    const fs::path folder = output_store_->fetch("t", path, {});
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().lexically_relative(folder);
      if ((entry.is_symlink() || !entry.is_directory()) && name != k_manifest_name) found.push_back(name);
    }
    std::ranges::sort(found);
    return found;
  }
  std::string fetch_fault(const std::string& path) {
    const auto fault = fault_of([&] { (void)fetch(path); });
    if (!fault) return "";
    EXPECT_EQ(fault->kind(), ErrorKind::refused) << "the engine is not what is away";
    return fault->what();
  }
  // The temporary folders for downloads.
  [[nodiscard]] std::vector<std::string> here() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) names.push_back(entry.path().filename());
    return names;
  }
};

}  // namespace combu::test
