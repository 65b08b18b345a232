#pragma once

#include <sys/stat.h>

#include <functional>
#include <string>
#include <string_view>

#include "combu/spec.hpp"

namespace combu::inputs {

// One file, folder or link of an input. A Found is valid only during the call of `visit`.
struct Found {
  const std::string& path;    // on this machine
  std::string_view name;      // path relative to the input, such as "/a/b"; empty: the input itself
  const struct stat& status;  // result of fstat() of the opened file or folder, or of fstatat() of a link
  int file;                   // descriptor of a file that is open for reading; -1 for a folder or link
  const std::string& target;  // target of a symbolic link
};

// Calls `visit` for `input.from` and, if `input.from` is a folder, for all files, folders and links in it at
// any depth. A folder comes before its content; siblings are sorted by the bytes of their names. If `visit`
// returns false, the walk stops. Returns the last result of `visit`. Other processes may write to the folder
// at the same time. Hence walk() opens every entry relative to its folder, and follows no symbolic link. A
// symbolic link in the path `input.from` is an error. The number of open descriptors does not depend on the
// depth of the folder. Throws Error(refused) if an entry cannot be read, or if it changed its kind after its
// folder was listed.
bool walk(const Input& input, const std::function<bool(const Found&)>& visit);

// Passes the file's content to `sink` in pieces, `found.status.st_size` bytes in total. Returns false if
// `sink` has returned false. Throws Error(refused) if the file cannot be read or has become shorter than
// `st_size`.
bool read_file(const Found& found, const std::function<bool(std::string_view)>& sink);

}  // namespace combu::inputs
