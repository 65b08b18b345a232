// Unpacks a tar archive into a scratch folder, as the agent does with inputs. The reader must end. It must
// not change anything outside of the folder, also if the folder already has a symbolic link that leads out of
// it. The folder must hold nothing but files, folders and links, and no more bytes and entries than the
// archive has. If the reader succeeds, it must have read the archive to its end; otherwise, it must give the
// reason. Then the agent's remove_tree() must remove the folder.
//
// If the input begins with "e", its other bytes are a list of entries: the type, mode, time, name, link and
// content of each, every field followed by "|". Otherwise, the bytes after the first one are an archive,
// whose checksums are corrected.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "agent/program/remove_tree.hpp"
#include "agent/program/system.hpp"
#include "agent/program/tar_read.hpp"
#include "guarded_folder.hpp"
#include "tar_bytes.hpp"

namespace {

namespace fs = std::filesystem;
using combu::agent::Descriptor;

std::string archive_of_entries(std::string_view text) {
  const auto field = [&] {
    const std::string_view found = text.substr(0, text.find('|'));
    text.remove_prefix(std::min(found.size() + 1, text.size()));
    return found;
  };
  std::string tar;
  while (!text.empty()) {
    combu::fuzz::TarEntry entry;
    for (std::string_view* part :
         {&entry.type, &entry.mode, &entry.time, &entry.name, &entry.link, &entry.content})
      *part = field();
    combu::fuzz::append_entry(tar, entry);
  }
  combu::fuzz::append_end(tar);
  return tar;
}

struct Seen {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
};

// Counts the entries below a folder, down to a depth of 12 folders, and the bytes of their files.
void look_through(const fs::path& folder, int depth, Seen& seen) {
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    const fs::file_status status = entry.symlink_status();
    ++seen.entries;
    if (!fs::is_directory(status) && !fs::is_symlink(status) && !fs::is_regular_file(status)) std::abort();
    if (!fs::is_symlink(status) && (status.permissions() & ~fs::perms::all) != fs::perms::none) std::abort();
    if (fs::is_regular_file(status)) seen.bytes += entry.file_size() / entry.hard_link_count();
    if (fs::is_directory(status) && depth < 12) look_through(entry.path(), depth + 1, seen);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const combu::fuzz::GuardedFolder guarded;
  static const Descriptor results(open(guarded.results().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string tar = input.front() == 'e' ? archive_of_entries(input.substr(1))
                                               : combu::fuzz::with_checksums(input.substr(1));
  const Descriptor in(memfd_create("archive", MFD_CLOEXEC));
  if (!combu::agent::write_all(in.get(), tar) || lseek(in.get(), 0, SEEK_SET) != 0 ||
      mkdirat(results.get(), "t", S_IRWXU) != 0)
    std::abort();
  const Descriptor folder(openat(results.get(), "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (symlinkat("../../beside", folder.get(), "door") != 0) std::abort();

  const combu::agent::Report report = combu::agent::read_tar(in.get(), folder.get());
  guarded.expect_untouched();
  if (combu::fuzz::GuardedFolder::names_in(guarded.results()) != std::set<std::string>{"t"}) std::abort();
  if ((report.status == 0) != report.text.empty()) std::abort();
  if (report.status == 0 && lseek(in.get(), 0, SEEK_CUR) != static_cast<off_t>(tar.size())) std::abort();
  Seen seen;
  look_through(guarded.results() / "t", 0, seen);
  if (seen.entries > tar.size() + 1 || seen.bytes > tar.size()) std::abort();

  combu::agent::remove_tree(results.get(), "t");
  guarded.expect_untouched();
  if (!fs::is_empty(guarded.results())) std::abort();
  return 0;
}
