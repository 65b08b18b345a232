#pragma once
#include <array>

#include "combu/agent.hpp"

namespace combu::agent {

// The buffer into which all descriptors are read, one at a time.
inline std::array<char, k_part_max>& shared_buffer() {
  static std::array<char, k_part_max> buffer;
  return buffer;
}

}  // namespace combu::agent
