#pragma once
// Fake system calls for tests of outputs. outputs_faults_test.cpp defines the functions in place of the
// system's.

#include <sys/types.h>

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace combu::test {

struct System {
  enum class Clones { as_they_are, none, all };

  std::string unremovable = {};  // a name whose removal fails; empty: none
  bool is_out_of_descriptors = false;
  bool is_disk_full = false;       // writing to a file fails
  bool has_links = true;           // the file system supports symbolic links
  bool has_exchange = true;        // the file system supports the flags of renameat2(2)
  bool fails_to_sync = false;      // fsync(2) fails
  bool fails_to_sync_all = false;  // syncfs(2) fails
  Clones clones = Clones::as_they_are;
  std::function<void()> before_lock = {};  // called once, before the next flock(2)

  std::set<ino_t> synced = {};                            // inodes, by fsync(2)
  int file_systems_synced = 0;                            // number of calls of syncfs(2)
  std::vector<std::pair<off_t, off_t>> written_out = {};  // offsets and sizes, by sync_file_range(2)
  int clones_wanted = 0;
};

inline System the_system;        // NOLINT: functions of C have no other access to it
inline std::mutex system_mutex;  // NOLINT: protects the fields that the functions write

// Resets the fake system at the beginning and at the end of a test.
class SystemFaults {
 public:
  SystemFaults() { the_system = {}; }
  ~SystemFaults() { the_system = {}; }
  SystemFaults(const SystemFaults&) = delete;
  SystemFaults& operator=(const SystemFaults&) = delete;
  System* operator->() { return &the_system; }
};

}  // namespace combu::test
