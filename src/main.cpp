#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>

#include "combu/cli.hpp"
#ifdef COMBU_STATIC
#include "self_contained.hpp"
#endif

namespace {

// Raises the limit of open files to the hard limit, but to at most 65,536. Each start, each log and each
// output needs file descriptors. A higher limit would burden child processes: some of them close all possible
// descriptors, or keep a table of them.
void raise_limit_of_descriptors() {
  constexpr rlim_t k_enough = 65536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, k_enough));
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  // With a fixed threshold, glibc returns every freed block of at least 128 KiB to the system. By default
  // glibc raises the threshold while a program runs. combu would then keep the large blocks in which an
  // experiment was evaluated.
  constexpr int k_large = 128 * 1024;
  (void)mallopt(M_MMAP_THRESHOLD, k_large);  // NOLINT(concurrency-mt-unsafe): no thread has been started
  raise_limit_of_descriptors();
#ifdef COMBU_STATIC
  combu::stay_self_contained();
#endif
  return combu::cli_main(argc, argv);
}
