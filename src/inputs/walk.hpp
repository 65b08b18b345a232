#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <string_view>

#include "combu/spec.hpp"

namespace combu::inputs {

// One file, folder or link of an input. Valid during the call that it is passed to.
struct Found {
  const std::string& path;    // on this machine
  std::string_view name;      // below the input, "/a/b"; empty: the input itself
  const struct stat& status;  // of a file and a folder: fstat() of what has been opened
  int file;                   // a file: open for reading; else -1
  const std::string& target;  // a symbolic link: where it leads
};

// Calls `visit` for what is at `input.from` and, if that is a folder, for all that is in it: a folder before
// what it holds, neighbours in the order of their names' bytes. Stops when `visit` returns false, and returns
// that. Somebody else may write to the folder at the same time: everything is opened in the folder that lists
// it, and no symbolic link is followed: one on the way to `input.from` or in its place is refused. The number
// of open descriptors does not depend on the depth. Throws Error(refused), also for what has become something
// else since it was listed.
bool walk(const Input& input, const std::function<bool(const Found&)>& visit);

// The file's bytes, as many as `found.status` says, piece by piece. Throws Error(refused), also if there are
// fewer.
bool read_file(const Found& found, const std::function<bool(std::string_view)>& tell);

}  // namespace combu::inputs
