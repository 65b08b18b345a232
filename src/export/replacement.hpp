#pragma once
// A file that takes another one's place when it is whole.

#include <string>

namespace combu {

// It is written beside the place, and removed unless commit() has succeeded.
class Replacement {
 public:
  // `path`: the place, or a symbolic link to it. Throws Error(refused) where something else than a file is.
  explicit Replacement(const std::string& path);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  [[nodiscard]] const std::string& beside() const { return beside_; }
  // With the owner and the permissions of what is there. Throws Error(refused).
  void commit();

 private:
  std::string path_;
  std::string place_;
  std::string beside_;
};

}  // namespace combu
