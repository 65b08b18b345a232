#include "cli/identity.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>

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
  if (file == "-") return absolute(file).string();
  std::error_code failed;
  const auto path = std::filesystem::weakly_canonical(absolute(file), failed);
  return failed ? absolute(file).lexically_normal().string() : path.string();
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
