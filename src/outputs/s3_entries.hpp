#pragma once
// Encodes file attributes that a bucket cannot store itself: permissions, modification times, folders, links,
// and names that are not UTF-8.

#include <string>
#include <string_view>
#include <vector>

#include "combu/outputs.hpp"
#include "outputs/s3_client.hpp"

namespace combu::outputs {

// Encodes a path as a key in UTF-8. Bytes that are not UTF-8 become %XX, and a `%` that looks like such an
// escape becomes %25. Different paths have different keys.
[[nodiscard]] std::string as_key(std::string_view path);

// Returns the metadata headers of an object: the octal `mode`, and `mtime` in seconds since 1970. rclone and
// other programs also read these headers.
[[nodiscard]] S3Client::Headers headers_of(const OutputEntry& entry);
// Returns the entry of a file from its object's metadata, the reverse of headers_of(). If the object has no
// metadata, the result has mode 0644 and modification time 0.
[[nodiscard]] OutputEntry file_entry(std::string path, const S3Object& object);

// Returns the line of the k_entries_name object that describes `entry`.
[[nodiscard]] std::string entry_line(const OutputEntry& entry);
// Parses all lines of the k_entries_name object. Throws Error(corrupt) if a line cannot be parsed.
[[nodiscard]] std::vector<OutputEntry> read_entries(std::string_view text);

}  // namespace combu::outputs
