#pragma once
// What a trial has left in a bucket, by its lists there.

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
  std::string manifest;                     // its text
  std::map<std::string, std::string> sums;  // what it says of files, by path
  std::vector<OutputEntry> entries;
  std::optional<Left> known;  // nullopt: it does not tell everything that a digest does
};

// What the texts of the two lists say. Throws Error(corrupt).
[[nodiscard]] LeftInBucket as_listed(std::string manifest, std::string_view entries);

// `prefix`: the trial's place in the bucket, with a `/` at its end. Throws Error: not_found when nothing
// whole is there, corrupt, unavailable, cancelled.
[[nodiscard]] LeftInBucket read_left(S3Client& client, const std::string& prefix,
                                     const std::stop_token& stop);

// All of it but its manifest, without what somebody has added since. Throws Error: not_found when it is not
// whole, corrupt when somebody has changed it since, and as read_left(). What is not later than the manifest
// is not read.
[[nodiscard]] std::vector<S3Object> objects_as_left(S3Client& client, const std::string& prefix,
                                                    const std::stop_token& stop);

// What a message shows of a key: of a long one its end, which says what it is.
[[nodiscard]] std::string end_of_key(const std::string& key);

// What has to be brought here for `path`: the path below the trial's place; empty for all, where there are
// links, which may lead anywhere.
[[nodiscard]] std::string wanted_of(const LeftInBucket& left, const std::string& path);

// True if a name from a bucket, where others may write, is no path below a trial's place, or not written as
// combu writes it ("a//b").
[[nodiscard]] bool leads_out(const std::string& name);

}  // namespace combu::outputs
