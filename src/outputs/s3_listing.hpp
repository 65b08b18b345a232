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

struct BucketOutputs {
  std::string manifest;                     // text of the manifest
  std::map<std::string, std::string> sums;  // SHA-256 digest of each file in the manifest, by path
  std::vector<OutputEntry> entries;
  // The input of content_digest(); nullopt if the manifest and the list of entries do not contain all of this
  // input.
  std::optional<FolderContent> known;
};

// Parses the texts of a manifest and of a list of entries. Throws Error(corrupt).
[[nodiscard]] BucketOutputs as_listed(std::string manifest, std::string_view entries);

// Reads the manifest and the list of entries from the bucket. `prefix`: the trial's prefix in the bucket,
// ending with `/`. Throws Error: not_found if there are no complete outputs, corrupt, unavailable, cancelled.
[[nodiscard]] BucketOutputs read_bucket_outputs(S3Client& client, const std::string& prefix,
                                                const std::stop_token& stop);

// Returns all objects of the trial's outputs except the manifest, without objects that were added after the
// collection. Only objects that are newer than the manifest are read, to check their digests. Throws Error:
// not_found if an object is missing, corrupt if an object was changed, and the errors of
// read_bucket_outputs().
[[nodiscard]] std::vector<S3Object> objects_of_outputs(S3Client& client, const std::string& prefix,
                                                       const std::stop_token& stop);

// Shortens a key for messages. For a long key, only the end is shown, which identifies the object.
[[nodiscard]] std::string end_of_key(const std::string& key);

// Returns the path below the trial's folder that must be downloaded to get `path`. If the outputs contain
// links, returns an empty path, which means all outputs, because a link may lead to any output.
[[nodiscard]] std::string wanted_of(const BucketOutputs& left, const std::string& path);

// True if a name from a bucket is not a path below the trial's folder, or is not written as combu writes
// paths ("a//b", for example). Other users may write to the bucket, so names are not trusted.
[[nodiscard]] bool leads_out(const std::string& name);

}  // namespace combu::outputs
