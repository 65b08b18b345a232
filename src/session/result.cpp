#include <algorithm>

#include "combu/session.hpp"

namespace combu {

Result result_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return Result::invalid;
    case ErrorKind::unavailable:
    case ErrorKind::timeout:
    case ErrorKind::corrupt:  // the server that answered is not an engine
      return Result::no_engine;
    default:
      return Result::failed;
  }
}

Result result_of(const std::vector<Error>& errors) {
  Result worst = Result::succeeded;
  for (const Error& error : errors) worst = std::max(worst, result_of(error.kind()));
  return worst;
}

}  // namespace combu
