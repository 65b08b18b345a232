#pragma once

#include <string>

#include "combu/record.hpp"

namespace combu {

struct Revision {
  std::string commit;  // empty: the folder is under no version control that is known here
  bool dirty = false;  // what is tracked has been changed since, or could not be compared
  WorkingTree working_tree;
  std::string problem;  // why not all of it is known, for the person; empty: it is
};

// Asks git, where there is one. What may hold secrets is not looked into: the `env_file`s of `evaluated`, and
// what is called like keys and passwords. Submodules are ignored. No filter of git's settings is applied: a
// file that has one and that git would have to filter to compare it, is compared by the index only.
[[nodiscard]] Revision revision_of(const std::string& folder, const std::string& evaluated);

}  // namespace combu
