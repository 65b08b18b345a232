#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>

#include "combu/cli.hpp"
#ifdef COMBU_STATIC
#include "self_contained.hpp"
#endif

namespace {

// As many open files as the system allows: each start, each log and each of the outputs needs some. The
// bound is for programs that combu executes, since some of them close, or keep a list of, all that there may
// be.
void raise_limit_of_descriptors() {
  constexpr rlim_t k_enough = 65536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, k_enough));
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  // What is large goes back to the system when it is freed: glibc would keep ever larger pieces of what an
  // experiment was read from.
  constexpr int k_large = 128 * 1024;
  (void)mallopt(M_MMAP_THRESHOLD, k_large);  // NOLINT(concurrency-mt-unsafe): no thread has been started
  raise_limit_of_descriptors();
#ifdef COMBU_STATIC
  combu::stay_self_contained();
#endif
  return combu::cli_main(argc, argv);
}
