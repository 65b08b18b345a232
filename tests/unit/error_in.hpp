#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "combu/base.hpp"

namespace combu::test {

inline Error error_in(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ErrorKind::cancelled, "", "nothing was thrown"};
}

}  // namespace combu::test
