#include <malloc.h>

#include "combu/cli.hpp"
#ifdef COMBU_STATIC
#include "self_contained.hpp"
#endif

int main(int argc, char** argv) {
  // What is large goes back to the system when it is freed: glibc would keep ever larger pieces of what an
  // experiment was read from.
  constexpr int k_large = 128 * 1024;
  (void)mallopt(M_MMAP_THRESHOLD, k_large);  // NOLINT(concurrency-mt-unsafe): no thread has been started
#ifdef COMBU_STATIC
  combu::stay_self_contained();
#endif
  return combu::cli_main(argc, argv);
}
