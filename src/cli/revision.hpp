#pragma once

#include <string>

#include "combu/record.hpp"

namespace combu {

struct Revision {
  std::string commit;  // empty: the folder is under no version control, or working_tree.problem says more
  bool dirty = false;  // what is tracked has been changed since, or could not be compared
  WorkingTree working_tree;
};

// Asks git, where there is one. What may hold secrets is not looked into: the `env_file`s of `evaluated`, and
// what is called like keys and passwords. Submodules are ignored. No filter of git's settings is applied: a
// file that has one and that git would have to filter to compare it, is compared by the index only. SIGINT
// and SIGTERM end the process as elsewhere, and git with it. Call it while there is no `Interrupts`.
[[nodiscard]] Revision revision_of(const std::string& folder, const std::string& evaluated);

}  // namespace combu
