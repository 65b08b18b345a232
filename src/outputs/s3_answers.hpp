#pragma once
// Parses the XML of S3's answers (Amazon S3 API Reference, 2006-03-01). combu only needs elements that
// contain no element of the same name.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace combu::outputs {

// Returns the text between the first <NAME> and </NAME>; an empty string if there is no such element.
[[nodiscard]] std::string element(std::string_view xml, std::string_view name);

struct S3Object {
  std::string key;
  std::int64_t size = 0;
  // The object's metadata `mode` and `mtime`, set only by requests for a single object.
  std::string mode = {};
  std::string mtime = {};
  std::string tag = {};      // the object's ETag; set only by requests for a single object
  std::string written = {};  // moment of the last change, set only in listings; later moments compare greater
};

// One page of ListObjectsV2.
struct S3Page {
  std::vector<S3Object> objects;
  std::string next;  // the token of the next page; empty: this is the last page
};
[[nodiscard]] S3Page read_page(std::string_view xml);

}  // namespace combu::outputs
