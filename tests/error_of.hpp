#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>

#include "combu/base.hpp"

namespace combu::test {

// Returns the error that the call throws; nullopt if it throws none.
inline std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// Returns the error that the call throws. Fails the test if it throws none.
inline Error error_in(const std::function<void()>& call) {
  if (auto error = error_of(call)) return *std::move(error);
  ADD_FAILURE() << "nothing was thrown";
  return {ErrorKind::cancelled, "", "nothing was thrown"};
}

}  // namespace combu::test
