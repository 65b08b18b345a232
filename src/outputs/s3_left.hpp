#pragma once
// Lists the outputs of a trial in a bucket, from its manifest and its list of entries.

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/inputs.hpp"
#include "combu/outputs.hpp"
#include "outputs/s3_client.hpp"

namespace combu::outputs {

struct LeftInBucket {
  std::string manifest;                     // text of the manifest
  std::map<std::string, std::string> sums;  // sha256 of each file in the manifest, by path
  std::vector<OutputEntry> entries;
  std::optional<Left> known;  // nullopt: the lists lack facts that a digest covers
};

// Parses the texts of the two lists. Throws Error(corrupt).
[[nodiscard]] LeftInBucket as_listed(std::string manifest, std::string_view entries);

// Reads both lists from the bucket. `prefix`: the trial's prefix in the bucket, ending with `/`. Throws
// Error: not_found if there are no complete outputs, corrupt, unavailable, cancelled.
[[nodiscard]] LeftInBucket read_left(S3Client& client, const std::string& prefix,
                                     const std::stop_token& stop);

// Returns all objects of the trial's outputs except the manifest, without objects that were added later. Only
// objects that are newer than the manifest are read, to check their digests. Throws Error: not_found if an
// object is missing, corrupt if an object was changed, and the errors of read_left().
[[nodiscard]] std::vector<S3Object> objects_as_left(S3Client& client, const std::string& prefix,
                                                    const std::stop_token& stop);

// Shortens a key for messages. For a long key, only the end is shown, which identifies the object.
[[nodiscard]] std::string end_of_key(const std::string& key);

// Returns the path to download for `path`, below the trial's folder. Returns an empty path (all outputs) if
// there are links, because links may lead anywhere.
[[nodiscard]] std::string wanted_of(const LeftInBucket& left, const std::string& path);

// True if a name from a bucket is not a path below the trial's folder, or is not in combu's spelling
// ("a//b"). Other users may write to the bucket, so names are not trusted.
[[nodiscard]] bool leads_out(const std::string& name);

}  // namespace combu::outputs
