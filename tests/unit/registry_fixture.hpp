#pragma once
// A small image registry for tests, on a loopback address.

#include <fmt/format.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "combu/base.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::registry {

inline std::string digest_of(const std::string& content) {
  return "sha256:" + sha256_of(content);
}

// The content of a registry: manifests and blobs of one repository `lab/x`, by tag or digest.
class FakeRegistry {
 public:
  using Handler = wire::ScriptedDaemon::Handler;

  // `before`: answers a request in place of the registry, unless it returns nullopt.
  explicit FakeRegistry(std::function<std::optional<wire::Reply>(const wire::Asked&)> before = {})
      : before_(std::move(before)),
        server_([this](const wire::Asked& asked) { return answer(asked); }, wire::ScriptedDaemon::Kind::tcp) {
  }

  // Adds content at a path such as "manifests/1".
  void put(const std::string& path, const std::string& content) { content_[path] = content; }
  std::string put_blob(const std::string& content) {
    put("blobs/" + digest_of(content), content);
    return digest_of(content);
  }
  std::string put_manifest(const std::string& content) {
    put("manifests/" + digest_of(content), content);
    return digest_of(content);
  }
  // Adds an image for a platform and returns the digest of its manifest.
  std::string put_image(const std::string& machine = "amd64", const std::string& program = "/run") {
    const std::string config = put_blob(nlohmann::json{
        {"os", "linux"},
        {"architecture", machine},
        {"config", {{"Entrypoint", {program, "-x"}}, {"Cmd", {"arg"}}, {"StopSignal", "SIGINT"}}}}
                                            .dump());
    return put_manifest(nlohmann::json{{"schemaVersion", 2}, {"config", {{"digest", config}}}}.dump());
  }
  void tag(const std::string& digest, const std::string& name = "1") {
    put("manifests/" + name, content_.at("manifests/" + digest));
  }

  // The host and port.
  [[nodiscard]] std::string host() const { return server_.address().substr(std::string("tcp://").size()); }
  [[nodiscard]] std::string image(const std::string& tag = ":1") const { return host() + "/lab/x" + tag; }
  [[nodiscard]] const wire::ScriptedDaemon& server() const { return server_; }

 private:
  wire::Reply answer(const wire::Asked& asked) {
    if (before_)
      if (auto reply = before_(asked)) return *reply;
    const std::string begin = "/v2/lab/x/";
    const auto found = content_.find(asked.target.substr(std::min(begin.size(), asked.target.size())));
    if (!asked.target.starts_with(begin) || found == content_.end()) return wire::whole(404, "{}");
    return wire::whole(200, found->second);
  }

  std::map<std::string, std::string> content_;
  std::function<std::optional<wire::Reply>(const wire::Asked&)> before_;
  wire::ScriptedDaemon server_;
};

inline bool has_header(const wire::Asked& asked, const std::string& line) {
  return asked.head.find("\r\n" + line + "\r\n") != std::string::npos;
}

}  // namespace combu::registry
