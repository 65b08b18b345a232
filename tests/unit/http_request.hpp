#pragma once

#include <string>
#include <utility>

#include "combu/http.hpp"

namespace combu::test {

inline HttpRequest get(std::string target) {
  HttpRequest request;
  request.target = std::move(target);
  request.silence_max = Seconds{20};
  return request;
}

}  // namespace combu::test
