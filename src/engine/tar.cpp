#include <archive.h>
#include <archive_entry.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/engine.hpp"

namespace combu {
namespace {

using Writer = std::unique_ptr<archive, decltype(&archive_write_free)>;
using Entry = std::unique_ptr<archive_entry, decltype(&archive_entry_free)>;

void check(archive* writer, int result) {
  if (result == ARCHIVE_OK) return;
  const char* why = archive_error_string(writer);
  throw Error(ErrorKind::invalid, "tar archive", why == nullptr ? "cannot be made" : why);
}

void add_entry(archive* writer, const std::string& path, unsigned type, int mode, std::string_view content) {
  const Entry entry(archive_entry_new(), &archive_entry_free);
  archive_entry_set_pathname(entry.get(), path.c_str());
  archive_entry_set_filetype(entry.get(), type);
  archive_entry_set_perm(entry.get(), static_cast<__LA_MODE_T>(mode));
  archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
  check(writer, archive_write_header(writer, entry.get()));
  if (!content.empty() && archive_write_data(writer, content.data(), content.size()) < 0)
    check(writer, ARCHIVE_FATAL);
}

la_ssize_t append(archive*, void* tar, const void* bytes, std::size_t size) {
  static_cast<std::string*>(tar)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

}  // namespace

std::string tar_of(const std::vector<ArchiveEntry>& entries) {
  std::string tar;
  const Writer writer(archive_write_new(), &archive_write_free);
  check(writer.get(), archive_write_set_format_ustar(writer.get()));
  check(writer.get(), archive_write_open(writer.get(), &tar, nullptr, &append, nullptr));
  for (const ArchiveEntry& entry : entries) {
    const unsigned type = entry.path.ends_with('/') ? AE_IFDIR : AE_IFREG;
    add_entry(writer.get(), entry.path, type, entry.mode, entry.content);
  }
  check(writer.get(), archive_write_close(writer.get()));
  return tar;
}

std::string tar_of(const std::map<std::string, std::string>& files) {
  constexpr int k_folder_mode = 0755;
  constexpr int k_file_mode = 0644;
  std::vector<ArchiveEntry> entries;
  std::set<std::string> folders;
  for (const auto& [path, content] : files) {
    for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      std::string folder = path.substr(0, slash + 1);
      if (folders.insert(folder).second)
        entries.push_back({.path = std::move(folder), .mode = k_folder_mode, .content = {}});
    }
    entries.push_back({.path = path, .mode = k_file_mode, .content = content});
  }
  return tar_of(entries);
}

}  // namespace combu
