#pragma once

#include <string>

#include "combu/base.hpp"

namespace combu::outputs {

// Removes `name` in the open folder `above`, with all its content, as far as possible. Follows no link. The
// number of open descriptors does not depend on the depth of the folders. Returns an empty string if
// everything was removed, or if `name` does not exist. If an entry stays, returns an error message with the
// reason and the path of the first such entry. In the message, that path begins with `shown`, the path of
// `above`.
[[nodiscard]] std::string remove_tree(int above, const std::string& name, const std::string& shown);

// Like remove_tree(), but throws Error(refused) if an entry stays.
void expect_removed(int above, const std::string& name, const std::string& shown);

}  // namespace combu::outputs
