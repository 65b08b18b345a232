#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "combu/json.hpp"
#include "combu/registry.hpp"
#include "combu/system.hpp"

namespace combu::registry {
namespace {

using nlohmann::json;

// A key in `auths`, such as "https://registry:5000/v2/" or "registry:5000/lab".
struct RegistryKey {
  std::string_view host;
  std::string_view path;  // of repositories, without slashes at its ends
};

RegistryKey parse_key(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"})
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  const std::size_t slash = key.find('/');
  RegistryKey parsed{.host = key.substr(0, slash), .path = {}};
  if (slash != std::string_view::npos) parsed.path = key.substr(slash + 1);
  while (parsed.path.ends_with('/')) parsed.path.remove_suffix(1);
  if (parsed.path == "v1" || parsed.path == "v2") parsed.path = {};  // a version of the API
  return parsed;
}

std::string host_of(std::string_view key) {
  return std::string(parse_key(key).host);
}

// Returns the host of a registry under its usual name. Docker Hub has several.
std::string_view usual_host(std::string_view host) {
  const bool is_hub = host == "index.docker.io" || host == "registry-1.docker.io";
  return is_hub ? "docker.io" : host;
}

// Reads a member of `auths`. Returns nullopt if it is not UTF-8.
std::optional<Login> login_of(const json& entry) {
  if (const std::string_view token = text_of(entry, "identitytoken"); !token.empty())
    return Login{.identity_token = std::string(token)};
  const std::string pair = decode_base64(text_of(entry, "auth"));
  if (!is_utf8(pair)) return std::nullopt;
  if (const std::size_t colon = pair.find(':'); colon != std::string::npos)
    return Login{.user = pair.substr(0, colon), .password = pair.substr(colon + 1)};
  return Login{.user = std::string(text_of(entry, "username")),
               .password = std::string(text_of(entry, "password"))};
}

// Finds the credentials of the registry `key` in `auths`. `path`: the file that contains `auths`, for
// messages.
FoundLogin from_auths(const json& auths, const std::string& key, const std::string& path) {
  const json* entry = &member_of(auths, key);
  for (auto other = auths.begin(); !entry->is_object() && other != auths.end(); ++other) {
    if (host_of(other.key()) == host_of(key)) entry = &*other;
  }
  if (const auto login = login_of(*entry)) return {.login = *login, .note = {}};
  return {.login = {},
          .note = fmt::format("{}: `auth` of {} must be base64 of UTF-8 text", path, shortened(key))};
}

// Returns nullopt if the file does not exist, and a value that is no object if the file is not JSON.
std::optional<json> read_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return parse_json_or_discard(std::string(std::istreambuf_iterator<char>(file), {}));
}

std::string program_name(std::string_view helper) {
  return fmt::format("docker-credential-{}", helper);
}

FoundLogin from_program(std::string_view name, const std::string& key, Seconds time_max,
                        const std::stop_token& stop) {
  const std::string program = program_name(name);
  constexpr std::size_t k_answer_max = std::size_t{1} << 20U;
  const ProgramEnd end = run_program({.arguments = {program, "get"},
                                      .environment = own_environment(),
                                      .input = key,
                                      .output_max = k_answer_max,
                                      .time_max = time_max,
                                      .stop = stop});
  if (!end.problem.empty()) return {.login = {}, .note = fmt::format("{} {}", program, end.problem)};
  if (end.output_cut)
    return {.login = {}, .note = fmt::format("{} printed more than {} MiB", program, k_answer_max >> 20U)};
  // A credential program without credentials for the registry exits with 1 and prints a message
  // (docker-credential-helpers: credentials/error.go).
  if (end.exit_code != 0) return {};
  const json answer = parse_json_or_discard(end.output);
  if (!answer.is_object()) return {.login = {}, .note = program + " did not print a JSON object"};
  const std::string user(text_of(answer, "Username"));
  std::string secret(text_of(answer, "Secret"));
  if (user == "<token>") return {.login = {.identity_token = std::move(secret)}, .note = {}};
  return {.login = {.user = user, .password = std::move(secret)}, .note = {}};
}

// True if the host matches the pattern, in which `*` stands for characters of one part between two dots.
bool matches_host(std::string pattern, std::string host) {
  for (std::string* const text : {&pattern, &host}) std::ranges::replace(*text, '.', '/');
  return ::fnmatch(pattern.c_str(), host.c_str(), FNM_PATHNAME | FNM_NOESCAPE) == 0;
}

}  // namespace

FoundLogin find_login(const std::string& config_folder, const std::string& registry_key, Seconds helper_max,
                      const std::stop_token& stop) {
  const std::string path = config_folder + "/config.json";
  const std::optional<json> read = read_config(path);
  if (!read) return {};
  const json& config = *read;
  if (!config.is_object()) return {.login = {}, .note = path + " is not a JSON object"};
  std::string_view program = text_of(config, "credsStore");
  for (const std::string& key : {registry_key, host_of(registry_key)}) {
    if (const std::string_view name = text_of(config, {"credHelpers", key}); !name.empty()) program = name;
  }
  FoundLogin found;
  if (!program.empty()) found = from_program(program, registry_key, helper_max, stop);
  if (!found.login.is_anonymous()) return found;
  const json& auths = member_of(config, "auths");
  if (!auths.is_object()) return found;
  FoundLogin plain = from_auths(auths, registry_key, path);
  if (!found.note.empty()) plain.note = found.note;
  return plain;
}

std::set<std::string> credential_programs(const std::string& config_folder) {
  const std::string path = config_folder + "/config.json";
  const std::optional<json> read = read_config(path);
  if (!read) return {};
  const json& config = *read;
  if (!config.is_object())
    throw Error(ErrorKind::invalid, path, "must contain a JSON object; correct or remove the file");
  std::set<std::string> programs;
  if (const std::string_view name = text_of(config, "credsStore"); !name.empty())
    programs.insert(program_name(name));
  if (const json& helpers = member_of(config, "credHelpers"); helpers.is_object()) {
    for (const json& helper : helpers)
      if (helper.is_string()) programs.insert(program_name(helper.get<std::string>()));
  }
  return programs;
}

std::vector<Login> logins_in(std::string_view text, const ImageReference& image) {
  const json config = parse_json_or_discard(text);
  const json& auths = config.is_object() && config.contains("auths") ? config["auths"] : config;
  if (!auths.is_object()) return {};
  const std::string repository = image.repository();
  std::vector<std::pair<std::size_t, Login>> found;  // with the length of the key's path
  for (const auto& [name, entry] : auths.items()) {
    const RegistryKey key = parse_key(name);
    if (!matches_host(std::string(usual_host(key.host)), image.registry) || !holds_path(key.path, repository))
      continue;
    const auto login = login_of(entry);
    if (login && !login->is_anonymous()) found.emplace_back(key.path.size(), *login);
  }
  std::ranges::stable_sort(found, std::ranges::greater(), [](const auto& one) { return one.first; });
  std::vector<Login> logins;
  logins.reserve(found.size());
  for (auto& [length, login] : found) logins.push_back(std::move(login));
  return logins;
}

}  // namespace combu::registry
