#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "combu/base.hpp"
#include "combu/inputs.hpp"
#include "inputs/walk.hpp"

namespace combu::inputs {

// Computes a content_digest() from the files, folders and links of an input, which add() must receive in the
// order of walk().
class Content {
 public:
  // `name` is the path relative to the input, such as "/a/b", or empty for the input itself.
  void add(std::string_view name, const ContentEntry& thing);
  // Adds an entry that walk() has found. If the entry is a file, the caller must then add the bytes of the
  // file.
  void add(const Found& found);
  void add(std::string_view bytes) { file_->sum.add(bytes); }
  // Returns "sha256:…". After digest(), add() must not be called.
  [[nodiscard]] std::string digest();

 private:
  struct File {
    std::string name;
    ContentEntry thing;
    Sha256 sum = {};
  };
  void end_file();
  void add_text(std::string_view text);

  Sha256 sum_;
  std::optional<File> file_;
};

}  // namespace combu::inputs
