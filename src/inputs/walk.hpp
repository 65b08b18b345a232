#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <string_view>

namespace combu::inputs {

// One thing of an input.
struct Found {
  const std::string& path;  // on this machine
  std::string_view name;    // below the input, "/a/b"; empty of the input itself
  const struct stat& status;
};

// Calls `visit` for what is at `path` and, when that is a folder, for all that is in it: a folder before what
// it holds, neighbours in the order of their names' bytes. Ends where `visit` gives false, and gives that.
// Throws Error(refused).
bool walk(const std::string& path, const std::function<bool(const Found&)>& visit);

// The file's bytes, as many as `found` has been told to have, piece by piece. Throws Error(refused), also
// when there are fewer by now.
bool read_file(const Found& found, const std::function<bool(std::string_view)>& tell);

// Where a symbolic link leads. Throws Error(refused).
[[nodiscard]] std::string read_link(const Found& found);

}  // namespace combu::inputs
