#pragma once
// Files, an environment and a clock for tests of the room kubernetes.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>

#include "combu/base.hpp"
#include "error_of.hpp"
#include "kubernetes/kubeconfig.hpp"

namespace combu::kubernetes {

using test::error_in;

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "combu-kubernetes-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  // Returns the path of a file or folder in this folder.
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
    return path(name);
  }
  // Writes a program of sh and returns its path.
  std::string program(const std::string& name, const std::string& script) const {
    write(name, "#!/bin/sh\n" + script);
    std::filesystem::permissions(path(name), std::filesystem::perms::owner_all);
    return path(name);
  }

 private:
  std::string path_;
};

inline Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  };
}

// A clock that stands still until the test moves it.
class StillClock final : public Clock {
 public:
  Instant now() override {
    const std::scoped_lock lock(mutex_);
    return now_;
  }
  void wait(Seconds /*duration*/, std::stop_token /*stop*/) override {}
  void advance(Seconds duration) {
    const std::scoped_lock lock(mutex_);
    now_ += std::chrono::duration_cast<Instant::duration>(duration);
  }

 private:
  std::mutex mutex_;
  Instant now_ = *parse_timestamp("2026-01-01T12:00:00Z");
};

// Settings for a server without credentials.
inline Access access_to(const std::string& server) {
  return {.context = "lab",
          .name_space = "default",
          .cluster = {.server = server, .address = parse_server_address(server).value()},
          .account = {.source = "user lab of config"}};
}

}  // namespace combu::kubernetes
