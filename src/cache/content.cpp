#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <vector>

#include "cache/sha256.hpp"
#include "combu/cache.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t k_piece = std::size_t{1} << 20U;

[[noreturn]] void refuse(const fs::path& path, int code) {
  throw Error(code == ENOENT ? ErrorKind::not_found : ErrorKind::refused, path.string(),
              fmt::format("cannot be read: {}", std::generic_category().message(code)));
}

void add_file(cache::Sha256& hash, const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse(path, errno);
  std::string piece(k_piece, '\0');
  ssize_t size = 0;
  while ((size = ::read(file, piece.data(), piece.size())) > 0 || (size < 0 && errno == EINTR))
    if (size > 0) hash.add({piece.data(), static_cast<std::size_t>(size)});
  const int code = errno;
  ::close(file);
  if (size < 0) refuse(path, code);
}

std::string hash_of_file(const fs::path& path) {
  cache::Sha256 hash;
  add_file(hash, path);
  return hash.text();
}

// One line of what a folder holds; names end with what no name has in it.
std::string line_of(const fs::path& path, const fs::path& within) {
  struct stat seen {};
  if (lstat(path.c_str(), &seen) != 0) refuse(path, errno);
  const std::string name = path.lexically_relative(within).string();
  if (S_ISLNK(seen.st_mode)) return fmt::format("link {}{}{}\n", name, '\0', fs::read_symlink(path).string());
  if (S_ISDIR(seen.st_mode)) return fmt::format("folder {}{}\n", name, '\0');
  if (!S_ISREG(seen.st_mode)) return fmt::format("other {}{}\n", name, '\0');
  return fmt::format("{} {}{}{}\n", (seen.st_mode & S_IXUSR) != 0 ? "program" : "file", name, '\0',
                     hash_of_file(path));
}

std::string hash_of_folder(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  cache::Sha256 hash;
  for (const fs::path& path : paths) hash.add(line_of(path, folder));
  return hash.text();
}

}  // namespace

std::string content_hash(const std::string& path) {
  try {
    return fs::is_directory(path) ? hash_of_folder(path) : hash_of_file(path);
  } catch (const fs::filesystem_error& error) {
    refuse(error.path1(), error.code().value());
  }
}

std::string manifest_hash(const std::string& manifest, std::string_view path) {
  std::istringstream lines(manifest);
  std::vector<std::string> within;  // in no order that matters
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blanks = line.find("  ");
    if (blanks == std::string::npos) continue;
    const std::string_view name = std::string_view(line).substr(blanks + 2);
    const bool is_within = name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '/');
    if (!is_within) continue;
    within.push_back(fmt::format("{} {}\n", name.substr(path.size()), line.substr(0, blanks)));
  }
  if (within.empty()) return "";
  std::ranges::sort(within);
  cache::Sha256 hash;
  for (const std::string& line : within) hash.add(line);
  return hash.text();
}

}  // namespace combu
