#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "combu/system.hpp"

namespace combu {
namespace {

std::string known_of(uid_t user, char* passwd::*field) {
  std::array<char, 4096> space{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, space.data(), space.size(), &found) != 0 || found == nullptr) return "";
  return found->*field;
}

std::optional<std::uint32_t> id_from(const char* variable) {
  const char* const value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing sets variables
  if (value == nullptr) return std::nullopt;
  return parse_number<std::uint32_t>(value);
}

}  // namespace

User calling_user() {
  User user{.uid = geteuid(), .gid = getegid()};
  if (user.uid != 0) return user;
  user.uid = id_from("SUDO_UID").value_or(user.uid);
  user.gid = id_from("SUDO_GID").value_or(user.gid);
  return user;
}

std::string name_of_user(std::uint32_t uid) {
  return known_of(uid, &passwd::pw_name);
}

std::string home_of_user(std::uint32_t uid) {
  return known_of(uid, &passwd::pw_dir);
}

}  // namespace combu
