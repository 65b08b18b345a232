#include <unistd.h>

#include <utility>

#include "combu/base.hpp"

namespace combu {

void Descriptor::close() {
  if (is_open()) ::close(std::exchange(number_, -1));
}

}  // namespace combu
