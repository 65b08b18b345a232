#pragma once

#include <string>
#include <string_view>

#include "combu/base.hpp"
#include "inputs/walk.hpp"

namespace combu::inputs {

// What content_digest() tells apart, as a walk comes by it: a thing, and if that is a file its bytes.
class Content {
 public:
  void add(const Found& found);
  void add(std::string_view bytes) { sum_.add(bytes); }
  // "sha256:…". Nothing is added after it.
  [[nodiscard]] std::string digest() { return "sha256:" + sum_.text(); }

 private:
  void add_text(std::string_view text);

  Sha256 sum_;
};

}  // namespace combu::inputs
