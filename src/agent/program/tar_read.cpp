#include "tar_read.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "tar_header.hpp"

namespace combu::agent {
namespace {

constexpr std::size_t k_extension_max = std::size_t{1} << 20U;  // bytes of one pax header

struct Entry {
  std::string name;
  std::string link;
  char type = k_tar_file;
  std::uint64_t size = 0;
  mode_t mode = 0;
  timespec mtime{};
};

// The folders get their modes and times at the end, since a mode may forbid adding files.
struct FolderToFinish {
  std::string name;
  mode_t mode;
  timespec mtime;
};

template <std::size_t Size>
std::string_view text_of(const std::array<char, Size>& field) {
  const std::string_view whole(field.data(), Size);
  return whole.substr(0, whole.find('\0'));
}

// Reads an octal number, or GNU's binary number, which has the highest bit set.
template <std::size_t Size>
std::uint64_t number_of(const std::array<char, Size>& field) {
  std::uint64_t number = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80U) != 0) {
    for (std::size_t i = Size - 8; i < Size; ++i)
      number = number << 8U | static_cast<unsigned char>(field[i]);
    return number;
  }
  for (const char digit : field) {
    if (digit == ' ' && number == 0) continue;
    if (digit < '0' || digit > '7') break;
    number = number << 3U | static_cast<std::uint64_t>(digit - '0');
  }
  return number;
}

bool has_valid_checksum(const TarHeader& header) {
  TarHeader copy = header;
  copy.checksum.fill(' ');
  const std::string_view bytes(reinterpret_cast<const char*>(&copy), sizeof(copy));
  std::uint64_t sum = 0;
  for (const char byte : bytes) sum += static_cast<unsigned char>(byte);
  return sum == number_of(header.checksum);
}

// Reads a time such as "-1.25". Returns 0 if the text is not a time, or the time does not fit.
timespec time_of(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const std::size_t point = text.find('.');
  std::uint64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  if (!read_number(text.substr(0, point), seconds) || seconds > std::numeric_limits<time_t>::max()) return {};
  if (point != std::string_view::npos) {
    std::int64_t unit = k_second / 10;
    for (const char digit : text.substr(point + 1)) {
      if (digit < '0' || digit > '9') break;
      nanoseconds += unit * (digit - '0');
      unit /= 10;
    }
  }
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  if (is_negative) time.tv_sec = -time.tv_sec - (nanoseconds > 0 ? 1 : 0);
  time.tv_nsec = is_negative && nanoseconds > 0 ? k_second - nanoseconds : nanoseconds;
  return time;
}

class TarReader {
 public:
  TarReader(int in, int folder, int link_flag)
      : in_(in), folder_(folder), folder_flags_(O_RDONLY | O_DIRECTORY | O_CLOEXEC | link_flag) {}
  bool unpack();
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  enum class Next { entry, end, failure };

  bool fail(const std::string& name, int error) { return refuse(problem_text(name, error)); }
  bool refuse(std::string text) {
    problem_ = std::move(text);
    return false;
  }
  bool fill(char* bytes, std::size_t size);
  bool skip(std::uint64_t size);
  bool read_extension(std::uint64_t size, std::string& text);
  Next next(Entry& entry);
  bool apply_pax(std::string_view records, Entry& entry);
  Descriptor open_parent(const std::string& name, std::string& last);
  bool make(const Entry& entry);
  bool make_file(int parent, const std::string& last, const Entry& entry);
  bool make_folder(int parent, const std::string& last, const Entry& entry);
  bool make_link(int parent, const std::string& last, const Entry& entry);
  bool finish_folders();

  int in_;
  int folder_;
  int folder_flags_;
  std::vector<FolderToFinish> folders_;
  std::string problem_;
};

bool TarReader::fill(char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t count = read(in_, bytes, size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail("archive", errno);
    if (count == 0) return refuse("the archive is cut");
    bytes += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

bool TarReader::skip(std::uint64_t size) {
  std::array<char, 4096> part;
  while (size > 0) {
    const std::size_t count = std::min<std::uint64_t>(size, part.size());
    if (!fill(part.data(), count)) return false;
    size -= count;
  }
  return true;
}

std::uint64_t padding_of(std::uint64_t size) {
  return (k_tar_block - size % k_tar_block) % k_tar_block;
}

bool TarReader::read_extension(std::uint64_t size, std::string& text) {
  if (size > k_extension_max) return refuse("a header of the archive is too large");
  text.resize(size);
  return fill(text.data(), size) && skip(padding_of(size));
}

bool TarReader::apply_pax(std::string_view records, Entry& entry) {
  while (!records.empty()) {
    std::uint64_t length = 0;
    const std::size_t space = records.find(' ');
    if (space == std::string_view::npos || !read_number(records.substr(0, space), length) ||
        length <= space + 1 || length > records.size())
      return refuse("the archive has a malformed pax header");
    const std::string_view record = records.substr(space + 1, length - space - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return refuse("the archive has a malformed pax header");
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key == "path") entry.name = value;
    if (key == "linkpath") entry.link = value;
    if (key == "size" && !read_number(value, entry.size))
      return refuse("the archive has a malformed pax header");
    if (key == "mtime") entry.mtime = time_of(value);
    records.remove_prefix(length);
  }
  return true;
}

// Reads the headers of the next entry.
TarReader::Next TarReader::next(Entry& entry) {
  std::string pax;
  std::string long_name;
  std::string long_link;
  while (true) {
    TarHeader header;
    if (!fill(reinterpret_cast<char*>(&header), sizeof(header))) return Next::failure;
    if (header.name[0] == '\0' && header.checksum[0] == '\0') return Next::end;
    if (!has_valid_checksum(header)) {
      refuse("the archive has a header with a wrong checksum");
      return Next::failure;
    }
    entry.size = number_of(header.size);
    std::string text;
    if (header.type == 'x' || header.type == 'g' || header.type == 'L' || header.type == 'K') {
      if (!read_extension(entry.size, text)) return Next::failure;
      if (header.type == 'x') pax = text;
      if (header.type == 'L') long_name = text.substr(0, text.find('\0'));
      if (header.type == 'K') long_link = text.substr(0, text.find('\0'));
      continue;
    }
    entry.type = header.type == '\0' ? k_tar_file : header.type;
    entry.name = text_of(header.name);
    if (text_of(header.magic) == "ustar" && header.prefix[0] != '\0')
      entry.name = std::string(text_of(header.prefix)) + "/" + entry.name;
    entry.link = text_of(header.link);
    if (!long_name.empty()) entry.name = long_name;
    if (!long_link.empty()) entry.link = long_link;
    entry.mode = static_cast<mode_t>(number_of(header.mode) & 0777U);
    entry.mtime = {.tv_sec = static_cast<time_t>(number_of(header.mtime)), .tv_nsec = 0};
    return apply_pax(pax, entry) ? Next::entry : Next::failure;
  }
}

// Opens the folder of an entry, and makes the folders on the way; sets the last part of the name. With
// O_NOFOLLOW, no part may be a symbolic link. The name is that of the unpacked folder itself if `last` is
// empty.
Descriptor TarReader::open_parent(const std::string& name, std::string& last) {
  Descriptor folder(openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::string_view left = name;
  last.clear();
  while (!left.empty() && folder.is_open()) {
    const std::size_t end = std::min(left.find('/'), left.size());
    const std::string part(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
    if (part.empty() || part == ".") continue;
    if (part == ".." || part.find('\0') != std::string::npos) {
      refuse(name + ": the names of the archive must lead into the folder");
      return {};
    }
    if (!last.empty()) {
      (void)mkdirat(folder.get(), last.c_str(), 0755);
      folder = Descriptor(openat(folder.get(), last.c_str(), folder_flags_));
    }
    last = part;
  }
  if (!folder.is_open()) fail(name, errno);
  return folder;
}

bool TarReader::make_file(int parent, const std::string& last, const Entry& entry) {
  unlinkat(parent, last.c_str(), 0);
  const Descriptor file(
      openat(parent, last.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open()) return fail(entry.name, errno);
  std::array<char, 16384> part;
  std::uint64_t left = entry.size;
  while (left > 0) {
    const std::size_t count = std::min<std::uint64_t>(left, part.size());
    if (!fill(part.data(), count)) return false;
    if (!write_all(file.get(), {part.data(), count})) return fail(entry.name, errno);
    left -= count;
  }
  const std::array<timespec, 2> times{entry.mtime, entry.mtime};
  if (fchmod(file.get(), entry.mode) != 0 || futimens(file.get(), times.data()) != 0)
    return fail(entry.name, errno);
  return skip(padding_of(entry.size));
}

bool TarReader::make_folder(int parent, const std::string& last, const Entry& entry) {
  if (mkdirat(parent, last.c_str(), S_IRWXU) != 0 && errno != EEXIST) return fail(entry.name, errno);
  const Descriptor folder(openat(parent, last.c_str(), folder_flags_));
  if (!folder.is_open()) return fail(entry.name, errno);
  folders_.push_back({.name = entry.name, .mode = entry.mode, .mtime = entry.mtime});
  return true;
}

bool TarReader::make_link(int parent, const std::string& last, const Entry& entry) {
  unlinkat(parent, last.c_str(), 0);
  if (entry.type == k_tar_symlink) {
    if (symlinkat(entry.link.c_str(), parent, last.c_str()) != 0) return fail(entry.name, errno);
    const std::array<timespec, 2> times{entry.mtime, entry.mtime};
    (void)utimensat(parent, last.c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
    return true;
  }
  std::string target;
  const Descriptor from = open_parent(entry.link, target);
  if (!from.is_open()) return false;
  return linkat(from.get(), target.c_str(), parent, last.c_str(), 0) == 0 || fail(entry.name, errno);
}

bool TarReader::make(const Entry& entry) {
  std::string last;
  const Descriptor parent = open_parent(entry.name, last);
  if (!parent.is_open()) return false;
  switch (entry.type) {
    case k_tar_folder:
      return last.empty() || make_folder(parent.get(), last, entry);
    case k_tar_symlink:
    case k_tar_hard_link:
      return !last.empty() ? make_link(parent.get(), last, entry)
                           : refuse("the archive has a link without a name");
    case k_tar_file:
      return !last.empty() ? make_file(parent.get(), last, entry)
                           : refuse("the archive has a file without a name");
    default:
      return refuse(entry.name + ": the archive has an entry that is no file, folder or link");
  }
}

bool TarReader::finish_folders() {
  while (!folders_.empty()) {
    const FolderToFinish folder = std::move(folders_.back());
    folders_.pop_back();
    std::string last;
    const Descriptor parent = open_parent(folder.name, last);
    if (!parent.is_open()) return false;
    const Descriptor opened(openat(parent.get(), last.c_str(), folder_flags_));
    const std::array<timespec, 2> times{folder.mtime, folder.mtime};
    if (!opened.is_open()) return fail(folder.name, errno);
    // A folder of another user, such as the mount point of a volume, was there before, and stays unchanged.
    const bool is_finished =
        futimens(opened.get(), times.data()) == 0 && fchmod(opened.get(), folder.mode) == 0;
    if (!is_finished && errno != EPERM) return fail(folder.name, errno);
  }
  return true;
}

bool TarReader::unpack() {
  while (true) {
    Entry entry;
    const Next found = next(entry);
    if (found == Next::failure) return false;
    if (found == Next::end) break;
    if (!make(entry)) return false;
  }
  return finish_folders();
}

Report unpack(int in, int folder, int link_flag) {
  TarReader reader(in, folder, link_flag);
  if (!reader.unpack()) return {.status = 1, .text = reader.problem()};
  return {};
}

// Reads what follows the end of an archive, so that the sender is not cut off.
Report drained(int in, Report report) {
  std::array<char, 4096> part;
  while (report.status == 0 && read(in, part.data(), part.size()) > 0) continue;
  return report;
}

}  // namespace

Report read_tar(int in, int folder) {
  return drained(in, unpack(in, folder, O_NOFOLLOW));
}

Report read_tar_into_image(int in, int folder) {
  return drained(in, unpack(in, folder, 0));
}

Report read_tar_from_client(int in, int folder) {
  return unpack(in, folder, 0);
}

}  // namespace combu::agent
