// The address sanitizer's allocator has locks that the child of fork() needs (jsonnet/child.cpp). Before
// version 18, the sanitizer does not take them before a fork. If another thread then holds one, the child
// waits for ever. Here the sanitizer takes them, as version 18 does (compiler-rt's asan_posix.cpp).

#include <pthread.h>

namespace __asan {  // NOLINT(bugprone-reserved-identifier): names of the sanitizer
void asan_mz_force_lock();
void asan_mz_force_unlock();
}  // namespace __asan
namespace __sanitizer {  // NOLINT(bugprone-reserved-identifier): names of the sanitizer
void StackDepotLockAll();
void StackDepotUnlockAll();
}  // namespace __sanitizer

namespace {

void lock() {
  __asan::asan_mz_force_lock();
  __sanitizer::StackDepotLockAll();
}

void unlock() {
  __sanitizer::StackDepotUnlockAll();
  __asan::asan_mz_force_unlock();
}

[[maybe_unused]] const int installed = ::pthread_atfork(&lock, &unlock, &unlock);

}  // namespace
