#pragma once
// Builds tar archives. A random change of a header almost always makes its checksum wrong, so the targets
// correct the checksums.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "agent/program/tar_header.hpp"

namespace combu::fuzz {

inline void set_checksum(agent::TarHeader& header) {
  header.checksum.fill(' ');
  unsigned sum = 0;
  for (const char byte : std::string_view(reinterpret_cast<const char*>(&header), sizeof header))
    sum += static_cast<unsigned char>(byte);
  std::snprintf(header.checksum.data(), header.checksum.size(), "%06o", sum);
}

// Corrects the checksum of every block that has the magic of a header.
inline std::string with_checksums(std::string_view bytes) {
  std::string tar(bytes);
  agent::TarHeader header;
  for (std::size_t at = 0; at + sizeof header <= tar.size(); at += sizeof header) {
    std::memcpy(&header, tar.data() + at, sizeof header);
    if (std::string_view(header.magic.data(), 5) != "ustar") continue;
    set_checksum(header);
    std::memcpy(tar.data() + at, &header, sizeof header);
  }
  return tar;
}

struct TarEntry {
  std::string_view type;  // only the first byte counts
  std::string_view mode;  // octal, as the time
  std::string_view time;
  std::string_view name;  // the fields of the header cut long names
  std::string_view link;
  std::string_view content;
};

template <std::size_t Size>
void set_field(std::array<char, Size>& field, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), Size), field.begin());
}

inline void append_entry(std::string& tar, const TarEntry& entry) {
  agent::TarHeader header{};
  std::snprintf(header.size.data(), header.size.size(), "%011zo", entry.content.size());
  set_field(header.mode, entry.mode);
  set_field(header.mtime, entry.time);
  set_field(header.name, entry.name);
  set_field(header.link, entry.link);
  set_field(header.magic, std::string_view("ustar\0", 6));
  set_field(header.version, "00");
  header.type = entry.type.empty() ? '\0' : entry.type.front();
  set_checksum(header);
  tar.append(reinterpret_cast<const char*>(&header), sizeof header);
  tar += entry.content;
  tar.append((agent::k_tar_block - entry.content.size() % agent::k_tar_block) % agent::k_tar_block, '\0');
}

inline void append_end(std::string& tar) {
  tar.append(2 * agent::k_tar_block, '\0');
}

}  // namespace combu::fuzz
