#pragma once

#include <string>

#include "combu/base.hpp"

namespace combu::outputs {

// A temporary folder for files that can be downloaded again. The destructor removes the folder. If the
// process dies first, the next Scratch in the same parent folder removes the dead process's folder.
class Scratch {
 public:
  // Creates the folder inside `folder`. Throws Error(refused).
  explicit Scratch(const std::string& folder);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  // An absolute path without symbolic links.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor lock_;
};

}  // namespace combu::outputs
