#pragma once

#include <stop_token>
#include <string>
#include <string_view>

#include "combu/outputs.hpp"
#include "outputs/manifest.hpp"

namespace combu::outputs {

// How to unpack the archive of one output.
struct Unpacking {
  std::string place;  // the path that replaces the first component of each entry's path
  Bytes size_max;     // maximum size of all files together, including holes; 0 means 1 EiB
  std::string subject;
  std::stop_token stop = {};
};

// Reads a tar archive from `read` and passes its entries to `writer`. Adds the files to `collection` and
// their digests to `sums`. Throws the errors of `read` and `writer`, and Error:
// - invalid: the files exceed `size_max`;
// - corrupt: the archive is incomplete, or a path leads out of the archive;
// - cancelled.
void unpack(const NextBytes& read, const Unpacking& how, OutputWriter& writer, CollectionResult& collection,
            Checksums& sums);

}  // namespace combu::outputs
