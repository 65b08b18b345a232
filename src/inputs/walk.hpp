#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <string_view>

#include "combu/spec.hpp"

namespace combu::inputs {

// One file, folder or link of an input. Valid only during the call of `visit`.
struct Found {
  const std::string& path;    // on this machine
  std::string_view name;      // relative to the input, "/a/b"; empty: the input itself
  const struct stat& status;  // file or folder: fstat() of the open descriptor
  int file;                   // file: open for reading; otherwise -1
  const std::string& target;  // symbolic link: its target
};

// Calls `visit` for `input.from` and, if that is a folder, for everything in it. A folder comes before its
// content; siblings are sorted by the bytes of their names. If `visit` returns false, the walk stops. Returns
// the last result of `visit`.
// Other processes may write to the folder at the same time. So every entry is opened relative to its folder,
// and no symbolic link is followed. A link in the path `input.from` is refused. The number of open
// descriptors does not depend on the depth. Throws Error(refused), also if an entry changed its kind after
// its folder was listed.
bool walk(const Input& input, const std::function<bool(const Found&)>& visit);

// Passes the file's content to `tell` in pieces, `found.status.st_size` bytes in total. Returns false if
// `tell` returned false. Throws Error(refused), also if the file has become shorter.
bool read_file(const Found& found, const std::function<bool(std::string_view)>& tell);

}  // namespace combu::inputs
