#include "tar_write.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "combu/agent.hpp"
#include "tar_header.hpp"

namespace combu::agent {
namespace {

constexpr std::uint64_t k_octal_size_max = (std::uint64_t{1} << 33U) - 1;  // 11 digits
constexpr std::uint64_t k_octal_id_max = (std::uint64_t{1} << 21U) - 1;    // 7 digits
constexpr int k_depth_max = 2000;

template <std::size_t Size>
void put_octal(std::array<char, Size>& field, std::uint64_t number) {
  field.back() = '\0';
  for (std::size_t i = Size - 1; i > 0; --i) {
    field[i - 1] = static_cast<char>('0' + (number & 7U));
    number >>= 3U;
  }
}

template <std::size_t Size>
void put_text(std::array<char, Size>& field, std::string_view text) {
  std::ranges::copy_n(text.begin(), static_cast<std::ptrdiff_t>(std::min(text.size(), Size)), field.begin());
}

class TarWriter {
 public:
  explicit TarWriter(int out) : out_(out) {}
  // Adds an entry and everything in it. Returns false if the archive cannot be finished.
  bool add(int folder, const std::string& name, const std::string& archive_name, int flags, int depth);
  bool finish();
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  bool fail(const std::string& name, int error) {
    problem_ = problem_text(name, error);
    return false;
  }
  bool put(std::string_view bytes);
  bool put_padding(std::uint64_t size);
  bool put_header(const std::string& name, const struct stat& status, char type, std::uint64_t size,
                  std::string_view link);
  bool put_block(std::string_view name, const struct stat& status, char type, std::uint64_t size,
                 std::string_view link);
  bool add_file(const Descriptor& file, const std::string& archive_name, const struct stat& status);
  bool add_folder(Descriptor folder, const std::string& archive_name, const struct stat& status, int depth);

  int out_;
  std::string buffer_;
  std::string problem_;
};

bool TarWriter::put(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() < k_part_max) return true;
  if (!write_all(out_, buffer_)) return fail("archive", errno);
  buffer_.clear();
  return true;
}

bool TarWriter::put_padding(std::uint64_t size) {
  static constexpr std::array<char, k_tar_block> k_zeros{};
  const std::size_t rest = size % k_tar_block;
  return rest == 0 || put({k_zeros.data(), k_tar_block - rest});
}

bool TarWriter::put_block(std::string_view name, const struct stat& status, char type, std::uint64_t size,
                          std::string_view link) {
  TarHeader header{};
  put_text(header.name, name);
  put_octal(header.mode, status.st_mode & 07777U);
  put_octal(header.uid, std::min<std::uint64_t>(status.st_uid, k_octal_id_max));
  put_octal(header.gid, std::min<std::uint64_t>(status.st_gid, k_octal_id_max));
  put_octal(header.size, std::min(size, k_octal_size_max));
  put_octal(header.mtime, static_cast<std::uint64_t>(std::clamp<std::int64_t>(
                              status.st_mtim.tv_sec, 0, static_cast<std::int64_t>(k_octal_size_max))));
  header.checksum.fill(' ');
  header.type = type;
  put_text(header.link, link);
  put_text(header.magic, std::string_view("ustar\0", 6));
  put_text(header.version, "00");
  unsigned sum = 0;
  const std::string_view bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const char byte : bytes) sum += static_cast<unsigned char>(byte);
  std::array<char, 7> digits{};
  put_octal(digits, sum);
  put_text(header.checksum, {digits.data(), digits.size()});
  return put(bytes);
}

// Appends a record "LENGTH KEY=VALUE\n" of a pax header; the length includes its own digits.
void add_record(std::string& records, std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest + to_text(rest).size();
  length = rest + to_text(length).size();
  records += to_text(length);
  records += ' ';
  records += key;
  records += '=';
  records += value;
  records += '\n';
}

std::string time_text(const timespec& time) {
  std::int64_t seconds = time.tv_sec;
  std::int64_t nanoseconds = time.tv_nsec;
  const bool is_negative = seconds < 0;
  if (is_negative && nanoseconds > 0) {  // -1.25 s is stored as -2 s and 750 ms
    seconds += 1;
    nanoseconds = k_second - nanoseconds;
  }
  std::string text = is_negative ? "-" : "";
  text += to_text(static_cast<std::uint64_t>(is_negative ? -seconds : seconds));
  if (nanoseconds > 0) {
    const std::string digits = to_text(static_cast<std::uint64_t>(nanoseconds));
    text += '.';
    text.append(9 - digits.size(), '0');
    text += digits;
  }
  return text;
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char byte) { return byte < 0x80; });
}

bool TarWriter::put_header(const std::string& name, const struct stat& status, char type, std::uint64_t size,
                           std::string_view link) {
  std::string records;
  if (name.size() > TarHeader().name.size() || !is_ascii(name)) add_record(records, "path", name);
  if (link.size() > TarHeader().link.size() || !is_ascii(link)) add_record(records, "linkpath", link);
  if (size > k_octal_size_max) add_record(records, "size", to_text(size));
  if (status.st_uid > k_octal_id_max) add_record(records, "uid", to_text(status.st_uid));
  if (status.st_gid > k_octal_id_max) add_record(records, "gid", to_text(status.st_gid));
  if (status.st_mtim.tv_sec < 0 || status.st_mtim.tv_nsec != 0)
    add_record(records, "mtime", time_text(status.st_mtim));
  if (!records.empty() && !(put_block("pax", status, k_tar_pax, records.size(), {}) && put(records) &&
                            put_padding(records.size())))
    return false;
  return put_block(name, status, type, size, link);
}

bool TarWriter::add_file(const Descriptor& file, const std::string& archive_name, const struct stat& status) {
  // The file may change meanwhile; the archive has as many bytes of it as its header says.
  auto left = static_cast<std::uint64_t>(status.st_size);
  if (!put_header(archive_name, status, k_tar_file, left, {})) return false;
  std::array<char, 16384> part;
  bool is_over = false;
  while (left > 0) {
    const std::size_t wanted = std::min<std::uint64_t>(left, part.size());
    ssize_t count = is_over ? 0 : read(file.get(), part.data(), wanted);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(archive_name, errno);
    if (count == 0) {
      is_over = true;
      part.fill('\0');
      count = static_cast<ssize_t>(wanted);
    }
    if (!put({part.data(), static_cast<std::size_t>(count)})) return false;
    left -= static_cast<std::uint64_t>(count);
  }
  return put_padding(static_cast<std::uint64_t>(status.st_size));
}

bool TarWriter::add_folder(Descriptor folder, const std::string& archive_name, const struct stat& status,
                           int depth) {
  if (!put_header(archive_name + "/", status, k_tar_folder, 0, {})) return false;
  if (depth > k_depth_max) return fail(archive_name, ELOOP);
  DIR* listing = fdopendir(fcntl(folder.get(), F_DUPFD_CLOEXEC, 0));
  if (listing == nullptr) return fail(archive_name, errno);
  bool is_done = true;
  while (const dirent* entry = readdir(listing)) {  // NOLINT(concurrency-mt-unsafe): there is one thread
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    std::string inner = archive_name;
    inner += '/';
    inner += name;
    is_done = add(folder.get(), name, inner, O_NOFOLLOW, depth + 1);
    if (!is_done) break;
  }
  closedir(listing);
  return is_done;
}

bool TarWriter::add(int folder, const std::string& name, const std::string& archive_name, int flags,
                    int depth) {
  struct stat status {};
  if (fstatat(folder, name.c_str(), &status, flags == 0 ? 0 : AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT || fail(archive_name, errno);  // removed meanwhile
  if (S_ISLNK(status.st_mode)) {
    std::array<char, 4096> target;
    const ssize_t size = readlinkat(folder, name.c_str(), target.data(), target.size());
    if (size < 0) return errno == ENOENT || errno == EINVAL || fail(archive_name, errno);
    return put_header(archive_name, status, k_tar_symlink, 0,
                      {target.data(), static_cast<std::size_t>(size)});
  }
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return true;
  // O_NONBLOCK: a pipe may have taken the place of the file.
  Descriptor opened(openat(folder, name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags));
  if (!opened.is_open()) return errno == ENOENT || errno == ELOOP || fail(archive_name, errno);
  if (fstat(opened.get(), &status) != 0) return fail(archive_name, errno);
  if (S_ISDIR(status.st_mode)) return add_folder(std::move(opened), archive_name, status, depth);
  return !S_ISREG(status.st_mode) || add_file(opened, archive_name, status);
}

bool TarWriter::finish() {
  const std::string end(2 * k_tar_block, '\0');
  if (!put(end)) return false;
  return write_all(out_, buffer_) || fail("archive", errno);
}

// Returns the last part of a path; "." for the root folder and an empty path.
std::string last_part(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return path.empty() ? "." : std::string(path);
}

// True if a relative path could lead out of the folder in which it begins.
bool leads_out(std::string_view path) {
  if (path.starts_with('/')) return false;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (path.substr(0, end) == "..") return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

}  // namespace

Report write_tar(int base, const std::string& path, int out) {
  if (path.find('\0') != std::string::npos)
    return {.status = Done::unreadable, .text = "the path has a zero byte"};
  if (leads_out(path))
    return {.status = Done::unreadable, .text = path + ": a relative path must not contain .."};
  const std::string name = path.empty() ? "." : path;
  struct stat status {};
  if (fstatat(base, name.c_str(), &status, 0) != 0)
    return errno == ENOENT ? Report{.status = Done::absent, .text = {}}
                           : Report{.status = Done::unreadable, .text = problem_text(path, errno)};
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
    return {.status = Done::unreadable, .text = path + ": is neither a file nor a folder"};
  TarWriter writer(out);
  if (!writer.add(base, name, last_part(path), 0, 0) || !writer.finish())
    return {.status = Done::unreadable, .text = writer.problem()};
  return {.status = Done::ok, .text = {}};
}

}  // namespace combu::agent
