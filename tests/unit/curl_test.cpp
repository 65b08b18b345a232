#include "combu/curl.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
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

TEST_F(Authorities, AMachineMayHaveNone) {
  EXPECT_EQ(found(), "");
}

TEST_F(Authorities, AFolderIsFoundIfThereIsNoFile) {
  add("etc/ssl/certs/0a1b2c3d.0");
  EXPECT_EQ(found(), "etc/ssl/certs");
}

TEST_F(Authorities, FilesOfDebianFedoraOpenSuseAndAlpineAreFound) {
  for (const char* const file : {"etc/ssl/cert.pem", "etc/ssl/ca-bundle.pem",
                                 "etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/certs/ca-certificates.crt"}) {
    add(file);
    EXPECT_EQ(found(), file);
  }
}

class OfTheEnvironment : public Authorities {
 protected:
  OfTheEnvironment() { clear(); }
  ~OfTheEnvironment() override { clear(); }
  OfTheEnvironment(const OfTheEnvironment&) = delete;
  OfTheEnvironment& operator=(const OfTheEnvironment&) = delete;

  static void clear() {
    for (const char* const name : {"SSL_CERT_FILE", "SSL_CERT_DIR"}) unsetenv(name);
  }
  // Returns the authorities if the environment has these values.
  static curl::Authorities with(const fs::path& file, const fs::path& folder) {
    setenv("SSL_CERT_FILE", file.c_str(), 1);
    setenv("SSL_CERT_DIR", folder.c_str(), 1);
    return authorities_of("");
  }
};

TEST_F(OfTheEnvironment, TheFileAndTheFolderAreIndependent) {
  EXPECT_EQ(with("own.pem", "own").file, "own.pem");
  EXPECT_EQ(with("own.pem", "own").folder, "own");
  EXPECT_EQ(with("own.pem", "").file, "own.pem");
  EXPECT_EQ(with("own.pem", "").folder, "");
  EXPECT_EQ(with("", "own").file, "");
  EXPECT_EQ(with("", "own").folder, "own");
}

TEST_F(OfTheEnvironment, ThePathsAreNotChecked) {
  EXPECT_EQ(with(root_, "").file, root_) << "which libcurl refuses, as it does for curl(1)";
}

TEST_F(OfTheEnvironment, AnExplicitPlaceOverridesTheVariables) {
  with("own.pem", "own");
  add("some.pem");
  EXPECT_EQ(authorities_of(root_ / "some.pem").file, root_ / "some.pem");
  EXPECT_EQ(authorities_of(root_ / "some.pem").folder, "");
  EXPECT_EQ(authorities_of(root_).file, "");
  EXPECT_EQ(authorities_of(root_).folder, root_);
}

}  // namespace
}  // namespace combu::curl
