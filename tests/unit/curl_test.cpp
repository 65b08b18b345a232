#include "combu/curl.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace combu::curl {
namespace {

namespace fs = std::filesystem;

class Authorities : public testing::Test {
 protected:
  Authorities() {
    std::string pattern = fs::temp_directory_path() / "combu-curl.XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~Authorities() override { fs::remove_all(root_); }
  Authorities(const Authorities&) = delete;
  Authorities& operator=(const Authorities&) = delete;

  void add(const fs::path& file) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << "certificates";
  }
  [[nodiscard]] std::string found() const {
    const std::string path = find_authorities(root_);
    return path.empty() ? "" : fs::path(path).lexically_relative(root_);
  }

  fs::path root_;
};

TEST_F(Authorities, AreNowhereOnABareMachine) {
  EXPECT_EQ(found(), "");
}

TEST_F(Authorities, AreAFolderWhereThereIsNoFile) {
  add("etc/ssl/certs/0a1b2c3d.0");
  EXPECT_EQ(found(), "etc/ssl/certs");
}

TEST_F(Authorities, AreFoundWhereDebianFedoraOpenSuseAndAlpineHaveThem) {
  for (const char* const file : {"etc/ssl/cert.pem", "etc/ssl/ca-bundle.pem",
                                 "etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/certs/ca-certificates.crt"}) {
    add(file);
    EXPECT_EQ(found(), file);
  }
}

}  // namespace
}  // namespace combu::curl
