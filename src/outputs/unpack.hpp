#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "combu/outputs.hpp"

namespace combu::outputs {

// What the entries of one archive become.
struct Unpacking {
  std::string place;  // the path that stands for the first part of the entries' own
  Bytes size_max;     // of all files together, with their holes; 0: 1 EiB
  std::string subject;
  std::stop_token stop = {};
};

// Reads a tar archive from `read` (the next bytes; empty at the end) into `parcel`, and adds to `taken` and
// to `manifest`. Throws Error: invalid when it is larger than it may be, cancelled, corrupt when it is no
// whole archive or has a path that leaves its place, and what `read` and `parcel` throw.
void unpack(const std::function<std::string_view()>& read, const Unpacking& how, OutputWriter& writer,
            CollectionResult& taken, std::string& manifest);

}  // namespace combu::outputs
