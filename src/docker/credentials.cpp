#include "docker/credentials.hpp"

#include <fmt/core.h>

#include <fstream>
#include <iterator>
#include <optional>

#include "combu/json.hpp"
#include "combu/system.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;

// Returns the host of a key in `auths`. For example, the host of both "https://registry:5000/v2/" and
// "registry:5000" is "registry:5000".
std::string host_of(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) key.remove_prefix(scheme.size());
  }
  return std::string(key.substr(0, key.find('/')));
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::optional<Character> character = first_character(text);
    if (!character) return false;
    text.remove_prefix(character->bytes);
  }
  return true;
}

std::string header_of(const json& auth) {
  return encode_base64url(json_text(auth));
}

// Finds the credentials of the registry `key` in `auths`. `path`: the file that contains `auths`, for
// messages.
Credentials from_auths(const json& auths, const std::string& key, const std::string& path) {
  const json* entry = &member_of(auths, key);
  for (auto other = auths.begin(); !entry->is_object() && other != auths.end(); ++other) {
    if (host_of(other.key()) == host_of(key)) entry = &*other;
  }
  if (const std::string_view token = text_of(*entry, "identitytoken"); !token.empty()) {
    return {header_of({{"identitytoken", token}, {"serveraddress", key}}), ""};
  }
  const std::string pair = decode_base64(text_of(*entry, "auth"));
  const std::size_t colon = pair.find(':');
  if (colon == std::string::npos) return {};
  // The value of X-Registry-Auth is JSON, which can contain only UTF-8.
  if (!is_utf8(pair))
    return {"", fmt::format("{}: `auth` of {} must be base64 of UTF-8 text", path, shortened(key))};
  return {header_of({{"username", pair.substr(0, colon)},
                     {"password", pair.substr(colon + 1)},
                     {"serveraddress", key}}),
          ""};
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

Credentials from_program(std::string_view name, const std::string& key, Seconds time_max,
                         const std::stop_token& stop) {
  const std::string program = program_name(name);
  constexpr std::size_t k_answer_max = std::size_t{1} << 20U;
  const ProgramEnd end = run_program({.arguments = {program, "get"},
                                      .environment = own_environment(),
                                      .input = key,
                                      .output_max = k_answer_max,
                                      .time_max = time_max,
                                      .stop = stop});
  if (!end.problem.empty()) return {"", fmt::format("{} {}", program, end.problem)};
  if (end.output_cut) return {"", fmt::format("{} printed more than {} MiB", program, k_answer_max >> 20U)};
  // A credential program without credentials for the registry exits with 1 and prints a message
  // (docker-credential-helpers: credentials/error.go).
  if (end.exit_code != 0) return {};
  const json answer = parse_json_or_discard(end.output);
  if (!answer.is_object()) return {"", program + " did not print a JSON object"};
  const std::string_view user = text_of(answer, "Username");
  const std::string_view secret = text_of(answer, "Secret");
  if (user == "<token>") return {header_of({{"identitytoken", secret}, {"serveraddress", key}}), ""};
  if (user.empty() && secret.empty()) return {};
  return {header_of({{"username", user}, {"password", secret}, {"serveraddress", key}}), ""};
}

}  // namespace

Credentials find_credentials(const std::string& config_folder, const std::string& registry_key,
                             Seconds helper_max, const std::stop_token& stop) {
  const std::string path = config_folder + "/config.json";
  const std::optional<json> read = read_config(path);
  if (!read) return {};
  const json& config = *read;
  if (!config.is_object()) return {"", path + " is not a JSON object"};
  std::string_view program = text_of(config, "credsStore");
  for (const std::string& key : {registry_key, host_of(registry_key)}) {
    if (const std::string_view name = text_of(config, {"credHelpers", key}); !name.empty()) program = name;
  }
  Credentials found;
  if (!program.empty()) found = from_program(program, registry_key, helper_max, stop);
  if (!found.header.empty()) return found;
  const json& auths = member_of(config, "auths");
  if (!auths.is_object()) return found;
  Credentials plain = from_auths(auths, registry_key, path);
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

}  // namespace combu::docker
