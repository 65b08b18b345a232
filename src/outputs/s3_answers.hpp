#pragma once
// What S3's answers say: XML (Amazon S3 API Reference, 2006-03-01), of which only elements are wanted that
// hold no others of their name.

#include <string>
#include <string_view>
#include <vector>

#include "outputs/s3_client.hpp"

namespace combu::outputs {

// What is between the first <NAME> and </NAME>; empty if there is none.
[[nodiscard]] std::string element(std::string_view xml, std::string_view name);

// ListObjectsV2's.
struct S3Page {
  std::vector<S3Object> objects;
  std::string next;  // where the next page begins; empty: this is the last one
};
[[nodiscard]] S3Page read_page(std::string_view xml);

}  // namespace combu::outputs
