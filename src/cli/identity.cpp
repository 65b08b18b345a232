#include "cli/identity.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/environment.hpp"

namespace combu {
namespace {

std::string home_folder() {
  if (auto home = environment("HOME"); home && !home->empty()) return *home;
  std::array<char, 4096> space{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(getuid(), &entry, space.data(), space.size(), &found) == 0 && found != nullptr)
    return found->pw_dir;
  return "/";
}

std::optional<std::uint32_t> id_from(const std::string& variable) {
  const auto text = environment(variable);
  if (!text) return std::nullopt;
  std::uint32_t id = 0;
  const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), id);
  if (fault != std::errc{} || end != text->data() + text->size()) return std::nullopt;
  return id;
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
  try {
    (void)nlohmann::json(path.string()).dump();
  } catch (const nlohmann::json::exception&) {
    throw Error(
        ErrorKind::invalid,
        nlohmann::json(path.string()).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace),
        "its path is not UTF-8, and no label of a container can hold it; rename the folder or the file");
  }
  return path.string();
}

Caller caller_of(const std::string& file) {
  // Under sudo the caller is who typed it: folders and results are not root's.
  const auto uid = getuid() == 0 ? id_from("SUDO_UID") : std::nullopt;
  const auto gid = getuid() == 0 ? id_from("SUDO_GID") : std::nullopt;
  return {.file = identity_of(file),
          .folder = absolute(file).lexically_normal().parent_path().string(),
          .home = home_folder(),
          .uid = uid.value_or(getuid()),
          .gid = gid.value_or(getgid()),
          .env = environment};
}

}  // namespace combu
