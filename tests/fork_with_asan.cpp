// The address sanitizer's allocator has locks that the child of fork() needs (jsonnet/child.cpp). Before
// version 18 of Clang, the sanitizer does not acquire them before a fork. If another thread holds one at that
// moment, the child waits forever. Here a handler acquires them.

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
