#pragma once
#include <string>

namespace combu::agent {

// Removes an entry of a folder with everything in it, also from folders without permissions, as far as the
// system allows. Never follows symbolic links, and has few descriptors open whatever the depth of the tree.
void remove_tree(int folder, const std::string& name);

}  // namespace combu::agent
