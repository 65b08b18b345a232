#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "combu/docker.hpp"
#include "combu/json.hpp"

namespace combu {
namespace {

using nlohmann::json;

// Returns nullopt if the file does not exist.
std::optional<json> read_json(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  json value = parse_json_or_discard(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!value.is_object())
    throw Error(ErrorKind::invalid, path.string(), "must contain a JSON object; correct or remove the file");
  return value;
}

// Parses an address from Docker's own settings. `source`: the setting, for messages.
Address address_from(const std::string& source, const std::string& text) {
  try {
    return parse_address(text);
  } catch (const Error& error) {
    throw Error(error.kind(), source, error.what());
  }
}

// Docker stores a context in contexts/meta/SHA256-OF-ITS-NAME/meta.json, and that file contains the context's
// name.
Address address_of_context(const std::filesystem::path& config_folder, const std::string& name) {
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(config_folder / "contexts" / "meta", ignored)) {
    const std::optional<json> meta = read_json(entry.path() / "meta.json");
    if (!meta || text_of(*meta, "Name") != name) continue;
    const std::string host(text_of(*meta, {"Endpoints", "docker", "Host"}));
    if (host.empty())
      throw Error(ErrorKind::invalid, "context " + name,
                  fmt::format("{} contains no Docker endpoint; see `docker context inspect {}`",
                              (entry.path() / "meta.json").string(), name));
    return address_from("context " + name, host);
  }
  throw Error(ErrorKind::invalid, "context " + name,
              fmt::format("no context in {} has this name; see `docker context ls`", config_folder.string()));
}

// True if the address belongs to this machine. Plain TCP between machines exposes registry passwords, and
// gives root to anyone who can connect.
bool is_this_machine(const Address& address) {
  in_addr number{};
  const bool is_loopback = inet_pton(AF_INET, address.host.c_str(), &number) == 1 &&
                           (ntohl(number.s_addr) >> 24U) == IN_LOOPBACKNET;
  return address.kind == Address::Kind::unix_socket || address.host == "localhost" || address.host == "::1" ||
         is_loopback;
}

DockerEndpoint find_any(const DockerEnvironment& env, const std::string& explicit_address) {
  const auto setting = [&](const char* name) { return env(name).value_or(""); };
  DockerEndpoint place;
  place.config_folder = setting("DOCKER_CONFIG");
  if (place.config_folder.empty()) place.config_folder = setting("HOME") + "/.docker";
  if (!explicit_address.empty()) {
    place.address = parse_address(explicit_address);
    place.source = "--engine";
    return place;
  }
  if (const std::string host = setting("DOCKER_HOST"); !host.empty()) {
    if (const std::string tls = setting("DOCKER_TLS_VERIFY"); !tls.empty()) {
      throw Error(ErrorKind::invalid, "DOCKER_TLS_VERIFY",
                  "TLS is not supported yet; use a unix socket or plain tcp");
    }
    place.address = address_from("DOCKER_HOST", host);
    place.source = "DOCKER_HOST";
    return place;
  }
  std::string context = setting("DOCKER_CONTEXT");
  if (context.empty()) {
    const std::optional<json> config = read_json(std::filesystem::path(place.config_folder) / "config.json");
    if (config) context = text_of(*config, "currentContext");
  }
  if (context.empty() || context == "default") {
    place.address = parse_address("unix:///var/run/docker.sock");
    place.source = "the default";
    return place;
  }
  place.address = address_of_context(place.config_folder, context);
  place.source = "context " + context;
  return place;
}

}  // namespace

DockerEndpoint find_docker(const DockerEnvironment& env, const std::string& explicit_address) {
  DockerEndpoint place = find_any(env, explicit_address);
  if (!is_this_machine(place.address))
    throw Error(
        ErrorKind::invalid, place.address.text(),
        fmt::format("{} must be an address of this machine: combu uses plain TCP only within one machine, "
                    "and TLS and SSH are not supported yet; run `ssh -L "
                    "/tmp/engine.sock:/var/run/docker.sock HOST` and use --engine unix:///tmp/engine.sock",
                    place.source));
  return place;
}

}  // namespace combu
