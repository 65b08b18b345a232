#pragma once
// Writes a file under a temporary name, and then replaces the target file with this file.

#include <string>

namespace combu {

// A temporary file in the folder of the file to replace. The destructor removes the temporary file unless
// commit() succeeded.
class Replacement {
 public:
  // `path` is the file to replace, or a symbolic link to the file. The file need not exist. Throws
  // Error(refused) if `path` exists and is not a regular file.
  explicit Replacement(const std::string& path);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  [[nodiscard]] const std::string& beside() const { return beside_; }
  // Renames the temporary file to `path`, with the owner and the permissions of the replaced file. Throws
  // Error(refused) if the file cannot be renamed.
  void commit();

 private:
  std::string path_;
  std::string place_;
  std::string beside_;
};

}  // namespace combu
