#pragma once

#include <string>

#include "combu/record.hpp"

namespace combu {

struct Revision {
  std::string commit;  // empty: the folder is under no version control that is known here
  bool dirty = false;  // what is tracked has been changed since
  WorkingTree working_tree;
};

// Asks git, where there is one. What may hold secrets is not looked into: the `env_file`s of `evaluated`, and
// what is called like keys and passwords. Forks: call it before there are threads.
[[nodiscard]] Revision revision_of(const std::string& folder, const std::string& evaluated);

}  // namespace combu
