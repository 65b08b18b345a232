#pragma once

#include <string>

#include "combu/base.hpp"

namespace combu::outputs {

// A folder for what can be had again. It goes with this, or, where the process dies before, when another one
// makes its own beside it.
class Scratch {
 public:
  // In `folder`. Throws Error(refused).
  explicit Scratch(const std::string& folder);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  // Absolute, without a symbolic link.
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  Descriptor lock_;
};

}  // namespace combu::outputs
