#pragma once
// How a use case ended.

#include <vector>

#include "combu/base.hpp"

namespace combu {

// From the best to the worst.
enum class Result {
  succeeded,
  failed,       // a trial was unsuccessful, or something was refused or could not be done
  invalid,      // the file or an option is wrong
  no_engine,    // no engine answers, or what answers is none
  interrupted,  // by a signal
};

[[nodiscard]] Result result_of(ErrorKind kind);
// The worst of several; succeeded if there are none.
[[nodiscard]] Result result_of(const std::vector<Error>& errors);

}  // namespace combu
