#include "cli/identity.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>

#include "cli/environment.hpp"
#include "combu/json.hpp"

namespace combu {
namespace {

// What the system knows of a user by this field; empty when it does not.
std::string known_of(uid_t user, char* passwd::*field) {
  std::array<char, 4096> space{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, space.data(), space.size(), &found) != 0 || found == nullptr) return "";
  return found->*field;
}

std::string home_folder() {
  if (auto home = environment("HOME"); home && !home->empty()) return *home;
  const std::string known = known_of(getuid(), &passwd::pw_dir);
  return known.empty() ? "/" : known;
}

std::optional<std::uint32_t> id_from(const std::string& variable) {
  const auto text = environment(variable);
  if (!text) return std::nullopt;
  std::uint32_t id = 0;
  const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), id);
  if (fault != std::errc{} || end != text->data() + text->size()) return std::nullopt;
  return id;
}

// Under sudo the caller is who typed it: folders and results are not root's.
std::uint32_t caller_id() {
  const auto uid = getuid() == 0 ? id_from("SUDO_UID") : std::nullopt;
  return uid.value_or(getuid());
}

std::filesystem::path absolute(const std::string& file) {
  std::error_code failed;
  auto path = std::filesystem::absolute(file, failed);
  if (failed) throw Error(ErrorKind::invalid, file, "the current folder is not there: " + failed.message());
  return path;
}

}  // namespace

std::string identity_of(const std::string& file) {
  std::error_code failed;
  auto path = absolute(file);
  if (file != "-") {
    const auto canonical = std::filesystem::weakly_canonical(path, failed);
    path = failed ? path.lexically_normal() : canonical;
  }
  const std::string quoted = json_text(nlohmann::json(path.string()));
  if (parse_json(quoted) != path.string())
    throw Error(
        ErrorKind::invalid, quoted,
        "its path is not UTF-8, and no label of a container can hold it; rename the folder or the file");
  return path.string();
}

Caller caller_of(const std::string& file) {
  const auto gid = getuid() == 0 ? id_from("SUDO_GID") : std::nullopt;
  return {.file = identity_of(file),
          .folder = absolute(file).lexically_normal().parent_path().string(),
          .home = home_folder(),
          .uid = caller_id(),
          .gid = gid.value_or(getgid()),
          .env = environment};
}

std::string user_name() {
  const std::string known = known_of(caller_id(), &passwd::pw_name);
  return known.empty() ? std::to_string(caller_id()) : known;
}

std::string machine_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace combu
