#pragma once
// What S3's answers say: XML (Amazon S3 API Reference, 2006-03-01), of which only elements are wanted that
// hold no others of their name.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace combu::outputs {

// What is between the first <NAME> and </NAME>; empty if there is none.
[[nodiscard]] std::string element(std::string_view xml, std::string_view name);

struct S3Object {
  std::string key;
  std::int64_t size = 0;
  // Its metadata of these names, where it was asked for by itself.
  std::string mode = {};
  std::string mtime = {};
  std::string tag = {};      // of its content, where it was asked for by itself
  std::string written = {};  // when, where it was listed: what is later is greater
};

// ListObjectsV2's.
struct S3Page {
  std::vector<S3Object> objects;
  std::string next;  // where the next page begins; empty: this is the last one
};
[[nodiscard]] S3Page read_page(std::string_view xml);

}  // namespace combu::outputs
