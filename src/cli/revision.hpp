#pragma once

#include <string>

namespace combu {

struct Revision {
  std::string commit;  // empty: the folder is under no version control that is known here
  bool dirty = false;  // what is tracked has been changed since
};

// Asks git, where there is one. Forks: call it before there are threads.
[[nodiscard]] Revision revision_of(const std::string& folder);

}  // namespace combu
