#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "combu/base.hpp"
#include "combu/inputs.hpp"
#include "inputs/walk.hpp"

namespace combu::inputs {

// What content_digest() tells apart, thing by thing in a walk's order.
class Content {
 public:
  // `name`: below the input, "/a/b"; empty of the input itself.
  void add(std::string_view name, const LeftThing& thing);
  // As a walk comes by it: a thing, and if that is a file its bytes.
  void add(const Found& found);
  void add(std::string_view bytes) { file_->sum.add(bytes); }
  // "sha256:…". Nothing is added after it.
  [[nodiscard]] std::string digest();

 private:
  struct File {
    std::string name;
    LeftThing thing;
    Sha256 sum = {};
  };
  void end_file();
  void add_text(std::string_view text);

  Sha256 sum_;
  std::optional<File> file_;
};

}  // namespace combu::inputs
