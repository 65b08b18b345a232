#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
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

// Returns the id of the user's first group.
std::optional<gid_t> group_of_user(uid_t user) {
  std::array<char, 4096> space{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, space.data(), space.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return found->pw_gid;
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

std::string name_of_group(std::uint32_t gid) {
  std::string space(4096, '\0');
  group entry{};
  group* found = nullptr;
  // The entry of a group has the names of all its members, and so may be large.
  while (getgrgid_r(gid, &entry, space.data(), space.size(), &found) == ERANGE && space.size() < (1U << 24U))
    space.resize(space.size() * 2);
  return found == nullptr ? "" : found->gr_name;
}

std::vector<std::uint32_t> groups_of_user(std::uint32_t uid) {
  const std::optional<gid_t> first = group_of_user(uid);
  if (!first) return {};
  const std::string name = name_of_user(uid);
  int count = 64;
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  // If there are more groups, getgrouplist() sets `count` to their number.
  while (getgrouplist(name.c_str(), *first, groups.data(), &count) < 0)
    groups.resize(std::max(static_cast<std::size_t>(count), groups.size() + 1));
  return {groups.begin(), groups.begin() + count};
}

}  // namespace combu
