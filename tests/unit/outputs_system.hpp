#pragma once
// System calls as the tests of outputs have them: outputs_faults_test.cpp defines them in place of the
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

  std::string unremovable = {};  // the name of what cannot be removed; empty: nothing
  bool is_out_of_descriptors = false;
  bool is_disk_full = false;       // nothing can be written to a file
  bool has_links = true;           // the file system, symbolic ones
  bool has_exchange = true;        // renameat2(2) can exchange two names, and keep what has a name
  bool fails_to_sync = false;      // fsync(2)
  bool fails_to_sync_all = false;  // syncfs(2)
  Clones clones = Clones::as_they_are;
  std::function<void()> before_lock = {};  // called once, before the next flock(2)

  std::set<ino_t> synced = {};                            // by fsync(2)
  int file_systems_synced = 0;                            // by syncfs(2)
  std::vector<std::pair<off_t, off_t>> written_out = {};  // offsets and sizes, by sync_file_range(2)
  int clones_wanted = 0;
};

inline System the_system;        // NOLINT: the calls of C have no other way to it
inline std::mutex system_mutex;  // NOLINT: of what the calls write

// The system is as it was when this goes.
class SystemFaults {
 public:
  SystemFaults() { the_system = {}; }
  ~SystemFaults() { the_system = {}; }
  SystemFaults(const SystemFaults&) = delete;
  SystemFaults& operator=(const SystemFaults&) = delete;
  System* operator->() { return &the_system; }
};

}  // namespace combu::test
