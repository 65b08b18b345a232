#pragma once

#include <sys/resource.h>

namespace combu::test {

// Sets this process's soft limit of a resource (getrlimit(2)) during the lifetime of the object.
class SoftLimit {
 public:
  SoftLimit(int resource, rlim_t limit) : resource_(resource) {
    getrlimit(resource_, &before_);
    const rlimit now{.rlim_cur = limit, .rlim_max = before_.rlim_max};
    setrlimit(resource_, &now);
  }
  ~SoftLimit() { setrlimit(resource_, &before_); }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;

 private:
  int resource_;
  rlimit before_{};
};

}  // namespace combu::test
