#pragma once

#include <string>

#include "combu/base.hpp"

namespace combu::outputs {

// Removes `name`, in the open folder `above`, with all that is in it. No link is followed, and the number of
// open descriptors does not depend on the depth. Removes as much as it can. Returns "PATH: cannot be removed:
// WHY" of the first thing that stays, where PATH begins with `shown`, the path of `above`; empty: nothing
// stays. Nothing there is success.
[[nodiscard]] std::string remove_tree(int above, const std::string& name, const std::string& shown);

// The same; throws Error(refused) if anything stays.
void expect_removed(int above, const std::string& name, const std::string& shown);

}  // namespace combu::outputs
