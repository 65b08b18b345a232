#pragma once

#include <string>

#include "combu/base.hpp"

namespace combu::outputs {

// Removes `name`, in the open folder `above`, with everything in it, as far as possible. Follows no link. The
// number of open descriptors does not depend on the depth. Succeeds if `name` does not exist. Returns "PATH:
// cannot be removed: WHY" for the first entry that stays, where PATH begins with `shown`, the path of
// `above`. Returns an empty string if everything was removed.
[[nodiscard]] std::string remove_tree(int above, const std::string& name, const std::string& shown);

// Like remove_tree(), but throws Error(refused) if anything stays.
void expect_removed(int above, const std::string& name, const std::string& shown);

}  // namespace combu::outputs
