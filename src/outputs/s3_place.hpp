#pragma once
// A location in a bucket.

#include <algorithm>
#include <string>
#include <string_view>

namespace combu::outputs {

struct S3Place {
  std::string bucket;
  std::string prefix;  // the prefix of all keys; empty, or ends with `/`
};

// Parses "s3://BUCKET[/PREFIX]".
[[nodiscard]] inline S3Place s3_place(std::string text) {
  text.erase(0, std::string_view("s3://").size());
  const std::size_t slash = std::min(text.find('/'), text.size());
  S3Place place{.bucket = text.substr(0, slash), .prefix = text.substr(slash)};
  place.prefix.erase(0, 1);
  if (!place.prefix.empty() && !place.prefix.ends_with('/')) place.prefix += '/';
  return place;
}

}  // namespace combu::outputs
