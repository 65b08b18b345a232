#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "combu/base.hpp"
#include "combu/inputs.hpp"
#include "inputs/walk.hpp"

namespace combu::inputs {

// Computes a content_digest() from the files, folders and links of an input, in the order of walk().
class Content {
 public:
  // `name`: the path relative to the input, "/a/b"; empty for the input itself.
  void add(std::string_view name, const LeftThing& thing);
  // For use during walk(): adds an entry. If that is a file, the caller then adds its bytes.
  void add(const Found& found);
  void add(std::string_view bytes) { file_->sum.add(bytes); }
  // Returns "sha256:…". No add() may follow.
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
