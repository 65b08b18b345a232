#pragma once
// What a bucket does not have by itself: permissions and times, folders and links, names that are no UTF-8.

#include <string>
#include <string_view>
#include <vector>

#include "combu/outputs.hpp"
#include "outputs/s3_client.hpp"

namespace combu::outputs {

// A key is UTF-8: bytes that are not are written as %XX, and a `%` that would look like one of these as %25.
// No two paths have the same.
[[nodiscard]] std::string as_key(std::string_view path);

// An object's metadata `mode` (octal) and `mtime` (seconds since 1970), which rclone and others read, too.
[[nodiscard]] S3Client::Headers headers_of(const OutputEntry& entry);
// The same of what has been asked for; without them, 0644 and the epoch.
[[nodiscard]] OutputEntry file_entry(std::string path, const S3Object& object);

// A line of k_entries_name.
[[nodiscard]] std::string entry_line(const OutputEntry& entry);
// All of them. Throws Error(corrupt) where one cannot be read.
[[nodiscard]] std::vector<OutputEntry> read_entries(std::string_view text);

}  // namespace combu::outputs
