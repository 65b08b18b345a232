#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "combu/base.hpp"

namespace combu {

void Descriptor::close() {
  if (is_open()) ::close(std::exchange(number_, -1));
}

Descriptor reopen(const Descriptor& opened, int how) {
  return Descriptor(::open(("/proc/self/fd/" + std::to_string(opened.number())).c_str(), how | O_CLOEXEC));
}

}  // namespace combu
