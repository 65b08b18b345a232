#include <unistd.h>

#include <cstdint>
#include <filesystem>

#include "combu/json.hpp"
#include "combu/system.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

std::string home_folder() {
  if (auto home = environment("HOME"); home && !home->empty()) return *home;
  const std::string known = home_of_user(geteuid());
  return known.empty() ? "/" : known;
}

std::filesystem::path absolute(const std::string& file) {
  std::error_code failed;
  auto path = std::filesystem::absolute(file, failed);
  if (failed) throw Error(ErrorKind::invalid, file, "the current folder does not exist: " + failed.message());
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
    throw Error(ErrorKind::invalid, quoted,
                "the path must be UTF-8, because combu stores it in labels of containers; rename the folder "
                "or the file");
  return path.string();
}

Caller caller_of(const std::string& file) {
  // Under sudo, the folders and results that combu creates belong to the calling user.
  const User user = calling_user();
  return {.file = identity_of(file),
          .folder = absolute(file).lexically_normal().parent_path().string(),
          .home = home_folder(),
          .uid = user.uid,
          .gid = user.gid,
          .env = environment};
}

std::string user_name() {
  const std::uint32_t uid = calling_user().uid;
  const std::string known = name_of_user(uid);
  return known.empty() ? std::to_string(uid) : known;
}

std::string machine_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace combu
