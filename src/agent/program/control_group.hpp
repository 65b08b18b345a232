#pragma once
// Control groups with the memory controller, of version 2 or 1: the agent's own group, and in it a group for
// each attempt if the agent may make groups. Only privileged containers may.

#include <cstdint>
#include <memory>
#include <string>

#include "system.hpp"

namespace combu::agent {

// The group of an attempt. The destructor removes the group.
class AttemptGroup {
 public:
  // Makes the group in a folder that does not exist.
  explicit AttemptGroup(std::string folder);
  ~AttemptGroup();
  AttemptGroup(const AttemptGroup&) = delete;
  AttemptGroup& operator=(const AttemptGroup&) = delete;
  AttemptGroup(AttemptGroup&&) = delete;
  AttemptGroup& operator=(AttemptGroup&&) = delete;

  // The file by which a process enters the group; -1 if the group could not be made.
  [[nodiscard]] int entry() const { return entry_.get(); }
  // Number of processes of the group that the kernel has killed for lack of memory; 0 if unknown.
  [[nodiscard]] std::uint64_t oom_kills() const;
  // Peak memory of all processes together, in bytes; 0 if unknown.
  [[nodiscard]] std::uint64_t memory_peak() const;

 private:
  std::string folder_;
  Descriptor entry_;
};

class ControlGroup {
 public:
  // Finds the group of this process. If `may_divide`, makes groups for attempts possible: with version 2,
  // moves this process into a group of its own. Only the first process of a container may divide its group.
  explicit ControlGroup(bool may_divide);
  [[nodiscard]] bool is_divided() const { return is_divided_; }
  // As AttemptGroup::oom_kills(), for the group of this process.
  [[nodiscard]] std::uint64_t oom_kills();
  // Returns nullptr if is_divided() is false, or if the group cannot be made.
  [[nodiscard]] std::unique_ptr<AttemptGroup> make_group(std::uint64_t attempt) const;

 private:
  [[nodiscard]] bool divide() const;

  std::string folder_;
  bool is_version2_ = false;
  bool is_divided_ = false;
  Descriptor events_;
  std::string text_;
};

}  // namespace combu::agent
